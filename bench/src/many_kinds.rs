//! `optik-bench many-kinds`: the cost of a thousand CustomResourceDefinitions (CRDs) for a server:
//! memory, start time, and latency of discovery.

use crate::error::BenchError;
use crate::process_memory::status_bytes;
use crate::server_program::ServerProgram;
use clap::Args;
use optik_api_testkit::{Client, Request, Target};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

#[derive(Debug, Args)]
pub(crate) struct ManyKindsBench {
    #[command(flatten)]
    server: ServerProgram,
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
/// The number of discovery requests; the median counts.
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
    async fn start(program: &Path, options: &ManyKindsBench) -> Result<Self, String> {
        let began = Instant::now();
        let address = format!("127.0.0.1:{}", options.port);
        let child = Command::new(program)
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--listen-http",
                &address,
            ])
            .arg("--data")
            .arg(&options.data)
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| format!("cannot start {}: {cause}", program.display()))?;
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

    /// Resident memory in kilobytes.
    fn memory(&self) -> Result<u64, String> {
        let pid = self.child.id().ok_or("it has ended")?;
        let bytes = status_bytes(pid, "VmRSS");
        let bytes = bytes.ok_or("it does not say what memory it has")?;
        Ok(bytes / 1024)
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

/// The latency of aggregated discovery, and the number of kinds of the benchmark in it.
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

#[expect(clippy::print_stdout, reason = "the result is data")]
pub(crate) async fn run(options: ManyKindsBench) -> Result<(), BenchError> {
    let program = options.server.path()?;
    let measured = measure(&program, &options).await;
    println!("{}", measured.map_err(BenchError::from_message)?);
    Ok(())
}

async fn measure(program: &Path, options: &ManyKindsBench) -> Result<String, String> {
    // The first start creates certificates, which this benchmark does not measure.
    OptikProcess::start(program, options).await?.stop().await?;
    let empty = OptikProcess::start(program, options).await?;
    let (before, idle) = (empty.took, empty.memory()?);
    let began = Instant::now();
    make(&empty.client, options.count).await?;
    let made = began.elapsed();
    let grown = empty.memory()?;
    empty.stop().await?;
    let full = OptikProcess::start(program, options).await?;
    let (time, kinds) = discovery(&full.client).await?;
    let text = format!(
        "{} definitions made in {made:.2?}: memory {} MB, then {} MB; after a start with them, \
         which takes {:.0?} instead of {before:.0?}: {} MB; aggregated discovery of {kinds} of \
         them {time:.2?}",
        options.count,
        idle / 1024,
        grown / 1024,
        full.took,
        full.memory()? / 1024,
    );
    full.stop().await?;
    Ok(text)
}
