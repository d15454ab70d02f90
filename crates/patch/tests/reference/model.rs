//! A naive reference of server-side apply: fields by path, each with its value and with all
//! managers that apply it. It has no types, tries or pruning.

use optik_object::Value;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// The fields that a manager applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DesiredFields {
    pub(crate) text: Option<u8>,
    pub(crate) map: BTreeMap<u8, u8>,
    pub(crate) set: BTreeSet<u8>,
    /// Items by their key, with a value or without.
    pub(crate) keyed: BTreeMap<u8, Option<u8>>,
}

fn word(number: u8) -> String {
    format!("w{}", number % 4)
}

impl DesiredFields {
    /// The content of an object of the custom kind. Empty fields are omitted.
    pub(crate) fn content(&self) -> Value {
        let mut spec = json!({});
        if let Some(text) = self.text {
            spec["text"] = word(text).into();
        }
        for (name, value) in &self.map {
            spec["map"][word(*name)] = word(*value).into();
        }
        let words: BTreeSet<String> = self.set.iter().map(|item| word(*item)).collect();
        if !words.is_empty() {
            spec["set"] = words.into_iter().map(Value::from).collect();
        }
        let items: BTreeMap<String, Option<u8>> = self
            .keyed
            .iter()
            .map(|(key, value)| (word(*key), *value))
            .collect();
        if !items.is_empty() {
            let items = items.into_iter().map(|(key, value)| {
                let mut item = json!({ "k": key });
                if let Some(value) = value {
                    item["v"] = word(value).into();
                }
                item
            });
            spec["keyed"] = items.collect();
        }
        if spec == json!({}) {
            return spec;
        }
        json!({ "spec": spec })
    }
}

/// The fields of an object of the custom kind, by path.
pub(crate) fn fields(content: &Value) -> BTreeMap<String, Value> {
    let spec = &content["spec"];
    let mut fields = BTreeMap::new();
    if let Some(text) = spec["text"].as_str() {
        fields.insert(".spec.text".into(), text.into());
    }
    for (name, value) in spec["map"].as_object().into_iter().flatten() {
        fields.insert(format!(".spec.map.{name}"), value.clone());
    }
    for item in spec["set"].as_array().into_iter().flatten() {
        fields.insert(format!(".spec.set[={item}]"), item.clone());
    }
    for item in spec["keyed"].as_array().into_iter().flatten() {
        let path = format!(".spec.keyed[k={},p=7]", item["k"]);
        for (name, value) in item.as_object().into_iter().flatten() {
            fields.insert(format!("{path}.{name}"), value.clone());
        }
        fields.insert(path, Value::Null);
    }
    fields
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    fields: BTreeMap<String, Field>,
}

#[derive(Clone, Debug)]
struct Field {
    value: Value,
    owners: BTreeSet<String>,
}

impl Model {
    /// `Ok` if the apply succeeded; otherwise the number of fields of other managers it would
    /// change.
    pub(crate) fn apply(
        &mut self,
        manager: &str,
        force: bool,
        wish: &DesiredFields,
    ) -> Result<(), usize> {
        let wanted = fields(&wish.content());
        let conflicts: usize = wanted
            .iter()
            .filter_map(|(path, value)| Some((self.fields.get(path)?, value)))
            .filter(|(field, value)| field.value != **value)
            .map(|(field, _)| {
                field
                    .owners
                    .iter()
                    .filter(|owner| *owner != manager)
                    .count()
            })
            .sum();
        if conflicts > 0 && !force {
            return Err(conflicts);
        }
        for (path, value) in &wanted {
            let field = self.fields.entry(path.clone()).or_insert_with(|| Field {
                value: value.clone(),
                owners: BTreeSet::new(),
            });
            if field.value != *value {
                field.value = value.clone();
                field.owners.clear();
            }
            field.owners.insert(manager.to_owned());
        }
        self.fields.retain(|path, field| {
            if !wanted.contains_key(path) {
                field.owners.remove(manager);
            }
            !field.owners.is_empty()
        });
        Ok(())
    }

    pub(crate) fn values(&self) -> BTreeMap<String, Value> {
        let fields = self.fields.iter();
        fields
            .map(|(path, field)| (path.clone(), field.value.clone()))
            .collect()
    }

    pub(crate) fn owned_by(&self, manager: &str) -> BTreeSet<String> {
        let fields = self.fields.iter();
        let owned = fields.filter(|(_, field)| field.owners.contains(manager));
        owned.map(|(path, _)| path.clone()).collect()
    }
}
