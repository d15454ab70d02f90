//! The protobuf message table: the descriptors of messages and fields, and their text format.
//!
//! One line each, messages followed by their fields:
//!
//! ```text
//! = apps/v1 Deployment apps/v1.Deployment   a kind and its message; `*` for any version
//! : apps/v1.Deployment                      a message of fields
//! : util/intstr.IntOrString int-or-string   a message with its own JSON mapping
//! 2 spec apps/v1.DeploymentSpec             number, flags, JSON name, type
//! 1*? replicas int32
//! ```
//!
//! Flags: `*` pointer, `[` list, `{` map with string keys, `^` inlined in the JSON of the enclosing
//! message, `?` omitted from JSON when empty.

use crate::json::JsonView;
use std::collections::BTreeMap;

/// The index of a message in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageId(u16);

/// The messages of a set of kinds.
#[derive(Debug)]
pub struct MessageTable {
    messages: Vec<MessageDescriptor>,
    kinds: BTreeMap<(&'static str, &'static str), MessageId>,
}

#[derive(Debug)]
pub struct MessageDescriptor {
    pub name: &'static str,
    pub json_mapping: JsonMapping,
    /// Sorted by number.
    pub fields: Vec<FieldDescriptor>,
    /// Indices into `fields`, sorted by name.
    by_name: Vec<u16>,
}

/// How a message is written in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonMapping {
    /// An object with the fields as members.
    Object,
    /// RFC 3339 with seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    Quantity,
    IntOrString,
    /// Any JSON; on the wire its text.
    Raw,
    /// A list of strings.
    Strings,
    Schema(JsonSchemaOr, MessageId),
}

/// The alternative to a schema in a CRD schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonSchemaOr {
    Bool,
    Schemas,
    Strings,
}

#[derive(Debug)]
pub struct FieldDescriptor {
    pub number: u32,
    pub name: &'static str,
    pub kind: FieldType,
    pub cardinality: FieldCardinality,
    /// Omitted from JSON when empty; a pointer or a list when missing.
    pub omit_empty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldType {
    Bool,
    Int32,
    Int64,
    Double,
    Text,
    Bytes,
    Message(MessageId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldCardinality {
    Plain,
    Pointer,
    List,
    Map,
    /// A message whose members are inlined in the JSON of the enclosing message.
    Inline,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("message table line {line}: {problem}")]
pub struct MessageTableError {
    pub line: usize,
    pub problem: &'static str,
}

/// The apiVersion under which the kinds of every group are listed.
const ANY_VERSION: &str = "*";

impl MessageTable {
    /// Parses the text of a table.
    pub fn parse(text: &'static str) -> Result<Self, MessageTableError> {
        let ids = message_ids(text)?;
        let mut table = Self {
            messages: Vec::with_capacity(ids.len()),
            kinds: BTreeMap::new(),
        };
        for (index, line) in text.lines().enumerate() {
            table
                .line(line, &ids)
                .map_err(|problem| MessageTableError {
                    line: index + 1,
                    problem,
                })?;
        }
        for message in &mut table.messages {
            message.fields.sort_by_key(|field| field.number);
            let mut by_name: Vec<u16> = (0..).take(message.fields.len()).collect();
            by_name.sort_by_key(|at| message.fields[usize::from(*at)].name);
            message.by_name = by_name;
        }
        Ok(table)
    }

    fn line(&mut self, line: &'static str, ids: &Ids) -> Result<(), &'static str> {
        let words: Vec<&'static str> = line.split(' ').collect();
        match words[..] {
            ["=", api_version, kind, message] => {
                self.kinds.insert((api_version, kind), find(ids, message)?);
            }
            [":", name, ref form @ ..] => self.messages.push(MessageDescriptor {
                name,
                json_mapping: read_json_mapping(form, ids)?,
                fields: Vec::new(),
                by_name: Vec::new(),
            }),
            [number, name, kind] => {
                let owner = self.messages.last_mut().ok_or("a field of no message")?;
                owner.fields.push(read_field(number, name, kind, ids)?);
            }
            _ => return Err("line is not a kind, message or field declaration"),
        }
        Ok(())
    }

    /// The message of a kind. Options, `Status` and similar kinds are found under any apiVersion,
    /// because clients send them with the apiVersion of the resource they belong to.
    #[must_use]
    pub fn for_kind(&self, api_version: &str, kind: &str) -> Option<MessageId> {
        self.kinds
            .get(&(api_version, kind))
            .or_else(|| self.kinds.get(&(ANY_VERSION, kind)))
            .copied()
    }

    /// Every apiVersion (`*` for any) and kind.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.kinds.keys().copied()
    }

    pub fn all(&self) -> impl Iterator<Item = &MessageDescriptor> {
        self.messages.iter()
    }

    /// The number of messages.
    #[must_use]
    pub fn count(&self) -> usize {
        self.messages.len()
    }

    /// The message with this id.
    ///
    /// # Panics
    /// If the id is from another table.
    #[must_use]
    pub fn message(&self, id: MessageId) -> &MessageDescriptor {
        &self.messages[usize::from(id.0)]
    }
}

impl MessageId {
    /// Its index among the messages of its table.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl MessageDescriptor {
    /// The index of the field with a number. Fields usually come in order, so the search begins at
    /// the last field found.
    pub(super) fn field(&self, number: u32, last: usize) -> Option<usize> {
        let matches = |at: &usize| self.fields.get(*at).is_some_and(|f| f.number == number);
        [last, last + 1].into_iter().find(matches).or_else(|| {
            self.fields
                .binary_search_by_key(&number, |field| field.number)
                .ok()
        })
    }
}

impl MessageDescriptor {
    /// The index of the field with a name, and its index among the names. Names usually come in
    /// order, so the search begins at `near`.
    pub(super) fn field_by_name(&self, name: JsonView<'_>, near: usize) -> Option<(usize, usize)> {
        let text;
        let bytes = match name.unescaped_bytes() {
            Some(bytes) => bytes,
            None => {
                text = name.as_str()?;
                text.as_bytes()
            }
        };
        let name_at = |place: &usize| {
            let at = usize::from(*self.by_name.get(*place)?);
            Some((at, self.fields.get(at)?.name.as_bytes()))
        };
        for place in near..near + LINEAR_SEARCH_MAX {
            match name_at(&place) {
                Some((at, own)) if own == bytes => return Some((at, place)),
                Some((_, own)) if own < bytes => {}
                _ => break,
            }
        }
        let place = self
            .by_name
            .binary_search_by_key(&bytes, |at| self.fields[usize::from(*at)].name.as_bytes())
            .ok()?;
        name_at(&place).map(|(at, _)| (at, place))
    }
}

/// The number of names compared before falling back to a binary search.
const LINEAR_SEARCH_MAX: usize = 4;

type Ids = BTreeMap<&'static str, MessageId>;

fn message_ids(text: &'static str) -> Result<Ids, MessageTableError> {
    let mut ids = Ids::new();
    for (index, line) in text.lines().enumerate() {
        let Some(rest) = line.strip_prefix(": ") else {
            continue;
        };
        let problem = |problem| MessageTableError {
            line: index + 1,
            problem,
        };
        let name = rest.split(' ').next().unwrap_or(rest);
        let id = u16::try_from(ids.len()).map_err(|_| problem("too many messages"))?;
        if ids.insert(name, MessageId(id)).is_some() {
            return Err(problem("a message is there twice"));
        }
    }
    Ok(ids)
}

fn find(ids: &Ids, name: &str) -> Result<MessageId, &'static str> {
    ids.get(name).copied().ok_or("no such message")
}

fn read_json_mapping(words: &[&str], ids: &Ids) -> Result<JsonMapping, &'static str> {
    Ok(match words {
        [] => JsonMapping::Object,
        ["time"] => JsonMapping::Time,
        ["micro-time"] => JsonMapping::MicroTime,
        ["quantity"] => JsonMapping::Quantity,
        ["int-or-string"] => JsonMapping::IntOrString,
        ["raw"] => JsonMapping::Raw,
        ["strings"] => JsonMapping::Strings,
        ["or-bool", schema] => JsonMapping::Schema(JsonSchemaOr::Bool, find(ids, schema)?),
        ["or-schemas", schema] => JsonMapping::Schema(JsonSchemaOr::Schemas, find(ids, schema)?),
        ["or-strings", schema] => JsonMapping::Schema(JsonSchemaOr::Strings, find(ids, schema)?),
        _ => return Err("unknown JSON mapping"),
    })
}

fn read_field(
    number: &str,
    name: &'static str,
    kind: &str,
    ids: &Ids,
) -> Result<FieldDescriptor, &'static str> {
    let (number, flags) = number.split_at(
        number
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(number.len()),
    );
    let (omit_empty, shape) = match flags.strip_suffix('?') {
        Some(shape) => (true, shape),
        None => (false, flags),
    };
    Ok(FieldDescriptor {
        number: number.parse().map_err(|_| "no field number")?,
        name,
        kind: read_type(kind, ids)?,
        cardinality: match shape {
            "" => FieldCardinality::Plain,
            "*" => FieldCardinality::Pointer,
            "[" => FieldCardinality::List,
            "{" => FieldCardinality::Map,
            "^" => FieldCardinality::Inline,
            _ => return Err("unknown flag"),
        },
        omit_empty,
    })
}

fn read_type(name: &str, ids: &Ids) -> Result<FieldType, &'static str> {
    Ok(match name {
        "bool" => FieldType::Bool,
        "int32" => FieldType::Int32,
        "int64" => FieldType::Int64,
        "double" => FieldType::Double,
        "string" => FieldType::Text,
        "bytes" => FieldType::Bytes,
        message => FieldType::Message(find(ids, message)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_table_errors_name_the_line() {
        for (text, line, problem) in [
            ("1 a string", 1, "a field of no message"),
            (": a\n: a", 2, "a message is there twice"),
            (": a\n1 b c", 2, "no such message"),
            (": a\nx b string", 2, "no field number"),
            (": a\n1! b string", 2, "unknown flag"),
            (": a b", 1, "unknown JSON mapping"),
            (": a\n", 0, ""),
            (
                ": a\n\n",
                2,
                "line is not a kind, message or field declaration",
            ),
            ("= v1 A a", 1, "no such message"),
        ] {
            let outcome = MessageTable::parse(text).map(|_| ());
            let expected = if line == 0 {
                Ok(())
            } else {
                Err(MessageTableError { line, problem })
            };
            assert_eq!(outcome, expected, "{text}");
        }
    }
}
