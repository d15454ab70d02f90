//! What a thousand custom resource definitions cost a server: memory, the time it takes to
//! start, and to say what there is.

use clap::Parser;
use optik_api_testkit::{Client, Request, Target, print_result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

#[derive(Parser)]
struct Args {
    /// The server's program.
    #[arg(long)]
    optik: PathBuf,
    /// An empty directory for its data.
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 7902)]
    port: u16,
    #[arg(long, default_value_t = 1000)]
    count: usize,
}

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/// So often discovery is asked for; the middle one counts.
const DISCOVERY_SAMPLES: usize = 9;

/// Forty fields, as definitions have them: with words for people, and bounds.
fn definition(number: usize) -> Value {
    let field = json!({"type": "string", "description": "x".repeat(60), "maxLength": 64,
        "pattern": "^[a-z]*$"});
    let fields = (0..40).map(|at| (format!("f{at}"), field.clone()));
    let fields: serde_json::Map<String, Value> = fields.collect();
    let (group, plural) = (format!("g{}.test", number % 50), format!("things{number}"));
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")}, "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("Thing{number}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": fields}}}}}],
        },
    })
}

/// A server that runs.
struct OptikProcess {
    child: Child,
    client: Client,
    /// From the start until it was ready.
    took: Duration,
}

impl OptikProcess {
    async fn start(args: &Args) -> Result<Self, String> {
        let began = Instant::now();
        let address = format!("127.0.0.1:{}", args.port);
        let child = Command::new(&args.optik)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--listen-http",
                &address,
            ])
            .arg("--data")
            .arg(&args.data)
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| format!("cannot start {}: {cause}", args.optik.display()))?;
        let client = Client::new(Target::parse(&format!("http://{address}"), None)?);
        let mut pulse = tokio::time::interval(Duration::from_millis(2));
        loop {
            if client.get("/readyz").await.is_ok_and(|it| it.status == 200) {
                break;
            }
            pulse.tick().await;
        }
        let took = began.elapsed();
        Ok(Self {
            child,
            client,
            took,
        })
    }

    /// What it has in memory, in kilobytes.
    fn memory(&self) -> Result<u64, String> {
        let pid = self.child.id().ok_or("it has ended")?;
        let path = Path::new("/proc").join(pid.to_string()).join("status");
        let text = std::fs::read_to_string(path).map_err(|cause| cause.to_string())?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next());
        number
            .and_then(|number| number.parse().ok())
            .ok_or_else(|| "it does not say what memory it has".into())
    }

    async fn stop(mut self) -> Result<(), String> {
        let pid = self.child.id().ok_or("it has ended")?.to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status().await;
        told.map_err(|cause| cause.to_string())?;
        self.child.wait().await.map_err(|cause| cause.to_string())?;
        Ok(())
    }
}

async fn make(client: &Client, count: usize) -> Result<(), String> {
    for number in 0..count {
        let made = client.post(DEFINITIONS, &definition(number)).await;
        let made = made.map_err(|failure| failure.to_string())?;
        if made.status != 201 {
            return Err(format!("{}: {}", made.status, made.text()));
        }
    }
    Ok(())
}

/// How long aggregated discovery takes, and how many kinds it has of ours.
async fn discovery(client: &Client) -> Result<(Duration, usize), String> {
    let mut times = Vec::new();
    let mut kinds = 0;
    for _ in 0..DISCOVERY_SAMPLES {
        let began = Instant::now();
        let asked = client
            .execute(Request::get("/apis").accept(AGGREGATED))
            .await;
        let answer = asked.map_err(|failure| failure.to_string())?;
        times.push(began.elapsed());
        kinds = answer.text().matches("\"resource\":\"things").count();
    }
    times.sort();
    Ok((times[DISCOVERY_SAMPLES / 2], kinds))
}

#[tokio::main]
async fn main() -> ExitCode {
    print_result(measure(Args::parse()).await)
}

async fn measure(args: Args) -> Result<String, String> {
    // The first start makes certificates, which is not what this is about.
    OptikProcess::start(&args).await?.stop().await?;
    let empty = OptikProcess::start(&args).await?;
    let (before, idle) = (empty.took, empty.memory()?);
    let began = Instant::now();
    make(&empty.client, args.count).await?;
    let made = began.elapsed();
    let grown = empty.memory()?;
    empty.stop().await?;
    let full = OptikProcess::start(&args).await?;
    let (time, kinds) = discovery(&full.client).await?;
    let text = format!(
        "{} definitions made in {made:.2?}: memory {} MB, then {} MB; after a start with them, \
         which takes {:.0?} instead of {before:.0?}: {} MB; aggregated discovery of {kinds} of \
         them {time:.2?}",
        args.count,
        idle / 1024,
        grown / 1024,
        full.took,
        full.memory()? / 1024,
    );
    full.stop().await?;
    Ok(text)
}
