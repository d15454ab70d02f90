//! The suite on the project's own server with every engine; kube-apiserver passes the same checks.

use optik_api_testkit::{Need, ServerCapabilities, Target, suite};
use optik_server_testkit::{TestEngine, TestServer};
use optik_store::{CompactError, Origin, Put, Store, Txn};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Features not implemented yet. A check that needs one is reported as skipped.
const MISSING_NEEDS: &[Need] = &[Need::SlowMinutes];

/// Assertions whose checks need a missing feature. The list only shrinks.
const NOT_PROVEN: &[&str] = &["CONC-98"];

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
    let unproven: Vec<&str> = report.unproven("").into_iter().collect();
    assert_eq!(unproven, NOT_PROVEN, "{report}");
    let covered: BTreeSet<&str> = suite::all().flat_map(|check| check.ids).copied().collect();
    let proven = report.proven("").len();
    assert_eq!(proven + NOT_PROVEN.len(), covered.len(), "{report}");
    server.stop().await;
}

/// As the periodic compaction of the server: writes a record, which advances the revision, then
/// compacts the revisions before it.
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
