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
/// How long what a server notes outlives it.
const CA_LEASE_TTL: Duration = Duration::from_secs(3600);
const RENEW_INTERVAL: Duration = Duration::from_secs(600);
/// How soon it is tried again when store unavailable.
const RETRY_DELAY: Duration = Duration::from_secs(5);
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What an authority is for.
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

/// The authorities of one server, as PEM. They may change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaBundles {
    /// Whom its clients must trust.
    pub server: String,
    /// Whom it believes about its clients.
    pub client: String,
}

/// Completes when they have changed.
pub(crate) async fn changed(own: &mut watch::Receiver<CaBundles>) {
    if own.changed().await.is_err() {
        // Nobody is left to change them.
        std::future::pending::<()>().await;
    }
}

/// These and those that other servers note, each once, in an order that does not depend on
/// who asks.
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

/// Nothing else that may stand in such a file: neither words nor keys.
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

/// It returns when the store stops.
const CA_SHARING_TASK: Task = Task::upkeep("authorities").that_completes();

/// Notes the authorities of this server for the others, and keeps the notes. To be called
/// before anything is published: who does not know of us would take back what we publish.
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
            // Those of now are noted before those of before go: there are always some.
            () = changed(&mut own) => outdated.extend(lease.take()),
        }
        let noted = own.borrow_and_update().clone();
        done = write_or_renew(&store, &noted, lease).await;
    }
}

/// Takes back what is not true any more. What stays in spite of this ends with its lease.
async fn revoke_outdated(store: &Store, outdated: &mut Vec<LeaseId>) {
    for lease in outdated.drain(..) {
        if let Err(error) = store.revoke_lease(lease).await {
            tracing::debug!(%error, "authorities of before stay noted for a while");
        }
    }
}

/// Makes the notes, or makes them last.
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
        // The lease is part of the name: two servers with one authority have two notes, and
        // neither ends with the other.
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

    /// Nobody believes any more in what is not noted any more.
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
