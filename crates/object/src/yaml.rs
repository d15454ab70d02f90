//! The YAML serializer, compatible with Go's library for Kubernetes: [`parse`] reads the first
//! document as JSON, [`write()`] writes YAML.
//!
//! The syntax is YAML 1.2's; plain scalars are resolved as in YAML 1.1 (`yes` is a boolean, `0755`
//! an octal number, see `scalar`). Keys that are not strings become strings. Block collections
//! may nest [`DEPTH_MAX`] deep, flow collections 255 deep.

mod scalar;
#[cfg(test)]
mod tests;
mod write;

pub use write::{write, write_item};

use crate::go;
use crate::json::{self, COST_MAX, MAP_COST};
use crate::json::{DEPTH_MAX, Map, Value};
use memchr::memmem;
use saphyr_parser::{Event, Parser, ScalarStyle};
use std::collections::BTreeMap;

/// The maximum cost of values from aliases, which can expand few bytes to many values.
const ALIASED_COST_MAX: usize = 100_000;
/// The maximum number of duplicate keys that are recorded.
const DUPLICATES_MAX: usize = 100;
/// The maximum number of values in flow collections. The parser buffers a flow collection until it
/// knows whether it is a key.
const FLOW_INDICATORS_MAX: usize = 200_000;

const TOO_MANY_VALUES: &str = "document has too many values";

/// The first document of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct YamlDocument {
    /// If a key is duplicated, the last one wins.
    pub value: Value,
    /// The duplicate keys, with Go's message: `line 7: key "a" already set in map`.
    pub duplicates: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("yaml: line {line}: {problem}")]
pub struct YamlError {
    pub line: usize,
    pub problem: String,
}

/// Parses the first document and ignores the rest. An empty stream is `null`.
pub fn parse(bytes: &[u8]) -> Result<YamlDocument, YamlError> {
    if let Some(value) = plain_json(bytes) {
        return Ok(YamlDocument {
            value,
            duplicates: Vec::new(),
        });
    }
    if flow_indicators(bytes) > FLOW_INDICATORS_MAX {
        return Err(YamlError {
            line: 1,
            problem: TOO_MANY_VALUES.to_owned(),
        });
    }
    parse_yaml(bytes)
}

/// Parses a JSON document that YAML would read as the same value. Most clients send JSON, and this
/// is much cheaper. Floats, very large numbers and documents with duplicate keys are left to the
/// YAML parser, which reports duplicates by line.
fn plain_json(bytes: &[u8]) -> Option<Value> {
    if !bytes.trim_ascii_start().starts_with(b"{") || differs_from_json(bytes) {
        return None;
    }
    let parsed = json::parse(bytes).ok()?;
    let is_plain = parsed.duplicates.is_empty() && has_small_numbers(&parsed.value);
    is_plain.then_some(parsed.value)
}

/// Whether JSON and YAML may read the bytes differently: U+0085, U+2028 and U+2029 are line breaks
/// in YAML and characters in JSON; surrogate escapes are valid in JSON only.
fn differs_from_json(bytes: &[u8]) -> bool {
    let line_breaks = [&b"\xc2\x85"[..], b"\xe2\x80\xa8", b"\xe2\x80\xa9"];
    let surrogates = [&b"\\ud"[..], b"\\uD"];
    let mut others = line_breaks.iter().chain(&surrogates);
    others.any(|other| memmem::find(bytes, other).is_some())
}

fn has_small_numbers(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_some(),
        Value::Array(items) => items.iter().all(has_small_numbers),
        Value::Object(members) => members.values().all(has_small_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// An upper bound of the number of values in flow collections.
fn flow_indicators(bytes: &[u8]) -> usize {
    let counts = bytes.iter().map(|byte| matches!(byte, b',' | b'[' | b'{'));
    counts.filter(|is_indicator| *is_indicator).count()
}

fn parse_yaml(bytes: &[u8]) -> Result<YamlDocument, YamlError> {
    let text = std::str::from_utf8(bytes).map_err(|error| YamlError {
        line: 1 + line_count(&bytes[..error.valid_up_to()]),
        problem: "invalid UTF-8".to_owned(),
    })?;
    let mut parser = Parser::new_from_str(text);
    let mut builder = YamlBuilder::default();
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| YamlError {
            line: error.marker().line(),
            problem: error.info().to_owned(),
        })?;
        builder.line = span.start.line();
        if matches!(event, Event::DocumentEnd | Event::StreamEnd) {
            break;
        }
        builder.event(event).map_err(|problem| YamlError {
            line: builder.line,
            problem,
        })?;
    }
    Ok(builder.document)
}

fn line_count(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

/// Values under construction. Not recursive, so that depth takes no stack.
#[derive(Default)]
struct YamlBuilder {
    open: Vec<YamlFrame>,
    anchors: BTreeMap<usize, AnchoredValue>,
    document: YamlDocument,
    cost: usize,
    copied: usize,
    line: usize,
}

struct YamlFrame {
    anchor: usize,
    container: YamlContainer,
}

enum YamlContainer {
    List(Vec<Value>),
    /// With the key of the next value.
    Map(Map, Option<YamlKey>),
}

enum YamlKey {
    Name(String),
    /// `<<`: the members of its value are merged into this map.
    Merge,
}

struct AnchoredValue {
    value: Value,
    cost: usize,
    depth: usize,
}

type BuildResult = Result<(), String>;

impl YamlBuilder {
    fn event(&mut self, event: Event<'_>) -> BuildResult {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                if is_plain && tag.is_none() && text == "<<" && self.expects_key() {
                    return self.attach_key(YamlKey::Merge);
                }
                let value = scalar::resolve(&text, is_plain, tag.as_deref())?;
                self.charge(1 + text.len() / 32)?;
                self.attach_value(value, anchor)
            }
            Event::SequenceStart(anchor, _) => self.open(anchor, YamlContainer::List(Vec::new())),
            Event::MappingStart(anchor, _) => {
                self.charge(MAP_COST)?;
                self.open(anchor, YamlContainer::Map(Map::new(), None))
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.copy(anchor),
            _ => Ok(()),
        }
    }

    fn charge(&mut self, cost: usize) -> BuildResult {
        self.cost += cost;
        if self.cost > COST_MAX {
            return Err(TOO_MANY_VALUES.to_owned());
        }
        Ok(())
    }

    fn charge_copy(&mut self, cost: usize) -> BuildResult {
        self.copied += cost;
        if self.copied > ALIASED_COST_MAX {
            return Err("document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(
            self.open.last(),
            Some(YamlFrame {
                container: YamlContainer::Map(_, None),
                ..
            })
        )
    }

    fn open(&mut self, anchor: usize, part: YamlContainer) -> BuildResult {
        if self.expects_key() {
            return Err("invalid map key".to_owned());
        }
        if self.open.len() >= DEPTH_MAX {
            return Err(too_deep());
        }
        self.charge(1)?;
        self.open.push(YamlFrame {
            anchor,
            container: part,
        });
        Ok(())
    }

    fn close(&mut self) -> BuildResult {
        match self.open.pop() {
            Some(YamlFrame {
                anchor,
                container: part,
            }) => {
                let value = match part {
                    YamlContainer::List(items) => Value::Array(items),
                    YamlContainer::Map(members, _) => Value::Object(members),
                };
                self.attach_value(value, anchor)
            }
            None => Err("unexpected end of sequence or mapping".to_owned()),
        }
    }

    fn copy(&mut self, anchor: usize) -> BuildResult {
        let Some(AnchoredValue { cost, depth, .. }) = self.anchors.get(&anchor) else {
            return Err("anchor's value contains itself".to_owned());
        };
        if self.open.len() + depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.charge_copy(*cost)?;
        match self.anchors.get(&anchor) {
            Some(anchored) => self.attach_value(anchored.value.clone(), 0),
            None => Ok(()),
        }
    }

    /// Adds a finished value to its container.
    fn attach_value(&mut self, value: Value, anchor: usize) -> BuildResult {
        if anchor != 0 {
            let (cost, depth) = measure(&value);
            self.charge_copy(cost)?;
            let value = value.clone();
            self.anchors
                .insert(anchor, AnchoredValue { value, cost, depth });
        }
        match self.open.last_mut().map(|frame| &mut frame.container) {
            None => self.document.value = value,
            Some(YamlContainer::List(items)) => items.push(value),
            Some(YamlContainer::Map(members, key)) => match key.take() {
                None => *key = Some(YamlKey::Name(key_text(value)?)),
                Some(YamlKey::Name(name)) => {
                    let duplicates = &mut self.document.duplicates;
                    insert(members, name, value, self.line, duplicates);
                }
                Some(YamlKey::Merge) => {
                    let duplicates = &mut self.document.duplicates;
                    return merge(members, value, self.line, duplicates);
                }
            },
        }
        Ok(())
    }

    fn attach_key(&mut self, name: YamlKey) -> BuildResult {
        if let Some(YamlFrame {
            container: YamlContainer::Map(_, key),
            ..
        }) = self.open.last_mut()
        {
            *key = Some(name);
        }
        Ok(())
    }
}

fn too_deep() -> String {
    format!("exceeded max depth of {DEPTH_MAX}")
}

fn key_text(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Number(number) if number.is_f64() => {
            Ok(go::plain_float(number.as_f64().unwrap_or_default()))
        }
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Err("unsupported map key: null".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("invalid map key".to_owned()),
    }
}

fn insert(
    members: &mut Map,
    name: String,
    value: Value,
    line: usize,
    duplicates: &mut Vec<String>,
) {
    if duplicates.len() < DUPLICATES_MAX && members.contains_key(&name) {
        let name = go::quote(&name);
        duplicates.push(format!("line {line}: key {name} already set in map"));
    }
    members.insert(name, value);
}

/// Merges maps. If several maps of a list have a key, the first one wins.
fn merge(
    members: &mut Map,
    value: Value,
    line: usize,
    duplicates: &mut Vec<String>,
) -> BuildResult {
    let maps = match value {
        Value::Array(maps) => maps,
        map => vec![map],
    };
    for map in maps.into_iter().rev() {
        let Value::Object(map) = map else {
            return Err("map merge requires map or sequence of maps as the value".to_owned());
        };
        for (name, value) in map {
            insert(members, name, value, line, duplicates);
        }
    }
    Ok(())
}

/// The cost and depth of a value.
fn measure(value: &Value) -> (usize, usize) {
    let below = |(cost, depth): (usize, usize), item: &Value| {
        let (item_cost, item_depth) = measure(item);
        (cost + item_cost, depth.max(item_depth))
    };
    match value {
        Value::String(text) => (1 + text.len() / 32, 0),
        Value::Array(items) => {
            let (cost, depth) = items.iter().fold((1, 0), below);
            (cost, depth + 1)
        }
        Value::Object(members) => {
            let keys: usize = members.keys().map(|key| 1 + key.len() / 32).sum();
            let (cost, depth) = members.values().fold((MAP_COST + keys, 0), below);
            (cost, depth + 1)
        }
        _ => (1, 0),
    }
}
