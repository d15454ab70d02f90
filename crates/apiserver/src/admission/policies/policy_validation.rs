//! Defaulting and validation of policies and bindings.

use crate::admission::policies::expression_env::{ExpressionEnv, OptionalVariables};
use crate::admission::policies::policy::{ExpectedResultType, PolicyExpression, variables};
use crate::admission::webhook_config_validation::{check_conditions, check_rule, check_selector};
use optik_object::{
    FieldError, Map, Object, Value, dns1035_label, dns1123_subdomain, path_segment, qualified_name,
};
use std::collections::BTreeSet;

const ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_BYTES_MAX: usize = 5 * 1024;
const STATUS_REASONS: &[&str] = &["Forbidden", "Invalid", "RequestEntityTooLarge"];

fn str_at<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

fn items_at<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map_or(&[], Vec::as_slice)
}

/// Defaulting of a policy or a binding.
pub(crate) fn apply_defaults(object: &mut Object) {
    let is_policy = object.kind().ends_with("Policy");
    let mutates = object.kind().starts_with("Mutating");
    let Some(Value::Object(spec)) = object.members_mut().get_mut("spec") else {
        return;
    };
    if is_policy {
        spec.entry("failurePolicy").or_insert_with(|| "Fail".into());
        if mutates {
            let never = || "Never".into();
            spec.entry("reinvocationPolicy").or_insert_with(never);
        }
    }
    for name in ["matchConstraints", "matchResources"] {
        if let Some(Value::Object(matching)) = spec.get_mut(name) {
            default_matching(matching);
        }
    }
}

fn default_matching(matching: &mut Map) {
    let equivalent = || "Equivalent".into();
    matching.entry("matchPolicy").or_insert_with(equivalent);
    for name in ["namespaceSelector", "objectSelector"] {
        let nothing = || Map::new().into();
        matching.entry(name).or_insert_with(nothing);
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        let rules = matching.get_mut(name).and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter_map(Value::as_object_mut) {
            rule.entry("scope").or_insert_with(|| "*".into());
        }
    }
}

/// Validates a policy or a binding; returns all errors.
pub(crate) fn validate(object: &Object) -> Vec<FieldError> {
    let nothing = Value::Null;
    let spec = object.get("spec").unwrap_or(&nothing);
    let mut errors = Vec::new();
    match object.kind().strip_suffix("Binding") {
        Some(kind) => check_binding(spec, kind.starts_with("Validating"), &mut errors),
        None => check_policy(object, spec, &mut errors),
    }
    errors
}

fn check_one_of(spec: &Value, name: &str, supported: &[&str], errors: &mut Vec<FieldError>) {
    let path = format!("spec.{name}");
    match str_at(spec, name) {
        "" => errors.push(FieldError::required(path, "")),
        given if !supported.contains(&given) => {
            errors.push(FieldError::not_supported(path, given, supported));
        }
        _ => {}
    }
}

fn check_policy(object: &Object, spec: &Value, errors: &mut Vec<FieldError>) {
    let mutates = object.kind().starts_with("Mutating");
    check_one_of(spec, "failurePolicy", &["Fail", "Ignore"], errors);
    let params = spec["paramKind"].is_object();
    if params {
        check_param_kind(&spec["paramKind"], errors);
    }
    check_constraints(spec, mutates, errors);
    let with = OptionalVariables {
        params,
        authorizer: true,
        patch_types: mutates,
    };
    let conditions = "spec.matchConditions";
    let nothing = ExpressionEnv::without_variables();
    check_conditions(&spec["matchConditions"], conditions, errors);
    for (at, condition) in items_at(spec, "matchConditions").iter().enumerate() {
        let path = format!("{conditions}[{at}].expression");
        let source = str_at(condition, "expression").trim();
        check_expression(
            &path,
            source,
            with,
            &nothing,
            ExpectedResultType::Bool,
            errors,
        );
    }
    let (compiled, known) = variables(spec, with);
    check_variables(spec, &compiled, errors);
    if mutates {
        check_mutations(spec, with, &known, errors);
        let policies = &["IfNeeded", "Never"];
        check_one_of(spec, "reinvocationPolicy", policies, errors);
    } else {
        check_validations(object.name(), spec, with, &known, errors);
    }
}

fn check_param_kind(kind: &Value, errors: &mut Vec<FieldError>) {
    let path = "spec.paramKind.apiVersion";
    let mut refuse = |path: &str, value: &str, text: String| {
        errors.push(FieldError::invalid(path, value, text));
    };
    let api_version = str_at(kind, "apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if api_version.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if version.contains('/') {
        let why = format!("unexpected GroupVersion string: {api_version}");
        refuse(path, api_version, why);
    } else {
        let problems = dns1123_subdomain(group);
        if !group.is_empty() && !problems.is_empty() {
            refuse(path, group, problems.join(","));
        }
        let problems = dns1035_label(version);
        if version.is_empty() {
            refuse(path, api_version, "version must be specified".into());
        } else if !problems.is_empty() {
            refuse(path, version, problems.join(","));
        }
    }
    let name = str_at(kind, "kind");
    let problems = dns1035_label(&name.to_lowercase());
    let path = "spec.paramKind.kind";
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !problems.is_empty() {
        let why = format!(
            "may have mixed case, but should otherwise match: {}",
            problems.join(",")
        );
        errors.push(FieldError::invalid(path, name, why));
    }
}

fn check_constraints(spec: &Value, mutates: bool, errors: &mut Vec<FieldError>) {
    let path = "spec.matchConstraints";
    let constraints = &spec["matchConstraints"];
    if !constraints.is_object() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    check_matching(constraints, path, errors);
    let rules = items_at(constraints, "resourceRules");
    if rules.is_empty() {
        errors.push(FieldError::required(format!("{path}.resourceRules"), ""));
    }
    if !mutates {
        return;
    }
    let supported = &["CREATE", "UPDATE"];
    for operation in rules.iter().flat_map(|rule| items_at(rule, "operations")) {
        let operation = operation.as_str().unwrap_or_default();
        if !supported.contains(&operation) {
            let path = format!("{path}.resourceRules.operations");
            errors.push(FieldError::not_supported(path, operation, supported));
        }
    }
}

fn check_matching(matching: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let policies = &["Equivalent", "Exact"];
    let given = str_at(matching, "matchPolicy");
    if !policies.contains(&given) {
        let path = format!("{path}.matchPolicy");
        errors.push(FieldError::not_supported(path, given, policies));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        check_selector(&matching[name], &format!("{path}.{name}"), errors);
    }
    for name in ["resourceRules", "excludeResourceRules"] {
        for (at, rule) in items_at(matching, name).iter().enumerate() {
            let path = format!("{path}.{name}[{at}]");
            check_names(rule, &path, errors);
            check_rule(rule, &path, errors);
        }
    }
}

fn check_names(rule: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let names = items_at(rule, "resourceNames");
    let mut seen = BTreeSet::new();
    for (at, name) in names.iter().enumerate() {
        let path = format!("{path}.resourceNames[{at}]");
        for problem in path_segment(name.as_str().unwrap_or_default()) {
            errors.push(FieldError::invalid(path.clone(), name.clone(), problem));
        }
        if !seen.insert(name.as_str()) {
            errors.push(FieldError::duplicate(path, name.clone()));
        }
    }
}

/// Validates a match condition of a webhook, except for its name.
pub(crate) fn validate_match_condition(path: &str, source: &str, errors: &mut Vec<FieldError>) {
    let with = OptionalVariables {
        authorizer: true,
        ..OptionalVariables::default()
    };
    check_expression(
        path,
        source,
        with,
        &ExpressionEnv::without_variables(),
        ExpectedResultType::Bool,
        errors,
    );
}

fn check_expression(
    path: &str,
    source: &str,
    with: OptionalVariables,
    known: &ExpressionEnv,
    wanted: ExpectedResultType,
    errors: &mut Vec<FieldError>,
) {
    if source.trim().is_empty() {
        return;
    }
    let compiled = PolicyExpression::compile(source, with, known, wanted);
    if let Err(why) = compiled.program {
        errors.push(FieldError::invalid(path, source, why));
    }
}

fn check_variables(spec: &Value, compiled: &[PolicyExpression], errors: &mut Vec<FieldError>) {
    let all = items_at(spec, "variables").iter().zip(compiled).enumerate();
    for (at, (variable, compiled)) in all {
        let path = format!("spec.variables[{at}]");
        let name = str_at(variable, "name");
        if name.trim().is_empty() {
            let path = format!("{path}.name");
            errors.push(FieldError::required(path, "name is not specified"));
        } else if !is_identifier(name) {
            let text = "must be a valid CEL identifier";
            errors.push(FieldError::invalid(format!("{path}.name"), name, text));
        }
        let path = format!("{path}.expression");
        if compiled.text.trim().is_empty() {
            errors.push(FieldError::required(path, "expression is not specified"));
        } else if let Err(why) = &compiled.program {
            let error = FieldError::invalid(path, compiled.text.as_str(), why.as_str());
            errors.push(error);
        }
    }
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let plain = first && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    plain
        && optik_cel::escape(name)
            .is_some_and(|escaped| !escaped.starts_with("__") || name.starts_with("__"))
}

fn check_validations(
    name: &str,
    spec: &Value,
    with: OptionalVariables,
    known: &ExpressionEnv,
    errors: &mut Vec<FieldError>,
) {
    let validations = items_at(spec, "validations");
    let annotations = items_at(spec, "auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        for name in ["validations", "auditAnnotations"] {
            let text = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(format!("spec.{name}"), text));
        }
        return;
    }
    for (at, validation) in validations.iter().enumerate() {
        let path = format!("spec.validations[{at}]");
        check_validation(validation, &path, with, known, errors);
    }
    if annotations.len() > ANNOTATIONS_MAX {
        let text = format!("must not have more than {ANNOTATIONS_MAX} auditAnnotations");
        let value = spec["auditAnnotations"].clone();
        errors.push(FieldError::invalid("spec.auditAnnotations", value, text));
    }
    let mut seen = BTreeSet::new();
    for (at, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{at}]");
        check_annotation(name, annotation, &path, with, known, errors);
        let key = str_at(annotation, "key");
        if !seen.insert(key) {
            errors.push(FieldError::duplicate(format!("{path}.key"), key));
        }
    }
}

fn check_validation(
    validation: &Value,
    path: &str,
    with: OptionalVariables,
    known: &ExpressionEnv,
    errors: &mut Vec<FieldError>,
) {
    let at = |name: &str| format!("{path}.{name}");
    let source = str_at(validation, "expression");
    if source.trim().is_empty() {
        let text = "expression is not specified";
        errors.push(FieldError::required(at("expression"), text));
    }
    check_expression(
        &at("expression"),
        source,
        with,
        known,
        ExpectedResultType::Bool,
        errors,
    );
    let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let source = str_at(validation, "messageExpression");
    let non_empty = "must be non-empty if specified";
    if blank(source) {
        let error = FieldError::invalid(at("messageExpression"), source, non_empty);
        errors.push(error);
    }
    let without = OptionalVariables {
        params: true,
        authorizer: false,
        ..with
    };
    let path = at("messageExpression");
    check_expression(
        &path,
        source,
        without,
        known,
        ExpectedResultType::String,
        errors,
    );
    let message = str_at(validation, "message");
    if blank(message) {
        errors.push(FieldError::invalid(at("message"), message, non_empty));
    } else if message.trim().contains(['\n', '\r']) {
        let text = "must not contain line breaks";
        errors.push(FieldError::invalid(at("message"), message, text));
    }
    let reason = str_at(validation, "reason");
    if !reason.is_empty() && !STATUS_REASONS.contains(&reason) {
        errors.push(FieldError::not_supported(
            at("reason"),
            reason,
            STATUS_REASONS,
        ));
    }
}

fn check_annotation(
    name: &str,
    annotation: &Value,
    path: &str,
    with: OptionalVariables,
    known: &ExpressionEnv,
    errors: &mut Vec<FieldError>,
) {
    let key = str_at(annotation, "key");
    let whole = format!("{name}/{key}");
    let at_key = format!("{path}.key");
    if name.is_empty() {
        let text = "requires metadata.name be non-empty";
        errors.push(FieldError::invalid(at_key, key, text));
    } else {
        for problem in qualified_name(&whole) {
            let error = FieldError::invalid(at_key.clone(), whole.as_str(), problem);
            errors.push(error);
        }
    }
    let path = format!("{path}.valueExpression");
    let source = str_at(annotation, "valueExpression").trim();
    if source.is_empty() {
        let text = "valueExpression is not specified";
        errors.push(FieldError::required(path, text));
    } else if source.len() > VALUE_EXPRESSION_BYTES_MAX {
        let text = format!("must not exceed {VALUE_EXPRESSION_BYTES_MAX} bytes in length");
        errors.push(FieldError::required(path, text));
    } else {
        check_expression(
            &path,
            source,
            with,
            known,
            ExpectedResultType::StringOrNull,
            errors,
        );
    }
}

fn check_mutations(
    spec: &Value,
    with: OptionalVariables,
    known: &ExpressionEnv,
    errors: &mut Vec<FieldError>,
) {
    let mutations = items_at(spec, "mutations");
    if mutations.is_empty() {
        let text = "mutations must contain at least one item";
        errors.push(FieldError::required("spec.mutations", text));
    }
    for (at, mutation) in mutations.iter().enumerate() {
        let path = format!("spec.mutations[{at}]");
        let (own, other, wanted) = match str_at(mutation, "patchType") {
            "JSONPatch" => (
                "jsonPatch",
                "applyConfiguration",
                ExpectedResultType::JsonPatch,
            ),
            "ApplyConfiguration" => (
                "applyConfiguration",
                "jsonPatch",
                ExpectedResultType::Object,
            ),
            "" => {
                errors.push(FieldError::required(format!("{path}.patchType"), ""));
                continue;
            }
            given => {
                let supported = &["ApplyConfiguration", "JSONPatch"];
                let path = format!("{path}.patchType");
                errors.push(FieldError::not_supported(path, given, supported));
                continue;
            }
        };
        let patch_type = str_at(mutation, "patchType");
        if mutation[own].is_object() {
            let path = format!("{path}.{own}.expression");
            let source = str_at(&mutation[own], "expression");
            if source.trim().is_empty() {
                let text = "expression is not specified";
                errors.push(FieldError::required(path.clone(), text));
            }
            check_expression(&path, source, with, known, wanted, errors);
        } else {
            let text = format!("must be specified when patchType is {patch_type}");
            errors.push(FieldError::required(format!("{path}.{own}"), text));
        }
        if mutation[other].is_object() {
            let text = format!("must not be specified when patchType is {patch_type}");
            let value = format!("{{{other}}}");
            errors.push(FieldError::invalid(format!("{path}.{other}"), value, text));
        }
    }
}

fn check_binding(spec: &Value, validates: bool, errors: &mut Vec<FieldError>) {
    let path = "spec.policyName";
    let name = str_at(spec, "policyName");
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        for problem in dns1123_subdomain(name) {
            errors.push(FieldError::invalid(path, name, problem));
        }
    }
    if spec["paramRef"].is_object() {
        check_param_ref(&spec["paramRef"], errors);
    }
    if spec["matchResources"].is_object() {
        check_matching(&spec["matchResources"], "spec.matchResources", errors);
    }
    if validates {
        check_actions(spec, errors);
    }
}

fn check_param_ref(reference: &Value, errors: &mut Vec<FieldError>) {
    let path = "spec.paramRef";
    let name = str_at(reference, "name");
    let selector = &reference["selector"];
    let exclusive = "name and selector are mutually exclusive";
    for problem in path_segment(name).into_iter().filter(|_| !name.is_empty()) {
        errors.push(FieldError::invalid(format!("{path}.name"), name, problem));
    }
    if !name.is_empty() && selector.is_object() {
        errors.push(FieldError::forbidden(format!("{path}.name"), exclusive));
    }
    if selector.is_object() {
        let path = format!("{path}.selector");
        check_selector(selector, &path, errors);
        if !name.is_empty() {
            errors.push(FieldError::forbidden(path, exclusive));
        }
    } else if name.is_empty() {
        let text = "one of name or selector must be specified";
        errors.push(FieldError::required(path, text));
    }
    let path = format!("{path}.parameterNotFoundAction");
    match str_at(reference, "parameterNotFoundAction") {
        "" => errors.push(FieldError::required(path, "")),
        "Allow" | "Deny" => {}
        given => errors.push(FieldError::not_supported(path, given, &["Deny", "Allow"])),
    }
}

fn check_actions(spec: &Value, errors: &mut Vec<FieldError>) {
    let path = "spec.validationActions";
    let supported = &["Audit", "Deny", "Warn"];
    let actions = items_at(spec, "validationActions");
    for (at, action) in actions.iter().enumerate() {
        let path = format!("{path}[{at}]");
        let given = action.as_str().unwrap_or_default();
        if !supported.contains(&given) {
            let error = FieldError::not_supported(path.clone(), given, supported);
            errors.push(error);
        }
        if actions[..at].contains(action) {
            errors.push(FieldError::duplicate(path, given));
        }
    }
    let has = |name: &str| actions.iter().any(|action| action == name);
    if has("Deny") && has("Warn") {
        let text = "must not contain both Deny and Warn (repeating the same validation failure \
                    information in the API response and headers serves no purpose)";
        let value = spec["validationActions"].clone();
        errors.push(FieldError::invalid(path, value, text));
    }
    if actions.is_empty() {
        let text = "at least one validation action is required";
        errors.push(FieldError::required(path, text));
    }
}
