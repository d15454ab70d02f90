//! `ObjectMeta`: the metadata the server itself needs, parsed from bytes without building a tree
//! for the rest of the object.

use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// The metadata the server needs. Absent and null members are empty, as in Go; unknown members are
/// skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta {
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub generate_name: String,
    /// Empty for cluster-scoped objects.
    #[serde(deserialize_with = "null_is_empty")]
    pub namespace: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub uid: String,
    /// As sent; see [`parse_body_resource_version`](crate::parse_body_resource_version). Stored
    /// bytes have none.
    #[serde(deserialize_with = "null_is_empty")]
    pub resource_version: String,
    /// 0 if the kind has no generation.
    #[serde(deserialize_with = "null_is_empty")]
    pub generation: i64,
    /// RFC 3339; see [`Timestamp`](crate::Timestamp).
    pub creation_timestamp: Option<String>,
    /// Set once the object is being deleted.
    pub deletion_timestamp: Option<String>,
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "null_values_are_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_values_are_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub finalizers: Vec<String>,
    #[serde(deserialize_with = "null_is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

/// An entry of `metadata.ownerReferences`: an object that this one depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    #[serde(deserialize_with = "null_is_empty")]
    pub api_version: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub kind: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub name: String,
    #[serde(deserialize_with = "null_is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// The metadata has a member of the wrong type, or the bytes are not a JSON object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ObjectMetaError(String);

impl ObjectMeta {
    /// Parses the metadata of a document. Missing metadata is empty.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ObjectMetaError> {
        serde_json::from_slice(bytes)
            .map(|document: MetadataDocument| document.metadata)
            .map_err(|error| ObjectMetaError(error.to_string()))
    }

    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner reference with `controller: true`, if there is one.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))
    }
}

/// Everything but the metadata is skipped, not built.
#[derive(Deserialize)]
struct MetadataDocument {
    #[serde(default, deserialize_with = "null_is_empty")]
    metadata: ObjectMeta,
}

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

fn null_values_are_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let map: BTreeMap<String, Option<String>> = null_is_empty(deserializer)?;
    let members = map.into_iter();
    Ok(members
        .map(|(key, value)| (key, value.unwrap_or_default()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{encode_canonical, tests::any_value};
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn object_meta_reads_every_member() {
        let bytes = encode_canonical(&json!({
            "kind": "Pod", "spec": {"deep": [[{"metadata": {"name": "not me"}}]]},
            "metadata": {
                "name": "n", "generateName": "n-", "namespace": "s", "uid": "u", "generation": 3,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "deletionTimestamp": "2026-01-01T00:00:01Z", "deletionGracePeriodSeconds": 0,
                "labels": {"b": "2", "a": "1"}, "annotations": {"c": null},
                "finalizers": ["f"], "managedFields": [{"manager": "m"}],
                "ownerReferences": [
                    {"kind": "A", "name": "a", "uid": "1", "apiVersion": "v1"},
                    {"kind": "B", "name": "b", "uid": "2", "apiVersion": "v1", "controller": true,
                     "blockOwnerDeletion": true},
                ],
            },
        }))
        .unwrap();
        let meta = ObjectMeta::from_json(&bytes).unwrap();
        assert_eq!((meta.name.as_str(), meta.namespace.as_str()), ("n", "s"));
        assert_eq!(
            (meta.generate_name.as_str(), meta.uid.as_str()),
            ("n-", "u")
        );
        assert_eq!(
            (meta.generation, meta.deletion_grace_period_seconds),
            (3, Some(0))
        );
        assert!(meta.is_being_deleted());
        assert_eq!(meta.labels.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(meta.annotations["c"], "");
        assert_eq!(meta.finalizers, ["f"]);
        assert_eq!(meta.controller().unwrap().name, "b");
        assert_eq!(meta.resource_version, "");
    }

    #[test]
    fn object_meta_absent_and_null_are_empty() {
        for text in [
            "{}",
            r#"{"metadata":null}"#,
            r#"{"metadata":{}}"#,
            r#"{"metadata":{"name":null,"labels":null,"generation":null,"finalizers":null,
                "creationTimestamp":null,"ownerReferences":null}}"#,
        ] {
            assert_eq!(
                ObjectMeta::from_json(text.as_bytes()),
                Ok(ObjectMeta::default()),
                "{text}"
            );
        }
    }

    /// Skipping does not recurse, so it has no depth limit.
    #[test]
    fn object_meta_skips_members_of_any_depth() {
        let levels = 100_000;
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let text = format!(r#"{{"metadata":{{"name":"n","x":{deep}}},"y":{deep}}}"#);
        assert_eq!(ObjectMeta::from_json(text.as_bytes()).unwrap().name, "n");
    }

    #[test]
    fn object_meta_rejects_wrong_types() {
        for text in [
            "",
            "[1]",
            "1",
            r#"{"metadata":1}"#,
            r#"{"metadata":{"name":1}}"#,
            r#"{"metadata":{"labels":{"a":1}}}"#,
            r#"{"metadata":{"finalizers":"f"}}"#,
            r#"{"metadata":{"generation":"1"}}"#,
        ] {
            assert!(ObjectMeta::from_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn object_meta_never_panics(bytes: Vec<u8>) {
            let _ = ObjectMeta::from_json(&bytes);
        }

        #[test]
        fn object_meta_ignores_other_members(before in any_value(), after in any_value()) {
            let text = json!({"a": before, "metadata": {"name": "n"}, "z": after}).to_string();
            prop_assert_eq!(ObjectMeta::from_json(text.as_bytes()).unwrap().name, "n");
        }
    }
}
