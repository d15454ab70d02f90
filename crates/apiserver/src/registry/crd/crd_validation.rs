//! Validation of CRDs (EXT §1.2), in the order and with the messages of upstream.

use crate::registry::crd::condition_helpers;
use crate::registry::crd::custom_resource_definition::{strs_of, versions};
use crate::registry::crd::naming_conditions::has_ca_bundle;
use crate::registry::crd::version_validation::{
    check_printer_columns, check_schemas, check_selectable_fields, check_subresources,
};
use crate::server::webhook_client::{INVALID_CA_BUNDLE, check_port, check_url};
use optik_catalog::is_builtin;
use optik_object::{FieldError, Object, Value, dns1035_label, dns1123_subdomain, quote};
use std::collections::BTreeSet;

/// All validation errors of a new or updated CRD.
pub(crate) fn validate(object: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if old.is_none() {
        check_name(object, &mut errors);
    }
    check_not_builtin(object, old, &mut errors);
    check_spec(object, old, &mut errors);
    if let Some(old) = old {
        check_immutable_fields(object, old, &mut errors);
    }
    let accepted = object.get("status").and_then(|s| s.get("acceptedNames"));
    check_names(accepted, "status.acceptedNames", &mut errors);
    check_stored_versions(object, &mut errors);
    check_approval(object, old, &mut errors);
    let preserves = |object: &Object| spec(object, "preserveUnknownFields") == Some(&true.into());
    if preserves(object) && !old.is_some_and(preserves) {
        let text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                    spec.versions[*].schema instead";
        let error = FieldError::invalid("spec.preserveUnknownFields", true, text);
        errors.push(error);
    }
    errors
}

/// The validation errors of a CRD's status.
pub(crate) fn validate_status(object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let accepted = object.get("status").and_then(|s| s.get("acceptedNames"));
    check_names(accepted, "status.acceptedNames", &mut errors);
    errors
}

fn spec<'o>(object: &'o Object, member: &str) -> Option<&'o Value> {
    object.get("spec")?.get(member)
}

pub(super) fn text<'v>(value: Option<&'v Value>, member: &str) -> &'v str {
    let member = value.and_then(|value| value.get(member));
    member.and_then(Value::as_str).unwrap_or_default()
}

fn check_name(object: &Object, errors: &mut Vec<FieldError>) {
    let plural = text(spec(object, "names"), "plural");
    let group = text(object.get("spec"), "group");
    let name = object.name();
    if !name.is_empty() && name != format!("{plural}.{group}") {
        let text = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, text));
    }
}

/// Rejects a CRD for a built-in kind: its objects would be those of the built-in kind. Upstream
/// accepts it and serves the versions that are not built in.
fn check_not_builtin(object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    let plural = |object| text(spec(object, "names"), "plural");
    let group = |object: &Object| text(object.get("spec"), "group").to_owned();
    let named_so_before =
        old.is_some_and(|old| (plural(old), group(old)) == (plural(object), group(object)));
    if !named_so_before && is_builtin(&group(object), plural(object)) {
        let why = format!(
            "is a built-in resource of the group {}",
            quote(&group(object))
        );
        let error = FieldError::invalid("spec.names.plural", plural(object), why);
        errors.push(error);
    }
}

fn check_spec(object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    let own = object.get("spec");
    check_group(text(own, "group"), errors);
    check_one_of(
        "spec.scope",
        text(own, "scope"),
        &["Cluster", "Namespaced"],
        errors,
    );
    for (index, version) in versions(object).iter().enumerate() {
        if crate::registry::crd::version_schemas::version_schema(version).is_none() {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            errors.push(FieldError::required(path, ""));
        }
    }
    check_versions(object, errors);
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(spec(object, "names"), name).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
    check_names(spec(object, "names"), "spec.names", errors);
    check_schemas(object, old, errors);
    check_subresources(object, errors);
    check_printer_columns(object, errors);
    check_selectable_fields(object, old, errors);
    check_conversion(spec(object, "conversion"), errors);
    check_ca_bundle(object, old, errors);
}

/// An established CRD whose conversion webhook has a valid CA bundle must keep a valid one; a CRD
/// that was stored without one may stay so.
fn check_ca_bundle(object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    let is_bound = old.is_some_and(|old| {
        condition_helpers::is_true(old, condition_helpers::ESTABLISHED) && has_ca_bundle(old)
    });
    if is_bound && !has_ca_bundle(object) {
        let bundle = spec(object, "conversion");
        let bundle = bundle.and_then(|it| it.pointer("/webhook/clientConfig/caBundle"));
        let path = "spec.conversion.webhookClientConfig.caBundle";
        let bundle = bundle.cloned().unwrap_or_default();
        errors.push(FieldError::invalid(path, bundle, INVALID_CA_BUNDLE));
    }
}

fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
        return;
    }
    let problems = dns1123_subdomain(group);
    if !problems.is_empty() {
        let text = problems.join(",");
        errors.push(FieldError::invalid("spec.group", group, text));
    } else if !group.contains('.') {
        let text = "should be a domain with at least one dot";
        errors.push(FieldError::invalid("spec.group", group, text));
    }
}

fn check_one_of(path: &str, given: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !accepted.contains(&given) {
        errors.push(FieldError::not_supported(path, given, accepted));
    }
}

fn check_dns_label(path: String, name: &str, errors: &mut Vec<FieldError>) {
    let problems = dns1035_label(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, name, problems.join(",")));
    }
}

fn check_versions(object: &Object, errors: &mut Vec<FieldError>) {
    let all = versions(object);
    let mut names = BTreeSet::new();
    let mut storage = 0;
    let mut unique = true;
    for (index, version) in all.iter().enumerate() {
        let name = text(Some(version), "name");
        unique &= names.insert(name);
        storage += usize::from(version["storage"] == Value::Bool(true));
        check_dns_label(format!("spec.versions[{index}].name"), name, errors);
        check_deprecation(version, index, errors);
    }
    let mut refuse = |text: &str| {
        let shown = Some(all.to_vec()).filter(|all| !all.is_empty());
        errors.push(FieldError::invalid(
            "spec.versions",
            shown.map_or(Value::Null, Value::from),
            text,
        ));
    };
    if !unique {
        refuse("must contain unique version names");
    }
    if storage != 1 {
        refuse("must have exactly one version marked as storage version");
    }
}

const DEPRECATION_WARNING_BYTES_MAX: usize = 256;

fn check_deprecation(version: &Value, index: usize, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else {
        return;
    };
    let path = format!("spec.versions[{index}].deprecationWarning");
    let mut refuse = |text: String| {
        errors.push(FieldError::invalid(path.clone(), warning, text));
    };
    if version["deprecated"] != Value::Bool(true) {
        return refuse("can only be set for deprecated versions".into());
    }
    if warning.len() > DEPRECATION_WARNING_BYTES_MAX {
        refuse(format!(
            "must be <= {DEPRECATION_WARNING_BYTES_MAX} characters long"
        ));
    }
    if warning.is_empty() {
        refuse("must not be an empty string".into());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        refuse(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index \
             {at}"
        ));
    }
}

fn check_names(names: Option<&Value>, path: &str, errors: &mut Vec<FieldError>) {
    let given = |name: &str| Some(text(names, name)).filter(|text| !text.is_empty());
    for name in ["plural", "singular"] {
        if let Some(label) = given(name) {
            check_dns_label(format!("{path}.{name}"), label, errors);
        }
    }
    for name in ["kind", "listKind"] {
        let Some(kind) = given(name) else { continue };
        let problems = dns1035_label(&kind.to_lowercase());
        if !problems.is_empty() {
            let text = format!(
                "may have mixed case, but should otherwise match: {}",
                problems.join(",")
            );
            errors.push(FieldError::invalid(format!("{path}.{name}"), kind, text));
        }
    }
    let list = |name: &str| strs_of(names.and_then(|names| names.get(name)));
    for (index, label) in list("shortNames").iter().enumerate() {
        check_dns_label(format!("{path}.shortNames[{index}]"), label, errors);
    }
    if let (Some(kind), Some(list_kind)) = (given("kind"), given("listKind"))
        && kind == list_kind
    {
        let text = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), kind, text));
    }
    for (index, label) in list("categories").iter().enumerate() {
        check_dns_label(format!("{path}.categories[{index}]"), label, errors);
    }
}

fn check_conversion(conversion: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(conversion) = conversion.filter(|conversion| conversion.is_object()) else {
        return;
    };
    let path = "spec.conversion";
    let strategy = text(Some(conversion), "strategy");
    check_one_of(
        &format!("{path}.strategy"),
        strategy,
        &["None", "Webhook"],
        errors,
    );
    let webhook = conversion.get("webhook");
    let client = webhook.and_then(|webhook| webhook.get("clientConfig"));
    let client = client.filter(|client| client.is_object());
    let reviews = strs_of(webhook.and_then(|webhook| webhook.get("conversionReviewVersions")));
    let client_path = format!("{path}.webhookClientConfig");
    let reviews_path = format!("{path}.conversionReviewVersions");
    if strategy != "Webhook" {
        let text = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(client_path, text));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(reviews_path, text));
        }
        return;
    }
    match client {
        Some(client) => check_client_config(client, &client_path, errors),
        None => {
            let text = "required when strategy is set to Webhook";
            errors.push(FieldError::required(client_path, text));
        }
    }
    check_review_versions(&reviews, &reviews_path, errors);
}

fn check_client_config(client: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let url = client.get("url").and_then(Value::as_str);
    let service = client.get("service").filter(|service| service.is_object());
    match (url, service) {
        (Some(url), None) => check_url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => {
            for name in ["name", "namespace"] {
                if text(Some(service), name).is_empty() {
                    let text = format!("service {name} is required");
                    errors.push(FieldError::required(format!("{path}.service.{name}"), text));
                }
            }
            check_port(service, &format!("{path}.service.port"), errors);
        }
        _ => {
            let text = "exactly one of url or service is required";
            errors.push(FieldError::required(path, text));
        }
    }
}

fn check_review_versions(reviews: &[String], path: &str, errors: &mut Vec<FieldError>) {
    if reviews.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, version) in reviews.iter().enumerate() {
        let path = format!("{path}[{index}]");
        if !seen.insert(version) {
            let error = FieldError::invalid(path, version.as_str(), "duplicate version");
            errors.push(error);
            continue;
        }
        for problem in dns1035_label(version) {
            let error = FieldError::invalid(path.clone(), version.as_str(), problem);
            errors.push(error);
        }
    }
    let known = |version: &String| matches!(version.as_str(), "v1" | "v1beta1");
    if !reviews.iter().any(known) {
        let text = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, reviews.to_vec(), text));
    }
}

/// Rejects changes of immutable fields: the names that objects depend on.
fn check_immutable_fields(object: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    let mut check = |path: &str, new: Option<&Value>, old: Option<&Value>| {
        if new != old {
            let value = new.cloned().unwrap_or("".into());
            errors.push(FieldError::invalid(path, value, "field is immutable"));
        }
    };
    let name = |object: &'_ Object, member: &str| {
        spec(object, "names")
            .and_then(|names| names.get(member))
            .cloned()
    };
    if condition_helpers::is_true(old, condition_helpers::ESTABLISHED) {
        check("spec.scope", spec(object, "scope"), spec(old, "scope"));
        let (new, old) = (name(object, "kind"), name(old, "kind"));
        check("spec.names.kind", new.as_ref(), old.as_ref());
    }
    check("spec.group", spec(object, "group"), spec(old, "group"));
    let (new, old) = (name(object, "plural"), name(old, "plural"));
    check("spec.names.plural", new.as_ref(), old.as_ref());
}

/// Maximum number of stored versions quoted in errors that quote all of them.
const QUOTED_VERSIONS_MAX: usize = 1_000;

fn check_stored_versions(object: &Object, errors: &mut Vec<FieldError>) {
    let path = "status.storedVersions";
    let status = object.get("status");
    let stored = strs_of(status.and_then(|status| status.get("storedVersions")));
    if stored.is_empty() {
        let text = "must have at least one stored version";
        errors.push(FieldError::invalid(path, Value::Null, text));
        return;
    }
    let named: Vec<(&str, bool)> = versions(object)
        .iter()
        .map(|version| (text(Some(version), "name"), version["storage"] == true))
        .collect();
    let kept: BTreeSet<&str> = stored.iter().map(String::as_str).collect();
    let names: BTreeSet<&str> = named.iter().map(|(name, _)| *name).collect();
    let missing = |(name, storage): &&(&str, bool)| *storage && !kept.contains(name);
    let told = 1 + QUOTED_VERSIONS_MAX / stored.len();
    for (name, _) in named.iter().filter(missing).take(told) {
        let text = format!("must have the storage version {name}");
        errors.push(FieldError::invalid(path, stored.clone(), text));
    }
    for (index, version) in stored.iter().enumerate() {
        if !names.contains(version.as_str()) {
            let text = format!(
                "missing from spec.versions; {version} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {version} and removes {version} from status.storedVersions"
            );
            let path = format!("{path}[{index}]");
            errors.push(FieldError::invalid(path, version.as_str(), text));
        }
    }
}

const APPROVAL_ANNOTATION: &str = "api-approved.kubernetes.io";

/// The API approval (`api-approved.kubernetes.io`) of a CRD in a protected group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ApiApproval {
    NotNeeded,
    Missing,
    Invalid,
    Bypassed,
    Given,
}

fn approval(object: &Object) -> ApiApproval {
    let group = text(object.get("spec"), "group");
    let is_protected = ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        let rest = group.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    });
    let annotation = object.annotation(APPROVAL_ANNOTATION).unwrap_or_default();
    let has_host = || {
        let rest = annotation.split_once("://");
        rest.is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty())
    };
    match annotation {
        _ if !is_protected => ApiApproval::NotNeeded,
        "" => ApiApproval::Missing,
        text if text.starts_with("unapproved") => ApiApproval::Bypassed,
        _ if has_host() => ApiApproval::Given,
        _ => ApiApproval::Invalid,
    }
}

fn approval_text(object: &Object, approval: ApiApproval) -> String {
    let annotation = object.annotation(APPROVAL_ANNOTATION).unwrap_or_default();
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        ApiApproval::NotNeeded => String::new(),
        ApiApproval::Missing => {
            format!(
                "protected groups must have approval annotation \"{APPROVAL_ANNOTATION}\", {see}"
            )
        }
        ApiApproval::Invalid => format!(
            "protected groups must have approval annotation \"{APPROVAL_ANNOTATION}\" with either a URL or a \
             reason starting with \"unapproved\", {see}"
        ),
        ApiApproval::Bypassed => format!("not approved: {}", optik_object::quote(annotation)),
        ApiApproval::Given => format!("approved in {annotation}"),
    }
}

fn check_approval(object: &Object, old: Option<&Object>, errors: &mut Vec<FieldError>) {
    let state = approval(object);
    if old.is_some_and(|old| approval(old) == state) {
        return;
    }
    let path = format!("metadata.annotations[{APPROVAL_ANNOTATION}]");
    let text = approval_text(object, state);
    match state {
        ApiApproval::Missing => errors.push(FieldError::required(path, text)),
        ApiApproval::Invalid => {
            let given = object.annotation(APPROVAL_ANNOTATION).unwrap_or_default();
            errors.push(FieldError::invalid(path, given, text));
        }
        ApiApproval::NotNeeded | ApiApproval::Bypassed | ApiApproval::Given => {}
    }
}

/// Whether the approval condition in the status is current.
pub(super) fn is_approval_condition_current(object: &Object) -> bool {
    let Some((holds, reason, message)) = approval_condition(object) else {
        return true;
    };
    let condition = condition_helpers::CrdCondition {
        condition_type: condition_helpers::APPROVED,
        is_true: holds,
        reason,
        message: &message,
    };
    condition_helpers::is_current(object, &condition)
}

/// The approval condition of a CRD in a protected group.
pub(super) fn approval_condition(object: &Object) -> Option<(bool, &'static str, String)> {
    let state = approval(object);
    let (holds, reason) = match state {
        ApiApproval::NotNeeded => return None,
        ApiApproval::Missing => (false, "MissingAnnotation"),
        ApiApproval::Invalid => (false, "InvalidAnnotation"),
        ApiApproval::Bypassed => (false, "UnapprovedAnnotation"),
        ApiApproval::Given => (true, "ApprovedAnnotation"),
    };
    Some((holds, reason, approval_text(object, state)))
}
