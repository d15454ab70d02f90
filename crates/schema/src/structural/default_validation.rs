//! Validation of the defaults in a CRD schema: each must be valid at its own position.

use super::embedded;
use super::node::Structural;
use super::pruning::prune_structural;
use super::rules::{OBJECT_COST_MAX, RuleTree};
use super::structural_path::StructuralPath;
use super::validate::{ValidationOptions, validate};
use optik_object::{FieldError, Value};

/// Validates the defaults of a schema. `pruned`: they must not have undeclared members.
#[must_use]
pub fn check_defaults(schema: &Structural, path: &str, pruned: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(
        schema,
        true,
        &StructuralPath::root(path),
        pruned,
        &mut errors,
    );
    errors
}

fn visit(
    node: &Structural,
    resource: bool,
    at: &StructuralPath<'_>,
    pruned: bool,
    errors: &mut Vec<FieldError>,
) {
    if let Some(default) = node.default_value() {
        let path = at.member("default").render();
        if pruned {
            let mut cut = default.clone();
            prune_structural(node, &mut cut, node.embedded);
            if cut != *default {
                let text = "must not have unknown fields";
                errors.push(FieldError::invalid(path.clone(), default.clone(), text));
            }
        }
        let mut found = Vec::new();
        embedded::visit(node, default, &StructuralPath::root(&path), &mut found);
        if found.is_empty() {
            let how = ValidationOptions {
                base: &path,
                old: None,
            };
            found = validate(node, default, how);
        }
        if found.is_empty() {
            found = broken_rules(node, default, resource, &path);
        }
        errors.extend(found);
    }
    if let Some(items) = &node.items {
        visit(items, items.embedded, &at.member("items"), pruned, errors);
    }
    let of_properties = at.member("properties");
    for (name, child) in &node.properties {
        // Defaults of `metadata`, `apiVersion` and `kind` are checked elsewhere.
        let metadata = resource && matches!(&**name, "metadata" | "apiVersion" | "kind");
        if !metadata {
            visit(
                child,
                child.embedded,
                &of_properties.key(name),
                pruned,
                errors,
            );
        }
    }
}

/// The failures of the CEL rules for a default, which is checked both as an unchanged value and as
/// a new one.
fn broken_rules(node: &Structural, default: &Value, resource: bool, path: &str) -> Vec<FieldError> {
    let Some(rules) = RuleTree::compile_at(node, resource) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for old in [Some(default), None] {
        if found.is_empty() {
            found = rules
                .run(node, (default, old), path, false, OBJECT_COST_MAX)
                .errors;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// EXT-11.
    #[test]
    fn schema_defaults_must_validate_in_place() {
        let schema = Structural::from_json(&json!({"type": "object", "properties": {
            "a": {"type": "object", "default": {"x": 1}},
            "b": {"type": "string", "default": 5},
            "c": {"type": "object", "default": {"n": 7}, "properties": {
                "n": {"type": "integer", "maximum": 5}}},
            "d": {"type": "integer", "default": 5},
        }}));
        let errors = check_defaults(&schema, "s", true);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let expected = [
            "s.properties[a].default: Invalid value: {\"x\":1}: must not have unknown fields",
            "s.properties[b].default: Invalid value: \"integer\":  in body must be of type \
             string: \"integer\"",
            "s.properties[c].default.n: Invalid value: 7: n in body should be less than or equal \
             to 5",
        ];
        assert_eq!(texts, expected);
    }
}
