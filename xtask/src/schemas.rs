//! Generates the table of built-in types from OpenAPI v3 component schemas, as any server publishes
//! them: `{"io.k8s.api.apps.v1.Deployment": {…}, …}`.
//!
//! `crates/schema/src/table.rs` parses the lines and defines their meaning.

use crate::{Outcome, root};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

const TABLE: &str = "crates/schema/src/builtin.table";
const REFERENCE: &str = "#/components/schemas/";
const MAP_TYPE: &str = "x-kubernetes-map-type";

type Definitions = Map<String, Value>;

pub(crate) fn run(words: &[String]) -> Outcome {
    let [source] = words else {
        return Err("usage: cargo xtask schemas SCHEMAS.json".into());
    };
    let text = std::fs::read(Path::new(source)).map_err(|cause| format!("{source}: {cause}"))?;
    let definitions: Definitions =
        serde_json::from_slice(&text).map_err(|cause| format!("{source}: {cause}"))?;
    let table = Table::of(&definitions)?;
    let target = root().join(TABLE);
    std::fs::write(&target, table.text).map_err(|cause| format!("{}: {cause}", target.display()))
}

/// A structure that gets a block of lines. `granular` where a field overrides what the
/// structure says of itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SchemaBlock<'a> {
    name: &'a str,
    granular: bool,
}

struct Table<'a> {
    definitions: &'a Definitions,
    numbers: BTreeMap<SchemaBlock<'a>, usize>,
    text: String,
}

impl<'a> Table<'a> {
    fn of(definitions: &'a Definitions) -> Result<Self, String> {
        let plain = definitions.iter().filter(|(_, it)| is_structure(it));
        let plain = plain.map(|(name, _)| (name.as_str(), false));
        let blocks = plain.chain(overridden(definitions));
        let blocks = blocks.map(|(name, granular)| SchemaBlock { name, granular });
        let mut blocks: Vec<SchemaBlock<'_>> = blocks.collect();
        blocks.sort();
        blocks.dedup();
        let mut table = Self {
            definitions,
            numbers: blocks.iter().cloned().zip(0..).collect(),
            text: "# Made by `cargo xtask schemas`; do not edit.\n".into(),
        };
        for block in &blocks {
            table.block(block)?;
        }
        table.kinds();
        Ok(table)
    }

    fn block(&mut self, block: &SchemaBlock<'_>) -> Outcome {
        let definition = &self.definitions[block.name];
        let atomic = definition[MAP_TYPE] == "atomic" && !block.granular;
        let mut lines = format!("={}{}\n", short(block.name), if atomic { " !" } else { "" });
        let required: Vec<&Value> = items(&definition["required"]).collect();
        let properties = definition["properties"].as_object();
        for (name, property) in properties.into_iter().flatten() {
            let is_required = required.iter().any(|it| *it == name);
            let what = self
                .type_of(property)
                .map_err(|why| format!("{}.{name}: {why}", block.name))?;
            let _ = writeln!(
                lines,
                " {name} {what}{}{}",
                presence(property, is_required),
                merging(property)
            );
        }
        self.text.push_str(&lines);
        Ok(())
    }

    fn type_of(&self, schema: &Value) -> Result<String, String> {
        if let Some(name) = reference(schema) {
            return self.type_of_reference(name, schema[MAP_TYPE] == "granular");
        }
        let format = schema["format"].as_str().unwrap_or_default();
        Ok(match schema["type"].as_str().unwrap_or_default() {
            "string" => match format {
                "byte" => "y".into(),
                "date-time" => "t".into(),
                _ => "s".into(),
            },
            "integer" if format == "int64" => "l".into(),
            "integer" => "i".into(),
            "number" => "n".into(),
            "boolean" => "b".into(),
            "array" => format!("[{}{}]", list(schema), self.type_of(&schema["items"])?),
            "object" if schema["additionalProperties"].is_object() => {
                let atomic = if schema[MAP_TYPE] == "atomic" {
                    "!"
                } else {
                    ""
                };
                format!(
                    "{{{atomic}{}}}",
                    self.type_of(&schema["additionalProperties"])?
                )
            }
            "object" | "" => "u".into(),
            other => return Err(format!("unknown type {other}")),
        })
    }

    fn type_of_reference(&self, name: &str, granular: bool) -> Result<String, String> {
        match short(name).as_str() {
            "resource.Quantity" => return Ok("q".into()),
            "runtime.RawExtension" => return Ok("r".into()),
            "intstr.IntOrString" => return Ok("x".into()),
            _ => {}
        }
        if let Some(number) = self.numbers.get(&SchemaBlock { name, granular }) {
            return Ok(format!("@{number}"));
        }
        let definition = self.definitions.get(name);
        self.type_of(definition.ok_or_else(|| format!("no definition of {name}"))?)
    }

    fn kinds(&mut self) {
        let mut lines = Vec::new();
        for (block, number) in self.numbers.iter().filter(|(block, _)| !block.granular) {
            let names = &self.definitions[block.name]["x-kubernetes-group-version-kind"];
            for name in items(names) {
                let [group, version, kind] =
                    ["group", "version", "kind"].map(|part| name[part].as_str().unwrap_or(""));
                lines.push(format!("@{group} {version} {kind} {number}\n"));
            }
        }
        lines.sort();
        self.text.extend(lines);
    }
}

/// Structures that some field wants granular although they call themselves atomic.
fn overridden(definitions: &Definitions) -> impl Iterator<Item = (&str, bool)> {
    let properties = definitions
        .values()
        .filter_map(|it| it["properties"].as_object());
    let granular = properties
        .flat_map(|properties| properties.values())
        .filter(|property| property[MAP_TYPE] == "granular");
    granular.filter_map(|property| Some((reference(property)?, true)))
}

fn is_structure(definition: &Value) -> bool {
    definition["properties"].is_object()
}

fn reference(schema: &Value) -> Option<&str> {
    let direct = schema["$ref"].as_str();
    let reference = direct.or_else(|| schema["allOf"][0]["$ref"].as_str());
    reference?.strip_prefix(REFERENCE)
}

/// `io.k8s.api.apps.v1.Deployment` as Go's messages name it: `v1.Deployment`.
fn short(name: &str) -> String {
    let mut words = name.rsplit('.');
    let last = words.next().unwrap_or_default();
    format!("{}.{last}", words.next().unwrap_or_default())
}

/// Empty for atomic lists, `=` for sets, `key,key|` for keyed lists.
fn list(schema: &Value) -> String {
    let strategy = schema["x-kubernetes-patch-strategy"].as_str().unwrap_or("");
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => "=".into(),
        Some("map") => {
            let keys = items(&schema["x-kubernetes-list-map-keys"]);
            let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
            format!("{}|", keys.join(","))
        }
        // A merge strategy without a list type says the same in older words.
        None if strategy.starts_with("merge") => {
            match schema["x-kubernetes-patch-merge-key"].as_str() {
                Some(key) => format!("{key}|"),
                None => "=".into(),
            }
        }
        _ => String::new(),
    }
}

/// Whether the field is required, written even when empty, and its default.
fn presence(property: &Value, is_required: bool) -> String {
    let mut words = String::new();
    if is_required {
        words.push_str(" +");
    }
    match property.get("default") {
        Some(default) if is_empty(default) => words.push_str(" z"),
        Some(default) => {
            let json = default.to_string().replace(' ', "\\u0020");
            let _ = write!(words, " d={json}");
        }
        None if is_required => words.push_str(" n"),
        None => {}
    }
    words
}

fn is_empty(default: &Value) -> bool {
    match default {
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Null | Value::Array(_) => false,
    }
}

/// How a strategic merge patch treats the field.
fn merging(property: &Value) -> String {
    let strategy = property["x-kubernetes-patch-strategy"]
        .as_str()
        .unwrap_or("");
    let mut words = String::new();
    for word in strategy.split(',').filter(|word| !word.is_empty()) {
        let _ = write!(words, " {word}");
    }
    if let Some(key) = property["x-kubernetes-patch-merge-key"].as_str() {
        let _ = write!(words, " key={key}");
    }
    words
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
