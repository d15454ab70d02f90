//! Compares the responses to a script of requests with those of etcd 3.6.8.

mod support;

use support::{Server, script};

const ETCD_SAYS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/etcd/etcd-3.6.8.txt"
));

/// Intended differences from etcd; each one is explained.
const DIFFERENT_ON_PURPOSE: &[AllowedDifference] = &[AllowedDifference {
    // etcd caches a hash from the compaction to revision 0, and returns it for a request for the
    // newest revision.
    request: "hash",
    etcd: "compact_revision: -1, hash_revision: 0 }",
    ours: "compact_revision: 36, hash_revision: 36 }",
}];

struct AllowedDifference {
    request: &'static str,
    etcd: &'static str,
    ours: &'static str,
}

#[tokio::test]
async fn responses_match_etcd_3_6_8() {
    let server = Server::start().await;
    let we_say = script::run(server.channel.clone()).await;
    let mut differences = Vec::new();
    let mut request = "";
    let mut etcd_lines = ETCD_SAYS.lines();
    for ours in we_say.lines() {
        let etcd = etcd_lines.next().unwrap_or("(etcd has said everything)");
        if !ours.starts_with("    ") {
            request = ours;
        }
        let meant = DIFFERENT_ON_PURPOSE.iter().any(|difference| {
            difference.request == request
                && etcd.ends_with(difference.etcd)
                && ours.ends_with(difference.ours)
        });
        if ours != etcd && !meant {
            differences.push(format!("{request}\n  etcd {etcd}\n  ours {ours}"));
        }
    }
    differences.extend(etcd_lines.map(|line| format!("we do not say: {line}")));
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    server.stop().await;
}
