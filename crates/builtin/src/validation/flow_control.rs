//! Validation of FlowSchema and PriorityLevelConfiguration objects (API Priority and Fairness).

use super::accessors::{flag, int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use optik_object::{Object, Value, dns1123_label, dns1123_subdomain};
use serde_json::json;

const SPEC: FieldPath<'static> = FieldPath::root("spec");
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
const QUEUES_MAX: i64 = 10_000_000;
const PRECEDENCE_MAX: i64 = 10_000;

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(crate) fn validate_flow_schema(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let path = SPEC.child("matchingPrecedence");
    let precedence = int(&spec["matchingPrecedence"]).unwrap_or(0);
    if precedence <= 0 {
        errors.invalid(path, precedence, "must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        let message = format!("must not be greater than {PRECEDENCE_MAX}");
        errors.invalid(path, precedence, message);
    }
    if precedence == 1 && object.name() != "exempt" {
        let message = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.invalid(path, precedence, message);
    }
    let method = &spec["distinguisherMethod"];
    let known = ["ByNamespace", "ByUser"];
    if is_set(method) && !known.contains(&text(&method["type"])) {
        let path = SPEC.child("distinguisherMethod");
        errors.not_supported(path.child("type"), json!({"Type": method["type"]}), &known);
    }
    let level = SPEC.child("priorityLevelConfiguration");
    match text(&spec["priorityLevelConfiguration"]["name"]) {
        "" => errors.required(level.child("name"), "must reference a priority level"),
        name => errors.problems(level.child("name"), name, dns1123_subdomain(name)),
    }
    let list = SPEC.child("rules");
    for (at, rule) in items(&spec["rules"]).iter().enumerate() {
        validate_policy_rules_with_subjects(list.index(at), rule, errors);
    }
}

fn validate_policy_rules_with_subjects(path: FieldPath<'_>, rule: &Value, errors: &mut Errors) {
    let list = path.child("subjects");
    let subjects = items(&rule["subjects"]);
    if subjects.is_empty() {
        errors.required(list, "subjects must contain at least one value");
    }
    for (at, one) in subjects.iter().enumerate() {
        validate_subject(list.index(at), one, errors);
    }
    let (resources, others) = (
        items(&rule["resourceRules"]),
        items(&rule["nonResourceRules"]),
    );
    if resources.is_empty() && others.is_empty() {
        let message = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.required(path, message);
    }
    let list = path.child("resourceRules");
    for (at, rule) in resources.iter().enumerate() {
        validate_resource_policy_rule(list.index(at), rule, errors);
    }
    let list = path.child("nonResourceRules");
    for (at, rule) in others.iter().enumerate() {
        validate_non_resource_policy_rule(list.index(at), rule, errors);
    }
}

/// Subject kinds and the member that each one uses.
const SUBJECTS: &[(&str, &str)] = &[
    ("Group", "group"),
    ("ServiceAccount", "serviceAccount"),
    ("User", "user"),
];

fn validate_subject(path: FieldPath<'_>, subject: &Value, errors: &mut Errors) {
    let kind = text(&subject["kind"]);
    let found = SUBJECTS.iter().find(|(known, _)| *known == kind);
    let Some((_, member)) = found else {
        let known: Vec<&str> = SUBJECTS.iter().map(|(kind, _)| *kind).collect();
        return errors.not_supported(path.child("kind"), kind, &known);
    };
    let own = path.child(member);
    let who = &subject[*member];
    if is_set(who) {
        validate_subject_name(own, kind, who, errors);
    } else {
        let message = format!("{member} is required when subject kind is '{kind}'");
        errors.required(own, &message);
    }
    // In the order of upstream's checks.
    for other in ["serviceAccount", "user", "group"] {
        if other != *member && is_set(&subject[other]) {
            let kind = SUBJECTS.iter().find(|(_, member)| *member == other);
            let kind = kind.map_or("", |(kind, _)| kind);
            let message = format!("{other} is forbidden when subject kind is not '{kind}'");
            errors.forbidden(path.child(other), message);
        }
    }
}

fn validate_subject_name(path: FieldPath<'_>, kind: &str, who: &Value, errors: &mut Errors) {
    let account = kind == "ServiceAccount";
    match text(&who["name"]) {
        "" => errors.required(path.child("name"), ""),
        "*" => {}
        name if account => errors.problems(path.child("name"), name, dns1123_subdomain(name)),
        _ => {}
    }
    let namespace = path.child("namespace");
    match text(&who["namespace"]) {
        _ if !account => {}
        "" => errors.required(namespace, "must specify namespace for service account"),
        name => errors.problems(namespace, name, dns1123_label(name)),
    }
}

fn is_all(list: &Value) -> bool {
    items(list).iter().any(|one| one == "*")
}

/// Reports `*` next to other values. Returns false if the list contains `*`: it then needs no
/// further validation.
fn validate_wildcard_stands_alone(
    path: FieldPath<'_>,
    list: &Value,
    what: &str,
    errors: &mut Errors,
) -> bool {
    if is_all(list) && items(list).len() > 1 {
        let message = format!("if '*' is present, must not specify other {what}");
        errors.invalid(path, list.clone(), message);
    }
    !is_all(list)
}

fn validate_verbs(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
    if items(list).is_empty() {
        errors.required(path, "verbs must contain at least one value");
    } else if validate_wildcard_stands_alone(path, list, "verbs", errors)
        && items(list).iter().any(|verb| !VERBS.contains(&text(verb)))
    {
        errors.not_supported(path, list.clone(), VERBS);
    }
}

fn validate_resource_policy_rule(path: FieldPath<'_>, rule: &Value, errors: &mut Errors) {
    validate_verbs(path.child("verbs"), &rule["verbs"], errors);
    for (member, one, what) in [
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ] {
        if items(&rule[member]).is_empty() {
            let message = format!("resource rules must supply at least one {one}");
            errors.required(path.child(member), &message);
        }
        validate_wildcard_stands_alone(path.child(member), &rule[member], what, errors);
    }
    let list = path.child("namespaces");
    let namespaces = &rule["namespaces"];
    if items(namespaces).is_empty() && !flag(&rule["clusterScope"]) {
        let message =
            "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(list, message);
    } else if validate_wildcard_stands_alone(list, namespaces, "namespaces", errors) {
        for (at, name) in items(namespaces).iter().enumerate() {
            for problem in dns1123_label(text(name)) {
                let message =
                    format!("each member of this list must be '*' or a DNS-1123 label; {problem}");
                errors.invalid(list.index(at), text(name), message);
            }
        }
    }
}

fn validate_non_resource_policy_rule(path: FieldPath<'_>, rule: &Value, errors: &mut Errors) {
    validate_verbs(path.child("verbs"), &rule["verbs"], errors);
    let list = path.child("nonResourceURLs");
    let urls = &rule["nonResourceURLs"];
    if items(urls).is_empty() {
        errors.required(list, "nonResourceURLs must contain at least one value");
    } else if validate_wildcard_stands_alone(list, urls, "non-resource URLs", errors) {
        for (at, url) in items(urls).iter().enumerate() {
            if let Some(problem) = non_resource_url_error(text(url)) {
                errors.invalid(list.index(at), text(url), problem);
            }
        }
    }
}

fn non_resource_url_error(url: &str) -> Option<&'static str> {
    let stars = url.matches('*').count();
    match url {
        "" => Some("must not be empty"),
        "/" => None,
        _ if !url.starts_with('/') => Some("must start with slash"),
        _ if url.contains(' ') => Some("must not contain white-space"),
        _ if url.contains("//") => Some("must not contain double slash"),
        _ if stars > 1 || (stars == 1 && !url.ends_with("/*")) => {
            Some("wildcard can only do suffix matching")
        }
        _ => None,
    }
}

pub(crate) fn validate_priority_level_configuration(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let kind = text(&spec["type"]);
    if (object.name() == "exempt") != (kind == "Exempt") {
        let message = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid(SPEC.child("type"), kind, message);
    }
    let (limited, exempt) = (&spec["limited"], &spec["exempt"]);
    let (own, other) = (SPEC.child("limited"), SPEC.child("exempt"));
    match kind {
        "Exempt" => {
            if is_set(limited) {
                errors.forbidden(own, "must be nil if the type is not Limited");
            }
            validate_shares(other, exempt, errors);
            validate_percent(other, exempt, errors);
        }
        "Limited" => {
            if is_set(exempt) {
                errors.forbidden(other, "must be nil if the type is Limited");
            }
            if is_set(limited) {
                validate_limited_priority_level(own, limited, errors);
            } else {
                errors.required(own, "must not be empty when type is Limited");
            }
        }
        other => errors.one_of(SPEC.child("type"), other, &["Exempt", "Limited"]),
    }
}

fn validate_shares(path: FieldPath<'_>, holder: &Value, errors: &mut Errors) {
    let shares = int(&holder["nominalConcurrencyShares"]).unwrap_or(0);
    if shares < 0 {
        let path = path.child("nominalConcurrencyShares");
        errors.invalid(path, shares, "must be a non-negative integer");
    }
}

fn validate_percent(path: FieldPath<'_>, holder: &Value, errors: &mut Errors) {
    if let Some(percent) = int(&holder["lendablePercent"])
        && !(0..=100).contains(&percent)
    {
        let message = "must be between 0 and 100, inclusive";
        errors.invalid(path.child("lendablePercent"), percent, message);
    }
}

fn validate_limited_priority_level(path: FieldPath<'_>, limited: &Value, errors: &mut Errors) {
    validate_shares(path, limited, errors);
    let response = path.child("limitResponse");
    let (kind, queuing) = (
        text(&limited["limitResponse"]["type"]),
        &limited["limitResponse"]["queuing"],
    );
    let own = response.child("queuing");
    match kind {
        "Reject" if is_set(queuing) => {
            let message = "must be nil if limited.limitResponse.type is not Limited";
            errors.forbidden(own, message);
        }
        "Queue" if is_set(queuing) => validate_queues(own, queuing, errors),
        "Queue" => {
            let message = "must not be empty if limited.limitResponse.type is Limited";
            errors.required(own, message);
        }
        other => errors.one_of(response.child("type"), other, &["Queue", "Reject"]),
    }
    validate_percent(path, limited, errors);
    if let Some(percent) = int(&limited["borrowingLimitPercent"])
        && percent < 0
    {
        let message = "if specified, must be a non-negative integer";
        errors.invalid(path.child("borrowingLimitPercent"), percent, message);
    }
}

fn validate_queues(path: FieldPath<'_>, queuing: &Value, errors: &mut Errors) {
    let number = |name: &str| int(&queuing[name]).unwrap_or(0);
    let (length, queues, hand) = (
        number("queueLengthLimit"),
        number("queues"),
        number("handSize"),
    );
    if length <= 0 {
        errors.invalid(path.child("queueLengthLimit"), length, "must be positive");
    }
    if queues <= 0 {
        errors.invalid(path.child("queues"), queues, "must be positive");
    } else if queues > QUEUES_MAX {
        let message = format!("must not be greater than {QUEUES_MAX}");
        errors.invalid(path.child("queues"), queues, message);
    }
    if hand <= 0 {
        errors.invalid(path.child("handSize"), hand, "must be positive");
    } else if hand > queues {
        let message = format!("should not be greater than queues ({queues})");
        errors.invalid(path.child("handSize"), hand, message);
    }
}
