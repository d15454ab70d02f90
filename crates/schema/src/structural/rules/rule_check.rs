//! Validation of the CEL rules of a CRD: they must compile, and their estimated cost is limited.

use super::compilation::{CompiledRule, compile_rules};
use super::shape::shape_of;
use crate::structural::structural_path::StructuralPath;
use crate::structural::{ListType, SchemaTypeName, Structural, ValidationRule};
use optik_cel::{DeclKind, DeclType, REQUEST_BYTES_MAX, escape};
use optik_object::{FieldError, Value};

/// The maximum estimated cost of one expression, times its cardinality.
const RULE_COST_MAX: u64 = 10_000_000;
/// The maximum estimated cost of all expressions of a schema.
const SCHEMA_COST_MAX: u64 = 100_000_000;
/// The number of most expensive rules that are named in an error.
const EXPENSIVE_RULES_MAX: usize = 4;

/// Validates the rules of a schema. `known`: the rules are already stored, so their cost is not
/// limited.
#[must_use]
pub fn check_rules(schema: &Structural, path: &str, known: bool) -> Vec<FieldError> {
    if !schema.has_rules() {
        return Vec::new();
    }
    let mut checker = RuleChecker {
        errors: Vec::new(),
        total: 0,
        expensive: Vec::new(),
        preexisting: known,
    };
    let shape = shape_of(schema, true, "selfType");
    checker.visit(
        schema,
        &StructuralPath::root(path),
        shape.as_ref(),
        RuleContext::root(),
    );
    checker.finish(path)
}

/// The context of a rule in its schema.
#[derive(Clone, Copy)]
struct RuleContext<'a> {
    /// The maximum number of such values in an object; `None` if unbounded.
    max_cardinality: Option<u64>,
    /// The path of the enclosing list whose old and new items cannot be correlated.
    uncorrelatable_path: Option<&'a str>,
}

impl RuleContext<'_> {
    const fn root() -> Self {
        Self {
            max_cardinality: Some(1),
            uncorrelatable_path: None,
        }
    }
}

struct RuleChecker {
    errors: Vec<FieldError>,
    total: u64,
    expensive: Vec<(String, u64)>,
    preexisting: bool,
}

impl RuleChecker {
    fn visit(
        &mut self,
        node: &Structural,
        at: &StructuralPath<'_>,
        shape: Option<&DeclType>,
        context: RuleContext<'_>,
    ) {
        if !node.has_rules() {
            return;
        }
        let times = context.max_cardinality.zip(max_elements(node));
        let times = times.map(|(times, more)| times.saturating_mul(more));
        let below = RuleContext {
            max_cardinality: times,
            ..context
        };
        let (item, value) = match shape.map(|shape| &shape.kind) {
            Some(DeclKind::List { items, .. }) => (Some(&**items), None),
            Some(DeclKind::Map(values)) => (None, Some(&**values)),
            _ => (None, None),
        };
        if let Some(of) = node.additional_schema() {
            self.visit(of, &at.member("additionalProperties"), value, below);
        }
        let of_properties = at.member("properties");
        for (name, child) in &node.properties {
            let own = own_shape(child, name, shape);
            self.visit(child, &of_properties.key(name), own.as_ref(), below);
        }
        if let Some(items) = &node.items {
            let here = at.render();
            let apart = match node.list {
                ListType::Map => below.uncorrelatable_path,
                _ => below.uncorrelatable_path.or(Some(&here)),
            };
            let below = RuleContext {
                uncorrelatable_path: apart,
                ..below
            };
            self.visit(items, &at.member("items"), item, below);
        }
        self.check_own(node, at, shape, context);
    }

    fn check_own(
        &mut self,
        node: &Structural,
        at: &StructuralPath<'_>,
        shape: Option<&DeclType>,
        context: RuleContext<'_>,
    ) {
        if node.rules().is_empty() {
            return;
        }
        let at_rules = at.member("x-kubernetes-validations");
        let Some(shape) = shape else {
            let text = "internal error: failed to retrieve type information for \
                        x-kubernetes-validations";
            let kind = optik_object::FieldErrorKind::Internal;
            self.errors
                .push(FieldError::new(at_rules.render(), kind, text));
            return;
        };
        let fits = REQUEST_BYTES_MAX / (shape.bytes_min + 1);
        let compiled = compile_rules(node.rules(), node, shape);
        for (index, rule) in compiled.iter().enumerate() {
            let at = at_rules.index(index);
            self.check_rule(rule, &at, context, fits);
        }
    }

    fn check_rule(
        &mut self,
        rule: &CompiledRule,
        at: &StructuralPath<'_>,
        context: RuleContext<'_>,
        fits: u64,
    ) {
        let path = at.member("rule").render();
        let cost = rule
            .program
            .as_ref()
            .map_or(0, |program| program.cost_max());
        let cost = cost.saturating_mul(context.max_cardinality.unwrap_or(fits));
        self.add_cost(&path, cost, "estimated rule cost");
        if let Err(why) = &rule.program {
            let error = FieldError::invalid(path.clone(), go_dump(&rule.rule), why.as_str());
            self.errors.push(error);
        }
        match &rule.message {
            Some(Err(why)) => {
                let path = at.member("messageExpression").render();
                let error = FieldError::invalid(path, go_dump(&rule.rule), why.as_str());
                self.errors.push(error);
            }
            Some(Ok(program)) => {
                let path = at.member("messageExpression").render();
                self.add_cost(
                    &path,
                    program.cost_max(),
                    "estimated messageExpression cost",
                );
            }
            None => {}
        }
        if rule.uses_old {
            if let Some(within) = context.uncorrelatable_path {
                let text = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within \
                     {within}"
                );
                let error = FieldError::invalid(path, rule.rule.rule.as_str(), text);
                self.errors.push(error);
            }
        } else if let Some(value) = rule.rule.optional_old_self {
            let text = "may not be set if oldSelf is not used in rule";
            let path = at.member("optionalOldSelf").render();
            self.errors.push(FieldError::invalid(path, value, text));
        }
    }

    fn add_cost(&mut self, path: &str, cost: u64, what: &str) {
        if cost > RULE_COST_MAX && !self.preexisting {
            let text = cost_exceeded_message(what, cost, RULE_COST_MAX);
            self.errors.push(FieldError::forbidden(path, text));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= SCHEMA_COST_MAX / 100 {
            self.expensive.push((path.to_owned(), cost));
        }
    }

    fn finish(mut self, path: &str) -> Vec<FieldError> {
        if self.total > SCHEMA_COST_MAX && !self.preexisting {
            self.expensive
                .sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
            for (path, _) in self.expensive.iter().take(EXPENSIVE_RULES_MAX) {
                let text = "contributed to estimated rule cost total exceeding cost limit for \
                            entire OpenAPIv3 schema";
                self.errors.push(FieldError::forbidden(path.as_str(), text));
            }
            let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 \
                        schema";
            let text = cost_exceeded_message(what, self.total, SCHEMA_COST_MAX);
            self.errors.push(FieldError::forbidden(path, text));
        }
        self.errors
    }
}

/// The CEL type of a property in its parent; its standalone type if its name is not accessible in
/// CEL.
fn own_shape(child: &Structural, name: &str, parent: Option<&DeclType>) -> Option<DeclType> {
    let alone = || shape_of(child, child.embedded, "selfType");
    match (escape(name), parent.map(|parent| &parent.kind)) {
        (Some(name), Some(DeclKind::Object(object))) => match object.field(&name) {
            Some(field) => Some(field.shape.clone()),
            None => alone(),
        },
        _ => alone(),
    }
}

/// The factor by which a node multiplies the number of values below it; `None` if unbounded.
fn max_elements(node: &Structural) -> Option<u64> {
    let checks = node.value_validation.as_deref();
    let count = |number: Option<i64>| number.map(|number| u64::try_from(number).unwrap_or(0));
    match node.type_name {
        SchemaTypeName::Object if node.additional().is_some() => {
            count(checks.and_then(|checks| checks.max_properties))
        }
        SchemaTypeName::Array => count(checks.and_then(|checks| checks.max_items)),
        _ => Some(1),
    }
}

fn cost_exceeded_message(what: &str, cost: u64, most: u64) -> String {
    let factor = cost as f64 / most as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

/// A rule in the form Go's dump prints it.
fn go_dump(rule: &ValidationRule) -> Value {
    let mut members = optik_object::Map::new();
    for (name, value) in [
        ("Rule", Value::from(rule.rule.as_str())),
        ("Message", rule.message.as_str().into()),
        ("MessageExpression", rule.message_expression.as_str().into()),
        ("Reason", rule.reason.as_deref().into()),
        ("FieldPath", rule.field_path.as_str().into()),
        ("OptionalOldSelf", rule.optional_old_self.into()),
    ] {
        members.insert(name.into(), value);
    }
    members.into()
}
