//! Requests for certificates. Who signs checks the signature; here it is not.

use super::errors::Errors;
use super::path::Path;
use super::read::{int, items, text};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use optik_object::{Object, Value, dns_label, dns_subdomain};
use std::collections::BTreeSet;

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

pub(crate) fn request(object: &Object, errors: &mut Errors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    if !is_request(text(&spec["request"])) {
        let message = "PEM block type must be CERTIFICATE REQUEST";
        errors.invalid(SPEC.child("request"), spec["request"].clone(), message);
    }
    let path = SPEC.child("usages");
    let usages = items(&spec["usages"]);
    if usages.is_empty() {
        errors.required(path, "");
    }
    for (at, usage) in usages.iter().enumerate() {
        errors.one_of_or_nothing(path.index(at), text(usage), USAGES);
    }
    let mut known = BTreeSet::new();
    for (at, usage) in usages.iter().enumerate() {
        if !known.insert(text(usage)) {
            errors.duplicate(path.index(at), text(usage));
        }
    }
    signer(SPEC.child("signerName"), text(&spec["signerName"]), errors);
    if let Some(seconds) = int(&spec["expirationSeconds"])
        && seconds < 600
    {
        let message = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.invalid(SPEC.child("expirationSeconds"), seconds, message);
    }
}

/// Whether it holds a request in PEM.
fn is_request(text: &str) -> bool {
    let bytes = STANDARD.decode(text).unwrap_or_default();
    let document = String::from_utf8_lossy(&bytes);
    let mut lines = document.lines().map(str::trim_end);
    let first = lines.find_map(|line| line.strip_prefix("-----BEGIN "));
    first == Some("CERTIFICATE REQUEST-----")
        && lines.any(|line| line == "-----END CERTIFICATE REQUEST-----")
}

fn signer(path: Path<'_>, name: &str, errors: &mut Errors) {
    if name == "kubernetes.io/legacy-unknown" {
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

    #[test]
    fn a_request_is_known_by_its_frame() {
        let wrapped = |kind: &str| {
            STANDARD.encode(format!(
                "-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n"
            ))
        };
        assert!(is_request(&wrapped("CERTIFICATE REQUEST")));
        assert!(!is_request(&wrapped("CERTIFICATE")));
        assert!(!is_request("AAAA"));
        assert!(!is_request(""));
    }
}
