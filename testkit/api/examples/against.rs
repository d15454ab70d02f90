//! Runs the API suite against a server and prints the report.

use clap::Parser;
use optik_api_testkit::{Compact, Need, ServerCapabilities, Target, suite};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::process::Command;

#[derive(Parser)]
struct Args {
    /// For example https://127.0.0.1:6443; any certificate will do.
    #[arg(long)]
    server: String,
    #[arg(long)]
    token: Option<String>,
    /// The server's etcd, to compact it.
    #[arg(long)]
    etcd: Option<String>,
    #[arg(long, default_value = "etcdctl")]
    etcdctl: String,
    /// What the server has not, separated by commas: patch, apply, deployments, …
    #[arg(long, value_delimiter = ',')]
    lacks: Vec<String>,
    /// Also run checks that take minutes.
    #[arg(long)]
    slow: bool,
    #[arg(long, default_value_t = 8)]
    concurrency: usize,
    /// Print how long every check took.
    #[arg(long)]
    times: bool,
    /// The id of an assertion (CONC-12), or a part of the names of checks.
    #[arg(default_value = "")]
    filter: String,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the report is what this is for")]
async fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args).await {
        Ok((report, clean)) => {
            println!("{report}");
            ExitCode::from(u8::from(!clean))
        }
        Err(cause) => {
            println!("{cause}");
            ExitCode::from(2)
        }
    }
}

async fn run(args: &Args) -> Result<(String, bool), String> {
    let target = Target::parse(&args.server, args.token.clone())?;
    let traits = traits(args)?;
    let report = suite::run(&target, &traits, &args.filter)
        .await
        .map_err(|failure| failure.to_string())?;
    let mut text = String::new();
    if args.times {
        for (check, _, took) in &report.checks {
            text.push_str(&format!("{:7.3} s {check:?}\n", took.as_secs_f64()));
        }
    }
    text.push_str(&report.to_string());
    Ok((text, report.is_clean()))
}

fn traits(args: &Args) -> Result<ServerCapabilities, String> {
    let mut traits = ServerCapabilities {
        concurrency: args.concurrency,
        ..ServerCapabilities::default()
    };
    if args.slow {
        traits.lacks.clear();
    }
    for name in &args.lacks {
        let need = Need::parse(name).ok_or(format!("--lacks {name}: no such need"))?;
        traits.lacks.insert(need);
    }
    if let Some(etcd) = &args.etcd {
        traits.compact = Some(compact(args.etcdctl.clone(), etcd.clone()));
    }
    Ok(traits)
}

/// Compacts an etcd, and leaves the note by which a kube-apiserver learns of it.
fn compact(etcdctl: String, endpoint: String) -> Compact {
    const NOTE: &str = "compact_rev_key";
    Arc::new(move || {
        let (etcdctl, endpoint) = (etcdctl.clone(), endpoint.clone());
        Box::pin(async move {
            let run = async |arguments: &[&str]| etcd(&etcdctl, &endpoint, arguments).await;
            let answer = run(&["put", NOTE, "0", "-w", "json"]).await?;
            let revision = revision_of(&answer).ok_or(format!("no revision: {answer}"))?;
            let at = revision.to_string();
            run(&["compact", &at]).await?;
            run(&["put", NOTE, &at]).await?;
            Ok(revision)
        })
    })
}

/// `{"header":{…,"revision":17,…}}`
fn revision_of(answer: &str) -> Option<u64> {
    let (_, rest) = answer.split_once("\"revision\":")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

async fn etcd(etcdctl: &str, endpoint: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(etcdctl)
        .args(["--endpoints", endpoint])
        .args(arguments)
        .output()
        .await
        .map_err(|cause| format!("{etcdctl}: {cause}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
