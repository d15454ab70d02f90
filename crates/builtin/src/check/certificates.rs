//! Requests for certificates.

use super::errors::Errors;
use super::path::Path;
use super::read::{int, items, text};
use crate::certificates::{APPROVED, DENIED, FAILED, blocks, conditions, conditions_of, verify};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use optik_object::{Object, Value, dns_label, dns_subdomain};
use std::collections::BTreeSet;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

const SPEC: Path<'static> = Path::root("spec");

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

const STATUS: Path<'static> = Path::root("status");

/// What an endpoint may write.
#[derive(Clone, Copy, Default)]
struct Endpoint {
    decides: bool,
    signs: bool,
}

pub(crate) fn new_request(object: &Object, errors: &mut Errors) {
    request(object, None, errors);
}

pub(crate) fn request_update(object: &Object, old: &Object, errors: &mut Errors) {
    update(object, old, Endpoint::default(), errors);
}

pub(crate) fn status_update(object: &Object, old: &Object, errors: &mut Errors) {
    let signs = true;
    update(
        object,
        old,
        Endpoint {
            signs,
            ..Endpoint::default()
        },
        errors,
    );
}

pub(crate) fn approval_update(object: &Object, old: &Object, errors: &mut Errors) {
    let decides = true;
    update(
        object,
        old,
        Endpoint {
            decides,
            ..Endpoint::default()
        },
        errors,
    );
}

fn update(object: &Object, old: &Object, endpoint: Endpoint, errors: &mut Errors) {
    request(object, Some(old), errors);
    let path = STATUS.child("conditions");
    let count = |object: &Object, kind: &str| conditions_of(object, kind).count();
    for kind in [APPROVED, DENIED, FAILED] {
        if count(object, kind) < count(old, kind) {
            let text = format!("updates may not remove a condition of type \"{kind}\"");
            errors.forbidden(path, text);
        }
    }
    if !endpoint.decides {
        for kind in [APPROVED, DENIED] {
            if count(object, kind) > count(old, kind) {
                let text = format!("updates may not add a condition of type \"{kind}\"");
                errors.forbidden(path, text);
            }
        }
    }
    let (now, before) = (certificate(object), certificate(old));
    let path = STATUS.child("certificate");
    if now != before && !endpoint.signs {
        errors.forbidden(path, "updates may not set certificate content");
    } else if now != before && !before.is_empty() {
        errors.forbidden(path, "updates may not modify existing certificate content");
    }
}

fn certificate(object: &Object) -> &str {
    let status = object.get("status").unwrap_or(&Value::Null);
    text(&status["certificate"])
}

/// What was wrong before may stay so.
fn request(object: &Object, old: Option<&Object>, errors: &mut Errors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let before = old.and_then(|old| old.get("spec")).unwrap_or(&Value::Null);
    if let Err(why) = verify(text(&spec["request"])) {
        let path = SPEC.child("request");
        errors.invalid(path, spec["request"].clone(), why.to_string());
    }
    check_usages(items(&spec["usages"]), items(&before["usages"]), errors);
    let name = text(&spec["signerName"]);
    if name != LEGACY_SIGNER || text(&before["signerName"]) != LEGACY_SIGNER {
        signer(SPEC.child("signerName"), name, errors);
    }
    check_expiration(spec, errors);
    check_conditions(
        conditions(object),
        old.map(conditions).unwrap_or_default(),
        errors,
    );
    let (now, before) = (certificate(object), old.map(certificate));
    let tolerated = before.is_some_and(|before| before == now || judge(before).is_err());
    if let (false, Err(why)) = (tolerated, judge(now)) {
        errors.invalid(STATUS.child("certificate"), "<certificate data>", why);
    }
}

/// Whether a status holds certificates, and nothing else.
fn judge(encoded: &str) -> Result<(), String> {
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

fn check_conditions(all: &[Value], before: &[Value], errors: &mut Errors) {
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

fn check_usages(usages: &[Value], before: &[Value], errors: &mut Errors) {
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

fn check_expiration(spec: &Value, errors: &mut Errors) {
    if let Some(seconds) = int(&spec["expirationSeconds"])
        && seconds < 600
    {
        let message = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(SPEC.child("expirationSeconds"), seconds, message);
    }
}

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

fn signer(path: Path<'_>, name: &str, errors: &mut Errors) {
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
        for problem in dns_label(label) {
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
        for problem in dns_subdomain(part) {
            errors.invalid(path, own, format!("validating label \"{part}\": {problem}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificates::RequestError;
    use serde_json::json;

    fn wrapped(kind: &str) -> String {
        STANDARD.encode(format!(
            "-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n"
        ))
    }

    #[test]
    fn a_request_is_known_by_its_frame_and_by_what_is_in_it() {
        for (text, expected) in [
            (wrapped("CERTIFICATE REQUEST"), RequestError::Structure),
            (wrapped("CERTIFICATE"), RequestError::Label),
            ("AAAA".to_owned(), RequestError::Label),
            (String::new(), RequestError::Label),
        ] {
            assert_eq!(verify(&text), Err(expected), "{text}");
        }
    }

    #[test]
    fn conditions_are_judged_in_the_order_of_upstream() {
        let object = json!({"status": {"conditions": [
            {"type": "Approved", "status": "False"}, {"type": "Denied", "status": "True"},
            {"type": "", "status": ""}, {"type": "x", "status": "Unknown"},
            {"type": "x", "status": "no"}]}});
        let object = Object::try_from(object).unwrap();
        let mut errors = Errors::default();
        check_conditions(conditions(&object), &[], &mut errors);
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
