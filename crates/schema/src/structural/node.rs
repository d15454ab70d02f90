//! `Structural`: a node of a structural schema.

use optik_cel::GoRegex;
use optik_object::Value;

/// A structural schema with everything below it.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    pub type_name: SchemaTypeName,
    pub nullable: bool,
    /// `x-kubernetes-int-or-string`
    pub int_or_string: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve: bool,
    /// Whether there is a title; its text is kept only in the CRD.
    pub(super) has_title: bool,
    pub(super) has_description: bool,
    pub list: ListType,
    /// Sorted by name.
    pub properties: Vec<(Box<str>, Structural)>,
    pub items: Option<Box<Structural>>,
    /// The value validations.
    pub value_validation: Option<Box<ValueValidation>>,
    pub(super) rare: Option<Box<RareKeywords>>,
}

/// Keywords that most nodes lack.
#[derive(Clone, Debug, Default)]
pub(super) struct RareKeywords {
    pub(super) default: Option<Value>,
    pub(super) additional: Option<AdditionalProperties>,
    pub(super) list_keys: Vec<Box<str>>,
    /// `x-kubernetes-map-type`
    pub(super) map_type: Option<Box<str>>,
    /// An invalid `x-kubernetes-list-type`.
    pub(super) unknown_list_type: Option<Box<str>>,
    pub(super) rules: Vec<ValidationRule>,
    pub(super) disallowed: DisallowedKeywords,
}

/// Keywords that a CRD schema must not have in some or all positions.
#[derive(Clone, Debug, Default)]
pub(super) struct DisallowedKeywords {
    /// Keywords of JSON schema that are not supported: `$ref`, `definitions`.
    pub(super) unsupported: Vec<&'static str>,
    /// `x-kubernetes-preserve-unknown-fields: false`
    pub(super) preserve_false: bool,
    /// `items` is a list of schemas.
    pub(super) items_is_array: bool,
    pub(super) external_docs: bool,
    pub(super) example: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SchemaTypeName {
    #[default]
    Unset,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Not a valid type.
    Other(Box<str>),
}

/// `x-kubernetes-list-type`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Unset,
    Atomic,
    Set,
    Map,
    /// Not a valid list type.
    Other,
}

/// `additionalProperties`
#[derive(Clone, Debug)]
pub enum AdditionalProperties {
    Any,
    None,
    Of(Box<Structural>),
}

/// Validations of values.
#[derive(Clone, Debug, Default)]
pub struct ValueValidation {
    pub format: Box<str>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub unique_items: bool,
    pub(super) pattern: Option<GoRegex>,
    pub enumeration: Vec<Value>,
    pub required: Vec<Box<str>>,
    pub junctors: Option<Box<Junctors>>,
}

/// Combinations of further validations of the same value: `allOf`, `anyOf`, `oneOf`, `not`.
#[derive(Clone, Debug, Default)]
pub struct Junctors {
    pub all_of: Vec<Structural>,
    pub any_of: Vec<Structural>,
    pub one_of: Vec<Structural>,
    pub not: Option<Structural>,
}

/// A rule of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationRule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl SchemaTypeName {
    pub(super) fn parse(text: &str) -> Self {
        match text {
            "" => Self::Unset,
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            other => Self::Other(other.into()),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unset => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Other(text) => text,
        }
    }
}

impl Structural {
    #[must_use]
    pub fn property(&self, name: &str) -> Option<&Self> {
        let at = self
            .properties
            .binary_search_by(|(known, _)| known.as_ref().cmp(name));
        at.ok().map(|at| &self.properties[at].1)
    }

    #[must_use]
    pub fn default_value(&self) -> Option<&Value> {
        self.rare.as_ref()?.default.as_ref()
    }

    #[must_use]
    pub fn additional(&self) -> Option<&AdditionalProperties> {
        self.rare.as_ref()?.additional.as_ref()
    }

    /// The schema of members without a property schema.
    #[must_use]
    pub fn additional_schema(&self) -> Option<&Self> {
        match self.additional()? {
            AdditionalProperties::Of(schema) => Some(schema),
            AdditionalProperties::Any | AdditionalProperties::None => None,
        }
    }

    #[must_use]
    pub fn list_keys(&self) -> &[Box<str>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.list_keys)
    }

    #[must_use]
    pub fn map_type(&self) -> Option<&str> {
        self.rare.as_ref()?.map_type.as_deref()
    }

    #[must_use]
    pub fn rules(&self) -> &[ValidationRule] {
        self.rare.as_ref().map_or(&[], |rare| &rare.rules)
    }

    #[must_use]
    pub fn format(&self) -> &str {
        self.value_validation
            .as_ref()
            .map_or("", |checks| &checks.format)
    }

    pub(super) fn disallowed_keywords(&self) -> &DisallowedKeywords {
        static NONE: DisallowedKeywords = DisallowedKeywords {
            unsupported: Vec::new(),
            preserve_false: false,
            items_is_array: false,
            external_docs: false,
            example: false,
        };
        self.rare.as_ref().map_or(&NONE, |rare| &rare.disallowed)
    }

    /// The list type as spelled in the CRD.
    pub(super) fn list_type_text(&self) -> Option<&str> {
        match self.list {
            ListType::Unset => None,
            ListType::Atomic => Some("atomic"),
            ListType::Set => Some("set"),
            ListType::Map => Some("map"),
            ListType::Other => Some(self.rare.as_ref()?.unknown_list_type.as_deref()?),
        }
    }

    pub(super) fn junctors(&self) -> Option<&Junctors> {
        self.value_validation.as_ref()?.junctors.as_deref()
    }

    /// The schema of a member, from `properties` or `additionalProperties`.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional_schema())
    }

    /// Whether `test` holds for this node or any node below it, junctors included.
    pub fn any(&self, test: &mut dyn FnMut(&Self) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let children = self.properties.iter().map(|(_, child)| child);
        let children = children.chain(self.items.as_deref());
        let mut children = children.chain(self.additional_schema());
        if children.any(|child| child.any(test)) {
            return true;
        }
        let Some(junctors) = self.junctors() else {
            return false;
        };
        let branches = junctors.all_of.iter().chain(&junctors.any_of);
        let mut branches = branches.chain(&junctors.one_of).chain(&junctors.not);
        branches.any(|branch| branch.any(test))
    }

    /// Whether the schema has no unsupported keywords.
    #[must_use]
    pub fn is_supported(&self) -> bool {
        !self.any(&mut |node| {
            !node.disallowed_keywords().unsupported.is_empty()
                || node.disallowed_keywords().items_is_array
        })
    }

    /// Whether the schema has any CEL rule.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.any(&mut |node| !node.rules().is_empty())
    }
}
