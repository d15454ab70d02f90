//! Pruning of custom resources: removal of fields the schema does not declare.

use super::node::Structural;
use optik_object::{Map, Value};

/// The members that every resource has, whatever its schema declares.
const RESOURCE_MEMBERS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Drops undeclared members. `root`: the value is a whole resource.
pub fn prune_structural(schema: &Structural, value: &mut Value, root: bool) {
    walk(schema, value, root, None);
}

/// Drops undeclared members and returns their paths, sorted: `spec.ports[1].bogus`.
pub fn prune_structural_tracking_unknown(
    schema: &Structural,
    value: &mut Value,
    root: bool,
) -> Vec<String> {
    let mut found = walk(schema, value, root, Some(Vec::new()));
    found.sort();
    found
}

fn walk(
    schema: &Structural,
    value: &mut Value,
    root: bool,
    found: Option<Vec<String>>,
) -> Vec<String> {
    let mut walk = Pruner {
        found,
        path: String::new(),
    };
    let keeping = PruneOptions {
        resource: root,
        all: false,
    };
    walk.prune(Some(schema), value, keeping);
    walk.found.unwrap_or_default()
}

/// The maximum number of paths that are returned; further members are dropped, too.
const UNKNOWN_FIELDS_MAX: usize = 128;

/// The undeclared members that are kept.
#[derive(Clone, Copy, Default)]
struct PruneOptions {
    /// apiVersion, kind and metadata, which every resource has.
    resource: bool,
    all: bool,
}

struct Pruner {
    /// The paths of dropped members, if they are to be recorded.
    found: Option<Vec<String>>,
    path: String,
}

impl Pruner {
    fn prune(&mut self, schema: Option<&Structural>, value: &mut Value, keeping: PruneOptions) {
        let keeping = PruneOptions {
            resource: keeping.resource || schema.is_some_and(|schema| schema.embedded),
            all: keeping.all || schema.is_some_and(|schema| schema.preserve),
        };
        match value {
            Value::Object(members) => self.members(schema, members, keeping),
            Value::Array(items) => {
                let of_items = schema.and_then(|schema| schema.items.as_deref());
                // With unknown fields preserved and no schema for the items, there is nothing to
                // prune.
                if of_items.is_none() && keeping.all {
                    return;
                }
                // `preserve-unknown-fields` of a list applies to its items.
                let keeping = PruneOptions {
                    resource: false,
                    all: keeping.all,
                };
                for (index, item) in items.iter_mut().enumerate() {
                    let mark = self.enter_index(index);
                    self.prune(of_items, item, keeping);
                    self.leave(mark);
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, schema: Option<&Structural>, members: &mut Map, keeping: PruneOptions) {
        let preserve = keeping.all;
        members.retain(|name, value| {
            if keeping.resource && RESOURCE_MEMBERS.contains(&name.as_str()) {
                return true;
            }
            let declared = schema.and_then(|schema| schema.property(name));
            let additional = schema.and_then(Structural::additional);
            if declared.is_none() && additional.is_none() {
                if !preserve {
                    self.record_unknown(name);
                }
                return preserve;
            }
            let of = declared.or_else(|| schema.and_then(Structural::additional_schema));
            let mark = self.enter(name);
            self.prune(of, value, PruneOptions::default());
            self.leave(mark);
            true
        });
    }

    fn record_unknown(&mut self, name: &str) {
        if let Some(found) = &mut self.found
            && found.len() < UNKNOWN_FIELDS_MAX
        {
            let dot = if self.path.is_empty() { "" } else { "." };
            found.push(format!("{}{dot}{name}", self.path));
        }
    }

    fn enter(&mut self, name: &str) -> usize {
        let mark = self.path.len();
        if self.found.is_some() {
            if mark > 0 {
                self.path.push('.');
            }
            self.path.push_str(name);
        }
        mark
    }

    fn enter_index(&mut self, index: usize) -> usize {
        let mark = self.path.len();
        if self.found.is_some() {
            self.path.push_str(&format!("[{index}]"));
        }
        mark
    }

    fn leave(&mut self, mark: usize) {
        self.path.truncate(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(schema: &Value, value: Value, expected: &Value, unknown: &[&str]) {
        let schema = Structural::from_json(schema);
        let mut named = value.clone();
        assert_eq!(
            prune_structural_tracking_unknown(&schema, &mut named, true),
            unknown
        );
        let mut pruned = value;
        prune_structural(&schema, &mut pruned, true);
        assert_eq!(&pruned, expected);
        assert_eq!(named, pruned);
    }

    #[test]
    fn pruning_drops_undeclared_members() {
        check(
            &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "a": {"type": "string"},
                "list": {"type": "array", "items": {"type": "object", "properties": {
                    "x": {"type": "string"}}}},
                "map": {"type": "object", "additionalProperties": {"type": "object"}},
            }}}}),
            json!({"kind": "K", "apiVersion": "v", "metadata": {"anything": 1}, "more": 1,
                "spec": {"a": "b", "b": 1, "list": [{"x": "", "y": 1}], "map": {"k": {"z": 1}}}}),
            &json!({"kind": "K", "apiVersion": "v", "metadata": {"anything": 1},
                "spec": {"a": "b", "list": [{"x": ""}], "map": {"k": {}}}}),
            &["more", "spec.b", "spec.list[0].y", "spec.map.k.z"],
        );
    }

    /// EXT-31: unknown fields are preserved, but declared fields below them are pruned again.
    #[test]
    fn pruning_keeps_preserved_unknown_fields() {
        check(
            &json!({"type": "object", "properties": {"spec": {"type": "object",
                "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "child": {"type": "object", "properties": {"a": {"type": "string"}}}}}}}),
            json!({"spec": {"free": {"x": [1]}, "child": {"a": "", "b": 1}}}),
            &json!({"spec": {"free": {"x": [1]}, "child": {"a": ""}}}),
            &["spec.child.b"],
        );
    }

    #[test]
    fn pruning_keeps_embedded_resource_metadata() {
        check(
            &json!({"type": "object", "properties": {"t": {"type": "object",
                "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object"}}}}}),
            json!({"t": {"kind": "P", "metadata": {"name": "n"}, "spec": {"a": 1}, "x": 1}}),
            &json!({"t": {"kind": "P", "metadata": {"name": "n"}, "spec": {}}}),
            &["t.spec.a", "t.x"],
        );
    }
}
