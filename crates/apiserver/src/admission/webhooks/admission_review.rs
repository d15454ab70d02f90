//! The AdmissionReview: encodes the request to a webhook and decodes the response.

use crate::admission::AdmissionAttributes;
use crate::admission::admission_request::admission_request;
use crate::registry::served_resource::ServedResource;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use optik_object::{Object, Value, json_type, quote};
use serde_json::json;
use std::collections::BTreeMap;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// A request, with the object in the version that the webhook matched.
pub(super) struct AdmissionReviewRequest<'a> {
    pub(super) uid: &'a str,
    /// `v1`
    pub(super) version: &'a str,
    pub(super) attributes: &'a AdmissionAttributes<'a>,
    /// The resource and the object in the version that the webhook matched.
    pub(super) kind: &'a ServedResource,
    pub(super) object_kind: &'a ServedResource,
    pub(super) object: Option<&'a Object>,
    pub(super) old: Option<&'a Object>,
}

impl AdmissionReviewRequest<'_> {
    pub(super) fn to_json(&self) -> Bytes {
        let attributes = self.attributes;
        let whole = |object: Option<&Object>| object.cloned().map_or(Value::Null, Value::from);
        let mut request = admission_request(attributes, self.kind, self.object_kind);
        request["uid"] = self.uid.into();
        request["object"] = whole(self.object);
        request["oldObject"] = whole(self.old);
        let review = json!({
            "kind": KIND, "apiVersion": format!("{GROUP}/{}", self.version), "request": request,
        });
        optik_object::to_bytes(&review).into()
    }
}

/// The response of a webhook.
#[derive(Debug, Default)]
pub(super) struct AdmissionResponse {
    pub(super) allowed: bool,
    /// The reason of a denial, as a `Status`.
    pub(super) status: Value,
    pub(super) patch: Vec<u8>,
    pub(super) warnings: Vec<String>,
    pub(super) annotations: BTreeMap<String, String>,
}

/// Whether the response may contain a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WebhookType {
    Mutating,
    Validating,
}

/// Why a response is invalid.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidReview {
    /// The body is not an AdmissionReview.
    #[error("{0}")]
    Document(String),
    #[error("{0}")]
    Response(String),
    #[error("unsupported patch type {0}")]
    PatchType(String),
}

impl AdmissionResponse {
    pub(super) fn read(
        review: &Value,
        (uid, version): (&str, &str),
        phase: WebhookType,
    ) -> Result<Self, InvalidReview> {
        check_type(review)?;
        let refuse = |text: String| Err(InvalidReview::Response(text));
        let response = &review["response"];
        if response.is_null() {
            return refuse("webhook response was absent".into());
        }
        let text = |name: &str| response[name].as_str().unwrap_or_default();
        if version == "v1" && text("uid") != uid {
            let (uid, got) = (quote(uid), quote(text("uid")));
            return refuse(format!("expected response.uid={uid}, got {got}"));
        }
        let sent = review["apiVersion"].as_str().unwrap_or_default();
        if version == "v1" && sent != format!("{GROUP}/v1") {
            let (group, version) = sent.split_once('/').unwrap_or(("", sent));
            return refuse(format!(
                "expected webhook response of {GROUP}/v1, Kind={KIND}, got {group}/{version}, \
                 Kind={KIND}"
            ));
        }
        let verdict = Self {
            allowed: boolean(response, "allowed")?,
            status: response["status"].clone(),
            patch: bytes(response, "patch")?,
            warnings: strs_of(&response["warnings"]),
            annotations: annotations(&response["auditAnnotations"]),
        };
        let patch_type = response["patchType"].as_str();
        check_patch(&verdict.patch, patch_type, version, phase)?;
        Ok(match phase {
            WebhookType::Mutating => verdict,
            WebhookType::Validating => Self {
                patch: Vec::new(),
                ..verdict
            },
        })
    }
}

fn check_type(review: &Value) -> Result<(), InvalidReview> {
    let refuse = |text: String| Err(InvalidReview::Document(text));
    let member = |name: &str| review[name].as_str().unwrap_or_default();
    let (kind, api_version) = (member("kind"), member("apiVersion"));
    if kind.is_empty() {
        return refuse(format!("Object 'Kind' is missing in '{review}'"));
    }
    if api_version.is_empty() {
        return refuse(format!("Object 'apiVersion' is missing in '{review}'"));
    }
    let known = ["v1", "v1beta1"]
        .iter()
        .any(|version| api_version == format!("{GROUP}/{version}"));
    if kind != KIND || !known {
        return refuse(format!(
            "no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \
             \"pkg/runtime/scheme.go:111\""
        ));
    }
    Ok(())
}

fn check_patch(
    patch: &[u8],
    patch_type: Option<&str>,
    version: &str,
    phase: WebhookType,
) -> Result<(), InvalidReview> {
    if version != "v1" {
        return Ok(());
    }
    let refuse = |text: &str| Err(InvalidReview::Response(text.to_owned()));
    match (phase, patch.is_empty(), patch_type) {
        (WebhookType::Mutating, false, None) => {
            refuse("webhook returned response.patch but not response.patchType")
        }
        (WebhookType::Mutating, true, Some(_)) => {
            refuse("webhook returned response.patchType but not response.patch")
        }
        (WebhookType::Mutating, false, Some("")) => {
            refuse("webhook returned invalid response.patchType of \"\"")
        }
        (WebhookType::Mutating, false, Some(other)) if other != "JSONPatch" => {
            Err(InvalidReview::PatchType(quote(other)))
        }
        (WebhookType::Validating, false, _) => {
            refuse("validating webhook may not return response.patch")
        }
        (WebhookType::Validating, true, Some(_)) => {
            refuse("validating webhook may not return response.patchType")
        }
        _ => Ok(()),
    }
}

fn unmarshal(found: &Value, name: &str, wanted: &str) -> InvalidReview {
    let found = json_type(found);
    InvalidReview::Document(format!(
        "json: cannot unmarshal {found} into Go struct field AdmissionResponse.response.{name} of \
         type {wanted}"
    ))
}

fn boolean(response: &Value, name: &str) -> Result<bool, InvalidReview> {
    match &response[name] {
        Value::Null => Ok(false),
        Value::Bool(value) => Ok(*value),
        other => Err(unmarshal(other, name, "bool")),
    }
}

fn bytes(response: &Value, name: &str) -> Result<Vec<u8>, InvalidReview> {
    match &response[name] {
        Value::Null => Ok(Vec::new()),
        Value::String(text) => STANDARD
            .decode(text)
            .map_err(|error| InvalidReview::Document(illegal_base64(text, &error))),
        other => Err(unmarshal(other, name, "[]uint8")),
    }
}

fn illegal_base64(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _) | base64::DecodeError::InvalidLastSymbol(at, _) => {
            *at
        }
        _ => text.len(),
    };
    format!("illegal base64 data at input byte {at}")
}

fn strs_of(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn annotations(value: &Value) -> BTreeMap<String, String> {
    let members = value.as_object().into_iter().flatten();
    members
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(response: &Value, phase: WebhookType) -> Result<AdmissionResponse, String> {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        });
        AdmissionResponse::read(&review, ("u", "v1"), phase).map_err(|error| error.to_string())
    }

    #[test]
    fn invalid_admission_review_responses_are_rejected() {
        let patch = STANDARD.encode("[]");
        for (response, phase, expected) in [
            (
                json!(null),
                WebhookType::Mutating,
                "webhook response was absent",
            ),
            (
                json!({"uid": "x"}),
                WebhookType::Mutating,
                r#"expected response.uid="u", got "x""#,
            ),
            (
                json!({"uid": "u", "allowed": "yes"}),
                WebhookType::Mutating,
                "json: cannot unmarshal string into Go struct field \
                 AdmissionResponse.response.allowed of type bool",
            ),
            (
                json!({"uid": "u", "allowed": true, "patch": patch}),
                WebhookType::Mutating,
                "webhook returned response.patch but not response.patchType",
            ),
            (
                json!({"uid": "u", "allowed": true, "patchType": "JSONPatch"}),
                WebhookType::Mutating,
                "webhook returned response.patchType but not response.patch",
            ),
            (
                json!({"uid": "u", "allowed": true, "patch": patch, "patchType": "Merge"}),
                WebhookType::Mutating,
                "unsupported patch type \"Merge\"",
            ),
            (
                json!({"uid": "u", "allowed": true, "patch": "?"}),
                WebhookType::Mutating,
                "illegal base64 data at input byte 0",
            ),
            (
                json!({"uid": "u", "allowed": true, "patch": patch}),
                WebhookType::Validating,
                "validating webhook may not return response.patch",
            ),
        ] {
            assert_eq!(read(&response, phase).unwrap_err(), expected);
        }
        assert!(
            read(
                &json!({"uid": "u", "allowed": true}),
                WebhookType::Validating
            )
            .unwrap()
            .allowed
        );
    }
}
