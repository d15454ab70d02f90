//! PodSecurity: enforces the Pod Security Standards that the labels of a namespace select.

use crate::admission::namespace_lifecycle::NAMESPACES_PREFIX;
use crate::admission::plugins::{SyncPlugin, forbidden, get_object, list_objects};
use crate::admission::{AdmissionAttributes, AdmissionOperation};
use optik_builtin::pod_security::{
    self, LevelVersion, NamespacePodSecurity, PodSecurityLevel, PodView,
};
use optik_catalog::key_prefix;
use optik_object::{FieldError, Object, Status, quote};

const PODS_PREFIX: &str = key_prefix("", "pods");

pub(super) struct PodSecurity;

/// Subresources of pods that do not affect what runs in the pod.
const UNCHECKED_SUBRESOURCES: &[&str] = &[
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

impl SyncPlugin for PodSecurity {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        if attributes.operation == AdmissionOperation::Delete {
            return false;
        }
        if attributes.is_namespace() {
            return attributes.subresource.is_empty();
        }
        let resource = &attributes.resource.resource;
        pod_security::has_pod_template(&resource.group, &resource.plural)
            && is_evaluated(attributes)
            && has_policy_labels(attributes)
    }

    fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        match attributes.is_namespace() {
            true => check_namespace(attributes, object),
            false => check_pod(attributes, object),
        }
    }
}

fn is_evaluated(attributes: &AdmissionAttributes<'_>) -> bool {
    match attributes.is_resource("", "pods") {
        true => !UNCHECKED_SUBRESOURCES.contains(&attributes.subresource),
        false => attributes.subresource.is_empty(),
    }
}

fn namespace_key(attributes: &AdmissionAttributes<'_>) -> String {
    format!("{NAMESPACES_PREFIX}{}", attributes.namespace)
}

/// Whether the namespace has Pod Security labels; most have none.
fn has_policy_labels(attributes: &AdmissionAttributes<'_>) -> bool {
    let state = attributes.store.snapshot();
    let found = state.get(namespace_key(attributes).as_bytes());
    found.is_some_and(|version| {
        memchr::memmem::find(version.value(), pod_security::LABEL_PREFIX.as_bytes()).is_some()
    })
}

fn policy_of(namespace: &Object) -> (NamespacePodSecurity, Vec<FieldError>) {
    let metadata = namespace.get("metadata");
    pod_security::from_labels(|name| metadata?.get("labels")?.get(name)?.as_str())
}

/// Validates the labels of a namespace; a stricter level warns about existing pods that violate it.
fn check_namespace(attributes: &AdmissionAttributes<'_>, namespace: &Object) -> Result<(), Status> {
    let (policy, errors) = policy_of(namespace);
    let (before, known) = attributes.old.map(policy_of).unwrap_or_default();
    if !errors.is_empty() && errors != known {
        let kind = attributes.resource.error_resource();
        return Err(Status::invalid(kind, attributes.name, &errors));
    }
    let (bar, old) = (policy.enforce, before.enforce);
    let raised = bar.minor != old.minor || bar.level > old.level;
    if attributes.old.is_none() || bar.level == PodSecurityLevel::Privileged || !raised {
        return Ok(());
    }
    let pods = list_objects(
        attributes.store,
        &format!("{PODS_PREFIX}{}/", namespace.name()),
    );
    let warnings = pod_security::warn_existing_pods(&pods, namespace.name(), bar);
    attributes.recorder.warn(warnings);
    Ok(())
}

fn check_pod(attributes: &AdmissionAttributes<'_>, object: &Object) -> Result<(), Status> {
    let Some(namespace) = get_object(attributes.store, &namespace_key(attributes)) else {
        return Ok(());
    };
    let (policy, errors) = policy_of(&namespace);
    if errors.is_empty() && policy.is_privileged() {
        return Ok(());
    }
    let resource = &attributes.resource.resource;
    let inside = |object| PodView::in_object(&resource.group, &resource.plural, object);
    let Some(pod) = inside(object) else {
        return Ok(());
    };
    let is_pod = attributes.is_resource("", "pods");
    let before = attributes.old.filter(|_| is_pod).and_then(inside);
    if before.is_some_and(|before| !pod_security::is_significant(pod, before)) {
        return Ok(());
    }
    if !errors.is_empty() {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let text = format!(
            "Failed to parse policy: {}",
            crate::admission::plugins::aggregate_message(&texts)
        );
        annotate(attributes, "error", text);
    }
    evaluate(attributes, policy, pod, is_pod)
}

/// Evaluates a pod or a pod template. Pods are refused; workloads with pod templates only cause
/// warnings.
fn evaluate(
    attributes: &AdmissionAttributes<'_>,
    policy: NamespacePodSecurity,
    pod: PodView<'_>,
    is_pod: bool,
) -> Result<(), Status> {
    let details = |bar: LevelVersion| {
        let found = pod_security::violations(bar, pod);
        let bar = quote(&bar.to_string());
        (!found.is_empty()).then(|| format!("violate PodSecurity {bar}: {}", found.details()))
    };
    if let Some(told) = details(policy.audit) {
        annotate(attributes, "audit-violations", format!("would {told}"));
    }
    if is_pod {
        annotate(attributes, "enforce-policy", policy.enforce.to_string());
        if let Some(told) = details(policy.enforce) {
            let told = told.replacen("violate", "violates", 1);
            return Err(forbidden(attributes, &told));
        }
    }
    let told = details(policy.warn).map(|told| format!("would {told}"));
    attributes.recorder.warn(told);
    Ok(())
}

fn annotate(attributes: &AdmissionAttributes<'_>, key: &str, text: String) {
    let key = format!("{}{key}", pod_security::LABEL_PREFIX);
    attributes.recorder.annotate(key, text);
}
