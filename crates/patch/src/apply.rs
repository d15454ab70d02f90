//! Server-side apply.

use crate::conflict::Conflicts;
use crate::endpoint::{Endpoint, printed_type};
use crate::fieldset::FieldSet;
use crate::last_applied;
use crate::managed::{Entry, MANAGED_FIELDS, Managed, ManagedFieldsError, Operation};
use crate::ownership::{
    Change, Comparisons, Force, Refusal, reassign, refresh, without_unrecorded,
};
use crate::prune::prune;
use crate::typed::{Duplicates, merge, to_set, validate};
use crate::update::{Family, Update, track, without_managers};
use crate::value::same_members;
use crate::versions::Unconvertible;
use optik_object::{Map, Object, Status, Timestamp, Value};
use optik_schema::Type;

/// Who applies what to which object.
#[derive(Clone, Copy)]
pub struct Apply<'a> {
    /// As stored; `None` if there is none.
    pub live: Option<&'a Object>,
    pub config: &'a Object,
    pub manager: &'a str,
    /// Takes fields from others instead of being told about conflicts.
    pub force: bool,
    pub now: Timestamp,
}

/// What comes out.
#[derive(Clone, Debug, PartialEq)]
pub struct Applied {
    /// With its managers, before defaulting.
    pub object: Object,
    pub managed: Managed,
    /// Whether anything but the record of managers changed.
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
    Unconvertible(#[from] Unconvertible),
}

impl ApplyError {
    /// What the client gets.
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

impl From<Refusal> for ApplyError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Conflicts(conflicts) => Self::Conflicts(conflicts),
            Refusal::Unconvertible(why) => Self::Unconvertible(why),
        }
    }
}

/// Applies a configuration.
pub fn apply(endpoint: &Endpoint<'_>, request: &Apply<'_>) -> Result<Applied, ApplyError> {
    let of = check(endpoint, request)?;
    let managed = managers(endpoint, request)?;
    let run = Run {
        endpoint,
        request,
        of,
        live: request.live.map(without_managers).unwrap_or_default(),
    };
    let is_kubectl = request.manager == last_applied::MANAGER;
    let mut outcome = if request.force {
        run.run(managed, Force::Yes)?
    } else if is_kubectl {
        match run.run(managed.clone(), Force::No) {
            Err(ApplyError::Conflicts(conflicts)) => {
                let left = last_applied::remaining(endpoint, &run.live, conflicts);
                if !left.is_empty() {
                    return Err(ApplyError::Conflicts(left));
                }
                run.run(managed, Force::Yes)?
            }
            outcome => outcome?,
        }
    } else {
        run.run(managed, Force::No)?
    };
    if is_kubectl {
        last_applied::rewrite(&mut outcome.object, request.config);
    }
    outcome.managed.write_to(&mut outcome.object);
    Ok(outcome)
}

/// The managers of the live object, as the types of today see them.
fn managers(endpoint: &Endpoint<'_>, request: &Apply<'_>) -> Result<Managed, ApplyError> {
    let Some(live) = request.live else {
        return Ok(Managed::default());
    };
    let mut managed = Managed::of_object(live)?;
    if managed.is_empty() {
        // What nobody is known to manage belongs to those before the first apply.
        let write = Update {
            live: None,
            manager: "before-first-apply",
            now: request.now,
            family: Family::BuiltIn,
        };
        track(endpoint, &write, live, &mut managed);
    }
    refresh(&mut managed, endpoint.versions);
    Ok(managed)
}

/// Is this something that can be applied here? If so, of what type?
fn check<'a>(endpoint: &'a Endpoint<'_>, request: &Apply<'_>) -> Result<Type<'a>, ApplyError> {
    let config = request.config;
    let sent = || printed_type(config.api_version(), config.kind());
    if config.api_version() != endpoint.api_version || config.kind() != endpoint.kind {
        return Err(ApplyError::WrongType(sent()));
    }
    let managers = config.metadata().and_then(|it| it.get(MANAGED_FIELDS));
    if managers.is_some_and(Value::is_array) {
        return Err(ApplyError::ManagersGiven);
    }
    let of = endpoint.of().ok_or_else(|| ApplyError::WrongType(sent()))?;
    let valid = validate(of, config.members(), Duplicates::Refused);
    valid.map_err(|why| ApplyError::Invalid {
        which: format!("{}/{}; {}", config.namespace(), config.name(), sent()),
        why: why.to_string(),
    })?;
    Ok(of)
}

/// What both attempts have in common, the one that minds conflicts and the one that
/// does not.
struct Run<'a> {
    endpoint: &'a Endpoint<'a>,
    request: &'a Apply<'a>,
    of: Type<'a>,
    /// Without managers; empty if there is no object.
    live: Map,
}

impl Run<'_> {
    fn run(&self, mut managed: Managed, force: Force) -> Result<Applied, ApplyError> {
        let (of, versions) = (self.of, self.endpoint.versions);
        let manager = self
            .endpoint
            .manager(self.request.manager, Operation::Apply);
        let last = managed.take(&manager);
        let entry = Entry {
            fields: self.named_fields(),
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
        let change = Change {
            old: &self.live,
            new: &new,
            api_version: self.endpoint.api_version,
        };
        let mut comparisons = Comparisons::new(change, versions);
        reassign(&mut managed, &mut comparisons, force)?;
        let changed = self.request.live.is_none() || !same_members(&self.live, &new);
        managed.add(self.recorded(entry, changed));
        Ok(Applied {
            object: Object::try_from(Value::Object(new)).unwrap_or_default(),
            managed,
            changed,
        })
    }

    /// What the configuration names and the endpoint lets it change.
    fn named_fields(&self) -> FieldSet {
        let named = to_set(self.of, self.request.config.members());
        match self
            .endpoint
            .versions
            .reset_fields(self.endpoint.api_version)
        {
            Some(reset) if !reset.is_empty() => named.recursive_difference(reset),
            _ => named,
        }
    }

    /// The time changes only if something else does.
    fn recorded(&self, entry: Entry, changed: bool) -> Entry {
        let time = if changed {
            Some(self.request.now)
        } else {
            entry.time
        };
        Entry {
            fields: without_unrecorded(entry.fields),
            time,
            manager: entry.manager,
        }
    }
}
