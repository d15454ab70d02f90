//! Which tokens of service accounts are believed: those that we signed, while the account
//! and what else they are bound to are there.
//!
//! A signature is checked once; after that a token is known by its digest. Whether what it
//! is bound to is still there is asked every time: of an object that has not changed since
//! it was looked at, only the revision is compared.

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

/// How many tokens are known before all are forgotten.
const CACHED_TOKENS_MAX: usize = 10_000;
/// How long what is bound to an object is believed after the time at which that object was
/// to be gone, so that it can clean up.
const DELETED_OBJECT_GRACE_SECONDS: i64 = 60;
const EXTRA_PREFIX: &str = "authentication.kubernetes.io/";

/// Tokens whose signature was right, by digest.
#[derive(Default)]
pub(super) struct TokenCache(RwLock<BTreeMap<[u8; 32], Arc<VerifiedToken>>>);

/// Such a token.
pub(super) struct VerifiedToken {
    user: Arc<User>,
    claims: JwtClaims,
    bound_objects: Vec<BoundObject>,
}

/// An object that must be there.
struct BoundObject {
    kind: BoundObjectKind,
    key: String,
    name: String,
    namespace: String,
    uid: String,
    last_state: Mutex<BoundObjectState>,
}

/// The object as it was when it was last looked at.
#[derive(Clone, Copy)]
struct BoundObjectState {
    revision: Revision,
    /// When it was to be gone, if it has been deleted.
    deletion_deadline: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BoundObjectKind {
    ServiceAccount,
    Secret,
    Pod,
    Node,
}

/// Why a token is not accepted, as reviews tell it.
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
    /// Whether the token looks like one of ours.
    pub(crate) fn has_own_issuer(&self, token: &[u8]) -> bool {
        jwt::has_issuer(token, &self.options.issuer)
    }

    /// Whose token it is, and which of these audiences it is for.
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

    /// The token, if we signed it.
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

    /// Whether it is within its time, and everything is there.
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

/// What must be there for a token to be believed. The node of a pod is only told.
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
