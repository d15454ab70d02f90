//! Evaluation of CEL rules for an object.

use super::compilation::{CompiledRule, OLD_SELF, RuleTree, SELF};
use crate::structural::correlation::{ComparisonCache, CorrelatedValue, MapList};
use crate::structural::structural_path::{NIL_PATH, StructuralPath};
use crate::structural::{SchemaTypeName, Structural};
use optik_cel::{Activation, CALL_COST_MAX, DeclType, EvalError, Evaluation, Program, Value};
use optik_object::{FieldError, FieldErrorKind, Map, Value as Json};
use std::sync::Arc;

/// The cost budget of all rules for one object.
pub const OBJECT_COST_MAX: u64 = 10_000_000;
/// Longer results of `messageExpression` are ignored.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

/// The result of evaluating the rules.
#[derive(Debug, Default)]
pub struct RulesResult {
    pub errors: Vec<FieldError>,
    /// Failures that are ratcheted because the value did not change.
    pub ratcheted: Vec<String>,
    /// The remaining cost budget; `None` once it is exceeded.
    pub remaining_budget: Option<u64>,
}

impl RuleTree {
    /// Evaluates the rules. `ratchet`: failures of unchanged values are not errors.
    #[must_use]
    pub fn run(
        &self,
        schema: &Structural,
        (object, old): (&Json, Option<&Json>),
        base: &str,
        ratchet: bool,
        budget: u64,
    ) -> RulesResult {
        let mut run = RuleRunner {
            result: RulesResult {
                remaining_budget: Some(budget),
                ..RulesResult::default()
            },
        };
        let judged = ComparisonCache::default();
        let current = old.filter(|_| ratchet).map(|old| CorrelatedValue {
            schema,
            old,
            new: object,
            cache: &judged,
        });
        let before = Correlation {
            current,
            parent: None,
        };
        run.value(
            self,
            schema,
            (object, old),
            &StructuralPath::root(base),
            before,
        );
        run.result
    }
}

/// The old value to compare with, for ratcheting.
#[derive(Clone, Copy)]
struct Correlation<'a> {
    current: Option<CorrelatedValue<'a>>,
    parent: Option<CorrelatedValue<'a>>,
}

impl<'a> Correlation<'a> {
    /// The correlation of a nested value. If it cannot be correlated, its closest correlated
    /// ancestor is used.
    fn below(self, step: impl Fn(CorrelatedValue<'a>) -> Option<CorrelatedValue<'a>>) -> Self {
        match self.current {
            Some(current) => Self {
                current: step(current),
                parent: Some(current),
            },
            None => self,
        }
    }

    fn member(self, name: &str) -> Self {
        let at_root = self.current.is_some() && self.parent.is_none();
        if at_root && matches!(name, "apiVersion" | "kind") {
            return Self {
                current: None,
                parent: None,
            };
        }
        self.below(|before| before.member(name))
    }

    fn unchanged(self) -> bool {
        self.current
            .or(self.parent)
            .is_some_and(CorrelatedValue::unchanged)
    }
}

struct RuleRunner {
    result: RulesResult,
}

/// The variables `self` and `oldSelf`.
struct SelfVariables<'a> {
    new: &'a Json,
    old: Option<&'a Json>,
    optional: bool,
    shape: &'a DeclType,
}

impl<'a> Activation<'a> for SelfVariables<'a> {
    fn resolve(&self, place: usize) -> Result<Value<'a>, EvalError> {
        match place {
            SELF => Value::typed(self.new, self.shape),
            OLD_SELF => {
                let old = self.old.map(|old| Value::typed(old, self.shape));
                let old = old.transpose()?;
                match (self.optional, old) {
                    (true, old) => Ok(Value::Optional(old.map(Arc::new))),
                    (false, Some(old)) => Ok(old),
                    (false, None) => Err(missing("oldSelf")),
                }
            }
            _ => Err(missing("variable")),
        }
    }
}

fn missing(name: &str) -> EvalError {
    EvalError::Failed(format!("no such attribute(s): {name}").into())
}

impl RuleRunner {
    /// Whether the budget is exceeded, so that no more rules are run.
    const fn is_out_of_budget(&self) -> bool {
        self.result.remaining_budget.is_none()
    }

    fn value(
        &mut self,
        rules: &RuleTree,
        schema: &Structural,
        (new, old): (&Json, Option<&Json>),
        at: &StructuralPath<'_>,
        before: Correlation<'_>,
    ) {
        if new.is_null() || self.is_out_of_budget() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.own(rules, schema, (new, old), at, before);
        for branch in &rules.all_of {
            let before = Correlation {
                current: None,
                parent: before.parent,
            };
            self.value(branch, schema, (new, old), at, before);
        }
        match new {
            Json::Array(items) => {
                let old = old.and_then(Json::as_array).map(Vec::as_slice);
                self.items(rules, schema, (items, old), at, before);
            }
            Json::Object(members) => {
                let old = old.and_then(Json::as_object);
                self.members(rules, schema, (members, old), at, before);
            }
            _ => {}
        }
    }

    fn items(
        &mut self,
        rules: &RuleTree,
        schema: &Structural,
        (items, old): (&[Json], Option<&[Json]>),
        at: &StructuralPath<'_>,
        before: Correlation<'_>,
    ) {
        let (Some(rules), Some(of)) = (&rules.items, &schema.items) else {
            return;
        };
        let old = old.and_then(|old| MapList::new(schema, old));
        let known = before.current.and_then(CorrelatedValue::items);
        for (index, item) in items.iter().enumerate() {
            if self.is_out_of_budget() {
                return;
            }
            let old = old.as_ref().and_then(|old| old.get(item));
            let before = before.below(|_| known.as_ref().and_then(|known| known.get(index)));
            self.value(rules, of, (item, old), &at.index(index), before);
        }
    }

    fn members(
        &mut self,
        rules: &RuleTree,
        schema: &Structural,
        (members, old): (&Map, Option<&Map>),
        at: &StructuralPath<'_>,
        before: Correlation<'_>,
    ) {
        let old = |name: &str| old.and_then(|old| old.get(name));
        if let (Some(rules), Some(of)) = (&rules.additional, schema.additional_schema()) {
            for (name, member) in members {
                let values = (member, old(name));
                self.value(rules, of, values, &at.key(name), before.member(name));
            }
        }
        for (name, rules) in &rules.properties {
            let Some((member, of)) = members.get(&**name).zip(schema.property(name)) else {
                continue;
            };
            let values = (member, old(name));
            self.value(rules, of, values, &at.member(name), before.member(name));
        }
    }

    fn own(
        &mut self,
        rules: &RuleTree,
        schema: &Structural,
        (new, old): (&Json, Option<&Json>),
        at: &StructuralPath<'_>,
        before: Correlation<'_>,
    ) {
        for compiled in &rules.own {
            if self.is_out_of_budget() {
                return;
            }
            if self.result.remaining_budget == Some(0) {
                self.out_of_budget(schema, at);
                return;
            }
            let program = match &compiled.program {
                Ok(program) => program,
                Err(why) => {
                    let text = format!("rule compile error: {why}");
                    self.refuse(schema, at, text);
                    continue;
                }
            };
            let optional = compiled.optional_old();
            if compiled.uses_old && old.is_none() && !optional {
                continue;
            }
            let selves = SelfVariables {
                new,
                old,
                optional,
                shape: &rules.shape,
            };
            if let Some(failed) = self.run(program, &selves, compiled, schema, at) {
                self.report(failed, compiled, before);
            }
        }
    }

    /// Charges the cost of a run; `false` if it exceeds the budget.
    fn charge_budget(&mut self, outcome: &Evaluation<'_>) -> bool {
        self.result.remaining_budget = self
            .result
            .remaining_budget
            .and_then(|left| left.checked_sub(outcome.cost));
        self.result.remaining_budget.is_some()
    }

    fn out_of_budget(&mut self, schema: &Structural, at: &StructuralPath<'_>) {
        let text = "validation failed due to running out of cost budget, no further validation \
                    rules will be run";
        self.refuse(schema, at, text.to_owned());
        self.result.remaining_budget = None;
    }

    /// Adds an error about a rule that could not be evaluated.
    fn refuse(&mut self, schema: &Structural, at: &StructuralPath<'_>, text: String) {
        let error = FieldError::invalid(place(at, ""), schema.type_name.as_str(), text);
        self.result.errors.push(error);
    }

    fn report(&mut self, error: FieldError, compiled: &CompiledRule, before: Correlation<'_>) {
        if !compiled.uses_old && before.unchanged() {
            self.result.ratcheted.push(error.to_string());
        } else {
            self.result.errors.push(error);
        }
    }

    /// Runs a rule and returns its failure.
    fn run(
        &mut self,
        program: &Program,
        selves: &SelfVariables<'_>,
        compiled: &CompiledRule,
        schema: &Structural,
        at: &StructuralPath<'_>,
    ) -> Option<FieldError> {
        let outcome = program.run(selves, CALL_COST_MAX);
        if !self.charge_budget(&outcome) {
            self.out_of_budget(schema, at);
            return None;
        }
        let rule = compiled.message_or_rule();
        match outcome.result {
            Ok(Value::Bool(true)) => return None,
            Ok(_) => {}
            Err(fault @ EvalError::CostLimitExceeded) => {
                let text = format!(
                    "'{fault}': no further validation rules will be run due to call cost exceeds \
                     limit for rule: {rule}"
                );
                self.refuse(schema, at, text);
                self.result.remaining_budget = None;
                return None;
            }
            Err(fault) => {
                let shown = fault.to_string();
                let text = if shown.starts_with("no such overload") {
                    format!(
                        "'{shown}': call arguments did not match a supported operator, function \
                         or macro signature for rule: {rule}"
                    )
                } else {
                    format!("{shown} evaluating rule: {rule}")
                };
                self.refuse(schema, at, text);
                return None;
            }
        }
        let path = place(at, &compiled.field_path);
        let detail = match self.message(compiled, selves, schema, &path) {
            Ok(detail) => detail,
            Err(error) => return Some(error),
        };
        let detail = detail.unwrap_or_else(|| match compiled.rule.message.trim() {
            "" => format!("failed rule: {rule}"),
            message => message.to_owned(),
        });
        Some(failure(path, compiled, selves.new, schema, detail))
    }

    /// The result of `messageExpression`; `None` if there is none, or it is not usable as a
    /// message.
    fn message(
        &mut self,
        compiled: &CompiledRule,
        selves: &SelfVariables<'_>,
        schema: &Structural,
        path: &str,
    ) -> Result<Option<String>, FieldError> {
        let Some(Ok(program)) = &compiled.message else {
            return Ok(None);
        };
        let outcome = program.run(selves, CALL_COST_MAX);
        let fail = |text: String| Err(FieldError::invalid(path, schema.type_name.as_str(), text));
        if !self.charge_budget(&outcome) {
            return fail(
                "messageExpression evaluation failed due to running out of cost budget, no \
                 further validation rules will be run"
                    .into(),
            );
        }
        match outcome.result {
            Err(EvalError::CostLimitExceeded) => {
                self.result.remaining_budget = None;
                let shown = optik_object::quote(&compiled.rule.message_expression);
                fail(format!(
                    "no further validation rules will be run due to call cost exceeds limit for \
                     messageExpression: {shown}"
                ))
            }
            Err(EvalError::Failed(_)) => Ok(None),
            Ok(value) => {
                let text = value.as_str().map(str::trim);
                let text = text.filter(|text| {
                    !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n')
                });
                Ok(text.map(str::to_owned))
            }
        }
    }
}

/// The path of a nested field.
fn place(at: &StructuralPath<'_>, below: &str) -> String {
    let text = at.render();
    match (text.as_str(), below) {
        ("", "") => NIL_PATH.to_owned(),
        (_, "") => text,
        ("", below) => below.to_owned(),
        (text, below) => format!("{text}.{below}"),
    }
}

fn failure(
    path: String,
    compiled: &CompiledRule,
    value: &Json,
    schema: &Structural,
    detail: String,
) -> FieldError {
    let shown = !matches!(
        schema.type_name,
        SchemaTypeName::Object | SchemaTypeName::Array
    );
    let value = || value.clone();
    match (compiled.rule.reason.as_deref(), shown) {
        (Some("FieldValueForbidden"), _) => FieldError::forbidden(path, detail),
        (Some("FieldValueRequired"), _) => FieldError::required(path, detail),
        (Some("FieldValueDuplicate"), true) => FieldError::duplicate(path, value()),
        (Some("FieldValueDuplicate"), false) => {
            FieldError::new(path, FieldErrorKind::DuplicateOmitValue, "")
        }
        (_, true) => FieldError::invalid(path, value(), detail),
        (_, false) => FieldError::new(path, FieldErrorKind::InvalidOmitValue, detail),
    }
}
