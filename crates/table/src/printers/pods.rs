//! Cells of pods. The displayed status is derived from the statuses of the containers.

use crate::format::{condition, flag_at, is_true, items, lookup, number_at, text_at};
use crate::row_writer::RowWriter;
use optik_object::{JsonView, Timestamp};

pub(crate) fn pod(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let told = PodStatusSummary::from_pod(object);
    row.name(object);
    row.text(&format!("{}/{}", told.ready, told.containers));
    row.text(&told.reason);
    let restarts = match told.last_restart {
        Some(last) if told.restarts != 0 => {
            let since = row.since(&last.to_string());
            format!("{} ({since} ago)", told.restarts)
        }
        _ => told.restarts.to_string(),
    };
    row.text(&restarts);
    row.age(object);
    let address = items(object, &["status", "podIPs"]).next();
    let address = address.and_then(|first| first.get("ip")?.as_str());
    let address = address.filter(|ip| !ip.is_empty());
    row.text(address.as_deref().unwrap_or("<none>"));
    row.text_or(object, &["spec", "nodeName"], "<none>");
    row.text_or(object, &["status", "nominatedNodeName"], "<none>");
    row.text(&readiness_gates(object));
}

pub(crate) fn conditions(object: JsonView<'_>) -> Option<&'static str> {
    match &*text_at(object, &["status", "phase"]) {
        "Succeeded" => Some(
            r#"[{"type":"Completed","status":"True","reason":"Succeeded","message":"The pod has completed successfully."}]"#,
        ),
        "Failed" => Some(
            r#"[{"type":"Completed","status":"True","reason":"Failed","message":"The pod failed."}]"#,
        ),
        _ => None,
    }
}

fn readiness_gates(object: JsonView<'_>) -> String {
    let gates = items(object, &["spec", "readinessGates"]);
    let all = gates.clone().count();
    if all == 0 {
        return "<none>".into();
    }
    let open = gates.filter(|gate| {
        let kind = text_at(*gate, &["conditionType"]);
        condition(object, &kind).is_some_and(is_true)
    });
    format!("{}/{all}", open.count())
}

/// The READY, STATUS and RESTARTS cells, from the container statuses.
struct PodStatusSummary {
    containers: usize,
    ready: usize,
    reason: String,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl PodStatusSummary {
    fn from_pod(object: JsonView<'_>) -> Self {
        let mut told = Self {
            containers: items(object, &["spec", "containers"]).count(),
            ready: 0,
            reason: first_reason(object),
            restarts: 0,
            last_restart: None,
        };
        let sidecars = items(object, &["spec", "initContainers"]).filter(|one| is_sidecar(*one));
        told.containers += sidecars.count();
        let mut of_sidecars = RestartCount::default();
        let initializing = told.init_containers(object, &mut of_sidecars);
        let initialized = condition(object, "Initialized").is_some_and(is_true);
        if !initializing || initialized {
            told.restarts = of_sidecars.count;
            told.last_restart = of_sidecars.last;
            told.main_containers(object);
        }
        told.deletion(object);
        told
    }

    /// Counts the init containers; returns whether they are still running.
    fn init_containers(&mut self, object: JsonView<'_>, of_sidecars: &mut RestartCount) -> bool {
        let specs = items(object, &["spec", "initContainers"]);
        let statuses = items(object, &["status", "initContainerStatuses"]);
        for (at, status) in statuses.enumerate() {
            let name = text_at(status, &["name"]);
            let mut own = specs.clone();
            let sidecar = own.any(|spec| {
                let same = spec.get("name").is_some_and(|own| own.equals_str(&name));
                same && is_sidecar(spec)
            });
            self.count_restarts(status);
            if sidecar {
                of_sidecars.add(status);
            }
            let ended = lookup(status, &["state", "terminated"]);
            let waiting = text_at(status, &["state", "waiting", "reason"]);
            if ended.is_some_and(|ended| number_at(ended, &["exitCode"]) == 0) {
                continue;
            }
            if sidecar && flag_at(status, &["started"]) == Some(true) {
                self.ready += usize::from(flag_at(status, &["ready"]) == Some(true));
                continue;
            }
            self.reason = match ended {
                Some(ended) => format!("Init:{}", end_reason(ended)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{at}/{}", specs.clone().count()),
            };
            return true;
        }
        false
    }

    fn main_containers(&mut self, object: JsonView<'_>) {
        let statuses = items(object, &["status", "containerStatuses"]);
        let mut statuses: Vec<JsonView<'_>> = statuses.collect();
        // In reverse, so that the reason of the first container wins.
        statuses.reverse();
        let (mut running, mut failure) = (false, None);
        for status in statuses {
            self.count_restarts(status);
            let waiting = text_at(status, &["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.reason = waiting.into_owned();
            } else if let Some(ended) = lookup(status, &["state", "terminated"]) {
                self.reason = end_reason(ended);
                if number_at(ended, &["exitCode"]) != 0 {
                    failure = Some(self.reason.clone());
                }
            } else if flag_at(status, &["ready"]) == Some(true)
                && lookup(status, &["state", "running"]).is_some()
            {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        if running && condition(object, "Ready").is_some_and(is_true) {
            self.reason = "Running".into();
        } else if let Some(failure) = failure {
            self.reason = failure;
        } else if running {
            self.reason = "NotReady".into();
        }
    }

    fn deletion(&mut self, object: JsonView<'_>) {
        if lookup(object, &["metadata", "deletionTimestamp"]).is_none() {
            return;
        }
        let phase = text_at(object, &["status", "phase"]);
        if text_at(object, &["status", "reason"]) == "NodeLost" {
            self.reason = "Unknown".into();
        } else if phase != "Succeeded" && phase != "Failed" {
            self.reason = "Terminating".into();
        }
    }

    fn count_restarts(&mut self, status: JsonView<'_>) {
        let mut own = RestartCount {
            count: self.restarts,
            last: self.last_restart,
        };
        own.add(status);
        (self.restarts, self.last_restart) = (own.count, own.last);
    }
}

#[derive(Default)]
struct RestartCount {
    count: i64,
    last: Option<Timestamp>,
}

impl RestartCount {
    fn add(&mut self, status: JsonView<'_>) {
        self.count += number_at(status, &["restartCount"]);
        let ended = text_at(status, &["lastState", "terminated", "finishedAt"]);
        self.last = self.last.max(ended.parse().ok());
    }
}

/// An init container with `restartPolicy: Always`.
fn is_sidecar(spec: JsonView<'_>) -> bool {
    spec.get("restartPolicy")
        .is_some_and(|policy| policy.equals_str("Always"))
}

fn first_reason(object: JsonView<'_>) -> String {
    let gated = items(object, &["status", "conditions"]).any(|condition| {
        let is =
            |name: &str, text: &str| condition.get(name).is_some_and(|own| own.equals_str(text));
        is("type", "PodScheduled") && is("reason", "SchedulingGated")
    });
    let reason = text_at(object, &["status", "reason"]);
    if gated {
        "SchedulingGated".into()
    } else if reason.is_empty() {
        text_at(object, &["status", "phase"]).into_owned()
    } else {
        reason.into_owned()
    }
}

fn end_reason(ended: JsonView<'_>) -> String {
    let reason = text_at(ended, &["reason"]);
    let signal = number_at(ended, &["signal"]);
    if !reason.is_empty() {
        reason.into_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", number_at(ended, &["exitCode"]))
    }
}
