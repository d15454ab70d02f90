//! The serializer of OpenAPI v2 as protobuf, in gnostic's messages, which kubectl requests.

use serde_json::{Map, Value};

/// Encodes a document of [`crate::v2`].
#[must_use]
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = GnosticMessage::default();
    out.text(1, &document["swagger"]);
    out.nested(2, |out| {
        out.text(1, &document["info"]["title"]);
        out.text(2, &document["info"]["version"]);
    });
    out.nested(8, |out| {
        for (name, item) in members(&document["paths"]) {
            out.named(2, name, |out| path_item(item, out));
        }
    });
    out.nested(9, |out| {
        for (name, definition) in members(&document["definitions"]) {
            out.named(1, name, |out| schema(definition, out));
        }
    });
    out.bytes
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

const METHODS: &[(&str, u32)] = &[
    ("get", 2),
    ("put", 3),
    ("post", 4),
    ("delete", 5),
    ("patch", 8),
];

fn path_item(item: &Value, out: &mut GnosticMessage) {
    for (method, number) in METHODS {
        if let Some(own) = item.get(*method) {
            out.nested(*number, |out| operation(own, out));
        }
    }
    for own in items(&item["parameters"]) {
        out.nested(9, |out| parameter(own, out));
    }
}

fn operation(value: &Value, out: &mut GnosticMessage) {
    for tag in items(&value["tags"]) {
        out.text(1, tag);
    }
    out.text(5, &value["operationId"]);
    for own in items(&value["produces"]) {
        out.text(6, own);
    }
    for own in items(&value["consumes"]) {
        out.text(7, own);
    }
    for own in items(&value["parameters"]) {
        out.nested(8, |out| parameter(own, out));
    }
    out.nested(9, |out| {
        for (code, response) in members(&value["responses"]) {
            out.named(1, code, |out| {
                out.nested(1, |out| {
                    out.text(1, &response["description"]);
                    if let Some(own) = response.get("schema") {
                        out.nested(2, |out| out.nested(1, |out| schema(own, out)));
                    }
                });
            });
        }
    });
    for own in items(&value["schemes"]) {
        out.text(10, own);
    }
    extensions(13, value, out);
}

fn parameter(value: &Value, out: &mut GnosticMessage) {
    out.nested(1, |out| match value["in"].as_str() {
        Some("body") => out.nested(1, |out| {
            out.text(2, &value["name"]);
            out.text(3, &value["in"]);
            out.flag(4, &value["required"]);
            out.nested(5, |out| schema(&value["schema"], out));
        }),
        Some("path") => out.nested(2, |out| {
            out.nested(4, |out| {
                out.flag(1, &value["required"]);
                out.text(2, &value["in"]);
                out.text(4, &value["name"]);
                out.text(5, &value["type"]);
                out.flag(19, &value["uniqueItems"]);
            });
        }),
        _ => out.nested(2, |out| {
            out.nested(3, |out| {
                out.text(2, &value["in"]);
                out.text(4, &value["name"]);
                out.text(6, &value["type"]);
                out.flag(20, &value["uniqueItems"]);
            });
        }),
    });
}

fn schema(value: &Value, out: &mut GnosticMessage) {
    out.text(1, &value["$ref"]);
    out.text(2, &value["format"]);
    out.text(4, &value["description"]);
    if let Some(default) = value.get("default") {
        out.nested(5, |out| any(default, out));
    }
    for own in items(&value["required"]) {
        out.text(19, own);
    }
    for own in items(&value["enum"]) {
        out.nested(20, |out| any(own, out));
    }
    match value.get("additionalProperties") {
        None => {}
        Some(Value::Bool(allowed)) => out.nested(21, |out| out.number(2, u64::from(*allowed))),
        Some(own) => out.nested(21, |out| out.nested(1, |out| schema(own, out))),
    }
    if value.get("type").is_some() {
        out.nested(22, |out| out.text(1, &value["type"]));
    }
    if let Some(own) = value.get("items") {
        out.nested(23, |out| out.nested(1, |out| schema(own, out)));
    }
    if value.get("properties").is_some() {
        out.nested(25, |out| {
            for (name, own) in members(&value["properties"]) {
                out.named(1, name, |out| schema(own, out));
            }
        });
    }
    extensions(31, value, out);
}

fn extensions(number: u32, value: &Value, out: &mut GnosticMessage) {
    for (name, own) in members(value) {
        if name.starts_with("x-") {
            out.named(number, name, |out| any(own, out));
        }
    }
}

/// Any value, as YAML; JSON is valid YAML.
fn any(value: &Value, out: &mut GnosticMessage) {
    let text = format!("{value}\n");
    out.field(2, text.as_bytes());
}

#[derive(Default)]
struct GnosticMessage {
    bytes: Vec<u8>,
}

impl GnosticMessage {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn number(&mut self, number: u32, value: u64) {
        self.varint(u64::from(number) << 3);
        self.varint(value);
    }

    fn field(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    /// A string field; nothing if the value is not a string.
    fn text(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.field(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u32, value: &Value) {
        if value.as_bool() == Some(true) {
            self.number(number, 1);
        }
    }

    fn nested(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.field(number, &inner.bytes);
    }

    /// A message of a name and a value.
    fn named(&mut self, number: u32, name: &str, write: impl FnOnce(&mut Self)) {
        self.nested(number, |out| {
            out.field(1, name.as_bytes());
            out.nested(2, write);
        });
    }
}
