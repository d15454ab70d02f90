//! The OpenAPI schemas of the built-in kinds, from a compressed table.

use flate2::read::ZlibDecoder;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

/// One line per schema: its name, a tab, the schema as JSON.
const TABLE: &[u8] = include_bytes!("schemas.zz");

const REF_PREFIX: &str = "\"#/components/schemas/";
const GVK_KEY: &str = "\"x-kubernetes-group-version-kind\":";

/// The decompressed table.
pub(crate) struct BuiltinSchemas {
    text: String,
}

impl BuiltinSchemas {
    /// Decompresses the table. It takes some milliseconds and megabytes, which are freed after use.
    pub(crate) fn unpack() -> Self {
        let mut text = String::new();
        // The table is part of the program, and a test has read it.
        let read = ZlibDecoder::new(TABLE).read_to_string(&mut text);
        debug_assert!(read.is_ok(), "the table is whole");
        Self { text }
    }

    /// The schemas by name.
    pub(crate) fn by_name(&self) -> BTreeMap<&str, &str> {
        let lines = self.text.lines();
        lines.filter_map(|line| line.split_once('\t')).collect()
    }
}

/// The compressed table, for a hash that changes when the table does.
pub(crate) fn packed_bytes() -> &'static [u8] {
    TABLE
}

/// The name of the schema of each kind, by group, version and kind.
pub(crate) fn kinds<'s>(all: &BTreeMap<&'s str, &'s str>) -> BTreeMap<String, &'s str> {
    let mut kinds = BTreeMap::new();
    for (name, json) in all {
        let Some((_, list)) = json.split_once(GVK_KEY) else {
            continue;
        };
        let mut values = serde_json::Deserializer::from_str(list).into_iter();
        let Some(Ok(serde_json::Value::Array(list))) = values.next() else {
            continue;
        };
        for kind in list {
            let of = |name: &str| kind[name].as_str().unwrap_or_default().to_owned();
            kinds.insert(key(&of("group"), &of("version"), &of("kind")), *name);
        }
    }
    kinds
}

pub(crate) fn key(group: &str, version: &str, kind: &str) -> String {
    format!("{group}/{version}/{kind}")
}

/// The names, and all names their schemas refer to, transitively.
pub(crate) fn closure<'s>(
    all: &BTreeMap<&'s str, &'s str>,
    wanted: impl IntoIterator<Item = &'s str>,
) -> BTreeSet<&'s str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&'s str> = wanted.into_iter().collect();
    while let Some(name) = open.pop() {
        let Some(json) = all.get(name) else { continue };
        if found.insert(name) {
            open.extend(references(json));
        }
    }
    found
}

fn references(json: &str) -> impl Iterator<Item = &str> {
    let places = memmem::find_iter(json.as_bytes(), REF_PREFIX);
    places.filter_map(|at| {
        let rest = json.get(at + REF_PREFIX.len()..)?;
        rest.split_once('"').map(|(name, _)| name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn builtin_schemas_parse_and_all_refs_resolve() {
        let schemas = BuiltinSchemas::unpack();
        let all = schemas.by_name();
        assert!(all.len() > 500);
        for (name, json) in &all {
            let value: Value = serde_json::from_str(json).expect(name);
            assert!(value.is_object(), "{name}");
            for reference in references(json) {
                assert!(all.contains_key(reference), "{name}: {reference}");
            }
        }
    }

    #[test]
    fn builtin_schema_closure_includes_references() {
        let schemas = BuiltinSchemas::unpack();
        let all = schemas.by_name();
        let found = closure(&all, ["io.k8s.api.core.v1.Pod"]);
        assert!(found.contains("io.k8s.api.core.v1.ContainerPort"));
        assert!(!found.contains("io.k8s.api.apps.v1.Deployment"));
    }
}
