//! The `eviction` subresource of pods: deletes a pod if its PodDisruptionBudget allows that.

use crate::handlers::write::delete::delete;
use crate::handlers::write::write_admission::{self, AdmissionTarget};
use crate::handlers::write::{CommitOutcome, DeleteOptions, RetryDeadline, WriteContext};
use crate::registry::served_resource::{ServedResource, parse_stored};
use crate::server::store_errors::damaged_object;
use bytes::Bytes;
use optik_builtin::selector_matches;
use optik_catalog::key_prefix;
use optik_object::{FieldError, Object, ResourceName, Status, Value};
use optik_store::{KeyRange, Version};
use serde_json::json;
use std::sync::{Arc, OnceLock};

const BUDGETS_DIRECTORY: &str = key_prefix("policy", "poddisruptionbudgets");
/// How many entries `status.disruptedPods` of a budget may have.
const DISRUPTED_PODS_MAX: usize = 2000;
/// The resource that errors about a budget name.
const BUDGET_RESOURCE: ResourceName<'static> = ResourceName {
    group: "policy",
    plural: "poddisruptionbudget",
    kind: "PodDisruptionBudget",
};

fn eviction_kind() -> &'static Arc<ServedResource> {
    static KIND: OnceLock<Arc<ServedResource>> = OnceLock::new();
    KIND.get_or_init(|| Arc::new(ServedResource::new(optik_catalog::eviction(), None)))
}

/// `POST` to `eviction`. Admission sees the eviction, not the deletion that follows from it;
/// upstream does the same.
pub(crate) async fn evict(
    writing: &WriteContext<'_>,
    name: &str,
    mut eviction: Object,
) -> Result<(), Status> {
    let namespace = writing.namespace.unwrap_or_default();
    match eviction.namespace() {
        "" => eviction.set_namespace(namespace),
        other if other != namespace => return Err(Status::namespace_mismatch()),
        _ => {}
    }
    let subject = AdmissionTarget {
        subresource: "eviction",
        object_kind: eviction_kind(),
        ..AdmissionTarget::for_create(writing, name)
    };
    write_admission::mutate(writing, subject, None, &mut eviction).await?;
    let options = delete_options(writing, name, &eviction)?;
    write_admission::validate(writing, subject, None, &mut eviction).await?;
    delete_pod(&writing.without_admission(), name, &options).await
}

/// The delete options of an eviction.
fn delete_options(
    writing: &WriteContext<'_>,
    name: &str,
    eviction: &Object,
) -> Result<DeleteOptions, Status> {
    if eviction.name() != name {
        let text = "name in URL does not match name in Eviction object";
        return Err(Status::bad_request(text));
    }
    let given = eviction.get("deleteOptions");
    let ignoring = "ignoreStoreReadErrorWithClusterBreakingPotential";
    if given.is_some_and(|given| given[ignoring] == true) {
        let text = "can not be set for pod eviction, try after removing the option";
        let error = FieldError::invalid(format!("deleteOptions.{ignoring}"), true, text);
        let kind = eviction_kind().resource.name();
        return Err(Status::invalid(kind, name, &[error]));
    }
    DeleteOptions::from_value(given, writing.options.dry_run)
}

async fn delete_pod(
    writing: &WriteContext<'_>,
    name: &str,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let key = writing.key(name);
    let latest = writing.latest().await?;
    let current = latest.get(key.as_bytes());
    let current = current.ok_or_else(|| Status::not_found(writing.kind.resource.name(), name))?;
    let pod = parse_stored(current.value()).map_err(|error| damaged_object(&key, error))?;
    if is_protected_phase(&pod) {
        take_disruption(writing, &pod, options).await?;
    }
    delete(writing, name, options).await.map(drop)
}

fn status<'a>(object: &'a Object, member: &str) -> &'a Value {
    object
        .get("status")
        .map_or(&Value::Null, |status| &status[member])
}

/// Whether budgets protect a pod in its phase.
fn is_protected_phase(pod: &Object) -> bool {
    let phase = status(pod, "phase").as_str().unwrap_or_default();
    !pod.is_being_deleted() && !["Succeeded", "Failed", "Pending"].contains(&phase)
}

fn is_ready(pod: &Object) -> bool {
    let conditions = status(pod, "conditions").as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// Takes one disruption from the budget of a pod.
async fn take_disruption(
    writing: &WriteContext<'_>,
    pod: &Object,
    options: &DeleteOptions,
) -> Result<(), Status> {
    let patience = RetryDeadline::start();
    loop {
        let latest = writing.latest().await?;
        let range = KeyRange::prefix(format!("{BUDGETS_DIRECTORY}{}/", pod.namespace()));
        let mut own: Vec<(Arc<Version>, Object)> = Vec::new();
        for version in latest.entries(&range) {
            if let Ok(budget) = parse_stored(version.value())
                && budget_selects(&budget, pod)
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
        if !is_ready(pod) && allows_unready_eviction(&budget) {
            return Ok(());
        }
        record_disruption(&mut budget, pod.name(), &writing.now().to_string())?;
        if options.dry_run {
            return Ok(());
        }
        let bytes = Bytes::from(writing.encode(&budget)?);
        let key = String::from_utf8_lossy(version.key()).into_owned();
        let put = writing.put(&key, version.mod_revision(), &bytes);
        if let CommitOutcome::Committed(_) = put.await? {
            return Ok(());
        }
        patience.check()?;
    }
}

fn budget_selects(budget: &Object, pod: &Object) -> bool {
    let spec = budget.get("spec").unwrap_or(&Value::Null);
    let labels = pod.metadata().and_then(|metadata| metadata.get("labels"));
    spec["selector"].is_object()
        && selector_matches(&spec["selector"], labels.unwrap_or(&Value::Null))
}

fn number(budget: &Object, member: &str) -> i64 {
    status(budget, member).as_i64().unwrap_or(0)
}

/// The message for a budget that allows no disruption, with the reason from its conditions.
fn budget_exhausted_message(budget: &Object) -> String {
    let name = budget.name();
    let conditions = status(budget, "conditions").as_array();
    let mut conditions = conditions.into_iter().flatten();
    let told = conditions.find(|one| one["type"] == "DisruptionAllowed");
    let told = told.filter(|one| one["status"] == "False").and_then(|one| {
        let text = |member: &str| one[member].as_str().unwrap_or_default();
        Some((text("reason"), text("message"))).filter(|(_, message)| !message.is_empty())
    });
    let (wanted, healthy) = (
        number(budget, "desiredHealthy"),
        number(budget, "currentHealthy"),
    );
    let refused = format!("The disruption budget {name} does not allow evicting pods currently");
    match told {
        Some(("SyncFailed", message)) => format!("{refused} because it failed sync: {message}"),
        _ if healthy <= wanted => format!(
            "The disruption budget {name} needs {wanted} healthy pods and has {healthy} currently"
        ),
        Some((reason, message)) => format!("{refused} ({reason}): {message}"),
        None => refused,
    }
}

fn allows_unready_eviction(budget: &Object) -> bool {
    let spec = budget.get("spec").unwrap_or(&Value::Null);
    let (healthy, wanted) = (
        number(budget, "currentHealthy"),
        number(budget, "desiredHealthy"),
    );
    spec["unhealthyPodEvictionPolicy"] == "AlwaysAllow" || (healthy >= wanted && wanted > 0)
}

/// `Retry-After` in seconds if the disruption controller has not processed the budget yet.
const STALE_RETRY_SECONDS: u32 = 10;

fn record_disruption(budget: &mut Object, pod: &str, now: &str) -> Result<(), Status> {
    let name = budget.name();
    if number(budget, "observedGeneration") < budget.generation() {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(Status::disruption_budget_violation(
            why,
            STALE_RETRY_SECONDS,
        ));
    }
    let allowed = number(budget, "disruptionsAllowed");
    if allowed < 0 {
        let text = "pdb disruptions allowed is negative";
        return Err(Status::forbidden(BUDGET_RESOURCE, name, text));
    }
    let noted = status(budget, "disruptedPods").as_object();
    if noted.is_some_and(|noted| noted.len() > DISRUPTED_PODS_MAX) {
        let text = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Status::forbidden(BUDGET_RESOURCE, name, text));
    }
    if allowed == 0 {
        return Err(Status::disruption_budget_violation(
            budget_exhausted_message(budget),
            0,
        ));
    }
    let status = budget.members_mut().entry("status").or_insert(json!({}));
    status["disruptionsAllowed"] = (allowed - 1).into();
    if !status["disruptedPods"].is_object() {
        status["disruptedPods"] = json!({});
    }
    status["disruptedPods"][pod] = now.into();
    Ok(())
}
