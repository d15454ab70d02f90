//! Generates the table of OpenAPI schemas: the schema of each type on kube-apiserver, with the
//! descriptions of the `k8s-openapi` crate, one on a line, compressed.
//!
//! The first file is an object of OpenAPI v3 schemas by name, without descriptions; the second
//! argument is the source directory of the crate for that release.

use crate::{Outcome, root};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

const TABLE: &str = "crates/openapi/src/schemas.zz";

pub(crate) fn run(words: &[String]) -> Outcome {
    let [file, source] = words else {
        return Err("usage: cargo xtask openapi SCHEMAS.json k8s-openapi/src/v1_N".to_owned());
    };
    let text = std::fs::read_to_string(file).map_err(|cause| format!("{file}: {cause}"))?;
    let mut schemas: BTreeMap<String, Value> =
        serde_json::from_str(&text).map_err(|cause| format!("{file}: {cause}"))?;
    let mut described = BTreeMap::new();
    collect(Path::new(source), &mut described)?;
    let mut missing = 0;
    for (name, schema) in &mut schemas {
        match described.get(name) {
            Some(words) => describe(schema, words),
            None => missing += 1,
        }
    }
    println!("{} schemas, {missing} without a description", schemas.len());
    let mut out = String::new();
    for (name, schema) in &schemas {
        out.push_str(&format!("{name}\t{schema}\n"));
    }
    write(&out)
}

fn write(text: &str) -> Outcome {
    let target = root().join(TABLE);
    let fail = |cause: std::io::Error| format!("{}: {cause}", target.display());
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).map_err(fail)?;
    let bytes = encoder.finish().map_err(fail)?;
    println!("{} bytes, {} compressed", text.len(), bytes.len());
    std::fs::write(&target, bytes).map_err(fail)
}

/// The descriptions of a type and of its properties.
#[derive(Default)]
struct TypeDescriptions {
    own: String,
    properties: BTreeMap<String, String>,
}

fn collect(directory: &Path, found: &mut BTreeMap<String, TypeDescriptions>) -> Outcome {
    let fail = |cause: std::io::Error| format!("{}: {cause}", directory.display());
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            collect(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).map_err(fail)?;
            if let Some((name, words)) = read(&text) {
                found.insert(name, words);
            }
        }
    }
    Ok(())
}

/// Reads the schema that a file of the crate has; its lines are generated, so their
/// indentation tells what they belong to.
fn read(text: &str) -> Option<(String, TypeDescriptions)> {
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("// Generated from definition "))?;
    let (_, schema) = text.split_once("json_schema!({\n")?;
    let mut words = TypeDescriptions::default();
    let mut property = None;
    for line in schema.lines() {
        let depth = line.len() - line.trim_start().len();
        let line = line.trim_start();
        match depth {
            12 => {
                if let Some(text) = line.strip_prefix("\"description\": ") {
                    words.own = literal(text)?;
                }
            }
            16 => property = key(line),
            20 => {
                let text = line.strip_prefix("\"description\": ").or_else(|| {
                    line.split_once("insert(\"description\".into(), ")
                        .map(|(_, text)| text)
                });
                if let (Some(text), Some(property)) = (text, &property) {
                    words.properties.insert(property.clone(), literal(text)?);
                }
            }
            _ => {}
        }
    }
    Some((name.to_owned(), words))
}

fn key(line: &str) -> Option<String> {
    let (name, _) = line.strip_prefix('"')?.split_once('"')?;
    Some(name.to_owned())
}

/// A string literal at the beginning of a text. Its escapes are those of JSON, but for
/// the apostrophe.
fn literal(text: &str) -> Option<String> {
    let text = text.replace("\\'", "'");
    let mut values = serde_json::Deserializer::from_str(&text).into_iter::<String>();
    values.next()?.ok()
}

fn describe(schema: &mut Value, words: &TypeDescriptions) {
    let Some(members) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        for (name, property) in properties {
            if let (Some(text), Value::Object(property)) = (words.properties.get(name), property) {
                set(property, text);
            }
        }
    }
    set(members, &words.own);
}

fn set(members: &mut Map<String, Value>, text: &str) {
    if !text.is_empty() {
        members.insert("description".to_owned(), text.into());
    }
}
