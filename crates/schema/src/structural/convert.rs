//! Conversion of the JSON of a CRD schema to a [`Structural`].
//!
//! Conversion is lenient: a member of the wrong type is treated as absent, because the types of the
//! CRD's members are checked before.

use super::node::{
    AdditionalProperties, DisallowedKeywords, Junctors, ListType, RareKeywords, SchemaTypeName,
    Structural, ValidationRule, ValueValidation,
};
use optik_cel::GoRegex;
use optik_object::{Map, Value};

/// Keywords of JSON schema that no CRD may use, as errors name them.
const UNSUPPORTED: &[&str] = &[
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
];

impl Structural {
    /// Converts the value of `openAPIV3Schema`.
    #[must_use]
    pub fn from_json(value: &Value) -> Self {
        match value {
            Value::Object(members) => convert_node(members),
            _ => Self::default(),
        }
    }
}

fn convert_node(members: &Map) -> Structural {
    let flag = |name: &str| members.get(name) == Some(&Value::Bool(true));
    let list_text = text(members, "x-kubernetes-list-type");
    let mut node = Structural {
        type_name: SchemaTypeName::parse(text(members, "type")),
        nullable: flag("nullable"),
        int_or_string: flag("x-kubernetes-int-or-string"),
        embedded: flag("x-kubernetes-embedded-resource"),
        preserve: flag("x-kubernetes-preserve-unknown-fields"),
        has_title: !text(members, "title").is_empty(),
        has_description: !text(members, "description").is_empty(),
        list: match list_text {
            "" => ListType::Unset,
            "atomic" => ListType::Atomic,
            "set" => ListType::Set,
            "map" => ListType::Map,
            _ => ListType::Other,
        },
        properties: properties(members),
        items: match members.get("items") {
            Some(items @ Value::Object(_)) => Some(Box::new(Structural::from_json(items))),
            _ => None,
        },
        value_validation: value_validation(members).map(Box::new),
        rare: None,
    };
    node.rare = rare_keywords(members, list_text).map(Box::new);
    node
}

fn text<'m>(members: &'m Map, name: &str) -> &'m str {
    members.get(name).and_then(Value::as_str).unwrap_or("")
}

fn texts(members: &Map, name: &str) -> Vec<Box<str>> {
    let list = members.get(name).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(Box::from).collect()
}

/// Sorted, because the map is sorted.
fn properties(members: &Map) -> Vec<(Box<str>, Structural)> {
    let Some(Value::Object(properties)) = members.get("properties") else {
        return Vec::new();
    };
    let read = properties
        .iter()
        .map(|(name, value)| (name.as_str().into(), Structural::from_json(value)));
    let mut read: Vec<(Box<str>, Structural)> = read.collect();
    read.sort_by(|(a, _), (b, _)| a.cmp(b));
    read
}

fn rare_keywords(members: &Map, list_type: &str) -> Option<RareKeywords> {
    let rare = RareKeywords {
        default: members.get("default").filter(|v| !v.is_null()).cloned(),
        additional: match members.get("additionalProperties") {
            Some(Value::Bool(true)) => Some(AdditionalProperties::Any),
            Some(Value::Bool(false)) => Some(AdditionalProperties::None),
            Some(schema @ Value::Object(_)) => Some(AdditionalProperties::Of(Box::new(
                Structural::from_json(schema),
            ))),
            _ => None,
        },
        list_keys: texts(members, "x-kubernetes-list-map-keys"),
        map_type: members
            .get("x-kubernetes-map-type")
            .and_then(Value::as_str)
            .map(Box::from),
        unknown_list_type: (!matches!(list_type, "" | "atomic" | "set" | "map"))
            .then(|| list_type.into()),
        rules: rules(members),
        disallowed: disallowed_keywords(members),
    };
    let RareKeywords {
        default,
        additional,
        list_keys,
        map_type,
        unknown_list_type: odd_list_type,
        rules,
        disallowed: odd,
    } = &rare;
    let plain = default.is_none()
        && additional.is_none()
        && list_keys.is_empty()
        && map_type.is_none()
        && odd_list_type.is_none()
        && rules.is_empty()
        && odd.unsupported.is_empty()
        && !(odd.preserve_false || odd.items_is_array || odd.external_docs || odd.example);
    (!plain).then_some(rare)
}

fn disallowed_keywords(members: &Map) -> DisallowedKeywords {
    let says = |name: &str| match members.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty() || name == "dependencies",
        Some(_) => true,
    };
    let unsupported = UNSUPPORTED.iter().copied().filter(|name| says(name));
    DisallowedKeywords {
        unsupported: unsupported.collect(),
        preserve_false: members.get("x-kubernetes-preserve-unknown-fields")
            == Some(&Value::Bool(false)),
        items_is_array: matches!(members.get("items"), Some(Value::Array(_))),
        external_docs: says("externalDocs"),
        example: says("example"),
    }
}

fn rules(members: &Map) -> Vec<ValidationRule> {
    let list = members.get("x-kubernetes-validations");
    let list = list.and_then(Value::as_array).into_iter().flatten();
    let rules = list
        .filter_map(Value::as_object)
        .map(|rule| ValidationRule {
            rule: text(rule, "rule").into(),
            message: text(rule, "message").into(),
            message_expression: text(rule, "messageExpression").into(),
            reason: rule
                .get("reason")
                .and_then(Value::as_str)
                .map(str::to_owned),
            field_path: text(rule, "fieldPath").into(),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        });
    rules.collect()
}

/// The keywords that are kept in [`ValueValidation`].
const VALUE_VALIDATION_KEYWORDS: &[&str] = &[
    "format",
    "maximum",
    "minimum",
    "multipleOf",
    "maxLength",
    "minLength",
    "maxItems",
    "minItems",
    "maxProperties",
    "minProperties",
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "pattern",
    "enum",
    "required",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
];

fn value_validation(members: &Map) -> Option<ValueValidation> {
    if !VALUE_VALIDATION_KEYWORDS
        .iter()
        .any(|name| members.contains_key(*name))
    {
        return None;
    }
    let flag = |name: &str| members.get(name) == Some(&Value::Bool(true));
    let number = |name: &str| members.get(name).and_then(Value::as_f64);
    let count = |name: &str| members.get(name).and_then(Value::as_i64);
    Some(ValueValidation {
        format: text(members, "format").into(),
        maximum: number("maximum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        minimum: number("minimum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        multiple_of: number("multipleOf"),
        max_length: count("maxLength"),
        min_length: count("minLength"),
        max_items: count("maxItems"),
        min_items: count("minItems"),
        max_properties: count("maxProperties"),
        min_properties: count("minProperties"),
        unique_items: flag("uniqueItems"),
        pattern: match text(members, "pattern") {
            "" => None,
            pattern => Some(GoRegex::new(pattern)),
        },
        enumeration: match members.get("enum") {
            Some(Value::Array(values)) => values.clone(),
            _ => Vec::new(),
        },
        required: texts(members, "required"),
        junctors: junctors(members).map(Box::new),
    })
}

fn junctors(members: &Map) -> Option<Junctors> {
    let branches = |name: &str| {
        let list = members.get(name).and_then(Value::as_array);
        list.into_iter()
            .flatten()
            .map(Structural::from_json)
            .collect()
    };
    let junctors = Junctors {
        all_of: branches("allOf"),
        any_of: branches("anyOf"),
        one_of: branches("oneOf"),
        not: match members.get("not") {
            Some(not @ Value::Object(_)) => Some(Structural::from_json(not)),
            _ => None,
        },
    };
    let Junctors {
        all_of,
        any_of,
        one_of,
        not,
    } = &junctors;
    let none = all_of.is_empty() && any_of.is_empty() && one_of.is_empty() && not.is_none();
    (!none).then_some(junctors)
}
