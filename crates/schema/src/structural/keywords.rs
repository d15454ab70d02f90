//! Validation of the keywords of a CRD schema: which ones are allowed where.

use super::node::{AdditionalProperties, ListType, SchemaTypeName, Structural};
use super::rules::is_valid_field_path;
use super::structural_path::StructuralPath;
use optik_object::{FieldError, Value};
use std::collections::BTreeSet;

/// The maximum number of list keys quoted in all errors together.
const QUOTED_KEYS_MAX: usize = 100_000;

/// The errors that are ratcheted because the stored CRD already has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ratcheting {
    /// Invalid types.
    pub types: bool,
    /// Lists of type `set` whose items are not atomic.
    pub sets: bool,
    /// List keys that may be missing or null.
    pub list_keys: bool,
}

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const RESOURCE_MEMBERS: &[&str] = &["metadata", "kind", "apiVersion"];
const REASONS: &[&str] = &[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Validates the keywords of a schema. `path` is the path of the schema in its CRD.
#[must_use]
pub fn check_keywords(schema: &Structural, path: &str, lenient: Ratcheting) -> Vec<FieldError> {
    let mut checker = KeywordChecker {
        ratcheting: lenient,
        errors: Vec::new(),
    };
    checker.visit(schema, &StructuralPath::root(path), SchemaPosition::root());
    checker.errors
}

/// The position of a schema in a resource.
#[derive(Clone, Copy)]
struct SchemaPosition<'a> {
    root: bool,
    in_metadata: bool,
    /// Why defaults are forbidden here.
    no_defaults: Option<NoDefaults<'a>>,
}

#[derive(Clone, Copy)]
enum NoDefaults<'a> {
    TopLevel(&'a str),
    MetadataMap,
}

impl SchemaPosition<'_> {
    fn root() -> Self {
        Self {
            root: true,
            in_metadata: false,
            no_defaults: None,
        }
    }

    fn below(self) -> Self {
        Self {
            root: false,
            ..self
        }
    }
}

struct KeywordChecker {
    ratcheting: Ratcheting,
    errors: Vec<FieldError>,
}

impl KeywordChecker {
    fn forbid(&mut self, at: &StructuralPath<'_>, member: &str, text: &str) {
        let path = at.member(member).render();
        self.errors.push(FieldError::forbidden(path, text));
    }

    fn require(&mut self, at: &StructuralPath<'_>, member: &str, text: &str) {
        let path = at.member(member).render();
        self.errors.push(FieldError::required(path, text));
    }

    fn refuse(
        &mut self,
        at: &StructuralPath<'_>,
        member: &str,
        value: impl Into<Value>,
        text: &str,
    ) {
        let path = at.member(member).render();
        self.errors.push(FieldError::invalid(path, value, text));
    }

    fn visit(&mut self, node: &Structural, at: &StructuralPath<'_>, place: SchemaPosition<'_>) {
        self.check_own(node, at, place);
        if node
            .value_validation
            .as_ref()
            .is_some_and(|checks| checks.unique_items)
        {
            let text = "uniqueItems cannot be set to true since the runtime complexity becomes \
                        quadratic";
            self.forbid(at, "uniqueItems", text);
        }
        self.visit_additional(node, at, place);
        for (name, child) in &node.properties {
            let mut below = place.below();
            if (place.root || node.embedded) && RESOURCE_MEMBERS.contains(&&**name) {
                below.in_metadata = true;
                if place.root {
                    below.no_defaults = Some(NoDefaults::TopLevel(name));
                }
            }
            let of_properties = at.member("properties");
            self.visit(child, &of_properties.key(name), below);
        }
        self.visit_junctors(node, at, place.below());
        if let Some(items) = &node.items {
            self.visit(items, &at.member("items"), place.below());
        }
        self.check_extensions(node, at);
        self.check_list(node, at);
        self.check_rules(node, at);
    }

    fn visit_additional(
        &mut self,
        node: &Structural,
        at: &StructuralPath<'_>,
        place: SchemaPosition<'_>,
    ) {
        let Some(additional) = node.additional() else {
            return;
        };
        if !node.properties.is_empty() && !matches!(additional, AdditionalProperties::Any) {
            let text = "additionalProperties and properties are mutual exclusive";
            self.forbid(at, "additionalProperties", text);
        }
        if let AdditionalProperties::Of(of) = additional {
            let mut below = place.below();
            if place.in_metadata {
                below.no_defaults = Some(NoDefaults::MetadataMap);
            }
            self.visit(of, &at.member("additionalProperties"), below);
        }
    }

    fn visit_junctors(
        &mut self,
        node: &Structural,
        at: &StructuralPath<'_>,
        place: SchemaPosition<'_>,
    ) {
        let Some(junctors) = node.junctors() else {
            return;
        };
        if let Some(not) = &junctors.not {
            self.visit(not, &at.member("not"), place);
        }
        for (name, branches) in [
            ("allOf", &junctors.all_of),
            ("oneOf", &junctors.one_of),
            ("anyOf", &junctors.any_of),
        ] {
            let list = at.member(name);
            for (index, branch) in branches.iter().enumerate() {
                self.visit(branch, &list.index(index), place);
            }
        }
    }

    fn check_own(&mut self, node: &Structural, at: &StructuralPath<'_>, place: SchemaPosition<'_>) {
        if let SchemaTypeName::Other(text) = &node.type_name
            && !self.ratcheting.types
        {
            let path = at.member("type").render();
            let error = FieldError::not_supported(path, &**text, TYPES);
            self.errors.push(error);
        }
        if let (Some(why), Some(_)) = (place.no_defaults, node.default_value()) {
            let text = match why {
                NoDefaults::TopLevel(name) => format!("must not be set in top-level {name}"),
                NoDefaults::MetadataMap => {
                    "must not be set inside additionalProperties applying to object metadata".into()
                }
            };
            self.forbid(at, "default", &text);
        }
        for name in &node.disallowed_keywords().unsupported {
            self.forbid(at, name, &format!("{name} is not supported"));
        }
        if node.type_name.as_str() == "null" {
            let text = "type cannot be set to null, use nullable as an alternative";
            self.forbid(at, "type", text);
        }
        if node.disallowed_keywords().items_is_array {
            self.forbid(
                at,
                "items",
                "items must be a schema object and not an array",
            );
        }
        if place.in_metadata && node.embedded {
            let text = "must not be used inside of resource meta";
            self.forbid(at, "x-kubernetes-embedded-resource", text);
        }
    }

    fn check_extensions(&mut self, node: &Structural, at: &StructuralPath<'_>) {
        if node.disallowed_keywords().preserve_false {
            let name = "x-kubernetes-preserve-unknown-fields";
            self.refuse(at, name, false, "must be true or undefined");
        }
        let Some(map_type) = node.map_type() else {
            return;
        };
        if node.type_name != SchemaTypeName::Object {
            let text = "must be object if x-kubernetes-map-type is specified";
            self.wrong_type(node, at, text);
        }
        if !matches!(map_type, "atomic" | "granular") {
            let path = at.member("x-kubernetes-map-type").render();
            let error = FieldError::not_supported(path, map_type, &["atomic", "granular"]);
            self.errors.push(error);
        }
    }

    fn wrong_type(&mut self, node: &Structural, at: &StructuralPath<'_>, text: &str) {
        match node.type_name.as_str() {
            "" => self.require(at, "type", text),
            given => self.refuse(at, "type", given, text),
        }
    }

    fn check_list(&mut self, node: &Structural, at: &StructuralPath<'_>) {
        const TYPE: &str = "x-kubernetes-list-type";
        let list_type = node.list_type_text();
        if list_type.is_some() && node.type_name != SchemaTypeName::Array {
            let text = "must be array if x-kubernetes-list-type is specified";
            self.wrong_type(node, at, text);
        } else if node.list == ListType::Set && !self.ratcheting.sets {
            self.check_set_items(node, at);
        }
        if let (ListType::Other, Some(text)) = (node.list, list_type) {
            let path = at.member(TYPE).render();
            let supported = &["atomic", "set", "map"];
            let error = FieldError::not_supported(path, text, supported);
            self.errors.push(error);
        }
        if !node.list_keys().is_empty() {
            let text = "must be map if x-kubernetes-list-map-keys is non-empty";
            match (node.list, list_type) {
                (ListType::Map, _) => {}
                (_, Some(list_type)) => self.refuse(at, TYPE, list_type, text),
                (_, None) => self.require(at, TYPE, text),
            }
        }
        if node.list == ListType::Map {
            self.check_map_items(node, at);
        }
        if !self.ratcheting.list_keys {
            self.check_identity(node, at);
        }
    }

    fn check_set_items(&mut self, node: &Structural, at: &StructuralPath<'_>) {
        let Some(items) = node.items.as_deref() else {
            return;
        };
        let text = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let at_items = at.member("items");
        let list_type = items.list_type_text();
        match items.type_name {
            SchemaTypeName::Array if list_type.is_some_and(|text| text != "atomic") => {
                self.refuse(&at_items, "x-kubernetes-list-type", list_type, text);
            }
            SchemaTypeName::Object if items.map_type() != Some("atomic") => {
                self.refuse(&at_items, "x-kubernetes-map-type", list_type, text);
            }
            _ => {}
        }
    }

    fn check_map_items(&mut self, node: &Structural, at: &StructuralPath<'_>) {
        const KEYS: &str = "x-kubernetes-list-map-keys";
        if node.list_keys().is_empty() {
            let text = "must not be empty if x-kubernetes-list-type is map";
            self.require(at, KEYS, text);
        }
        let Some(items) = node.items.as_deref() else {
            if !node.disallowed_keywords().items_is_array {
                let text = "must have a schema if x-kubernetes-list-type is map";
                self.require(at, "items", text);
            }
            return;
        };
        let at_items = at.member("items");
        if items.type_name != SchemaTypeName::Object {
            let text = "must be object if parent array's x-kubernetes-list-type is map";
            self.refuse(&at_items, "type", items.type_name.as_str(), text);
            return;
        }
        let keys = node.list_keys();
        let shown = || {
            Value::from(
                keys.iter()
                    .map(|key| Value::from(&**key))
                    .collect::<Vec<_>>(),
            )
        };
        // Each error quotes the whole list of keys, so a long list is quoted only a few times.
        let mut quotes_left = 1 + QUOTED_KEYS_MAX / keys.len().max(1);
        let mut seen = BTreeSet::new();
        for key in keys {
            if quotes_left == 0 {
                return;
            }
            let before = self.errors.len();
            match items.property(key) {
                Some(of)
                    if matches!(of.type_name, SchemaTypeName::Array | SchemaTypeName::Object) =>
                {
                    let text =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    let of_properties = at_items.member("properties");
                    self.refuse(&of_properties.key(key), "type", "object", text);
                }
                Some(_) => {}
                None => self.refuse(
                    at,
                    KEYS,
                    shown(),
                    "entries must all be names of item properties",
                ),
            }
            if !seen.insert(key) {
                self.refuse(at, KEYS, shown(), "must not contain duplicate entries");
            }
            quotes_left = quotes_left.saturating_sub(self.errors.len() - before);
        }
    }

    /// Checks that what identifies an item is always present: items of sets, and the keys of items
    /// of maps.
    fn check_identity(&mut self, node: &Structural, at: &StructuralPath<'_>) {
        let (ListType::Set | ListType::Map, Some(items)) = (node.list, node.items.as_deref())
        else {
            return;
        };
        let at_items = at.member("items");
        if items.nullable {
            let list_type = node.list_type_text().unwrap_or_default();
            let text = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbid(&at_items, "nullable", &text);
        }
        if node.list != ListType::Map {
            return;
        }
        let required = items
            .value_validation
            .as_ref()
            .map_or(&[][..], |checks| &checks.required);
        let required: BTreeSet<&str> = required.iter().map(|name| &**name).collect();
        for key in node.list_keys() {
            let Some(of) = items.property(key) else {
                continue;
            };
            let of_properties = at_items.member("properties");
            let at_key = of_properties.key(key);
            if !required.contains(&**key) && of.default_value().is_none() {
                let text = "this property is in x-kubernetes-list-map-keys, so it must have a \
                            default or be a required property";
                self.require(&at_key, "default", text);
            }
            if of.nullable {
                let text = "this property is in x-kubernetes-list-map-keys, so it cannot be \
                            nullable";
                self.forbid(&at_key, "nullable", text);
            }
        }
    }

    fn check_rules(&mut self, node: &Structural, at: &StructuralPath<'_>) {
        let at_rules = at.member("x-kubernetes-validations");
        for (index, rule) in node.rules().iter().enumerate() {
            let at = at_rules.index(index);
            let breaks = |text: &str| text.trim().contains(['\n', '\r']);
            let blank = |text: &str| !text.is_empty() && text.trim().is_empty();
            if rule.rule.trim().is_empty() {
                self.require(&at, "rule", "rule is not specified");
            } else if blank(&rule.message) {
                let text = "must be non-empty if specified";
                self.refuse(&at, "message", rule.message.as_str(), text);
            } else if breaks(&rule.message) {
                let text = "must not contain line breaks";
                self.refuse(&at, "message", rule.message.as_str(), text);
            } else if breaks(&rule.rule) && rule.message.trim().is_empty() {
                let text = "message must be specified if rule contains line breaks";
                self.require(&at, "message", text);
            }
            if blank(&rule.message_expression) {
                let text = "messageExpression must be non-empty if specified";
                self.require(&at, "messageExpression", text);
            }
            if let Some(reason) = &rule.reason
                && !REASONS.contains(&reason.as_str())
            {
                let path = at.member("reason").render();
                let error = FieldError::not_supported(path, reason.as_str(), REASONS);
                self.errors.push(error);
            }
            if blank(&rule.field_path) {
                let text = "must be non-empty if specified";
                self.refuse(&at, "fieldPath", rule.field_path.as_str(), text);
            }
            if rule.field_path.contains(['\n', '\r']) {
                let text = "must not contain line breaks";
                self.refuse(&at, "fieldPath", rule.field_path.as_str(), text);
            }
            if !rule.field_path.is_empty() && !is_valid_field_path(&rule.field_path, node) {
                let text = "must be a valid path";
                self.refuse(&at, "fieldPath", rule.field_path.as_str(), text);
            }
        }
    }
}
