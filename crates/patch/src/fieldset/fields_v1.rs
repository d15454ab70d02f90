//! The serializer of field sets as JSON (`fieldsV1`).
//!
//! ```text
//! {"f:metadata":{"f:labels":{".":{},"f:app":{}}},
//!  "f:spec":{"f:ports":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}}
//! ```

use super::{FieldNode, FieldSet, PathElement};
use optik_object::{Map, Value, to_bytes};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsV1Error {
    #[error("fieldsV1 must be an object")]
    NotAnObject,
    #[error("key must be 2 characters long:")]
    TooShort,
    #[error("missing colon: {0}")]
    NoColon(String),
    #[error("invalid path element: {0}")]
    BadElement(String),
}

impl FieldSet {
    /// Decodes `fieldsV1`. Elements of unknown kinds are dropped.
    pub fn decode(fields: &Value) -> Result<Self, FieldsV1Error> {
        match fields {
            Value::Null => Ok(Self::new()),
            Value::Object(members) => decode_members(members).map(|(set, _)| set),
            _ => Err(FieldsV1Error::NotAnObject),
        }
    }

    /// Encodes `fieldsV1` as a JSON tree, whose members are sorted by name.
    #[must_use]
    pub fn encode(&self) -> Value {
        // Inserted one by one: collecting would sort the members first.
        let mut members = Map::new();
        for node in &self.nodes {
            members.insert(node.element.encode(), node.encode());
        }
        Value::Object(members)
    }

    /// Encodes `fieldsV1` as bytes, with siblings in the order of the set: keys by their values,
    /// not by their spelling.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(false, &mut out);
        out
    }

    fn write(&self, is_member: bool, out: &mut Vec<u8>) {
        out.push(b'{');
        if is_member && !self.is_empty() {
            out.extend_from_slice(b"\".\":{}");
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if at > 0 || is_member {
                out.push(b',');
            }
            out.extend_from_slice(&to_bytes(&node.element.encode()));
            out.push(b':');
            node.below.write(node.is_member, out);
        }
        out.push(b'}');
    }
}

impl FieldNode {
    fn encode(&self) -> Value {
        let mut members = self.below.encode();
        if let Value::Object(members) = &mut members
            && self.is_member
            && !members.is_empty()
        {
            members.insert(".".into(), Map::new().into());
        }
        members
    }
}

/// The decoded set, and whether the node itself is a member.
fn decode_members(members: &Map) -> Result<(FieldSet, bool), FieldsV1Error> {
    let mut nodes: Vec<FieldNode> = Vec::with_capacity(members.len());
    let mut is_member = false;
    for (name, value) in members {
        if name == "." {
            is_member = true;
            continue;
        }
        let Some(element) = decode_element(name)? else {
            continue;
        };
        let (below, is_member) = match value {
            Value::Object(members) => decode_members(members)?,
            Value::Null => (FieldSet::new(), true),
            _ => return Err(FieldsV1Error::NotAnObject),
        };
        nodes.push(FieldNode {
            element,
            is_member,
            below,
        });
    }
    let is_leaf = nodes.is_empty();
    // Different spellings may be the same element: `v:1` and `v:1.0`.
    Ok((FieldSet::from_unsorted_nodes(nodes), is_member || is_leaf))
}

/// `None` for an unknown kind of element.
fn decode_element(text: &str) -> Result<Option<PathElement>, FieldsV1Error> {
    let bytes = text.as_bytes();
    if bytes.len() < 2 {
        return Err(FieldsV1Error::TooShort);
    }
    if bytes[1] != b':' {
        return Err(FieldsV1Error::NoColon(text.into()));
    }
    let bad = || FieldsV1Error::BadElement(text.into());
    let rest = &text[2..];
    let element = match bytes[0] {
        b'f' => PathElement::field(rest),
        b'v' => PathElement::value(json(rest).ok_or_else(bad)?),
        b'k' => match json(rest) {
            Some(Value::Object(keys)) => {
                let keys = keys
                    .into_iter()
                    .map(|(name, value)| (Arc::from(name), value));
                PathElement::key(keys.collect())
            }
            _ => return Err(bad()),
        },
        b'i' => PathElement::Index(rest.parse().map_err(|_| bad())?),
        _ => return Ok(None),
    };
    Ok(Some(element))
}

/// The depth limit is lower than that of documents, but keys of items are not deep.
fn json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_v1_round_trips() {
        for fields in [
            json!({}),
            json!({"f:data": {"f:a": {}}}),
            json!({"f:data": {".": {}, "f:a": {}}}),
            json!({"f:a": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}}}),
            json!({"f:a": {"v:\"x\"": {}, "v:1.5": {}, "v:true": {}}, "f:b": {"i:0": {}, "i:-1": {}}}),
        ] {
            let set = FieldSet::decode(&fields).unwrap();
            assert_eq!(set.encode(), fields);
            let parsed: Value = serde_json::from_slice(&set.to_json()).unwrap();
            assert_eq!(parsed, fields);
        }
    }

    #[test]
    fn fields_v1_json_keeps_sibling_order() {
        let set = FieldSet::decode(&json!({
            "i:1": {}, "v:\"b\"": {}, "v:2": {}, "v:10": {}, "f:b": {}, "f:a": {".": {}, "f:x": {}},
            "k:{\"p\":443}": {}, "k:{\"p\":80}": {},
        }));
        let expected = r#"{"f:a":{".":{},"f:x":{}},"f:b":{},"k:{\"p\":80}":{},"k:{\"p\":443}":{},"v:2":{},"v:10":{},"v:\"b\"":{},"i:1":{}}"#;
        assert_eq!(String::from_utf8(set.unwrap().to_json()).unwrap(), expected);
    }

    #[test]
    fn fields_v1_decodes_odd_input() {
        let set = |fields: Value| FieldSet::decode(&fields).map(|set| set.paths());
        assert_eq!(
            set(json!({"z:future": {"f:a": {}}, "f:a": null})),
            Ok(vec![".a".into()])
        );
        assert_eq!(set(json!({"f:a": {"z:future": {}}})), Ok(vec![".a".into()]));
        assert_eq!(
            set(json!({"v:1": {}, "v:1.0": {"f:a": {}}})).map(|paths| paths.len()),
            Ok(2)
        );
        for bad in [
            json!({"x": {}}),
            json!({"fa": {}}),
            json!({"f:a": 1}),
            json!({"i:x": {}}),
            json!({"k:[]": {}}),
            json!({"v:": {}}),
            json!([]),
        ] {
            assert!(set(bad.clone()).is_err(), "{bad}");
        }
    }
}
