//! `ObjectStatus`: the parts of a status that the runtime maintains, and helpers for conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The status of a primary object. An implementation says which fields hold the observed generation
/// and the conditions; the runtime keeps both up to date.
///
/// ```
/// # use optik_controller::ObjectStatus;
/// # use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// #[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct BackupStatus {
///     phase: Option<String>,
///     observed_generation: Option<i64>,
///     #[serde(default)]
///     conditions: Vec<Condition>,
/// }
///
/// impl ObjectStatus for BackupStatus {
///     fn observed_generation(&mut self) -> Option<&mut Option<i64>> {
///         Some(&mut self.observed_generation)
///     }
///     fn conditions(&mut self) -> Option<&mut Vec<Condition>> {
///         Some(&mut self.conditions)
///     }
/// }
/// ```
pub trait ObjectStatus: Clone + Default + Serialize + DeserializeOwned {
    /// The field for the generation that this status was computed from.
    fn observed_generation(&mut self) -> Option<&mut Option<i64>> {
        None
    }

    /// The conditions.
    fn conditions(&mut self) -> Option<&mut Vec<Condition>> {
        None
    }
}

/// Creates a condition. The runtime fills in its transition time and generation.
///
/// ```
/// # use optik_controller::new_condition;
/// let ready = new_condition("Ready", true, "JobFinished", "the backup is complete");
/// assert_eq!(ready.status, "True");
/// ```
pub fn new_condition(
    kind: impl Into<String>,
    holds: bool,
    reason: impl Into<String>,
    message: impl Into<String>,
) -> Condition {
    Condition {
        type_: kind.into(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH),
    }
}

/// Replaces the condition of the same type, or adds it.
///
/// ```
/// # use optik_controller::{new_condition, set_condition};
/// let mut conditions = vec![new_condition("Ready", false, "Starting", "")];
/// set_condition(&mut conditions, new_condition("Ready", true, "Started", ""));
/// assert_eq!(conditions.len(), 1);
/// assert_eq!(conditions[0].reason, "Started");
/// ```
pub fn set_condition(conditions: &mut Vec<Condition>, new_condition: Condition) {
    match conditions
        .iter_mut()
        .find(|own| own.type_ == new_condition.type_)
    {
        Some(own) => *own = new_condition,
        None => conditions.push(new_condition),
    }
}

/// Sets the observed generation, and the transition times of conditions.
pub(crate) fn stamp_generation_and_transitions<S: ObjectStatus>(
    status: &mut S,
    before: &mut S,
    generation: i64,
    now: &Time,
) {
    if let Some(observed) = status.observed_generation() {
        *observed = Some(generation);
    }
    let old = before.conditions().map(|conditions| conditions.clone());
    let old = old.unwrap_or_default();
    for condition in status.conditions().into_iter().flatten() {
        condition.observed_generation = Some(generation);
        let known = old.iter().find(|own| own.type_ == condition.type_);
        condition.last_transition_time = match known {
            Some(own) if own.status == condition.status => own.last_transition_time.clone(),
            _ => now.clone(),
        };
    }
}
