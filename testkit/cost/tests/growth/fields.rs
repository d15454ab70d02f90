//! Cost cases of built-in kinds, with many items in each of their lists and maps.

use crate::case::{CostCase, post};
use optik_catalog::Scope;
use optik_schema::{Scalar, TypeNode, TypeRef, builtin_type};
use serde_json::{Map, Value, json};

/// Kinds with fields of their own; pod templates are covered by Pods.
const KINDS: &[(&str, &str, &str, &str)] = &[
    ("", "v1", "Pod", "pods"),
    ("", "v1", "Service", "services"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "Node", "nodes"),
    ("", "v1", "Namespace", "namespaces"),
    ("", "v1", "Endpoints", "endpoints"),
    ("", "v1", "ServiceAccount", "serviceaccounts"),
    ("", "v1", "PersistentVolume", "persistentvolumes"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    ("", "v1", "ResourceQuota", "resourcequotas"),
    ("", "v1", "LimitRange", "limitranges"),
    ("apps", "v1", "Deployment", "deployments"),
    ("apps", "v1", "StatefulSet", "statefulsets"),
    ("batch", "v1", "Job", "jobs"),
    (
        "autoscaling",
        "v2",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
    ),
    (
        "policy",
        "v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
    ),
    ("networking.k8s.io", "v1", "Ingress", "ingresses"),
    (
        "networking.k8s.io",
        "v1",
        "NetworkPolicy",
        "networkpolicies",
    ),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses"),
    ("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
    ("resource.k8s.io", "v1", "ResourceSlice", "resourceslices"),
    ("resource.k8s.io", "v1", "DeviceClass", "deviceclasses"),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRole",
        "clusterroles",
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
    ),
    (
        "certificates.k8s.io",
        "v1",
        "CertificateSigningRequest",
        "certificatesigningrequests",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "FlowSchema",
        "flowschemas",
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        "v1",
        "PriorityLevelConfiguration",
        "prioritylevelconfigurations",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
    ),
    (
        "authorization.k8s.io",
        "v1",
        "SubjectAccessReview",
        "subjectaccessreviews",
    ),
    (
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
    ),
];

const ITEMS: usize = 500;
/// Deeper fields are like others.
const DEPTH_MAX: usize = 9;

pub(crate) fn cases() -> Vec<CostCase> {
    KINDS.iter().flat_map(|kind| of_kind(*kind)).collect()
}

fn of_kind(
    (group, version, kind, plural): (&'static str, &'static str, &'static str, &'static str),
) -> Vec<CostCase> {
    let root = builtin_type(group, version, kind).unwrap_or_else(|| panic!("no schema of {kind}"));
    let mut paths = Vec::new();
    // What is in a template is in pods, too.
    let skips = |name: &str| kind != "Pod" && name == "template";
    walk(root, &mut Vec::new(), &mut Vec::new(), &skips, &mut paths);
    let resources = optik_catalog::builtin();
    let resource = resources
        .iter()
        .find(|it| *it.group == *group && *it.plural == *plural && *it.version == *version)
        .unwrap_or_else(|| panic!("no {plural}"));
    let namespaced = resource.scope == Scope::Namespaced;
    let place = match group {
        "" => format!("/api/{version}"),
        _ => format!("/apis/{group}/{version}"),
    };
    let place = match namespaced {
        true => format!("{place}/namespaces/default/{plural}"),
        false => format!("{place}/{plural}"),
    };
    let api_version = match group {
        "" => version.to_owned(),
        _ => format!("{group}/{version}"),
    };
    let mut cases = Vec::new();
    for path in paths {
        for differ in [true, false] {
            let (path, place) = (path.clone(), format!("{place}?dryRun=All"));
            let api_version = api_version.clone();
            let name = format!(
                "{kind} {} {}",
                path.join("."),
                if differ { "differ" } else { "alike" }
            );
            cases.push(CostCase::new(name, ITEMS, move |count| {
                let mut body =
                    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}});
                fill(root, &path, &mut body, count, differ);
                post(&place, &body)
            }));
        }
    }
    cases
}

/// Every path that leads to a list or a map. A type is entered once, from wherever.
fn walk(
    of: TypeRef<'static>,
    path: &mut Vec<String>,
    entered: &mut Vec<String>,
    skips: &dyn Fn(&str) -> bool,
    paths: &mut Vec<Vec<String>>,
) {
    if path.len() > DEPTH_MAX {
        return;
    }
    match of.node() {
        TypeNode::Struct(it) => {
            let name = it.name.to_string();
            if !name.is_empty() && entered.contains(&name) {
                return;
            }
            entered.push(name);
            for field in it.fields().iter().filter(|field| !skips(&field.name)) {
                path.push(field.name.to_string());
                walk(of.at(field.of), path, entered, skips, paths);
                path.pop();
            }
        }
        TypeNode::List(list) => {
            paths.push(path.clone());
            walk(of.at(list.of), path, entered, skips, paths);
        }
        TypeNode::Map(_) => paths.push(path.clone()),
        TypeNode::Scalar(_) | TypeNode::Untyped(_) => {}
    }
}

/// Makes what the path leads through, and many items at its end.
fn fill(of: TypeRef<'_>, path: &[String], value: &mut Value, count: usize, differ: bool) {
    match of.node() {
        TypeNode::Struct(_) => {
            let Some((name, rest)) = path.split_first() else {
                return;
            };
            let field = of.field(name).unwrap();
            if !value.is_object() {
                *value = json!({});
            }
            fill(
                of.at(field.of),
                rest,
                &mut value[name.as_str()],
                count,
                differ,
            );
        }
        TypeNode::List(list) if path.is_empty() => {
            let items = (0..count).map(|at| item(of.at(list.of), at, differ));
            *value = items.collect();
        }
        TypeNode::List(list) => {
            let mut only = item(of.at(list.of), 0, false);
            fill(of.at(list.of), path, &mut only, count, differ);
            *value = json!([only]);
        }
        TypeNode::Map(map) => {
            let members =
                (0..count).map(|at| (format!("k{at}"), item(of.at(map.value), at, differ)));
            *value = Value::Object(members.collect::<Map<_, _>>());
        }
        TypeNode::Scalar(_) | TypeNode::Untyped(_) => {}
    }
}

/// One item, of which the text members are all alike or all different.
fn item(of: TypeRef<'_>, at: usize, differ: bool) -> Value {
    let number = if differ { at } else { 0 };
    match of.node() {
        TypeNode::Scalar(scalar) => scalar_value(*scalar, number),
        TypeNode::Struct(it) => {
            let fields = it
                .fields()
                .iter()
                .filter_map(|field| match of.at(field.of).node() {
                    TypeNode::Scalar(scalar) => {
                        Some((field.name.to_string(), scalar_value(*scalar, number)))
                    }
                    _ => None,
                });
            Value::Object(fields.take(3).collect::<Map<_, _>>())
        }
        TypeNode::List(_) => json!([]),
        TypeNode::Map(_) | TypeNode::Untyped(_) => json!({}),
    }
}

fn scalar_value(scalar: Scalar, number: usize) -> Value {
    match scalar {
        Scalar::String => format!("x{number}").into(),
        Scalar::Int32 | Scalar::Int64 | Scalar::Number | Scalar::IntOrString => {
            (number % 400 + 1).into()
        }
        Scalar::Boolean => true.into(),
        Scalar::Quantity => format!("{}", number + 1).into(),
        Scalar::DateTime => "2026-01-01T00:00:00Z".into(),
        Scalar::Bytes => "YQ==".into(),
    }
}
