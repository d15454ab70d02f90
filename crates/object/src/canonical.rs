//! The canonical serializer: the single byte form in which an object is stored.
//!
//! Equal objects have equal bytes, so a no-op write is detected by comparing bytes. The identifying
//! members come first, so that [`splice`](crate::splice()) finds the position of `resourceVersion`
//! without parsing:
//!
//! ```text
//! {"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"u",
//!  "labels":{…}},"spec":{…},"status":{…}}
//! ```

use crate::json::{self, Map, Value};
use std::cell::RefCell;

/// The members at the start of a document, in this order, before `metadata`.
pub(crate) const TYPE_MEMBERS: [&str; 2] = ["kind", "apiVersion"];
/// The members at the start of `metadata`, in this order.
pub(crate) const NAME_MEMBERS: [&str; 4] = ["name", "generateName", "namespace", "uid"];
/// Never stored: `resourceVersion` is known to the store, and no client needs `selfLink`.
const UNSTORED_MEMBERS: [&str; 2] = ["resourceVersion", "selfLink"];

/// Why a value cannot be stored as an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStorable {
    #[error("document is not a JSON object")]
    NotAnObject,
    #[error("metadata is not an object")]
    MetadataNotAnObject,
    #[error("{0} is not a string")]
    NotAString(&'static str),
}

/// The canonical bytes of an object. `metadata` is always there, and never contains
/// `resourceVersion` or `selfLink`.
pub fn encode_canonical(value: &Value) -> Result<Vec<u8>, NotStorable> {
    let Value::Object(document) = value else {
        return Err(NotStorable::NotAnObject);
    };
    encode_map(document)
}

/// Encodes into a reused scratch buffer and copies the result: stored bytes live long and must not
/// have spare capacity.
pub(crate) fn encode_map(document: &Map) -> Result<Vec<u8>, NotStorable> {
    SCRATCH.with_borrow_mut(|scratch| {
        scratch.clear();
        write_document(document, scratch)?;
        let bytes = scratch.as_slice().to_vec();
        if scratch.capacity() > SCRATCH_BYTES_MAX {
            *scratch = Vec::new();
        }
        Ok(bytes)
    })
}

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Larger than most objects. A scratch buffer that has grown beyond it is freed.
const SCRATCH_BYTES_MAX: usize = 64 * 1024;

fn write_document(document: &Map, out: &mut Vec<u8>) -> Result<(), NotStorable> {
    out.push(b'{');
    write_fixed_members(document, &TYPE_MEMBERS, out)?;
    write_name("metadata", out);
    write_metadata(document.get("metadata"), out)?;
    for (name, value) in document {
        if name != "metadata" && !TYPE_MEMBERS.contains(&name.as_str()) {
            write_member(name, value, out);
        }
    }
    out.push(b'}');
    Ok(())
}

fn write_metadata(metadata: Option<&Value>, out: &mut Vec<u8>) -> Result<(), NotStorable> {
    let metadata = match metadata {
        None | Some(Value::Null) => &Map::new(),
        Some(Value::Object(metadata)) => metadata,
        Some(_) => return Err(NotStorable::MetadataNotAnObject),
    };
    out.push(b'{');
    write_fixed_members(metadata, &NAME_MEMBERS, out)?;
    for (name, value) in metadata {
        let name = name.as_str();
        if !NAME_MEMBERS.contains(&name) && !UNSTORED_MEMBERS.contains(&name) {
            write_member(name, value, out);
        }
    }
    out.push(b'}');
    Ok(())
}

/// Writes the members with a fixed position. They must be strings, or the scanner could not step
/// over them.
fn write_fixed_members(
    map: &Map,
    names: &[&'static str],
    out: &mut Vec<u8>,
) -> Result<(), NotStorable> {
    for name in names {
        match map.get(*name) {
            None => {}
            Some(value @ Value::String(_)) => write_member(name, value, out),
            Some(_) => return Err(NotStorable::NotAString(name)),
        }
    }
    Ok(())
}

fn write_member(name: &str, value: &Value, out: &mut Vec<u8>) {
    write_name(name, out);
    json::write_value(value, out);
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    json::write_string(name, out);
    out.push(b':');
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn check(value: &Value, expected: &str) {
        assert_eq!(
            String::from_utf8(encode_canonical(value).unwrap()).unwrap(),
            expected
        );
    }

    #[test]
    fn canonical_encoding_orders_type_and_identity_members_first() {
        check(
            &json!({
                "apiVersion": "v1", "kind": "Pod", "zeta": {"b": 1, "a": 2}, "alpha": [],
                "metadata": {
                    "annotations": {"k": "<v>"}, "uid": "u", "name": "n", "namespace": "ns",
                    "generateName": "n-", "labels": {"b": "1", "a": "2"},
                    "resourceVersion": "7", "selfLink": "/x", "generation": 1
                }
            }),
            concat!(
                r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"n","generateName":"n-","#,
                r#""namespace":"ns","uid":"u","annotations":{"k":"\u003cv\u003e"},"generation":1,"#,
                r#""labels":{"a":"2","b":"1"}},"alpha":[],"zeta":{"a":2,"b":1}}"#,
            ),
        );
    }

    #[test]
    fn canonical_encoding_always_has_metadata() {
        check(&json!({}), r#"{"metadata":{}}"#);
        check(
            &json!({"metadata": null, "a": 1}),
            r#"{"metadata":{},"a":1}"#,
        );
    }

    #[test]
    fn canonical_encoding_rejects_objects_without_proper_metadata() {
        for (value, expected) in [
            (json!([]), NotStorable::NotAnObject),
            (json!({"metadata": 1}), NotStorable::MetadataNotAnObject),
            (json!({"kind": 1}), NotStorable::NotAString("kind")),
            (
                json!({"metadata": {"uid": null}}),
                NotStorable::NotAString("uid"),
            ),
        ] {
            assert_eq!(encode_canonical(&value), Err(expected));
        }
    }

    /// Any tree without whole floats, which Go (and this serializer) prints as integers.
    pub(crate) fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1000..1000_i32).prop_map(|n| Value::from(f64::from(n) + 0.25)),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// Any storable object: some of the fixed members, and arbitrary others.
    pub(crate) fn any_object() -> impl Strategy<Value = Value> {
        let fixed = |names: &'static [&'static str]| {
            let member = proptest::option::of(any::<String>());
            proptest::collection::vec(member, names.len()).prop_map(move |values| {
                let members = names.iter().zip(values);
                members
                    .filter_map(|(name, value)| Some((String::from(*name), value?.into())))
                    .collect::<Map>()
            })
        };
        let others = || proptest::collection::btree_map(any::<String>(), any_value(), 0..4);
        (
            fixed(&TYPE_MEMBERS),
            fixed(&NAME_MEMBERS),
            others(),
            others(),
        )
            .prop_map(|(kind, names, in_metadata, in_document)| {
                let mut metadata: Map = in_metadata.into_iter().collect();
                metadata.extend(names);
                let mut document: Map = in_document.into_iter().collect();
                document.extend(kind);
                document.insert("metadata".into(), metadata.into());
                document.into()
            })
    }

    proptest! {
        #[test]
        fn canonical_encoding_round_trips(object in any_object()) {
            let bytes = encode_canonical(&object).unwrap();
            let back = json::parse(&bytes).unwrap();
            prop_assert_eq!(&back.value, &object);
            prop_assert!(back.duplicates.is_empty());
            prop_assert_eq!(encode_canonical(&back.value).unwrap(), bytes);
        }
    }
}
