//! Which tokens of service accounts are believed: those that we signed, while the account
//! and what else they are bound to are there.
//!
//! A signature is checked once; after that a token is known by its digest. Whether what it
//! is bound to is still there is asked every time: of an object that has not changed since
//! it was looked at, only the revision is compared.

use super::accounts::{Accounts, NODES, key};
use crate::kinds::parse_stored;
use optik_access::jwt::{self, Claims, Kubernetes, Reference, TokenError};
use optik_access::{User, service_account_groups};
use optik_object::Timestamp;
use optik_store::{Revision, Snapshot};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// How many tokens are known before all are forgotten.
const TOKENS_MAX: usize = 10_000;
/// How long what is bound to an object is believed after the time at which that object was
/// to be gone, so that it can clean up.
const DELETED_GRACE_SECONDS: i64 = 60;
const EXTRA: &str = "authentication.kubernetes.io/";

/// Tokens whose signature was right, by digest.
#[derive(Default)]
pub(super) struct Believed(RwLock<BTreeMap<[u8; 32], Arc<Known>>>);

/// Such a token.
pub(super) struct Known {
    user: Arc<User>,
    claims: Claims,
    bound: Vec<Bound>,
}

/// An object that must be there.
struct Bound {
    what: What,
    key: String,
    name: String,
    namespace: String,
    uid: String,
    seen: Mutex<Seen>,
}

/// The object as it was when it was last looked at.
#[derive(Clone, Copy)]
struct Seen {
    at: Revision,
    /// When it was to be gone, if it has been deleted.
    ends: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Account,
    Secret,
    Pod,
    Node,
}

/// Why a token is not accepted, as reviews tell it.
pub(crate) type Refusal = String;

impl Believed {
    fn find(&self, digest: &[u8; 32]) -> Option<Arc<Known>> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(digest).cloned()
    }

    fn add(&self, digest: [u8; 32], known: &Arc<Known>) {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= TOKENS_MAX {
            all.clear();
        }
        all.insert(digest, Arc::clone(known));
    }
}

impl Accounts {
    /// Whether the token looks like one of ours.
    pub(crate) fn is_ours(&self, token: &[u8]) -> bool {
        jwt::claims_to_be_by(token, &self.options.issuer)
    }

    /// Whose token it is, and which of these audiences it is for.
    pub(crate) fn authenticate(
        &self,
        token: &[u8],
        audiences: &[String],
    ) -> Result<(Arc<User>, Vec<String>), Refusal> {
        let known = self.known(token).map_err(|error| error.to_string())?;
        let fits = |audience: &&String| audiences.contains(audience);
        let fits: Vec<String> = known.claims.aud.0.iter().filter(fits).cloned().collect();
        if fits.is_empty() {
            return Err(format!(
                "token audiences {:?} is invalid for the target audiences {audiences:?}",
                known.claims.aud.0
            ));
        }
        self.check(&known)?;
        Ok((Arc::clone(&known.user), fits))
    }

    /// The token, if we signed it.
    pub(super) fn known(&self, token: &[u8]) -> Result<Arc<Known>, TokenError> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.believed.find(&digest) {
            return Ok(known);
        }
        let claims = jwt::verify(token, &self.keys, &self.options.issuer)?;
        let known = Arc::new(Known {
            bound: bound(&claims.kubernetes),
            user: Arc::new(user(&claims)),
            claims,
        });
        self.believed.add(digest, &known);
        Ok(known)
    }

    /// Whether it is within its time, and everything is there.
    pub(super) fn check(&self, known: &Known) -> Result<(), Refusal> {
        let now = self.now();
        let timely = known.claims.check_times(now);
        timely.map_err(|error| error.to_string())?;
        let state = self.store.snapshot();
        known
            .bound
            .iter()
            .try_for_each(|bound| bound.check(&state, now))
    }
}

impl Bound {
    fn check(&self, state: &Snapshot, now: i64) -> Result<(), Refusal> {
        let there = state.get(self.key.as_bytes());
        let there = there.ok_or_else(|| self.missing())?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if there.mod_revision() != seen.at {
            let object = parse_stored(there.value()).map_err(|_| self.missing())?;
            if object.uid() != self.uid {
                return Err(self.replaced_by(object.uid()));
            }
            *seen = Seen {
                at: there.mod_revision(),
                ends: object.deletion_timestamp().map(Timestamp::seconds),
            };
        }
        let gone = |ends: i64| ends.saturating_add(DELETED_GRACE_SECONDS) < now;
        match seen.ends.is_some_and(gone) {
            true => Err(self.deleted()),
            false => Ok(()),
        }
    }

    fn missing(&self) -> Refusal {
        match self.what {
            What::Account => format!("serviceaccounts {:?} not found", self.name),
            What::Secret | What::Pod | What::Node => invalidated(),
        }
    }

    fn replaced_by(&self, uid: &str) -> Refusal {
        let claimed = &self.uid;
        let what = match self.what {
            What::Account => {
                return format!("service account UID ({uid}) does not match claim ({claimed})");
            }
            What::Secret => "secret",
            What::Pod => "pod",
            What::Node => "node",
        };
        format!("{what} UID ({uid}) does not match service account {what} ref claim ({claimed})")
    }

    fn deleted(&self) -> Refusal {
        match self.what {
            What::Account => {
                let (namespace, name) = (&self.namespace, &self.name);
                format!("service account {namespace}/{name} has been deleted")
            }
            What::Secret | What::Pod | What::Node => invalidated(),
        }
    }
}

fn invalidated() -> Refusal {
    "service account token has been invalidated".into()
}

/// What must be there for a token to be believed. The node of a pod is only told.
fn bound(kubernetes: &Kubernetes) -> Vec<Bound> {
    let of_pod = kubernetes.pod.is_some();
    let bound = [
        (What::Account, Some(&kubernetes.serviceaccount)),
        (What::Secret, kubernetes.secret.as_ref()),
        (What::Pod, kubernetes.pod.as_ref()),
        (What::Node, kubernetes.node.as_ref().filter(|_| !of_pod)),
    ];
    let bound = bound
        .into_iter()
        .filter_map(|(what, reference)| Some(bound_to(what, &kubernetes.namespace, reference?)));
    bound.collect()
}

fn bound_to(what: What, namespace: &str, reference: &Reference) -> Bound {
    let (directory, namespace) = match what {
        What::Account => ("serviceaccounts", namespace),
        What::Secret => ("secrets", namespace),
        What::Pod => ("pods", namespace),
        What::Node => (NODES, ""),
    };
    Bound {
        what,
        key: key(directory, namespace, &reference.name),
        name: reference.name.clone(),
        namespace: namespace.to_owned(),
        uid: reference.uid.clone(),
        seen: Mutex::new(Seen {
            at: Revision::ZERO,
            ends: None,
        }),
    }
}

fn user(claims: &Claims) -> User {
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
                .insert(format!("{EXTRA}{name}"), vec![value.to_owned()]);
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
