//! Declared types: what CEL expressions see of an OpenAPI schema (upstream: `DeclType`).
//!
//! A [`DeclType`] gives both the type that an expression is checked against, and how the JSON of an
//! object is read at run time (a `date-time` is a timestamp, `2` in a `number` field is 2.0).

use crate::types::CelType;
use std::sync::Arc;

/// The request size limit; sizes that the schema does not bound are estimated from it.
pub const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The type that a schema declares for one value.
#[derive(Clone, Debug)]
pub struct DeclType {
    pub kind: DeclKind,
    /// The largest number of items, members, characters or bytes.
    pub elements_max: u64,
    /// The fewest bytes that its JSON encoding has.
    pub bytes_min: u64,
    pub nullable: bool,
}

#[derive(Clone, Debug)]
pub enum DeclKind {
    /// The schema gives no type.
    Any,
    /// An integer or a string (`x-kubernetes-int-or-string`); the type is known at run time only.
    IntOrString,
    Bool,
    Int,
    Double,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    List {
        items: Arc<DeclType>,
        list_type: CelListType,
    },
    Map(Arc<DeclType>),
    Object(Arc<ObjectDecl>),
}

/// How two lists are compared and joined (`x-kubernetes-list-type`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CelListType {
    Atomic,
    Set,
    /// The fields that identify an item (`x-kubernetes-list-map-keys`).
    Map(Arc<[Box<str>]>),
}

/// The fields of an object.
#[derive(Debug)]
pub struct ObjectDecl {
    /// The type name in error messages.
    pub name: String,
    /// Sorted by [`DeclField::name`].
    pub fields: Vec<DeclField>,
}

#[derive(Debug)]
pub struct DeclField {
    /// The name in expressions: `my__dash__field`.
    pub name: Box<str>,
    /// The name in JSON: `my-field`.
    pub key: Box<str>,
    pub shape: DeclType,
}

impl ObjectDecl {
    #[must_use]
    pub fn new(name: String, mut fields: Vec<DeclField>) -> Self {
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        Self { name, fields }
    }

    #[must_use]
    pub fn field(&self, name: &str) -> Option<&DeclField> {
        let at = self
            .fields
            .binary_search_by(|field| field.name.as_ref().cmp(name));
        at.ok().map(|at| &self.fields[at])
    }

    pub(crate) fn field_by_json_name(&self, key: &str) -> Option<&DeclField> {
        self.field(key)
            .filter(|field| *field.key == *key)
            .or_else(|| self.fields.iter().find(|field| *field.key == *key))
    }
}

impl DeclType {
    #[must_use]
    pub fn type_of(&self) -> CelType {
        match &self.kind {
            DeclKind::Any | DeclKind::IntOrString => CelType::Dyn,
            DeclKind::Bool => CelType::Bool,
            DeclKind::Int => CelType::Int,
            DeclKind::Double => CelType::Double,
            DeclKind::String => CelType::String,
            DeclKind::Bytes => CelType::Bytes,
            DeclKind::Duration => CelType::Duration,
            DeclKind::Date | DeclKind::DateTime => CelType::Timestamp,
            DeclKind::List { items, .. } => CelType::list(items.type_of()),
            DeclKind::Map(values) => CelType::map(CelType::String, values.type_of()),
            DeclKind::Object(object) => CelType::Object(Arc::clone(object)),
        }
    }

    pub(crate) fn item(&self) -> Option<&Self> {
        match &self.kind {
            DeclKind::List { items, .. } => Some(items),
            _ => None,
        }
    }

    /// The size limit of the value at the end of a path: `["spec", "@items", "name"]`.
    pub(crate) fn size_at(&self, path: &[SchemaStep]) -> Option<u64> {
        let Some((step, rest)) = path.split_first() else {
            return Some(self.elements_max);
        };
        match (step, &self.kind) {
            (SchemaStep::Items | SchemaStep::Values, DeclKind::List { items, .. }) => {
                items.size_at(rest)
            }
            (SchemaStep::Items | SchemaStep::Values, DeclKind::Map(values)) => values.size_at(rest),
            (SchemaStep::Keys, DeclKind::Map(_)) if rest.is_empty() => Some(0),
            (SchemaStep::Field(name), DeclKind::Object(object)) => {
                object.field(name)?.shape.size_at(rest)
            }
            _ => None,
        }
    }
}

/// One step of a path through declared types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SchemaStep {
    Items,
    Keys,
    Values,
    Indices,
    Field(Box<str>),
}

const RESERVED: &[&str] = &[
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Escapes a property name for use in expressions; `None` if it cannot be used in them.
#[must_use]
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => out.push(c),
            _ => return None,
        }
        rest = &rest[c.len_utf8()..];
    }
    Some(out)
}

/// The property name behind an escaped name.
#[must_use]
pub fn unescape(name: &str) -> Option<String> {
    if let Some(inner) = name.strip_prefix("__").and_then(|n| n.strip_suffix("__"))
        && RESERVED.contains(&inner)
    {
        return Some(inner.to_owned());
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    'next: while !rest.is_empty() {
        for (escaped, plain) in [
            ("__underscores__", "__"),
            ("__dot__", "."),
            ("__dash__", "-"),
            ("__slash__", "/"),
        ] {
            if let Some(after) = rest.strip_prefix(escaped) {
                out.push_str(plain);
                rest = after;
                continue 'next;
            }
        }
        let c = rest.chars().next()?;
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_names_escape_and_unescape() {
        for (name, expected) in [
            ("a", Some("a")),
            ("a_b", Some("a_b")),
            ("a__b", Some("a__underscores__b")),
            ("___", Some("__underscores___")),
            ("a.b-c/d", Some("a__dot__b__dash__c__slash__d")),
            ("namespace", Some("__namespace__")),
            ("while", Some("__while__")),
            ("namespaces", Some("namespaces")),
            ("1a", None),
            ("", None),
            ("a$", None),
            ("ä", None),
        ] {
            assert_eq!(escape(name).as_deref(), expected, "{name}");
            if let Some(escaped) = expected {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        }
    }
}
