//! Cells of workloads: deployments, jobs and other kinds that create pods.

use crate::format::{
    condition, containers, is_true, items, labels, length, lookup, number_at, or_none, selector,
    selector_or_none, text_at,
};
use crate::human_duration::human_duration;
use crate::row_writer::RowWriter;
use optik_object::{JsonView, Timestamp};

fn container_cells(template: Option<JsonView<'_>>, row: &mut RowWriter<'_>) {
    let (names, images) = containers(template);
    row.text(&names);
    row.text(&images);
}

/// `spec.replicas`; one if unset.
fn desired_replicas(object: JsonView<'_>) -> i64 {
    lookup(object, &["spec", "replicas"]).map_or(1, |count| count.as_i64().unwrap_or(0))
}

pub(crate) fn pod_template(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let template = object.get("template");
    container_cells(template, row);
    let map = object.get_path(&["template", "metadata", "labels"]);
    row.text(&or_none(labels(map)));
}

pub(crate) fn replication_controller(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    replica_counts(object, row);
    row.text(&or_none(labels(object.get_path(&["spec", "selector"]))));
}

pub(crate) fn replica_set(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    replica_counts(object, row);
    row.text(&selector_or_none(object.get_path(&["spec", "selector"])));
}

fn replica_counts(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.number(desired_replicas(object));
    row.count(object, &["status", "replicas"]);
    row.count(object, &["status", "readyReplicas"]);
    row.age(object);
    container_cells(object.get_path(&["spec", "template"]), row);
}

pub(crate) fn deployment(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let ready = number_at(object, &["status", "readyReplicas"]);
    row.text(&format!("{ready}/{}", desired_replicas(object)));
    row.count(object, &["status", "updatedReplicas"]);
    row.count(object, &["status", "availableReplicas"]);
    row.age(object);
    container_cells(object.get_path(&["spec", "template"]), row);
    let text = selector(object.get_path(&["spec", "selector"]));
    row.text(text.as_deref().unwrap_or("<invalid>"));
}

pub(crate) fn stateful_set(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let ready = number_at(object, &["status", "readyReplicas"]);
    row.text(&format!("{ready}/{}", desired_replicas(object)));
    row.age(object);
    container_cells(object.get_path(&["spec", "template"]), row);
}

pub(crate) fn daemon_set(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    for count in [
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    ] {
        row.count(object, &["status", count]);
    }
    let nodes = object.get_path(&["spec", "template", "spec", "nodeSelector"]);
    row.text(&or_none(labels(nodes)));
    row.age(object);
    container_cells(object.get_path(&["spec", "template"]), row);
    row.text(&selector_or_none(object.get_path(&["spec", "selector"])));
}

pub(crate) fn controller_revision(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let mut owners = items(object, &["metadata", "ownerReferences"]);
    let owner =
        owners.find(|owner| owner.get("controller").and_then(JsonView::as_bool) == Some(true));
    let text = owner.map(|owner| {
        let version = text_at(owner, &["apiVersion"]);
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let kind = text_at(owner, &["kind"]).to_lowercase();
        let between = if group.is_empty() { "" } else { "." };
        format!("{kind}{between}{group}/{}", text_at(owner, &["name"]))
    });
    row.text(text.as_deref().unwrap_or("<none>"));
    row.count(object, &["revision"]);
    row.age(object);
}

/// The first of these conditions that is true is the status of the job.
const JOB_CONDITIONS: &[&str] = &["Complete", "Failed"];
const JOB_CONDITIONS_ALIVE: &[&str] = &["Suspended", "FailureTarget", "SuccessCriteriaMet"];

pub(crate) fn job(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let holds = |kind: &&&str| condition(object, kind).is_some_and(is_true);
    let status = JOB_CONDITIONS.iter().find(holds);
    let status = status
        .copied()
        .or_else(|| lookup(object, &["metadata", "deletionTimestamp"]).map(|_| "Terminating"));
    let status = status.or_else(|| JOB_CONDITIONS_ALIVE.iter().find(holds).copied());
    row.name(object);
    row.text(status.unwrap_or("Running"));
    let done = number_at(object, &["status", "succeeded"]);
    let parallel = number_at(object, &["spec", "parallelism"]);
    row.text(&match lookup(object, &["spec", "completions"]) {
        Some(all) => format!("{done}/{}", all.as_i64().unwrap_or(0)),
        None if parallel > 1 => format!("{done}/1 of {parallel}"),
        None => format!("{done}/1"),
    });
    let (start, end) = (
        text_at(object, &["status", "startTime"]),
        text_at(object, &["status", "completionTime"]),
    );
    let took = match (start.parse::<Timestamp>(), end.parse::<Timestamp>()) {
        (Err(_), _) => String::new(),
        (Ok(start), Ok(end)) => human_duration(end.micros() - start.micros()),
        (Ok(_), Err(_)) => row.since(&start),
    };
    row.text(&took);
    row.age(object);
    container_cells(object.get_path(&["spec", "template"]), row);
    row.text(&selector_or_none(object.get_path(&["spec", "selector"])));
}

pub(crate) fn cron_job(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "schedule"], "");
    row.text_or(object, &["spec", "timeZone"], "<none>");
    row.text(
        match object
            .get_path(&["spec", "suspend"])
            .and_then(JsonView::as_bool)
        {
            Some(true) => "True",
            // Unset means false.
            Some(false) | None => "False",
        },
    );
    row.number(length(object, &["status", "active"]));
    let last = lookup(object, &["status", "lastScheduleTime"]).and_then(JsonView::as_str);
    let last = last.map(|last| row.since(&last));
    row.text(last.as_deref().unwrap_or("<none>"));
    row.age(object);
    let job = object.get_path(&["spec", "jobTemplate", "spec"]);
    container_cells(job.and_then(|job| job.get("template")), row);
    row.text(&selector_or_none(job.and_then(|job| job.get("selector"))));
}
