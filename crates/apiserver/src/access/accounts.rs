//! Tokens of service accounts: made on request.
//!
//! Whether one is believed is decided in `belief`.

use super::belief::Believed;
use super::options::AccountOptions;
use crate::kinds::{Kind, parse_stored};
use crate::trouble::read_failed;
use optik_access::jwt::{self, Audiences, Claims, Kubernetes, PublicKey, Reference};
use optik_access::service_account_name;
use optik_object::{FieldError, Object, ResourceName, Status, Timestamp, Value};
use optik_platform::{Clock, Entropy};
use optik_store::{Snapshot, Store};
use serde_json::json;
use std::sync::{Arc, OnceLock};

const SECONDS_DEFAULT: i64 = 3600;
const SECONDS_MIN: i64 = 600;
const SECONDS_MAX: i64 = 1 << 32;
/// Kubelets that ask for exactly this get a year, and warnings after this.
const SECONDS_WARN_ONLY: i64 = 3607;
const SECONDS_EXTENDED: i64 = 365 * 24 * 60 * 60;

pub(crate) struct Accounts {
    pub(super) options: Arc<AccountOptions>,
    pub(super) keys: Vec<PublicKey>,
    pub(super) store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    pub(super) believed: Believed,
}

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
            believed: Believed::default(),
        }
    }

    pub(super) fn now(&self) -> i64 {
        i64::try_from(self.clock.wall().0 / 1000).unwrap_or(i64::MAX)
    }

    pub(crate) fn audiences(&self) -> &[String] {
        self.options.audiences()
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

pub(super) fn key(directory: &str, namespace: &str, name: &str) -> String {
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
pub(super) const NODES: &str = "minions";

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
    let known = matches!(
        (group, target.kind.as_str()),
        ("", "Pod" | "Node" | "Secret")
    );
    if known && target.name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
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
