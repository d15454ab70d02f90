//! The CEL evaluator: runs an [`EvalPlan`](crate::plan::EvalPlan) and charges its cost.

use crate::compare::{contains, equal, order};
use crate::interval::scale;
use crate::library::{self, Arithmetic, arithmetic};
use crate::plan::{Loop, LoopKind, OrderingOp, PlanNode, RegexOp, map_of, text_of};
use crate::runtime_cost::{
    CallCost, LIST_COST, MAP_COST, OBJECT_COST, REGEX_FACTOR, SELECT_COST, TEXT_FACTOR, call_cost,
    size,
};
use crate::value::{EvalError, ListValue, Result, StructValue, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of the declared variables, by their slot in the [`Environment`](crate::Environment).
pub trait Activation<'a> {
    fn resolve(&self, place: usize) -> std::result::Result<Value<'a>, EvalError>;
}

/// The state of one evaluation.
pub(crate) struct Evaluator<'a, 'v> {
    variables: &'v dyn Activation<'a>,
    locals: Vec<Value<'a>>,
    cost: u64,
    limit: u64,
}

impl<'a, 'v> Evaluator<'a, 'v> {
    pub(crate) fn new(variables: &'v dyn Activation<'a>, limit: u64) -> Self {
        Self {
            variables,
            locals: Vec::new(),
            cost: 0,
            limit,
        }
    }

    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    fn charge(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(EvalError::CostLimitExceeded);
        }
        Ok(())
    }

    pub(crate) fn evaluate(&mut self, node: &'a PlanNode) -> Result<Value<'a>> {
        match node {
            PlanNode::Text(text) => Ok(text_of(text)),
            PlanNode::Constant(value) => Ok(value.clone()),
            PlanNode::Variable(place) => {
                self.charge(SELECT_COST)?;
                self.variables.resolve(*place)
            }
            PlanNode::Local(place) => {
                self.charge(SELECT_COST)?;
                self.locals
                    .get(*place)
                    .cloned()
                    .ok_or_else(EvalError::no_overload)
            }
            PlanNode::Select(operand, field) => {
                let operand = self.evaluate(operand)?;
                self.charge(SELECT_COST)?;
                select(&operand, field)
            }
            PlanNode::Has(operand, field) => {
                let operand = self.evaluate(operand)?;
                has(&operand, field).map(Value::Bool)
            }
            PlanNode::OptSelect(operand, field) => {
                let operand = self.evaluate(operand)?;
                self.charge(SELECT_COST)?;
                opt_select(&operand, field)
            }
            PlanNode::Index(parts) => self.index(parts, false),
            PlanNode::OptIndex(parts) => self.index(parts, true),
            PlanNode::And(parts) => self.logic(parts, false),
            PlanNode::Or(parts) => self.logic(parts, true),
            PlanNode::Not(part) => {
                let value = self.boolean(part)?;
                self.charge(1)?;
                Ok(Value::Bool(!value))
            }
            PlanNode::If(parts) => {
                let [test, yes, no] = &**parts;
                match self.boolean(test)? {
                    true => self.evaluate(yes),
                    false => self.evaluate(no),
                }
            }
            PlanNode::Equal(parts, wanted) => {
                let args = self.evaluate_pair(parts)?;
                self.charge(call_cost(CallCost::SmallerOfTwo, &args, &Value::Null))?;
                Ok(Value::Bool(equal(&args[0], &args[1])? == *wanted))
            }
            PlanNode::Order(parts, comparison) => {
                let args = self.evaluate_pair(parts)?;
                self.charge(call_cost(CallCost::SmallerOfTwo, &args, &Value::Null))?;
                let found = order(&args[0], &args[1])?;
                Ok(Value::Bool(found.is_some_and(|found| match comparison {
                    OrderingOp::Less => found == Ordering::Less,
                    OrderingOp::LessOrEqual => found != Ordering::Greater,
                    OrderingOp::Greater => found == Ordering::Greater,
                    OrderingOp::GreaterOrEqual => found != Ordering::Less,
                })))
            }
            PlanNode::In(parts) => {
                let args = self.evaluate_pair(parts)?;
                self.charge(call_cost(CallCost::In, &args, &Value::Null))?;
                match &args[1] {
                    Value::List(list) => contains(list, &args[0]).map(Value::Bool),
                    Value::Map(map) => Ok(Value::Bool(map.get(&args[0])?.is_some())),
                    _ => Err(EvalError::no_overload()),
                }
            }
            PlanNode::Arithmetic(what, parts) => {
                let args = self.evaluate_pair(parts)?;
                self.charge(call_cost(CallCost::Concatenation, &args, &Value::Null))?;
                arithmetic(*what, &args)
            }
            PlanNode::Negate(part) => {
                let value = self.evaluate(part)?;
                self.charge(1)?;
                arithmetic(Arithmetic::Negate, &[value])
            }
            PlanNode::Regex(text, regex, chars, matching) => {
                let text = self.evaluate(text)?;
                let length = scale(1 + size(&text), TEXT_FACTOR);
                self.charge(length.saturating_mul(scale(*chars, REGEX_FACTOR)))?;
                let text = text.as_str().ok_or_else(EvalError::no_overload)?;
                Ok(match matching {
                    RegexOp::Matches => Value::Bool(regex.is_match(text)),
                    RegexOp::Find => library::find(regex, text),
                    RegexOp::FindAll => library::find_all(regex, text, -1),
                })
            }
            PlanNode::OrElse(parts, whole) => {
                let value = self.evaluate(&parts[0])?;
                match value {
                    Value::Optional(None) => self.evaluate(&parts[1]),
                    Value::Optional(Some(_)) if *whole => Ok(value),
                    Value::Optional(Some(inside)) => Ok((*inside).clone()),
                    _ => Err(EvalError::no_overload()),
                }
            }
            PlanNode::Call(function, args) => {
                let args: Vec<Value<'a>> = args
                    .iter()
                    .map(|arg| self.evaluate(arg))
                    .collect::<Result<_>>()?;
                // A cost that depends on the arguments alone is charged before the call, because
                // the call itself can be too expensive.
                if !matches!(function.price, CallCost::Result | CallCost::NewList) {
                    self.charge(call_cost(function.price, &args, &Value::Null))?;
                    return (function.run)(&args);
                }
                let result = (function.run)(&args)?;
                self.charge(call_cost(function.price, &args, &result))?;
                Ok(result)
            }
            PlanNode::List(items) => self.list(items),
            PlanNode::Map(entries) => self.map(entries),
            PlanNode::Make(name, fields) => self.construct(name, fields),
            PlanNode::Loop(run) => self.run_loop(run),
            PlanNode::Bind(parts) => {
                let [value, inside] = &**parts;
                let value = self.evaluate(value)?;
                self.locals.push(value);
                let result = self.evaluate(inside);
                self.locals.pop();
                result
            }
        }
    }

    fn evaluate_pair(&mut self, parts: &'a [PlanNode; 2]) -> Result<[Value<'a>; 2]> {
        Ok([self.evaluate(&parts[0])?, self.evaluate(&parts[1])?])
    }

    fn boolean(&mut self, node: &'a PlanNode) -> Result<bool> {
        self.evaluate(node)?
            .as_bool()
            .ok_or_else(EvalError::no_overload)
    }

    /// `&&` and `||`: one operand can decide, even if the other is an error.
    fn logic(&mut self, parts: &'a [PlanNode; 2], decides: bool) -> Result<Value<'a>> {
        let left = self.boolean(&parts[0]);
        match left {
            Ok(value) if value == decides => return Ok(Value::Bool(decides)),
            Err(EvalError::CostLimitExceeded) => return Err(EvalError::CostLimitExceeded),
            _ => {}
        }
        let right = self.boolean(&parts[1]);
        match (left, right) {
            (_, Ok(value)) if value == decides => Ok(Value::Bool(decides)),
            (_, Err(EvalError::CostLimitExceeded)) => Err(EvalError::CostLimitExceeded),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(_), Ok(_)) => Ok(Value::Bool(!decides)),
        }
    }

    fn index(&mut self, parts: &'a [PlanNode; 2], optional: bool) -> Result<Value<'a>> {
        let [operand, index] = self.evaluate_pair(parts)?;
        self.charge(SELECT_COST)?;
        let (operand, through) = match operand {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inside)) => ((*inside).clone(), true),
            other => (other, false),
        };
        let found = match (&operand, &index) {
            (Value::List(list), index) => match whole(index) {
                Some(at) => usize::try_from(at).map_or(Ok(None), |at| list.get(at))?,
                None => {
                    let text = format!("unsupported index type '{}' in list", index.type_name().0);
                    return Err(EvalError::new(text));
                }
            },
            (Value::Map(map), index) => map.get(index)?,
            (Value::Struct(_), Value::String(name)) => select(&operand, name.as_str()).ok(),
            _ => return Err(EvalError::no_overload()),
        };
        if optional || through {
            return Ok(Value::Optional(found.map(Arc::new)));
        }
        found.ok_or_else(|| match (&operand, &index) {
            (Value::List(_), index) => {
                let at = whole(index).unwrap_or_default();
                EvalError::new(format!("index out of bounds: {at}"))
            }
            (_, index) => match index.key() {
                Some(key) => EvalError::no_key(key),
                None => EvalError::no_key(index.type_name().0),
            },
        })
    }

    fn list(&mut self, items: &'a [(PlanNode, bool)]) -> Result<Value<'a>> {
        let mut made = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let value = self.evaluate(item)?;
            match (value, optional) {
                (value, false) => made.push(value),
                (Value::Optional(inside), true) => {
                    made.extend(inside.map(|inside| (*inside).clone()));
                }
                (other, true) => return Err(not_optional("list", &other)),
            }
        }
        self.charge(LIST_COST)?;
        Ok(Value::list(made))
    }

    fn map(&mut self, entries: &'a [(PlanNode, PlanNode, bool)]) -> Result<Value<'a>> {
        let mut made = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.evaluate(key)?;
            let Some(key) = key.key() else {
                return Err(EvalError::new("unsupported key type"));
            };
            let value = match (self.evaluate(value)?, optional) {
                (value, false) => value,
                (Value::Optional(Some(inside)), true) => (*inside).clone(),
                (Value::Optional(None), true) => {
                    made.remove(&key);
                    continue;
                }
                (other, true) => return Err(not_optional("map", &other)),
            };
            made.insert(key, value);
        }
        self.charge(MAP_COST)?;
        Ok(map_of(made))
    }

    fn construct(
        &mut self,
        name: &str,
        fields: &'a [(Box<str>, PlanNode, bool)],
    ) -> Result<Value<'a>> {
        let mut made = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            match (self.evaluate(value)?, optional) {
                (value, false) => made.push((field.clone(), value)),
                (Value::Optional(Some(inside)), true) => {
                    made.push((field.clone(), (*inside).clone()));
                }
                (Value::Optional(None), true) => {}
                (other, true) => return Err(not_optional("struct", &other)),
            }
        }
        self.charge(OBJECT_COST)?;
        Ok(Value::Struct(Arc::new(StructValue {
            name: name.into(),
            fields: made,
        })))
    }

    fn run_loop(&mut self, run: &'a Loop) -> Result<Value<'a>> {
        let range = self.evaluate(&run.range)?;
        let depth = self.locals.len();
        let result = self.iterate(run, &range);
        self.locals.truncate(depth);
        result
    }

    fn iterate(&mut self, run: &'a Loop, range: &Value<'a>) -> Result<Value<'a>> {
        let mut state = LoopState::new(&run.kind);
        match range {
            Value::List(list) => {
                for index in 0..list.len() {
                    let item = list.get(index)?.unwrap_or(Value::Null);
                    let key = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                    let (first, second) = match run.two {
                        true => (key, Some(item)),
                        false => (item, None),
                    };
                    if self.step(run, &mut state, first, second)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let second = match run.two {
                        true => Some(map.get(&key)?.unwrap_or(Value::Null)),
                        false => None,
                    };
                    if self.step(run, &mut state, key, second)? {
                        break;
                    }
                }
            }
            _ => return Err(EvalError::no_overload()),
        }
        self.charge(SELECT_COST)?;
        state.result()
    }

    /// Runs one iteration; returns whether the loop can end early.
    fn step(
        &mut self,
        run: &'a Loop,
        state: &mut LoopState<'a>,
        first: Value<'a>,
        second: Option<Value<'a>>,
    ) -> Result<bool> {
        let depth = self.locals.len();
        self.locals.push(first);
        self.locals.extend(second);
        let done = self.accumulate(&run.kind, state);
        self.locals.truncate(depth);
        done
    }

    fn accumulate(&mut self, what: &'a LoopKind, state: &mut LoopState<'a>) -> Result<bool> {
        match (what, state) {
            (LoopKind::All(test), LoopState::Decision { fault, decided, .. }) => {
                self.charge(3)?;
                self.decide(test, false, fault, decided)
            }
            (LoopKind::Exists(test), LoopState::Decision { fault, decided, .. }) => {
                self.charge(4)?;
                self.decide(test, true, fault, decided)
            }
            (LoopKind::One(test), LoopState::Count(count)) => {
                if self.boolean(test)? {
                    *count += 1;
                    self.charge(1)?;
                }
                self.charge(1)?;
                Ok(false)
            }
            (LoopKind::Collect { only_if, item }, LoopState::Items(items)) => {
                if self.passes_filter(only_if.as_ref())? {
                    let item = self.evaluate(item)?;
                    self.charge(2 + LIST_COST)?;
                    items.push(item);
                } else {
                    self.charge(1)?;
                }
                Ok(false)
            }
            (
                LoopKind::Insert {
                    only_if,
                    key,
                    value,
                },
                LoopState::Entries(entries),
            ) => {
                if self.passes_filter(only_if.as_ref())? {
                    self.insert(key.as_ref(), value, entries)?;
                }
                self.charge(2)?;
                Ok(false)
            }
            _ => Err(EvalError::no_overload()),
        }
    }

    fn passes_filter(&mut self, only_if: Option<&'a PlanNode>) -> Result<bool> {
        only_if.map_or(Ok(true), |test| self.boolean(test))
    }

    fn insert(
        &mut self,
        key: Option<&'a PlanNode>,
        value: &'a PlanNode,
        entries: &mut BTreeMap<crate::value::MapKey, Value<'a>>,
    ) -> Result<()> {
        if let Some(key) = key {
            let (key, value) = (self.evaluate(key)?, self.evaluate(value)?);
            return library::insert(entries, &key, value);
        }
        match self.evaluate(value)? {
            Value::Map(map) => {
                for key in map.keys() {
                    let value = map.get(&key)?.unwrap_or(Value::Null);
                    library::insert(entries, &key, value)?;
                }
                Ok(())
            }
            _ => Err(EvalError::no_overload()),
        }
    }

    fn decide(
        &mut self,
        test: &'a PlanNode,
        decides: bool,
        fault: &mut Option<EvalError>,
        decided: &mut bool,
    ) -> Result<bool> {
        match self.boolean(test) {
            Ok(value) if value == decides => {
                *decided = true;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(EvalError::CostLimitExceeded) => Err(EvalError::CostLimitExceeded),
            Err(failed) => {
                fault.get_or_insert(failed);
                Ok(false)
            }
        }
    }
}

/// The accumulator of a loop.
enum LoopState<'a> {
    Decision {
        /// The result if no iteration decides.
        otherwise: bool,
        decided: bool,
        fault: Option<EvalError>,
    },
    Count(u64),
    Items(Vec<Value<'a>>),
    Entries(BTreeMap<crate::value::MapKey, Value<'a>>),
}

impl<'a> LoopState<'a> {
    fn new(what: &LoopKind) -> Self {
        match what {
            LoopKind::All(_) | LoopKind::Exists(_) => Self::Decision {
                otherwise: matches!(what, LoopKind::All(_)),
                decided: false,
                fault: None,
            },
            LoopKind::One(_) => Self::Count(0),
            LoopKind::Collect { .. } => Self::Items(Vec::new()),
            LoopKind::Insert { .. } => Self::Entries(BTreeMap::new()),
        }
    }

    fn result(self) -> Result<Value<'a>> {
        match self {
            Self::Decision {
                otherwise,
                decided: true,
                ..
            } => Ok(Value::Bool(!otherwise)),
            Self::Decision {
                fault: Some(fault), ..
            } => Err(fault),
            Self::Decision { otherwise, .. } => Ok(Value::Bool(otherwise)),
            Self::Count(count) => Ok(Value::Bool(count == 1)),
            Self::Items(items) => Ok(Value::List(ListValue::Owned(Arc::new(items)))),
            Self::Entries(entries) => Ok(map_of(entries)),
        }
    }
}

/// A number as an integer, whatever its type; `None` if it is not whole.
fn whole(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Uint(number) => i64::try_from(*number).ok(),
        Value::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
            Some(*number as i64)
        }
        _ => None,
    }
}

fn select<'a>(operand: &Value<'a>, field: &str) -> Result<Value<'a>> {
    match operand {
        Value::Map(map) => map.field(field)?.ok_or_else(|| EvalError::no_key(field)),
        Value::Optional(_) => opt_select(operand, field),
        Value::Struct(made) => {
            let found = made.fields.iter().find(|(name, _)| **name == *field);
            let value = found.map(|(_, value)| value.clone());
            value.ok_or_else(|| EvalError::no_key(field))
        }
        Value::Null => Err(EvalError::no_key(field)),
        _ => Err(EvalError::no_overload()),
    }
}

fn opt_select<'a>(operand: &Value<'a>, field: &str) -> Result<Value<'a>> {
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inside)) => opt_select(inside, field),
        Value::Map(map) => Ok(Value::Optional(map.field(field)?.map(Arc::new))),
        Value::Struct(_) => Ok(Value::Optional(select(operand, field).ok().map(Arc::new))),
        Value::Null => Ok(Value::Optional(None)),
        _ => Err(EvalError::no_overload()),
    }
}

fn has(operand: &Value<'_>, field: &str) -> Result<bool> {
    match operand {
        Value::Map(map) => Ok(map.has(field)),
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(inside)) => has(inside, field),
        Value::Struct(made) => Ok(made.fields.iter().any(|(name, _)| **name == *field)),
        Value::Null => Ok(false),
        _ => Err(EvalError::no_overload()),
    }
}

fn not_optional(what: &str, value: &Value<'_>) -> EvalError {
    let name = value.type_name().0;
    EvalError::new(format!(
        "cannot initialize optional {what} element from non-optional value {name}"
    ))
}
