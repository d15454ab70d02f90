//! Validation of workloads: Deployment, ReplicaSet, DaemonSet, StatefulSet, ReplicationController,
//! PodTemplate and ControllerRevision.

use super::accessors::{entries, int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::name_formats::is_percent;
use super::pods::validate_pod_template_spec;
use super::selectors::{is_empty, is_valid, matches, validate_label_selector};
use super::storage::validate_persistent_volume_claim_spec;
use optik_object::{Object, Value, dns1123_label};
use serde_json::json;
use std::collections::BTreeSet;

const SPEC: FieldPath<'static> = FieldPath::root("spec");

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(crate) fn validate_deployment(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    errors.non_negative(SPEC.child("replicas"), int(&spec["replicas"]));
    validate_workload_selector(spec, "deployment", errors);
    validate_workload_template(spec, errors);
    validate_deployment_strategy(SPEC.child("strategy"), &spec["strategy"], errors);
    let ready = int(&spec["minReadySeconds"]);
    errors.non_negative(SPEC.child("minReadySeconds"), ready);
    let limit = int(&spec["revisionHistoryLimit"]);
    errors.non_negative(SPEC.child("revisionHistoryLimit"), limit);
    let deadline = int(&spec["progressDeadlineSeconds"]);
    let path = SPEC.child("progressDeadlineSeconds");
    errors.non_negative(path, deadline);
    if let Some(deadline) = deadline
        && deadline <= ready.unwrap_or(0)
    {
        errors.invalid(path, deadline, "must be greater than minReadySeconds");
    }
}

pub(crate) fn validate_replica_set(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    errors.non_negative(SPEC.child("replicas"), int(&spec["replicas"]));
    let ready = int(&spec["minReadySeconds"]);
    errors.non_negative(SPEC.child("minReadySeconds"), ready);
    validate_workload_selector(spec, "deployment", errors);
    validate_workload_template(spec, errors);
}

/// The selector is immutable.
pub(crate) fn validate_selector_immutable(new: &Object, old: &Object, errors: &mut Errors) {
    let path = SPEC.child("selector");
    errors.is_fixed(path, &spec(new)["selector"], &spec(old)["selector"]);
}

/// Validates the selector of a workload.
fn validate_workload_selector(spec: &Value, what: &str, errors: &mut Errors) {
    let path = SPEC.child("selector");
    if !is_set(&spec["selector"]) {
        return errors.required(path, "");
    }
    validate_label_selector(path, &spec["selector"], errors);
    if is_empty(&spec["selector"]) {
        let message = format!("empty selector is invalid for {what}");
        errors.invalid(path, spec["selector"].clone(), message);
    }
}

/// Validates the template and that the selector matches it.
fn validate_workload_template(spec: &Value, errors: &mut Errors) {
    let path = SPEC.child("template");
    if !is_understood(spec, "invalid label selector", errors) {
        return;
    }
    validate_selector_matches_template(spec, errors);
    validate_pod_template_spec(path, &spec["template"], errors);
    validate_restart_policy_always(spec, "ReplicaSet", errors);
}

fn is_understood(spec: &Value, message: &str, errors: &mut Errors) -> bool {
    let understood = is_valid(&spec["selector"]);
    if !understood {
        let path = SPEC.child("selector");
        errors.invalid(path, spec["selector"].clone(), message);
    }
    understood
}

/// A missing selector matches nothing. An empty one is reported elsewhere.
fn validate_selector_matches_template(spec: &Value, errors: &mut Errors) {
    let labels = &spec["template"]["metadata"]["labels"];
    if !is_set(&spec["selector"]) || !matches(&spec["selector"], labels) {
        let template = SPEC.child("template");
        let metadata = template.child("metadata");
        let message = "`selector` does not match template `labels`";
        errors.invalid(metadata.child("labels"), labels.clone(), message);
    }
}

fn validate_restart_policy_always(spec: &Value, what: &str, errors: &mut Errors) {
    let template = SPEC.child("template");
    let path = template.child("spec");
    let pod = &spec["template"]["spec"];
    let policy = text(&pod["restartPolicy"]);
    if policy != "Always" {
        errors.not_supported(path.child("restartPolicy"), policy, &["Always"]);
    }
    if is_set(&pod["activeDeadlineSeconds"]) {
        let message = format!("activeDeadlineSeconds in {what} is not Supported");
        errors.forbidden(path.child("activeDeadlineSeconds"), message);
    }
}

fn validate_deployment_strategy(path: FieldPath<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let own = path.child("rollingUpdate");
    match text(&strategy["type"]) {
        "Recreate" if is_set(rolling) => {
            let message = "may not be specified when strategy `type` is 'Recreate'";
            errors.forbidden(own, message);
        }
        "Recreate" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            validate_int_or_percent(own.child("maxUnavailable"), unavailable, errors);
            validate_int_or_percent(own.child("maxSurge"), surge, errors);
            if is_zero(unavailable) && is_zero(surge) {
                let message = "may not be 0 when `maxSurge` is 0";
                errors.invalid(own.child("maxUnavailable"), unavailable.clone(), message);
            }
            validate_not_more_than_100_percent(own.child("maxUnavailable"), unavailable, errors);
        }
        _ => {
            let shown = json!({"Type": strategy["type"], "RollingUpdate": rolling});
            errors.not_supported(path, shown, &["Recreate", "RollingUpdate"]);
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse() == Ok(0_i64),
        other => int(other).unwrap_or(0) == 0,
    }
}

/// Validates a number or a percentage.
pub(crate) fn validate_int_or_percent(path: FieldPath<'_>, value: &Value, errors: &mut Errors) {
    match value {
        Value::String(text) if !is_percent(text) => {
            let message = "a valid percent string must be a numeric string followed by an ending \
                           '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            errors.invalid(path, value.clone(), message);
        }
        Value::String(_) => {}
        other => errors.non_negative(path, int(other)),
    }
}

pub(crate) fn validate_not_more_than_100_percent(
    path: FieldPath<'_>,
    value: &Value,
    errors: &mut Errors,
) {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%'));
    let percent = percent.and_then(|digits| digits.parse::<i64>().ok());
    if percent.is_some_and(|percent| percent > 100) {
        errors.invalid(path, value.clone(), "must not be greater than 100%");
    }
}

pub(crate) fn validate_daemon_set(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let path = SPEC.child("selector");
    validate_label_selector(path, &spec["selector"], errors);
    if is_valid(&spec["selector"]) {
        validate_selector_matches_template(spec, errors);
    }
    if is_set(&spec["selector"]) && is_empty(&spec["selector"]) {
        let message = "empty selector is invalid for daemonset";
        errors.invalid(path, spec["selector"].clone(), message);
    }
    validate_pod_template_spec(SPEC.child("template"), &spec["template"], errors);
    validate_restart_policy_always(spec, "DaemonSet", errors);
    errors.non_negative(SPEC.child("minReadySeconds"), int(&spec["minReadySeconds"]));
    validate_daemon_strategy(
        SPEC.child("updateStrategy"),
        &spec["updateStrategy"],
        errors,
    );
    let limit = int(&spec["revisionHistoryLimit"]);
    errors.non_negative(SPEC.child("revisionHistoryLimit"), limit);
}

fn validate_daemon_strategy(path: FieldPath<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let own = path.child("rollingUpdate");
    match text(&strategy["type"]) {
        "OnDelete" => {}
        "RollingUpdate" => {
            let (unavailable, surge) = (&rolling["maxUnavailable"], &rolling["maxSurge"]);
            for (member, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
                validate_int_or_percent(own.child(member), value, errors);
            }
            for (member, value) in [("maxUnavailable", unavailable), ("maxSurge", surge)] {
                validate_not_more_than_100_percent(own.child(member), value, errors);
            }
            match (is_zero(unavailable), is_zero(surge)) {
                (false, false) => {
                    let message = "may not be set when maxUnavailable is non-zero";
                    errors.invalid(own.child("maxSurge"), surge.clone(), message);
                }
                (true, true) => {
                    let message = "cannot be 0 when maxSurge is 0";
                    errors.required(own.child("maxUnavailable"), message);
                }
                _ => {}
            }
        }
        _ => {
            let shown = json!({"Type": strategy["type"], "RollingUpdate": rolling});
            errors.not_supported(path, shown, &["RollingUpdate", "OnDelete"]);
        }
    }
}

pub(crate) fn validate_stateful_set(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    match text(&spec["podManagementPolicy"]) {
        "" => errors.required(SPEC.child("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            let message = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(SPEC.child("podManagementPolicy"), other, message);
        }
    }
    validate_stateful_strategy(
        SPEC.child("updateStrategy"),
        &spec["updateStrategy"],
        errors,
    );
    let policy = SPEC.child("persistentVolumeClaimRetentionPolicy");
    for member in ["whenDeleted", "whenScaled"] {
        let word = text(&spec["persistentVolumeClaimRetentionPolicy"][member]);
        errors.one_of_or_nothing(policy.child(member), word, &["Delete", "Retain"]);
    }
    let list = SPEC.child("volumeClaimTemplates");
    for (at, claim) in items(&spec["volumeClaimTemplates"]).iter().enumerate() {
        validate_persistent_volume_claim_spec(list.index(at).child("spec"), &claim["spec"], errors);
    }
    errors.non_negative(SPEC.child("replicas"), int(&spec["replicas"]));
    errors.non_negative(SPEC.child("minReadySeconds"), int(&spec["minReadySeconds"]));
    errors.non_negative(
        SPEC.child("ordinals.start"),
        int(&spec["ordinals"]["start"]),
    );
    let service = text(&spec["serviceName"]);
    if !service.is_empty() {
        errors.problems(SPEC.child("serviceName"), service, dns1123_label(service));
    }
    validate_workload_selector(spec, "statefulset", errors);
    if is_understood(spec, "", errors) {
        validate_selector_matches_template(spec, errors);
        validate_pod_template_spec(SPEC.child("template"), &with_claims(spec), errors);
    }
    validate_restart_policy_always(spec, "StatefulSet", errors);
}

/// The template with a volume for each claim template, because containers may mount them.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let claims = items(&spec["volumeClaimTemplates"]);
    if claims.is_empty() || !template["spec"].is_object() {
        return template;
    }
    let names = claims.iter().map(|claim| text(&claim["metadata"]["name"]));
    let mut volumes: Vec<Value> = names
        .clone()
        .map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}))
        .collect();
    let own = items(&template["spec"]["volumes"]).iter();
    let claimed: BTreeSet<&str> = names.collect();
    let own = own.filter(|volume| !claimed.contains(text(&volume["name"])));
    volumes.extend(own.cloned());
    template["spec"]["volumes"] = volumes.into();
    template
}

fn validate_stateful_strategy(path: FieldPath<'_>, strategy: &Value, errors: &mut Errors) {
    let rolling = &strategy["rollingUpdate"];
    let own = path.child("rollingUpdate");
    match text(&strategy["type"]) {
        "" => errors.required(path, ""),
        "OnDelete" if is_set(rolling) => {
            let message = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid(own, rolling.clone(), message);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            errors.non_negative(own.child("partition"), int(&rolling["partition"]));
            let unavailable = &rolling["maxUnavailable"];
            if is_set(unavailable) {
                let path = own.child("maxUnavailable");
                validate_int_or_percent(path, unavailable, errors);
                if is_zero(unavailable) {
                    errors.invalid(path, unavailable.clone(), "cannot be 0");
                }
                validate_not_more_than_100_percent(path, unavailable, errors);
            }
        }
        _ => {
            let shown = json!({"Type": strategy["type"], "RollingUpdate": rolling});
            let message = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid(path, shown, message);
        }
    }
}

pub(crate) fn validate_stateful_set_update(new: &Object, old: &Object, errors: &mut Errors) {
    const CHANGEABLE: &[&str] = &[
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let (new, old) = (spec(new), spec(old));
    let fixed = |side: &Value| -> Vec<(String, Value)> {
        let members = entries(side).filter(|(name, _)| !CHANGEABLE.contains(&name.as_str()));
        members
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    if fixed(new) != fixed(old) {
        let message = "updates to statefulset spec for fields other than 'replicas', 'ordinals', \
                       'template', 'updateStrategy', 'revisionHistoryLimit', \
                       'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.forbidden(SPEC, message);
    }
}

pub(crate) fn validate_replication_controller(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    errors.non_negative(SPEC.child("minReadySeconds"), int(&spec["minReadySeconds"]));
    if entries(&spec["selector"]).next().is_none() {
        errors.required(SPEC.child("selector"), "");
    }
    errors.non_negative(SPEC.child("replicas"), int(&spec["replicas"]));
    let path = SPEC.child("template");
    if !is_set(&spec["template"]) {
        return errors.required(path, "");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let mut wanted = entries(&spec["selector"]);
    if !wanted.all(|(key, value)| labels.get(key) == Some(value)) {
        let metadata = path.child("metadata");
        let message = "`selector` does not match template `labels`";
        errors.invalid(metadata.child("labels"), labels.clone(), message);
    }
    validate_pod_template_spec(path, &spec["template"], errors);
    let policy = text(&spec["template"]["spec"]["restartPolicy"]);
    if policy != "Always" {
        let spec = path.child("spec");
        errors.not_supported(spec.child("restartPolicy"), policy, &["Always"]);
    }
}

pub(crate) fn validate_pod_template(object: &Object, errors: &mut Errors) {
    let given = object.get("template").unwrap_or(&Value::Null);
    validate_pod_template_spec(FieldPath::root("template"), given, errors);
}

pub(crate) fn validate_controller_revision(object: &Object, errors: &mut Errors) {
    let number = object.get("revision").and_then(Value::as_i64);
    errors.non_negative(FieldPath::root("revision"), number);
}

pub(crate) fn validate_controller_revision_update(new: &Object, old: &Object, errors: &mut Errors) {
    let of = |object: &Object| object.get("data").cloned().unwrap_or(Value::Null);
    errors.is_fixed(FieldPath::root("data"), &of(new), &of(old));
}
