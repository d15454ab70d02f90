//! Server-side apply: merges a configuration, detects conflicts, prunes fields that are no longer
//! applied, and updates managedFields.

use crate::conflict::Conflicts;
use crate::endpoint::{Endpoint, gvk_string};
use crate::fieldset::FieldSet;
use crate::last_applied;
use crate::managed::{
    MANAGED_FIELDS, Managed, ManagedFieldsEntry, ManagedFieldsError, ManagedFieldsOperation,
};
use crate::ownership::{
    Comparisons, ForceConflicts, ObjectChange, OwnershipError, reassign, reconcile_with_schema,
    strip_meta_fields,
};
use crate::prune::prune;
use crate::typed::{DuplicateItems, merge, to_field_set, validate};
use crate::update::{Family, UpdateRequest, track, without_managers};
use crate::value::members_equal;
use crate::versions::VersionConversionError;
use optik_object::{Map, Object, Status, Timestamp, Value};
use optik_schema::TypeRef;

/// The manager, the configuration and the live object of an apply.
#[derive(Clone, Copy)]
pub struct ApplyRequest<'a> {
    /// The stored object; `None` if there is none.
    pub live: Option<&'a Object>,
    pub config: &'a Object,
    pub manager: &'a str,
    /// Takes fields from other managers instead of failing with conflicts.
    pub force: bool,
    pub now: Timestamp,
}

/// The result of an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyResult {
    /// The object with its managedFields, before defaulting.
    pub object: Object,
    pub managed: Managed,
    /// Whether anything but managedFields changed.
    pub changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("invalid object type: {0}")]
    WrongType(String),
    #[error("metadata.managedFields must be nil")]
    ManagersGiven,
    #[error("failed to decode managed fields: {0}")]
    BadManagers(#[from] ManagedFieldsError),
    #[error("failed to create typed patch object ({which}): {why}")]
    Invalid { which: String, why: String },
    #[error("{0}")]
    Conflicts(Conflicts),
    #[error("failed to convert object: {0}")]
    Unconvertible(#[from] VersionConversionError),
}

impl ApplyError {
    /// The `Status` for the client.
    #[must_use]
    pub fn status(&self) -> Status {
        match self {
            Self::WrongType(_) | Self::ManagersGiven => Status::bad_request(self.to_string()),
            Self::Conflicts(conflicts) => conflicts.status(),
            Self::BadManagers(_) | Self::Invalid { .. } | Self::Unconvertible(_) => {
                Status::storage_failure(self.to_string())
            }
        }
    }
}

impl From<OwnershipError> for ApplyError {
    fn from(refusal: OwnershipError) -> Self {
        match refusal {
            OwnershipError::Conflicts(conflicts) => Self::Conflicts(conflicts),
            OwnershipError::Unconvertible(why) => Self::Unconvertible(why),
        }
    }
}

/// Applies a configuration.
pub fn apply(
    endpoint: &Endpoint<'_>,
    request: &ApplyRequest<'_>,
) -> Result<ApplyResult, ApplyError> {
    let of = check(endpoint, request)?;
    let managed = managers(endpoint, request)?;
    let run = ApplyAttempt {
        endpoint,
        request,
        of,
        live: request.live.map(without_managers).unwrap_or_default(),
    };
    let is_kubectl = request.manager == last_applied::MANAGER;
    let mut outcome = if request.force {
        run.run(managed, ForceConflicts::Yes)?
    } else if is_kubectl {
        match run.run(managed.clone(), ForceConflicts::No) {
            Err(ApplyError::Conflicts(conflicts)) => {
                let left = last_applied::remaining_conflicts(endpoint, &run.live, conflicts);
                if !left.is_empty() {
                    return Err(ApplyError::Conflicts(left));
                }
                run.run(managed, ForceConflicts::Yes)?
            }
            outcome => outcome?,
        }
    } else {
        run.run(managed, ForceConflicts::No)?
    };
    if is_kubectl {
        last_applied::update_annotation(&mut outcome.object, request.config);
    }
    outcome.managed.write_to(&mut outcome.object);
    Ok(outcome)
}

/// The managers of the live object, reconciled with the current schema.
fn managers(endpoint: &Endpoint<'_>, request: &ApplyRequest<'_>) -> Result<Managed, ApplyError> {
    let Some(live) = request.live else {
        return Ok(Managed::default());
    };
    let mut managed = Managed::from_object(live)?;
    if managed.is_empty() {
        // If the live object has no managers, its fields belong to `before-first-apply`.
        let write = UpdateRequest {
            live: None,
            manager: "before-first-apply",
            now: request.now,
            family: Family::BuiltIn,
        };
        track(endpoint, &write, live, &mut managed);
    }
    reconcile_with_schema(&mut managed, endpoint.versions);
    Ok(managed)
}

/// Validates the configuration and returns the type of the endpoint.
fn check<'a>(
    endpoint: &'a Endpoint<'_>,
    request: &ApplyRequest<'_>,
) -> Result<TypeRef<'a>, ApplyError> {
    let config = request.config;
    let sent = || gvk_string(config.api_version(), config.kind());
    if config.api_version() != endpoint.api_version || config.kind() != endpoint.kind {
        return Err(ApplyError::WrongType(sent()));
    }
    let managers = config.metadata().and_then(|it| it.get(MANAGED_FIELDS));
    if managers.is_some_and(Value::is_array) {
        return Err(ApplyError::ManagersGiven);
    }
    let of = endpoint
        .object_type()
        .ok_or_else(|| ApplyError::WrongType(sent()))?;
    let valid = validate(of, config.members(), DuplicateItems::Refused);
    valid.map_err(|why| ApplyError::Invalid {
        which: format!("{}/{}; {}", config.namespace(), config.name(), sent()),
        why: why.to_string(),
    })?;
    Ok(of)
}

/// The inputs of an attempt. kubectl may need two, the first with conflicts and the second forced.
struct ApplyAttempt<'a> {
    endpoint: &'a Endpoint<'a>,
    request: &'a ApplyRequest<'a>,
    of: TypeRef<'a>,
    /// Without managedFields; empty if there is no object.
    live: Map,
}

impl ApplyAttempt<'_> {
    fn run(&self, mut managed: Managed, force: ForceConflicts) -> Result<ApplyResult, ApplyError> {
        let (of, versions) = (self.of, self.endpoint.versions);
        let manager = self
            .endpoint
            .manager(self.request.manager, ManagedFieldsOperation::Apply);
        let last = managed.take(&manager);
        let entry = ManagedFieldsEntry {
            fields: self.config_fields(),
            time: last.as_ref().and_then(|last| last.time),
            manager,
        };
        let mut new = self.live.clone();
        merge(of, &mut new, self.request.config.members());
        if let Some(last) = last
            && !last.fields.is_empty()
        {
            new = prune(new, &last, &entry, &managed, versions)?;
        }
        let change = ObjectChange {
            old: &self.live,
            new: &new,
            api_version: self.endpoint.api_version,
        };
        let mut comparisons = Comparisons::new(change, versions);
        reassign(&mut managed, &mut comparisons, force)?;
        let changed = self.request.live.is_none() || !members_equal(&self.live, &new);
        managed.add(self.with_time(entry, changed));
        Ok(ApplyResult {
            object: Object::try_from(Value::Object(new)).unwrap_or_default(),
            managed,
            changed,
        })
    }

    /// The fields of the configuration, without those the endpoint resets.
    fn config_fields(&self) -> FieldSet {
        let named = to_field_set(self.of, self.request.config.members());
        match self
            .endpoint
            .versions
            .reset_fields(self.endpoint.api_version)
        {
            Some(reset) if !reset.is_empty() => named.recursive_difference(reset),
            _ => named,
        }
    }

    /// Sets the time only if the object changed.
    fn with_time(&self, entry: ManagedFieldsEntry, changed: bool) -> ManagedFieldsEntry {
        let time = if changed {
            Some(self.request.now)
        } else {
            entry.time
        };
        ManagedFieldsEntry {
            fields: strip_meta_fields(entry.fields),
            time,
            manager: entry.manager,
        }
    }
}
