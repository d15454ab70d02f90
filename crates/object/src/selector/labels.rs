//! Label selectors: `app=web,tier in (a,b),!legacy`.

use super::{SelectorError, check_length, parser};
use crate::field_error::{FieldError, aggregate_message};
use crate::names;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A conjunction of requirements. Without requirements it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<LabelRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    pub key: String,
    pub operator: LabelOperator,
    /// None for `Exists` and `DoesNotExist`, one for comparisons, any number for sets.
    pub values: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    In,
    NotIn,
    Equals,
    DoubleEquals,
    NotEquals,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

impl LabelSelector {
    pub fn parse(selector: &str) -> Result<Self, SelectorError> {
        check_length(selector)?;
        let mut requirements = parser::parse(selector).map_err(SelectorError)?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self { requirements })
    }

    /// Builds a selector from requirements that were not parsed from text, such as the
    /// `matchLabels` of an object. Nothing is validated.
    pub fn from_requirements(requirements: impl IntoIterator<Item = LabelRequirement>) -> Self {
        Self {
            requirements: requirements.into_iter().collect(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    #[must_use]
    pub fn requirements(&self) -> &[LabelRequirement] {
        &self.requirements
    }

    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.matches_with(|key| labels.get(key).map(String::as_str))
    }

    /// Whether the labels that `label` returns match.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        let mut requirements = self.requirements.iter();
        requirements.all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

impl LabelRequirement {
    /// Whether the value of the label with this key, if it exists, matches.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            LabelOperator::In | LabelOperator::Equals | LabelOperator::DoubleEquals => {
                value.is_some_and(|value| self.values.contains(value))
            }
            LabelOperator::NotIn | LabelOperator::NotEquals => {
                value.is_none_or(|value| !self.values.contains(value))
            }
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
            LabelOperator::GreaterThan => self.compare(value, |label, bound| label > bound),
            LabelOperator::LessThan => self.compare(value, |label, bound| label < bound),
        }
    }

    fn compare(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let bound = self.values.first().and_then(|bound| bound.parse().ok());
        let value = value.and_then(|value| value.parse().ok());
        matches!((value, bound), (Some(value), Some(bound)) if holds(value, bound))
    }

    /// Validates the key and the values.
    pub(super) fn check(self) -> Result<Self, String> {
        let mut errors = Vec::new();
        check_name(
            "key".into(),
            &self.key,
            &names::qualified_name(&self.key),
            &mut errors,
        );
        let is_bound = matches!(
            self.operator,
            LabelOperator::GreaterThan | LabelOperator::LessThan
        );
        for (index, value) in self.values.iter().enumerate() {
            if is_bound && value.parse::<i64>().is_err() {
                errors.push(FieldError::invalid(
                    format!("values[{index}]"),
                    value.as_str(),
                    "for 'Gt', 'Lt' operators, the value must be an integer",
                ));
            }
        }
        for (index, value) in self.values.iter().enumerate() {
            let path = format!("values[{index}][{}]", self.key);
            check_name(path, value, &names::label_value(value), &mut errors);
        }
        if errors.is_empty() {
            Ok(self)
        } else {
            Err(aggregate_message(&errors))
        }
    }
}

pub(super) fn check_name(
    path: String,
    name: &str,
    problems: &[String],
    errors: &mut Vec<FieldError>,
) {
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, name, problems.join("; ")));
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, values, .. } = self;
        let values = values
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(",");
        match self.operator {
            LabelOperator::In => write!(f, "{key} in ({values})"),
            LabelOperator::NotIn => write!(f, "{key} notin ({values})"),
            LabelOperator::Equals => write!(f, "{key}={values}"),
            LabelOperator::DoubleEquals => write!(f, "{key}=={values}"),
            LabelOperator::NotEquals => write!(f, "{key}!={values}"),
            LabelOperator::Exists => write!(f, "{key}"),
            LabelOperator::DoesNotExist => write!(f, "!{key}"),
            LabelOperator::GreaterThan => write!(f, "{key}>{values}"),
            LabelOperator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// CONC §3.5.
    #[test]
    fn label_selectors_round_trip() {
        for (selector, expected) in [
            ("", ""),
            ("  ", ""),
            ("a=b", "a=b"),
            ("a==b", "a==b"),
            ("a!=b", "a!=b"),
            ("a = b , c", "a=b,c"),
            ("c,a", "a,c"),
            ("!a", "!a"),
            ("! a", "!a"),
            ("a=", "a="),
            ("a=,b", "a=,b"),
            ("a in (c,b,c)", "a in (b,c)"),
            ("a notin(b)", "a notin (b)"),
            ("a in ()", "a in ()"),
            ("a in (,)", "a in ()"),
            ("a in (,b)", "a in (,b)"),
            ("a in (b,)", "a in (,b)"),
            ("a in (b,,c)", "a in (,b,c)"),
            ("in in (in,notin)", "in in (in,notin)"),
            ("notin=in", "notin=in"),
            ("a>5", "a>5"),
            ("example.com/a=b", "example.com/a=b"),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.to_string(), expected, "{selector}");
        }
    }

    /// CONC §3.5.
    #[test]
    fn label_selectors_match_labels() {
        let labels = |text: &str| -> BTreeMap<String, String> {
            let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
            pairs
                .map(|(key, value)| (key.into(), value.into()))
                .collect()
        };
        for (selector, object, expected) in [
            ("", "", true),
            ("a=1", "a=1", true),
            ("a=1", "a=2", false),
            ("a=1", "", false),
            ("a==1,b=2", "a=1,b=2", true),
            ("a==1,b=2", "a=1", false),
            ("a!=1", "", true),
            ("a!=1", "a=1", false),
            ("a!=1", "a=2", true),
            ("a in (1,2)", "a=2", true),
            ("a in (1,2)", "a=3", false),
            ("a in ()", "a=", true),
            ("a notin (1,2)", "", true),
            ("a notin (1,2)", "a=1", false),
            ("a", "a=", true),
            ("a", "b=", false),
            ("!a", "b=", true),
            ("!a", "a=", false),
            ("a>5", "a=6", true),
            ("a>5", "a=5", false),
            ("a>5", "a=x", false),
            ("a>5", "", false),
            ("a<5", "a=4", true),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(
                parsed.matches(&labels(object)),
                expected,
                "{selector} on {object}"
            );
        }
    }

    proptest! {
        #[test]
        fn label_selector_parse_never_panics(text: String, likely in "[a-b,=!()<> \\x00]{0,20}|a (in|notin) [(),a ]{0,12}") {
            let _ = LabelSelector::parse(&text);
            let _ = LabelSelector::parse(&likely);
        }

        #[test]
        fn label_selector_printed_form_matches_the_same(text in "[a-b]( in |=|!=| notin )[(]?[a-b]?,?[a-b]?[)]?(,!?[a-b])?") {
            if let Ok(parsed) = LabelSelector::parse(&text) {
                prop_assert_eq!(LabelSelector::parse(&parsed.to_string()), Ok(parsed));
            }
        }
    }
}
