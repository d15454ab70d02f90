//! Defaulting of built-in kinds: values of fields that are not set.
//!
//! Most defaults are lines of a table; a few depend on other fields and are functions. Both belong
//! to protobuf messages, so every kind that contains a pod template gets the defaults of pods.

mod default_fns;

use optik_object::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

pub(crate) use default_fns::{DefaultFn, for_message as computed};

/// One line of the table.
#[derive(Debug)]
pub(crate) struct FieldDefault {
    /// The non-pointer structures that lead to the field.
    pub(crate) parents: Vec<&'static str>,
    pub(crate) field: &'static str,
    pub(crate) value: Value,
}

/// The table lines of a message.
pub(crate) fn for_message(message: &str) -> &'static [FieldDefault] {
    static TABLE: OnceLock<BTreeMap<&'static str, Vec<FieldDefault>>> = OnceLock::new();
    let table = TABLE.get_or_init(|| parse_table(include_str!("table.txt")));
    table.get(message).map(Vec::as_slice).unwrap_or_default()
}

fn parse_table(text: &'static str) -> BTreeMap<&'static str, Vec<FieldDefault>> {
    let mut table: BTreeMap<&'static str, Vec<FieldDefault>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((message, default)) = parse_line(line) else {
            debug_assert!(false, "unreadable: {line}");
            continue;
        };
        table.entry(message).or_default().push(default);
    }
    table
}

fn parse_line(line: &'static str) -> Option<(&'static str, FieldDefault)> {
    let (message, rest) = line.split_once(' ')?;
    let (path, value) = rest.split_once(' ')?;
    let mut parents: Vec<&str> = path.split('.').collect();
    let field = parents.pop()?;
    let value = optik_object::parse(value.as_bytes()).ok()?.value;
    Some((
        message,
        FieldDefault {
            parents,
            field,
            value,
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_catalog::messages;

    /// A line with an unknown message or field would never apply.
    #[test]
    fn default_table_names_existing_fields() {
        let messages = messages();
        let known: BTreeMap<&str, _> = messages
            .all()
            .map(|message| (message.name, &message.fields))
            .collect();
        for (message, defaults) in parse_table(include_str!("table.txt")) {
            let fields = known.get(message);
            let fields = fields.unwrap_or_else(|| panic!("no message {message}"));
            for default in defaults {
                let first = default.parents.first().unwrap_or(&default.field);
                let found = fields.iter().any(|field| field.name == *first);
                assert!(found, "{message} has no {first}");
            }
        }
    }
}
