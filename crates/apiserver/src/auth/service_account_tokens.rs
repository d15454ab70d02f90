//! Issues service account tokens (TokenRequest) and serves the OpenID documents.
//!
//! Tokens are authenticated in `token_cache`.

use crate::auth::auth_options::ServiceAccountOptions;
use crate::auth::token_cache::TokenCache;
use crate::registry::served_resource::{ServedResource, parse_stored};
use crate::server::store_errors::read_failed;
use optik_auth::jwt::{
    self, Audiences, BoundObjectReference, JwtClaims, KubernetesClaims, PublicKey,
};
use optik_auth::service_account_name;
use optik_catalog::key_prefix;
use optik_object::{FieldError, Object, ResourceName, Status, Timestamp, Value};
use optik_platform::{Clock, Entropy};
use optik_store::{Snapshot, Store};
use serde_json::json;
use std::sync::{Arc, OnceLock};

const EXPIRATION_SECONDS_DEFAULT: i64 = 3600;
const EXPIRATION_SECONDS_MIN: i64 = 600;
const EXPIRATION_SECONDS_MAX: i64 = 1 << 32;
/// A kubelet that requests exactly this lifetime gets a token for one year; its use after this time
/// causes warnings.
const EXPIRATION_SECONDS_WARN_ONLY: i64 = 3607;
const EXPIRATION_SECONDS_EXTENDED: i64 = 365 * 24 * 60 * 60;

pub(crate) struct ServiceAccountTokens {
    pub(super) options: Arc<ServiceAccountOptions>,
    pub(super) verification_keys: Vec<PublicKey>,
    pub(super) store: Store,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    pub(super) token_cache: TokenCache,
}

impl ServiceAccountTokens {
    pub(crate) fn new(
        options: Arc<ServiceAccountOptions>,
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Self {
        let mut keys = vec![options.signing_key.public().clone()];
        keys.extend(
            options
                .verification_keys
                .iter()
                .filter(|key| *key != options.signing_key.public())
                .cloned(),
        );
        Self {
            options,
            verification_keys: keys,
            store,
            clock,
            entropy,
            token_cache: TokenCache::default(),
        }
    }

    pub(super) fn now(&self) -> i64 {
        i64::try_from(self.clock.wall().0 / 1000).unwrap_or(i64::MAX)
    }

    pub(crate) fn audiences(&self) -> &[String] {
        self.options.audiences()
    }

    /// The OpenID provider configuration.
    pub(crate) fn openid_configuration(&self) -> Value {
        let issuer = &self.options.issuer;
        let keys = match self.options.jwks_uri.as_str() {
            "" => format!("{}/openid/v1/jwks", issuer.trim_end_matches('/')),
            uri => uri.to_owned(),
        };
        let mut algorithms: Vec<&str> = self
            .verification_keys
            .iter()
            .map(PublicKey::algorithm)
            .collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        json!({
            "issuer": issuer, "jwks_uri": keys, "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": algorithms,
        })
    }

    pub(crate) fn jwks(&self) -> Value {
        let keys: Vec<Value> = self.verification_keys.iter().map(PublicKey::jwk).collect();
        json!({ "keys": keys })
    }

    /// Issues the token of a TokenRequest for a service account; warnings are returned with it.
    pub(crate) async fn issue(
        &self,
        namespace: &str,
        name: &str,
        mut request: Object,
    ) -> Result<(Object, Vec<String>), Status> {
        check_name_and_namespace(&request, namespace, name)?;
        let state = self.store.latest().await.map_err(read_failed)?;
        let account = find(&state, SERVICE_ACCOUNTS, namespace, name)?;
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
        let mut wanted = TokenRequestSpec::read(spec);
        if wanted.audiences.is_empty() {
            wanted.audiences = self.audiences().to_vec();
        }
        wanted.validate()?;
        let mut kubernetes = KubernetesClaims {
            namespace: namespace.into(),
            serviceaccount: object_reference(&account),
            ..KubernetesClaims::default()
        };
        if let Some(target) = &wanted.bound_object {
            bind_to_object(&state, target, namespace, name, &mut kubernetes)?;
        }
        let mut warnings = Vec::new();
        let longest = self.options.expiration_seconds_max;
        if wanted.expiration_seconds > longest {
            warnings.push(format!(
                "requested expiration of {} seconds shortened to {longest} seconds",
                wanted.expiration_seconds
            ));
            wanted.expiration_seconds = longest;
        }
        let mut lasts = wanted.expiration_seconds;
        let for_us = wanted
            .audiences
            .iter()
            .all(|audience| self.audiences().contains(audience));
        if kubernetes.pod.is_some()
            && wanted.expiration_seconds == EXPIRATION_SECONDS_WARN_ONLY
            && for_us
        {
            kubernetes.warnafter = Some(now + wanted.expiration_seconds);
            lasts = EXPIRATION_SECONDS_EXTENDED;
        }
        let claims = JwtClaims {
            aud: Audiences(wanted.audiences.clone()),
            exp: now + lasts,
            iat: now,
            nbf: now,
            iss: self.options.issuer.clone(),
            jti: crate::handlers::write::new_uid(&*self.entropy),
            sub: service_account_name(namespace, name),
            kubernetes,
        };
        let token = jwt::sign(&self.options.signing_key, &claims)
            .map_err(|error| Status::internal(&format!("failed to generate token: {error}")))?;
        let ends = Timestamp::from_seconds(now + wanted.expiration_seconds);
        wanted.write_to(request.members_mut().entry("spec").or_insert(Value::Null));
        let status = json!({"token": token, "expirationTimestamp": ends.to_string()});
        request.members_mut().insert("status".into(), status);
        Ok((request, warnings))
    }
}

/// The spec of a TokenRequest.
struct TokenRequestSpec {
    audiences: Vec<String>,
    expiration_seconds: i64,
    bound_object: Option<BoundObjectRef>,
}

struct BoundObjectRef {
    kind: String,
    api_version: String,
    name: String,
    uid: String,
}

impl TokenRequestSpec {
    fn read(spec: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let audiences = spec["audiences"].as_array().into_iter().flatten();
        let bound = spec.get("boundObjectRef").filter(|bound| bound.is_object());
        Self {
            audiences: audiences.map(text).collect(),
            expiration_seconds: match spec["expirationSeconds"].as_i64() {
                None => EXPIRATION_SECONDS_DEFAULT,
                Some(seconds) => seconds,
            },
            bound_object: bound.map(|bound| BoundObjectRef {
                kind: text(&bound["kind"]),
                api_version: text(&bound["apiVersion"]),
                name: text(&bound["name"]),
                uid: text(&bound["uid"]),
            }),
        }
    }

    fn validate(&self) -> Result<(), Status> {
        let text = match self.expiration_seconds {
            seconds if seconds < EXPIRATION_SECONDS_MIN => {
                "may not specify a duration less than 10 minutes"
            }
            seconds if seconds > EXPIRATION_SECONDS_MAX => {
                "may not specify a duration larger than 2^32 seconds"
            }
            _ => return Ok(()),
        };
        let error = FieldError::invalid("spec.expirationSeconds", self.expiration_seconds, text);
        Err(Status::invalid(token_request_resource(), "", &[error]))
    }

    /// Writes the spec, with defaults filled in.
    fn write_to(&self, spec: &mut Value) {
        spec["audiences"] = self.audiences.clone().into();
        spec["expirationSeconds"] = self.expiration_seconds.into();
        if self.bound_object.is_none() {
            spec["boundObjectRef"] = Value::Null;
        }
    }
}

fn check_name_and_namespace(request: &Object, namespace: &str, name: &str) -> Result<(), Status> {
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

/// A resource whose objects tokens refer to.
#[derive(Clone, Copy)]
pub(super) struct TokenResource {
    plural: &'static str,
    key_prefix: &'static str,
}

pub(super) const SERVICE_ACCOUNTS: TokenResource = TokenResource::new("serviceaccounts");
pub(super) const PODS: TokenResource = TokenResource::new("pods");
pub(super) const SECRETS: TokenResource = TokenResource::new("secrets");
pub(super) const NODES: TokenResource = TokenResource::new("nodes");

impl TokenResource {
    const fn new(plural: &'static str) -> Self {
        Self {
            plural,
            key_prefix: key_prefix("", plural),
        }
    }

    /// The store key of an object; `namespace` is empty for a cluster-scoped resource.
    pub(super) fn object_key(self, namespace: &str, name: &str) -> String {
        let prefix = self.key_prefix;
        match namespace {
            "" => format!("{prefix}{name}"),
            namespace => format!("{prefix}{namespace}/{name}"),
        }
    }
}

fn find(
    state: &Snapshot,
    resource: TokenResource,
    namespace: &str,
    name: &str,
) -> Result<Object, Status> {
    let key = resource.object_key(namespace, name);
    let found = state
        .get(key.as_bytes())
        .and_then(|there| parse_stored(there.value()).ok());
    found.ok_or_else(|| {
        let resource = ResourceName {
            group: "",
            plural: resource.plural,
            kind: "",
        };
        Status::not_found(resource, name)
    })
}

/// Binds a token to an existing object.
fn bind_to_object(
    state: &Snapshot,
    target: &BoundObjectRef,
    namespace: &str,
    account: &str,
    kubernetes: &mut KubernetesClaims,
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
            let pod = find(state, PODS, namespace, &target.name)?;
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
                kubernetes.node = Some(BoundObjectReference { name: node, uid });
            }
            kubernetes.pod = Some(object_reference(&pod));
            pod
        }
        ("", "Node") => {
            let node = find(state, NODES, "", &target.name)?;
            kubernetes.node = Some(object_reference(&node));
            node
        }
        ("", "Secret") => {
            let secret = find(state, SECRETS, namespace, &target.name)?;
            kubernetes.secret = Some(object_reference(&secret));
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

fn object_reference(object: &Object) -> BoundObjectReference {
    BoundObjectReference {
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

/// The descriptor of TokenRequest.
pub(crate) fn token_request_kind() -> &'static Arc<ServedResource> {
    static KIND: OnceLock<Arc<ServedResource>> = OnceLock::new();
    KIND.get_or_init(|| Arc::new(ServedResource::new(optik_catalog::token_request(), None)))
}
