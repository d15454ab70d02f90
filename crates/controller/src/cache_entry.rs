//! `CacheEntry`: a cached object as JSON bytes, with the metadata that the runtime reads often.
//!
//! Typed objects are two to four times as large as their JSON, and most of a cache is never read.
//! So the bytes are kept, without `managedFields` of other field managers, and a typed object is
//! decoded when it is read.

use crate::key::ObjectKey;
use crate::kind::KindInfo;
use optik_object::{JsonView, Tape, Value};
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

/// One version of a cached object.
#[derive(Debug)]
pub(crate) struct CacheEntry {
    pub(crate) key: ObjectKey,
    /// The resourceVersion; 0 if it is not a number.
    pub(crate) revision: u64,
    /// A hash of the uid.
    pub(crate) uid: u128,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) fingerprints: Fingerprints,
    raw: Box<[u8]>,
}

/// Hashes of parts of an object, so that it is cheap to compare a part of two versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    pub(crate) labels: u64,
    pub(crate) annotations: u64,
    pub(crate) finalizers: u64,
    pub(crate) owners: u64,
    /// Everything but metadata and status.
    pub(crate) body: u64,
}

impl Fingerprints {
    /// A hash of all parts that a write to the object, but not to its status, can change.
    pub(crate) fn content(&self) -> u64 {
        self.body
            .rotate_left(1)
            .wrapping_add(self.labels)
            .rotate_left(1)
            .wrapping_add(self.annotations)
            .rotate_left(1)
            .wrapping_add(self.finalizers)
            .rotate_left(1)
            .wrapping_add(self.owners)
    }
}

/// Which parts of an object are cached.
#[derive(Clone, Default)]
pub(crate) struct CacheOptions {
    /// The field managers whose `managedFields` are kept: the controllers of this process.
    pub(crate) managers: Vec<String>,
    pub(crate) all_managed_fields: bool,
    pub(crate) transform: Option<TransformFn>,
}

pub(crate) type TransformFn = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// Identifies one version of an object: enough to know whether it is in the cache already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObjectIdentity {
    pub(crate) key: ObjectKey,
    pub(crate) revision: u64,
    pub(crate) uid: u128,
}

impl ObjectIdentity {
    pub(crate) fn read(object: JsonView<'_>) -> Option<Self> {
        let meta = object.get("metadata")?;
        let (mut name, mut namespace, mut uid, mut revision) = (None, None, 0, 0);
        for (field, value) in meta.members() {
            match field.raw_json() {
                b"\"name\"" => name = value.as_str(),
                b"\"namespace\"" => namespace = value.as_str(),
                b"\"uid\"" => uid = xxh3_128(value.as_str()?.as_bytes()),
                b"\"resourceVersion\"" => revision = parse_revision(&value.as_str()?),
                _ => {}
            }
        }
        let key = ObjectKey::new(namespace.unwrap_or_default().as_ref(), name?.as_ref());
        Some(Self { key, revision, uid })
    }

    pub(crate) fn is_version_of(&self, entry: &CacheEntry) -> bool {
        self.revision != 0 && self.revision == entry.revision && self.uid == entry.uid
    }
}

/// Parses a resourceVersion; 0 if it is not a number.
pub(crate) fn parse_revision(revision: &str) -> u64 {
    revision.parse().unwrap_or(0)
}

impl CacheEntry {
    /// Converts an object from the server.
    pub(crate) fn read(
        object: JsonView<'_>,
        identity: ObjectIdentity,
        kind: &KindInfo,
        options: &CacheOptions,
    ) -> Option<Self> {
        let Some(transform) = &options.transform else {
            return Self::build(object, identity, kind, options);
        };
        let mut value = object.to_value().ok()?;
        transform(&mut value);
        let bytes = serde_json::to_vec(&value).ok()?;
        let mut tape = Tape::default();
        Self::build(tape.read(&bytes).ok()?, identity, kind, options)
    }

    /// Converts the response to a write.
    pub(crate) fn from_bytes(
        bytes: &[u8],
        kind: &KindInfo,
        options: &CacheOptions,
    ) -> Option<Self> {
        let mut tape = Tape::default();
        let object = tape.read(bytes).ok()?;
        Self::read(object, ObjectIdentity::read(object)?, kind, options)
    }

    fn build(
        object: JsonView<'_>,
        identity: ObjectIdentity,
        kind: &KindInfo,
        options: &CacheOptions,
    ) -> Option<Self> {
        let mut raw = Vec::with_capacity(object.raw_json().len());
        raw.push(b'{');
        let mut body = Xxh3::new();
        let mut facts = MetadataFacts::default();
        let mut typed = false;
        for (field, value) in object.members() {
            if raw.len() > 1 {
                raw.push(b',');
            }
            raw.extend_from_slice(field.raw_json());
            raw.push(b':');
            match field.raw_json() {
                b"\"metadata\"" => facts = write_metadata(value, options, &mut raw)?,
                b"\"status\"" => raw.extend_from_slice(value.raw_json()),
                b"\"kind\"" | b"\"apiVersion\"" => {
                    typed = true;
                    raw.extend_from_slice(value.raw_json());
                }
                name => {
                    body.update(name);
                    body.update(value.raw_json());
                    raw.extend_from_slice(value.raw_json());
                }
            }
        }
        if !typed {
            // The items of a list have neither `apiVersion` nor `kind`.
            let (version, kind) = (&kind.api_version, &kind.kind);
            raw.extend(format!(r#","apiVersion":"{version}","kind":"{kind}""#).bytes());
        }
        raw.push(b'}');
        Some(Self {
            key: identity.key,
            revision: identity.revision,
            uid: identity.uid,
            generation: facts.generation,
            deleting: facts.deleting,
            fingerprints: Fingerprints {
                labels: facts.labels,
                annotations: facts.annotations,
                finalizers: facts.finalizers,
                owners: facts.owners,
                body: body.digest(),
            },
            // An exact copy: truncating a larger buffer would leave unused memory allocated.
            raw: Box::from(raw.as_slice()),
        })
    }

    /// Decodes the object.
    pub(crate) fn decode<K: serde::de::DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_slice(&self.raw)
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or(Value::Null)
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.raw.len()
    }

    /// Reads parts of the object without decoding it.
    pub(crate) fn peek<T>(&self, at: impl FnOnce(JsonView<'_>) -> T) -> Option<T> {
        let mut tape = Tape::default();
        tape.read(&self.raw).ok().map(at)
    }

    /// Returns the name of the controlling owner, if it is of this group and kind.
    pub(crate) fn controller_of(&self, group: &str, kind: &str) -> Option<Arc<str>> {
        self.peek(|object| {
            let owners = object.get_path(&["metadata", "ownerReferences"])?;
            let of_kind = |owner: &JsonView<'_>| {
                let version = owner.get("apiVersion").and_then(JsonView::as_str);
                let version = version.unwrap_or_default();
                let owner_group = version.rsplit_once('/').map_or("", |(group, _)| group);
                owner.get("controller").and_then(JsonView::as_bool) == Some(true)
                    && owner.get("kind").is_some_and(|own| own.equals_str(kind))
                    && owner_group == group
            };
            let owner = owners.items().find(of_kind)?;
            owner.get("name")?.as_str().map(|name| Arc::from(&*name))
        })
        .flatten()
    }

    /// Whether the labels match a selector.
    pub(crate) fn matches(&self, selector: &optik_object::selector::LabelSelector) -> bool {
        if selector.is_empty() {
            return true;
        }
        let labels = self.peek(|object| {
            let labels = object.get_path(&["metadata", "labels"]);
            let pairs = labels.into_iter().flat_map(JsonView::members);
            let text = |view: JsonView<'_>| view.as_str().unwrap_or_default().into_owned();
            pairs
                .map(|(name, value)| (text(name), text(value)))
                .collect()
        });
        selector.matches(&labels.unwrap_or_default())
    }
}

#[derive(Default)]
struct MetadataFacts {
    generation: i64,
    deleting: bool,
    labels: u64,
    annotations: u64,
    finalizers: u64,
    owners: u64,
}

/// Copies metadata without the `managedFields` that this process does not need.
fn write_metadata(
    meta: JsonView<'_>,
    options: &CacheOptions,
    raw: &mut Vec<u8>,
) -> Option<MetadataFacts> {
    let mut facts = MetadataFacts::default();
    raw.push(b'{');
    let begin = raw.len();
    for (field, value) in meta.members() {
        let name = field.raw_json();
        let managed = name == b"\"managedFields\"" && !options.all_managed_fields;
        let kept: Vec<&[u8]> = if managed {
            own_managed_fields(value, options)
        } else {
            Vec::new()
        };
        if managed && kept.is_empty() {
            continue;
        }
        match name {
            b"\"generation\"" => facts.generation = value.as_i64()?,
            b"\"deletionTimestamp\"" => facts.deleting = !value.is_null(),
            b"\"labels\"" => facts.labels = xxh3_64(value.raw_json()),
            b"\"annotations\"" => facts.annotations = xxh3_64(value.raw_json()),
            b"\"finalizers\"" => facts.finalizers = xxh3_64(value.raw_json()),
            b"\"ownerReferences\"" => facts.owners = xxh3_64(value.raw_json()),
            _ => {}
        }
        if raw.len() > begin {
            raw.push(b',');
        }
        raw.extend_from_slice(name);
        raw.push(b':');
        if managed {
            raw.push(b'[');
            raw.extend_from_slice(&kept.join(&b','));
            raw.push(b']');
        } else {
            raw.extend_from_slice(value.raw_json());
        }
    }
    raw.push(b'}');
    Some(facts)
}

/// The `managedFields` of server-side applies by controllers of this process.
fn own_managed_fields<'t>(records: JsonView<'t>, options: &CacheOptions) -> Vec<&'t [u8]> {
    if options.managers.is_empty() {
        return Vec::new();
    }
    let own = |record: &JsonView<'_>| {
        let manager = record.get("manager").and_then(JsonView::as_str);
        let manager = manager.unwrap_or_default();
        options.managers.iter().any(|own| **own == *manager)
            && record
                .get("operation")
                .is_some_and(|how| how.equals_str("Apply"))
            && record.get("subresource").is_none()
    };
    records
        .items()
        .filter(own)
        .map(JsonView::raw_json)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    fn entry(value: &Value, options: &CacheOptions) -> CacheEntry {
        let bytes = serde_json::to_vec(value).expect("it is JSON");
        CacheEntry::from_bytes(&bytes, &KindInfo::for_type::<ConfigMap>(), options)
            .expect("an object")
    }

    fn sample() -> Value {
        json!({
            "metadata": {
                "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "labels": {"app": "web"},
                "managedFields": [
                    {"manager": "mine", "operation": "Apply", "fieldsV1": {"f:data": {}}},
                    {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {}}},
                ],
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "no", "uid": "1"},
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "yes", "uid": "2", "controller": true},
                ],
            },
            "data": {"k": "v"},
        })
    }

    #[test]
    fn list_item_gets_type_meta_and_drops_foreign_managed_fields() {
        let options = CacheOptions {
            managers: vec!["mine".into()],
            ..CacheOptions::default()
        };
        let entry = entry(&sample(), &options);
        assert_eq!((entry.revision, entry.key.to_string()), (7, "n/a".into()));
        let map: ConfigMap = entry.decode().expect("a ConfigMap");
        let records = map.metadata.managed_fields.unwrap_or_default();
        assert_eq!(records.len(), 1);
        assert_eq!(entry.value()["kind"], "ConfigMap");
    }

    #[test]
    fn status_and_metadata_changes_keep_body_fingerprint() {
        let mut other = sample();
        other["metadata"]["resourceVersion"] = json!("8");
        other["status"] = json!({"phase": "Running"});
        let (old, new) = (
            entry(&sample(), &CacheOptions::default()),
            entry(&other, &CacheOptions::default()),
        );
        assert_eq!(old.fingerprints, new.fingerprints);
        other["data"]["k"] = json!("w");
        assert_ne!(
            old.fingerprints.body,
            entry(&other, &CacheOptions::default()).fingerprints.body
        );
    }

    #[test]
    fn controller_of_returns_the_controller_owner_reference() {
        let entry = entry(&sample(), &CacheOptions::default());
        assert_eq!(entry.controller_of("batch", "Job").as_deref(), Some("yes"));
        assert_eq!(entry.controller_of("apps", "Job"), None);
    }

    #[test]
    fn transform_changes_the_cached_object() {
        let options = CacheOptions {
            transform: Some(Arc::new(|object| object["data"] = json!({}))),
            ..CacheOptions::default()
        };
        let entry = entry(&sample(), &options);
        assert_eq!(entry.value()["data"], json!({}));
        assert!(entry.len_bytes() < 400);
    }
}
