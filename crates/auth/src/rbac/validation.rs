//! Defaulting and validation of RBAC objects.

use optik_object::{
    FieldError, Map, Object, Value, dns1123_subdomain, path_segment,
    selector::validate_label_selector,
};
use serde_json::json;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Defaulting of a binding: the API groups of its role reference and subjects.
pub fn default_binding(object: &mut Object) {
    let members = object.members_mut();
    if let Some(Value::Object(reference)) = members.get_mut("roleRef") {
        default_text(reference, "apiGroup", GROUP);
    }
    let Some(Value::Array(subjects)) = members.get_mut("subjects") else {
        return;
    };
    for subject in subjects {
        let Value::Object(subject) = subject else {
            continue;
        };
        if matches!(text(subject, "kind"), "User" | "Group") {
            default_text(subject, "apiGroup", GROUP);
        }
    }
}

fn default_text(of: &mut Map, member: &str, value: &str) {
    if text(of, member).is_empty() {
        of.insert(member.into(), value.into());
    }
}

fn text<'a>(of: &'a Map, member: &str) -> &'a str {
    of.get(member).and_then(Value::as_str).unwrap_or_default()
}

fn items(of: Option<&Value>) -> &[Value] {
    of.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Validates a Role, or a ClusterRole if it has no namespace.
#[must_use]
pub fn validate_role(object: &Object) -> Vec<FieldError> {
    let namespaced = !object.namespace().is_empty();
    let mut errors = Vec::new();
    for (at, rule) in items(object.get("rules")).iter().enumerate() {
        validate_rule(rule, namespaced, &format!("rules[{at}]"), &mut errors);
    }
    if let Some(Value::Object(aggregation)) = object.get("aggregationRule") {
        validate_aggregation_rule(aggregation, &mut errors);
    }
    errors
}

fn validate_rule(rule: &Value, namespaced: bool, path: &str, errors: &mut Vec<FieldError>) {
    let list = |member: &str| items(rule.get(member));
    if list("verbs").is_empty() {
        let text = "verbs must contain at least one value";
        errors.push(FieldError::required(format!("{path}.verbs"), text));
    }
    let urls = list("nonResourceURLs");
    if !urls.is_empty() {
        let mut refuse = |text: &str| {
            let value = Value::from(urls.to_vec());
            errors.push(FieldError::invalid(
                format!("{path}.nonResourceURLs"),
                value,
                text,
            ));
        };
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"]
            .iter()
            .any(|member| !list(member).is_empty())
        {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    for (member, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if list(member).is_empty() {
            let text = format!("resource rules must supply at least one {what}");
            errors.push(FieldError::required(format!("{path}.{member}"), text));
        }
    }
}

fn validate_aggregation_rule(aggregation: &Map, errors: &mut Vec<FieldError>) {
    let path = "aggregationRule.clusterRoleSelectors";
    let selectors = items(aggregation.get("clusterRoleSelectors"));
    if selectors.is_empty() {
        let text = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(path, text));
    }
    for (at, selector) in selectors.iter().enumerate() {
        validate_selector(selector, &format!("{path}[{at}]"), errors);
    }
}

fn validate_selector(selector: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let found = validate_label_selector(selector);
    let is_wrong = !found.is_empty();
    errors.extend(found.into_iter().map(|error| error.with_path_prefix(path)));
    if is_wrong {
        let text = "invalid label selector.";
        errors.push(FieldError::invalid(path, Value::Null, text));
    }
}

/// Validates a RoleBinding, or a ClusterRoleBinding if it has no namespace. `old` is the stored
/// object in an update.
#[must_use]
pub fn validate_binding(object: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let namespaced = !object.namespace().is_empty();
    let mut errors = Vec::new();
    let empty = Map::new();
    let reference = object
        .get("roleRef")
        .and_then(Value::as_object)
        .unwrap_or(&empty);
    validate_role_ref(reference, namespaced, &mut errors);
    for (at, subject) in items(object.get("subjects")).iter().enumerate() {
        let subject = subject.as_object().unwrap_or(&empty);
        validate_subject(subject, namespaced, &format!("subjects[{at}]"), &mut errors);
    }
    if let Some(old) = old {
        let old = old
            .get("roleRef")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let parts = ["apiGroup", "kind", "name"];
        if parts
            .iter()
            .any(|part| text(old, part) != text(reference, part))
        {
            // With the field names of upstream's internal type.
            let value = json!({
                "APIGroup": text(reference, "apiGroup"), "Kind": text(reference, "kind"),
                "Name": text(reference, "name"),
            });
            errors.push(FieldError::invalid(
                "roleRef",
                value,
                "cannot change roleRef",
            ));
        }
    }
    errors
}

fn validate_role_ref(reference: &Map, namespaced: bool, errors: &mut Vec<FieldError>) {
    let group = text(reference, "apiGroup");
    if group != GROUP {
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            group,
            &[GROUP],
        ));
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    let kind = text(reference, "kind");
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    let name = text(reference, "name");
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        let problems = path_segment(name).into_iter();
        errors.extend(problems.map(|text| FieldError::invalid("roleRef.name", name, text)));
    }
}

fn validate_subject(subject: &Map, namespaced: bool, path: &str, errors: &mut Vec<FieldError>) {
    let (kind, name) = (text(subject, "kind"), text(subject, "name"));
    let group = text(subject, "apiGroup");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                let problems = dns1123_subdomain(name).into_iter();
                let path = format!("{path}.name");
                errors.extend(problems.map(|text| FieldError::invalid(path.as_str(), name, text)));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(
                    format!("{path}.apiGroup"),
                    group,
                    &[""],
                ));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => {
            errors.push(FieldError::not_supported(
                format!("{path}.apiGroup"),
                group,
                &[GROUP],
            ));
        }
        "User" | "Group" => {}
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(
                format!("{path}.kind"),
                other,
                &kinds,
            ));
        }
    }
}
