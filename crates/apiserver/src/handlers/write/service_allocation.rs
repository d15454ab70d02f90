//! Allocation of cluster IPs and node ports, each of which belongs to one object at a time.
//!
//! Each allocation has a key of its own, written and removed in the transaction that writes or
//! removes its owner. So nothing is allocated twice under concurrency, and nothing leaks when a
//! server stops.

use crate::handlers::write::WriteContext;
use crate::handlers::write::object_meta::new_uid;
use crate::registry::served_resource::ServedResource;
use crate::server::store_errors::{commit_failed, read_failed};
use optik_builtin::service_allocation::{ServiceAllocation, allocate, held_allocations};
use optik_catalog::{LEGACY_NODE_PORTS_PREFIX, key_prefix};
use optik_object::{FieldError, Object, Status};
use optik_store::{Compare, KeyRange, Op, Origin, Put, Revision, Snapshot, Store, Txn};
use serde_json::json;
use std::collections::BTreeSet;

/// Where allocated addresses are stored: as IPAddress objects that clients can read.
const ADDRESSES_DIRECTORY: &str = key_prefix("networking.k8s.io", "ipaddresses");
/// Not below `/registry/ranges/servicenodeports`, where kube-apiserver keeps its bitmap.
const NODE_PORTS_DIRECTORY: &str = "/optik/nodeports/";
/// How many ports one transaction migrates; etcd accepts 128 operations.
const MIGRATED_PORTS_MAX: usize = 32;

/// Migrates node ports to their current keys. A port is moved only if it is unchanged since it was
/// read, so a concurrent migration by another server or a write to a service wins.
pub(crate) async fn migrate_node_ports(store: &Store) -> Result<(), Status> {
    loop {
        let state = store.latest().await.map_err(read_failed)?;
        let range = KeyRange::prefix(LEGACY_NODE_PORTS_PREFIX);
        let mut txn = Txn::default();
        for before in state.entries(&range).take(MIGRATED_PORTS_MAX) {
            let port = before
                .key()
                .get(LEGACY_NODE_PORTS_PREFIX.len()..)
                .unwrap_or_default();
            let key = [NODE_PORTS_DIRECTORY.as_bytes(), port].concat();
            let at = before.mod_revision();
            txn.compares
                .push(Compare::mod_revision_is(before.key(), at));
            txn.success.push(Op::Delete(KeyRange::one(before.key())));
            // Of two owners of a port, the one that is stored first keeps it.
            if state.get(&key).is_none() {
                txn.compares
                    .push(Compare::mod_revision_is(&key, Revision::ZERO));
                txn.success
                    .push(Op::Put(Put::new(key, before.value().clone())));
            }
        }
        if txn.success.is_empty() {
            return Ok(());
        }
        let done = store.commit(txn, Origin::system("node-ports")).await;
        // Compare failed: a concurrent write changed the state, which is read again.
        done.map_err(commit_failed)?;
    }
}

fn claim_key(claim: ServiceAllocation) -> String {
    match claim {
        ServiceAllocation::Address(address) => format!("{ADDRESSES_DIRECTORY}{address}"),
        ServiceAllocation::Port(port) => format!("{NODE_PORTS_DIRECTORY}{port}"),
    }
}

/// The allocations of an object; most kinds have none.
fn held_claims(kind: &ServedResource, object: Option<&Object>) -> Vec<ServiceAllocation> {
    match object {
        Some(object) if kind.strategy.allocates() => held_allocations(object),
        _ => Vec::new(),
    }
}

/// Allocates what an object needs. Its previous allocations are kept.
pub(super) fn assign(
    writing: &WriteContext<'_>,
    state: &Snapshot,
    old: Option<&Object>,
    object: &mut Object,
) -> Result<(), Status> {
    let kind = writing.kind;
    if !kind.strategy.allocates() {
        return Ok(());
    }
    let own = held_claims(kind, old);
    let is_taken = |claim: ServiceAllocation| state.get(claim_key(claim).as_bytes()).is_some();
    let random = writing.entropy.next_u64();
    let given = allocate(object, writing.service_ranges, &own, &is_taken, random);
    given
        .map_err(|error: FieldError| Status::invalid(kind.resource.name(), object.name(), &[error]))
}

/// Adds the allocations and releases of an object to the transaction that writes it.
pub(super) fn add_to_txn(
    writing: &WriteContext<'_>,
    (old, new): (Option<&Object>, Option<&Object>),
    txn: &mut Txn,
) {
    let kind = writing.kind;
    if !kind.strategy.allocates() {
        return;
    }
    let (before, after) = (held_claims(kind, old), held_claims(kind, new));
    let set = |claims: &[ServiceAllocation]| claims.iter().copied().collect::<BTreeSet<_>>();
    let (had, has) = (set(&before), set(&after));
    for claim in before.iter().filter(|claim| !has.contains(claim)) {
        txn.success
            .push(Op::Delete(KeyRange::one(claim_key(*claim))));
    }
    for claim in after.iter().filter(|claim| !had.contains(claim)) {
        let key = claim_key(*claim);
        txn.compares
            .push(Compare::mod_revision_is(&key, Revision::ZERO));
        let holder = new.map(|holder| claim_record(writing, *claim, holder));
        txn.success
            .push(Op::Put(Put::new(key, holder.unwrap_or_default())));
    }
}

fn claim_record(writing: &WriteContext<'_>, claim: ServiceAllocation, holder: &Object) -> Vec<u8> {
    let ServiceAllocation::Address(address) = claim else {
        return format!("{}/{}", holder.namespace(), holder.name()).into_bytes();
    };
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let object = json!({
        "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": address.to_string(),
            "uid": new_uid(writing.entropy),
            "creationTimestamp": writing.now().to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": family,
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": holder.namespace(), "name": holder.name(),
        }},
    });
    optik_object::encode_canonical(&object).unwrap_or_default()
}
