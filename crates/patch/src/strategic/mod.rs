//! Strategic merge patch: a merge patch that uses the types of the object, with the directives
//! `$patch`, `$retainKeys`, `$setElementOrder/…` and `$deleteFromPrimitiveList/…`.
//!
//! As upstream, directives and nulls are removed only from values that replace another value. New
//! list items and replaced lists keep them: decoding the result drops members that no type
//! declares.

mod error;
mod list;

pub use error::StrategicError;

use crate::StrictDecoding;
use crate::go::{self, strict_error};
use list::{ListMerge, merge_lists, order_by};
use optik_object::{Map, Value, drop_nulls, json_type, parse};
use optik_schema::{PatchStrategy, TypeNode, TypeRef, Untyped};
use std::collections::BTreeSet;

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";

/// A decoded patch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StrategicPatch {
    pub members: Map,
    /// `duplicate field "data.a"`; empty if strict decoding is off.
    pub strict_errors: Vec<String>,
}

impl StrategicPatch {
    /// Decodes a body. `null` changes nothing.
    pub fn decode(body: &[u8], checks: StrictDecoding) -> Result<Self, StrategicError> {
        let parsed = parse(body).map_err(|error| StrategicError::Malformed(error.to_string()))?;
        let members = match parsed.value {
            Value::Object(members) => members,
            Value::Null => Map::new(),
            other => {
                return Err(StrategicError::Malformed(format!(
                    "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                    json_type(&other)
                )));
            }
        };
        let duplicates = parsed.duplicates.iter();
        let complaints = duplicates.map(|path| strict_error("duplicate", path));
        let complaints = match checks {
            StrictDecoding::On => complaints.collect(),
            StrictDecoding::Off => Vec::new(),
        };
        Ok(Self {
            members,
            strict_errors: complaints,
        })
    }

    /// The patch as messages quote it: `map[spec:map[replicas:x]]`.
    #[must_use]
    pub fn to_go_string(&self) -> String {
        go::print(&Value::Object(self.members.clone()))
    }
}

/// Merges a patch into an object of this type.
pub fn strategic_merge_patch(
    live: Map,
    patch: Map,
    of: TypeRef<'_>,
) -> Result<Map, StrategicError> {
    merge_maps(live, patch, of)
}

/// `of` is the type Go would decode the object to; it need not be a structure.
fn merge_maps(mut live: Map, mut patch: Map, of: TypeRef<'_>) -> Result<Map, StrategicError> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(StrategicError::unknown_directive(&patch)),
        };
    }
    retain_keys(&mut live, &mut patch)?;
    set_orders(&mut live, &mut patch, of)?;
    for (name, change) in patch {
        merge_member(&mut live, &name, change, of)?;
    }
    Ok(live)
}

/// Drops the members that the patch's `$retainKeys` does not list, if there is such a directive.
fn retain_keys(live: &mut Map, patch: &mut Map) -> Result<(), StrategicError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(retained) = retained else {
        return Err(StrategicError::BadRetainKeys);
    };
    let retained: BTreeSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    for (name, change) in patch.iter() {
        let is_directive = name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
        if !change.is_null() && !is_directive && !retained.contains(name.as_str()) {
            return Err(StrategicError::BadRetainKeys);
        }
    }
    live.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// Merges and orders the lists with a `$setElementOrder` directive, and removes them from the
/// patch.
fn set_orders(live: &mut Map, patch: &mut Map, of: TypeRef<'_>) -> Result<(), StrategicError> {
    let orders: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in orders {
        let order = patch.remove(&directive).unwrap_or_default();
        let Value::Array(order) = order else {
            return Err(StrategicError::wrong_type("[]interface {}", &order));
        };
        let name =
            directive_field(&directive, SET_ORDER).ok_or(StrategicError::BadSetElementOrder)?;
        let live_list = list_at(live.get(name))?;
        let patch_list = list_at(patch.get(name))?;
        let (found_live, found_patch) = (live_list.is_some(), patch_list.is_some());
        let (of, merge) = list_field(of, name)?;
        let lists = ListMerge {
            live: live_list.unwrap_or_default(),
            patch: patch_list.unwrap_or_default(),
            of,
            merge,
        };
        lists.check_order(&order)?;
        let merged = match (found_live, found_patch) {
            (false, false) => continue,
            (true, false) => lists.live.clone(),
            (false, true) => clean_items(lists.patch.clone()),
            (true, true) if merge.merge => merge_lists(&lists)?,
            (true, true) => lists.patch.clone(),
        };
        let ordered = order_by(merged, &order, &lists)?;
        live.insert(name.to_owned(), ordered.into());
        patch.remove(name);
    }
    Ok(())
}

fn list_at(value: Option<&Value>) -> Result<Option<Vec<Value>>, StrategicError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        Some(other) => Err(StrategicError::wrong_type("[]interface {}", other)),
    }
}

fn merge_member(
    live: &mut Map,
    name: &str,
    change: Value,
    of: TypeRef<'_>,
) -> Result<(), StrategicError> {
    if name.starts_with(DELETE_FROM) {
        let name = directive_field(name, DELETE_FROM).ok_or(StrategicError::BadPrimitiveList)?;
        return delete_items(live, name, change, of);
    }
    if change.is_null() {
        live.remove(name);
        return Ok(());
    }
    let merged = match (live.remove(name), change) {
        (Some(Value::Object(live)), Value::Object(patch)) => {
            let (of, merge) = field(of, name)?;
            if merge.replace {
                Some(patch.into())
            } else {
                Some(merge_maps(live, patch, of)?.into())
            }
        }
        (Some(Value::Array(live)), Value::Array(patch)) => {
            let (of, merge) = list_field(of, name)?;
            if merge.merge {
                let lists = ListMerge {
                    live,
                    patch,
                    of,
                    merge,
                };
                Some(merge_lists(&lists)?.into())
            } else {
                Some(patch.into())
            }
        }
        (_, change) => strip_directives_and_nulls(change),
    };
    if let Some(merged) = merged {
        live.insert(name.to_owned(), merged);
    }
    Ok(())
}

/// Removes scalars from a list; does nothing if there is no list.
fn delete_items(
    live: &mut Map,
    name: &str,
    deleted: Value,
    of: TypeRef<'_>,
) -> Result<(), StrategicError> {
    if deleted.is_null() {
        live.remove(name);
        return Ok(());
    }
    let (Some(Value::Array(items)), Value::Array(deleted)) = (live.get(name), deleted) else {
        return Ok(());
    };
    let (of, merge) = list_field(of, name)?;
    let lists = ListMerge {
        live: items.clone(),
        patch: deleted,
        of,
        merge,
    };
    let rest = lists.without_patch()?;
    live.insert(name.to_owned(), rest.into());
    Ok(())
}

/// The field a directive such as `$setElementOrder/finalizers` refers to.
fn directive_field<'n>(name: &'n str, directive: &str) -> Option<&'n str> {
    name.strip_prefix(directive)?.strip_prefix('/')
}

/// Removes nulls, and objects with directives, from a value that replaces another one.
fn strip_directives_and_nulls(mut value: Value) -> Option<Value> {
    drop_nulls(&mut value);
    without_directives(value)
}

fn clean_items(items: Vec<Value>) -> Vec<Value> {
    items.into_iter().filter_map(without_directives).collect()
}

fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) if members.contains_key(PATCH) => None,
        Value::Object(members) => {
            let kept = members
                .into_iter()
                .filter_map(|(name, member)| Some((name, without_directives(member)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(items) => Some(clean_items(items).into()),
        other => Some(other),
    }
}

/// The type and the patch strategy of a member that is an object.
fn field<'a>(
    of: TypeRef<'a>,
    name: &str,
) -> Result<(TypeRef<'a>, &'a PatchStrategy), StrategicError> {
    match of.node() {
        TypeNode::Struct(structure) => match structure.field(name) {
            Some(field) => Ok((of.at(field.of), &field.patch_strategy)),
            None => Err(StrategicError::no_such_field(&structure.name, name)),
        },
        TypeNode::Map(_) => Err(StrategicError::NotAStruct("map")),
        TypeNode::List(_) => Err(StrategicError::NotAStruct("slice")),
        TypeNode::Scalar(_) => Err(StrategicError::NotAStruct("string")),
        // Both are structures in Go, but their fields are not members in JSON.
        TypeNode::Untyped(Untyped::Atomic) => {
            Err(StrategicError::no_such_field("RawExtension", name))
        }
        TypeNode::Untyped(Untyped::Deduced) => Err(StrategicError::no_such_field("JSON", name)),
    }
}

/// The item type and the patch strategy of a member that is a list.
fn list_field<'a>(
    of: TypeRef<'a>,
    name: &str,
) -> Result<(TypeRef<'a>, &'a PatchStrategy), StrategicError> {
    let (field, merge) = field(of, name)?;
    match field.node() {
        TypeNode::List(list) => Ok((field.at(list.of), merge)),
        _ => Err(StrategicError::NotAList),
    }
}
