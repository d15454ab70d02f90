//! The keys that all servers on one etcd cluster share, which therefore lie in it.
//!
//! They are made by whichever server comes first, in one transaction that is carried out
//! only if there are none. No API path leads to them. Whoever reads the cluster reads all
//! Secrets, too: it is trusted as a disk is.

use crate::error::CliError;
use optik_auth::jwt::SigningKey;
use optik_serve::pki::{
    CertKeyPair, IssuanceContext, create_authority, load_authority, restrict_to_owner,
};
use optik_store::{Origin, Put, Revision, Store, Txn};
use serde::{Deserialize, Serialize};
use std::path::Path;

const CLUSTER_KEYS_KEY: &str = "/optik/keys";
const FORMAT: u32 = 1;
/// Another server may come first, once.
const TRIES_MAX: usize = 3;
const HINT: &str = "With --cert-dir, keys are read from a directory instead; all servers on one \
    etcd cluster then need the same ca.crt, ca.key and sa.key in theirs.";

pub(super) struct ClusterKeys {
    pub(super) authority: CertKeyPair,
    /// Signs tokens of service accounts; PEM.
    pub(super) signing: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredClusterKeys {
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
        at: IssuanceContext<'_>,
    ) -> Result<Self, CliError> {
        for _ in 0..TRIES_MAX {
            let state = store.latest().await.map_err(sharing_error)?;
            if let Some(found) = state.get(CLUSTER_KEYS_KEY.as_bytes()) {
                return Self::decode(found.value());
            }
            let fresh = Self::create_or_migrate(before, at)?;
            let put = Put::new(CLUSTER_KEYS_KEY, fresh.encode()?);
            let txn = Txn::put_if(Revision::ZERO, put);
            let done = store.commit(txn, Origin::system("keys")).await;
            if done.map_err(sharing_error)?.succeeded {
                return Ok(fresh);
            }
        }
        Err(CliError::from_message("the keys of the etcd cluster come and go").with_hint(HINT))
    }

    fn create_or_migrate(before: &Path, at: IssuanceContext<'_>) -> Result<Self, CliError> {
        let authority = match load_authority(before).map_err(sharing_error)? {
            Some(authority) => authority,
            None => create_authority(at).map_err(sharing_error)?,
        };
        let file = before.join("sa.key");
        restrict_to_owner(&file);
        let signing = match std::fs::read_to_string(&file) {
            Ok(pem) => pem,
            Err(_) => SigningKey::generate().map_err(sharing_error)?.1,
        };
        Ok(Self { authority, signing })
    }

    fn decode(bytes: &[u8]) -> Result<Self, CliError> {
        let stored: StoredClusterKeys = serde_json::from_slice(bytes).map_err(sharing_error)?;
        if stored.format > FORMAT {
            let text = "the keys of the etcd cluster were written by a newer Optik";
            return Err(CliError::from_message(text).with_hint(HINT));
        }
        Ok(Self {
            authority: CertKeyPair {
                certificate: stored.authority_certificate,
                key: stored.authority_key,
            },
            signing: stored.service_account_key,
        })
    }

    fn encode(&self) -> Result<Vec<u8>, CliError> {
        let stored = StoredClusterKeys {
            format: FORMAT,
            authority_certificate: self.authority.certificate.clone(),
            authority_key: self.authority.key.clone(),
            service_account_key: self.signing.clone(),
        };
        serde_json::to_vec(&stored).map_err(sharing_error)
    }
}

fn sharing_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> CliError {
    CliError::new(
        "cannot share keys with other servers on the etcd cluster",
        cause,
    )
    .with_hint(HINT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::{SystemEntropy, UnixMillis};
    use optik_store::Options;

    async fn load(store: &Store, before: &Path) -> ClusterKeys {
        let at = IssuanceContext {
            now: UnixMillis(1_800_000_000_000),
            entropy: &SystemEntropy,
        };
        ClusterKeys::load(store, before, at).await.expect("loads")
    }

    #[tokio::test]
    async fn cluster_keys_are_those_of_the_first_server() {
        let store = Store::open(Options::ephemeral()).expect("opens");
        let none = Path::new("/nonexistent");
        let (one, two) = tokio::join!(load(&store, none), load(&store, none));
        assert!(one.authority == two.authority && one.signing == two.signing);
        let third = load(&store, none).await;
        assert!(third.authority == one.authority && third.signing == one.signing);
    }

    #[tokio::test]
    async fn cluster_keys_migrate_from_the_pki_directory() {
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
