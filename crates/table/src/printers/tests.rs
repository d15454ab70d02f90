//! Cells that depend on the current time. All others are compared with a real server's by
//! `testkit/api`.

use crate::{Printer, RowWriter, builtin_printer};
use optik_object::{Tape, Timestamp, Value, parse};
use serde_json::json;

fn cells(group: &str, version: &str, plural: &str, object: &Value) -> Vec<Value> {
    let now: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    let text = object.to_string();
    let mut tape = Tape::default();
    let view = tape.read(text.as_bytes()).unwrap();
    let mut out = Vec::new();
    let mut row = RowWriter::new(&mut out, now);
    builtin_printer(group, version, plural).cells(view, &mut row);
    row.end();
    parse(&out).unwrap().value.as_array().unwrap().clone()
}

#[test]
fn pod_restarts_cell_shows_last_restart() {
    let ended = |at: &str| json!({"terminated": {"exitCode": 1, "finishedAt": at}});
    let pod = json!({
        "metadata": {"name": "p", "creationTimestamp": "2026-11-15T11:00:00Z"},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}]},
        "status": {"phase": "Running", "containerStatuses": [
            {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}},
             "lastState": ended("2026-11-15T11:50:00Z")},
            {"name": "b", "ready": true, "restartCount": 3, "state": {"running": {}},
             "lastState": ended("2026-11-15T11:55:00Z")},
        ]},
    });
    let cells = cells("", "v1", "pods", &pod);
    assert_eq!(
        cells[..5],
        ["p", "2/2", "Running", "5 (5m ago)", "60m"].map(Value::from)
    );
}

#[test]
fn deleted_pod_status_cell_is_terminating() {
    let mut pod = json!({
        "metadata": {"name": "p", "deletionTimestamp": "2026-11-15T11:00:00Z"},
        "status": {"phase": "Running"},
    });
    let status = |pod: &Value| cells("", "v1", "pods", pod)[2].clone();
    assert_eq!(status(&pod), "Terminating");
    pod["status"]["reason"] = "NodeLost".into();
    assert_eq!(status(&pod), "Unknown");
    pod["status"] = json!({"phase": "Succeeded"});
    assert_eq!(status(&pod), "Succeeded");
}

#[test]
fn job_duration_cell_ends_at_completion() {
    let mut job = json!({
        "metadata": {"name": "j"},
        "status": {"startTime": "2026-11-15T11:58:30Z"},
    });
    assert_eq!(cells("batch", "v1", "jobs", &job)[3], "90s");
    job["status"]["completionTime"] = "2026-11-15T11:59:00Z".into();
    assert_eq!(cells("batch", "v1", "jobs", &job)[3], "30s");
}

#[test]
fn event_last_seen_cell_reads_both_event_versions() {
    let core = json!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"},
        "firstTimestamp": "2026-11-15T11:00:00Z", "lastTimestamp": "2026-11-15T11:59:00Z",
        "count": 4, "message": "m",
    });
    let group = json!({
        "metadata": {"name": "e"}, "regarding": {"kind": "Pod", "name": "p"},
        "deprecatedFirstTimestamp": "2026-11-15T11:00:00Z",
        "deprecatedLastTimestamp": "2026-11-15T11:59:00Z",
        "deprecatedCount": 4, "note": "m",
    });
    let expected = cells("", "v1", "events", &core);
    assert_eq!(expected[0], "60s");
    assert_eq!(expected[3], "pod/p");
    assert_eq!(expected[7], "60m");
    assert_eq!(cells("events.k8s.io", "v1", "events", &group), expected);
}

/// Malformed nodes and pods get odd cells, but never an error.
#[test]
fn malformed_objects_still_get_table_cells() {
    let odd = json!({"metadata": [], "spec": "x", "status": {"conditions": {"a": 1}, "phase": 3}});
    for (group, version, plural) in crate::columns::all() {
        assert!(!cells(group, version, plural, &odd).is_empty(), "{plural}");
    }
}
