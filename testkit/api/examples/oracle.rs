//! Asks a server what users with one right each may do, by paths of every shape, and
//! prints how it decided: `user|method|url|decision`. Two servers are compared by their
//! lines.
//!
//! cargo run -p optik-api-testkit --example oracle -- --server URL --token T
#![expect(clippy::print_stdout, reason = "the table is for a file")]

use clap::Parser;
use optik_api_testkit::oracle::{self, OracleRequest};
use optik_api_testkit::{ApiResponse, Client, Target};

#[derive(Parser)]
struct Args {
    #[arg(long)]
    server: String,
    #[arg(long)]
    token: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let client = Client::new(Target::parse(&args.server, args.token.clone())?);
    oracle::set_up(&client).await.map_err(|e| e.to_string())?;
    for right in oracle::permissions() {
        let user = right.user();
        for sent in oracle::requests(&right) {
            let Some(dry) = dry(&sent) else { continue };
            let answer = client.execute_until(dry.request(&user), is_event).await;
            let decision = decision(&answer.map_err(|e| e.to_string())?);
            println!("{user}|{}|{}|{decision}", dry.method, dry.url);
        }
    }
    Ok(())
}

/// The request as a dry run, so that it changes nothing and the next request finds an unchanged
/// state. None for paths that clients and servers may parse differently, and for requests that take
/// long to end.
fn dry(sent: &OracleRequest) -> Option<OracleRequest> {
    let plain = !sent.url.contains(['?', '%', ';']) && !sent.url.contains("..");
    let known = !matches!(sent.method, "PROPFIND" | "WATCH" | "TRACE" | "OPTIONS");
    let connects = ["/exec", "/attach", "/portforward", "/log", "/proxy"];
    let quiet = !connects.iter().any(|part| sent.url.contains(part));
    (plain && known && quiet).then(|| sent.as_dry_run())
}

fn is_event(body: &[u8]) -> bool {
    body.starts_with(b"{\"type\":") && body.ends_with(b"\n")
}

/// The authorization decision: whether the request was rejected before any further validation.
fn decision(answer: &ApiResponse) -> &'static str {
    match answer.status {
        401 => "unauthorized",
        403 => "forbidden",
        404 => "not found",
        405 => "no such method",
        _ => "allowed",
    }
}
