//! ResourceQuota: charges the usage of a write to the quotas of its namespace before it is stored.

use crate::admission::plugins::{forbidden, has_objects};
use crate::admission::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin};
use crate::registry::served_resource::parse_stored;
use crate::server::ApiServer;
use crate::server::store_errors::commit_failed;
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use optik_builtin::Quantity;
use optik_builtin::resource_quota::{Usage, matches_quota_scopes, missing_constraints, usage};
use optik_catalog::key_prefix;
use optik_object::{Object, Status, Value};
use optik_store::{KeyRange, Origin, Put, Snapshot, Txn, Version};
use serde_json::json;
use std::sync::Arc;

const QUOTAS_PREFIX: &str = key_prefix("", "resourcequotas");

pub(super) struct ResourceQuotaAdmission;

/// How often a charge is retried if a quota changes concurrently.
const CHARGE_ATTEMPTS_MAX: usize = 50;

fn directory(namespace: &str) -> String {
    format!("{QUOTAS_PREFIX}{namespace}/")
}

impl AdmissionPlugin for ResourceQuotaAdmission {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        (attributes.subresource.is_empty() || is_resize(attributes))
            && attributes.operation != AdmissionOperation::Delete
            && attributes.resource.is_namespaced()
            && has_objects(attributes.store, &directory(attributes.namespace))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        async move {
            match object {
                Some(object) => charge(attributes, object).await,
                None => Ok(()),
            }
        }
        .boxed()
    }
}

/// Whether a write resizes the containers of a pod.
fn is_resize(attributes: &AdmissionAttributes<'_>) -> bool {
    attributes.subresource == "resize" && attributes.is_resource("", "pods")
}

/// The usage that a write adds.
fn usage_delta(attributes: &AdmissionAttributes<'_>, object: &Object) -> Usage {
    let resource = &attributes.resource.resource;
    let mut delta = usage(&resource.group, &resource.plural, object);
    if let (AdmissionOperation::Update, Some(old)) = (attributes.operation, attributes.old) {
        for (name, amount) in usage(&resource.group, &resource.plural, old) {
            let now = delta.get(&name).copied().unwrap_or(Quantity::ZERO);
            delta.insert(name, now.minus(amount));
        }
    }
    delta.retain(|_, amount| !amount.is_zero() && !amount.is_negative());
    delta
}

async fn charge(attributes: &AdmissionAttributes<'_>, object: &Object) -> Result<(), Status> {
    let resource = &attributes.resource.resource;
    let delta = usage_delta(attributes, object);
    if delta.is_empty() {
        return Ok(());
    }
    let state = attributes.store.snapshot();
    let range = KeyRange::prefix(directory(attributes.namespace));
    let quotas: Vec<Arc<Version>> = state.entries(&range).cloned().collect();
    drop(state);
    for version in quotas {
        let Ok(quota) = parse_stored(version.value()) else {
            continue;
        };
        if matches_quota_scopes(&quota, &resource.group, &resource.plural, object) {
            check_required_resources(attributes, &quota, object)?;
            charge_one(attributes, version, &delta).await?;
        }
    }
    Ok(())
}

fn hard(quota: &Object) -> &Value {
    let spec = quota.get("spec").unwrap_or(&Value::Null);
    &spec["hard"]
}

fn check_required_resources(
    attributes: &AdmissionAttributes<'_>,
    quota: &Object,
    object: &Object,
) -> Result<(), Status> {
    let counts = attributes.operation == AdmissionOperation::Create || is_resize(attributes);
    if !attributes.is_resource("", "pods") || !counts {
        return Ok(());
    }
    let missing = missing_constraints(hard(quota), object);
    if missing.is_empty() {
        return Ok(());
    }
    let parts = missing.iter();
    let parts: Vec<String> = parts
        .map(|(resource, containers)| format!("{resource} for: {}", containers.join(",")))
        .collect();
    let text = format!(
        "failed quota: {}: must specify {}",
        quota.name(),
        parts.join("; ")
    );
    Err(forbidden(attributes, &text))
}

/// Charges one quota; refuses the write if it would exceed the quota.
async fn charge_one(
    attributes: &AdmissionAttributes<'_>,
    mut version: Arc<Version>,
    delta: &Usage,
) -> Result<(), Status> {
    for _ in 0..CHARGE_ATTEMPTS_MAX {
        let Ok(mut quota) = parse_stored(version.value()) else {
            return Ok(());
        };
        let counted = quota_charges(&quota, delta);
        if counted.is_empty() {
            return Ok(());
        }
        refuse_excess(attributes, &quota, &counted)?;
        if attributes.dry_run() {
            return Ok(());
        }
        write_usage(&mut quota, &counted);
        let Ok(bytes) = quota.encode() else {
            return Ok(());
        };
        let key = version.key().to_vec();
        let put = Put::new(&key, Bytes::from(bytes));
        let txn = Txn::put_if(version.mod_revision(), put);
        let done = attributes.store.commit(txn, Origin::system("update")).await;
        if done.map_err(commit_failed)?.succeeded {
            return Ok(());
        }
        let latest = attributes.store.latest().await;
        let latest = latest.map_err(crate::server::store_errors::read_failed)?;
        match latest.get(&key) {
            Some(newer) => version = Arc::clone(newer),
            None => return Ok(()),
        }
    }
    let text = "Insufficient quota to match these scopes: too many others at the same time";
    Err(forbidden(attributes, text))
}

/// A quota to charge: name, limits, used so far, requested now.
struct QuotaCharge {
    name: String,
    hard: Quantity,
    used: Quantity,
    wanted: Quantity,
}

fn quota_charges(quota: &Object, delta: &Usage) -> Vec<QuotaCharge> {
    let status = quota.get("status").unwrap_or(&Value::Null);
    let limits = hard(quota).as_object().into_iter().flatten();
    limits
        .filter_map(|(name, limit)| {
            let wanted = *delta.get(name)?;
            let used =
                Quantity::from_value(&status["used"][name.as_str()]).unwrap_or(Quantity::ZERO);
            let hard = Quantity::from_value(limit).ok()?;
            Some(QuotaCharge {
                name: name.clone(),
                hard,
                used,
                wanted,
            })
        })
        .collect()
}

fn refuse_excess(
    attributes: &AdmissionAttributes<'_>,
    quota: &Object,
    counted: &[QuotaCharge],
) -> Result<(), Status> {
    let over = |one: &&QuotaCharge| one.used.plus(one.wanted) > one.hard;
    let over: Vec<&QuotaCharge> = counted.iter().filter(over).collect();
    if over.is_empty() {
        return Ok(());
    }
    let show = |amount: fn(&QuotaCharge) -> Quantity| {
        let parts = over
            .iter()
            .map(|one| format!("{}={}", one.name, amount(one)));
        parts.collect::<Vec<_>>().join(",")
    };
    let text = format!(
        "exceeded quota: {}, requested: {}, used: {}, limited: {}",
        quota.name(),
        show(|one| one.wanted),
        show(|one| one.used),
        show(|one| one.hard),
    );
    Err(forbidden(attributes, &text))
}

fn write_usage(quota: &mut Object, counted: &[QuotaCharge]) {
    let limits = hard(quota).clone();
    let status = quota.members_mut().entry("status").or_insert(json!({}));
    if !status["hard"].is_object() {
        status["hard"] = limits;
    }
    if !status["used"].is_object() {
        status["used"] = json!({});
    }
    for one in counted {
        let sum = one.used.plus(one.wanted);
        status["used"][one.name.as_str()] = sum.to_string().into();
    }
}

/// The usage of a quota by the objects of its namespace, in the form of its status.
#[must_use]
pub fn quota_usage(api: &ApiServer, state: &Snapshot, quota: &Value) -> Value {
    let Ok(quota) = Object::try_from(quota.clone()) else {
        return Value::Null;
    };
    let mut used = Usage::new();
    for collection in api.all_collections() {
        if !collection.namespaced || !may_count(&quota, &collection.group, &collection.plural) {
            continue;
        }
        let range = KeyRange::prefix(collection.object_key(quota.namespace(), ""));
        for version in state.entries(&range) {
            let Ok(object) = parse_stored(version.value()) else {
                continue;
            };
            let (group, plural) = (&collection.group, &collection.plural);
            if !matches_quota_scopes(&quota, group, plural, &object) {
                continue;
            }
            for (name, amount) in usage(group, plural, &object) {
                let sum = used.get(&name).copied().unwrap_or(Quantity::ZERO);
                used.insert(name, sum.plus(amount));
            }
        }
    }
    let limits = hard(&quota).as_object().into_iter().flatten();
    let counted = limits.map(|(name, _)| {
        let amount = used.get(name).copied().unwrap_or(Quantity::ZERO);
        (name.clone(), amount.to_string().into())
    });
    Value::Object(counted.collect())
}

/// Whether a quota can count objects of a kind, by the resource names in it.
fn may_count(quota: &Object, group: &str, plural: &str) -> bool {
    let counter = match group {
        "" => format!("count/{plural}"),
        group => format!("count/{plural}.{group}"),
    };
    let core = group.is_empty();
    let mut limits = hard(quota).as_object().into_iter().flatten();
    limits.any(|(name, _)| match plural {
        _ if *name == counter => true,
        _ if !core => false,
        "pods" => !name.starts_with("count/") && !name.contains("storageclass"),
        "persistentvolumeclaims" => name == plural || name.contains("storage"),
        "services" => name.starts_with("services"),
        plural => name == plural,
    })
}
