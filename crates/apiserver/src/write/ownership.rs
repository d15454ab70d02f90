//! Who owns which field, kept with every write.

use super::Writing;
use super::update::Part;
use crate::custom;
use crate::kinds::Kind;
use optik_catalog::{OnStatus, StatusRule};
use optik_object::{Map, Object};
use optik_patch::{
    Applied, Apply, ApplyError, Endpoint, Family, FieldSet, OneVersion, Unconvertible, Update,
    Versions, apply, only_times_differ, update,
};
use optik_schema::Type;
use std::borrow::Cow;

/// Whether a write still has to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    #[default]
    Record,
    /// An apply has recorded it.
    Recorded,
}

const MANAGED_FIELDS: &str = "managedFields";
const MANAGER_BYTES_MAX: usize = 128;

/// Records a create, update or patch in the object that is about to be stored.
pub(super) fn record(
    writing: &Writing<'_>,
    part: Part,
    live: Option<&Object>,
    object: &mut Object,
) {
    if writing.ownership == Ownership::Record {
        with_endpoint(writing.kind, part, |endpoint| {
            let manager = manager(writing);
            let write = Update {
                live,
                manager: &manager,
                now: writing.now(),
                family: match writing.kind.custom {
                    Some(_) => Family::Custom,
                    None => Family::BuiltIn,
                },
            };
            update(endpoint, &write, object);
        });
    }
    // What changes nothing but times changes nothing.
    if let Some(live) = live
        && only_times_differ(live, object)
        && let Some(kept) = live.metadata().and_then(|meta| meta.get(MANAGED_FIELDS))
    {
        let kept = kept.clone();
        object.metadata_mut().insert(MANAGED_FIELDS.into(), kept);
    }
}

/// Merges a configuration into what is there.
pub(super) fn merge(
    writing: &Writing<'_>,
    part: Part,
    live: Option<&Object>,
    config: &Object,
    force: bool,
) -> Option<Result<Applied, ApplyError>> {
    with_endpoint(writing.kind, part, |endpoint| {
        let request = Apply {
            live,
            config,
            manager: &writing.options.manager,
            force,
            now: writing.now(),
        };
        apply(endpoint, &request)
    })
}

/// Runs with the endpoint as the stored form sees it; `None` if its types are not known.
fn with_endpoint<T>(kind: &Kind, part: Part, run: impl FnOnce(&Endpoint<'_>) -> T) -> Option<T> {
    let (api_version, name) = match kind.custom {
        Some(_) => (&*kind.api_version, &*kind.resource.kind),
        None => kind.stored_type(),
    };
    let reset = reset_fields(kind, part);
    let versions: &dyn Versions = match &kind.custom {
        Some(custom) => &SameFields {
            versions: &custom.versions,
            reset: &reset,
        },
        None => &OneVersion {
            api_version,
            of: kind.stored_schema()?,
            reset: Some(&reset),
        },
    };
    let endpoint = Endpoint {
        api_version,
        kind: name,
        subresource: match part {
            Part::Main => "",
            Part::Status => "status",
            Part::Finalize => "finalize",
        },
        versions,
    };
    Some(run(&endpoint))
}

/// The versions of a custom kind: each has types of its own, and nothing but the name of
/// the version differs in their objects.
struct SameFields<'a> {
    versions: &'a custom::Versions,
    reset: &'a FieldSet,
}

impl Versions for SameFields<'_> {
    fn type_at(&self, api_version: &str) -> Option<Type<'_>> {
        let version = self.versions.find(api_version)?;
        Some(version.types().root())
    }

    fn convert<'v>(
        &self,
        object: &'v Map,
        _: &str,
        _: &str,
    ) -> Result<Cow<'v, Map>, Unconvertible> {
        Ok(Cow::Borrowed(object))
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet> {
        Some(self.reset)
    }
}

/// What an endpoint does not let its clients change.
fn reset_fields(kind: &Kind, part: Part) -> FieldSet {
    let StatusRule::Split { keeps, .. } = kind.resource.behaviour.status else {
        return FieldSet::new();
    };
    match part {
        Part::Main => FieldSet::of_fields(&[&["status"]]),
        Part::Finalize => FieldSet::new(),
        Part::Status => {
            let mut paths: Vec<&[&str]> = vec![&["spec"]];
            match keeps {
                OnStatus::Nothing => {}
                OnStatus::Labels => paths.push(&["metadata", "labels"]),
                OnStatus::OwnerReferences => paths.push(&["metadata", "ownerReferences"]),
                OnStatus::All => paths.push(&["metadata"]),
            }
            FieldSet::of_fields(&paths)
        }
    }
}

/// The field manager, or what the client calls itself.
fn manager(writing: &Writing<'_>) -> String {
    let printable = writing.origin.manager.chars().filter(|c| !c.is_control());
    let mut name: String = printable.collect();
    while name.len() > MANAGER_BYTES_MAX {
        name.pop();
    }
    if name.is_empty() {
        name.push_str("unknown");
    }
    name
}
