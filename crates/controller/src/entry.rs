//! An object as it is cached: its bytes, and the few facts the runtime asks for often.
//!
//! Typed objects are two to four times as large as their JSON, and most of a cache is
//! never read. So the bytes are kept, without the ownership records of others, and a
//! typed object is made when somebody asks for it.

use crate::key::ObjectKey;
use crate::kind::Kind;
use optik_object::{Tape, Value, View};
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

/// One version of an object.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: ObjectKey,
    /// 0 if the server's revisions are no numbers.
    pub(crate) revision: u64,
    /// A hash of the uid.
    pub(crate) uid: u128,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    pub(crate) prints: Prints,
    raw: Box<[u8]>,
}

/// Hashes of parts, so that "did this part change?" costs nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prints {
    pub(crate) labels: u64,
    pub(crate) annotations: u64,
    pub(crate) finalizers: u64,
    pub(crate) owners: u64,
    /// Everything but metadata and status.
    pub(crate) body: u64,
}

impl Prints {
    /// Everything that a writer of the object, not of its status, can have changed.
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

/// What is kept of an object.
#[derive(Clone, Default)]
pub(crate) struct Keep {
    /// Whose ownership records are kept: of the controllers in this process.
    pub(crate) managers: Vec<String>,
    pub(crate) all_managed_fields: bool,
    pub(crate) transform: Option<Transform>,
}

pub(crate) type Transform = Arc<dyn Fn(&mut Value) + Send + Sync>;

/// Which version of which object: enough to know that it is already there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) key: ObjectKey,
    pub(crate) revision: u64,
    pub(crate) uid: u128,
}

impl Identity {
    pub(crate) fn read(object: View<'_>) -> Option<Self> {
        let meta = object.get("metadata")?;
        let (mut name, mut namespace, mut uid, mut revision) = (None, None, 0, 0);
        for (field, value) in meta.members() {
            match field.json() {
                b"\"name\"" => name = value.text(),
                b"\"namespace\"" => namespace = value.text(),
                b"\"uid\"" => uid = xxh3_128(value.text()?.as_bytes()),
                b"\"resourceVersion\"" => revision = numeric(&value.text()?),
                _ => {}
            }
        }
        let key = ObjectKey::new(namespace.unwrap_or_default().as_ref(), name?.as_ref());
        Some(Self { key, revision, uid })
    }

    pub(crate) fn is_of(&self, entry: &Entry) -> bool {
        self.revision != 0 && self.revision == entry.revision && self.uid == entry.uid
    }
}

/// A revision as a number; 0 if it is none.
pub(crate) fn numeric(revision: &str) -> u64 {
    revision.parse().unwrap_or(0)
}

impl Entry {
    /// From what a server sent.
    pub(crate) fn read(
        object: View<'_>,
        identity: Identity,
        kind: &Kind,
        keep: &Keep,
    ) -> Option<Self> {
        let Some(transform) = &keep.transform else {
            return Self::build(object, identity, kind, keep);
        };
        let mut value = object.to_value().ok()?;
        transform(&mut value);
        let bytes = serde_json::to_vec(&value).ok()?;
        let mut tape = Tape::default();
        Self::build(tape.read(&bytes).ok()?, identity, kind, keep)
    }

    /// From the answer to a write.
    pub(crate) fn from_bytes(bytes: &[u8], kind: &Kind, keep: &Keep) -> Option<Self> {
        let mut tape = Tape::default();
        let object = tape.read(bytes).ok()?;
        Self::read(object, Identity::read(object)?, kind, keep)
    }

    fn build(object: View<'_>, identity: Identity, kind: &Kind, keep: &Keep) -> Option<Self> {
        let mut raw = Vec::with_capacity(object.json().len());
        raw.push(b'{');
        let mut body = Xxh3::new();
        let mut facts = Facts::default();
        let mut typed = false;
        for (field, value) in object.members() {
            if raw.len() > 1 {
                raw.push(b',');
            }
            raw.extend_from_slice(field.json());
            raw.push(b':');
            match field.json() {
                b"\"metadata\"" => facts = write_metadata(value, keep, &mut raw)?,
                b"\"status\"" => raw.extend_from_slice(value.json()),
                b"\"kind\"" | b"\"apiVersion\"" => {
                    typed = true;
                    raw.extend_from_slice(value.json());
                }
                name => {
                    body.update(name);
                    body.update(value.json());
                    raw.extend_from_slice(value.json());
                }
            }
        }
        if !typed {
            // The items of a list do not say what they are.
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
            prints: Prints {
                labels: facts.labels,
                annotations: facts.annotations,
                finalizers: facts.finalizers,
                owners: facts.owners,
                body: body.digest(),
            },
            // A copy of the right size: what is cut off a larger one lies about unused.
            raw: Box::from(raw.as_slice()),
        })
    }

    /// The object.
    pub(crate) fn decode<K: serde::de::DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_slice(&self.raw)
    }

    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.raw).unwrap_or(Value::Null)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.raw.len()
    }

    /// Looks at the object without making one.
    pub(crate) fn look<T>(&self, at: impl FnOnce(View<'_>) -> T) -> Option<T> {
        let mut tape = Tape::default();
        tape.read(&self.raw).ok().map(at)
    }

    /// The controllers that own it, as (group, kind, name).
    pub(crate) fn controller_of(&self, group: &str, kind: &str) -> Option<Arc<str>> {
        self.look(|object| {
            let owners = object.at(&["metadata", "ownerReferences"])?;
            let of_kind = |owner: &View<'_>| {
                let version = owner.get("apiVersion").and_then(View::text);
                let version = version.unwrap_or_default();
                let owner_group = version.rsplit_once('/').map_or("", |(group, _)| group);
                owner.get("controller").and_then(View::as_bool) == Some(true)
                    && owner.get("kind").is_some_and(|own| own.is(kind))
                    && owner_group == group
            };
            let owner = owners.items().find(of_kind)?;
            owner.get("name")?.text().map(|name| Arc::from(&*name))
        })
        .flatten()
    }

    /// Whether a selector of labels would have let it through.
    pub(crate) fn matches(&self, selector: &optik_object::selector::LabelSelector) -> bool {
        if selector.is_empty() {
            return true;
        }
        let labels = self.look(|object| {
            let labels = object.at(&["metadata", "labels"]);
            let pairs = labels.into_iter().flat_map(View::members);
            let text = |view: View<'_>| view.text().unwrap_or_default().into_owned();
            pairs
                .map(|(name, value)| (text(name), text(value)))
                .collect()
        });
        selector.matches(&labels.unwrap_or_default())
    }
}

#[derive(Default)]
struct Facts {
    generation: i64,
    deleting: bool,
    labels: u64,
    annotations: u64,
    finalizers: u64,
    owners: u64,
}

/// Copies metadata without the ownership records that nobody here needs.
fn write_metadata(meta: View<'_>, keep: &Keep, raw: &mut Vec<u8>) -> Option<Facts> {
    let mut facts = Facts::default();
    raw.push(b'{');
    let begin = raw.len();
    for (field, value) in meta.members() {
        let name = field.json();
        let managed = name == b"\"managedFields\"" && !keep.all_managed_fields;
        let kept: Vec<&[u8]> = if managed {
            own_records(value, keep)
        } else {
            Vec::new()
        };
        if managed && kept.is_empty() {
            continue;
        }
        match name {
            b"\"generation\"" => facts.generation = value.as_i64()?,
            b"\"deletionTimestamp\"" => facts.deleting = !value.is_null(),
            b"\"labels\"" => facts.labels = xxh3_64(value.json()),
            b"\"annotations\"" => facts.annotations = xxh3_64(value.json()),
            b"\"finalizers\"" => facts.finalizers = xxh3_64(value.json()),
            b"\"ownerReferences\"" => facts.owners = xxh3_64(value.json()),
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
            raw.extend_from_slice(value.json());
        }
    }
    raw.push(b'}');
    Some(facts)
}

/// What controllers of this process own by apply.
fn own_records<'t>(records: View<'t>, keep: &Keep) -> Vec<&'t [u8]> {
    if keep.managers.is_empty() {
        return Vec::new();
    }
    let own = |record: &View<'_>| {
        let manager = record.get("manager").and_then(View::text);
        let manager = manager.unwrap_or_default();
        keep.managers.iter().any(|own| **own == *manager)
            && record.get("operation").is_some_and(|how| how.is("Apply"))
            && record.get("subresource").is_none()
    };
    records.items().filter(own).map(View::json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    fn entry(value: &Value, keep: &Keep) -> Entry {
        let bytes = serde_json::to_vec(value).expect("it is JSON");
        Entry::from_bytes(&bytes, &Kind::of::<ConfigMap>(), keep).expect("an object")
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
    fn an_item_of_a_list_learns_what_it_is_and_forgets_what_others_own() {
        let keep = Keep {
            managers: vec!["mine".into()],
            ..Keep::default()
        };
        let entry = entry(&sample(), &keep);
        assert_eq!((entry.revision, entry.key.to_string()), (7, "n/a".into()));
        let map: ConfigMap = entry.decode().expect("a ConfigMap");
        let records = map.metadata.managed_fields.unwrap_or_default();
        assert_eq!(records.len(), 1);
        assert_eq!(entry.value()["kind"], "ConfigMap");
    }

    #[test]
    fn status_and_metadata_do_not_change_the_print_of_the_body() {
        let mut other = sample();
        other["metadata"]["resourceVersion"] = json!("8");
        other["status"] = json!({"phase": "Running"});
        let (old, new) = (
            entry(&sample(), &Keep::default()),
            entry(&other, &Keep::default()),
        );
        assert_eq!(old.prints, new.prints);
        other["data"]["k"] = json!("w");
        assert_ne!(old.prints.body, entry(&other, &Keep::default()).prints.body);
    }

    #[test]
    fn the_owner_is_the_one_that_controls() {
        let entry = entry(&sample(), &Keep::default());
        assert_eq!(entry.controller_of("batch", "Job").as_deref(), Some("yes"));
        assert_eq!(entry.controller_of("apps", "Job"), None);
    }

    #[test]
    fn a_transform_decides_what_is_kept() {
        let keep = Keep {
            transform: Some(Arc::new(|object| object["data"] = json!({}))),
            ..Keep::default()
        };
        let entry = entry(&sample(), &keep);
        assert_eq!(entry.value()["data"], json!({}));
        assert!(entry.bytes() < 400);
    }
}
