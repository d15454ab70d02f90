//! `Object`: a JSON object with metadata, as a tree that a write can change.

use crate::canonical::{self, NotStorable};
use crate::json::{Map, Value};
use crate::meta::OwnerReference;
use crate::timestamp::Timestamp;

/// A JSON object with metadata. Getters are tolerant: a missing member or one of the wrong type is
/// empty. Setting an empty value removes the member, as Go's `omitempty` does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object(Map);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("document is not a JSON object")]
pub struct NotAnObject;

impl TryFrom<Value> for Object {
    type Error = NotAnObject;

    fn try_from(value: Value) -> Result<Self, NotAnObject> {
        match value {
            Value::Object(map) => Ok(Self(map)),
            _ => Err(NotAnObject),
        }
    }
}

impl From<Map> for Object {
    fn from(members: Map) -> Self {
        Self(members)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object.0)
    }
}

/// The whole document.
impl Object {
    #[must_use]
    pub fn members(&self) -> &Map {
        &self.0
    }

    pub fn members_mut(&mut self) -> &mut Map {
        &mut self.0
    }

    #[must_use]
    pub fn get(&self, member: &str) -> Option<&Value> {
        self.0.get(member)
    }

    #[must_use]
    pub fn kind(&self) -> &str {
        text(self.0.get("kind"))
    }

    #[must_use]
    pub fn api_version(&self) -> &str {
        text(self.0.get("apiVersion"))
    }

    pub fn set_type(&mut self, kind: &str, api_version: &str) {
        self.0.insert("kind".into(), kind.into());
        self.0.insert("apiVersion".into(), api_version.into());
    }

    /// Encodes the canonical bytes that are stored.
    pub fn encode(&self) -> Result<Vec<u8>, NotStorable> {
        canonical::encode_map(&self.0)
    }
}

/// Reading metadata.
impl Object {
    #[must_use]
    pub fn metadata(&self) -> Option<&Map> {
        self.0.get("metadata")?.as_object()
    }

    fn meta(&self, member: &str) -> Option<&Value> {
        self.metadata()?.get(member)
    }

    #[must_use]
    pub fn name(&self) -> &str {
        text(self.meta("name"))
    }

    #[must_use]
    pub fn generate_name(&self) -> &str {
        text(self.meta("generateName"))
    }

    #[must_use]
    pub fn namespace(&self) -> &str {
        text(self.meta("namespace"))
    }

    #[must_use]
    pub fn uid(&self) -> &str {
        text(self.meta("uid"))
    }

    #[must_use]
    pub fn resource_version(&self) -> &str {
        text(self.meta("resourceVersion"))
    }

    #[must_use]
    pub fn generation(&self) -> i64 {
        self.meta("generation").and_then(Value::as_i64).unwrap_or(0)
    }

    #[must_use]
    pub fn creation_timestamp(&self) -> Option<Timestamp> {
        self.meta("creationTimestamp")?.as_str()?.parse().ok()
    }

    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<Timestamp> {
        self.meta("deletionTimestamp")?.as_str()?.parse().ok()
    }

    /// Whether `deletionTimestamp` is set, even if it cannot be parsed.
    #[must_use]
    pub fn is_being_deleted(&self) -> bool {
        self.meta("deletionTimestamp")
            .is_some_and(|time| !time.is_null())
    }

    #[must_use]
    pub fn deletion_grace_period_seconds(&self) -> Option<i64> {
        self.meta("deletionGracePeriodSeconds")?.as_i64()
    }

    /// Sorted by key.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.meta("labels"))
    }

    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta("labels")?.get(key)?.as_str()
    }

    /// Sorted by key.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        pairs(self.meta("annotations"))
    }

    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.meta("annotations")?.get(key)?.as_str()
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        let list = self.meta("finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Skips entries that are not owner references.
    #[must_use]
    pub fn owner_references(&self) -> Vec<OwnerReference> {
        use serde::Deserialize;
        let list = self.meta("ownerReferences").and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .filter_map(|owner| OwnerReference::deserialize(owner).ok())
            .collect()
    }
}

/// Changing metadata.
impl Object {
    /// The metadata, which is created if missing.
    ///
    /// # Panics
    /// Never: a value that is not an object is replaced by one.
    pub fn metadata_mut(&mut self) -> &mut Map {
        let metadata = self.0.entry("metadata").or_insert(Value::Null);
        if !metadata.is_object() {
            *metadata = Map::new().into();
        }
        metadata
            .as_object_mut()
            .expect("metadata was just set to an object")
    }

    fn set(&mut self, member: &str, value: Option<Value>) {
        match value {
            Some(value) => drop(self.metadata_mut().insert(member.into(), value)),
            None => drop(self.remove_metadata_member(member)),
        }
    }

    /// Removes a member of the metadata, without creating metadata.
    pub fn remove_metadata_member(&mut self, member: &str) -> Option<Value> {
        self.0.get_mut("metadata")?.as_object_mut()?.remove(member)
    }

    fn set_text(&mut self, member: &str, text: &str) {
        self.set(member, (!text.is_empty()).then(|| text.into()));
    }

    pub fn set_name(&mut self, name: &str) {
        self.set_text("name", name);
    }

    pub fn set_namespace(&mut self, namespace: &str) {
        self.set_text("namespace", namespace);
    }

    pub fn set_uid(&mut self, uid: &str) {
        self.set_text("uid", uid);
    }

    /// Sets the resourceVersion; 0 removes it.
    pub fn set_resource_version(&mut self, revision: u64) {
        let text = (revision > 0).then(|| revision.to_string().into());
        self.set("resourceVersion", text);
    }

    /// Sets the generation; 0 removes it.
    pub fn set_generation(&mut self, generation: i64) {
        self.set("generation", (generation != 0).then(|| generation.into()));
    }

    pub fn set_creation_timestamp(&mut self, time: Option<Timestamp>) {
        self.set(
            "creationTimestamp",
            time.map(|time| time.to_string().into()),
        );
    }

    pub fn set_deletion_timestamp(&mut self, time: Option<Timestamp>) {
        self.set(
            "deletionTimestamp",
            time.map(|time| time.to_string().into()),
        );
    }

    /// Sets the grace period. 0 is a value: delete immediately.
    pub fn set_deletion_grace_period_seconds(&mut self, seconds: Option<i64>) {
        self.set("deletionGracePeriodSeconds", seconds.map(Value::from));
    }

    pub fn set_finalizers<T: Into<String>>(&mut self, finalizers: impl IntoIterator<Item = T>) {
        let list: Vec<Value> = finalizers
            .into_iter()
            .map(|f| Value::String(f.into()))
            .collect();
        self.set("finalizers", (!list.is_empty()).then(|| list.into()));
    }

    pub fn set_annotation(&mut self, key: &str, value: &str) {
        let annotations = self
            .metadata_mut()
            .entry("annotations")
            .or_insert(Value::Null);
        if !annotations.is_object() {
            *annotations = Map::new().into();
        }
        if let Value::Object(annotations) = annotations {
            annotations.insert(key.into(), value.into());
        }
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or("")
}

fn pairs(value: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    let map = value.and_then(Value::as_object);
    map.into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        value.try_into().unwrap()
    }

    #[test]
    fn object_getters_tolerate_wrong_types() {
        for value in [
            json!({}),
            json!({"metadata": null}),
            json!({"metadata": {"name": 1}}),
        ] {
            let object = object(value);
            assert_eq!((object.name(), object.uid(), object.kind()), ("", "", ""));
            assert_eq!((object.generation(), object.finalizers().count()), (0, 0));
            assert!(!object.is_being_deleted());
        }
        assert_eq!(Object::try_from(json!([])), Err(NotAnObject));
    }

    #[test]
    fn object_getters_read_metadata() {
        let object = object(json!({"kind": "K", "apiVersion": "g/v1", "metadata": {
            "name": "n", "namespace": "s", "uid": "u", "resourceVersion": "7", "generation": 2,
            "generateName": "n-", "labels": {"a": "1"}, "annotations": {"b": "2"},
            "creationTimestamp": "1970-01-01T00:00:01Z", "deletionTimestamp": "?",
            "deletionGracePeriodSeconds": 30, "finalizers": ["f", 1],
            "ownerReferences": [{"uid": "o", "controller": true}, 5],
        }}));
        assert_eq!((object.kind(), object.api_version()), ("K", "g/v1"));
        assert_eq!(
            (object.name(), object.generate_name(), object.namespace()),
            ("n", "n-", "s")
        );
        assert_eq!(
            (object.uid(), object.resource_version(), object.generation()),
            ("u", "7", 2)
        );
        assert_eq!(
            (object.label("a"), object.annotation("b")),
            (Some("1"), Some("2"))
        );
        assert_eq!(object.labels().chain(object.annotations()).count(), 2);
        assert_eq!(
            object.creation_timestamp(),
            Some(Timestamp::from_seconds(1))
        );
        assert_eq!(
            (object.deletion_timestamp(), object.is_being_deleted()),
            (None, true)
        );
        assert_eq!(object.deletion_grace_period_seconds(), Some(30));
        assert_eq!(object.finalizers().collect::<Vec<_>>(), ["f"]);
        assert_eq!(object.owner_references().len(), 1);
    }

    #[test]
    fn object_setters_write_and_remove_metadata() {
        let mut changed = object(json!({"metadata": 5}));
        changed.set_type("K", "v1");
        changed.set_name("n");
        changed.set_namespace("s");
        changed.set_uid("u");
        changed.set_resource_version(9);
        changed.set_generation(1);
        changed.set_creation_timestamp(Some(Timestamp::from_seconds(0)));
        changed.set_deletion_timestamp(Some(Timestamp::from_seconds(1)));
        changed.set_deletion_grace_period_seconds(Some(0));
        changed.set_finalizers(["f"]);
        changed.set_annotation("a", "b");
        let expected = json!({"kind": "K", "apiVersion": "v1", "metadata": {
            "name": "n", "namespace": "s", "uid": "u", "resourceVersion": "9", "generation": 1,
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "deletionTimestamp": "1970-01-01T00:00:01Z",
            "deletionGracePeriodSeconds": 0, "finalizers": ["f"], "annotations": {"a": "b"},
        }});
        assert_eq!(changed, object(expected.clone()));
        assert_eq!(changed.encode(), canonical::encode_canonical(&expected));

        changed.set_namespace("");
        changed.set_resource_version(0);
        changed.set_generation(0);
        changed.set_deletion_timestamp(None);
        changed.set_deletion_grace_period_seconds(None);
        changed.set_finalizers(Vec::<String>::new());
        let members: Vec<&str> = changed
            .metadata()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(members, ["annotations", "creationTimestamp", "name", "uid"]);

        let mut empty = object(json!({}));
        empty.set_namespace("");
        assert_eq!(empty, object(json!({})), "removing makes no metadata");
    }
}
