//! Authenticates service account tokens: a token is valid if this server's keys signed it and its
//! service account and bound objects exist.
//!
//! A signature is verified once; the verified token is cached by its digest. Bound objects are
//! checked on every use: for an object that is unchanged since the last check, only the revision is
//! compared.

use crate::auth::service_account_tokens::{
    NODES, PODS, SECRETS, SERVICE_ACCOUNTS, ServiceAccountTokens,
};
use crate::registry::served_resource::parse_stored;
use optik_auth::jwt::{self, BoundObjectReference, JwtClaims, JwtError, KubernetesClaims};
use optik_auth::{User, service_account_groups};
use optik_object::Timestamp;
use optik_store::{Revision, Snapshot};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Number of cached tokens at which the cache is cleared.
const CACHED_TOKENS_MAX: usize = 10_000;
/// How long a token stays valid after the deletion deadline of a bound object, so that its
/// holder can clean up.
const DELETED_OBJECT_GRACE_SECONDS: i64 = 60;
const EXTRA_PREFIX: &str = "authentication.kubernetes.io/";

/// Tokens with a verified signature, by digest.
#[derive(Default)]
pub(super) struct TokenCache(RwLock<BTreeMap<[u8; 32], Arc<VerifiedToken>>>);

/// A token with a verified signature.
pub(super) struct VerifiedToken {
    user: Arc<User>,
    claims: JwtClaims,
    bound_objects: Vec<BoundObject>,
}

/// An object that must exist for the token to be valid.
struct BoundObject {
    kind: BoundObjectKind,
    key: String,
    name: String,
    namespace: String,
    uid: String,
    last_state: Mutex<BoundObjectState>,
}

/// The state of a bound object at the last check.
#[derive(Clone, Copy)]
struct BoundObjectState {
    revision: Revision,
    /// The end of its grace period, if it is being deleted.
    deletion_deadline: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundObjectKind {
    ServiceAccount,
    Secret,
    Pod,
    Node,
}

/// Why a token is not accepted, as TokenReviews report it.
pub(crate) type TokenRejection = String;

impl TokenCache {
    fn find(&self, digest: &[u8; 32]) -> Option<Arc<VerifiedToken>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(digest).cloned()
    }

    fn add(&self, digest: [u8; 32], known: &Arc<VerifiedToken>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= CACHED_TOKENS_MAX {
            all.clear();
        }
        all.insert(digest, Arc::clone(known));
    }
}

impl ServiceAccountTokens {
    /// Whether the token names this server as its issuer; nothing is verified.
    pub(crate) fn has_own_issuer(&self, token: &[u8]) -> bool {
        jwt::has_issuer(token, &self.options.issuer)
    }

    /// The user of a token, and which of the given audiences it is for.
    pub(crate) fn authenticate(
        &self,
        token: &[u8],
        audiences: &[String],
    ) -> Result<(Arc<User>, Vec<String>), TokenRejection> {
        let known = self
            .verify_signature(token)
            .map_err(|error| error.to_string())?;
        let fits = |audience: &&String| audiences.contains(audience);
        let fits: Vec<String> = known.claims.aud.0.iter().filter(fits).cloned().collect();
        if fits.is_empty() {
            return Err(format!(
                "token audiences {:?} is invalid for the target audiences {audiences:?}",
                known.claims.aud.0
            ));
        }
        self.check_still_valid(&known)?;
        Ok((Arc::clone(&known.user), fits))
    }

    /// Verifies the signature of a token, or finds the token in the cache.
    pub(super) fn verify_signature(&self, token: &[u8]) -> Result<Arc<VerifiedToken>, JwtError> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.token_cache.find(&digest) {
            return Ok(known);
        }
        let claims = jwt::verify(token, &self.verification_keys, &self.options.issuer)?;
        let known = Arc::new(VerifiedToken {
            bound_objects: bound_objects(&claims.kubernetes),
            user: Arc::new(user(&claims)),
            claims,
        });
        self.token_cache.add(digest, &known);
        Ok(known)
    }

    /// Checks the lifetime of a token and that its bound objects exist.
    pub(super) fn check_still_valid(&self, known: &VerifiedToken) -> Result<(), TokenRejection> {
        let now = self.now();
        let timely = known.claims.check_times(now);
        timely.map_err(|error| error.to_string())?;
        let state = self.store.snapshot();
        known
            .bound_objects
            .iter()
            .try_for_each(|bound| bound.check(&state, now))
    }
}

impl BoundObject {
    fn check(&self, state: &Snapshot, now: i64) -> Result<(), TokenRejection> {
        let there = state.get(self.key.as_bytes());
        let there = there.ok_or_else(|| self.missing())?;
        let mut seen = self
            .last_state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if there.mod_revision() != seen.revision {
            let object = parse_stored(there.value()).map_err(|_| self.missing())?;
            if object.uid() != self.uid {
                return Err(self.replaced_by(object.uid()));
            }
            *seen = BoundObjectState {
                revision: there.mod_revision(),
                deletion_deadline: object.deletion_timestamp().map(Timestamp::seconds),
            };
        }
        let gone = |ends: i64| ends.saturating_add(DELETED_OBJECT_GRACE_SECONDS) < now;
        match seen.deletion_deadline.is_some_and(gone) {
            true => Err(self.deleted()),
            false => Ok(()),
        }
    }

    fn missing(&self) -> TokenRejection {
        match self.kind {
            BoundObjectKind::ServiceAccount => format!("serviceaccounts {:?} not found", self.name),
            BoundObjectKind::Secret | BoundObjectKind::Pod | BoundObjectKind::Node => {
                invalidated_token()
            }
        }
    }

    fn replaced_by(&self, uid: &str) -> TokenRejection {
        let claimed = &self.uid;
        let what = match self.kind {
            BoundObjectKind::ServiceAccount => {
                return format!("service account UID ({uid}) does not match claim ({claimed})");
            }
            BoundObjectKind::Secret => "secret",
            BoundObjectKind::Pod => "pod",
            BoundObjectKind::Node => "node",
        };
        format!("{what} UID ({uid}) does not match service account {what} ref claim ({claimed})")
    }

    fn deleted(&self) -> TokenRejection {
        match self.kind {
            BoundObjectKind::ServiceAccount => {
                let (namespace, name) = (&self.namespace, &self.name);
                format!("service account {namespace}/{name} has been deleted")
            }
            BoundObjectKind::Secret | BoundObjectKind::Pod | BoundObjectKind::Node => {
                invalidated_token()
            }
        }
    }
}

fn invalidated_token() -> TokenRejection {
    "service account token has been invalidated".into()
}

/// The objects that a token is bound to. The node of a pod-bound token is informational only.
fn bound_objects(kubernetes: &KubernetesClaims) -> Vec<BoundObject> {
    let of_pod = kubernetes.pod.is_some();
    let bound = [
        (
            BoundObjectKind::ServiceAccount,
            Some(&kubernetes.serviceaccount),
        ),
        (BoundObjectKind::Secret, kubernetes.secret.as_ref()),
        (BoundObjectKind::Pod, kubernetes.pod.as_ref()),
        (
            BoundObjectKind::Node,
            kubernetes.node.as_ref().filter(|_| !of_pod),
        ),
    ];
    let bound = bound.into_iter().filter_map(|(what, reference)| {
        Some(bound_object(what, &kubernetes.namespace, reference?))
    });
    bound.collect()
}

fn bound_object(
    what: BoundObjectKind,
    namespace: &str,
    reference: &BoundObjectReference,
) -> BoundObject {
    let (resource, namespace) = match what {
        BoundObjectKind::ServiceAccount => (SERVICE_ACCOUNTS, namespace),
        BoundObjectKind::Secret => (SECRETS, namespace),
        BoundObjectKind::Pod => (PODS, namespace),
        BoundObjectKind::Node => (NODES, ""),
    };
    BoundObject {
        kind: what,
        key: resource.object_key(namespace, &reference.name),
        name: reference.name.clone(),
        namespace: namespace.to_owned(),
        uid: reference.uid.clone(),
        last_state: Mutex::new(BoundObjectState {
            revision: Revision::ZERO,
            deletion_deadline: None,
        }),
    }
}

fn user(claims: &JwtClaims) -> User {
    let kubernetes = &claims.kubernetes;
    let mut user = User {
        name: claims.sub.clone(),
        uid: kubernetes.serviceaccount.uid.clone(),
        groups: service_account_groups(&kubernetes.namespace),
        ..User::default()
    };
    let mut say = |name: &str, value: &str| {
        if !value.is_empty() {
            user.extra
                .insert(format!("{EXTRA_PREFIX}{name}"), vec![value.to_owned()]);
        }
    };
    if !claims.jti.is_empty() {
        say("credential-id", &format!("JTI={}", claims.jti));
    }
    for (what, reference) in [("pod", &kubernetes.pod), ("node", &kubernetes.node)] {
        if let Some(reference) = reference {
            say(&format!("{what}-name"), &reference.name);
            say(&format!("{what}-uid"), &reference.uid);
        }
    }
    user.authenticated()
}
