//! Tokens of service accounts: made on request, believed while what they are bound to
//! is there.
//!
//! A signature is checked once; after that a token is known by its digest. Whether the
//! account and what else it is bound to are still there is asked every time: of an object
//! that has not changed since it was looked at, only the revision is compared.

use super::options::AccountOptions;
use crate::kinds::{Kind, parse_stored};
use crate::trouble::read_failed;
use optik_access::jwt::{self, Audiences, Claims, Kubernetes, PublicKey, Reference, TokenError};
use optik_access::{User, service_account_groups, service_account_name};
use optik_object::{FieldError, Object, ResourceName, Status, Timestamp, Value};
use optik_platform::{Clock, Entropy};
use optik_store::{Revision, Snapshot, Store};
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// How many tokens are known before all are forgotten.
const TOKENS_MAX: usize = 10_000;
const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
/// Kubelets that ask for exactly this get a year, and warnings after this.
const SECONDS_WARN_ONLY: i64 = 3607;
const SECONDS_EXTENDED: i64 = 365 * 24 * 60 * 60;
/// How long what is bound to a deleted object is still believed, so that it can clean up.
const DELETED_GRACE_SECONDS: i64 = 60;
const EXTRA: &str = "authentication.kubernetes.io/";

pub(crate) struct Accounts {
    options: Arc<AccountOptions>,
    keys: Vec<PublicKey>,
    store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    known: Mutex<BTreeMap<[u8; 32], Known>>,
}

/// A token whose signature was right.
#[derive(Clone)]
struct Known {
    user: Arc<User>,
    audiences: Vec<String>,
    expires: i64,
    begins: i64,
    bound: Vec<Bound>,
}

/// An object that must be there.
#[derive(Clone)]
struct Bound {
    key: String,
    uid: String,
    seen: Revision,
    /// When it goes, if it has been deleted.
    ends: Option<i64>,
}

/// Why a token is not accepted, as reviews tell it.
pub(crate) type Refusal = String;

impl Accounts {
    pub(crate) fn new(
        options: Arc<AccountOptions>,
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let mut keys = vec![options.signing.public().clone()];
        keys.extend(
            options
                .others
                .iter()
                .filter(|key| *key != options.signing.public())
                .cloned(),
        );
        Self {
            options,
            keys,
            store,
            clock,
            entropy,
            known: Mutex::default(),
        }
    }

    fn now(&self) -> i64 {
        i64::try_from(self.clock.wall().0 / 1000).unwrap_or(i64::MAX)
    }

    pub(crate) fn audiences(&self) -> &[String] {
        self.options.audiences()
    }

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
        let digest: [u8; 32] = Sha256::digest(token).into();
        let known = self
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&digest)
            .cloned();
        let (mut known, new) = match known {
            Some(known) => (known, false),
            None => (self.read(token).map_err(|error| error.to_string())?, true),
        };
        let now = self.now();
        if now.saturating_sub(DELETED_GRACE_SECONDS) > known.expires {
            return Err(TokenError::Expired.to_string());
        }
        if now.saturating_add(DELETED_GRACE_SECONDS) < known.begins {
            return Err(TokenError::NotYetValid.to_string());
        }
        let changed = self.check_bound(&mut known.bound, now)?;
        let fits: Vec<String> = known
            .audiences
            .iter()
            .filter(|audience| audiences.contains(audience))
            .cloned()
            .collect();
        let answer = match fits.is_empty() {
            false => Ok((Arc::clone(&known.user), fits)),
            true => Err(format!(
                "token audiences {:?} is invalid for the target audiences {:?}",
                known.audiences, audiences
            )),
        };
        if new || changed {
            let mut all = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= TOKENS_MAX {
                all.clear();
            }
            all.insert(digest, known);
        }
        answer
    }

    fn read(&self, token: &[u8]) -> Result<Known, TokenError> {
        let claims = jwt::verify(token, &self.keys, &self.options.issuer, self.now())?;
        Ok(Known {
            bound: bound(&claims.kubernetes),
            expires: claims.exp,
            begins: claims.nbf.max(claims.iat),
            user: Arc::new(user(&claims)),
            audiences: claims.aud.0,
        })
    }

    /// Whether everything is there; true if something was looked at anew.
    fn check_bound(&self, bound: &mut [Bound], now: i64) -> Result<bool, Refusal> {
        let invalid = || "service account token has been invalidated".to_owned();
        let state = self.store.snapshot();
        let mut changed = false;
        for bound in bound {
            let there = state.get(bound.key.as_bytes()).ok_or_else(invalid)?;
            if there.mod_revision() != bound.seen {
                let object = parse_stored(there.value()).map_err(|_| invalid())?;
                if object.uid() != bound.uid {
                    return Err(invalid());
                }
                bound.ends = object.deletion_timestamp().map(Timestamp::seconds);
                bound.seen = there.mod_revision();
                changed = true;
            }
            if bound
                .ends
                .is_some_and(|ends| ends.saturating_add(DELETED_GRACE_SECONDS) < now)
            {
                return Err(invalid());
            }
        }
        Ok(changed)
    }

    /// What OpenID calls the configuration of a provider.
    pub(crate) fn configuration(&self) -> Value {
        let issuer = &self.options.issuer;
        let keys = match self.options.jwks_uri.as_str() {
            "" => format!("{}/openid/v1/jwks", issuer.trim_end_matches('/')),
            uri => uri.to_owned(),
        };
        let mut algorithms: Vec<&str> = self.keys.iter().map(PublicKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": issuer, "jwks_uri": keys, "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    pub(crate) fn key_set(&self) -> Value {
        let keys: Vec<Value> = self.keys.iter().map(PublicKey::jwk).collect();
        json!({ "keys": keys })
    }

    /// Carries out a TokenRequest for an account; warnings go with the answer.
    pub(crate) async fn issue(
        &self,
        namespace: &str,
        name: &str,
        mut request: Object,
    ) -> Result<(Object, Vec<String>), Status> {
        check_place(&request, namespace, name)?;
        let state = self.store.latest().await.map_err(read_failed)?;
        let account = find(&state, "serviceaccounts", namespace, name)?;
        if !request.uid().is_empty() && request.uid() != account.uid() {
            let text = format!(
                "the UID in the token request ({}) does not match the UID of the service account ({})",
                request.uid(),
                account.uid()
            );
            return Err(Status::conflict(token_request_resource(), name, &text));
        }
        let now = self.now();
        request.set_name(name);
        request.set_namespace(namespace);
        request.set_uid(account.uid());
        request.set_creation_timestamp(Some(Timestamp::from_seconds(now)));
        let spec = request.members_mut().entry("spec").or_insert(Value::Null);
        if !spec.is_object() {
            *spec = json!({});
        }
        let mut wanted = Wanted::read(spec);
        if wanted.audiences.is_empty() {
            wanted.audiences = self.audiences().to_vec();
        }
        wanted.check()?;
        let mut kubernetes = Kubernetes {
            namespace: namespace.into(),
            serviceaccount: reference(&account),
            ..Kubernetes::default()
        };
        if let Some(target) = &wanted.bound {
            bind(&state, target, namespace, name, &mut kubernetes)?;
        }
        let mut warnings = Vec::new();
        let longest = self.options.seconds_max;
        if wanted.seconds > longest {
            warnings.push(format!(
                "requested expiration of {} seconds shortened to {longest} seconds",
                wanted.seconds
            ));
            wanted.seconds = longest;
        }
        let mut lasts = wanted.seconds;
        let for_us = wanted
            .audiences
            .iter()
            .all(|audience| self.audiences().contains(audience));
        if kubernetes.pod.is_some() && wanted.seconds == SECONDS_WARN_ONLY && for_us {
            kubernetes.warnafter = Some(now + wanted.seconds);
            lasts = SECONDS_EXTENDED;
        }
        let claims = Claims {
            aud: Audiences(wanted.audiences.clone()),
            exp: now + lasts,
            iat: now,
            nbf: now,
            iss: self.options.issuer.clone(),
            jti: crate::write::new_uid(&*self.entropy),
            sub: service_account_name(namespace, name),
            kubernetes,
        };
        let token = jwt::sign(&self.options.signing, &claims)
            .map_err(|error| Status::internal(&format!("failed to generate token: {error}")))?;
        let ends = Timestamp::from_seconds(now + wanted.seconds);
        wanted.write(request.members_mut().entry("spec").or_insert(Value::Null));
        let status = json!({"token": token, "expirationTimestamp": ends.to_string()});
        request.members_mut().insert("status".into(), status);
        Ok((request, warnings))
    }
}

/// What a request asks for.
struct Wanted {
    audiences: Vec<String>,
    seconds: i64,
    bound: Option<Target>,
}

struct Target {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

impl Wanted {
    fn read(spec: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let audiences = spec["audiences"].as_array().into_iter().flatten();
        let bound = spec.get("boundObjectRef").filter(|bound| bound.is_object());
        Self {
            audiences: audiences.map(text).collect(),
            seconds: match spec["expirationSeconds"].as_i64() {
                None => SECONDS_DEFAULT,
                Some(seconds) => seconds,
            },
            bound: bound.map(|bound| Target {
                kind: text(&bound["kind"]),
                api_version: text(&bound["apiVersion"]),
                name: text(&bound["name"]),
                uid: text(&bound["uid"]),
            }),
        }
    }

    fn check(&self) -> Result<(), Status> {
        let text = match self.seconds {
            seconds if seconds < SECONDS_MIN => "may not specify a duration less than 10 minutes",
            seconds if seconds > SECONDS_MAX => {
                "may not specify a duration larger than 2^32 seconds"
            }
            _ => return Ok(()),
        };
        let error = FieldError::invalid("spec.expirationSeconds", self.seconds, text);
        Err(Status::invalid(token_request_resource(), "", &[error]))
    }

    /// What was asked for, with what was added.
    fn write(&self, spec: &mut Value) {
        spec["audiences"] = self.audiences.clone().into();
        spec["expirationSeconds"] = self.seconds.into();
        if self.bound.is_none() {
            spec["boundObjectRef"] = Value::Null;
        }
    }
}

fn check_place(request: &Object, namespace: &str, name: &str) -> Result<(), Status> {
    for (path, sent, wanted, text) in [
        (
            "metadata.name",
            request.name(),
            name,
            "must match the service account name if specified",
        ),
        (
            "metadata.namespace",
            request.namespace(),
            namespace,
            "must match the service account namespace if specified",
        ),
    ] {
        if !sent.is_empty() && sent != wanted {
            let error = FieldError::invalid(path, sent, text);
            return Err(Status::invalid(token_request_resource(), name, &[error]));
        }
    }
    Ok(())
}

fn key(directory: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("/registry/{directory}/{name}"),
        namespace => format!("/registry/{directory}/{namespace}/{name}"),
    }
}

fn find(state: &Snapshot, directory: &str, namespace: &str, name: &str) -> Result<Object, Status> {
    let key = key(directory, namespace, name);
    let found = state
        .get(key.as_bytes())
        .and_then(|there| parse_stored(there.value()).ok());
    let plural = if directory == NODES {
        "nodes"
    } else {
        directory
    };
    found.ok_or_else(|| {
        let resource = ResourceName {
            group: "",
            plural,
            kind: "",
        };
        Status::not_found(resource, name)
    })
}

/// Where nodes are kept.
const NODES: &str = "minions";

/// Binds a token to an object, which must be there.
fn bind(
    state: &Snapshot,
    target: &Target,
    namespace: &str,
    account: &str,
    kubernetes: &mut Kubernetes,
) -> Result<(), Status> {
    let (group, version) = target
        .api_version
        .split_once('/')
        .unwrap_or(("", &target.api_version));
    let object = match (group, target.kind.as_str()) {
        ("", "Pod") => {
            let pod = find(state, "pods", namespace, &target.name)?;
            let spec = |member: &str| {
                let value = pod.get("spec").and_then(|spec| spec.get(member));
                value.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            if spec("serviceAccountName") != account {
                let account = optik_object::quote(account);
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {account} to pod running with different \
                     serviceaccount name."
                )));
            }
            let node = spec("nodeName");
            if !node.is_empty() {
                let found = find(state, NODES, "", &node).ok();
                let uid = found.map(|node| node.uid().to_owned()).unwrap_or_default();
                kubernetes.node = Some(Reference { name: node, uid });
            }
            kubernetes.pod = Some(reference(&pod));
            pod
        }
        ("", "Node") => {
            let node = find(state, NODES, "", &target.name)?;
            kubernetes.node = Some(reference(&node));
            node
        }
        ("", "Secret") => {
            let secret = find(state, "secrets", namespace, &target.name)?;
            kubernetes.secret = Some(reference(&secret));
            secret
        }
        (group, kind) => {
            let text =
                format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(Status::bad_request(text));
        }
    };
    if !target.uid.is_empty() && target.uid != object.uid() {
        let resource = ResourceName {
            group,
            plural: &target.kind,
            kind: &target.kind,
        };
        let text = format!(
            "the UID in the bound object reference ({}) does not match the UID in record. The \
             object might have been deleted and then recreated",
            target.uid
        );
        return Err(Status::conflict(resource, &target.name, &text));
    }
    Ok(())
}

fn reference(object: &Object) -> Reference {
    Reference {
        name: object.name().into(),
        uid: object.uid().into(),
    }
}

/// What must be there for a token to be believed. The node of a pod is only told.
fn bound(kubernetes: &Kubernetes) -> Vec<Bound> {
    let namespace = kubernetes.namespace.as_str();
    let of_pod = kubernetes.pod.is_some();
    let bound = [
        (
            "serviceaccounts",
            namespace,
            Some(&kubernetes.serviceaccount),
        ),
        ("pods", namespace, kubernetes.pod.as_ref()),
        ("secrets", namespace, kubernetes.secret.as_ref()),
        (NODES, "", kubernetes.node.as_ref().filter(|_| !of_pod)),
    ];
    let bound = bound
        .into_iter()
        .filter_map(|(directory, namespace, reference)| {
            let reference = reference?;
            Some(Bound {
                key: key(directory, namespace, &reference.name),
                uid: reference.uid.clone(),
                seen: Revision::ZERO,
                ends: None,
            })
        });
    bound.collect()
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

fn token_request_resource() -> ResourceName<'static> {
    ResourceName {
        group: "authentication.k8s.io",
        plural: "TokenRequest",
        kind: "TokenRequest",
    }
}

/// What a token request is.
pub(crate) fn token_request_kind() -> &'static Arc<Kind> {
    static KIND: OnceLock<Arc<Kind>> = OnceLock::new();
    KIND.get_or_init(|| Arc::new(Kind::new(optik_catalog::token_request(), None)))
}
