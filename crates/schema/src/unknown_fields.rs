//! Unknown fields of typed objects: listing them for strict decoding, and pruning.

use crate::schema::TypeRef;
use crate::type_node::{TypeNode, UnknownFields};
use optik_object::Value;
use std::fmt::Write;

/// The maximum number of unknown fields that are listed.
const UNKNOWN_FIELDS_MAX: usize = 100;

/// The paths of undeclared members, such as `spec.template.spec.containers[0].imagee`, sorted by
/// name on each level; at most a hundred.
#[must_use]
pub fn unknown_fields(of: TypeRef<'_>, value: &Value) -> Vec<String> {
    let mut names = UnknownFieldCollector::default();
    names.visit(of, value);
    names.found
}

#[derive(Default)]
struct UnknownFieldCollector {
    path: String,
    found: Vec<String>,
}

impl UnknownFieldCollector {
    fn visit(&mut self, of: TypeRef<'_>, value: &Value) {
        match (of.node(), value) {
            (TypeNode::Struct(structure), Value::Object(members)) => {
                for (name, member) in members {
                    self.member(name, |names| match structure.field(name) {
                        Some(field) => names.visit(of.at(field.of), member),
                        None if structure.unknown == UnknownFields::Refused => names.note(),
                        None => {}
                    });
                }
            }
            (TypeNode::Map(map), Value::Object(members)) => {
                for (name, member) in members {
                    self.member(name, |names| names.visit(of.at(map.value), member));
                }
            }
            (TypeNode::List(list), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.item(index, |names| names.visit(of.at(list.of), item));
                }
            }
            _ => {}
        }
    }

    fn member(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        visit(self);
        self.path.truncate(length);
    }

    fn item(&mut self, index: usize, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        // Writing to a string cannot fail.
        let _ = write!(self.path, "[{index}]");
        visit(self);
        self.path.truncate(length);
    }

    fn note(&mut self) {
        if self.found.len() < UNKNOWN_FIELDS_MAX {
            self.found.push(self.path.clone());
        }
    }
}

/// Drops undeclared members.
pub fn prune(of: TypeRef<'_>, value: &mut Value) {
    match (of.node(), value) {
        (TypeNode::Struct(structure), Value::Object(members)) => {
            if structure.unknown == UnknownFields::Refused {
                members.retain(|name, _| structure.field(name).is_some());
            }
            for (name, member) in members {
                if let Some(field) = structure.field(name) {
                    prune(of.at(field.of), member);
                }
            }
        }
        (TypeNode::Map(map), Value::Object(members)) => {
            for (_, member) in members {
                prune(of.at(map.value), member);
            }
        }
        (TypeNode::List(list), Value::Array(items)) => {
            for item in items {
                prune(of.at(list.of), item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin_type;
    use crate::schema::Schema;
    use serde_json::json;

    #[test]
    fn unknown_fields_are_reported_and_pruned() {
        let deployment = builtin_type("apps", "v1", "Deployment").unwrap();
        let mut value = json!({
            "Metadata": {}, "metadata": {"labels": {"anything": "goes"}, "bogus": 1},
            "spec": {"template": {"spec": {"containers": [
                {"name": "a"}, {"name": "b", "imagee": "i", "env": [{"valu": null}]},
            ]}}},
        });
        let unknown = [
            "Metadata",
            "metadata.bogus",
            "spec.template.spec.containers[1].env[0].valu",
            "spec.template.spec.containers[1].imagee",
        ];
        assert_eq!(unknown_fields(deployment, &value), unknown);
        prune(deployment, &mut value);
        assert_eq!(unknown_fields(deployment, &value), [""; 0]);
        assert_eq!(value["metadata"]["labels"]["anything"], "goes");
        assert_eq!(
            value["spec"]["template"]["spec"]["containers"][1]["env"],
            json!([{}])
        );
    }

    #[test]
    fn preserved_unknown_fields_are_kept_and_not_reported() {
        let schema = Schema::parse("=A\n kept @1\n free u\n raw r\n=B ?\n a @0").unwrap();
        let value = json!({
            "kept": {"x": {"y": 1}, "a": {"z": 1}}, "free": {"x": 1}, "raw": {"x": [1]},
        });
        assert_eq!(unknown_fields(schema.root(), &value), ["kept.a.z"]);
        let mut pruned = value.clone();
        prune(schema.root(), &mut pruned);
        let expected = json!({
            "kept": {"x": {"y": 1}, "a": {}}, "free": {"x": 1}, "raw": {"x": [1]},
        });
        assert_eq!(pruned, expected);
    }

    #[test]
    fn unknown_field_report_is_bounded() {
        let schema = Schema::parse("=A\n a s").unwrap();
        let members = (0..1000).map(|n| (n.to_string(), Value::Null));
        let value = Value::Object(members.collect());
        assert_eq!(
            unknown_fields(schema.root(), &value).len(),
            UNKNOWN_FIELDS_MAX
        );
    }
}
