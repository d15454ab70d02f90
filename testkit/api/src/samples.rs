//! The smallest valid object of every kind, and a valid change of it.

use crate::kinds::{CUSTOM_GROUP, kind};
use serde_json::{Value, json};

/// The smallest valid object of this kind.
///
/// # Panics
/// If the suite has no such kind.
#[must_use]
pub fn sample(plural: &str, name: &str) -> Value {
    let kind = kind(plural);
    let mut object = body(plural, name);
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.into();
    object["metadata"] = json!({"name": name});
    object
}

/// A change that every server must allow: a JSON pointer and the new value. Kinds that
/// cannot be changed get a label.
#[must_use]
pub fn change(plural: &str) -> (&'static str, Value) {
    match plural {
        "configmaps" => ("/data/k", json!("changed")),
        "secrets" => ("/data/k", json!("Yw==")),
        "services" => ("/spec/ports/0/port", json!(81)),
        "endpoints" => ("/subsets", json!([{"addresses": [{"ip": "192.0.2.1"}]}])),
        "events" => ("/message", json!("changed")),
        "limitranges" => (
            "/spec/limits",
            json!([{"type": "Pod", "max": {"cpu": "9"}}]),
        ),
        "persistentvolumes" => ("/spec/persistentVolumeReclaimPolicy", json!("Delete")),
        "pods" => ("/spec/containers/0/image", json!("changed")),
        "podtemplates" => ("/template/spec/containers/0/image", json!("changed")),
        "replicationcontrollers" | "deployments" | "replicasets" | "statefulsets" => {
            ("/spec/replicas", json!(0))
        }
        "daemonsets" => ("/spec/minReadySeconds", json!(7)),
        "resourcequotas" => ("/spec/hard/pods", json!("2")),
        "serviceaccounts" => ("/automountServiceAccountToken", json!(false)),
        "nodes" => ("/spec/unschedulable", json!(true)),
        "controllerrevisions" => ("/revision", json!(2)),
        "horizontalpodautoscalers" => ("/spec/maxReplicas", json!(4)),
        "jobs" => ("/spec/parallelism", json!(3)),
        "cronjobs" => ("/spec/schedule", json!("5 * * * *")),
        "ingresses" => ("/spec/defaultBackend/service/name", json!("changed")),
        "ingressclasses" => (
            "/spec/parameters",
            json!({"kind": "K", "name": "n", "scope": "Cluster"}),
        ),
        "networkpolicies" => ("/spec/podSelector", json!({"matchLabels": {"a": "b"}})),
        "poddisruptionbudgets" => ("/spec/minAvailable", json!(2)),
        "roles" | "clusterroles" => ("/rules", json!([rule()])),
        "rolebindings" | "clusterrolebindings" => (
            "/subjects",
            json!([{
                "kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io",
            }]),
        ),
        "csidrivers" => ("/spec/requiresRepublish", json!(true)),
        "csinodes" => ("/spec/drivers", json!([{"name": "d", "nodeID": "n"}])),
        "csistoragecapacities" => ("/capacity", json!("1Gi")),
        "storageclasses" => ("/allowVolumeExpansion", json!(true)),
        "validatingwebhookconfigurations" | "mutatingwebhookconfigurations" => {
            ("/webhooks", json!([webhook_of_nothing()]))
        }
        "validatingadmissionpolicies" => ("/spec/validations/0/expression", json!("1 == 1")),
        "validatingadmissionpolicybindings" => ("/spec/validationActions", json!(["Audit"])),
        "mutatingadmissionpolicies" => ("/spec/reinvocationPolicy", json!("IfNeeded")),
        "mutatingadmissionpolicybindings" => ("/spec/policyName", json!("other")),
        "customresourcedefinitions" => ("/spec/names/categories", json!(["all"])),
        "priorityclasses" => ("/description", json!("changed")),
        "leases" => ("/spec/holderIdentity", json!("changed")),
        "runtimeclasses" => ("/scheduling", json!({"nodeSelector": {"a": "b"}})),
        "endpointslices" => ("/endpoints", json!([{"addresses": ["192.0.2.2"]}])),
        "deviceclasses" => ("/spec/selectors", json!([{"cel": {"expression": "true"}}])),
        "resourceslices" => ("/spec/pool/generation", json!(2)),
        "flowschemas" => ("/spec/matchingPrecedence", json!(9001)),
        "prioritylevelconfigurations" => ("/spec/limited/nominalConcurrencyShares", json!(2)),
        "widgets" | "gadgets" => ("/spec/color", json!("changed")),
        _ => ("/metadata/labels/changed", json!("yes")),
    }
}

/// The fields specific to the kind; [`sample`] adds metadata and type.
fn body(plural: &str, name: &str) -> Value {
    match plural {
        "configmaps" => json!({"data": {"k": "v"}}),
        "secrets" => json!({"data": {"k": "dg=="}}),
        "services" => json!({"spec": {"ports": [{"port": 80}]}}),
        "limitranges" => json!({"spec": {"limits": []}}),
        "persistentvolumeclaims" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}),
        "persistentvolumes" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/nowhere"},
        }}),
        "pods" => json!({"spec": pod_spec()}),
        "podtemplates" => json!({"template": pod_template()}),
        "replicationcontrollers" => json!({"spec": {
            "selector": {"app": "a"}, "template": pod_template(),
        }}),
        "resourcequotas" => json!({"spec": {"hard": {"pods": "1"}}}),
        "deployments" | "replicasets" | "daemonsets" => json!({"spec": workload()}),
        "statefulsets" => {
            let mut spec = workload();
            spec["serviceName"] = "s".into();
            json!({"spec": spec})
        }
        "controllerrevisions" => json!({"revision": 1, "data": {}}),
        "horizontalpodautoscalers" => json!({"spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
        }}),
        "jobs" => json!({"spec": {"template": {"spec": run_once()}}}),
        "cronjobs" => json!({"spec": {
            "schedule": "1 * * * *", "jobTemplate": {"spec": {"template": {"spec": run_once()}}},
        }}),
        "ingresses" => json!({"spec": {"defaultBackend": {
            "service": {"name": "s", "port": {"number": 80}},
        }}}),
        "ingressclasses" => json!({"spec": {"controller": "example.test/controller"}}),
        "networkpolicies" => json!({"spec": {"podSelector": {}}}),
        "poddisruptionbudgets" => json!({"spec": {
            "minAvailable": 1, "selector": {"matchLabels": {"app": "a"}},
        }}),
        "roles" | "clusterroles" => json!({"rules": []}),
        "rolebindings" | "clusterrolebindings" => json!({"roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r",
        }}),
        "csidrivers" | "deviceclasses" | "leases" => json!({"spec": {}}),
        "csinodes" => json!({"spec": {"drivers": []}}),
        "csistoragecapacities" => json!({"storageClassName": "s"}),
        "storageclasses" => json!({"provisioner": "example.test/p"}),
        "volumeattachments" => json!({"spec": {
            "attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "p"},
        }}),
        "volumeattributesclasses" => json!({"driverName": "d", "parameters": {"a": "b"}}),
        "validatingadmissionpolicies" => json!({"spec": {
            "matchConstraints": constraints(), "validations": [{"expression": "true"}],
        }}),
        "mutatingadmissionpolicies" => json!({"spec": {
            "matchConstraints": constraints(),
            "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{}"},
            }],
            "reinvocationPolicy": "Never",
        }}),
        "validatingadmissionpolicybindings" => json!({"spec": {
            "policyName": "missing", "validationActions": ["Deny"],
        }}),
        "mutatingadmissionpolicybindings" => json!({"spec": {"policyName": "missing"}}),
        "customresourcedefinitions" => definition(name),
        "priorityclasses" => json!({"value": 5}),
        "runtimeclasses" => json!({"handler": "h"}),
        "endpointslices" => json!({"addressType": "IPv4", "endpoints": []}),
        "resourceclaims" => json!({"spec": {}}),
        "resourceclaimtemplates" => json!({"spec": {"spec": {}}}),
        "resourceslices" => json!({"spec": {
            "driver": "d.example.test", "allNodes": true, "devices": [],
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        }}),
        "flowschemas" => json!({"spec": {
            "matchingPrecedence": 9000, "priorityLevelConfiguration": {"name": "global-default"},
        }}),
        "prioritylevelconfigurations" => json!({"spec": {
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}},
        }}),
        "widgets" | "gadgets" => json!({"spec": {"color": "red"}}),
        // The other kinds need only a name.
        _ => json!({}),
    }
}

fn pod_spec() -> Value {
    json!({"containers": [{"name": "c", "image": "i"}]})
}

fn pod_template() -> Value {
    json!({"metadata": {"labels": {"app": "a"}}, "spec": pod_spec()})
}

fn workload() -> Value {
    json!({"selector": {"matchLabels": {"app": "a"}}, "template": pod_template()})
}

fn run_once() -> Value {
    let mut spec = pod_spec();
    spec["restartPolicy"] = "Never".into();
    spec
}

fn rule() -> Value {
    json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]})
}

/// A webhook that is never called: it has no rules.
fn webhook_of_nothing() -> Value {
    json!({
        "name": "w.example.test", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://w.example.test/"},
    })
}

/// Match constraints for a resource that is not served.
fn constraints() -> Value {
    json!({"resourceRules": [{
        "apiGroups": ["nobody.example.test"], "apiVersions": ["v1"],
        "operations": ["CREATE"], "resources": ["things"],
    }]})
}

/// A definition of `plural.group` without subresources.
fn definition(name: &str) -> Value {
    let (plural, group) = name.split_once('.').unwrap_or((name, CUSTOM_GROUP));
    let singular = plural.trim_end_matches('s');
    let mut kind = singular.to_owned();
    kind[..1].make_ascii_uppercase();
    json!({"spec": {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": singular, "kind": kind},
        "versions": [{
            "name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "color": {"type": "string"}, "replicas": {"type": "integer"},
                }},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}},
        }],
    }})
}
