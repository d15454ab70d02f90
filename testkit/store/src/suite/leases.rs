//! Leases: expiry of keys.

use crate::key_scope::KeyScope;
use crate::timeout::within;
use optik_platform::{Entropy, SystemEntropy};
use optik_store::{LEASE_TTL_SECONDS_MAX, LeaseError, LeaseId, Put, Txn, TxnError, WatchFrom};
use std::time::Duration;

const LONG_TTL: Duration = Duration::from_secs(600);

async fn grant(scope: &KeyScope, ttl: Duration) -> LeaseId {
    let grant = scope.store.grant_lease(None, ttl);
    within("a lease", grant).await.expect("grants")
}

async fn revoke(scope: &KeyScope, id: LeaseId) -> optik_store::Revision {
    let revoke = scope.store.revoke_lease(id);
    within("the end of a lease", revoke).await.expect("revokes")
}

async fn attach(scope: &KeyScope, name: &str, id: LeaseId) {
    let put = Put {
        lease: Some(id),
        ..scope.put_of(name, "1")
    };
    scope.commit(Txn::put(put)).await;
}

/// The names of the keys that hang on a lease.
async fn attached(scope: &KeyScope, id: LeaseId) -> Vec<String> {
    let info = within("a lease", scope.store.lease(id)).await;
    let prefix = scope.key("").len();
    let keys = info.expect("exists").keys;
    keys.iter()
        .map(|key| String::from_utf8_lossy(&key[prefix..]).into_owned())
        .collect()
}

pub(super) async fn lease_revoke_deletes_all_keys_in_one_revision(scope: KeyScope) {
    let lease = grant(&scope, LONG_TTL).await;
    for name in ["b", "a", "c"] {
        attach(&scope, name, lease).await;
    }
    scope.put("free", "1").await;
    let a = scope.get("a").await.expect("was put");
    assert_eq!(a.lease(), lease);
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    assert_eq!(revoke(&scope, lease).await, scope.revision_at(5));
    assert_eq!(scope.revision().await, scope.revision_at(5));
    let mut seen = scope.commits(&mut watch, 1).await[0]
        .events()
        .iter()
        .map(|event| scope.describe_event(event))
        .collect::<Vec<_>>();
    seen.sort();
    let expected = [
        "a gone @+5 was a=1 @+2 (created +2, version 1)",
        "b gone @+5 was b=1 @+1 (created +1, version 1)",
        "c gone @+5 was c=1 @+3 (created +3, version 1)",
    ];
    assert_eq!(seen, expected);
    assert!(scope.get("free").await.is_some());
    let gone = scope.store.lease(lease).await;
    assert_eq!(gone, Err(LeaseError::NotFound));
}

pub(super) async fn lease_revoke_without_keys_takes_no_revision(scope: KeyScope) {
    let lease = grant(&scope, LONG_TTL).await;
    assert_eq!(scope.revision().await, scope.base(), "nor does a grant");
    assert_eq!(revoke(&scope, lease).await, scope.base());
    assert_eq!(scope.revision().await, scope.base());
}

pub(super) async fn lease_ids_are_assigned_or_chosen(scope: KeyScope) {
    let wanted = LeaseId((SystemEntropy.next_u64() >> 2).cast_signed() | 1);
    let given = scope.store.grant_lease(Some(wanted), LONG_TTL).await;
    assert_eq!(given, Ok(wanted));
    let again = scope.store.grant_lease(Some(wanted), LONG_TTL).await;
    assert_eq!(again, Err(LeaseError::Exists));
    let chosen = grant(&scope, LONG_TTL).await;
    assert_ne!(chosen, LeaseId::NONE);
    assert_ne!(chosen, wanted);
    let known = scope.store.leases().await.expect("lists");
    assert!(known.contains(&wanted) && known.contains(&chosen));
    for lease in [wanted, chosen] {
        revoke(&scope, lease).await;
    }
    let known = scope.store.leases().await.expect("lists");
    assert!(!known.contains(&wanted) && !known.contains(&chosen));
    // The id of a revoked lease may be granted again.
    let given = scope.store.grant_lease(Some(wanted), LONG_TTL).await;
    assert_eq!(given, Ok(wanted));
    revoke(&scope, wanted).await;
}

pub(super) async fn unknown_lease_is_rejected_everywhere(scope: KeyScope) {
    let unknown = grant(&scope, LONG_TTL).await;
    revoke(&scope, unknown).await;
    let store = &scope.store;
    assert_eq!(store.lease(unknown).await, Err(LeaseError::NotFound));
    let kept = store.keep_lease_alive(unknown).await;
    assert_eq!(kept, Err(LeaseError::NotFound));
    let revoked = store.revoke_lease(unknown).await;
    assert_eq!(revoked, Err(LeaseError::NotFound));
    let put = Put {
        lease: Some(unknown),
        ..scope.put_of("a", "1")
    };
    let refusal = scope.commit_error(Txn::put(put)).await;
    assert_eq!(refusal, TxnError::LeaseNotFound);
    assert!(scope.get("a").await.is_none());
    assert_eq!(scope.revision().await, scope.base());
}

pub(super) async fn lease_info_reports_ttl_and_keys(scope: KeyScope) {
    let lease = grant(&scope, LONG_TTL).await;
    for name in ["b", "a"] {
        attach(&scope, name, lease).await;
    }
    let info = scope.store.lease(lease).await.expect("exists");
    assert_eq!((info.id, info.granted), (lease, LONG_TTL));
    assert!(info.remaining <= LONG_TTL && info.remaining > LONG_TTL / 2);
    assert_eq!(attached(&scope, lease).await, ["a", "b"]);
    let kept = scope.store.keep_lease_alive(lease).await;
    assert_eq!(kept, Ok(LONG_TTL));
    revoke(&scope, lease).await;
}

pub(super) async fn put_moves_key_between_leases(scope: KeyScope) {
    let (first, second) = (grant(&scope, LONG_TTL).await, grant(&scope, LONG_TTL).await);
    for name in ["kept", "moved", "freed"] {
        attach(&scope, name, first).await;
    }
    attach(&scope, "moved", second).await;
    scope.put("freed", "2").await;
    let keep = Put {
        lease: None,
        ..scope.put_of("kept", "2")
    };
    scope.commit(Txn::put(keep)).await;
    assert_eq!(attached(&scope, first).await, ["kept"]);
    assert_eq!(attached(&scope, second).await, ["moved"]);
    let freed = scope.get("freed").await.expect("was put");
    assert_eq!(freed.lease(), LeaseId::NONE);
    revoke(&scope, first).await;
    assert!(scope.get("kept").await.is_none());
    assert!(scope.get("moved").await.is_some());
    revoke(&scope, second).await;
    assert!(scope.get("moved").await.is_none());
    assert!(scope.get("freed").await.is_some());
}

pub(super) async fn deleted_key_is_detached_from_its_lease(scope: KeyScope) {
    let lease = grant(&scope, LONG_TTL).await;
    for name in ["a", "b"] {
        attach(&scope, name, lease).await;
    }
    scope.delete("a").await;
    assert_eq!(attached(&scope, lease).await, ["b"]);
    scope.delete("b").await;
    let before = scope.revision().await;
    assert_eq!(revoke(&scope, lease).await, before);
}

pub(super) async fn recreated_key_has_no_lease(scope: KeyScope) {
    let lease = grant(&scope, LONG_TTL).await;
    attach(&scope, "a", lease).await;
    scope.delete("a").await;
    scope.put("a", "2").await;
    assert!(attached(&scope, lease).await.is_empty());
    revoke(&scope, lease).await;
    assert!(scope.get("a").await.is_some());
}

pub(super) async fn expired_lease_deletes_its_keys(scope: KeyScope) {
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    let lease = grant(&scope, Duration::from_secs(1)).await;
    let puts = ["a", "b"].map(|name| {
        optik_store::Op::Put(Put {
            lease: Some(lease),
            ..scope.put_of(name, "1")
        })
    });
    scope.commit(Txn::from_ops(puts.to_vec())).await;
    scope.put("free", "1").await;
    let commits = scope.commits(&mut watch, 3).await;
    let seen = commits[2]
        .events()
        .iter()
        .map(|event| scope.describe(event.version()));
    let mut seen: Vec<_> = seen.collect();
    seen.sort();
    assert_eq!(seen, ["a gone @+3", "b gone @+3"]);
    assert_eq!(scope.store.lease(lease).await, Err(LeaseError::NotFound));
    let kept = scope.store.keep_lease_alive(lease).await;
    assert_eq!(kept, Err(LeaseError::NotFound));
    assert!(scope.get("free").await.is_some());
}

pub(super) async fn lease_keep_alive_resets_ttl(scope: KeyScope) {
    // The second lease outlives the first only because it is kept alive: it was
    // granted before, and for no longer.
    let ttl = Duration::from_secs(2);
    let kept = grant(&scope, ttl).await;
    attach(&scope, "kept", kept).await;
    let lost = grant(&scope, ttl).await;
    attach(&scope, "lost", lost).await;
    let mut watch = scope.watch(scope.single_key("lost"), WatchFrom::Now);
    let next = within("the end of the lost lease", async {
        let mut next = Box::pin(watch.next());
        loop {
            // As often as the store can take it, until the other has run out.
            if let Some(next) = futures::FutureExt::now_or_never(&mut next) {
                break next;
            }
            let renewed = scope.store.keep_lease_alive(kept).await;
            assert_eq!(renewed, Ok(ttl));
        }
    });
    let batch = next.await.expect("goes on");
    assert!(batch.events().all(|event| event.version().is_deletion()));
    assert!(scope.get("kept").await.is_some());
    revoke(&scope, kept).await;
}

pub(super) async fn lease_ttl_is_limited(scope: KeyScope) {
    let most = Duration::from_secs(LEASE_TTL_SECONDS_MAX);
    let lease = grant(&scope, most).await;
    let info = scope.store.lease(lease).await.expect("exists");
    assert_eq!(info.granted, most);
    revoke(&scope, lease).await;
    let more = most + Duration::from_secs(1);
    let refused = scope.store.grant_lease(None, more).await;
    assert_eq!(refused, Err(LeaseError::TtlTooLarge));
}
