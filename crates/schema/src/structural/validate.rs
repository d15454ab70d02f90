//! Validation of custom resources against their structural schema, with Go's error messages.
//!
//! Follows upstream's validator step by step where its order is visible: the order of errors, the
//! choice of the closest alternative, and repeated errors.

use super::correlation::{ComparisonCache, CorrelatedValue};
use super::format;
use super::node::{AdditionalProperties, Junctors, SchemaTypeName, Structural, ValueValidation};
use super::number::Number;
use super::structural_path::{NIL_PATH, StructuralPath};
use optik_object::{FieldError, FieldErrorKind, Map, Value, quote};

/// The options of a validation.
#[derive(Clone, Copy)]
pub struct ValidationOptions<'a> {
    /// The prefix of the paths of errors: empty, or `status`.
    pub base: &'a str,
    /// The value before an update: errors of unchanged values are ratcheted.
    pub old: Option<&'a Value>,
}

/// Validates a value.
#[must_use]
pub fn validate(schema: &Structural, value: &Value, how: ValidationOptions<'_>) -> Vec<FieldError> {
    let judged = ComparisonCache::default();
    let before = how.old.map(|old| CorrelatedValue {
        schema,
        old,
        new: value,
        cache: &judged,
    });
    let root = StructuralPath::root("");
    let outcome = ratcheted(schema, value, &root, before);
    let errors = outcome.errors.into_iter();
    errors
        .map(|error| error.into_field_error(how.base))
        .collect()
}

/// A validation error, with the text that is reported and the text that is compared.
#[derive(Clone, Debug)]
struct SchemaViolation {
    /// The path in the value; `.a` and `a` are equal. `None` if the error has no path.
    place: Option<String>,
    kind: FieldErrorKind,
    /// Errors with the same message are duplicates.
    message: String,
    /// The part of the message that is reported.
    detail: String,
}

impl SchemaViolation {
    fn into_field_error(self, base: &str) -> FieldError {
        let place = self.place.unwrap_or_default();
        let place = place.strip_prefix('.').unwrap_or(&place);
        let path = match (base, place) {
            ("", "") => NIL_PATH.into(),
            (base, "") => base.into(),
            ("", place) => place.into(),
            (base, place) => format!("{base}.{place}"),
        };
        FieldError::new(path, self.kind, self.detail)
    }
}

/// The maximum number of errors that are reported. Every error is compared with all others.
const ERRORS_MAX: usize = 1000;

/// The errors of a check, and the number of checks that counted as matches.
#[derive(Debug, Default)]
struct ValidationResult {
    errors: Vec<SchemaViolation>,
    match_count: u32,
}

impl ValidationResult {
    fn add(&mut self, error: SchemaViolation) {
        if self.errors.len() < ERRORS_MAX
            && !self
                .errors
                .iter()
                .any(|known| known.message == error.message)
        {
            self.errors.push(error);
        }
    }

    fn merge(&mut self, other: Self) {
        self.match_count += other.match_count;
        for error in other.errors {
            self.add(error);
        }
    }

    fn increment_match_count(&mut self) {
        self.match_count += 1;
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    /// Adds an error about a value, with the whole sentence as the detail.
    fn refuse(&mut self, at: &StructuralPath<'_>, value: Value, sentence: &str) {
        let place = at.render();
        let message = format!("{place} in body {sentence}");
        self.add(SchemaViolation {
            detail: message.clone(),
            message,
            place: Some(place),
            kind: FieldErrorKind::Invalid { value },
        });
    }

    /// Adds an error of a kind that has its own detail.
    fn refuse_as(&mut self, at: &StructuralPath<'_>, sentence: &str, error: FieldError) {
        let place = at.render();
        self.add(SchemaViolation {
            message: format!("{place} in body {sentence}"),
            place: Some(place),
            kind: error.kind,
            detail: error.detail,
        });
    }

    /// Adds an error without a path.
    fn add_message(&mut self, message: String) {
        self.add(SchemaViolation {
            place: None,
            kind: FieldErrorKind::Invalid { value: "".into() },
            detail: message.clone(),
            message,
        });
    }
}

/// Validates a value. Errors are dropped if the value is unchanged by the update.
fn ratcheted(
    schema: &Structural,
    value: &Value,
    at: &StructuralPath<'_>,
    before: Option<CorrelatedValue<'_>>,
) -> ValidationResult {
    let mut outcome = validate_value(schema, value, at, before);
    if !outcome.is_valid() && before.is_some_and(CorrelatedValue::unchanged) {
        outcome.errors.clear();
    }
    outcome
}

fn validate_value(
    schema: &Structural,
    value: &Value,
    at: &StructuralPath<'_>,
    before: Option<CorrelatedValue<'_>>,
) -> ValidationResult {
    let mut outcome = ValidationResult::default();
    let format = supported_format(schema);
    let typed = schema.type_name != SchemaTypeName::Unset || schema.int_or_string;
    let enumeration = schema
        .value_validation
        .as_ref()
        .map(|checks| &checks.enumeration);
    let enumeration = enumeration.map_or(&[][..], |values| values);
    if value.is_null() {
        check_type(schema, format, value, at, &mut outcome);
        check_enum(enumeration, value, at, &mut outcome);
        return outcome;
    }
    if typed || !format.is_empty() {
        check_type(schema, format, value, at, &mut outcome);
        outcome.increment_match_count();
    }
    match schema.junctors() {
        Some(junctors) => outcome.merge(check_junctors(junctors, value, at, before)),
        None => outcome.increment_match_count(),
    }
    outcome.increment_match_count();
    check_scalar(schema, format, value, at, &mut outcome);
    if let Value::Array(items) = value {
        check_items(schema, items, at, before, &mut outcome);
        outcome.match_count += 2;
    }
    check_enum(enumeration, value, at, &mut outcome);
    outcome.increment_match_count();
    if let Value::Object(members) = value {
        check_members(schema, members, at, before, &mut outcome);
        outcome.increment_match_count();
    }
    outcome.increment_match_count();
    outcome
}

/// The format to check; empty for unknown formats.
fn supported_format(schema: &Structural) -> &str {
    let format = schema.format();
    let type_name = if schema.int_or_string {
        &SchemaTypeName::Unset
    } else {
        &schema.type_name
    };
    if format::is_known_format(type_name, format) {
        format
    } else {
        ""
    }
}

fn type_of(value: &Value) -> (&'static str, &'static str) {
    match Number::from_value(value) {
        Some(Number::Whole(_)) => ("integer", "int64"),
        Some(Number::Float(_)) => ("number", "float64"),
        None => match value {
            Value::Null => ("null", ""),
            Value::Bool(_) => ("boolean", ""),
            Value::String(_) | Value::Number(_) => ("string", ""),
            Value::Array(_) => ("array", ""),
            Value::Object(_) => ("object", ""),
        },
    }
}

fn check_type(
    schema: &Structural,
    format: &str,
    value: &Value,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let wanted = if schema.int_or_string {
        "integer,string"
    } else {
        schema.type_name.as_str()
    };
    let wants = |name: &str| {
        wanted
            .split(',')
            .any(|known| known == name && !name.is_empty())
    };
    let (found, found_format) = type_of(value);
    if value.is_null() {
        if !wanted.is_empty() && !schema.nullable {
            refuse_type(at, wanted, found, outcome);
        } else {
            outcome.increment_match_count();
        }
        return;
    }
    let number = Number::from_value(value);
    let whole = found == "number" && wants("integer") && number.is_some_and(Number::is_whole);
    let wider = found == "integer" && wants("number");
    let fits = wants(found) || whole || wider;
    let textual = matches!(value, Value::String(_) | Value::Array(_));
    if !textual && !format.is_empty() && !fits && format != found_format {
        refuse_type(at, format, found_format, outcome);
        return;
    }
    let by_format = !wants("number") && !wants("integer") && !format.is_empty() && textual;
    if by_format || fits {
        outcome.increment_match_count();
    } else {
        refuse_type(at, wanted, found, outcome);
    }
}

fn refuse_type(at: &StructuralPath<'_>, wanted: &str, found: &str, outcome: &mut ValidationResult) {
    let place = at.render();
    let message = format!("{place} in body must be of type {wanted}: {}", quote(found));
    outcome.add(SchemaViolation {
        detail: message.clone(),
        message,
        place: Some(place),
        kind: FieldErrorKind::TypeInvalid {
            value: found.into(),
        },
    });
}

fn check_scalar(
    schema: &Structural,
    format: &str,
    value: &Value,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let checks = schema.value_validation.as_deref();
    match value {
        Value::String(text) => {
            if let Some(checks) = checks {
                check_text(checks, text, at, outcome);
            }
            outcome.increment_match_count();
            if !format.is_empty() && format::is_string_format(format) {
                if !format::matches(format, text) {
                    let message = format!(
                        "{} in body must be of type {format}: {}",
                        at.render(),
                        quote(text)
                    );
                    outcome.add(SchemaViolation {
                        detail: message.clone(),
                        message,
                        place: Some(at.render()),
                        kind: FieldErrorKind::TypeInvalid {
                            value: value.clone(),
                        },
                    });
                }
                outcome.increment_match_count();
            }
        }
        Value::Number(_) => {
            check_range(schema, format, value, at, outcome);
            if let Some(checks) = checks {
                check_bounds(schema, checks, format, value, at, outcome);
            }
            outcome.match_count += 2;
        }
        _ => {}
    }
}

/// Reports only the first violation.
fn check_text(
    checks: &ValueValidation,
    text: &str,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = checks.max_length
        && length() > most
    {
        let bytes = usize::try_from(most).unwrap_or(0);
        let sentence = format!("should be at most {most} chars long");
        return outcome.refuse_as(at, &sentence, FieldError::too_long("", bytes));
    }
    if let Some(least) = checks.min_length
        && length() < least
    {
        let sentence = format!("should be at least {least} chars long");
        return outcome.refuse(at, text.into(), &sentence);
    }
    if let Some(pattern) = &checks.pattern
        && !pattern.matches(text)
    {
        let sentence = format!("should match '{}'", pattern.source());
        outcome.refuse(at, text.into(), &sentence);
    }
}

/// The type and format that limit a number. The format counts only with a numeric type.
fn number_format<'f>(schema: &Structural, format: &'f str) -> (SchemaTypeName, &'f str) {
    if schema.int_or_string {
        return (SchemaTypeName::Unset, "");
    }
    match (&schema.type_name, format) {
        (SchemaTypeName::Integer, "int32" | "int64") => (SchemaTypeName::Integer, format),
        (SchemaTypeName::Integer, _) => (SchemaTypeName::Integer, ""),
        (SchemaTypeName::Number, "float" | "double") => (SchemaTypeName::Number, format),
        (SchemaTypeName::Number, _) => (SchemaTypeName::Number, ""),
        _ => (SchemaTypeName::Unset, ""),
    }
}

fn check_range(
    schema: &Structural,
    format: &str,
    value: &Value,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    if let Some(number) = Number::from_value(value) {
        in_range(schema, format, (number, "Checked"), at, outcome);
    }
}

/// Checks that a number, or a bound, fits the type and format of the schema.
fn in_range(
    schema: &Structural,
    format: &str,
    (number, what): (Number, &str),
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let (type_name, format) = number_format(schema, format);
    if number.fits(&type_name, format) {
        return;
    }
    let of = match format {
        "" => "(default format)".to_owned(),
        format => format!("with format {format}"),
    };
    let (type_name, place) = (type_name.as_str(), at.render());
    outcome.add_message(format!(
        "{what} value must be of type {type_name} {of} in {place}"
    ));
}

fn check_bounds(
    schema: &Structural,
    checks: &ValueValidation,
    format: &str,
    value: &Value,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let Some(number) = Number::from_value(value) else {
        return;
    };
    let bound = |bound: f64, what: &str, outcome: &mut ValidationResult| {
        in_range(schema, format, (Number::Float(bound), what), at, outcome);
        number.bound(bound)
    };
    if let Some(factor) = checks.multiple_of {
        let factor = bound(factor, "MultipleOf", outcome);
        if factor.as_float() <= 0.0 {
            let place = at.render();
            let message = format!(
                "factor MultipleOf declared for {place} must be positive: {}",
                factor.to_go_string()
            );
            outcome.add(SchemaViolation {
                detail: message.clone(),
                message,
                place: Some(place),
                kind: FieldErrorKind::Invalid { value: 0.into() },
            });
        } else if !number.is_multiple_of(factor) {
            let sentence = format!("should be a multiple of {}", factor.to_go_string());
            outcome.refuse(at, value.clone(), &sentence);
        }
    }
    if let Some(least) = checks.minimum {
        let least = bound(least, "Minimum boundary", outcome);
        let order = number.cmp(least);
        if order.is_lt() || (checks.exclusive_minimum && order.is_eq()) {
            let or = if checks.exclusive_minimum {
                ""
            } else {
                "or equal to "
            };
            let sentence = format!("should be greater than {or}{}", least.to_go_string());
            outcome.refuse(at, value.clone(), &sentence);
        }
    }
    if let Some(most) = checks.maximum {
        let most = bound(most, "Maximum boundary", outcome);
        let order = number.cmp(most);
        if order.is_gt() || (checks.exclusive_maximum && order.is_eq()) {
            let or = if checks.exclusive_maximum {
                ""
            } else {
                "or equal to "
            };
            let sentence = format!("should be less than {or}{}", most.to_go_string());
            outcome.refuse(at, value.clone(), &sentence);
        }
    }
}

fn check_items(
    schema: &Structural,
    items: &[Value],
    at: &StructuralPath<'_>,
    before: Option<CorrelatedValue<'_>>,
    outcome: &mut ValidationResult,
) {
    if let Some(of) = &schema.items {
        let before = before.and_then(CorrelatedValue::items);
        for (index, item) in items.iter().enumerate() {
            let before = before.as_ref().and_then(|before| before.get(index));
            outcome.merge(ratcheted(of, item, &at.index(index), before));
        }
    }
    let Some(checks) = &schema.value_validation else {
        return;
    };
    let count = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = checks.min_items
        && count < least
    {
        let sentence = format!("should have at least {least} items");
        outcome.refuse(at, count.into(), &sentence);
    }
    if let Some(most) = checks.max_items
        && count > most
    {
        let sentence = format!("should have at most {most} items");
        let most = usize::try_from(most).unwrap_or(0);
        outcome.refuse_as(at, &sentence, FieldError::too_many("", items.len(), most));
    }
    if checks.unique_items && has_duplicates(items) {
        outcome.refuse(at, Value::from(""), "shouldn't contain duplicates");
    }
}

fn has_duplicates(items: &[Value]) -> bool {
    let mut texts: Vec<String> = items.iter().map(Value::to_string).collect();
    texts.sort();
    texts.windows(2).any(|pair| pair[0] == pair[1])
}

fn check_enum(
    values: &[Value],
    value: &Value,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    if values.is_empty() || values.iter().any(|known| is_same(known, value)) {
        return;
    }
    let shown: Vec<String> = values
        .iter()
        .map(|known| match known {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
        .collect();
    let texts: Vec<&str> = shown.iter().map(String::as_str).collect();
    let error = FieldError::not_supported("", value.clone(), &texts);
    outcome.refuse_as(at, &format!("should be one of {shown:?}"), error);
}

/// Whether two values are equal: numbers compare by value, null equals nothing.
fn is_same(known: &Value, value: &Value) -> bool {
    match (Number::from_value(known), Number::from_value(value)) {
        (Some(known), Some(value)) => match (known, value) {
            (Number::Whole(known), Number::Whole(value)) => known == value,
            (known, value) => known.as_float() == value.as_float(),
        },
        _ => known == value && !known.is_null(),
    }
}

fn check_members(
    schema: &Structural,
    members: &Map,
    at: &StructuralPath<'_>,
    before: Option<CorrelatedValue<'_>>,
    outcome: &mut ValidationResult,
) {
    if let Some(checks) = &schema.value_validation {
        check_count(checks, members, at, outcome);
    }
    match schema.additional() {
        Some(AdditionalProperties::None) => {
            for name in members.keys() {
                if schema.property(name).is_none() {
                    let place = at.render();
                    let message = format!("{place}.{name} in body is a forbidden property");
                    outcome.add(SchemaViolation {
                        detail: message.clone(),
                        message,
                        place: Some(place),
                        kind: FieldErrorKind::Invalid {
                            value: name.as_str().into(),
                        },
                    });
                }
            }
        }
        Some(AdditionalProperties::Of(of)) => {
            for (name, member) in members {
                if schema.property(name).is_none() {
                    let before = before.and_then(|before| before.member(name));
                    outcome.merge(ratcheted(of, member, &at.member(name), before));
                }
            }
        }
        Some(AdditionalProperties::Any) | None => {}
    }
    for (name, of) in &schema.properties {
        if let Some(member) = members.get(&**name) {
            let before = before.and_then(|before| before.member(name));
            outcome.merge(ratcheted(of, member, &at.member(name), before));
        }
    }
    let required = schema
        .value_validation
        .as_ref()
        .map(|checks| &checks.required);
    for name in required.into_iter().flatten() {
        if !members.contains_key(&**name) {
            let child = at.member(name);
            let sentence = "is required";
            outcome.refuse_as(&child, sentence, FieldError::required("", ""));
        }
    }
}

fn check_count(
    checks: &ValueValidation,
    members: &Map,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let count = i64::try_from(members.len()).unwrap_or(i64::MAX);
    if let Some(least) = checks.min_properties
        && count < least
    {
        let sentence = format!("should have at least {least} properties");
        outcome.refuse(at, count.into(), &sentence);
    }
    if let Some(most) = checks.max_properties
        && count > most
    {
        let sentence = format!("should have at most {most} properties");
        let most = usize::try_from(most).unwrap_or(0);
        outcome.refuse_as(at, &sentence, FieldError::too_many("", members.len(), most));
    }
}

/// Validates the branches. All of them apply to the same value; the values below are correlated
/// with the old ones, the branches themselves are not.
fn check_junctors(
    junctors: &Junctors,
    value: &Value,
    at: &StructuralPath<'_>,
    before: Option<CorrelatedValue<'_>>,
) -> ValidationResult {
    let mut outcome = ValidationResult::default();
    let run = |branch: &Structural| validate_value(branch, value, at, before);
    if !junctors.any_of.is_empty() {
        any_of(&junctors.any_of, &run, at, &mut outcome);
    }
    if !junctors.one_of.is_empty() {
        one_of(&junctors.one_of, &run, at, &mut outcome);
    }
    if !junctors.all_of.is_empty() {
        all_of(&junctors.all_of, &run, at, &mut outcome);
    }
    if let Some(not) = &junctors.not
        && run(not).is_valid()
    {
        let place = quote(&at.render());
        outcome.add_message(format!("{place} must not validate the schema (not)"));
    }
    outcome.increment_match_count();
    outcome
}

type BranchValidator<'a> = &'a dyn Fn(&Structural) -> ValidationResult;

fn any_of(
    branches: &[Structural],
    run: BranchValidator<'_>,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let mut closest: Option<ValidationResult> = None;
    for branch in branches {
        let result = run(branch);
        if result.is_valid() {
            outcome.merge(result);
            return;
        }
        if closest
            .as_ref()
            .is_none_or(|best| result.match_count > best.match_count)
        {
            closest = Some(result);
        }
    }
    let place = quote(&at.render());
    outcome.add_message(format!("{place} must validate at least one schema (anyOf)"));
    outcome.merge(closest.unwrap_or_default());
}

fn one_of(
    branches: &[Structural],
    run: BranchValidator<'_>,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let mut closest: Option<ValidationResult> = None;
    let mut first = None;
    let mut valid = 0;
    for branch in branches {
        let result = run(branch);
        if result.is_valid() {
            valid += 1;
            closest = None;
            first.get_or_insert(result);
        } else if valid == 0
            && closest
                .as_ref()
                .is_none_or(|best| result.match_count > best.match_count)
        {
            closest = Some(result);
        }
    }
    if valid == 1 {
        return outcome.merge(first.unwrap_or_default());
    }
    let found = match valid {
        0 => "Found none valid".to_owned(),
        valid => format!("Found {valid} valid alternatives"),
    };
    let place = quote(&at.render());
    outcome.add_message(format!(
        "{place} must validate one and only one schema (oneOf). {found}"
    ));
    outcome.merge(closest.unwrap_or_default());
}

fn all_of(
    branches: &[Structural],
    run: BranchValidator<'_>,
    at: &StructuralPath<'_>,
    outcome: &mut ValidationResult,
) {
    let mut valid = 0;
    for branch in branches {
        let result = run(branch);
        valid += usize::from(result.is_valid());
        outcome.merge(result);
    }
    if valid < branches.len() {
        let none = if valid == 0 { ". None validated" } else { "" };
        let place = quote(&at.render());
        outcome.add_message(format!(
            "{place} must validate all the schemas (allOf){none}"
        ));
    }
}
