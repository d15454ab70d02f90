//! Resource quantities: `500m`, `1Gi`, `2e3`.

use optik_object::{Map, Value};
use std::cmp::Ordering;
use std::fmt;

/// A quantity with a resolution of 10⁻⁹. Values above int64 are capped.
#[derive(Clone, Copy, Debug)]
pub struct Quantity {
    billionths: i128,
    format: QuantityFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuantityFormat {
    Binary,
    Decimal,
    Exponent,
}

/// Why a text is not a quantity. The messages are upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuantityError {
    Wrong,
    Suffix,
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Wrong => {
                "quantities must match the regular expression \
                 '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
            }
            Self::Suffix => "unable to parse quantity's suffix",
        })
    }
}

const BILLION: i128 = 1_000_000_000;
const MILLION: i128 = 1_000_000;
const LARGEST: i128 = i64::MAX as i128 * BILLION;
const DECIMAL: &[(&str, i32)] = &[
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: &[&str] = &["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

impl Quantity {
    pub const ZERO: Self = Self {
        billionths: 0,
        format: QuantityFormat::Decimal,
    };

    #[must_use]
    pub fn from_integer(number: i64) -> Self {
        Self {
            billionths: i128::from(number) * BILLION,
            format: QuantityFormat::Decimal,
        }
    }

    /// Parses a JSON string or number.
    pub fn from_value(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => text.trim().parse(),
            Value::Number(number) => number.to_string().parse(),
            _ => Err(QuantityError::Wrong),
        }
    }

    #[must_use]
    pub fn is_negative(self) -> bool {
        self.billionths < 0
    }

    #[must_use]
    pub fn is_zero(self) -> bool {
        self.billionths == 0
    }

    #[must_use]
    pub fn is_whole(self) -> bool {
        self.billionths % BILLION == 0
    }

    #[must_use]
    pub fn to_milli(self) -> i128 {
        self.billionths / MILLION
    }

    /// Rounds away from zero to thousandths.
    #[must_use]
    pub fn round_up_to_milli(self) -> Self {
        Self {
            billionths: divide_up(self.billionths, MILLION) * MILLION,
            ..self
        }
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Self {
            billionths: cap(self.billionths + other.billionths),
            format,
        }
    }

    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let negated = Self {
            billionths: -other.billionths,
            ..other
        };
        self.plus(negated)
    }

    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other > self { other } else { self }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.billionths == other.billionths
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.billionths.cmp(&other.billionths)
    }
}

fn cap(billionths: i128) -> i128 {
    billionths.clamp(-LARGEST, LARGEST)
}

fn divide_up(value: i128, by: i128) -> i128 {
    let quotient = value / by;
    match value % by {
        0 => quotient,
        rest if rest > 0 => quotient + 1,
        _ => quotient - 1,
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if number.is_empty() || fraction.contains('.') || whole.len() + fraction.len() == 0 {
            return Err(QuantityError::Wrong);
        }
        if !suffix
            .chars()
            .all(|c| "eEinumkKMGTP+-0123456789".contains(c))
        {
            return Err(QuantityError::Wrong);
        }
        let (format, base, exponent) = read_suffix(suffix)?;
        let magnitude = scaled(whole, fraction, base, exponent);
        Ok(Self {
            billionths: cap(if negative { -magnitude } else { magnitude }),
            format,
        })
    }
}

fn read_suffix(suffix: &str) -> Result<(QuantityFormat, i128, i32), QuantityError> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Ok((QuantityFormat::Decimal, 10, *exponent));
    }
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        return Ok((
            QuantityFormat::Binary,
            1024,
            i32::try_from(power).unwrap_or(0),
        ));
    }
    let exponent = suffix.strip_prefix(['e', 'E']);
    let exponent = exponent.and_then(|digits| digits.parse::<i32>().ok());
    let exponent = exponent.ok_or(QuantityError::Suffix)?;
    Ok((QuantityFormat::Exponent, 10, exponent.clamp(-60, 60)))
}

/// The number in units of 10⁻⁹, rounded up. Digits beyond the capacity are ignored.
fn scaled(whole: &str, fraction: &str, base: i128, exponent: i32) -> i128 {
    const DIGITS_MAX: usize = 27;
    let whole = whole.trim_start_matches('0');
    if whole.len() > DIGITS_MAX {
        return LARGEST;
    }
    let kept = fraction.len().min(DIGITS_MAX - whole.len());
    let digits = format!("0{whole}{}", &fraction[..kept]);
    let mut mantissa: i128 = digits.parse().unwrap_or(0);
    // The value is mantissa × 10^shift, times the power of 1024 if there is one.
    let mut shift = 9 - i32::try_from(kept).unwrap_or(0);
    if base == 1024 {
        for _ in 0..exponent {
            mantissa = mantissa.saturating_mul(1024);
        }
    } else {
        shift += exponent;
    }
    while shift > 0 && mantissa != 0 && mantissa < LARGEST {
        mantissa = mantissa.saturating_mul(10);
        shift -= 1;
    }
    let mut rest = false;
    while shift < 0 && mantissa != 0 {
        rest |= mantissa % 10 != 0;
        mantissa /= 10;
        shift += 1;
    }
    mantissa.saturating_add(i128::from(rest)).min(LARGEST)
}

impl fmt::Display for Quantity {
    /// Upstream's canonical form: no fraction, and the largest possible suffix.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.billionths == 0 {
            return f.write_str("0");
        }
        let is_small = self.billionths.abs() < 1024 * BILLION;
        if self.format == QuantityFormat::Binary && !is_small {
            let mut number = divide_up(self.billionths, BILLION);
            let mut power = 0;
            while number % 1024 == 0 && power + 1 < BINARY.len() {
                number /= 1024;
                power += 1;
            }
            return write!(f, "{number}{}", BINARY[power]);
        }
        let (mut number, mut exponent) = (self.billionths, -9);
        while number % 1000 == 0 && exponent < 18 {
            number /= 1000;
            exponent += 3;
        }
        if self.format == QuantityFormat::Exponent {
            return match exponent {
                0 => write!(f, "{number}"),
                exponent => write!(f, "{number}e{exponent}"),
            };
        }
        let suffix = DECIMAL.iter().find(|(_, known)| *known == exponent);
        write!(f, "{number}{}", suffix.map_or("", |(text, _)| text))
    }
}

/// Defaults the pod-level requests of a pod with pod-level limits: the sum of its containers'
/// requests, else the limits.
pub(crate) fn default_pod_level_requests(spec: &mut Map) {
    let Some(resources) = spec.get("resources").and_then(Value::as_object) else {
        return;
    };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    let is_shared = |name: &str| name == "cpu" || name == "memory";
    let counts = |name: &str| is_shared(name) || name.starts_with("hugepages-");
    let mut requests = match resources.get("requests") {
        Some(Value::Object(requests)) => requests.clone(),
        _ => Map::new(),
    };
    let wanted = container_requests(spec);
    for (name, amount) in wanted {
        if is_shared(&name) {
            requests.entry(name).or_insert(amount.to_string().into());
        }
    }
    for (name, limit) in limits {
        if counts(&name) {
            requests.entry(name).or_insert(limit);
        }
    }
    if let Some(Value::Object(resources)) = spec.get_mut("resources")
        && !requests.is_empty()
    {
        resources.insert("requests".into(), requests.into());
    }
}

type Amounts = std::collections::BTreeMap<String, Quantity>;

/// The aggregate requests of a pod's containers: those that run concurrently, or the largest init
/// container with the sidecars started before it, whichever is more.
fn container_requests(spec: &Map) -> Amounts {
    aggregate_container_resources(spec, "requests")
}

pub(crate) fn aggregate_container_resources(spec: &Map, which: &str) -> Amounts {
    let list = |name: &str| {
        let list = spec.get(name).and_then(Value::as_array);
        list.into_iter().flatten()
    };
    let amounts = |container: &Value| -> Amounts {
        let resources = container.get("resources").and_then(|all| all.get(which));
        let resources = resources.and_then(Value::as_object).into_iter().flatten();
        let read = resources
            .filter_map(|(name, amount)| Some((name.clone(), Quantity::from_value(amount).ok()?)));
        read.collect()
    };
    let add = |into: &mut Amounts, what: &Amounts| {
        for (name, amount) in what {
            let sum = into.get(name).copied().unwrap_or(Quantity::ZERO);
            into.insert(name.clone(), sum.plus(*amount));
        }
    };
    let mut together = Amounts::new();
    for container in list("containers") {
        add(&mut together, &amounts(container));
    }
    let (mut beside, mut before) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let mut own = amounts(container);
        if container
            .get("restartPolicy")
            .is_some_and(|policy| policy == "Always")
        {
            add(&mut together, &own);
            add(&mut beside, &own);
            own.clone_from(&beside);
        } else {
            add(&mut own, &beside);
        }
        for (name, amount) in own {
            let most = before.get(&name).copied().unwrap_or(Quantity::ZERO);
            before.insert(name, most.max(amount));
        }
    }
    for (name, amount) in before {
        let sum = together.get(&name).copied().unwrap_or(Quantity::ZERO);
        together.insert(name, sum.max(amount));
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantity_formatting_matches_upstream() {
        for (text, expected) in [
            ("0", "0"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5Gi", "1536Mi"),
            ("1024Ki", "1Mi"),
            ("512", "512"),
            ("100Ki", "100Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("12e2", "1200"),
            ("1E", "1E"),
            ("1500", "1500"),
            ("2000", "2k"),
            ("-1.5", "-1500m"),
            ("+3", "3"),
            (".5", "500m"),
            ("5.", "5"),
            ("0.0000000001", "1n"),
            ("99999999999999999999", "9223372036854775807"),
        ] {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!(quantity.to_string(), expected, "{text}");
        }
        for text in ["", "a", "1.2.3", "1Gb", "1 Gi", "--1", "."] {
            assert!(text.parse::<Quantity>().is_err(), "{text}");
        }
        let milli: Quantity = "100u".parse().unwrap();
        assert_eq!(milli.round_up_to_milli().to_string(), "1m");
    }

    #[test]
    fn quantities_compare_and_add() {
        let of = |text: &str| text.parse::<Quantity>().unwrap();
        assert!(of("1") > of("999m") && of("1Gi") > of("1G") && of("1") == of("1000m"));
        assert_eq!(of("1Gi").plus(of("1Gi")).to_string(), "2Gi");
        assert_eq!(of("3").minus(of("500m")).to_string(), "2500m");
    }
}
