//! The keys that all servers on one etcd cluster share, which therefore lie in it.
//!
//! They are made by whichever server comes first, in one transaction that is carried out
//! only if there are none. No API path leads to them. Whoever reads the cluster reads all
//! Secrets, too: it is trusted as a disk is.

use crate::failure::Failure;
use optik_access::jwt::SigningKey;
use optik_serve::pki::{Circumstances, Pair, create_authority, existing_authority, keep_private};
use optik_store::{Origin, Put, Revision, Store, Txn};
use serde::{Deserialize, Serialize};
use std::path::Path;

const KEY: &str = "/optik/keys";
const FORMAT: u32 = 1;
/// Another server may come first, once.
const TRIES_MAX: usize = 3;
const HINT: &str = "With --cert-dir, keys are read from a directory instead; all servers on one \
    etcd cluster then need the same ca.crt, ca.key and sa.key in theirs.";

pub(super) struct ClusterKeys {
    pub(super) authority: Pair,
    /// Signs tokens of service accounts; PEM.
    pub(super) signing: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    format: u32,
    authority_certificate: String,
    authority_key: String,
    service_account_key: String,
}

impl ClusterKeys {
    /// Those of the cluster. If it has none, it gets those that an earlier version has left
    /// in the directory, or new ones.
    pub(super) async fn load(
        store: &Store,
        before: &Path,
        at: Circumstances<'_>,
    ) -> Result<Self, Failure> {
        for _ in 0..TRIES_MAX {
            let state = store.latest().await.map_err(failed)?;
            if let Some(found) = state.get(KEY.as_bytes()) {
                return Self::read(found.value());
            }
            let fresh = Self::first(before, at)?;
            let put = Put::new(KEY, fresh.encoded()?);
            let txn = Txn::put_if(Revision::ZERO, put);
            let done = store.commit(txn, Origin::system("keys")).await;
            if done.map_err(failed)?.succeeded {
                return Ok(fresh);
            }
        }
        Err(Failure::text("the keys of the etcd cluster come and go").hint(HINT))
    }

    fn first(before: &Path, at: Circumstances<'_>) -> Result<Self, Failure> {
        let authority = match existing_authority(before).map_err(failed)? {
            Some(authority) => authority,
            None => create_authority(at).map_err(failed)?,
        };
        let file = before.join("sa.key");
        keep_private(&file);
        let signing = match std::fs::read_to_string(&file) {
            Ok(pem) => pem,
            Err(_) => SigningKey::generate().map_err(failed)?.1,
        };
        Ok(Self { authority, signing })
    }

    fn read(bytes: &[u8]) -> Result<Self, Failure> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(failed)?;
        if stored.format > FORMAT {
            let text = "the keys of the etcd cluster were written by a newer Optik";
            return Err(Failure::text(text).hint(HINT));
        }
        Ok(Self {
            authority: Pair {
                certificate: stored.authority_certificate,
                key: stored.authority_key,
            },
            signing: stored.service_account_key,
        })
    }

    fn encoded(&self) -> Result<Vec<u8>, Failure> {
        let stored = Stored {
            format: FORMAT,
            authority_certificate: self.authority.certificate.clone(),
            authority_key: self.authority.key.clone(),
            service_account_key: self.signing.clone(),
        };
        serde_json::to_vec(&stored).map_err(failed)
    }
}

fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Failure {
    Failure::new(
        "cannot share keys with other servers on the etcd cluster",
        cause,
    )
    .hint(HINT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::{SystemEntropy, UnixMillis};
    use optik_store::Options;

    async fn load(store: &Store, before: &Path) -> ClusterKeys {
        let at = Circumstances {
            now: UnixMillis(1_800_000_000_000),
            entropy: &SystemEntropy,
        };
        ClusterKeys::load(store, before, at).await.expect("loads")
    }

    #[tokio::test]
    async fn the_first_server_decides() {
        let store = Store::open(Options::ephemeral()).expect("opens");
        let none = Path::new("/nonexistent");
        let (one, two) = tokio::join!(load(&store, none), load(&store, none));
        assert!(one.authority == two.authority && one.signing == two.signing);
        let third = load(&store, none).await;
        assert!(third.authority == one.authority && third.signing == one.signing);
    }

    #[tokio::test]
    async fn keys_of_an_earlier_version_are_taken_along() {
        let scratch = tempfile::tempdir().expect("a directory");
        let other = Store::open(Options::ephemeral()).expect("opens");
        let before = load(&other, Path::new("/nonexistent")).await;
        for (name, content) in [
            ("ca.crt", &before.authority.certificate),
            ("ca.key", &before.authority.key),
            ("sa.key", &before.signing),
        ] {
            std::fs::write(scratch.path().join(name), content).expect("written");
        }
        let store = Store::open(Options::ephemeral()).expect("opens");
        let taken = load(&store, scratch.path()).await;
        assert!(taken.authority == before.authority && taken.signing == before.signing);
    }
}
