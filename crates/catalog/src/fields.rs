//! What field selectors can ask about.

use crate::resource::Text;
use optik_object::Value;
use optik_object::selector::UnknownField;
use std::borrow::Cow;

/// The selectable fields of a kind, besides `metadata.name`.
#[derive(Clone, Debug)]
pub struct Fields {
    pub rules: Cow<'static, [FieldRule]>,
    /// `metadata.namespace` can be selected.
    pub namespace: bool,
    /// How an unknown field is refused.
    pub unknown: UnknownField,
}

/// One selectable field.
#[derive(Clone, Debug)]
pub struct FieldRule {
    /// As the selector spells it.
    pub label: Text,
    pub paths: Paths,
    pub shape: Shape,
}

/// Where the value is.
#[derive(Clone, Debug)]
pub enum Paths {
    /// The second is tried if the first has none.
    Static(&'static [&'static [&'static str]]),
    One(Vec<Text>),
}

impl Paths {
    fn find<'v>(&self, object: &'v Value) -> Option<&'v Value> {
        let said = |value: &&Value| !value.is_null() && value.as_str() != Some("");
        match self {
            Self::Static(paths) => paths.iter().find_map(|path| {
                let value = path.iter().try_fold(object, |at, name| at.get(name))?;
                Some(value).filter(said)
            }),
            Self::One(path) => {
                let value = path.iter().try_fold(object, |at, name| at.get(&**name))?;
                Some(value).filter(said)
            }
        }
    }
}

/// What the value is made into; an absent one becomes the default.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Text(&'static str),
    Bool,
    Number,
    /// Whatever it is, as it is printed.
    Any,
    /// Known by name, but always empty.
    Never,
}

impl FieldRule {
    /// The value to compare with.
    #[must_use]
    pub fn value(&self, object: &Value) -> String {
        let found = self.paths.find(object);
        match (self.shape, found) {
            (Shape::Text(_), Some(Value::String(text))) => text.clone(),
            (Shape::Text(default), _) => default.into(),
            (Shape::Bool, found) => found.and_then(Value::as_bool).unwrap_or(false).to_string(),
            (Shape::Number, found) => found.and_then(Value::as_i64).unwrap_or(0).to_string(),
            (Shape::Any, Some(Value::String(text))) => text.clone(),
            (Shape::Any, Some(other)) => other.to_string(),
            (Shape::Any, None) | (Shape::Never, _) => String::new(),
        }
    }
}

impl Fields {
    #[must_use]
    pub fn rule(&self, label: &str) -> Option<&FieldRule> {
        self.rules.iter().find(|rule| rule.label == label)
    }
}

const fn text(label: &'static str, paths: &'static [&'static [&'static str]]) -> FieldRule {
    field(label, paths, Shape::Text(""))
}

const fn field(
    label: &'static str,
    paths: &'static [&'static [&'static str]],
    shape: Shape,
) -> FieldRule {
    FieldRule {
        label: Cow::Borrowed(label),
        paths: Paths::Static(paths),
        shape,
    }
}

const POD: &[FieldRule] = &[
    text("spec.nodeName", &[&["spec", "nodeName"]]),
    text("spec.host", &[&["spec", "nodeName"]]),
    field(
        "spec.restartPolicy",
        &[&["spec", "restartPolicy"]],
        Shape::Text("Always"),
    ),
    field(
        "spec.schedulerName",
        &[&["spec", "schedulerName"]],
        Shape::Text("default-scheduler"),
    ),
    text(
        "spec.serviceAccountName",
        &[&["spec", "serviceAccountName"]],
    ),
    field("spec.hostNetwork", &[&["spec", "hostNetwork"]], Shape::Bool),
    text("status.phase", &[&["status", "phase"]]),
    text("status.podIP", &[&["status", "podIP"]]),
    field("status.podIPs", &[], Shape::Never),
    text(
        "status.nominatedNodeName",
        &[&["status", "nominatedNodeName"]],
    ),
];

const EVENT_CORE: &[FieldRule] = &[
    text("involvedObject.kind", &[&["involvedObject", "kind"]]),
    text(
        "involvedObject.namespace",
        &[&["involvedObject", "namespace"]],
    ),
    text("involvedObject.name", &[&["involvedObject", "name"]]),
    text("involvedObject.uid", &[&["involvedObject", "uid"]]),
    text(
        "involvedObject.apiVersion",
        &[&["involvedObject", "apiVersion"]],
    ),
    text(
        "involvedObject.resourceVersion",
        &[&["involvedObject", "resourceVersion"]],
    ),
    text(
        "involvedObject.fieldPath",
        &[&["involvedObject", "fieldPath"]],
    ),
    text("reason", &[&["reason"]]),
    text("reportingComponent", &[&["reportingComponent"]]),
    text(
        "source",
        &[&["source", "component"], &["reportingComponent"]],
    ),
    text("type", &[&["type"]]),
];

// Events are kept in their core form, so both names read the same member.
const EVENT_GROUP: &[FieldRule] = &[
    text("regarding.kind", &[&["involvedObject", "kind"]]),
    text("regarding.namespace", &[&["involvedObject", "namespace"]]),
    text("regarding.name", &[&["involvedObject", "name"]]),
    text("regarding.uid", &[&["involvedObject", "uid"]]),
    text("regarding.apiVersion", &[&["involvedObject", "apiVersion"]]),
    text(
        "regarding.resourceVersion",
        &[&["involvedObject", "resourceVersion"]],
    ),
    text("regarding.fieldPath", &[&["involvedObject", "fieldPath"]]),
    text("reason", &[&["reason"]]),
    text("reportingController", &[&["reportingComponent"]]),
    text("type", &[&["type"]]),
];

const NODE: &[FieldRule] = &[field(
    "spec.unschedulable",
    &[&["spec", "unschedulable"]],
    Shape::Bool,
)];
const NAMESPACE: &[FieldRule] = &[text("status.phase", &[&["status", "phase"]])];
const SECRET: &[FieldRule] = &[field("type", &[&["type"]], Shape::Text("Opaque"))];
const SERVICE: &[FieldRule] = &[
    text("spec.clusterIP", &[&["spec", "clusterIP"]]),
    field("spec.type", &[&["spec", "type"]], Shape::Text("ClusterIP")),
];
const REPLICATION_CONTROLLER: &[FieldRule] = &[field(
    "status.replicas",
    &[&["status", "replicas"]],
    Shape::Number,
)];
const JOB: &[FieldRule] = &[field(
    "status.successful",
    &[&["status", "succeeded"]],
    Shape::Number,
)];
const SIGNER: &[FieldRule] = &[text("spec.signerName", &[&["spec", "signerName"]])];
const POD_CERTIFICATE: &[FieldRule] = &[
    text("spec.signerName", &[&["spec", "signerName"]]),
    text("spec.podName", &[&["spec", "podName"]]),
    text("spec.nodeName", &[&["spec", "nodeName"]]),
];
const RESOURCE_SLICE: &[FieldRule] = &[
    text("spec.nodeName", &[&["spec", "nodeName"]]),
    text("spec.driver", &[&["spec", "driver"]]),
];

/// What can be selected of a built-in kind.
#[must_use]
pub fn selectable(group: &str, plural: &str) -> Fields {
    let (rules, namespace) = match (group, plural) {
        ("", "pods") => (POD, true),
        ("", "events") => (EVENT_CORE, true),
        ("events.k8s.io", "events") => (EVENT_GROUP, true),
        ("", "nodes") => (NODE, false),
        ("", "namespaces") => (NAMESPACE, false),
        ("", "secrets") => (SECRET, true),
        ("", "services") => (SERVICE, true),
        ("", "replicationcontrollers") => (REPLICATION_CONTROLLER, true),
        ("batch", "jobs") => (JOB, true),
        ("certificates.k8s.io", "certificatesigningrequests" | "clustertrustbundles") => {
            (SIGNER, false)
        }
        ("certificates.k8s.io", "podcertificaterequests") => (POD_CERTIFICATE, false),
        ("resource.k8s.io", "resourceslices") => (RESOURCE_SLICE, false),
        _ => (&[] as &[FieldRule], true),
    };
    let unknown = match plural {
        "jobs" => UnknownField::OfKind("Job"),
        "resourceslices" => UnknownField::OfFullKind("resource.k8s.io/v1, Kind=ResourceSlice"),
        _ if rules.is_empty() => UnknownField::OfNameOnly,
        _ => UnknownField::OfOwnFields,
    };
    Fields {
        rules: Cow::Borrowed(rules),
        namespace,
        unknown,
    }
}
