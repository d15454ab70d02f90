//! Validation of CertificateSigningRequests.

use super::accessors::{int, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use crate::csr::{APPROVED, DENIED, FAILED, blocks, conditions, conditions_of, verify};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use optik_object::{Object, Value, dns1123_label, dns1123_subdomain};
use std::collections::BTreeSet;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

const SPEC: FieldPath<'static> = FieldPath::root("spec");

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const STATUS: FieldPath<'static> = FieldPath::root("status");

/// What a subresource may change.
#[derive(Clone, Copy, Default)]
struct CsrSubresource {
    may_approve: bool,
    may_sign: bool,
}

pub(crate) fn validate_csr_create(object: &Object, errors: &mut Errors) {
    validate_csr(object, None, errors);
}

pub(crate) fn validate_csr_update(object: &Object, old: &Object, errors: &mut Errors) {
    validate_csr_any_update(object, old, CsrSubresource::default(), errors);
}

pub(crate) fn validate_csr_status_update(object: &Object, old: &Object, errors: &mut Errors) {
    let signs = true;
    validate_csr_any_update(
        object,
        old,
        CsrSubresource {
            may_sign: signs,
            ..CsrSubresource::default()
        },
        errors,
    );
}

pub(crate) fn validate_csr_approval_update(object: &Object, old: &Object, errors: &mut Errors) {
    let decides = true;
    validate_csr_any_update(
        object,
        old,
        CsrSubresource {
            may_approve: decides,
            ..CsrSubresource::default()
        },
        errors,
    );
}

fn validate_csr_any_update(
    object: &Object,
    old: &Object,
    endpoint: CsrSubresource,
    errors: &mut Errors,
) {
    validate_csr(object, Some(old), errors);
    let path = STATUS.child("conditions");
    let count = |object: &Object, kind: &str| conditions_of(object, kind).count();
    for kind in [APPROVED, DENIED, FAILED] {
        if count(object, kind) < count(old, kind) {
            let text = format!("updates may not remove a condition of type \"{kind}\"");
            errors.forbidden(path, text);
        }
    }
    if !endpoint.may_approve {
        for kind in [APPROVED, DENIED] {
            if count(object, kind) > count(old, kind) {
                let text = format!("updates may not add a condition of type \"{kind}\"");
                errors.forbidden(path, text);
            }
        }
    }
    let (now, before) = (certificate(object), certificate(old));
    let path = STATUS.child("certificate");
    if now != before && !endpoint.may_sign {
        errors.forbidden(path, "updates may not set certificate content");
    } else if now != before && !before.is_empty() {
        errors.forbidden(path, "updates may not modify existing certificate content");
    }
}

fn certificate(object: &Object) -> &str {
    let status = object.get("status").unwrap_or(&Value::Null);
    text(&status["certificate"])
}

/// Validates a request. Invalid values that the old object has already are tolerated.
fn validate_csr(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let before = old.and_then(|old| old.get("spec")).unwrap_or(&Value::Null);
    if let Err(why) = verify(text(&spec["request"])) {
        let path = SPEC.child("request");
        errors.invalid(path, spec["request"].clone(), why.to_string());
    }
    validate_csr_usages(items(&spec["usages"]), items(&before["usages"]), errors);
    let name = text(&spec["signerName"]);
    if name != LEGACY_SIGNER || text(&before["signerName"]) != LEGACY_SIGNER {
        validate_signer_name(SPEC.child("signerName"), name, errors);
    }
    validate_csr_expiration(spec, errors);
    validate_csr_conditions(
        conditions(object),
        old.map(conditions).unwrap_or_default(),
        errors,
    );
    let (now, before) = (certificate(object), old.map(certificate));
    let tolerated =
        before.is_some_and(|before| before == now || validate_certificate_pem(before).is_err());
    if let (false, Err(why)) = (tolerated, validate_certificate_pem(now)) {
        errors.invalid(STATUS.child("certificate"), "<certificate data>", why);
    }
}

/// Checks that `status.certificate` holds certificates only.
fn validate_certificate_pem(encoded: &str) -> Result<(), String> {
    if encoded.is_empty() {
        return Ok(());
    }
    let document = STANDARD.decode(encoded).unwrap_or_default();
    let document = String::from_utf8_lossy(&document);
    let all = blocks(&document);
    if all.is_empty() {
        return Err("must contain at least one CERTIFICATE PEM block".into());
    }
    for block in all {
        if block.label != "CERTIFICATE" {
            let label = optik_object::quote(block.label);
            return Err(format!(
                "only CERTIFICATE PEM blocks are allowed, found {label}"
            ));
        }
        if block.has_headers {
            return Err("no PEM block headers are permitted".into());
        }
        if X509Certificate::from_der(&block.der).is_err() {
            return Err("x509: malformed certificate".into());
        }
    }
    Ok(())
}

const ALWAYS_TRUE: [&str; 3] = [APPROVED, DENIED, FAILED];

fn validate_csr_conditions(all: &[Value], before: &[Value], errors: &mut Errors) {
    let path = STATUS.child("conditions");
    let has = |list: &[Value], kind: &str| list.iter().any(|one| text(&one["type"]) == kind);
    let nameless = has(before, "");
    let mut types = BTreeSet::new();
    let doubled = !before.iter().all(|one| types.insert(text(&one["type"])));
    let both = has(before, APPROVED) && has(before, DENIED);
    let mut seen = BTreeSet::new();
    for (at, one) in all.iter().enumerate() {
        let (item, kind, status) = (path.index(at), text(&one["type"]), text(&one["status"]));
        if kind.is_empty() && !nameless {
            errors.required(item.child("type"), "");
        }
        let supported: &[&str] = match ALWAYS_TRUE.contains(&kind) {
            true => &["True"],
            false => &["False", "True", "Unknown"],
        };
        errors.one_of(item.child("status"), status, supported);
        let other = match kind {
            APPROVED => DENIED,
            DENIED => APPROVED,
            _ => "",
        };
        if !both && !other.is_empty() && seen.contains(other) {
            let message = "Approved and Denied conditions are mutually exclusive";
            errors.invalid(path, kind, message);
        }
        if !seen.insert(kind) && !doubled {
            errors.duplicate(item.child("type"), kind);
        }
    }
}

fn validate_csr_usages(usages: &[Value], before: &[Value], errors: &mut Errors) {
    let path = SPEC.child("usages");
    if usages.is_empty() {
        errors.required(path, "");
    }
    if before.iter().all(|usage| USAGES.contains(&text(usage))) {
        for (at, usage) in usages.iter().enumerate() {
            errors.one_of_or_nothing(path.index(at), text(usage), USAGES);
        }
    }
    let mut known = BTreeSet::new();
    if !before.iter().all(|usage| known.insert(text(usage))) {
        return;
    }
    known.clear();
    for (at, usage) in usages.iter().enumerate() {
        if !known.insert(text(usage)) {
            errors.duplicate(path.index(at), text(usage));
        }
    }
}

fn validate_csr_expiration(spec: &Value, errors: &mut Errors) {
    if let Some(seconds) = int(&spec["expirationSeconds"])
        && seconds < 600
    {
        let message = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(SPEC.child("expirationSeconds"), seconds, message);
    }
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

fn validate_signer_name(path: FieldPath<'_>, name: &str, errors: &mut Errors) {
    if name == LEGACY_SIGNER {
        let message = "the legacy signerName is not allowed via this API version";
        return errors.invalid(path, name, message);
    }
    if name.is_empty() {
        return errors.required(path, "");
    }
    let segments: Vec<&str> = name.split('/').collect();
    let [domain, own] = segments[..] else {
        let message =
            "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return errors.invalid(path, name, message);
    };
    let labels: Vec<&str> = domain.split('.').collect();
    for label in &labels {
        for problem in dns1123_label(label) {
            errors.invalid(
                path,
                domain,
                format!("validating label \"{label}\": {problem}"),
            );
        }
    }
    if labels.len() < 2 {
        let message = "should be a domain with at least two segments separated by dots";
        errors.invalid(path, domain, message);
    }
    for part in own.split('.') {
        for problem in dns1123_subdomain(part) {
            errors.invalid(path, own, format!("validating label \"{part}\": {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csr::CsrError;
    use serde_json::json;

    fn wrapped(kind: &str) -> String {
        STANDARD.encode(format!(
            "-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n"
        ))
    }

    /// IDENT-75.
    #[test]
    fn csr_pem_label_and_content_are_validated() {
        for (text, expected) in [
            (wrapped("CERTIFICATE REQUEST"), CsrError::Structure),
            (wrapped("CERTIFICATE"), CsrError::Label),
            ("AAAA".to_owned(), CsrError::Label),
            (String::new(), CsrError::Label),
        ] {
            assert_eq!(verify(&text), Err(expected), "{text}");
        }
    }

    #[test]
    fn csr_condition_errors_follow_upstream_order() {
        let object = json!({"status": {"conditions": [
            {"type": "Approved", "status": "False"}, {"type": "Denied", "status": "True"},
            {"type": "", "status": ""}, {"type": "x", "status": "Unknown"},
            {"type": "x", "status": "no"}]}});
        let object = Object::try_from(object).unwrap();
        let mut errors = Errors::default();
        validate_csr_conditions(conditions(&object), &[], &mut errors);
        let texts: Vec<String> = errors.into_list().iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "status.conditions[0].status: Unsupported value: \"False\": supported values: \"True\"",
                "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are \
                 mutually exclusive",
                "status.conditions[2].type: Required value",
                "status.conditions[2].status: Required value",
                "status.conditions[4].status: Unsupported value: \"no\": supported values: \
                 \"False\", \"True\", \"Unknown\"",
                "status.conditions[4].type: Duplicate value: \"x\"",
            ]
        );
    }
}
