//! JSON parser and serializer.
//!
//! Parsing any bytes gives a value or an error, never a stack overflow. Duplicate members are
//! recorded, because strict decoding must name them. The serializer writes the bytes Go would
//! write.

mod occurrences;
mod serialize;
mod syntax;
mod tape;
mod value;

pub(crate) use serialize::{write_string, write_value};
pub use tape::{JsonKind, JsonView, Tape};

pub use occurrences::occurrences;
pub use value::{drop_nulls, json_type};

use crate::go;
use serde::Serialize;
use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::ser::{Formatter, Serializer};
use std::fmt;
use std::io;

pub type Value = serde_json::Value;
/// A JSON object, sorted by key. The canonical form relies on the order.
pub type Map = serde_json::Map<String, Value>;

/// The maximum nesting depth of a document. Parsing, comparing and dropping a tree recurse; this
/// many levels fit into the smallest stack of the server with room to spare.
pub const DEPTH_MAX: usize = 500;

/// The maximum number of duplicates that are recorded for strict decoding.
const DUPLICATES_MAX: usize = 100;

/// The maximum cost of a document: one unit for each value and each 32 bytes of text, and more for
/// each map, because few bytes can encode many values. The largest published CRDs have forty
/// thousand maps; eighty thousand fit.
pub const COST_MAX: usize = 1 << 20;
pub(crate) const MAP_COST: usize = 12;
/// An empty map takes no memory, but defaulting often fills it.
const EMPTY_MAP_COST: usize = 6;

/// The cost of a text of `bytes` bytes.
#[must_use]
pub(crate) fn text_cost(bytes: usize) -> usize {
    bytes / 32
}

/// This many members fit into the first allocation of a map. Each further member costs
/// [`FURTHER_MEMBER_COST`].
const INLINE_MEMBERS: usize = 6;
const FURTHER_MEMBER_COST: usize = 2;

/// The cost of a value with everything in it, about 45 bytes of memory per unit. Parsing charges
/// less, because a map is charged before its members are counted.
#[must_use]
pub fn cost(value: &Value) -> usize {
    cost_with(value, EMPTY_MAP_COST)
}

/// The cost of a value that is not defaulted: empty maps are free.
#[must_use]
pub fn cost_without_defaults(value: &Value) -> usize {
    cost_with(value, 0)
}

fn cost_with(value: &Value, empty_map: usize) -> usize {
    let cost = |value| cost_with(value, empty_map);
    let below: usize = match value {
        Value::String(text) => text_cost(text.len()),
        Value::Array(items) => items.iter().map(cost).sum(),
        Value::Object(members) if members.is_empty() => empty_map,
        Value::Object(members) => {
            let further = members.len().saturating_sub(INLINE_MEMBERS);
            let members = members.iter();
            let members = members.map(|(key, value)| text_cost(key.len()) + cost(value));
            MAP_COST + further * FURTHER_MEMBER_COST + members.sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    1 + below
}

/// A parsed document and its duplicate members.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedDocument {
    /// If a member is duplicated, the last one wins.
    pub value: Value,
    /// Paths such as `data.a` or `spec.containers[0].name`, in document order.
    pub duplicates: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    #[error("exceeded max depth")]
    TooDeep,
    #[error("document has too many values")]
    TooManyValues,
    #[error("{0}")]
    Malformed(String),
}

/// Parses one JSON document. Rejects text that is not UTF-8, unlike upstream, which inserts
/// replacement characters.
pub fn parse(bytes: &[u8]) -> Result<ParsedDocument, SyntaxError> {
    parse_within(bytes, COST_MAX)
}

/// Parses a stored document, without a limit of the cost.
pub fn parse_stored(bytes: &[u8]) -> Result<ParsedDocument, SyntaxError> {
    parse_within(bytes, usize::MAX)
}

fn parse_within(bytes: &[u8], cost_max: usize) -> Result<ParsedDocument, SyntaxError> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    match deserialize_value(&mut reader, cost_max) {
        Err(SyntaxError::Malformed(_)) => {}
        read => return read,
    }
    // Errors are reported with Go's text. A document that only exceeds the recursion limit of the
    // parser, which is lower than [`DEPTH_MAX`], is parsed again without it.
    syntax::check_syntax(bytes)?;
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    reader.disable_recursion_limit();
    deserialize_value(&mut reader, cost_max)
}

fn deserialize_value<'de, R: serde_json::de::Read<'de>>(
    reader: &mut serde_json::Deserializer<R>,
    cost_max: usize,
) -> Result<ParsedDocument, SyntaxError> {
    let mut trail = ParseState {
        path: Vec::new(),
        duplicates: Vec::new(),
        cost_left: Some(cost_max),
    };
    let value = ValueSeed(&mut trail)
        .deserialize(&mut *reader)
        .and_then(|value| reader.end().map(|()| value));
    if trail.cost_left.is_none() {
        return Err(SyntaxError::TooManyValues);
    }
    let value = value.map_err(|error| SyntaxError::Malformed(error.to_string()))?;
    Ok(ParsedDocument {
        value,
        duplicates: trail.duplicates,
    })
}

/// The position of the parser and the duplicates found so far.
struct ParseState {
    path: Vec<ParsePathStep>,
    duplicates: Vec<String>,
    /// `None` once the budget is exhausted.
    cost_left: Option<usize>,
}

enum ParsePathStep {
    Member(String),
    Index(usize),
}

impl ParseState {
    fn charge<E: serde::de::Error>(&mut self, cost: usize) -> Result<(), E> {
        self.cost_left = self.cost_left.and_then(|left| left.checked_sub(cost));
        match self.cost_left {
            Some(_) => Ok(()),
            None => Err(E::custom("too many values")),
        }
    }

    fn note_duplicate(&mut self) {
        if self.duplicates.len() >= DUPLICATES_MAX {
            return;
        }
        let mut text = String::new();
        for step in &self.path {
            match step {
                ParsePathStep::Member(name) if text.is_empty() => text.push_str(name),
                ParsePathStep::Member(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                ParsePathStep::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        self.duplicates.push(text);
    }
}

struct ValueSeed<'a>(&'a mut ParseState);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.charge(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.0.charge(text_cost(value.len()))?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.0.charge(text_cost(value.len()))?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            self.0.path.push(ParsePathStep::Index(list.len()));
            let item = items.next_element_seed(ValueSeed(self.0))?;
            self.0.path.pop();
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        self.0.charge(EMPTY_MAP_COST)?;
        while let Some(name) = members.next_key::<String>()? {
            if map.is_empty() {
                self.0.charge(MAP_COST - EMPTY_MAP_COST)?;
            }
            self.0.charge(text_cost(name.len()))?;
            self.0.path.push(ParsePathStep::Member(name));
            let value = members.next_value_seed(ValueSeed(self.0))?;
            let Some(ParsePathStep::Member(name)) = self.0.path.pop() else {
                return Err(A::Error::custom("the path lost a step"));
            };
            match map.entry(name) {
                Entry::Vacant(place) => drop(place.insert(value)),
                Entry::Occupied(mut place) => {
                    self.0.path.push(ParsePathStep::Member(place.key().clone()));
                    self.0.note_duplicate();
                    self.0.path.pop();
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// Serializes to compact JSON as Go's encoder does.
///
/// # Panics
/// If a map has keys that are not strings.
#[must_use]
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    out
}

pub(crate) fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    value
        .serialize(&mut Serializer::with_formatter(out, GoFormatter))
        .expect("map keys are strings and writing to a Vec cannot fail");
}

/// The differences of Go's encoder: `<`, `>`, `&` and the two line separators are escaped (so that
/// JSON can be embedded in a script element), whole floats have no `.0`.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment.as_bytes();
        while let Some((at, length, escape)) = next_escape(rest) {
            writer.write_all(&rest[..at])?;
            writer.write_all(escape)?;
            rest = &rest[at + length..];
        }
        writer.write_all(rest)
    }

    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(go::json_float(value).as_bytes())
    }
}

/// The first sequence to escape: its offset, its length and its escape.
fn next_escape(bytes: &[u8]) -> Option<(usize, usize, &'static [u8])> {
    bytes.iter().enumerate().find_map(|(at, byte)| match byte {
        b'<' => Some((at, 1, &b"\\u003c"[..])),
        b'>' => Some((at, 1, &b"\\u003e"[..])),
        b'&' => Some((at, 1, &b"\\u0026"[..])),
        0xe2 if bytes[at..].starts_with("\u{2028}".as_bytes()) => Some((at, 3, &b"\\u2028"[..])),
        0xe2 if bytes[at..].starts_with("\u{2029}".as_bytes()) => Some((at, 3, &b"\\u2029"[..])),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(input: &str, expected: &str) {
        let parsed = parse(input.as_bytes()).expect(input);
        assert_eq!(String::from_utf8_lossy(&to_bytes(&parsed.value)), expected);
    }

    #[test]
    fn json_is_written_as_go_writes_it() {
        check(r#" {"b" : 1 , "a": [ ] } "#, r#"{"a":[],"b":1}"#);
        check(
            r#""<a>&\u2028\u2029\u00e9/\u007f""#,
            "\"\\u003ca\\u003e\\u0026\\u2028\\u2029é/\u{7f}\"",
        );
        check(
            r#""\b\f\n\r\t\u0000\u001f\"\\""#,
            r#""\b\f\n\r\t\u0000\u001f\"\\""#,
        );
        check("[1.0, 1.50, 1e3, 1e21, -0.0]", "[1,1.5,1000,1e+21,-0]");
        check(
            "[9223372036854775807, -9223372036854775808]",
            "[9223372036854775807,-9223372036854775808]",
        );
    }

    #[test]
    fn json_duplicate_members_are_reported() {
        let parsed = parse(br#"{"a":1,"d":{"x":1,"x":2},"l":[{},{"n":1,"n":1}],"a":3}"#).unwrap();
        assert_eq!(parsed.duplicates, ["d.x", "l[1].n", "a"]);
        assert_eq!(parsed.value["a"], 3);
    }

    #[test]
    fn malformed_json_is_refused() {
        for input in [
            "",
            "{",
            "[1,]",
            "{} {}",
            "nul",
            "\"\\x\"",
            "1e999",
            "{\"a\" 1}",
            "\u{feff}{}",
        ] {
            assert!(
                matches!(parse(input.as_bytes()), Err(SyntaxError::Malformed(_))),
                "{input}"
            );
        }
        assert!(parse(b"\"\xff\"").is_err());
    }

    /// The smallest stack is that of a tokio worker, 2 MiB.
    #[test]
    fn json_depth_is_bounded_and_fits_the_stack() {
        let nested =
            |levels: usize| format!("{}{}", "[{\"a\":".repeat(levels / 2), "1").into_bytes();
        let closed =
            |levels: usize| [nested(levels), "}]".repeat(levels / 2).into_bytes()].concat();
        let deepest = closed(DEPTH_MAX);
        std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(move || {
                let parsed = parse(&deepest).unwrap();
                assert_eq!(to_bytes(&parsed.value.clone()), deepest);
            })
            .unwrap()
            .join()
            .unwrap();
        assert_eq!(parse(&closed(DEPTH_MAX + 2)), Err(SyntaxError::TooDeep));
        assert_eq!(parse(&nested(2_000_000)), Err(SyntaxError::TooDeep));
        // Brackets in strings do not count.
        assert!(parse(format!("\"{}\\\"\"", "[".repeat(1000)).as_bytes()).is_ok());
    }

    /// Two features of serde_json would silently change the serialized bytes, and any crate of the
    /// workspace could enable them.
    #[test]
    fn json_maps_are_sorted_and_numbers_are_not_arbitrary_precision() {
        let value: Value = serde_json::from_str(r#"{"b":1.0,"a":1}"#).unwrap();
        assert_eq!(to_bytes(&value), br#"{"a":1,"b":1}"#);
    }

    proptest! {
        #[test]
        fn json_parse_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn json_syntax_check_agrees_with_the_parser(text in r#"[\[\]{}:,"\\a01.eE+\- ]{0,12}|[\[{]"a":-?[01.e+]{1,4}[\]}]"#) {
            let checked = syntax::check_syntax(text.as_bytes());
            let parsed: Result<Value, _> = serde_json::from_str(&text);
            prop_assert_eq!(checked.is_ok(), parsed.is_ok(), "{:?} {:?}", checked, parsed);
        }

        #[test]
        fn json_strings_round_trip(text in any::<String>()) {
            let bytes = to_bytes(&text);
            prop_assert_eq!(parse(&bytes).unwrap().value, Value::String(text));
            prop_assert!(!bytes.iter().any(|b| b"<>&".contains(b)));
        }

        #[test]
        fn json_floats_round_trip(value in any::<f64>().prop_filter("finite", |v| v.is_finite())) {
            let text = to_bytes(&value);
            let back = parse(&text).unwrap().value.as_f64().unwrap();
            prop_assert_eq!(back.to_bits(), value.to_bits());
        }
    }
}
