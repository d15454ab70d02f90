//! The field selectors that each kind supports.

use crate::resource::Text;
use optik_object::Value;
use optik_object::selector::UnsupportedFieldLabel;
use std::borrow::Cow;

/// The selectable fields of a kind, besides `metadata.name`.
#[derive(Clone, Debug)]
pub struct SelectableFields {
    pub rules: Cow<'static, [SelectableField]>,
    /// `metadata.namespace` is selectable.
    pub namespace: bool,
    /// The error for an unsupported field label.
    pub unknown: UnsupportedFieldLabel,
}

/// One selectable field.
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// The label as the selector spells it.
    pub label: Text,
    pub paths: FieldPaths,
    pub shape: FieldValueKind,
}

/// The path of the field in the object.
#[derive(Clone, Debug)]
pub enum FieldPaths {
    /// Alternative paths; the second is used if the first has no value.
    Static(&'static [&'static [&'static str]]),
    One(Vec<Text>),
}

impl FieldPaths {
    fn lookup<'v>(&self, object: &'v Value) -> Option<&'v Value> {
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

/// The conversion of a value to a string; an absent value becomes the default.
#[derive(Clone, Copy, Debug)]
pub enum FieldValueKind {
    Text(&'static str),
    Bool,
    Number,
    /// Any scalar, as it is printed.
    Any,
    /// A supported label whose value is always empty.
    Never,
}

impl SelectableField {
    /// Returns the value that the selector is compared with.
    #[must_use]
    pub fn value(&self, object: &Value) -> String {
        let found = self.paths.lookup(object);
        match (self.shape, found) {
            (FieldValueKind::Text(_), Some(Value::String(text))) => text.clone(),
            (FieldValueKind::Text(default), _) => default.into(),
            (FieldValueKind::Bool, found) => {
                found.and_then(Value::as_bool).unwrap_or(false).to_string()
            }
            (FieldValueKind::Number, found) => {
                found.and_then(Value::as_i64).unwrap_or(0).to_string()
            }
            (FieldValueKind::Any, Some(Value::String(text))) => text.clone(),
            (FieldValueKind::Any, Some(other)) => other.to_string(),
            (FieldValueKind::Any, None) | (FieldValueKind::Never, _) => String::new(),
        }
    }
}

impl SelectableFields {
    #[must_use]
    pub fn rule(&self, label: &str) -> Option<&SelectableField> {
        self.rules.iter().find(|rule| rule.label == label)
    }
}

const fn text(label: &'static str, paths: &'static [&'static [&'static str]]) -> SelectableField {
    field(label, paths, FieldValueKind::Text(""))
}

const fn field(
    label: &'static str,
    paths: &'static [&'static [&'static str]],
    shape: FieldValueKind,
) -> SelectableField {
    SelectableField {
        label: Cow::Borrowed(label),
        paths: FieldPaths::Static(paths),
        shape,
    }
}

const POD: &[SelectableField] = &[
    text("spec.nodeName", &[&["spec", "nodeName"]]),
    text("spec.host", &[&["spec", "nodeName"]]),
    field(
        "spec.restartPolicy",
        &[&["spec", "restartPolicy"]],
        FieldValueKind::Text("Always"),
    ),
    field(
        "spec.schedulerName",
        &[&["spec", "schedulerName"]],
        FieldValueKind::Text("default-scheduler"),
    ),
    text(
        "spec.serviceAccountName",
        &[&["spec", "serviceAccountName"]],
    ),
    field(
        "spec.hostNetwork",
        &[&["spec", "hostNetwork"]],
        FieldValueKind::Bool,
    ),
    text("status.phase", &[&["status", "phase"]]),
    text("status.podIP", &[&["status", "podIP"]]),
    field("status.podIPs", &[], FieldValueKind::Never),
    text(
        "status.nominatedNodeName",
        &[&["status", "nominatedNodeName"]],
    ),
];

const EVENT_CORE: &[SelectableField] = &[
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

// Events are stored in their core form, so both names read the same field.
const EVENT_GROUP: &[SelectableField] = &[
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

const NODE: &[SelectableField] = &[field(
    "spec.unschedulable",
    &[&["spec", "unschedulable"]],
    FieldValueKind::Bool,
)];
const NAMESPACE: &[SelectableField] = &[text("status.phase", &[&["status", "phase"]])];
const SECRET: &[SelectableField] = &[field("type", &[&["type"]], FieldValueKind::Text("Opaque"))];
const SERVICE: &[SelectableField] = &[
    text("spec.clusterIP", &[&["spec", "clusterIP"]]),
    field(
        "spec.type",
        &[&["spec", "type"]],
        FieldValueKind::Text("ClusterIP"),
    ),
];
const REPLICATION_CONTROLLER: &[SelectableField] = &[field(
    "status.replicas",
    &[&["status", "replicas"]],
    FieldValueKind::Number,
)];
const JOB: &[SelectableField] = &[field(
    "status.successful",
    &[&["status", "succeeded"]],
    FieldValueKind::Number,
)];
const SIGNER: &[SelectableField] = &[text("spec.signerName", &[&["spec", "signerName"]])];
const POD_CERTIFICATE: &[SelectableField] = &[
    text("spec.signerName", &[&["spec", "signerName"]]),
    text("spec.podName", &[&["spec", "podName"]]),
    text("spec.nodeName", &[&["spec", "nodeName"]]),
];
const RESOURCE_SLICE: &[SelectableField] = &[
    text("spec.nodeName", &[&["spec", "nodeName"]]),
    text("spec.driver", &[&["spec", "driver"]]),
];

/// Returns the selectable fields of a built-in kind.
#[must_use]
pub fn selectable_fields(group: &str, plural: &str) -> SelectableFields {
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
        _ => (&[] as &[SelectableField], true),
    };
    let unknown = match plural {
        "jobs" => UnsupportedFieldLabel::OfKind("Job"),
        "resourceslices" => {
            UnsupportedFieldLabel::OfFullKind("resource.k8s.io/v1, Kind=ResourceSlice")
        }
        _ if rules.is_empty() => UnsupportedFieldLabel::OfNameOnly,
        _ => UnsupportedFieldLabel::OfOwnFields,
    };
    SelectableFields {
        rules: Cow::Borrowed(rules),
        namespace,
        unknown,
    }
}
