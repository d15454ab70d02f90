//! Field and label selectors in access reviews.
//!
//! RBAC has no selectors, so they do not affect the decision. They are validated, and requirements
//! that cannot be parsed are reported.

use optik_object::{FieldError, Value};

const SELECTORS: [&str; 2] = ["fieldSelector", "labelSelector"];
const OPERATORS: [&str; 4] = ["In", "NotIn", "Exists", "DoesNotExist"];

fn members(selector: &Value) -> (&str, &[Value]) {
    let raw = selector["rawSelector"].as_str().unwrap_or_default();
    let requirements = selector["requirements"].as_array();
    (raw, requirements.map_or(&[], Vec::as_slice))
}

/// Validates the selectors of resource attributes.
pub(super) fn validate(attributes: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for name in SELECTORS {
        let selector = &attributes[name];
        if !selector.is_object() {
            continue;
        }
        let path = format!("spec.resourceAttributes.{name}");
        let (raw, requirements) = members(selector);
        if !raw.is_empty() && !requirements.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.rawSelector"),
                raw,
                "may not specified at the same time as requirements",
            ));
        }
        if raw.is_empty() && requirements.is_empty() {
            let text = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(format!("{path}.requirements"), &text));
        }
    }
    errors
}

/// The message about selectors that were not parsed, wholly or in part.
pub(super) fn unparsed_requirements(attributes: &Value) -> String {
    let told = SELECTORS.into_iter().filter_map(|name| {
        let (_, requirements) = members(&attributes[name]);
        let known = requirements.iter().filter(|requirement| {
            let operator = requirement["operator"].as_str();
            operator.is_some_and(|operator| OPERATORS.contains(&operator))
        });
        let how = match known.count() {
            known if known == requirements.len() => return None,
            0 => "ignored",
            _ => "partially ignored",
        };
        Some(format!(
            "spec.resourceAttributes.{name} {how} due to parse error"
        ))
    });
    told.collect::<Vec<_>>().join("; ")
}
