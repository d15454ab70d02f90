//! Makes the load, starts the runtimes, and compares what they say.

use crate::measure::{SENT, STOP, micros};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use std::error::Error;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

/// How many requests are made at the same time.
const AT_ONCE: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Drive {
    /// The address of a server without TLS.
    #[arg(long)]
    server: String,
    #[arg(long, default_value_t = 10_000)]
    objects: usize,
    /// Changes a second, one after the other.
    #[arg(long, default_value_t = 100)]
    rate: u32,
    /// Changes at that rate.
    #[arg(long, default_value_t = 500)]
    paced: usize,
    /// Changes as fast as they can be made.
    #[arg(long, default_value_t = 10_000)]
    burst: usize,
    /// The program made from `compat/go/bench`.
    #[arg(long)]
    go: Option<PathBuf>,
}

struct Runtime {
    name: &'static str,
    program: PathBuf,
    words: Vec<&'static str>,
}

impl Drive {
    pub(crate) async fn run(self) -> Result<(), Box<dyn Error>> {
        let client = Client::try_from(Config::new(self.server.parse()?))?;
        let namespace = format!("bench-{}", self.objects);
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        self.prepare(client, &namespace, &maps).await?;
        let own = std::env::current_exe()?;
        let runtime = |name, words| Runtime {
            name,
            program: own.clone(),
            words,
        };
        let mut runtimes = vec![
            runtime("ours", vec!["ours"]),
            runtime("ours, pages", vec!["ours", "--pages"]),
            runtime("kube-rs", vec!["kube-rs"]),
            runtime("kube-rs, pages", vec!["kube-rs", "--pages"]),
        ];
        if let Some(program) = &self.go {
            runtimes.push(Runtime {
                name: "controller-runtime",
                program: program.clone(),
                words: Vec::new(),
            });
        }
        println!(
            "{} objects of 1 KB, {} paced at {}/s, {} in a burst",
            self.objects, self.paced, self.rate, self.burst
        );
        for runtime in runtimes {
            let (synced, done) = self.measure(&runtime, &namespace, &maps).await?;
            self.report(runtime.name, &synced, &done);
        }
        Ok(())
    }

    async fn prepare(
        &self,
        client: Client,
        namespace: &str,
        maps: &Api<ConfigMap>,
    ) -> Result<(), kube::Error> {
        let mut new = Namespace::default();
        new.metadata.name = Some(namespace.to_owned());
        let namespaces: Api<Namespace> = Api::all(client);
        if namespaces.get_opt(namespace).await?.is_some() {
            return Ok(());
        }
        namespaces.create(&PostParams::default(), &new).await?;
        let make = |number: usize| async move {
            let map = object(number);
            maps.create(&PostParams::default(), &map).await.map(drop)
        };
        let making = stream::iter(0..self.objects).map(make);
        making.buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn measure(
        &self,
        runtime: &Runtime,
        namespace: &str,
        maps: &Api<ConfigMap>,
    ) -> Result<(Value, Value), Box<dyn Error>> {
        if maps.get_opt(STOP).await?.is_some() {
            maps.delete(STOP, &DeleteParams::default()).await?;
        }
        let objects = maps.list_metadata(&Default::default()).await?.items.len();
        let mut child = Command::new(&runtime.program)
            .args(&runtime.words)
            .args([&self.server, namespace, &objects.to_string()])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let said = child.stdout.take().ok_or("no output")?;
        let mut said = BufReader::new(said).lines();
        let synced = line(&mut said).await?;
        let mut pace = tokio::time::interval(Duration::from_secs(1) / self.rate.max(1));
        for number in 0..self.paced {
            pace.tick().await;
            self.touch(maps, number, "paced").await?;
        }
        let touch = |number| self.touch(maps, number, "burst");
        let touching = stream::iter(0..self.burst).map(touch);
        touching
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        let mut stop = ConfigMap::default();
        stop.metadata.name = Some(STOP.to_owned());
        maps.create(&PostParams::default(), &stop).await?;
        let done = line(&mut said).await?;
        child.wait().await?;
        Ok((synced, done))
    }

    async fn touch(
        &self,
        maps: &Api<ConfigMap>,
        number: usize,
        load: &str,
    ) -> Result<(), kube::Error> {
        // Spread over all objects, so that few changes are of the same one.
        let name = name(number * 7919 % self.objects);
        let sent = format!("{load}:{}", micros());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {SENT: sent}}}));
        maps.patch(&name, &PatchParams::default(), &patch)
            .await
            .map(drop)
    }

    fn report(&self, name: &str, synced: &Value, done: &Value) {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let objects = u64::try_from(self.objects).unwrap_or(1).max(1);
        let changes = u64::try_from(self.paced + self.burst).unwrap_or(1).max(1);
        let cpu = number(&done["cpu_ms"]).saturating_sub(number(&synced["cpu_ms"]));
        println!(
            "{name}: all seen after {} ms ({} objects/s, {} µs CPU each); {} KB resident, {} at peak, {} B an object; \
             change: {} µs CPU; paced p50 {} µs p99 {} µs; burst p50 {} µs p99 {} µs; {} reconciles",
            synced["ms"],
            objects * 1000 / number(&synced["ms"]).max(1),
            number(&synced["cpu_ms"]) * 1000 / objects,
            synced["rss_kb"],
            done["peak_kb"],
            number(&synced["rss_kb"]) * 1024 / objects,
            cpu * 1000 / changes,
            done["late"]["paced"]["p50_us"],
            done["late"]["paced"]["p99_us"],
            done["late"]["burst"]["p50_us"],
            done["late"]["burst"]["p99_us"],
            done["reconciles"],
        );
    }
}

async fn line(said: &mut Lines<BufReader<ChildStdout>>) -> Result<Value, Box<dyn Error>> {
    let next = tokio::time::timeout(Duration::from_secs(120), said.next_line()).await??;
    Ok(serde_json::from_str(&next.ok_or("it ended early")?)?)
}

fn name(number: usize) -> String {
    format!("map-{number:06}")
}

fn object(number: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name(number));
    let label = |key: &str, value: String| (key.to_owned(), value);
    let labels = [
        label("app", "bench".into()),
        label("shard", (number % 16).to_string()),
    ];
    map.metadata.labels = Some(labels.into());
    let data = (0..8).map(|part| (format!("key-{part}"), "x".repeat(100)));
    map.data = Some(data.collect());
    map
}
