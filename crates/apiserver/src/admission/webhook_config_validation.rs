//! Validation of webhook configurations.

use crate::admission::policies::validate_match_condition;
use crate::server::webhook_client::{check_port, check_service_path, check_url};
use optik_object::{
    FieldError, Object, Value, dns1035_label, dns1123_subdomain, qualified_name,
    selector::validate_label_selector,
};
use std::collections::BTreeSet;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
const MATCH_CONDITIONS_MAX: usize = 64;
const TIMEOUT_SECONDS: std::ops::RangeInclusive<i64> = 1..=30;

/// Validates the webhooks of a configuration; returns all errors.
pub(crate) fn validate(object: &Object) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let hooks = object.get("webhooks").and_then(Value::as_array);
    let hooks = hooks.map_or(&[][..], Vec::as_slice);
    for (at, hook) in hooks.iter().enumerate() {
        let path = format!("webhooks[{at}]");
        check_webhook(hook, &path, &mut errors);
        let versions = strs_of(&hook["admissionReviewVersions"]);
        let path = format!("{path}.admissionReviewVersions");
        check_versions(&versions, &path, &mut errors);
        let name = &hook["name"];
        if !str_of(name).is_empty() && hooks[..at].iter().any(|other| other["name"] == *name) {
            let path = format!("webhooks[{at}].name");
            errors.push(FieldError::duplicate(path, str_of(name)));
        }
    }
    errors
}

fn str_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn strs_of(value: &Value) -> Vec<&str> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
}

fn check_webhook(hook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_name(str_of(&hook["name"]), &format!("{path}.name"), errors);
    let rules = hook["rules"].as_array().into_iter().flatten();
    for (at, rule) in rules.enumerate() {
        check_rule(rule, &format!("{path}.rules[{at}]"), errors);
    }
    for (name, supported) in [
        ("failurePolicy", &["Fail", "Ignore"]),
        ("matchPolicy", &["Equivalent", "Exact"]),
    ] {
        check_one_of(&hook[name], &format!("{path}.{name}"), supported, errors);
    }
    let harmless = &["None", "NoneOnDryRun"];
    let side_effects = format!("{path}.sideEffects");
    if hook["sideEffects"].is_null() {
        let text = format!("must specify one of {}", harmless.join(", "));
        errors.push(FieldError::required(side_effects, text));
    } else {
        check_one_of(&hook["sideEffects"], &side_effects, harmless, errors);
    }
    if let Some(seconds) = hook["timeoutSeconds"].as_i64()
        && !TIMEOUT_SECONDS.contains(&seconds)
    {
        let path = format!("{path}.timeoutSeconds");
        let text = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(path, seconds, text));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        check_selector(&hook[name], &format!("{path}.{name}"), errors);
    }
    let policies = &["IfNeeded", "Never"];
    let policy = format!("{path}.reinvocationPolicy");
    check_one_of(&hook["reinvocationPolicy"], &policy, policies, errors);
    check_client_config(
        &hook["clientConfig"],
        &format!("{path}.clientConfig"),
        errors,
    );
    let conditions = format!("{path}.matchConditions");
    check_conditions(&hook["matchConditions"], &conditions, errors);
    let list = hook["matchConditions"].as_array().into_iter().flatten();
    for (at, condition) in list.enumerate() {
        let path = format!("{conditions}[{at}].expression");
        validate_match_condition(&path, str_of(&condition["expression"]).trim(), errors);
    }
}

fn check_name(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = dns1123_subdomain(name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, name, problems.join(",")));
    } else if name.split('.').count() < 3 {
        let text = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, name, text));
    }
}

/// Checks an enum field; a missing value is accepted.
fn check_one_of(value: &Value, path: &str, supported: &[&str], errors: &mut Vec<FieldError>) {
    if let Some(given) = value.as_str()
        && !supported.contains(&given)
    {
        errors.push(FieldError::not_supported(path, given, supported));
    }
}

pub(super) fn check_rule(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    check_wildcard(rule, path, ("operations", "operations"), errors);
    for (at, operation) in strs_of(&rule["operations"]).into_iter().enumerate() {
        if !OPERATIONS.contains(&operation) {
            let path = format!("{path}.operations[{at}]");
            errors.push(FieldError::not_supported(path, operation, OPERATIONS));
        }
    }
    check_wildcard(rule, path, ("apiGroups", "API groups"), errors);
    check_wildcard(rule, path, ("apiVersions", "API versions"), errors);
    for (at, version) in strs_of(&rule["apiVersions"]).into_iter().enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(
                format!("{path}.apiVersions[{at}]"),
                "",
            ));
        }
    }
    let resources = strs_of(&rule["resources"]);
    check_resources(&resources, &format!("{path}.resources"), errors);
    check_one_of(&rule["scope"], &format!("{path}.scope"), SCOPES, errors);
}

/// Checks that a list is not empty and that `*` is its only entry if present.
fn check_wildcard(
    rule: &Value,
    path: &str,
    (name, called): (&str, &str),
    errors: &mut Vec<FieldError>,
) {
    let list = strs_of(&rule[name]);
    let path = format!("{path}.{name}");
    if list.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if list.len() > 1 && list.contains(&"*") {
        let text = format!("if '*' is present, must not specify other {called}");
        errors.push(FieldError::invalid(path, rule[name].clone(), text));
    }
}

fn check_resources(resources: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let mut has_plain = false;
    let (mut all_subs_of, mut sub_of_all) = (BTreeSet::new(), BTreeSet::new());
    for (at, given) in resources.iter().enumerate() {
        let here = format!("{path}[{at}]");
        if given.is_empty() {
            errors.push(FieldError::required(here, ""));
            continue;
        }
        let Some((resource, sub)) = given.split_once('/') else {
            has_plain = *given != "*";
            continue;
        };
        let mut refuse = |text: String| {
            errors.push(FieldError::invalid(here.clone(), *given, text));
        };
        if all_subs_of.contains(resource) {
            refuse(format!(
                "if '{resource}/*' is present, must not specify {given}"
            ));
        }
        if sub_of_all.contains(sub) {
            refuse(format!("if '*/{sub}' is present, must not specify {given}"));
        }
        if sub == "*" {
            all_subs_of.insert(resource);
        }
        if resource == "*" {
            sub_of_all.insert(sub);
        }
    }
    let all = Value::from(resources.to_vec());
    if resources.len() > 1 && resources.contains(&"*/*") {
        let text = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, all.clone(), text));
    }
    if resources.contains(&"*") && has_plain {
        let text = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, all, text));
    }
}

pub(super) fn check_selector(selector: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let found = validate_label_selector(selector).into_iter();
    errors.extend(found.map(|error| error.with_path_prefix(path)));
}

fn check_client_config(client: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let service = client.get("service").filter(|service| service.is_object());
    match (client["url"].as_str(), service) {
        (Some(url), None) => check_url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => {
            let path = format!("{path}.service");
            // Upstream swaps the two field names in these errors.
            for (given, said) in [("namespace", "name"), ("name", "namespace")] {
                if str_of(&service[given]).is_empty() {
                    errors.push(FieldError::required(format!("{path}.{said}"), ""));
                }
            }
            check_port(service, &format!("{path}.port"), errors);
            check_service_path(str_of(&service["path"]), &format!("{path}.path"), errors);
        }
        _ => {
            let text = "exactly one of url or service is required";
            errors.push(FieldError::required(path, text));
        }
    }
}

pub(super) fn check_conditions(conditions: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let conditions = conditions.as_array().map_or(&[][..], Vec::as_slice);
    if conditions.len() > MATCH_CONDITIONS_MAX {
        let error = FieldError::too_many(path, conditions.len(), MATCH_CONDITIONS_MAX);
        errors.push(error);
    }
    let mut seen = BTreeSet::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if str_of(&condition["expression"]).trim().is_empty() {
            errors.push(FieldError::required(format!("{path}.expression"), ""));
        }
        let name = str_of(&condition["name"]);
        let path = format!("{path}.name");
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        for problem in qualified_name(name) {
            errors.push(FieldError::invalid(path.clone(), name, problem));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(path, name));
        }
    }
}

fn check_versions(versions: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    const KNOWN: &[&str] = &["v1", "v1beta1"];
    if versions.is_empty() {
        let text = format!("must specify one of {}", KNOWN.join(", "));
        errors.push(FieldError::required(path, text));
        return;
    }
    let mut seen = BTreeSet::new();
    for (at, version) in versions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid(path, *version, "duplicate version"));
            continue;
        }
        for problem in dns1035_label(version) {
            errors.push(FieldError::invalid(path.clone(), *version, problem));
        }
    }
    if !versions.iter().any(|version| KNOWN.contains(version)) {
        let text = format!("must include at least one of {}", KNOWN.join(", "));
        errors.push(FieldError::invalid(path, versions.to_vec(), text));
    }
}
