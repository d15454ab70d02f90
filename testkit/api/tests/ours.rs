//! Our own server, on every engine, by the checks that a real kube-apiserver passes.

use optik_api_testkit::{Contract, Need, ServerCapabilities, Target, suite, wire_checklist};
use optik_server_testkit::{TestEngine, TestServer};
use optik_store::{CompactError, Origin, Put, Store, Txn};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// What is not built yet. A check that needs it is reported as left out.
const MISSING_NEEDS: &[Need] = &[Need::SlowMinutes];

/// Assertions of the contracts that our server is known to keep. The lists only grow.
const PROVEN_ASSERTIONS: &[(Contract, &[RangeInclusive<u16>])] = &[
    (Contract::Concurrency, CONCURRENCY),
    (Contract::Merging, MERGING),
    (Contract::Extension, EXTENSION),
];

const MERGING: &[RangeInclusive<u16>] = &[1..=120];

const EXTENSION: &[RangeInclusive<u16>] = &[
    34..=34,
    39..=44,
    46..=47,
    57..=58,
    60..=79,
    88..=90,
    94..=95,
    97..=105,
];

const CONCURRENCY: &[RangeInclusive<u16>] = &[1..=82, 84..=97, 99..=112, 114..=118];

/// The same for the checklist of the wire.
const WIRE_PROVEN: &[std::ops::RangeInclusive<u16>] = &[
    1..=11,
    15..=24,
    26..=27,
    30..=31,
    33..=55,
    58..=71,
    75..=78,
    80..=83,
    87..=88,
];

async fn check(engine: TestEngine) {
    let server = TestServer::start_bare(engine).await;
    let store = server.store.clone();
    let traits = ServerCapabilities {
        lacks: MISSING_NEEDS.iter().copied().collect(),
        compact: Some(Arc::new(move || {
            let store = store.clone();
            Box::pin(async move { compact(&store).await })
        })),
        ..ServerCapabilities::default()
    };
    let target = Target::parse(&server.url, None).unwrap();
    let report = suite::run(&target, &traits, "").await.unwrap();
    assert!(report.is_clean(), "{report}");
    for (contract, known) in PROVEN_ASSERTIONS {
        let proven = report.proven(*contract);
        for number in known.iter().cloned().flatten() {
            let prefix = contract.prefix();
            assert!(
                proven.contains(&number),
                "{prefix}{number} is not proven:\n{report}"
            );
        }
    }
    let proven = wire_checklist::proven_assertions(&report);
    for number in WIRE_PROVEN.iter().cloned().flatten() {
        assert!(proven.contains(&number), "wire {number} is not proven");
    }
    server.stop().await;
}

/// As the server does it every few minutes: makes a note, which moves the revision on,
/// then forgets what was before.
async fn compact(store: &Store) -> Result<u64, String> {
    let note = Txn::put(Put::new("compact_rev_key", "now"));
    let noted = store.commit(note, Origin::system("compact")).await;
    let revision = noted.map_err(|error| error.to_string())?.revision;
    match store.compact(revision).await {
        // Another check was faster, and went further.
        Ok(()) | Err(CompactError::Compacted { .. }) => Ok(revision.get()),
        Err(error) => Err(error.to_string()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn api_suite_passes_in_memory() {
    check(TestEngine::Memory).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_suite_passes_on_disk() {
    check(TestEngine::Disk).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn api_suite_passes_on_etcd_engine() {
    check(TestEngine::EtcdFacade).await;
}
