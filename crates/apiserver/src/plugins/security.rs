//! PodSecurity: what pods may do is said by the labels of their namespace.

use super::{Plugin, all, find, refuse};
use crate::admission::{Attributes, Operation};
use optik_builtin::security::{self, Bar, Level, Pod, Policy};
use optik_object::{FieldError, Object, Status, quote};

pub(super) struct Security;

/// Subresources of pods that say nothing about what runs.
const HARMLESS: &[&str] = &[
    "exec",
    "attach",
    "binding",
    "eviction",
    "log",
    "portforward",
    "proxy",
    "status",
];

impl Plugin for Security {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        if attributes.operation == Operation::Delete {
            return false;
        }
        if attributes.is_namespace() {
            return attributes.subresource.is_empty();
        }
        let resource = &attributes.kind.resource;
        security::has_pod(&resource.group, &resource.plural)
            && is_looked_at(attributes)
            && has_a_bar(attributes)
    }

    fn check(&self, attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
        match attributes.is_namespace() {
            true => check_namespace(attributes, object),
            false => check_pod(attributes, object),
        }
    }
}

fn is_looked_at(attributes: &Attributes<'_>) -> bool {
    match attributes.is("", "pods") {
        true => !HARMLESS.contains(&attributes.subresource),
        false => attributes.subresource.is_empty(),
    }
}

fn key(attributes: &Attributes<'_>) -> String {
    format!("/registry/namespaces/{}", attributes.namespace)
}

/// Whether the namespace has such labels at all. Hardly one has.
fn has_a_bar(attributes: &Attributes<'_>) -> bool {
    let state = attributes.store.snapshot();
    let found = state.get(key(attributes).as_bytes());
    found.is_some_and(|version| {
        memchr::memmem::find(version.value(), security::PREFIX.as_bytes()).is_some()
    })
}

fn policy_of(namespace: &Object) -> (Policy, Vec<FieldError>) {
    let metadata = namespace.get("metadata");
    security::policy_of(|name| metadata?.get("labels")?.get(name)?.as_str())
}

/// The labels of a namespace must make sense; who raises the bar is told who is below.
fn check_namespace(attributes: &Attributes<'_>, namespace: &Object) -> Result<(), Status> {
    let (policy, errors) = policy_of(namespace);
    let (before, known) = attributes.old.map(policy_of).unwrap_or_default();
    if !errors.is_empty() && errors != known {
        let kind = attributes.kind.blamed();
        return Err(Status::invalid(kind, attributes.name, &errors));
    }
    let (bar, old) = (policy.enforce, before.enforce);
    let raised = bar.minor != old.minor || bar.level > old.level;
    if attributes.old.is_none() || bar.level == Level::Privileged || !raised {
        return Ok(());
    }
    let pods = all(
        attributes.store,
        &format!("/registry/pods/{}/", namespace.name()),
    );
    let warnings = security::warnings_about(&pods, namespace.name(), bar);
    attributes.told.warn(warnings);
    Ok(())
}

fn check_pod(attributes: &Attributes<'_>, object: &Object) -> Result<(), Status> {
    let Some(namespace) = find(attributes.store, &key(attributes)) else {
        return Ok(());
    };
    let (policy, errors) = policy_of(&namespace);
    if errors.is_empty() && policy.is_privileged() {
        return Ok(());
    }
    let resource = &attributes.kind.resource;
    let inside = |object| Pod::in_object(&resource.group, &resource.plural, object);
    let Some(pod) = inside(object) else {
        return Ok(());
    };
    let is_pod = attributes.is("", "pods");
    let before = attributes.old.filter(|_| is_pod).and_then(inside);
    if before.is_some_and(|before| !security::is_significant(pod, before)) {
        return Ok(());
    }
    if !errors.is_empty() {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let text = format!("Failed to parse policy: {}", super::together(&texts));
        annotate(attributes, "error", text);
    }
    judge(attributes, policy, pod, is_pod)
}

/// Pods are refused; what makes pods is only warned about.
fn judge(
    attributes: &Attributes<'_>,
    policy: Policy,
    pod: Pod<'_>,
    is_pod: bool,
) -> Result<(), Status> {
    let details = |bar: Bar| {
        let found = security::violations(bar, pod);
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
            return Err(refuse(attributes, &told));
        }
    }
    let told = details(policy.warn).map(|told| format!("would {told}"));
    attributes.told.warn(told);
    Ok(())
}

fn annotate(attributes: &Attributes<'_>, key: &str, text: String) {
    let key = format!("{}{key}", security::PREFIX);
    attributes.told.annotate(key, text);
}
