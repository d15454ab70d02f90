//! In place of etcd: the store alone, behind etcd's v3 gRPC.

use super::{Flags, Grammar, Program, last};

pub(super) const PROGRAM: Program = Program {
    name: "etcd",
    version: "etcd Version: 3.6.8",
    grammar: Grammar {
        table: include_str!("etcd.txt"),
        one_dash: true,
        short: &[],
    },
    exit_usage: 2,
    refused: &[
        ("auto-tls", PLAIN),
        ("cert-file", PLAIN),
        ("client-cert-auth", PLAIN),
        ("key-file", PLAIN),
        ("trusted-ca-file", PLAIN),
        ("discovery", ALONE),
        ("discovery-endpoints", ALONE),
        ("discovery-srv", ALONE),
        ("force-new-cluster", ALONE),
    ],
    renamed: &["data-dir", "listen-client-urls", "unsafe-no-fsync"],
    translate,
};

const PLAIN: &str = "Optik's etcd speaks no TLS; it listens on this machine only";
const ALONE: &str = "Optik's etcd is always the only member";

/// etcd compacts when it is told to; ours would do so by itself after minutes.
const HISTORY: &str = "--history-age=8760h";

fn translate(flags: &Flags) -> Result<Vec<String>, String> {
    if last(flags, "initial-cluster").is_some_and(|members| members.contains(',')) {
        return Err(format!("--initial-cluster: {ALONE}"));
    }
    let name = last(flags, "name").unwrap_or("default");
    let data = last(flags, "data-dir").filter(|data| !data.is_empty());
    let data = data.map_or_else(|| format!("{name}.etcd"), str::to_owned);
    let urls = last(flags, "listen-client-urls").unwrap_or("http://localhost:2379");
    let mut words = vec![
        "--etcd-only".to_owned(),
        format!("--etcd-listen={}", listen(urls)?),
        format!("--data={data}"),
        HISTORY.to_owned(),
    ];
    if last(flags, "unsafe-no-fsync") == Some("true") {
        words.push("--durability=process-crash".to_owned());
    }
    Ok(words)
}

/// The address in a URL, by which `optik serve` calls it.
fn listen(urls: &str) -> Result<String, String> {
    let refuse = |reason: &str| Err(format!("--listen-client-urls {urls}: {reason}"));
    if urls.contains(',') {
        return refuse("Optik's etcd listens on one address");
    }
    let Some(authority) = urls.strip_prefix("http://") else {
        return refuse(PLAIN);
    };
    let authority = authority.trim_end_matches('/');
    let Some((host, port)) = authority.rsplit_once(':') else {
        return refuse("it names no port");
    };
    let host = if host == "localhost" {
        "127.0.0.1"
    } else {
        host
    };
    Ok(format!("{host}:{port}"))
}
