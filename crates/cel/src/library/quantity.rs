//! The quantity library: resource quantities such as `1.5Gi`.
//!
//! Some of its functions share their names with the semver library.

use super::{OpaqueValue, args, semver};
use crate::value::{EvalError, Result, Value};
use std::cmp::Ordering;

const NANOS: i128 = 1_000_000_000;

/// A quantity in units of 10⁻⁹.
#[derive(Clone, Copy, Debug)]
pub struct CelQuantity {
    nanos: i128,
    /// Whether it was written with a fraction or a sub-unit; `isInteger` is then false, even if the
    /// value is whole.
    fine: bool,
}

impl PartialEq for CelQuantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl CelQuantity {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.trim_start_matches(['+', '-']);
        if text.len() - digits.len() > 1 {
            return None;
        }
        let negative = text.starts_with('-');
        let end = digits
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(digits.len());
        let (number, suffix) = digits.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let unit = unit(suffix)?;
        let digits = i64::try_from(whole.trim_start_matches('0').len() + fraction.len());
        let digits = digits.unwrap_or(i64::MAX);
        // Upstream stores the value as a small integer with a power of ten, or as a decimal if it
        // does not fit.
        let fine = match unit {
            QuantityUnit::Decimal(power) => {
                digits > 18 || i64::from(power) < i64::try_from(fraction.len()).unwrap_or(i64::MAX)
            }
            QuantityUnit::Binary(bits) => {
                !fraction.is_empty() || 15 - digits - i64::from(bits) * 3 / 10 - 1 < 0
            }
        };
        let nanos = scaled(whole, fraction, unit);
        let nanos = if negative { -nanos } else { nanos };
        Some(Self { nanos, fine })
    }

    const fn whole(number: i64) -> Self {
        Self {
            nanos: number as i128 * NANOS,
            fine: false,
        }
    }

    fn integer(self) -> Option<i64> {
        let whole = self.nanos % NANOS == 0 && !self.fine;
        whole.then(|| i64::try_from(self.nanos / NANOS).ok())?
    }
}

#[derive(Clone, Copy)]
enum QuantityUnit {
    /// The exponent of a power of ten.
    Decimal(i32),
    /// The exponent of a power of two.
    Binary(u32),
}

fn unit(suffix: &str) -> Option<QuantityUnit> {
    Some(match suffix {
        "" => QuantityUnit::Decimal(0),
        "n" => QuantityUnit::Decimal(-9),
        "u" => QuantityUnit::Decimal(-6),
        "m" => QuantityUnit::Decimal(-3),
        "k" => QuantityUnit::Decimal(3),
        "M" => QuantityUnit::Decimal(6),
        "G" => QuantityUnit::Decimal(9),
        "T" => QuantityUnit::Decimal(12),
        "P" => QuantityUnit::Decimal(15),
        "E" => QuantityUnit::Decimal(18),
        "Ki" => QuantityUnit::Binary(10),
        "Mi" => QuantityUnit::Binary(20),
        "Gi" => QuantityUnit::Binary(30),
        "Ti" => QuantityUnit::Binary(40),
        "Pi" => QuantityUnit::Binary(50),
        "Ei" => QuantityUnit::Binary(60),
        other => {
            let power = other.strip_prefix(['e', 'E'])?;
            QuantityUnit::Decimal(power.parse().ok()?)
        }
    })
}

/// The largest quantity; larger ones saturate.
const NANOS_MAX: i128 = i64::MAX as i128 * NANOS;

/// The value rounded up to 10⁻⁹ and capped at the largest quantity.
fn scaled(whole: &str, fraction: &str, unit: QuantityUnit) -> i128 {
    let mut mantissa: i128 = 0;
    let mut power: i32 = 9;
    let mut lost = false;
    let digits = whole.bytes().map(|digit| (digit, false));
    for (digit, behind) in digits.chain(fraction.bytes().map(|digit| (digit, true))) {
        let digit = i128::from(digit - b'0');
        if mantissa > 10_i128.pow(30) {
            // More digits than any quantity has: only their magnitude counts.
            power = power.saturating_add(i32::from(!behind));
            lost |= digit > 0;
            continue;
        }
        mantissa = mantissa * 10 + digit;
        power = power.saturating_sub(i32::from(behind));
    }
    if mantissa == 0 {
        return 0;
    }
    match unit {
        QuantityUnit::Decimal(by) => power = power.saturating_add(by),
        QuantityUnit::Binary(bits) => match mantissa.checked_mul(1 << bits) {
            Some(product) => mantissa = product,
            None => return NANOS_MAX,
        },
    }
    if power >= 0 {
        let factor = u32::try_from(power)
            .ok()
            .and_then(|power| 10_i128.checked_pow(power));
        let product = factor.and_then(|factor| mantissa.checked_mul(factor));
        return product.unwrap_or(NANOS_MAX).min(NANOS_MAX);
    }
    let divisor = 10_i128.checked_pow(power.unsigned_abs());
    let Some(divisor) = divisor else {
        return 1;
    };
    let up = i128::from(mantissa % divisor != 0 || lost);
    (mantissa / divisor + up).min(NANOS_MAX)
}

fn as_quantity(value: &Value<'_>) -> Result<CelQuantity> {
    match value {
        Value::Opaque(thing) => match &**thing {
            OpaqueValue::Quantity(quantity) => Ok(*quantity),
            _ => Err(EvalError::no_overload()),
        },
        _ => Err(EvalError::no_overload()),
    }
}

pub(crate) fn quantity<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => {
        let quantity = CelQuantity::parse(text.as_str());
        let quantity = quantity.ok_or_else(|| {
            EvalError::new(
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            )
        })?;
        Ok(Value::opaque(OpaqueValue::Quantity(quantity)))
    })
}

pub(crate) fn is_quantity<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, Value::String(text) => {
        Ok(Value::Bool(CelQuantity::parse(text.as_str()).is_some()))
    })
}

pub(crate) fn sign<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, quantity => Ok(Value::Int(match as_quantity(quantity)?.nanos.signum() {
        -1 => -1,
        0 => 0,
        _ => 1,
    })))
}

/// Compares two quantities, or two versions.
fn ordering(args: &[Value<'_>]) -> Result<Ordering> {
    let [a, b] = args else {
        return Err(EvalError::no_overload());
    };
    if let Some(ordering) = semver::ordering(a, b) {
        return Ok(ordering);
    }
    Ok(as_quantity(a)?.nanos.cmp(&as_quantity(b)?.nanos))
}

pub(crate) fn is_greater<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(ordering(args)? == Ordering::Greater))
}

pub(crate) fn is_less<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Bool(ordering(args)? == Ordering::Less))
}

pub(crate) fn compare<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    Ok(Value::Int(match ordering(args)? {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    }))
}

pub(crate) fn as_float<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, quantity => {
        let nanos = as_quantity(quantity)?.nanos;
        Ok(Value::Double(match nanos % NANOS {
            0 => (nanos / NANOS) as f64,
            _ => nanos as f64 / NANOS as f64,
        }))
    })
}

pub(crate) fn as_integer<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, quantity => {
        let integer = as_quantity(quantity)?.integer().map(Value::Int);
        integer.ok_or_else(|| EvalError::new("cannot convert value to integer"))
    })
}

pub(crate) fn is_integer<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    args!(args, quantity => Ok(Value::Bool(as_quantity(quantity)?.integer().is_some())))
}

fn add_signed<'a>(args: &[Value<'a>], sign: i128) -> Result<Value<'a>> {
    let [a, b] = args else {
        return Err(EvalError::no_overload());
    };
    let (a, b) = match b {
        Value::Int(number) => (as_quantity(a)?, CelQuantity::whole(*number)),
        b => (as_quantity(a)?, as_quantity(b)?),
    };
    let sum = CelQuantity {
        nanos: a.nanos + sign * b.nanos,
        fine: a.fine || b.fine,
    };
    Ok(Value::opaque(OpaqueValue::Quantity(sum)))
}

pub(crate) fn add<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    add_signed(args, 1)
}

pub(crate) fn sub<'a>(args: &[Value<'a>]) -> Result<Value<'a>> {
    add_signed(args, -1)
}
