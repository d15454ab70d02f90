//! Generates the catalog's table of protobuf messages from Go's struct tags. The facts come from
//! `protobuf/facts.go`, run against a release of Kubernetes: the `.proto` files lack the difference
//! between pointers and values, and `omitempty`.

use crate::{Outcome, root};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const TABLE: &str = "crates/catalog/src/protobuf/table.txt";

/// Messages whose JSON is no object of their fields.
const FORMS: &[(&str, &str)] = &[
    ("api/resource.Quantity", "quantity"),
    ("apiextensions/v1.JSON", "raw"),
    (
        "apiextensions/v1.JSONSchemaPropsOrArray",
        "or-schemas apiextensions/v1.JSONSchemaProps",
    ),
    (
        "apiextensions/v1.JSONSchemaPropsOrBool",
        "or-bool apiextensions/v1.JSONSchemaProps",
    ),
    (
        "apiextensions/v1.JSONSchemaPropsOrStringArray",
        "or-strings apiextensions/v1.JSONSchemaProps",
    ),
    ("authentication/v1.ExtraValue", STRINGS),
    ("authorization/v1.ExtraValue", STRINGS),
    ("certificates/v1.ExtraValue", STRINGS),
    ("meta/v1.FieldsV1", "raw"),
    ("meta/v1.MicroTime", "micro-time"),
    ("meta/v1.Time", "time"),
    ("meta/v1.Verbs", STRINGS),
    ("pkg/runtime.RawExtension", "raw"),
    ("util/intstr.IntOrString", "int-or-string"),
];
const STRINGS: &str = "strings";

pub(crate) fn run(words: &[String]) -> Outcome {
    let [source] = words else {
        return Err("usage: cargo xtask protobuf FACTS.json".into());
    };
    let text = std::fs::read(Path::new(source)).map_err(|cause| format!("{source}: {cause}"))?;
    let facts: Value =
        serde_json::from_slice(&text).map_err(|cause| format!("{source}: {cause}"))?;
    let target = root().join(TABLE);
    std::fs::write(&target, table(&facts)?)
        .map_err(|cause| format!("{}: {cause}", target.display()))
}

fn table(facts: &Value) -> Result<String, String> {
    let mut out = String::new();
    for (kind, message) in members(&facts["kinds"]) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "= {kind} {}", text(message));
    }
    for (name, fields) in members(&facts["messages"]) {
        let form = form(name);
        if facts["own"][name].as_bool() == Some(true) && form.is_none() {
            return Err(format!("{name} has a JSON of its own, which FORMS lacks"));
        }
        if let Some(form) = form {
            let _ = writeln!(out, ": {name} {form}");
            continue;
        }
        let _ = writeln!(out, ": {name}");
        for field in fields.as_array().into_iter().flatten() {
            write_field(&mut out, field);
        }
    }
    Ok(out)
}

fn write_field(out: &mut String, field: &Value) {
    let is = |fact: &str| field[fact].as_bool() == Some(true);
    let (name, kind) = (text(&field["name"]), text(&field["type"]));
    let shape = match () {
        () if is("inline") => "^",
        () if is("pointer") => "*",
        () if is("repeated") => "[",
        () if is("map") => "{",
        () => "",
    };
    // A struct is never empty, whatever its tag says.
    let is_struct = shape.is_empty() && kind.contains('.') && form(kind) != Some(STRINGS);
    let left_out = if is_struct { "omitZero" } else { "omitEmpty" };
    let omit = if is(left_out) { "?" } else { "" };
    let name = if name.is_empty() { "-" } else { name };
    let _ = writeln!(out, "{}{shape}{omit} {name} {kind}", field["number"]);
}

fn form(message: &str) -> Option<&'static str> {
    FORMS
        .iter()
        .find(|(name, _)| *name == message)
        .map(|(_, form)| *form)
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
