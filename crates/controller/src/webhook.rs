//! The webhook server: answers AdmissionReviews (validating and mutating) and ConversionReviews
//! (for the versions of a CRD).

use crate::api_client::JSON;
use crate::http_server::{HttpResponse, response, serve};
use crate::kind::ApiObject;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Two objects of the largest size that a server stores, plus overhead.
const REVIEW_BYTES_MAX: usize = 8 << 20;

/// The request of an admission review.
///
/// ```
/// # use optik_controller::AdmissionReview;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// fn check_creation(review: &AdmissionReview<ConfigMap>) -> bool {
///     review.old.is_none() && review.object.is_some()
/// }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AdmissionReview<K> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: String,
    /// The object after the write; `None` for a deletion.
    pub object: Option<K>,
    /// The object before the write; `None` for a creation.
    pub old: Option<K>,
    /// The name of the requesting user.
    pub user: String,
    /// The request is a dry run: nothing is stored, so the webhook must not have side effects.
    pub dry_run: bool,
}

/// The reason for denying an admission request.
///
/// ```
/// # use optik_controller::AdmissionDenial;
/// assert_eq!(AdmissionDenial::new("no retention").to_string(), "no retention");
/// ```
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub struct AdmissionDenial(String);

impl AdmissionDenial {
    /// Creates a denial. The client receives the reason.
    ///
    /// ```
    /// # use optik_controller::AdmissionDenial;
    /// let denial = AdmissionDenial::new("backups are kept for a day at least");
    /// # let _ = denial;
    /// ```
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// An error while creating a webhook server.
///
/// ```
/// # use optik_controller::{WebhookError, WebhookServer};
/// let error = WebhookServer::new(([127, 0, 0, 1], 0).into(), b"no certificate", b"no key");
/// assert!(matches!(error, Err(WebhookError::Certificate(_))));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The certificate or the key cannot be used.
    #[error("the certificate of the webhook server cannot be used: {0}")]
    Certificate(String),
}

type WebhookHandler = Box<dyn Fn(&[u8]) -> Result<Value, String> + Send + Sync>;

/// A server for admission and conversion webhooks. It accepts only TLS.
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use optik_controller::{AdmissionDenial, AdmissionReview, WebhookError, WebhookServer};
/// fn webhooks(certificate: &[u8], key: &[u8]) -> Result<WebhookServer, WebhookError> {
///     let webhooks = WebhookServer::new(([0, 0, 0, 0], 9443).into(), certificate, key)?;
///     Ok(webhooks
///         .mutating("/mutate", |_: &AdmissionReview<ConfigMap>, map: &mut ConfigMap| {
///             map.immutable.get_or_insert(false);
///             Ok(())
///         })
///         .validating("/validate", |review: &AdmissionReview<ConfigMap>| match &review.object {
///             Some(map) if map.data.is_none() => Err(AdmissionDenial::new("an empty map")),
///             _ => Ok(()),
///         }))
/// }
/// ```
pub struct WebhookServer {
    pub(crate) address: SocketAddr,
    tls: TlsAcceptor,
    handlers: BTreeMap<String, WebhookHandler>,
}

impl WebhookServer {
    /// Creates a server for an address, with a certificate chain and a private key in PEM.
    ///
    /// ```
    /// # use optik_controller::{WebhookError, WebhookServer};
    /// # fn make(certificate: &[u8], key: &[u8]) -> Result<(), WebhookError> {
    /// let webhooks = WebhookServer::new(([0, 0, 0, 0], 9443).into(), certificate, key)?;
    /// # let _ = webhooks; Ok(())
    /// # }
    /// ```
    pub fn new(address: SocketAddr, certificate: &[u8], key: &[u8]) -> Result<Self, WebhookError> {
        let failed = |cause: &dyn std::fmt::Display| WebhookError::Certificate(cause.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
        let chain = chain.map_err(|cause| failed(&cause))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|cause| failed(&cause))?;
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .map_err(|cause| failed(&cause))?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|cause| failed(&cause))?;
        Ok(Self {
            address,
            tls: TlsAcceptor::from(Arc::new(config)),
            handlers: BTreeMap::new(),
        })
    }

    /// Adds a validating admission webhook at a path.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use optik_controller::{AdmissionDenial, AdmissionReview, WebhookServer};
    /// fn add(webhooks: WebhookServer) -> WebhookServer {
    ///     webhooks.validating("/validate", |review: &AdmissionReview<ConfigMap>| {
    ///         if review.user == "nobody" { Err(AdmissionDenial::new("not you")) } else { Ok(()) }
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn validating<K: ApiObject>(
        mut self,
        path: &str,
        decide: impl Fn(&AdmissionReview<K>) -> Result<(), AdmissionDenial> + Send + Sync + 'static,
    ) -> Self {
        let handler: WebhookHandler = Box::new(move |body| {
            let (uid, review) = parse_admission::<K>(body)?;
            Ok(admission_response(&uid, decide(&review), Vec::new()))
        });
        self.handlers.insert(path.to_owned(), handler);
        self
    }

    /// Adds a mutating admission webhook at a path. Only the difference is returned, as a JSON
    /// Patch.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use optik_controller::{AdmissionReview, WebhookServer};
    /// fn add(webhooks: WebhookServer) -> WebhookServer {
    ///     webhooks.mutating("/mutate", |_: &AdmissionReview<ConfigMap>, map: &mut ConfigMap| {
    ///         map.immutable = Some(true);
    ///         Ok(())
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn mutating<K: ApiObject>(
        mut self,
        path: &str,
        change: impl Fn(&AdmissionReview<K>, &mut K) -> Result<(), AdmissionDenial>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let handler: WebhookHandler = Box::new(move |body| {
            let (uid, review) = parse_admission::<K>(body)?;
            let Some(mut object) = review.object.clone() else {
                return Ok(admission_response(&uid, Ok(()), Vec::new()));
            };
            let before = serde_json::to_value(&object).map_err(|cause| cause.to_string())?;
            let decided = change(&review, &mut object);
            let after = serde_json::to_value(&object).map_err(|cause| cause.to_string())?;
            let mut patch = Vec::new();
            json_patch(&before, &after, "", &mut patch);
            Ok(admission_response(&uid, decided, patch))
        });
        self.handlers.insert(path.to_owned(), handler);
        self
    }

    /// Adds a conversion webhook for a CRD at a path. `convert` gets an object and the desired
    /// `apiVersion`.
    ///
    /// ```
    /// # use optik_controller::WebhookServer;
    /// fn add(webhooks: WebhookServer) -> WebhookServer {
    ///     webhooks.converting("/convert", |mut object, version| {
    ///         object["apiVersion"] = version.into();
    ///         Ok(object)
    ///     })
    /// }
    /// ```
    #[must_use]
    pub fn converting(
        mut self,
        path: &str,
        convert: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static,
    ) -> Self {
        let handler: WebhookHandler = Box::new(move |body| {
            let review: ReviewEnvelope<ConversionReviewRequest> = parse_review(body)?;
            let asked = review.request;
            let to = asked.desired_api_version.as_str();
            let objects = asked.objects.into_iter();
            let converted: Result<Vec<Value>, String> =
                objects.map(|object| convert(object, to)).collect();
            let result = match &converted {
                Ok(_) => json!({"status": "Success"}),
                Err(message) => json!({"status": "Failure", "message": message}),
            };
            Ok(json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "response": {
                    "uid": asked.uid, "result": result,
                    "convertedObjects": converted.unwrap_or_default(),
                },
            }))
        });
        self.handlers.insert(path.to_owned(), handler);
        self
    }

    pub(crate) async fn serve(self, listener: TcpListener) {
        let handlers = Arc::new(self.handlers);
        serve(listener, Some(self.tls), move |request| {
            handle_request(request, Arc::clone(&handlers))
        })
        .await;
    }
}

async fn handle_request(
    request: Request<Incoming>,
    handlers: Arc<BTreeMap<String, WebhookHandler>>,
) -> HttpResponse {
    let refuse = |status, text: String| response(status, "text/plain; charset=utf-8", text);
    let Some(handler) = handlers.get(request.uri().path()) else {
        return refuse(StatusCode::NOT_FOUND, "not here".to_owned());
    };
    if request.method() != Method::POST {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "POST a review".to_owned());
    }
    let body = Limited::new(request.into_body(), REVIEW_BYTES_MAX);
    let body: Bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(cause) => return refuse(StatusCode::PAYLOAD_TOO_LARGE, cause.to_string()),
    };
    match handler(&body) {
        Ok(review) => response(StatusCode::OK, JSON, review.to_string()),
        Err(cause) => refuse(StatusCode::BAD_REQUEST, cause),
    }
}

#[derive(Deserialize)]
struct ReviewEnvelope<T> {
    request: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "K: DeserializeOwned")]
struct AdmissionRequest<K> {
    uid: String,
    operation: String,
    #[serde(default)]
    user_info: UserInfo,
    object: Option<K>,
    old_object: Option<K>,
    #[serde(default)]
    dry_run: Option<bool>,
}

#[derive(Default, Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversionReviewRequest {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    objects: Vec<Value>,
}

fn parse_review<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|cause| format!("not a review: {cause}"))
}

fn parse_admission<K: ApiObject>(body: &[u8]) -> Result<(String, AdmissionReview<K>), String> {
    let asked: ReviewEnvelope<AdmissionRequest<K>> = parse_review(body)?;
    let asked = asked.request;
    let review = AdmissionReview {
        operation: asked.operation,
        object: asked.object,
        old: asked.old_object,
        user: asked.user_info.username,
        dry_run: asked.dry_run.unwrap_or(false),
    };
    Ok((asked.uid, review))
}

fn admission_response(uid: &str, decided: Result<(), AdmissionDenial>, patch: Vec<Value>) -> Value {
    let mut response = json!({"uid": uid, "allowed": decided.is_ok()});
    match decided {
        Err(denial) => {
            let status = json!({"code": 403, "reason": "Forbidden", "message": denial.to_string()});
            response["status"] = status;
        }
        Ok(()) if !patch.is_empty() => {
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(base64(Value::from(patch).to_string().as_bytes()));
        }
        Ok(()) => {}
    }
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": response,
    })
}

/// Appends the JSON Patch from `from` to `to`; arrays are replaced as a whole.
fn json_patch(from: &Value, to: &Value, path: &str, patch: &mut Vec<Value>) {
    let (Value::Object(old), Value::Object(new)) = (from, to) else {
        if from != to {
            patch.push(json!({"op": "replace", "path": path, "value": to}));
        }
        return;
    };
    let place = |name: &str| format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
    let has = |object: &Map<String, Value>, name: &str| {
        object.get(name).is_some_and(|value| !value.is_null())
    };
    for (name, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        match old.get(name).filter(|before| !before.is_null()) {
            Some(before) => json_patch(before, value, &place(name), patch),
            None => patch.push(json!({"op": "add", "path": place(name), "value": value})),
        }
    }
    for name in old.keys().filter(|name| has(old, name) && !has(new, name)) {
        patch.push(json!({"op": "remove", "path": place(name)}));
    }
}

fn base64(bytes: &[u8]) -> String {
    let encoded = serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()));
    encoded
        .ok()
        .and_then(|text| text.as_str().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_json_patch_contains_only_differences() {
        let from = json!({"a": {"b": 1, "gone": 2, "null": null}, "list": [1]});
        let to = json!({"a": {"b": 2, "x/y": 3}, "list": [1, 2]});
        let mut patch = Vec::new();
        json_patch(&from, &to, "", &mut patch);
        let expected = json!([
            {"op": "replace", "path": "/a/b", "value": 2},
            {"op": "add", "path": "/a/x~1y", "value": 3},
            {"op": "remove", "path": "/a/gone"},
            {"op": "replace", "path": "/list", "value": [1, 2]},
        ]);
        assert_eq!(Value::from(patch), expected);
        let mut nothing = Vec::new();
        json_patch(&to, &to, "", &mut nothing);
        assert!(nothing.is_empty());
    }
}
