//! Validation of an object against its type, for apply.

use super::shape::{ListShape, MapShape, MemberType, ValueShape, root, shape};
use crate::fieldset::PathElement;
use crate::go;
use optik_object::{Map, Value, quote};
use optik_schema::{Scalar, TypeRef};
use std::collections::BTreeSet;
use std::fmt;

/// The maximum number of errors that are reported.
const PROBLEMS_MAX: usize = 100;

/// Whether lists may have items with the same identity. Updates may create them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateItems {
    Refused,
    Allowed,
}

/// The errors: paths and texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors(Vec<(String, String)>);

impl std::error::Error for ValidationErrors {}

/// A single error on one line, several as a list.
impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [(path, text)] = &self.0[..] {
            return write!(f, "{path}: {text}");
        }
        f.write_str("errors:")?;
        for (path, text) in &self.0 {
            write!(f, "\n  {path}: {text}")?;
        }
        Ok(())
    }
}

/// Checks an object against its type.
pub fn validate(
    of: TypeRef<'_>,
    object: &Map,
    duplicates: DuplicateItems,
) -> Result<(), ValidationErrors> {
    let mut walk = TypeValidator {
        duplicates,
        problems: Vec::new(),
    };
    walk.members(root(of), object, &ValidationPath::Root);
    if walk.problems.is_empty() {
        Ok(())
    } else {
        Err(ValidationErrors(walk.problems))
    }
}

/// A path, rendered only for errors.
enum ValidationPath<'p> {
    Root,
    Member(&'p ValidationPath<'p>, &'p str),
    Item(&'p ValidationPath<'p>, &'p PathElement),
}

impl fmt::Display for ValidationPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValidationPath::Root => Ok(()),
            ValidationPath::Member(parent, name) => write!(f, "{parent}.{name}"),
            ValidationPath::Item(parent, element) => write!(f, "{parent}{element}"),
        }
    }
}

struct TypeValidator {
    duplicates: DuplicateItems,
    problems: Vec<(String, String)>,
}

impl TypeValidator {
    fn add_error(&mut self, path: &ValidationPath<'_>, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push((path.to_string(), text));
        }
    }

    fn visit(&mut self, of: TypeRef<'_>, value: &Value, path: &ValidationPath<'_>) {
        if value.is_null() {
            return;
        }
        match shape(of, Some(value)) {
            ValueShape::Scalar(scalar) => {
                if let Some(text) = scalar_mismatch(scalar, value) {
                    self.add_error(path, text);
                }
            }
            ValueShape::List(list) => self.list(list, value, path),
            ValueShape::Map(map) => self.map(map, value, path),
        }
    }

    fn map(&mut self, map: MapShape<'_>, value: &Value, path: &ValidationPath<'_>) {
        match value {
            Value::Object(members) => self.members(map, members, path),
            _ => self.add_error(path, format!("expected map, got &{{{}}}", go::print(value))),
        }
    }

    fn members(&mut self, map: MapShape<'_>, members: &Map, path: &ValidationPath<'_>) {
        for (name, value) in members {
            let path = ValidationPath::Member(path, name);
            match map.member(name) {
                // As upstream, the rest of this object is not checked.
                MemberType::Undeclared(_) => {
                    return self.add_error(&path, "field not declared in schema".into());
                }
                member => self.visit(member.type_ref(), value, &path),
            }
        }
    }

    fn list(&mut self, list: ListShape<'_>, value: &Value, path: &ValidationPath<'_>) {
        let Value::Array(items) = value else {
            return self.add_error(
                path,
                format!("expected list, got &{{{}}}", go::print(value)),
            );
        };
        let mut seen = BTreeSet::new();
        for (index, item) in (0_i64..).zip(items) {
            let element = if list.is_atomic() {
                PathElement::Index(index)
            } else {
                match list.identity(item) {
                    Ok(element) => element,
                    Err(text) => return self.add_error(path, format!("element {index}: {text}")),
                }
            };
            self.visit(list.of, item, &ValidationPath::Item(path, &element));
            if !list.is_atomic() && self.duplicates == DuplicateItems::Refused {
                let text = seen
                    .contains(&element)
                    .then(|| format!("duplicate entries for key {element}"));
                if let Some(text) = text {
                    self.add_error(path, text);
                }
                seen.insert(element);
            }
        }
    }
}

fn scalar_mismatch(scalar: Option<Scalar>, value: &Value) -> Option<String> {
    match scalar {
        Some(Scalar::Int32 | Scalar::Int64 | Scalar::Number) if !value.is_number() => {
            let found = go::type_name(value);
            Some(format!("expected numeric (int or float), got {found}"))
        }
        Some(Scalar::String | Scalar::Bytes) if !value.is_string() => {
            let value = go_syntax(value);
            Some(format!(
                "expected string, got &value.valueUnstructured{{Value:{value}}}"
            ))
        }
        Some(Scalar::Boolean) if !value.is_boolean() => {
            Some(format!("expected boolean, got &{{{}}}", go::print(value)))
        }
        _ if value.is_array() || value.is_object() => Some(format!(
            "expected any scalar, got &{{{}}}",
            go::print(value)
        )),
        _ => None,
    }
}

/// Prints a value as `%#v` does.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| format!("{}:{}", quote(name), go_syntax(member)));
            let members: Vec<String> = members.collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => go::print(scalar),
    }
}
