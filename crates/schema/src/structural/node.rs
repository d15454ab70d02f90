//! One place of a custom schema.

use optik_object::Value;
use optik_rules::Pattern;

/// A place of a schema, and everything below it.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    pub type_name: TypeName,
    pub nullable: bool,
    /// `x-kubernetes-int-or-string`
    pub int_or_string: bool,
    /// `x-kubernetes-embedded-resource`
    pub embedded: bool,
    /// `x-kubernetes-preserve-unknown-fields`
    pub preserve: bool,
    /// A title is there; what it says is kept with the definition.
    pub(super) titled: bool,
    pub(super) described: bool,
    pub list: ListType,
    /// Sorted by name.
    pub properties: Vec<(Box<str>, Structural)>,
    pub items: Option<Box<Structural>>,
    /// What values must look like.
    pub checks: Option<Box<Checks>>,
    pub(super) rare: Option<Box<Rare>>,
}

/// What most places do not have.
#[derive(Clone, Debug, Default)]
pub(super) struct Rare {
    pub(super) default: Option<Value>,
    pub(super) additional: Option<Additional>,
    pub(super) list_keys: Vec<Box<str>>,
    /// `x-kubernetes-map-type`
    pub(super) map_type: Option<Box<str>>,
    /// A list type that there is none of.
    pub(super) odd_list_type: Option<Box<str>>,
    pub(super) rules: Vec<Rule>,
    pub(super) odd: Odd,
}

/// Members that a definition must not have in some or all places.
#[derive(Clone, Debug, Default)]
pub(super) struct Odd {
    /// Keywords of JSON schema that are not supported: `$ref`, `definitions`.
    pub(super) unsupported: Vec<&'static str>,
    /// `x-kubernetes-preserve-unknown-fields: false`
    pub(super) preserve_false: bool,
    /// `items` is a list of schemas.
    pub(super) many_items: bool,
    pub(super) external_docs: bool,
    pub(super) example: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TypeName {
    #[default]
    Unset,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Nothing that a schema may say.
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
    /// Nothing that a schema may say.
    Other,
}

/// `additionalProperties`
#[derive(Clone, Debug)]
pub enum Additional {
    Any,
    None,
    Of(Box<Structural>),
}

/// Validations of values.
#[derive(Clone, Debug, Default)]
pub struct Checks {
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
    pub(super) pattern: Option<Pattern>,
    pub enumeration: Vec<Value>,
    pub required: Vec<Box<str>>,
    pub junctors: Option<Box<Junctors>>,
}

/// Combinations of further validations of the same value.
#[derive(Clone, Debug, Default)]
pub struct Junctors {
    pub all_of: Vec<Structural>,
    pub any_of: Vec<Structural>,
    pub one_of: Vec<Structural>,
    pub not: Option<Structural>,
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl TypeName {
    pub(super) fn read(text: &str) -> Self {
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
    pub fn additional(&self) -> Option<&Additional> {
        self.rare.as_ref()?.additional.as_ref()
    }

    /// The schema of members that are not declared by name.
    #[must_use]
    pub fn additional_schema(&self) -> Option<&Self> {
        match self.additional()? {
            Additional::Of(schema) => Some(schema),
            Additional::Any | Additional::None => None,
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
    pub fn rules(&self) -> &[Rule] {
        self.rare.as_ref().map_or(&[], |rare| &rare.rules)
    }

    #[must_use]
    pub fn format(&self) -> &str {
        self.checks.as_ref().map_or("", |checks| &checks.format)
    }

    pub(super) fn odd(&self) -> &Odd {
        static NONE: Odd = Odd {
            unsupported: Vec::new(),
            preserve_false: false,
            many_items: false,
            external_docs: false,
            example: false,
        };
        self.rare.as_ref().map_or(&NONE, |rare| &rare.odd)
    }

    /// As a definition spells it.
    pub(super) fn list_type_text(&self) -> Option<&str> {
        match self.list {
            ListType::Unset => None,
            ListType::Atomic => Some("atomic"),
            ListType::Set => Some("set"),
            ListType::Map => Some("map"),
            ListType::Other => Some(self.rare.as_ref()?.odd_list_type.as_deref()?),
        }
    }

    pub(super) fn junctors(&self) -> Option<&Junctors> {
        self.checks.as_ref()?.junctors.as_deref()
    }

    /// The schema of a member, declared or not.
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional_schema())
    }

    /// Whether this place or one below it, junctors included, is as asked.
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

    /// Whether no keyword is used that cannot be understood.
    #[must_use]
    pub fn is_understood(&self) -> bool {
        !self.any(&mut |node| !node.odd().unsupported.is_empty() || node.odd().many_items)
    }

    /// Whether any rule must be run for objects of this schema.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        self.any(&mut |node| !node.rules().is_empty())
    }
}
