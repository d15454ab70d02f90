//! The observed effects of a request, and their violations of the one permission of its sender.

use super::field_pointers::{FieldPointers, differing};
use super::permissions::Permission;
use super::resources::{AllowedEffect, OracleResource, RESOURCES};
use serde_json::Value;

/// The location of an object. Without a resource it is another key of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredObjectId {
    pub plural: &'static str,
    pub namespace: &'static str,
    pub name: &'static str,
    /// In the store.
    pub key: String,
}

/// The change of a key.
#[derive(Clone, Debug)]
pub struct ObservedChange {
    pub place: StoredObjectId,
    pub was: Option<Value>,
    pub is: Option<Value>,
}

/// All that came of one request.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub changes: Vec<ObservedChange>,
    /// The changes that the request would have made without `dryRun`.
    pub dry: Vec<ObservedChange>,
    /// The objects that the response contains.
    pub shown: Vec<StoredObjectId>,
    pub token: bool,
}

/// Fields that change only if the object is replaced by another.
const IDENTITY: FieldPointers = FieldPointers::only(&[
    "/apiVersion",
    "/kind",
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/creationTimestamp",
]);
/// An object with finalizers or a grace period is only marked as deleted.
const DELETION_MARKS: FieldPointers = FieldPointers::only(&[
    "/metadata/deletionTimestamp",
    "/metadata/deletionGracePeriodSeconds",
    "/metadata/finalizers",
]);

/// Everything that the right does not allow.
#[must_use]
pub fn violations(right: &Permission, seen: &Observation) -> Vec<String> {
    let mut found: Vec<String> = seen
        .changes
        .iter()
        .chain(&seen.dry)
        .filter_map(|change| violation(right, change))
        .collect();
    for place in &seen.shown {
        let touched = seen.changes.iter().chain(&seen.dry);
        let touched = touched.into_iter().any(|change| same(&change.place, place));
        if !right.may_show(place, touched) {
            found.push(format!("{place:?} is shown"));
        }
    }
    if seen.shown.len() > 1 && !right.allows_collections() {
        found.push(format!("{} objects are shown", seen.shown.len()));
    }
    if seen.token && right.allowed_effect() != AllowedEffect::Token {
        found.push("a token is shown".to_owned());
    }
    found
}

fn same(one: &StoredObjectId, other: &StoredObjectId) -> bool {
    (one.plural, one.namespace, one.name) == (other.plural, other.namespace, other.name)
}

fn violation(right: &Permission, change: &ObservedChange) -> Option<String> {
    let place = &change.place;
    let wrong = |what: String| Some(format!("{place:?} {what}"));
    if place.plural.is_empty() && right.may_write_side_key(&place.key) {
        return None;
    }
    if change.is.is_none() && right.may_cascade_to(place) {
        return None;
    }
    if !right.may_write(place) {
        return wrong("is touched".to_owned());
    }
    let effect = right.allowed_effect();
    match (&change.was, &change.is, effect) {
        (None, _, AllowedEffect::Makes) | (_, None, AllowedEffect::Removes(_)) => None,
        (Some(was), Some(is), effect) => {
            let members = differing(was, is).into_iter();
            let wrong_ones: Vec<_> = members.filter(|it| !may_change(effect, it)).collect();
            match wrong_ones.is_empty() {
                true => None,
                false => wrong(format!("is changed at {wrong_ones:?}")),
            }
        }
        (None, ..) => wrong("is made".to_owned()),
        (_, None, _) => wrong("is gone".to_owned()),
    }
}

fn may_change(effect: AllowedEffect, member: &str) -> bool {
    if IDENTITY.has(member) {
        return false;
    }
    match effect {
        AllowedEffect::Changes(members) => members.has(member) && !is_deletion_mark(member),
        AllowedEffect::Removes(members) => members.has(member) || DELETION_MARKS.has(member),
        AllowedEffect::Nothing
        | AllowedEffect::Makes
        | AllowedEffect::Token
        | AllowedEffect::Echo => false,
    }
}

fn is_deletion_mark(member: &str) -> bool {
    member.starts_with("/metadata/deletion")
}

/// Keys that the server writes at any time: the status of CRDs, and discovery data of their groups.
#[must_use]
pub fn is_server_write(change: &ObservedChange) -> bool {
    if change.place.key.contains("/apiservices/") {
        return true;
    }
    let (Some(was), Some(is)) = (&change.was, &change.is) else {
        return false;
    };
    let members = differing(was, is);
    let own = FieldPointers::only(&["/status"]);
    change.place.plural == "customresourcedefinitions" && members.iter().all(|it| own.has(it))
}

impl StoredObjectId {
    /// Parses `/registry/[GROUP/]PLURAL/[NAMESPACE/]NAME`; the directory of a kind may have another
    /// name.
    #[must_use]
    pub fn from_key(key: &str) -> Self {
        let has = |word: &str| key.split('/').any(|part| part == word);
        let holds = |resource: &&OracleResource| {
            resource.stored
                && has(match resource.plural {
                    "nodes" => "minions",
                    plural => plural,
                })
        };
        let resource = RESOURCES.iter().find(holds);
        let one_of = |words: &[&'static str]| {
            let found = words.iter().find(|word| has(word));
            found.copied().unwrap_or_default()
        };
        let names = resource.map(|it| [it.names.existing[0], it.names.existing[1], it.names.new]);
        Self {
            plural: resource.map_or("", |it| it.plural),
            namespace: one_of(&[super::NAMESPACE, super::OTHER_NAMESPACE]),
            name: names.map_or("", |names| one_of(&names)),
            key: key.to_owned(),
        }
    }
}
