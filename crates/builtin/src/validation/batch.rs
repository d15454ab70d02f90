//! Validation of Jobs and CronJobs.

use super::accessors::{flag, int, is_set, text};
use super::cron;
use super::errors::Errors;
use super::field_path::FieldPath;
use super::pods::validate_pod_template_spec;
use super::selectors::{matches, validate_label_selector};
use optik_object::{Object, Value};
use serde_json::json;

const SPEC: FieldPath<'static> = FieldPath::root("spec");
const METADATA: FieldPath<'static> = FieldPath::root("metadata");

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(crate) fn validate_job(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    validate_generated_job_selector(object, spec, errors);
    validate_job_spec(SPEC, spec, errors);
    let path = SPEC.child("selector");
    if is_set(&spec["selector"]) {
        validate_label_selector(path, &spec["selector"], errors);
        let labels = &spec["template"]["metadata"]["labels"];
        if !matches(&spec["selector"], labels) {
            let template = SPEC.child("template");
            let metadata = template.child("metadata");
            let message = "`selector` does not match template `labels`";
            errors.invalid(metadata.child("labels"), labels.clone(), message);
        }
    } else {
        errors.required(path, "");
    }
    let completions = int(&spec["completions"]).unwrap_or(0);
    if text(&spec["completionMode"]) == "Indexed" && completions > 0 {
        let last = format!("{}-{}", object.name(), completions - 1);
        if !optik_object::dns1123_label(&last).is_empty() {
            let message = format!("will not able to create pod with invalid DNS label: {last}");
            errors.invalid(METADATA.child("name"), object.name(), message);
        }
    }
}

/// Without `manualSelector`, the selector and the labels must be the generated ones.
fn validate_generated_job_selector(object: &Object, spec: &Value, errors: &mut Errors) {
    if flag(&spec["manualSelector"]) {
        return;
    }
    let path = SPEC.child("selector");
    if !is_set(&spec["selector"]) {
        return;
    }
    let template = SPEC.child("template");
    let metadata = template.child("metadata");
    let labels = metadata.child("labels");
    let given = &spec["template"]["metadata"]["labels"];
    for (key, expected) in [
        ("batch.kubernetes.io/controller-uid", object.uid()),
        ("batch.kubernetes.io/job-name", object.name()),
        ("controller-uid", object.uid()),
        ("job-name", object.name()),
    ] {
        let found = text(&given[key]);
        if found != expected {
            let message = format!("must be '{expected}'");
            if given.get(key).is_none() {
                errors.required(labels.key(key), &message);
            } else {
                errors.invalid(labels, given.clone(), message);
            }
        }
    }
    let expected = json!({
        "batch.kubernetes.io/controller-uid": object.uid(), "controller-uid": object.uid(),
        "batch.kubernetes.io/job-name": object.name(), "job-name": object.name(),
    });
    if !matches(&spec["selector"], &expected) {
        errors.invalid(
            path,
            spec["selector"].clone(),
            "`selector` not auto-generated",
        );
    }
}

fn validate_job_spec(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    for member in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        errors.non_negative(path.child(member), int(&spec[member]));
    }
    if is_set(&spec["maxFailedIndexes"]) && !is_set(&spec["backoffLimitPerIndex"]) {
        let message = "when maxFailedIndexes is specified";
        errors.required(path.child("backoffLimitPerIndex"), message);
    }
    let mode = text(&spec["completionMode"]);
    if is_set(&spec["completionMode"]) {
        let modes = ["NonIndexed", "Indexed"];
        errors.one_of_or_nothing(path.child("completionMode"), mode, &modes);
    }
    if mode == "Indexed" {
        if !is_set(&spec["completions"]) {
            let message = "when completion mode is Indexed";
            errors.required(path.child("completions"), message);
        }
    } else {
        for member in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if let Some(number) = int(&spec[member]) {
                let message = "requires indexed completion mode";
                errors.invalid(path.child(member), number, message);
            }
        }
        if is_set(&spec["successPolicy"]) {
            let message = "requires indexed completion mode";
            errors.invalid(
                path.child("successPolicy"),
                spec["successPolicy"].clone(),
                message,
            );
        }
    }
    validate_pod_replacement_policy(path.child("podReplacementPolicy"), spec, errors);
    let own = path.child("template");
    validate_pod_template_spec(own, &spec["template"], errors);
    let pod = own.child("spec");
    let policy = text(&spec["template"]["spec"]["restartPolicy"]);
    match policy {
        "Always" | "" => {
            let message = "valid values: \"OnFailure\", \"Never\"";
            errors.required(pod.child("restartPolicy"), message);
        }
        "OnFailure" if is_set(&spec["podFailurePolicy"]) => {
            let message = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(pod.child("restartPolicy"), policy, message);
        }
        "OnFailure" | "Never" => {}
        other => {
            errors.not_supported(pod.child("restartPolicy"), other, &["OnFailure", "Never"]);
        }
    }
}

fn validate_pod_replacement_policy(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    if !is_set(&spec["podReplacementPolicy"]) {
        return;
    }
    let policy = text(&spec["podReplacementPolicy"]);
    if is_set(&spec["podFailurePolicy"]) {
        errors.one_of_or_nothing(path, policy, &["Failed"]);
    } else {
        errors.one_of_or_nothing(path, policy, &["Failed", "TerminatingOrFailed"]);
    }
}

pub(crate) fn validate_job_update(new: &Object, old: &Object, errors: &mut Errors) {
    let (new, old) = (spec(new), spec(old));
    let indexed = text(&new["completionMode"]) == "Indexed";
    let path = SPEC.child("completions");
    if new["completions"] != old["completions"] {
        let together = new["completions"] == new["parallelism"]
            && is_set(&old["completions"])
            && is_set(&new["completions"]);
        if indexed && !together {
            let message = "may only be changed in tandem with parallelism such that completions == \
                           parallelism";
            errors.invalid(path, new["completions"].clone(), message);
        } else if !indexed {
            errors.is_fixed(path, &new["completions"], &old["completions"]);
        }
    }
    errors.is_fixed(SPEC.child("selector"), &new["selector"], &old["selector"]);
    let mut before = old["template"].clone();
    let suspended = flag(&old["suspend"]);
    if suspended && let Some(pod) = before.get_mut("spec").and_then(Value::as_object_mut) {
        // Scheduling constraints of a suspended Job are mutable.
        for member in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            match new["template"]["spec"].get(member) {
                Some(value) => drop(pod.insert(member.into(), value.clone())),
                None => drop(pod.remove(member)),
            }
        }
        before["metadata"] = new["template"]["metadata"].clone();
    }
    errors.is_fixed(SPEC.child("template"), &new["template"], &before);
    for member in [
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        errors.is_fixed(SPEC.child(member), &new[member], &old[member]);
    }
}

pub(crate) fn validate_cron_job(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let schedule = text(&spec["schedule"]);
    let path = SPEC.child("schedule");
    if schedule.is_empty() {
        errors.required(path, "");
    } else if schedule.contains("TZ") {
        let message = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.invalid(path, schedule, message);
    } else if let Err(message) = cron::validate_schedule(schedule) {
        errors.invalid(path, schedule, message);
    }
    let deadline = int(&spec["startingDeadlineSeconds"]);
    errors.non_negative(SPEC.child("startingDeadlineSeconds"), deadline);
    if is_set(&spec["timeZone"]) {
        validate_time_zone(SPEC.child("timeZone"), text(&spec["timeZone"]), errors);
    }
    let policy = text(&spec["concurrencyPolicy"]);
    let policies = ["Allow", "Forbid", "Replace"];
    errors.one_of(SPEC.child("concurrencyPolicy"), policy, &policies);
    let template = SPEC.child("jobTemplate");
    let (path, job) = (template.child("spec"), &spec["jobTemplate"]["spec"]);
    validate_job_spec(path, job, errors);
    if is_set(&job["selector"]) {
        let message = "`selector` will be auto-generated";
        errors.invalid(path.child("selector"), job["selector"].clone(), message);
    }
    if flag(&job["manualSelector"]) {
        errors.not_supported(path.child("manualSelector"), true, &["nil", "false"]);
    }
    for member in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        errors.non_negative(SPEC.child(member), int(&spec[member]));
    }
}

pub(crate) fn validate_cron_job_create(object: &Object, errors: &mut Errors) {
    validate_cron_job(object, errors);
    if object.name().len() > 52 {
        let message = "must be no more than 52 characters";
        errors.invalid(METADATA.child("name"), object.name(), message);
    }
}

fn validate_time_zone(path: FieldPath<'_>, zone: &str, errors: &mut Errors) {
    let known = zone
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "/_+-".contains(c));
    if zone.is_empty() {
        errors.invalid(path, zone, "timeZone must be nil or non-empty string");
    } else if zone.eq_ignore_ascii_case("local") {
        let message = "timeZone must be an explicit time zone as defined in \
                       https://www.iana.org/time-zones";
        errors.invalid(path, zone, message);
    } else if !known {
        errors.invalid(path, zone, format!("unknown time zone {zone}"));
    }
}
