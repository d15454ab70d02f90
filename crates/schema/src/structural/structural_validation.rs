//! Validation that a CRD schema is structural: every field is declared once, outside of junctors.

use super::node::{Junctors, SchemaTypeName, Structural};
use super::structural_path::StructuralPath;
use optik_object::FieldError;

/// Returns the sorted errors. `path` is the path of the schema in its CRD.
#[must_use]
pub fn check_structural(schema: &Structural, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = StructuralPath::root(path);
    check_invariants(schema, SchemaLevel::Root, &at, &mut errors);
    if let Some(junctors) = schema.junctors() {
        check_completeness(junctors, schema, &at, &at, &mut errors);
    }
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// The position of a schema: the root, the items of a list, or the value of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

fn check_invariants(
    node: &Structural,
    level: SchemaLevel,
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    if node.type_name == SchemaTypeName::Array
        && node.items.is_none()
        && !node.disallowed_keywords().items_is_array
    {
        let path = at.member("items").render();
        errors.push(FieldError::required(path, "must be specified"));
    }
    if let Some(items) = &node.items {
        check_invariants(items, SchemaLevel::Item, &at.member("items"), errors);
    }
    let of_properties = at.member("properties");
    for (name, child) in &node.properties {
        check_invariants(child, SchemaLevel::Field, &of_properties.key(name), errors);
    }
    if node.additional().is_some() {
        let at = at.member("additionalProperties");
        if level == SchemaLevel::Root {
            let text = "must not be used at the root";
            errors.push(FieldError::forbidden(at.render(), text));
        }
        if let Some(of) = node.additional_schema() {
            check_invariants(of, SchemaLevel::Field, &at, errors);
        }
    }
    check_extensions(node, at, errors);
    let exceptions = int_or_string_exceptions(node);
    check_value_validation(node, exceptions, at, errors);
    check_types(node, level, at, errors);
    check_resource_members(node, level, at, errors);
}

fn check_extensions(node: &Structural, at: &StructuralPath<'_>, errors: &mut Vec<FieldError>) {
    for (given, name) in [
        (node.preserve, "x-kubernetes-preserve-unknown-fields"),
        (node.embedded, "x-kubernetes-embedded-resource"),
    ] {
        if node.int_or_string && given {
            let path = at.member(name).render();
            let text = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(path, true, text));
        }
    }
}

fn check_types(
    node: &Structural,
    level: SchemaLevel,
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let path = || at.member("type").render();
    let given = node.type_name.as_str();
    if node.embedded && node.type_name != SchemaTypeName::Object {
        let text = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match given {
            "" => FieldError::required(path(), text),
            given => FieldError::invalid(path(), given, text),
        });
    } else if given.is_empty() && !node.int_or_string && !node.preserve {
        let text = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(path(), text));
    }
    if node.embedded && node.additional().is_some() {
        let path = at.member("additionalProperties").render();
        let text = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(path, text));
    }
    if level == SchemaLevel::Root
        && !matches!(
            node.type_name,
            SchemaTypeName::Object | SchemaTypeName::Unset
        )
    {
        let text = "must be object at the root";
        errors.push(FieldError::invalid(path(), given, text));
    }
}

/// The schema of metadata can restrict only the names; apiVersion and kind must be strings.
fn check_resource_members(
    node: &Structural,
    level: SchemaLevel,
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let is_resource = level == SchemaLevel::Root || node.embedded;
    let of_properties = at.member("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(child) = node.property(name)
            && is_resource
            && child.type_name != SchemaTypeName::String
        {
            let path = of_properties.key(name).member("type").render();
            let given = child.type_name.as_str();
            errors.push(FieldError::invalid(path, given, "must be string"));
        }
    }
    if let Some(metadata) = node.property("metadata") {
        let at = of_properties.key("metadata");
        if is_resource && metadata.type_name != SchemaTypeName::Object {
            let path = at.member("type").render();
            let given = metadata.type_name.as_str();
            errors.push(FieldError::invalid(path, given, "must be object"));
        }
        if level == SchemaLevel::Root && !restricts_names_only(metadata) {
            let text = "must not specify anything other than name and generateName, but metadata \
                        is implicitly specified";
            errors.push(FieldError::forbidden(at.render(), text));
        }
    }
    if node.embedded && !node.preserve && node.properties.is_empty() {
        let path = at.member("properties").render();
        let text = "must not be empty if x-kubernetes-embedded-resource is true without \
                    x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(path, text));
    }
}

fn restricts_names_only(metadata: &Structural) -> bool {
    let mut names = metadata.properties.iter().map(|(name, _)| &**name);
    let odd = metadata.disallowed_keywords();
    names.all(|name| matches!(name, "name" | "generateName"))
        && metadata.items.is_none()
        && metadata.additional().is_none()
        && metadata
            .value_validation
            .as_ref()
            .is_none_or(|checks| has_no_effect(checks))
        && !(metadata.nullable || metadata.int_or_string)
        && !(metadata.embedded || metadata.preserve || odd.external_docs || odd.example)
        && !(metadata.has_title || metadata.has_description)
        && metadata.list_type_text().is_none()
        && metadata.map_type().is_none()
        && metadata.rules().is_empty()
}

/// Whether no keyword is set to a value that has an effect.
fn has_no_effect(checks: &super::node::ValueValidation) -> bool {
    let bounds = [checks.maximum, checks.minimum, checks.multiple_of];
    let counts = [
        checks.max_length,
        checks.min_length,
        checks.max_items,
        checks.min_items,
        checks.max_properties,
        checks.min_properties,
    ];
    bounds.iter().all(Option::is_none)
        && counts.iter().all(Option::is_none)
        && checks.format.is_empty()
        && checks.pattern.is_none()
        && checks.enumeration.is_empty()
        && checks.required.is_empty()
        && checks.junctors.is_none()
        && !(checks.unique_items || checks.exclusive_maximum || checks.exclusive_minimum)
}

/// The two allowed ways to spell out the types of an int-or-string.
#[derive(Clone, Copy, Default)]
struct IntOrStringExceptions {
    any_of: bool,
    first_of_all: bool,
}

fn int_or_string_exceptions(node: &Structural) -> IntOrStringExceptions {
    let Some(junctors) = node.junctors() else {
        return IntOrStringExceptions::default();
    };
    let first = junctors.all_of.first().and_then(Structural::junctors);
    IntOrStringExceptions {
        any_of: is_integer_or_string(&junctors.any_of),
        first_of_all: first.is_some_and(|first| is_integer_or_string(&first.any_of)),
    }
}

fn is_integer_or_string(branches: &[Structural]) -> bool {
    let [first, second] = branches else {
        return false;
    };
    let bare = |node: &Structural, type_name: SchemaTypeName| {
        node.type_name == type_name && node.value_validation.is_none() && node.rare.is_none()
    };
    bare(first, SchemaTypeName::Integer) && bare(second, SchemaTypeName::String)
}

fn check_value_validation(
    node: &Structural,
    except: IntOrStringExceptions,
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(checks) = &node.value_validation else {
        return;
    };
    if let Some(junctors) = checks.junctors.as_deref() {
        if !except.any_of {
            check_branches(&junctors.any_of, at.member("anyOf"), errors);
        }
        let all_of = at.member("allOf");
        for (index, branch) in junctors.all_of.iter().enumerate() {
            let except = IntOrStringExceptions {
                any_of: except.first_of_all && index == 0,
                first_of_all: false,
            };
            check_nested_value_validation(branch, except, &all_of.index(index), errors);
        }
        check_branches(&junctors.one_of, at.member("oneOf"), errors);
        if let Some(not) = &junctors.not {
            check_nested_value_validation(
                not,
                IntOrStringExceptions::default(),
                &at.member("not"),
                errors,
            );
        }
    }
    if let Some(pattern) = &checks.pattern
        && let Some(problem) = pattern.problem()
    {
        let path = at.member("pattern").render();
        let text = format!("must be a valid regular expression, but isn't: {problem}");
        errors.push(FieldError::invalid(path, pattern.source(), text));
    }
}

fn check_branches(list: &[Structural], at: StructuralPath<'_>, errors: &mut Vec<FieldError>) {
    for (index, branch) in list.iter().enumerate() {
        check_nested_value_validation(
            branch,
            IntOrStringExceptions::default(),
            &at.index(index),
            errors,
        );
    }
}

/// Checks a schema in a junctor: it may only validate values, not declare anything.
fn check_nested_value_validation(
    node: &Structural,
    except: IntOrStringExceptions,
    at: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    check_value_validation(node, except, at, errors);
    if let Some(items) = &node.items {
        check_nested_value_validation(
            items,
            IntOrStringExceptions::default(),
            &at.member("items"),
            errors,
        );
    }
    let of_properties = at.member("properties");
    for (name, child) in &node.properties {
        check_nested_value_validation(
            child,
            IntOrStringExceptions::default(),
            &of_properties.key(name),
            errors,
        );
    }
    for (given, name, text) in [
        (!node.type_name.as_str().is_empty(), "type", EMPTY),
        (
            node.additional().is_some(),
            "additionalProperties",
            UNDEFINED,
        ),
        (node.default_value().is_some(), "default", UNDEFINED),
        (node.has_title, "title", EMPTY),
        (node.has_description, "description", EMPTY),
        (node.nullable, "nullable", FALSE),
        (node.preserve, "x-kubernetes-preserve-unknown-fields", FALSE),
        (node.embedded, "x-kubernetes-embedded-resource", FALSE),
        (node.int_or_string, "x-kubernetes-int-or-string", FALSE),
        (
            !node.list_keys().is_empty(),
            "x-kubernetes-list-map-keys",
            EMPTY,
        ),
        (
            node.list_type_text().is_some(),
            "x-kubernetes-list-type",
            UNDEFINED,
        ),
        (
            node.map_type().is_some(),
            "x-kubernetes-map-type",
            UNDEFINED,
        ),
        (!node.rules().is_empty(), "x-kubernetes-validations", EMPTY),
    ] {
        if given {
            errors.push(FieldError::forbidden(at.member(name).render(), text));
        }
    }
    if node.property("metadata").is_some() {
        let path = of_properties.key("metadata").render();
        let text = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(path, text));
    }
}

/// Checks that every field in a junctor is declared outside of it.
fn check_completeness(
    junctors: &Junctors,
    declared: &Structural,
    outside: &StructuralPath<'_>,
    inside: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = &junctors.not {
        check_branch_completeness(not, declared, outside, &inside.member("not"), errors);
    }
    for (name, list) in [
        ("allOf", &junctors.all_of),
        ("anyOf", &junctors.any_of),
        ("oneOf", &junctors.one_of),
    ] {
        let at = inside.member(name);
        for (index, branch) in list.iter().enumerate() {
            check_branch_completeness(branch, declared, outside, &at.index(index), errors);
        }
    }
}

fn check_branch_completeness(
    branch: &Structural,
    declared: &Structural,
    outside: &StructuralPath<'_>,
    inside: &StructuralPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let missing = |outside: &StructuralPath<'_>,
                   inside: &StructuralPath<'_>,
                   errors: &mut Vec<FieldError>| {
        let text = format!("because it is defined in {}", inside.render());
        errors.push(FieldError::required(outside.render(), text));
    };
    if let Some(junctors) = branch.junctors() {
        check_completeness(junctors, declared, outside, inside, errors);
    }
    if let Some(items) = &branch.items {
        let (outside, inside) = (outside.member("items"), inside.member("items"));
        match &declared.items {
            Some(declared) => check_branch_completeness(items, declared, &outside, &inside, errors),
            None => missing(&outside, &inside, errors),
        }
    }
    let (outside, inside) = (outside.member("properties"), inside.member("properties"));
    for (name, child) in &branch.properties {
        let (outside, inside) = (outside.key(name), inside.key(name));
        match declared.property(name) {
            Some(declared) => check_branch_completeness(child, declared, &outside, &inside, errors),
            None => missing(&outside, &inside, errors),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(schema: &Value, expected: &[&str]) {
        let errors = check_structural(&Structural::from_json(schema), "s");
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{schema}");
    }

    /// EXT-6, EXT-9, EXT-10.
    #[test]
    fn non_structural_schemas_are_refused() {
        check(
            &json!({}),
            &["s.type: Required value: must not be empty at the root"],
        );
        check(
            &json!({"type": "array", "items": {}}),
            &[
                "s.items.type: Required value: must not be empty for specified array items",
                "s.type: Invalid value: \"array\": must be object at the root",
            ],
        );
        check(
            &json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            &["s.properties[a].items: Required value: must be specified"],
        );
        check(
            &json!({"type": "object", "properties": {"a": {"type": "string",
                "anyOf": [{"type": "string", "minLength": 1}]}}}),
            &["s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        );
        check(
            &json!({"type": "object", "anyOf": [{"properties": {"b": {"minLength": 1}}}]}),
            &["s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]"],
        );
        check(
            &json!({"type": "object", "properties": {"metadata": {"type": "object",
                "properties": {"labels": {"type": "object"}}}}}),
            &[
                "s.properties[metadata]: Forbidden: must not specify anything other than name and \
                 generateName, but metadata is implicitly specified",
            ],
        );
        check(
            &json!({"type": "object", "additionalProperties": {"type": "string"}}),
            &["s.additionalProperties: Forbidden: must not be used at the root"],
        );
    }

    #[test]
    fn structural_schemas_are_accepted() {
        check(
            &json!({"type": "object", "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string",
                    "maxLength": 5}}},
                "a": {"x-kubernetes-int-or-string": true,
                    "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "b": {"x-kubernetes-int-or-string": true, "allOf": [
                    {"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"minLength": 1}]},
                "c": {"x-kubernetes-preserve-unknown-fields": true},
                "d": {"type": "string", "oneOf": [{"pattern": "^a"}, {"enum": ["b"]}]},
            }, "oneOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"d": {
                "pattern": "^a"}}}]}),
            &[],
        );
    }
}
