//! Guarantees of the embedded engine beyond those of the others. These checks move the clock.

use crate::key_scope::KeyScope;
use crate::timeout::within;
use futures::future::BoxFuture;
use optik_platform::{ManualClock, UnixMillis};
use optik_store::{
    LeaseError, LeaseId, Options, Origin, Put, RangeQuery, Retention, Revision, Store, Txn,
    WatchError, WatchFrom,
};
use std::sync::Arc;
use std::time::Duration;

/// A check that opens the store itself, in memory or in the directory it is given.
#[derive(Clone, Copy, Debug)]
pub struct EmbeddedCheck {
    pub name: &'static str,
    /// Panics if the promise is broken.
    pub run: fn(Options) -> BoxFuture<'static, ()>,
}

macro_rules! embedded_checks {
    ($($check:ident,)*) => {
        &[$(EmbeddedCheck {
            name: concat!("embedded::", stringify!($check)),
            run: |options| Box::pin($check(options)),
        },)*]
    };
}

/// Every check that only an embedded store can pass.
#[must_use]
pub fn embedded_only() -> &'static [EmbeddedCheck] {
    EMBEDDED
}

const EMBEDDED: &[EmbeddedCheck] = embedded_checks![
    empty_store_is_at_revision_1,
    lease_expires_to_the_millisecond,
    leases_expiring_together_take_one_revision_each,
    lease_keep_alive_counts_from_now,
    wall_clock_changes_do_not_expire_leases,
    history_is_compacted_by_age,
    wall_clock_changes_do_not_age_history,
    history_is_compacted_by_byte_size,
    event_at_compact_revision_keeps_previous_value,
    long_origins_are_truncated,
    operations_on_closed_store_fail_with_closed,
    closing_the_store_ends_watches,
    commits_carry_wall_clock_time,
];

const START: UnixMillis = UnixMillis(1_000_000_000);

async fn open(options: Options) -> (KeyScope, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(START));
    let options = Options {
        clock: Arc::<ManualClock>::clone(&clock),
        ..options
    };
    let store = Store::open(options).expect("opens");
    (KeyScope::enter(store, "embedded").await, clock)
}

async fn advance(scope: &KeyScope, clock: &ManualClock, by: Duration) {
    clock.advance(by);
    within("a tick", scope.store.tick()).await;
}

async fn attach(scope: &KeyScope, name: &str, ttl: Duration) -> LeaseId {
    let lease = scope.store.grant_lease(None, ttl).await.expect("grants");
    let put = Put {
        lease: Some(lease),
        ..scope.put_of(name, "1")
    };
    scope.commit(Txn::put(put)).await;
    lease
}

async fn empty_store_is_at_revision_1(options: Options) {
    let (scope, _) = open(options).await;
    assert_eq!(scope.base(), Revision::FIRST);
    assert_eq!(scope.latest().await.oldest(), Revision::FIRST);
    assert_eq!(scope.put("a", "1").await, Revision::new(2));
    let status = scope.store.status().await.expect("answers");
    assert_eq!(status.revision, Revision::new(2));
    assert_eq!(status.live.keys, 1);
    assert_eq!(status.history_commits, 1);
    assert_eq!(status.id, scope.store.id());
}

async fn lease_expires_to_the_millisecond(options: Options) {
    let (scope, clock) = open(options).await;
    let lease = attach(&scope, "a", Duration::from_secs(10)).await;
    advance(&scope, &clock, Duration::from_millis(9_999)).await;
    let info = scope.store.lease(lease).await.expect("has time left");
    assert_eq!(info.remaining, Duration::from_millis(1));
    assert!(scope.get("a").await.is_some());
    advance(&scope, &clock, Duration::from_millis(1)).await;
    assert_eq!(scope.store.lease(lease).await, Err(LeaseError::NotFound));
    assert!(scope.get("a").await.is_none());
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Revision(scope.revision_at(2)));
    let commits = scope.commits(&mut watch, 1).await;
    assert_eq!(commits[0].origin().map(|o| o.verb.as_str()), Some("expire"));
}

async fn leases_expiring_together_take_one_revision_each(options: Options) {
    let (scope, clock) = open(options).await;
    for name in ["a", "b", "c"] {
        attach(&scope, name, Duration::from_secs(10)).await;
    }
    attach(&scope, "later", Duration::from_secs(11)).await;
    advance(&scope, &clock, Duration::from_secs(10)).await;
    assert_eq!(scope.revision().await, scope.revision_at(7));
    let left = scope.range(&RangeQuery::new(scope.all_keys())).await;
    assert_eq!(left.count, 1);
}

async fn lease_keep_alive_counts_from_now(options: Options) {
    let (scope, clock) = open(options).await;
    let lease = attach(&scope, "a", Duration::from_secs(10)).await;
    for _ in 0..5 {
        advance(&scope, &clock, Duration::from_secs(9)).await;
        let kept = scope.store.keep_lease_alive(lease).await;
        assert_eq!(kept, Ok(Duration::from_secs(10)));
    }
    advance(&scope, &clock, Duration::from_secs(10)).await;
    assert!(scope.get("a").await.is_none());
}

async fn wall_clock_changes_do_not_expire_leases(options: Options) {
    let options = Options {
        retention: Retention::FOREVER,
        ..options
    };
    let (scope, clock) = open(options).await;
    attach(&scope, "a", Duration::from_secs(10)).await;
    for wall in [START.0 * 2, START.0 / 2] {
        clock.set_wall(UnixMillis(wall));
        within("a tick", scope.store.tick()).await;
        assert!(scope.get("a").await.is_some());
    }
}

async fn history_is_compacted_by_age(options: Options) {
    let retention = Retention {
        age: Duration::from_secs(100),
        bytes_max: u64::MAX,
    };
    let (scope, clock) = open(Options {
        retention,
        ..options
    })
    .await;
    for value in ["1", "2", "3"] {
        scope.put("a", value).await;
        advance(&scope, &clock, Duration::from_secs(40)).await;
    }
    // At 0, 40 and 80, and it is 120 now: the first is too old to be told about,
    // and the state it led to is the oldest that can be read.
    assert_eq!(scope.latest().await.oldest(), scope.revision_at(1));
    advance(&scope, &clock, Duration::from_secs(40)).await;
    assert_eq!(scope.latest().await.oldest(), scope.revision_at(2));
    let status = scope.store.status().await.expect("answers");
    assert_eq!(status.history_commits, 2);
}

/// Neither does a jump ahead forget what is young, nor one back keep what is old.
async fn wall_clock_changes_do_not_age_history(options: Options) {
    let retention = Retention {
        age: Duration::from_secs(100),
        bytes_max: u64::MAX,
    };
    let (scope, clock) = open(Options {
        retention,
        ..options
    })
    .await;
    for wall in [START.0, START.0 * 1000, START.0 / 1000, 0] {
        clock.set_wall(UnixMillis(wall));
        scope.put("a", "1").await;
        within("a tick", scope.store.tick()).await;
        assert_eq!(scope.latest().await.oldest(), Revision::FIRST, "{wall}");
    }
    advance(&scope, &clock, Duration::from_secs(99)).await;
    assert_eq!(scope.latest().await.oldest(), Revision::FIRST);
    advance(&scope, &clock, Duration::from_secs(1)).await;
    assert_eq!(scope.latest().await.oldest(), scope.revision_at(4));
}

async fn history_is_compacted_by_byte_size(options: Options) {
    let retention = Retention {
        age: Duration::MAX,
        bytes_max: 10_000,
    };
    let (scope, clock) = open(Options {
        retention,
        ..options
    })
    .await;
    for number in 0..50 {
        scope.put("a", &format!("{number:01000}")).await;
    }
    advance(&scope, &clock, Duration::from_secs(1)).await;
    // Clearing away follows the compaction.
    within("a tick", scope.store.tick()).await;
    let status = scope.store.status().await.expect("answers");
    assert!(status.oldest > scope.revision_at(35), "{status:?}");
    assert!(status.oldest < scope.revision_at(50), "{status:?}");
    assert!(status.history_bytes <= 12_000, "{status:?}");
}

async fn event_at_compact_revision_keeps_previous_value(options: Options) {
    let (scope, _) = open(options).await;
    scope.put("a", "1").await;
    scope.put("a", "2").await;
    scope.delete("a").await;
    for (floor, expected) in [
        (
            2,
            "a=2 @+2 (created +1, version 2) was a=1 @+1 (created +1, version 1)",
        ),
        (3, "a gone @+3 was a=2 @+2 (created +1, version 2)"),
    ] {
        scope
            .store
            .compact(scope.revision_at(floor))
            .await
            .expect("compacts");
        scope.commit(Txn::default()).await;
        let from = WatchFrom::Revision(scope.revision_at(floor));
        let mut watch = scope.watch(scope.all_keys(), from);
        let commits = scope.commits(&mut watch, 4 - floor as usize).await;
        assert_eq!(scope.describe_event(&commits[0].events()[0]), expected);
    }
}

async fn long_origins_are_truncated(options: Options) {
    let (scope, _) = open(options).await;
    let origin = Origin {
        user: "é".repeat(400),
        agent: "x".repeat(257),
        manager: "y".repeat(256),
        verb: "patch".into(),
    };
    let put = Txn::put(scope.put_of("a", "1"));
    scope.store.commit(put, origin).await.expect("commits");
    let a = scope.get("a").await.expect("was put");
    let kept = a.origin().expect("is known");
    let lengths = [&kept.user, &kept.agent, &kept.manager, &kept.verb].map(String::len);
    assert_eq!(lengths, [256, 256, 256, 5], "as after a restart");
}

async fn operations_on_closed_store_fail_with_closed(options: Options) {
    let (scope, _) = open(options).await;
    scope.put("a", "1").await;
    within("the end", scope.store.close()).await;
    within("the end again", scope.store.close()).await;
    let put = Txn::put(scope.put_of("a", "2"));
    let refused = within("a refusal", scope.store.commit(put, Origin::default())).await;
    let stopped = optik_store::CommitError::Stopped;
    assert_eq!(refused.err(), Some(stopped.clone()));
    let compact = scope.store.compact(scope.revision_at(1)).await;
    assert_eq!(compact, Err(optik_store::CompactError::Commit(stopped)));
    assert!(scope.store.status().await.is_err());
    let held = scope.store.snapshot();
    assert_eq!(
        held.revision(),
        scope.revision_at(1),
        "what was known stays readable"
    );
}

async fn closing_the_store_ends_watches(options: Options) {
    let (scope, _) = open(options).await;
    scope.put("a", "1").await;
    let mut waiting = scope.watch(scope.all_keys(), WatchFrom::Now);
    let mut past = scope.watch(scope.all_keys(), WatchFrom::Revision(scope.revision_at(1)));
    let mut unread = scope.watch(scope.all_keys(), WatchFrom::Now);
    let last = scope.put("a", "2").await;
    within("dispatch", scope.store.wait_dispatched(last)).await;
    scope.commits(&mut waiting, 1).await;
    let reader = tokio::spawn(async move { waiting.next().await });
    within("the end", scope.store.close()).await;
    let ended = within("the reader", reader).await.expect("ends");
    assert_eq!(ended.expect_err("is over"), WatchError::Stopped);
    // What was handed over before can still be read.
    assert_eq!(scope.commits(&mut unread, 1).await[0].revision(), last);
    assert_eq!(scope.commits(&mut past, 2).await[1].revision(), last);
    for mut watch in [unread, past, scope.watch(scope.all_keys(), WatchFrom::Now)] {
        let ended = within("the end", watch.next()).await;
        assert_eq!(ended.expect_err("is over"), WatchError::Stopped);
    }
}

async fn commits_carry_wall_clock_time(options: Options) {
    let (scope, clock) = open(options).await;
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    for wall in [START.0, START.0 + 77, START.0 - 77] {
        clock.set_wall(UnixMillis(wall));
        scope.put("a", "1").await;
        let commits = scope.commits(&mut watch, 1).await;
        assert_eq!(commits[0].time(), UnixMillis(wall));
        let a = scope.get("a").await.expect("was put");
        assert_eq!(a.time(), UnixMillis(wall));
    }
}
