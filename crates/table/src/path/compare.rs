//! Values of a filter side by side. Only what is of one sort can be compared.

use super::Literal;
use super::find::{Found, Nowhere};
use optik_object::JsonKind;
use std::cmp::Ordering;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// Some other signs in a row.
    Unknown,
}

impl Operator {
    pub(super) fn read(signs: &str) -> Self {
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

    pub(super) fn holds(self, left: &Found<'_>, right: &Found<'_>) -> Result<bool, Nowhere> {
        let (left, right) = (literal(left)?, literal(right)?);
        let order = match (&left, &right) {
            (Literal::Text(left), Literal::Text(right)) => Some(left.cmp(right)),
            (Literal::Integer(left), Literal::Integer(right)) => Some(left.cmp(right)),
            (Literal::Float(left), Literal::Float(right)) => left.partial_cmp(right),
            (Literal::Flag(left), Literal::Flag(right)) => {
                if !matches!(self, Self::Equal | Self::NotEqual) {
                    return Err(Nowhere);
                }
                Some(left.cmp(right))
            }
            _ => return Err(Nowhere),
        };
        match self {
            Self::Equal => Ok(order == Some(Ordering::Equal)),
            Self::NotEqual => Ok(order != Some(Ordering::Equal)),
            Self::Less => Ok(order == Some(Ordering::Less)),
            Self::LessOrEqual => Ok(matches!(order, Some(Ordering::Less | Ordering::Equal))),
            // Upstream's "greater" is "not less and not equal".
            Self::Greater => Ok(!matches!(order, Some(Ordering::Less | Ordering::Equal))),
            Self::GreaterOrEqual => Ok(order != Some(Ordering::Less)),
            Self::Unknown => Err(Nowhere),
        }
    }
}

fn literal(found: &Found<'_>) -> Result<Literal, Nowhere> {
    let view = match found {
        Found::Literal(literal) => return Ok((*literal).clone()),
        Found::View(view) => *view,
    };
    if let Some(text) = view.text() {
        return Ok(Literal::Text(text.into_owned()));
    }
    if view.kind() == JsonKind::Number {
        let integer = view.as_i64().map(Literal::Integer);
        return integer
            .or_else(|| view.as_f64().map(Literal::Float))
            .ok_or(Nowhere);
    }
    view.as_bool().map(Literal::Flag).ok_or(Nowhere)
}
