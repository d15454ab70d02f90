//! Validation of status updates.

use super::accessors::{first_by_name, int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::pods::validate_ip;
use optik_object::{Object, Value, dns1123_subdomain, to_bytes};
use std::collections::BTreeSet;

/// The replica counters of a status.
struct ReplicaCounts {
    /// Counters that must not be negative.
    all: &'static [&'static str],
    /// Counters that must not exceed `replicas`.
    of_replicas: &'static [&'static str],
    /// Upstream's message if `availableReplicas` exceeds its bound.
    available: &'static str,
}

const DEPLOYMENT: ReplicaCounts = ReplicaCounts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    of_replicas: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    available: "cannot be greater than readyReplicas",
};
const REPLICA_SET: ReplicaCounts = ReplicaCounts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    of_replicas: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    available: "cannot be greater than readyReplicas",
};
const STATEFUL_SET: ReplicaCounts = ReplicaCounts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    of_replicas: &[
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
    ],
    available: "cannot be greater than status.readyReplicas",
};
const DAEMON_SET: ReplicaCounts = ReplicaCounts {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    of_replicas: &[],
    available: "",
};
const STATUS: FieldPath<'_> = FieldPath::root("status");

fn status(object: &Object) -> &Value {
    object.get("status").unwrap_or(&Value::Null)
}

pub(crate) fn validate_deployment_status(object: &Object, old: &Object, errors: &mut Errors) {
    DEPLOYMENT.validate(status(object), errors);
    validate_collision_count(status(object), status(old), errors);
}

pub(crate) fn validate_replica_set_status(object: &Object, _: &Object, errors: &mut Errors) {
    REPLICA_SET.validate(status(object), errors);
}

pub(crate) fn validate_stateful_set_status(object: &Object, old: &Object, errors: &mut Errors) {
    STATEFUL_SET.validate(status(object), errors);
    validate_collision_count(status(object), status(old), errors);
}

pub(crate) fn validate_daemon_set_status(object: &Object, old: &Object, errors: &mut Errors) {
    DAEMON_SET.validate(status(object), errors);
    validate_collision_count(status(object), status(old), errors);
}

impl ReplicaCounts {
    fn validate(&self, status: &Value, errors: &mut Errors) {
        let count = |name: &str| int(&status[name]).unwrap_or(0);
        for name in self.all {
            errors.non_negative(STATUS.child(name), int(&status[name]));
        }
        for name in self.of_replicas {
            if count(name) > count("replicas") {
                let message = "cannot be greater than status.replicas";
                errors.invalid(STATUS.child(name), count(name), message);
            }
        }
        let name = "availableReplicas";
        if self.of_replicas.contains(&name) && count(name) > count("readyReplicas") {
            errors.invalid(STATUS.child(name), count(name), self.available);
        }
    }
}

/// `collisionCount` never decreases.
fn validate_collision_count(new: &Value, old: &Value, errors: &mut Errors) {
    let [now, before] = [new, old].map(|status| int(&status["collisionCount"]));
    if before.is_some_and(|before| now.is_none_or(|now| now < before)) {
        let path = STATUS.child("collisionCount");
        errors.invalid(path, now.unwrap_or(0), "cannot be decremented");
    }
}

pub(crate) fn validate_pod_status(object: &Object, old: &Object, errors: &mut Errors) {
    let (new, before) = (status(object), status(old));
    let spec = old.get("spec").unwrap_or(&Value::Null);
    validate_nominated_node_name(text(&new["nominatedNodeName"]), before, spec, errors);
    if let Some(generation) = int(&new["observedGeneration"])
        && generation < 0
    {
        let message = "must be a non-negative integer";
        errors.invalid(STATUS.child("observedGeneration"), generation, message);
    }
    errors.is_fixed(
        STATUS.child("qosClass"),
        &new["qosClass"],
        &before["qosClass"],
    );
    validate_container_state_transitions(new, before, text(&spec["restartPolicy"]), errors);
    for list in ["podIPs", "hostIPs"] {
        validate_pod_addresses(STATUS.child(list), &new[list], &before[list], errors);
    }
}

fn validate_nominated_node_name(node: &str, before: &Value, spec: &Value, errors: &mut Errors) {
    if node.is_empty() || node == text(&before["nominatedNodeName"]) {
        return;
    }
    let path = STATUS.child("nominatedNodeName");
    errors.problems(path, node, dns1123_subdomain(node));
    if is_set(&spec["nodeName"]) {
        let message = "may not be set on pods that are already bound to a node";
        errors.forbidden(path, message);
    }
}

/// A terminated container that is not restarted stays terminated.
fn validate_container_state_transitions(
    new: &Value,
    before: &Value,
    restarts: &str,
    errors: &mut Errors,
) {
    let list = STATUS.child("containerStatuses");
    let now = first_by_name(&new["containerStatuses"]);
    for (at, container) in items(&before["containerStatuses"]).iter().enumerate() {
        let ended = &container["state"]["terminated"];
        let failed = int(&ended["exitCode"]).unwrap_or(0) != 0;
        let again = restarts == "Always" || restarts == "OnFailure" && failed;
        if ended.is_null() || again {
            continue;
        }
        let same = now.get(text(&container["name"]));
        if same.is_some_and(|now| now["state"]["terminated"].is_null()) {
            let own = list.index(at);
            let message = "may not be transitioned to non-terminated state";
            errors.forbidden(own.child("state"), message);
        }
    }
}

fn validate_pod_addresses(path: FieldPath<'_>, new: &Value, before: &Value, errors: &mut Errors) {
    let is_v4 = |address: &Value| text(&address["ip"]).contains('.');
    let known: BTreeSet<Vec<u8>> = items(before).iter().map(to_bytes).collect();
    for (at, address) in items(new).iter().enumerate() {
        if !known.contains(&to_bytes(address)) {
            validate_ip(path.index(at), text(&address["ip"]), errors);
        }
    }
    let (count, of_v4) = (
        items(new).len(),
        items(new).iter().filter(|one| is_v4(one)).count(),
    );
    if count > 2 || count == 2 && of_v4 != 1 {
        let message = "may specify no more than one IP for each IP family";
        errors.invalid(path, new.clone(), message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn messages(check: super::super::ValidateUpdateFn, new: &Value, old: &Value) -> Vec<String> {
        let object = |status: &Value| {
            let spec = json!({"restartPolicy": "Never", "nodeName": "n"});
            Object::try_from(json!({"spec": spec, "status": status})).unwrap()
        };
        let mut errors = Errors::default();
        check(&object(new), &object(old), &mut errors);
        let errors = errors.into_list().into_iter();
        errors.map(|error| error.to_string()).collect()
    }

    #[test]
    fn workload_status_counts_are_validated() {
        let none = json!({});
        let more = messages(
            validate_deployment_status,
            &json!({"replicas": 1, "readyReplicas": 2}),
            &none,
        );
        let words =
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas";
        assert_eq!(more, [words]);
        assert_eq!(
            messages(
                validate_daemon_set_status,
                &json!({"numberReady": -1}),
                &none
            )
            .len(),
            1
        );
        assert_eq!(
            messages(
                validate_replica_set_status,
                &json!({"replicas": 1, "readyReplicas": 1}),
                &none
            )
            .len(),
            0
        );
        let fewer = messages(
            validate_stateful_set_status,
            &none,
            &json!({"collisionCount": 1}),
        );
        let words = "status.collisionCount: Invalid value: 0: cannot be decremented";
        assert_eq!(fewer, [words]);
    }

    #[test]
    fn terminated_containers_cannot_restart_in_pod_status() {
        let running = json!({"containerStatuses": [{"name": "c", "state": {"running": {}}}]});
        let ended = json!({"containerStatuses": [{"name": "c", "state": {"terminated": {}}}]});
        assert_eq!(messages(validate_pod_status, &running, &ended).len(), 1);
        assert_eq!(messages(validate_pod_status, &ended, &running).len(), 0);
        assert_eq!(
            messages(
                validate_pod_status,
                &json!({"nominatedNodeName": "A_B"}),
                &json!({})
            )
            .len(),
            2
        );
        let two = json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]});
        assert_eq!(messages(validate_pod_status, &two, &json!({})).len(), 1);
    }
}
