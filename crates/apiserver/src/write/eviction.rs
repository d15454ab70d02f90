//! Taking a pod away, if its budget allows that.

use super::delete::delete;
use super::{DeleteOptions, Outcome, Patience, Writing};
use crate::kinds::parse_stored;
use crate::trouble::damaged;
use bytes::Bytes;
use optik_builtin::selects;
use optik_object::{Object, Status, Value};
use optik_store::{KeyRange, Version};
use serde_json::json;
use std::sync::Arc;

const BUDGETS: &str = "/registry/poddisruptionbudgets/";

/// `POST` to `eviction`.
pub(crate) async fn evict(
    writing: &Writing<'_>,
    name: &str,
    eviction: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    if eviction.name() != name {
        let text = "name in URL does not match name in Eviction object";
        return Err(Status::bad_request(text));
    }
    let key = writing.key(name);
    let latest = writing.latest().await?;
    let current = latest.get(key.as_bytes());
    let current = current.ok_or_else(|| Status::not_found(writing.kind.resource.name(), name))?;
    let pod = parse_stored(current.value()).map_err(|error| damaged(&key, error))?;
    if counts(&pod) {
        charge(writing, &pod, options).await?;
    }
    delete(writing, name, options).await.map(drop)
}

fn status<'a>(object: &'a Object, member: &str) -> &'a Value {
    object
        .get("status")
        .map_or(&Value::Null, |status| &status[member])
}

/// Whether a pod is one that budgets protect: it lives, and is on its way to run.
fn counts(pod: &Object) -> bool {
    let phase = status(pod, "phase").as_str().unwrap_or_default();
    !pod.is_being_deleted() && !["Succeeded", "Failed", "Pending"].contains(&phase)
}

fn is_ready(pod: &Object) -> bool {
    let conditions = status(pod, "conditions").as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Takes one disruption from the budget of a pod.
async fn charge(
    writing: &Writing<'_>,
    pod: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let patience = Patience::begin();
    loop {
        let latest = writing.latest().await?;
        let range = KeyRange::prefix(format!("{BUDGETS}{}/", pod.namespace()));
        let mut own: Vec<(Arc<Version>, Object)> = Vec::new();
        for version in latest.entries(&range) {
            if let Ok(budget) = parse_stored(version.value())
                && protects(&budget, pod)
            {
                own.push((Arc::clone(version), budget));
            }
        }
        let Some((version, mut budget)) = own.pop() else {
            return Ok(());
        };
        if !own.is_empty() {
            return Err(Status::storage_failure(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                 does not support.",
            ));
        }
        if !is_ready(pod) && lets_unready_go(&budget) {
            return Ok(());
        }
        take(&mut budget, pod.name(), &writing.now().to_string())?;
        if options.dry_run {
            return Ok(());
        }
        let bytes = Bytes::from(writing.encode(&budget)?);
        let key = String::from_utf8_lossy(version.key()).into_owned();
        let put = writing.put(&key, version.mod_revision(), &bytes);
        if let Outcome::At(_) = put.await? {
            return Ok(());
        }
        patience.check()?;
    }
}

fn protects(budget: &Object, pod: &Object) -> bool {
    let spec = budget.get("spec").unwrap_or(&Value::Null);
    let labels = pod.metadata().and_then(|metadata| metadata.get("labels"));
    spec["selector"].is_object() && selects(&spec["selector"], labels.unwrap_or(&Value::Null))
}

fn number(budget: &Object, member: &str) -> i64 {
    status(budget, member).as_i64().unwrap_or(0)
}

fn lets_unready_go(budget: &Object) -> bool {
    let spec = budget.get("spec").unwrap_or(&Value::Null);
    let (healthy, wanted) = (
        number(budget, "currentHealthy"),
        number(budget, "desiredHealthy"),
    );
    spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || (healthy >= wanted && wanted > 0)
}

fn take(budget: &mut Object, pod: &str, now: &str) -> Result<(), Status> {
    let name = budget.name().to_owned();
    if number(budget, "observedGeneration") < budget.generation() {
        return Err(Status::disruption_refused(format!(
            "The disruption budget {name} is still being processed by the server."
        )));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed <= 0 {
        let (wanted, healthy) = (
            number(budget, "desiredHealthy"),
            number(budget, "currentHealthy"),
        );
        return Err(Status::disruption_refused(format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        )));
    }
    let status = budget.members_mut().entry("status").or_insert(json!({}));
    status["disruptionsAllowed"] = (allowed - 1).into();
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = now.into();
    Ok(())
}
