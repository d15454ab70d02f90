//! Comparison operators in JSONPath filters. Only values of the same type are comparable.

use super::FilterLiteral;
use super::evaluate::{JsonPathMismatch, JsonPathValue};
use optik_object::JsonKind;
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilterOperator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An unknown sequence of operator characters.
    Unknown,
}

impl FilterOperator {
    pub(super) fn parse(signs: &str) -> Self {
        match signs {
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => Self::Unknown,
        }
    }

    pub(super) fn holds(
        self,
        left: &JsonPathValue<'_>,
        right: &JsonPathValue<'_>,
    ) -> Result<bool, JsonPathMismatch> {
        let (left, right) = (literal(left)?, literal(right)?);
        let order = match (&left, &right) {
            (FilterLiteral::Text(left), FilterLiteral::Text(right)) => Some(left.cmp(right)),
            (FilterLiteral::Integer(left), FilterLiteral::Integer(right)) => Some(left.cmp(right)),
            (FilterLiteral::Float(left), FilterLiteral::Float(right)) => left.partial_cmp(right),
            (FilterLiteral::Flag(left), FilterLiteral::Flag(right)) => {
                if !matches!(self, Self::Equal | Self::NotEqual) {
                    return Err(JsonPathMismatch);
                }
                Some(left.cmp(right))
            }
            _ => return Err(JsonPathMismatch),
        };
        match self {
            Self::Equal => Ok(order == Some(Ordering::Equal)),
            Self::NotEqual => Ok(order != Some(Ordering::Equal)),
            Self::Less => Ok(order == Some(Ordering::Less)),
            Self::LessOrEqual => Ok(matches!(order, Some(Ordering::Less | Ordering::Equal))),
            // Upstream's "greater" is "not less and not equal".
            Self::Greater => Ok(!matches!(order, Some(Ordering::Less | Ordering::Equal))),
            Self::GreaterOrEqual => Ok(order != Some(Ordering::Less)),
            Self::Unknown => Err(JsonPathMismatch),
        }
    }
}

fn literal(found: &JsonPathValue<'_>) -> Result<FilterLiteral, JsonPathMismatch> {
    let view = match found {
        JsonPathValue::Literal(literal) => return Ok((*literal).clone()),
        JsonPathValue::View(view) => *view,
    };
    if let Some(text) = view.as_str() {
        return Ok(FilterLiteral::Text(text.into_owned()));
    }
    if view.kind() == JsonKind::Number {
        let integer = view.as_i64().map(FilterLiteral::Integer);
        return integer
            .or_else(|| view.as_f64().map(FilterLiteral::Float))
            .ok_or(JsonPathMismatch);
    }
    view.as_bool()
        .map(FilterLiteral::Flag)
        .ok_or(JsonPathMismatch)
}
