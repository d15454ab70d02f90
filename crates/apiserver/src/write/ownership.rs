//! Who owns which field, kept with every write.

use super::Writing;
use super::metadata::copy_member;
use super::update::Part;
use crate::face::Face;
use crate::kinds::Kind;
use optik_catalog::{OnStatus, StatusRule};
use optik_object::{Map, Object, Value};
use optik_patch::{
    Applied, Apply, ApplyError, Endpoint, Family, FieldSet, Unconvertible, Update, Versions, apply,
    only_times_differ, update,
};
use optik_schema::Type;
use std::borrow::Cow;
use std::sync::Arc;

/// Whether a write still has to be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ownership {
    #[default]
    Record,
    /// An apply has recorded it.
    Recorded,
}

pub(super) const MANAGED_FIELDS: &str = "managedFields";
const MANAGER_BYTES_MAX: usize = 128;

/// Records a create, update or patch in the object that is about to be stored. Managers
/// own fields of the version they write, so that is the version things are compared in.
pub(crate) fn record(
    writing: &Writing<'_>,
    part: Part,
    live: Option<&Object>,
    object: &mut Object,
) {
    if writing.ownership == Ownership::Record {
        with_endpoint(writing.kind, part, |endpoint| {
            let manager = manager(writing);
            let live = live.map(|live| writing.kind.to_client(live));
            let write = Update {
                live: live.as_deref(),
                manager: &manager,
                now: writing.now(),
                family: match writing.kind.custom {
                    Some(_) => Family::Custom,
                    None => Family::BuiltIn,
                },
            };
            if writing.kind.face == Face::AsStored {
                return update(endpoint, &write, object);
            }
            let mut shown = writing.kind.to_client(object).into_owned();
            update(endpoint, &write, &mut shown);
            copy_member(object, &shown, MANAGED_FIELDS);
        });
    }
}

/// What changes nothing but times changes nothing.
pub(super) fn keep_times(live: &Object, object: &mut Object) {
    if only_times_differ(live, object)
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

/// The versions in which a kind shows its objects.
struct Shapes<'a> {
    kind: &'a Kind,
    /// In the version of the request, which is nearly always asked for.
    own: Type<'a>,
    reset: FieldSet,
}

impl Versions for Shapes<'_> {
    fn type_at(&self, api_version: &str) -> Option<Type<'_>> {
        if api_version == self.kind.api_version {
            return Some(self.own);
        }
        self.kind.schema_in(api_version)
    }

    fn convert<'v>(
        &self,
        object: &'v Map,
        from: &str,
        to: &str,
    ) -> Result<Cow<'v, Map>, Unconvertible> {
        if from == to {
            return Ok(Cow::Borrowed(object));
        }
        let object = Object::try_from(Value::Object(object.clone()));
        let mut object = object.unwrap_or_default();
        self.kind.convert(&mut object, from, to);
        Ok(Cow::Owned(std::mem::take(object.members_mut())))
    }

    fn blank(&self, api_version: &str) -> Option<&Object> {
        (api_version == self.kind.api_version).then(|| self.kind.blank())?
    }

    fn reset_fields(&self, _: &str) -> Option<&FieldSet> {
        Some(&self.reset)
    }
}

/// Runs with the endpoint as its clients see it; `None` if its types are not known.
pub(super) fn with_endpoint<T>(
    kind: &Arc<Kind>,
    part: Part,
    run: impl FnOnce(&Endpoint<'_>) -> T,
) -> Option<T> {
    let kind = part.kind(kind);
    let versions = Shapes {
        kind,
        own: kind.schema()?,
        reset: reset_fields(kind, part),
    };
    let endpoint = Endpoint {
        api_version: &kind.api_version,
        kind: &kind.resource.kind,
        subresource: part.subresource(),
        versions: &versions,
    };
    Some(run(&endpoint))
}

/// What an endpoint does not let its clients change.
fn reset_fields(kind: &Kind, part: Part) -> FieldSet {
    let StatusRule::Split { keeps, .. } = kind.resource.behaviour.status else {
        return FieldSet::new();
    };
    let own = kind.rules.resets();
    match part {
        Part::Main | Part::Finalize => {
            let mut paths: Vec<&[&str]> = vec![&["status"]];
            paths.extend(own.main);
            FieldSet::of_fields(&paths)
        }
        Part::Scale | Part::Aspect(_) => FieldSet::new(),
        Part::Approval => FieldSet::of_fields(own.approval),
        Part::Status => {
            let mut paths: Vec<&[&str]> = vec![&["spec"]];
            paths.extend(own.status);
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
pub(super) fn manager(writing: &Writing<'_>) -> String {
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
