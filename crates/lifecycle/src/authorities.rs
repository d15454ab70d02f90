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

pub(crate) const DIRECTORY: &str = "/optik/authorities/";
/// How long what a server notes outlives it.
const NOTE_TTL: Duration = Duration::from_secs(3600);
const RENEW_INTERVAL: Duration = Duration::from_secs(600);
/// How soon it is tried again when the store cannot be reached.
const TRY_AGAIN: Duration = Duration::from_secs(5);
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// What an authority is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Server,
    Client,
}

impl Purpose {
    fn directory(self) -> String {
        let name = match self {
            Self::Server => "server",
            Self::Client => "client",
        };
        format!("{DIRECTORY}{name}/")
    }
}

/// The authorities of one server, as PEM. They may change while it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authorities {
    /// Whom its clients must trust.
    pub server: String,
    /// Whom it believes about its clients.
    pub client: String,
}

/// Completes when they have changed.
pub(crate) async fn change(own: &mut watch::Receiver<Authorities>) {
    if own.changed().await.is_err() {
        // Nobody is left to change them.
        std::future::pending::<()>().await;
    }
}

/// These and those that other servers note, each once, in an order that does not depend on
/// who asks.
pub(crate) fn union(state: &Snapshot, purpose: Purpose, own: &str) -> String {
    let range = KeyRange::prefix(purpose.directory());
    let notes = state.entries(&range);
    let notes: Vec<String> = notes
        .map(|note| String::from_utf8_lossy(note.value()).into_owned())
        .collect();
    let all = notes.iter().map(String::as_str).chain([own]);
    let distinct: BTreeSet<&str> = all.flat_map(certificates).collect();
    lines(distinct)
}

/// Nothing else that may stand in such a file: neither words nor keys.
fn certificates(pem: &str) -> impl Iterator<Item = &str> {
    let pieces = pem
        .split_inclusive(END)
        .filter(|piece| piece.ends_with(END));
    pieces.filter_map(|piece| piece.get(piece.rfind(BEGIN)?..))
}

fn lines<'a>(certificates: impl IntoIterator<Item = &'a str>) -> String {
    let certificates = certificates.into_iter();
    certificates.flat_map(|one| [one, "\n"]).collect()
}

/// It returns when the store stops.
const NOTING: Task = Task::upkeep("authorities").that_completes();

/// Notes the authorities of this server for the others, and keeps the notes. To be called
/// before anything is published: who does not know of us would take back what we publish.
pub async fn start_noting_authorities(
    supervisor: &Supervisor,
    store: &Store,
    mut own: watch::Receiver<Authorities>,
) {
    let noted = own.borrow_and_update().clone();
    let mut first = Some(keep(store, &noted, None).await);
    let store = store.clone();
    let start = move || {
        let (store, mut own, first) = (store.clone(), own.clone(), first.take());
        async move {
            let first = match first {
                Some(first) => first,
                None => {
                    let noted = own.borrow_and_update().clone();
                    keep(&store, &noted, None).await
                }
            };
            keep_noted(store, own, first).await;
        }
    };
    supervisor.spawn(NOTING, start);
}

async fn keep_noted(
    store: Store,
    mut own: watch::Receiver<Authorities>,
    first: Result<LeaseId, LeaseError>,
) {
    let (mut lease, mut outdated, mut done) = (None, Vec::new(), first);
    loop {
        let pause = match done {
            Ok(kept) => {
                lease = Some(kept);
                forget(&store, &mut outdated).await;
                RENEW_INTERVAL
            }
            Err(LeaseError::Commit(CommitError::Stopped)) => return,
            Err(error) => {
                tracing::warn!(%error, "other servers cannot be told of our authorities");
                TRY_AGAIN
            }
        };
        tokio::select! {
            () = sleep(pause) => {}
            // Those of now are noted before those of before go: there are always some.
            () = change(&mut own) => outdated.extend(lease.take()),
        }
        let noted = own.borrow_and_update().clone();
        done = keep(&store, &noted, lease).await;
    }
}

/// Takes back what is not true any more. What stays in spite of this ends with its lease.
async fn forget(store: &Store, outdated: &mut Vec<LeaseId>) {
    for lease in outdated.drain(..) {
        if let Err(error) = store.revoke_lease(lease).await {
            tracing::debug!(%error, "authorities of before stay noted for a while");
        }
    }
}

/// Makes the notes, or makes them last.
async fn keep(
    store: &Store,
    own: &Authorities,
    lease: Option<LeaseId>,
) -> Result<LeaseId, LeaseError> {
    if let Some(lease) = lease {
        match store.keep_lease_alive(lease).await {
            Ok(_) => return Ok(lease),
            Err(LeaseError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    let lease = store.grant_lease(None, NOTE_TTL).await?;
    for (purpose, pem) in [
        (Purpose::Server, &own.server),
        (Purpose::Client, &own.client),
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
            ..Put::new(key, lines(certificates(pem)))
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
    async fn all_servers_see_the_same_union() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let server = |server: &str, client: &str| Authorities {
            server: server.into(),
            client: client.into(),
        };
        let one = server(&pem("b"), &format!("{}# a word\n{}", pem("x"), pem("y")));
        let two = server(&pem("a"), &pem("y"));
        for own in [&one, &two, &two] {
            keep(&store, own, None).await.unwrap();
        }
        let state = store.snapshot();
        let both = pem("a") + &pem("b");
        for own in [&one, &two] {
            assert_eq!(union(&state, Purpose::Server, &own.server), both);
        }
        let clients = union(&state, Purpose::Client, &pem("y"));
        assert_eq!(clients, pem("x") + &pem("y"));
    }

    #[tokio::test]
    async fn a_note_is_kept_without_writing() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let own = Authorities {
            server: pem("a"),
            client: pem("b"),
        };
        let lease = keep(&store, &own, None).await.unwrap();
        let revision = store.snapshot().revision();
        assert_eq!(keep(&store, &own, Some(lease)).await, Ok(lease));
        assert_eq!(store.snapshot().revision(), revision);
        store.revoke_lease(lease).await.unwrap();
        assert_eq!(union(&store.snapshot(), Purpose::Server, ""), "");
        assert!(keep(&store, &own, Some(lease)).await.is_ok());
        assert_eq!(union(&store.snapshot(), Purpose::Server, ""), pem("a"));
    }

    /// Nobody believes any more in what is not noted any more.
    #[tokio::test]
    async fn notes_follow_what_changes() {
        let store = Store::open(Options::ephemeral()).unwrap();
        let client = |text: &str| Authorities {
            server: pem("s"),
            client: pem(text),
        };
        let supervisor = Supervisor::default();
        let (changes, own) = watch::channel(client("a"));
        start_noting_authorities(&supervisor, &store, own).await;
        let noted = || union(&store.snapshot(), Purpose::Client, "");
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
            union(&store.snapshot(), Purpose::Server, ""),
            pem("s"),
            "it is still noted"
        );
        supervisor.shutdown().await;
    }
}
