//! JSON numbers with the semantics of Go's validation.

use super::node::SchemaTypeName;
use optik_object::Value;

/// A JSON number: whole if it is written without a fraction and fits 64 bits.
#[derive(Clone, Copy, Debug)]
pub(super) enum Number {
    Whole(i64),
    Float(f64),
}

impl Number {
    pub(super) fn from_value(value: &Value) -> Option<Self> {
        let number = value.as_number()?;
        match number.as_i64() {
            Some(whole) => Some(Self::Whole(whole)),
            None => number.as_f64().map(Self::Float),
        }
    }

    pub(super) fn as_float(self) -> f64 {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "as Go converts it")]
            Self::Whole(whole) => whole as f64,
            Self::Float(float) => float,
        }
    }

    /// Prints the number as `%v` does.
    pub(super) fn to_go_string(self) -> String {
        match self {
            Self::Whole(whole) => whole.to_string(),
            Self::Float(float) => optik_object::plain_float(float),
        }
    }

    pub(super) fn is_whole(self) -> bool {
        match self {
            Self::Whole(_) => true,
            Self::Float(float) => is_whole(float),
        }
    }

    /// Whether the number is in the range of a type with a format.
    pub(super) fn fits(self, type_name: &SchemaTypeName, format: &str) -> bool {
        match (type_name, format) {
            (SchemaTypeName::Integer, "int32") => {
                matches!(self.exactly(), Some(whole) if i32::try_from(whole).is_ok())
            }
            (SchemaTypeName::Integer, _) => self.exactly().is_some(),
            (_, "float") => {
                let size = self.as_float().abs();
                size <= f64::from(f32::MAX)
            }
            _ => true,
        }
    }

    fn exactly(self) -> Option<i64> {
        match self {
            Self::Whole(whole) => Some(whole),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the range is checked before"
            )]
            Self::Float(float) if float.fract() == 0.0 && float.abs() < 9.2e18 => {
                Some(float as i64)
            }
            Self::Float(_) => None,
        }
    }

    /// Converts a bound to the representation of the number it is compared with.
    pub(super) fn bound(self, bound: f64) -> Self {
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "as Go converts it")]
            Self::Whole(_) => Self::Whole(bound as i64),
            Self::Float(_) => Self::Float(bound),
        }
    }

    /// `other` must come from [`Self::bound`].
    pub(super) fn cmp(self, other: Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(&b),
            (a, b) => a
                .as_float()
                .partial_cmp(&b.as_float())
                .unwrap_or(std::cmp::Ordering::Equal),
        }
    }

    pub(super) fn is_multiple_of(self, factor: Self) -> bool {
        match (self, factor) {
            (Self::Whole(value), Self::Whole(factor)) => factor != 0 && value % factor == 0,
            (value, factor) => {
                let (value, factor) = (value.as_float(), factor.as_float());
                let times = if factor < 1.0 {
                    1.0 / factor * value
                } else {
                    value / factor
                };
                is_whole(times)
            }
        }
    }
}

/// Whether a float is whole, within the error of the representation.
fn is_whole(float: f64) -> bool {
    const SAFE: f64 = 9_007_199_254_740_991.0;
    if !float.is_finite() || float.abs() > SAFE {
        return false;
    }
    let near = float.trunc();
    if float == near {
        return true;
    }
    if near == 0.0 {
        return false;
    }
    (float - near).abs() / (float.abs() + near.abs()) < 1e-9
}
