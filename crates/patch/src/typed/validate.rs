//! Is a configuration one that can be applied?

use super::shape::{ListShape, MapShape, Member, Shape, root, shape};
use crate::fieldset::PathElement;
use crate::go;
use optik_object::{Map, Value, quote};
use optik_schema::{Scalar, Type};
use std::collections::BTreeSet;
use std::fmt;

/// Nobody reads more.
const PROBLEMS_MAX: usize = 100;

/// Whether lists may have two items of one identity. Updates may bring them about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    Refused,
    Allowed,
}

/// Everything that is wrong: paths and texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid(Vec<(String, String)>);

impl std::error::Error for Invalid {}

/// One in a line, several in a list.
impl fmt::Display for Invalid {
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
pub fn validate(of: Type<'_>, object: &Map, duplicates: Duplicates) -> Result<(), Invalid> {
    let mut walk = Walk {
        duplicates,
        problems: Vec::new(),
    };
    walk.members(root(of), object, &Path::Root);
    if walk.problems.is_empty() {
        Ok(())
    } else {
        Err(Invalid(walk.problems))
    }
}

/// Printed only if something is wrong.
enum Path<'p> {
    Root,
    Member(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, &'p PathElement),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Member(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, element) => write!(f, "{parent}{element}"),
        }
    }
}

struct Walk {
    duplicates: Duplicates,
    problems: Vec<(String, String)>,
}

impl Walk {
    fn note(&mut self, path: &Path<'_>, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push((path.to_string(), text));
        }
    }

    fn visit(&mut self, of: Type<'_>, value: &Value, path: &Path<'_>) {
        if value.is_null() {
            return;
        }
        match shape(of, Some(value)) {
            Shape::Scalar(scalar) => {
                if let Some(text) = misfit(scalar, value) {
                    self.note(path, text);
                }
            }
            Shape::List(list) => self.list(list, value, path),
            Shape::Map(map) => self.map(map, value, path),
        }
    }

    fn map(&mut self, map: MapShape<'_>, value: &Value, path: &Path<'_>) {
        match value {
            Value::Object(members) => self.members(map, members, path),
            _ => self.note(path, format!("expected map, got &{{{}}}", go::print(value))),
        }
    }

    fn members(&mut self, map: MapShape<'_>, members: &Map, path: &Path<'_>) {
        for (name, value) in members {
            let path = Path::Member(path, name);
            match map.member(name) {
                // As upstream, the rest of this object goes unchecked.
                Member::Undeclared(_) => {
                    return self.note(&path, "field not declared in schema".into());
                }
                member => self.visit(member.of(), value, &path),
            }
        }
    }

    fn list(&mut self, list: ListShape<'_>, value: &Value, path: &Path<'_>) {
        let Value::Array(items) = value else {
            return self.note(
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
                    Err(text) => return self.note(path, format!("element {index}: {text}")),
                }
            };
            self.visit(list.of, item, &Path::Item(path, &element));
            if !list.is_atomic() && self.duplicates == Duplicates::Refused {
                let text = seen
                    .contains(&element)
                    .then(|| format!("duplicate entries for key {element}"));
                if let Some(text) = text {
                    self.note(path, text);
                }
                seen.insert(element);
            }
        }
    }
}

fn misfit(scalar: Option<Scalar>, value: &Value) -> Option<String> {
    match scalar {
        Some(Scalar::Int32 | Scalar::Int64 | Scalar::Number) if !value.is_number() => {
            let found = go::type_name(value);
            Some(format!("expected numeric (int or float), got {found}"))
        }
        Some(Scalar::String | Scalar::Bytes) if !value.is_string() => {
            let value = in_go(value);
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

/// A value as `%#v` prints it.
fn in_go(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(in_go).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(name, member)| format!("{}:{}", quote(name), in_go(member)));
            let members: Vec<String> = members.collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => go::print(scalar),
    }
}
