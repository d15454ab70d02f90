//! The certificate authorities of all servers that share a store.
//!
//! Each server notes its own below a directory that no API path leads to, with a lease:
//! those of a server that is gone for an hour go, too. What is published is what all of
//! them note, so that no server takes back what another one published.
//!
//! ```text
//! /optik/authorities/server/NOTE   whom clients of a server must trust
//! /optik/authorities/client/NOTE   whom a server believes about its clients
//! ```

use optik_store::{CommitError, KeyRange, LeaseError, LeaseId, Origin, Put, Snapshot, Store, Txn};
use optik_supervisor::{Supervisor, Task};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

pub(crate) const CA_BUNDLES_PREFIX: &str = "/optik/authorities/";
/// TTL of the lease of a server's CA entries after the server is gone.
const CA_LEASE_TTL: Duration = Duration::from_secs(3600);
const RENEW_INTERVAL: Duration = Duration::from_secs(600);
/// Retry delay while the store is unavailable.
const RETRY_DELAY: Duration = Duration::from_secs(5);
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// The purpose of a CA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaPurpose {
    Server,
    Client,
}

impl CaPurpose {
    fn directory(self) -> String {
        let name = match self {
            Self::Server => "server",
            Self::Client => "client",
        };
        format!("{CA_BUNDLES_PREFIX}{name}/")
    }
}

/// The CA bundles of one server, as PEM. They may change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaBundles {
    /// The CA that signs the serving certificate.
    pub server: String,
    /// The CA that verifies client certificates.
    pub client: String,
}

/// Completes when the bundles have changed.
pub(crate) async fn changed(own: &mut watch::Receiver<CaBundles>) {
    if own.changed().await.is_err() {
        // The sender is gone: the bundles never change again.
        std::future::pending::<()>().await;
    }
}

/// Merges the given certificates with those of the other servers, without duplicates, in an order
/// that is the same on every server.
pub(crate) fn merged_bundle(state: &Snapshot, purpose: CaPurpose, own: &str) -> String {
    let range = KeyRange::prefix(purpose.directory());
    let notes = state.entries(&range);
    let notes: Vec<String> = notes
        .map(|note| String::from_utf8_lossy(note.value()).into_owned())
        .collect();
    let all = notes.iter().map(String::as_str).chain([own]);
    let distinct: BTreeSet<&str> = all.flat_map(certificates).collect();
    join_certificates(distinct)
}

/// Returns the certificates of a PEM file and omits comments and keys.
fn certificates(pem: &str) -> impl Iterator<Item = &str> {
    let pieces = pem
        .split_inclusive(END)
        .filter(|piece| piece.ends_with(END));
    pieces.filter_map(|piece| piece.get(piece.rfind(BEGIN)?..))
}

fn join_certificates<'a>(certificates: impl IntoIterator<Item = &'a str>) -> String {
    let certificates = certificates.into_iter();
    certificates.flat_map(|one| [one, "\n"]).collect()
}

/// The task returns when the store stops.
const CA_SHARING_TASK: Task = Task::upkeep("authorities").that_completes();

/// Stores the CA bundles of this server and keeps their lease alive. Must be called before any
/// bundle is published: a server that does not see our entry would remove our CA from the published
/// objects.
pub async fn start_ca_bundle_sharing(
    supervisor: &Supervisor,
    store: &Store,
    mut own: watch::Receiver<CaBundles>,
) {
    let noted = own.borrow_and_update().clone();
    let mut first = Some(write_or_renew(store, &noted, None).await);
    let store = store.clone();
    let start = move || {
        let (store, mut own, first) = (store.clone(), own.clone(), first.take());
        async move {
            let first = match first {
                Some(first) => first,
                None => {
                    let noted = own.borrow_and_update().clone();
                    write_or_renew(&store, &noted, None).await
                }
            };
            run_ca_bundle_lease(store, own, first).await;
        }
    };
    supervisor.spawn(CA_SHARING_TASK, start);
}

async fn run_ca_bundle_lease(
    store: Store,
    mut own: watch::Receiver<CaBundles>,
    first: Result<LeaseId, LeaseError>,
) {
    let (mut lease, mut outdated, mut done) = (None, Vec::new(), first);
    loop {
        let pause = match done {
            Ok(kept) => {
                lease = Some(kept);
                revoke_outdated(&store, &mut outdated).await;
                RENEW_INTERVAL
            }
            Err(LeaseError::Commit(CommitError::Stopped)) => return,
            Err(error) => {
                tracing::warn!(%error, "other servers cannot be told of our authorities");
                RETRY_DELAY
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            // New entries are written before old ones are revoked, so an entry always exists.
            () = changed(&mut own) => outdated.extend(lease.take()),
        }
        let noted = own.borrow_and_update().clone();
        done = write_or_renew(&store, &noted, lease).await;
    }
}

/// Revokes leases of outdated entries. An entry whose revocation fails expires with its lease.
async fn revoke_outdated(store: &Store, outdated: &mut Vec<LeaseId>) {
    for lease in outdated.drain(..) {
        if let Err(error) = store.revoke_lease(lease).await {
            tracing::debug!(%error, "authorities of before stay noted for a while");
        }
    }
}

/// Writes the entries, or renews their lease.
async fn write_or_renew(
    store: &Store,
    own: &CaBundles,
    lease: Option<LeaseId>,
) -> Result<LeaseId, LeaseError> {
    if let Some(lease) = lease {
        match store.keep_lease_alive(lease).await {
            Ok(_) => return Ok(lease),
            Err(LeaseError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    let lease = store.grant_lease(None, CA_LEASE_TTL).await?;
    for (purpose, pem) in [
        (CaPurpose::Server, &own.server),
        (CaPurpose::Client, &own.client),
    ] {
        let digest = Sha256::digest(pem);
        let digest: String = digest[..8]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        // The key contains the lease: two servers with the same CA have two entries, which expire
        // independently.
        let key = format!("{}{digest}-{:016x}", purpose.directory(), lease.0);
        let put = Put {
            lease: Some(lease),
            ..Put::new(key, join_certificates(certificates(pem)))
        };
        let done = store
            .commit(Txn::put(put), Origin::system("authorities"))
            .await;
        done.map_err(LeaseError::Commit)?;
    }
    Ok(lease)
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_store::Options;

    fn pem(text: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{text}\n{END}\n")
    }

    #[tokio::test]
    async fn ca_bundle_is_the_same_union_for_all_servers() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let server = |server: &str, client: &str| CaBundles {
            server: server.into(),
            client: client.into(),
        };
        let one = server(&pem("b"), &format!("{}# a word\n{}", pem("x"), pem("y")));
        let two = server(&pem("a"), &pem("y"));
        for own in [&one, &two, &two] {
            write_or_renew(&store, own, None).await.unwrap();
        }
        let state = store.snapshot();
        let both = pem("a") + &pem("b");
        for own in [&one, &two] {
            assert_eq!(merged_bundle(&state, CaPurpose::Server, &own.server), both);
        }
        let clients = merged_bundle(&state, CaPurpose::Client, &pem("y"));
        assert_eq!(clients, pem("x") + &pem("y"));
    }

    #[tokio::test]
    async fn ca_bundle_lease_renewal_writes_nothing() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let own = CaBundles {
            server: pem("a"),
            client: pem("b"),
        };
        let lease = write_or_renew(&store, &own, None).await.unwrap();
        let revision = store.snapshot().revision();
        assert_eq!(write_or_renew(&store, &own, Some(lease)).await, Ok(lease));
        assert_eq!(store.snapshot().revision(), revision);
        store.revoke_lease(lease).await.unwrap();
        assert_eq!(merged_bundle(&store.snapshot(), CaPurpose::Server, ""), "");
        assert!(write_or_renew(&store, &own, Some(lease)).await.is_ok());
        assert_eq!(
            merged_bundle(&store.snapshot(), CaPurpose::Server, ""),
            pem("a")
        );
    }

    /// A CA without an entry is no longer trusted.
    #[tokio::test]
    async fn changed_ca_replaces_the_shared_bundle() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let client = |text: &str| CaBundles {
            server: pem("s"),
            client: pem(text),
        };
        let supervisor = Supervisor::default();
        let (changes, own) = watch::channel(client("a"));
        start_ca_bundle_sharing(&supervisor, &store, own).await;
        let noted = || merged_bundle(&store.snapshot(), CaPurpose::Client, "");
        assert_eq!(noted(), pem("a"));
        changes.send_replace(client("b"));
        let followed = async {
            while noted() != pem("b") {
                tokio::task::yield_now().await;
            }
        };
        let followed = tokio::time::timeout(Duration::from_secs(20), followed).await;
        assert!(followed.is_ok(), "{}", noted());
        assert_eq!(
            merged_bundle(&store.snapshot(), CaPurpose::Server, ""),
            pem("s"),
            "it is still noted"
        );
        supervisor.shutdown().await;
    }
}
