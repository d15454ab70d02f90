//! Normalization: replaces values that differ between runs.
//!
//! Identities and revisions are named after the request in whose response they were first seen, so
//! that equal values can still be recognised.

use optik_api_testkit::ApiResponse;
use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Headers that describe the response rather than the connection.
const HEADERS: &[&str] = &[
    "content-type",
    "warning",
    "retry-after",
    "cache-control",
    "location",
    "www-authenticate",
];

/// Normalizes the responses of a run.
pub(crate) struct Normalizer {
    identities: PlaceholderNames,
    revisions: PlaceholderNames,
    identity: Regex,
    time: Regex,
    numbers: Regex,
}

impl Default for Normalizer {
    fn default() -> Self {
        let regex = |text: &str| Regex::new(text).expect("it is one");
        Self {
            identities: PlaceholderNames::default(),
            revisions: PlaceholderNames::default(),
            identity: regex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
            time: regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
            numbers: regex(
                r#"(?ix)( too\ large\ resource\ version:\ \d+,\ current:\x20
                | too\ old\ resource\ version:\ \d+\ \(
                | resourceversion\ in\ (the\ precondition|record)\ \(
                | resourceVersion[\\]+":[\\]+"
                | hash= )[0-9A-F]+"#,
            ),
        }
    }
}

impl Normalizer {
    /// The status, the headers that matter and the body; only these parts of it, if any
    /// are named.
    pub(crate) fn answer(&mut self, title: &str, answer: &ApiResponse, only: &[String]) -> String {
        self.identities.start_request(title);
        self.revisions.start_request(title);
        let mut text = format!("{}\n", answer.status);
        for name in HEADERS {
            for value in answer.headers.get_all(*name) {
                let value = String::from_utf8_lossy(value.as_bytes());
                text.push_str(&format!("{name}: {value}\n"));
            }
        }
        text.push_str(&self.body(answer, only));
        let text = self.time.replace_all(&text, "<time>");
        let text = self.numbers.replace_all(&text, "$1<number>");
        let identities = &mut self.identities;
        let name = |found: &Captures<'_>| identities.name("uid", &found[0]);
        self.identity.replace_all(&text, name).into_owned()
    }

    fn body(&mut self, answer: &ApiResponse, only: &[String]) -> String {
        let text = answer.text();
        let documents = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let documents: Result<Vec<Value>, _> = documents.collect();
        let Ok(mut documents) = documents else {
            return format!("{}\n", text.trim_end());
        };
        let mut out = String::new();
        for document in &mut documents {
            self.value(document);
            if only.is_empty() {
                out.push_str(&format!("{document:#}\n"));
            }
            for pointer in only {
                let part = document.pointer(pointer).unwrap_or(&Value::Null);
                out.push_str(&format!("{pointer}: {part:#}\n"));
            }
        }
        out
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(object) => self.object(object),
            _ => {}
        }
    }

    fn object(&mut self, object: &mut Map<String, Value>) {
        // A bookmark has the newest revision, which depends on other writers.
        if object.get("type").is_some_and(|kind| kind == "BOOKMARK") {
            without_newest_revision(object);
        }
        let is_list = object.contains_key("items") || object.contains_key("rows");
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            // The newest revision depends on other writers.
            if is_list && metadata.contains_key("resourceVersion") {
                metadata.insert("resourceVersion".into(), "<newest>".into());
            }
            if let (Some(Value::String(start)), Some(Value::String(name))) =
                (metadata.get("generateName"), metadata.get("name"))
                && name.starts_with(start.as_str())
            {
                let name = format!("{start}<suffix>");
                metadata.insert("name".into(), name.into());
            }
        }
        for (key, value) in object.iter_mut() {
            match (key.as_str(), &mut *value) {
                ("resourceVersion", Value::String(text)) if is_number(text) => {
                    *text = self.revisions.name("revision", text);
                }
                ("continue", Value::String(text)) if !text.is_empty() => "<token>".clone_into(text),
                ("token", Value::String(text)) if text.len() > 100 => "<token>".clone_into(text),
                ("clusterIP", Value::String(text)) if is_address(text) => {
                    "<address>".clone_into(text);
                }
                ("clusterIPs", Value::Array(texts))
                    if texts
                        .iter()
                        .all(|text| text.as_str().is_some_and(is_address)) =>
                {
                    *value = "<addresses>".into();
                }
                ("nodePort", Value::Number(_)) => *value = "<port>".into(),
                // The order depends on whether they were written in one second.
                ("managedFields", Value::Array(entries)) => {
                    entries.sort_by_key(|entry| {
                        let part = |name| entry[name].as_str().unwrap_or_default().to_owned();
                        (part("manager"), part("operation"), part("subresource"))
                    });
                }
                // We have none.
                ("columnDefinitions", Value::Array(columns)) => {
                    for column in columns.iter_mut().filter_map(Value::as_object_mut) {
                        column.remove("description");
                    }
                }
                ("cells", Value::Array(cells)) => cells.iter_mut().for_each(without_age),
                _ => self.value(value),
            }
        }
    }
}

fn without_newest_revision(members: &mut Map<String, Value>) {
    for (name, value) in members {
        match value {
            Value::String(text) if name == "resourceVersion" => "<newest>".clone_into(text),
            Value::Object(members) => without_newest_revision(members),
            Value::Array(items) => {
                let items = items.iter_mut().filter_map(Value::as_object_mut);
                items.for_each(without_newest_revision);
            }
            _ => {}
        }
    }
}

/// Removes an age: it depends on the duration of the run and on the date.
fn without_age(cell: &mut Value) {
    if cell.as_str().is_some_and(is_age) {
        *cell = "<age>".into();
    }
}

/// Seconds, or days and years. Values in minutes and hours are settings.
fn is_age(text: &str) -> bool {
    let only = |units: &[char]| {
        let mut parts = text.split_inclusive(units);
        text.ends_with(units) && parts.all(|part| part[..part.len() - 1].parse::<u32>().is_ok())
    };
    only(&['s']) || only(&['y', 'd'])
}

fn is_number(text: &str) -> bool {
    text != "0" && !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

/// Placeholders of the values seen, by their first position.
#[derive(Default)]
struct PlaceholderNames {
    names: Vec<(String, String)>,
    title: String,
    here: usize,
}

impl PlaceholderNames {
    fn start_request(&mut self, title: &str) {
        title.clone_into(&mut self.title);
        self.here = 0;
    }

    /// The placeholder of a value: equal for equal values.
    fn name(&mut self, what: &str, word: &str) -> String {
        if let Some((_, name)) = self.names.iter().find(|(other, _)| other == word) {
            return name.clone();
        }
        self.here += 1;
        let number = match self.here {
            1 => String::new(),
            more => format!(" {more}"),
        };
        let name = format!("<{what}{number} of {}>", self.title);
        self.names.push((word.into(), name.clone()));
        name
    }
}

#[cfg(test)]
mod tests {
    use super::is_age;

    #[test]
    fn age_cells_are_recognized() {
        for age in ["7s", "6y320d", "12d", "2y"] {
            assert!(is_age(age), "{age}");
        }
        for other in ["", "s", "d", "5m", "1h", "pods", "6y320", "y6d", "é"] {
            assert!(!is_age(other), "{other}");
        }
    }
}
