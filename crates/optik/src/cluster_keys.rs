//! The certificate authority and the token signing key that all servers on one etcd cluster share,
//! stored in that cluster.
//!
//! The first server creates them, in one transaction that succeeds only if there are none. No API
//! path leads to them. Every client of the etcd cluster can read all Secrets as well, so the
//! cluster is trusted like a disk.

use crate::StartError;
use optik_auth::jwt::SigningKey;
use optik_serve::pki::{
    CertKeyPair, IssuanceContext, create_authority, load_authority, restrict_to_owner,
};
use optik_store::{Origin, Put, Revision, Store, Txn};
use serde::{Deserialize, Serialize};
use std::path::Path;

const KEY: &str = "/optik/keys";
const FORMAT: u32 = 1;
/// Another server may create them first, once.
const TRIES_MAX: usize = 3;

pub(crate) struct ClusterKeys {
    pub(crate) authority: CertKeyPair,
    /// The key that signs service account tokens; PEM.
    pub(crate) signing: String,
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
    /// Loads the keys of the cluster. If it has none, those that an earlier version left in the
    /// directory `legacy` are stored, or new ones.
    pub(crate) async fn load(
        store: &Store,
        legacy: Option<&Path>,
        at: IssuanceContext<'_>,
    ) -> Result<Self, StartError> {
        for _ in 0..TRIES_MAX {
            let state = store.latest().await.map_err(failed)?;
            if let Some(found) = state.get(KEY.as_bytes()) {
                return Self::read(found.value());
            }
            let fresh = Self::first(legacy, at)?;
            let put = Put::new(KEY, fresh.encoded()?);
            let txn = Txn::put_if(Revision::ZERO, put);
            let done = store.commit(txn, Origin::system("keys")).await;
            if done.map_err(failed)?.succeeded {
                return Ok(fresh);
            }
        }
        Err(StartError::ClusterKeysContended)
    }

    fn first(legacy: Option<&Path>, at: IssuanceContext<'_>) -> Result<Self, StartError> {
        let found = legacy.map(load_authority).transpose().map_err(failed)?;
        let authority = match found.flatten() {
            Some(authority) => authority,
            None => create_authority(at).map_err(failed)?,
        };
        let signing = match legacy.and_then(legacy_signing_key) {
            Some(pem) => pem,
            None => SigningKey::generate().map_err(failed)?.1,
        };
        Ok(Self { authority, signing })
    }

    fn read(bytes: &[u8]) -> Result<Self, StartError> {
        let stored: Stored = serde_json::from_slice(bytes).map_err(failed)?;
        if stored.format > FORMAT {
            return Err(StartError::ClusterKeysNewer);
        }
        Ok(Self {
            authority: CertKeyPair {
                certificate: stored.authority_certificate,
                key: stored.authority_key,
            },
            signing: stored.service_account_key,
        })
    }

    fn encoded(&self) -> Result<Vec<u8>, StartError> {
        let stored = Stored {
            format: FORMAT,
            authority_certificate: self.authority.certificate.clone(),
            authority_key: self.authority.key.clone(),
            service_account_key: self.signing.clone(),
        };
        serde_json::to_vec(&stored).map_err(failed)
    }
}

fn legacy_signing_key(directory: &Path) -> Option<String> {
    let file = directory.join("sa.key");
    restrict_to_owner(&file);
    std::fs::read_to_string(&file).ok()
}

fn failed(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StartError {
    StartError::ClusterKeys(cause.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::{SystemEntropy, UnixMillis};
    use optik_store::Options;

    async fn load(store: &Store, legacy: Option<&Path>) -> ClusterKeys {
        let at = IssuanceContext {
            now: UnixMillis(1_800_000_000_000),
            entropy: &SystemEntropy,
        };
        ClusterKeys::load(store, legacy, at).await.expect("loads")
    }

    #[tokio::test]
    async fn first_server_creates_the_cluster_keys() {
        let store = Store::open(Options::ephemeral()).expect("opens");
        let none = Some(Path::new("/nonexistent"));
        let (one, two) = tokio::join!(load(&store, none), load(&store, none));
        assert!(one.authority == two.authority && one.signing == two.signing);
        let third = load(&store, none).await;
        assert!(third.authority == one.authority && third.signing == one.signing);
    }

    #[tokio::test]
    async fn cluster_keys_adopt_those_of_an_older_directory() {
        let scratch = tempfile::tempdir().expect("a directory");
        let other = Store::open(Options::ephemeral()).expect("opens");
        let before = load(&other, None).await;
        for (name, content) in [
            ("ca.crt", &before.authority.certificate),
            ("ca.key", &before.authority.key),
            ("sa.key", &before.signing),
        ] {
            std::fs::write(scratch.path().join(name), content).expect("written");
        }
        let store = Store::open(Options::ephemeral()).expect("opens");
        let taken = load(&store, Some(scratch.path())).await;
        assert!(taken.authority == before.authority && taken.signing == before.signing);
    }
}
