//! `optik-bench lifecycle-rate`: the time a server takes to collect the dependents of an owner and
//! to end a namespace, and whether its memory returns to the level before.

use crate::error::BenchError;
use crate::process_memory::status_bytes;
use clap::Args;
use optik_api_testkit::bulk_objects::{BulkObjects, KINDS, maps, namespace};
use optik_api_testkit::{Client, Outcome, Target};
use optik_platform::{Clock, SystemClock};
use serde_json::json;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct LifecycleRateBench {
    /// For example https://127.0.0.1:6443; any certificate will do.
    #[arg(long)]
    server: String,
    #[arg(long)]
    token: Option<String>,
    /// Number of dependents of one owner.
    #[arg(long, default_value_t = 10_000)]
    owned: usize,
    /// How many are in a namespace.
    #[arg(long, default_value_t = 5_000)]
    filling: usize,
    /// The server's process: then its own memory is read, without the pages of files,
    /// of which there are more the more of its code has run.
    #[arg(long)]
    pid: Option<u32>,
    /// How often all of it is done.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Seconds to wait for compaction before reading the memory of the server.
    /// Give it an age of history and an interval of compaction that are shorter.
    #[arg(long, default_value_t = 30)]
    forgetting: u64,
}

struct LifecycleMeasurement {
    crowd: BulkObjects,
    clock: SystemClock,
    options: LifecycleRateBench,
}

#[expect(clippy::print_stdout, reason = "the result is data")]
pub(crate) async fn run(options: LifecycleRateBench) -> Result<(), BenchError> {
    let measured = measure(options, |line| println!("{line}")).await;
    measured.map_err(BenchError::from_message)
}

async fn measure(options: LifecycleRateBench, tell: impl Fn(String)) -> Result<(), String> {
    let target = Target::parse(&options.server, options.token.clone())?;
    let measuring = LifecycleMeasurement {
        crowd: BulkObjects::new(Client::new(target)),
        clock: SystemClock::default(),
        options,
    };
    let told = |failure: optik_api_testkit::Failure| failure.to_string();
    measuring.crowd.create_crds().await.map_err(told)?;
    let resident = measuring.resident().await.map_err(told)?;
    tell(format!(
        "before             {:7.1} MiB",
        mebibytes(resident)
    ));
    for round in 1..=measuring.options.rounds {
        tell(format!("round {round}"));
        for policy in ["Background", "Foreground"] {
            let (took, peak) = measuring.collect(round, policy).await.map_err(told)?;
            let (count, seconds) = (measuring.options.owned, took.as_secs_f64());
            tell(format!(
                "  {policy}       {count} owned objects gone after {seconds:.2} s, \
                 {:.1} MiB",
                mebibytes(peak)
            ));
        }
        let (took, peak) = measuring.end(round).await.map_err(told)?;
        let (count, seconds) = (measuring.options.filling, took.as_secs_f64());
        tell(format!(
            "  a namespace with {count} objects of {KINDS} kinds gone after {seconds:.2} s, \
             {:.1} MiB",
            mebibytes(peak)
        ));
        let resident = measuring.after_forgetting().await.map_err(told)?;
        tell(format!(
            "  forgotten        {:7.1} MiB",
            mebibytes(resident)
        ));
    }
    Ok(())
}

impl LifecycleMeasurement {
    /// Deletes an owner and waits until its dependents are collected. Prints the memory of the
    /// server while all objects existed.
    async fn collect(&self, round: usize, policy: &str) -> Outcome<(Duration, f64)> {
        let place = format!("owned-{round}-{}", policy.to_lowercase());
        self.crowd.namespace(&place).await?;
        self.crowd
            .create_owned(&place, "owner", self.options.owned)
            .await?;
        let full = self.resident().await?;
        let began = self.clock.monotonic();
        let options = json!({"propagationPolicy": policy});
        let owner = format!("{}/owner", maps(&place));
        let deleted = self.crowd.client.delete_with(&owner, &options).await?;
        deleted.has_status(200)?;
        let owned = BulkObjects::path_of_owned(&place, "owner");
        self.crowd.wait_until_empty(&owned).await?;
        self.crowd.wait_until_gone(&owner).await?;
        let took = self.clock.monotonic().since(began);
        let place = namespace(&place);
        self.crowd.client.delete(&place).await?.has_status(200)?;
        self.crowd.wait_until_gone(&place).await?;
        Ok((took, full))
    }

    /// The same with a namespace.
    async fn end(&self, round: usize) -> Outcome<(Duration, f64)> {
        let place = format!("filled-{round}");
        self.crowd.namespace(&place).await?;
        let each = self.options.filling.div_ceil(KINDS);
        self.crowd.fill_namespace(&place, each).await?;
        let full = self.resident().await?;
        let began = self.clock.monotonic();
        let place = namespace(&place);
        self.crowd.client.delete(&place).await?.has_status(200)?;
        self.crowd.wait_until_gone(&place).await?;
        Ok((self.clock.monotonic().since(began), full))
    }

    /// The memory of the server when it has had time to forget the past.
    async fn after_forgetting(&self) -> Outcome<f64> {
        let time = Duration::from_secs(self.options.forgetting);
        let mut pulse = tokio::time::interval(time.max(Duration::from_millis(1)));
        pulse.tick().await;
        pulse.tick().await;
        self.resident().await
    }

    /// The memory of the server, in bytes.
    async fn resident(&self) -> Outcome<f64> {
        if let Some(pid) = self.options.pid {
            return Ok(status_bytes(pid, "RssAnon").unwrap_or_default() as f64);
        }
        let page = self.crowd.client.get("/metrics").await?.text();
        let mut lines = page.lines();
        let found = lines.find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        Ok(found.and_then(|text| text.parse().ok()).unwrap_or_default())
    }
}

fn mebibytes(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}
