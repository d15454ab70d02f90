//! Running a plan.

use crate::compare::{contains, equal, order};
use crate::library::{self, Arithmetic, arithmetic};
use crate::plan::{Comparison, Loop, Matching, Node, What, map_of, text_of};
use crate::range::scale;
use crate::spend::{
    LIST_COST, MAP_COST, OBJECT_COST, Price, REGEX_FACTOR, SELECT_COST, TEXT_FACTOR, price, size,
};
use crate::value::{Fault, List, Made, Result, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The values of the names that were declared, by their place.
pub trait Variables<'a> {
    fn value(&self, place: usize) -> std::result::Result<Value<'a>, Fault>;
}

/// One run of a plan.
pub(crate) struct Run<'a, 'v> {
    variables: &'v dyn Variables<'a>,
    locals: Vec<Value<'a>>,
    cost: u64,
    limit: u64,
}

impl<'a, 'v> Run<'a, 'v> {
    pub(crate) fn new(variables: &'v dyn Variables<'a>, limit: u64) -> Self {
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

    fn spend(&mut self, cost: u64) -> Result<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit {
            return Err(Fault::TooExpensive);
        }
        Ok(())
    }

    pub(crate) fn value(&mut self, node: &'a Node) -> Result<Value<'a>> {
        match node {
            Node::Text(text) => Ok(text_of(text)),
            Node::Constant(value) => Ok(value.clone()),
            Node::Variable(place) => {
                self.spend(SELECT_COST)?;
                self.variables.value(*place)
            }
            Node::Local(place) => {
                self.spend(SELECT_COST)?;
                self.locals
                    .get(*place)
                    .cloned()
                    .ok_or_else(Fault::no_overload)
            }
            Node::Select(operand, field) => {
                let operand = self.value(operand)?;
                self.spend(SELECT_COST)?;
                select(&operand, field)
            }
            Node::Has(operand, field) => {
                let operand = self.value(operand)?;
                has(&operand, field).map(Value::Bool)
            }
            Node::OptSelect(operand, field) => {
                let operand = self.value(operand)?;
                self.spend(SELECT_COST)?;
                opt_select(&operand, field)
            }
            Node::Index(parts) => self.index(parts, false),
            Node::OptIndex(parts) => self.index(parts, true),
            Node::And(parts) => self.logic(parts, false),
            Node::Or(parts) => self.logic(parts, true),
            Node::Not(part) => {
                let value = self.boolean(part)?;
                self.spend(1)?;
                Ok(Value::Bool(!value))
            }
            Node::If(parts) => {
                let [test, yes, no] = &**parts;
                match self.boolean(test)? {
                    true => self.value(yes),
                    false => self.value(no),
                }
            }
            Node::Equal(parts, wanted) => {
                let args = self.both(parts)?;
                self.spend(price(Price::Compared, &args, &Value::Null))?;
                Ok(Value::Bool(equal(&args[0], &args[1])? == *wanted))
            }
            Node::Order(parts, comparison) => {
                let args = self.both(parts)?;
                self.spend(price(Price::Compared, &args, &Value::Null))?;
                let found = order(&args[0], &args[1])?;
                Ok(Value::Bool(found.is_some_and(|found| match comparison {
                    Comparison::Less => found == Ordering::Less,
                    Comparison::LessOrEqual => found != Ordering::Greater,
                    Comparison::Greater => found == Ordering::Greater,
                    Comparison::GreaterOrEqual => found != Ordering::Less,
                })))
            }
            Node::In(parts) => {
                let args = self.both(parts)?;
                self.spend(price(Price::In, &args, &Value::Null))?;
                match &args[1] {
                    Value::List(list) => contains(list, &args[0]).map(Value::Bool),
                    Value::Map(map) => Ok(Value::Bool(map.get(&args[0])?.is_some())),
                    _ => Err(Fault::no_overload()),
                }
            }
            Node::Arithmetic(what, parts) => {
                let args = self.both(parts)?;
                self.spend(price(Price::Joined, &args, &Value::Null))?;
                arithmetic(*what, &args)
            }
            Node::Negate(part) => {
                let value = self.value(part)?;
                self.spend(1)?;
                arithmetic(Arithmetic::Negate, &[value])
            }
            Node::Regex(text, regex, chars, matching) => {
                let text = self.value(text)?;
                let length = scale(1 + size(&text), TEXT_FACTOR);
                self.spend(length.saturating_mul(scale(*chars, REGEX_FACTOR)))?;
                let text = text.as_str().ok_or_else(Fault::no_overload)?;
                Ok(match matching {
                    Matching::Matches => Value::Bool(regex.is_match(text)),
                    Matching::Find => library::find(regex, text),
                    Matching::FindAll => library::find_all(regex, text, -1),
                })
            }
            Node::OrElse(parts, whole) => {
                let value = self.value(&parts[0])?;
                match value {
                    Value::Optional(None) => self.value(&parts[1]),
                    Value::Optional(Some(_)) if *whole => Ok(value),
                    Value::Optional(Some(inside)) => Ok((*inside).clone()),
                    _ => Err(Fault::no_overload()),
                }
            }
            Node::Call(function, args) => {
                let args: Vec<Value<'a>> = args
                    .iter()
                    .map(|arg| self.value(arg))
                    .collect::<Result<_>>()?;
                // What is known before is paid before: an argument can ask for too much.
                if !matches!(function.price, Price::Result | Price::NewList) {
                    self.spend(price(function.price, &args, &Value::Null))?;
                    return (function.run)(&args);
                }
                let result = (function.run)(&args)?;
                self.spend(price(function.price, &args, &result))?;
                Ok(result)
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Make(name, fields) => self.make(name, fields),
            Node::Loop(run) => self.run_loop(run),
            Node::Bind(parts) => {
                let [value, inside] = &**parts;
                let value = self.value(value)?;
                self.locals.push(value);
                let result = self.value(inside);
                self.locals.pop();
                result
            }
        }
    }

    fn both(&mut self, parts: &'a [Node; 2]) -> Result<[Value<'a>; 2]> {
        Ok([self.value(&parts[0])?, self.value(&parts[1])?])
    }

    fn boolean(&mut self, node: &'a Node) -> Result<bool> {
        self.value(node)?.as_bool().ok_or_else(Fault::no_overload)
    }

    /// One side can decide, even if the other has no value.
    fn logic(&mut self, parts: &'a [Node; 2], decides: bool) -> Result<Value<'a>> {
        let left = self.boolean(&parts[0]);
        match left {
            Ok(value) if value == decides => return Ok(Value::Bool(decides)),
            Err(Fault::TooExpensive) => return Err(Fault::TooExpensive),
            _ => {}
        }
        let right = self.boolean(&parts[1]);
        match (left, right) {
            (_, Ok(value)) if value == decides => Ok(Value::Bool(decides)),
            (_, Err(Fault::TooExpensive)) => Err(Fault::TooExpensive),
            (Err(fault), _) | (_, Err(fault)) => Err(fault),
            (Ok(_), Ok(_)) => Ok(Value::Bool(!decides)),
        }
    }

    fn index(&mut self, parts: &'a [Node; 2], optional: bool) -> Result<Value<'a>> {
        let [operand, index] = self.both(parts)?;
        self.spend(SELECT_COST)?;
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
                    return Err(Fault::new(text));
                }
            },
            (Value::Map(map), index) => map.get(index)?,
            (Value::Made(_), Value::String(name)) => select(&operand, name.as_str()).ok(),
            _ => return Err(Fault::no_overload()),
        };
        if optional || through {
            return Ok(Value::Optional(found.map(Arc::new)));
        }
        found.ok_or_else(|| match (&operand, &index) {
            (Value::List(_), index) => {
                let at = whole(index).unwrap_or_default();
                Fault::new(format!("index out of bounds: {at}"))
            }
            (_, index) => match index.key() {
                Some(key) => Fault::no_key(key),
                None => Fault::no_key(index.type_name().0),
            },
        })
    }

    fn list(&mut self, items: &'a [(Node, bool)]) -> Result<Value<'a>> {
        let mut made = Vec::with_capacity(items.len());
        for (item, optional) in items {
            let value = self.value(item)?;
            match (value, optional) {
                (value, false) => made.push(value),
                (Value::Optional(inside), true) => {
                    made.extend(inside.map(|inside| (*inside).clone()));
                }
                (other, true) => return Err(not_optional("list", &other)),
            }
        }
        self.spend(LIST_COST)?;
        Ok(Value::list(made))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Result<Value<'a>> {
        let mut made = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.value(key)?;
            let Some(key) = key.key() else {
                return Err(Fault::new("unsupported key type"));
            };
            let value = match (self.value(value)?, optional) {
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
        self.spend(MAP_COST)?;
        Ok(map_of(made))
    }

    fn make(&mut self, name: &str, fields: &'a [(Box<str>, Node, bool)]) -> Result<Value<'a>> {
        let mut made = Vec::with_capacity(fields.len());
        for (field, value, optional) in fields {
            match (self.value(value)?, optional) {
                (value, false) => made.push((field.clone(), value)),
                (Value::Optional(Some(inside)), true) => {
                    made.push((field.clone(), (*inside).clone()));
                }
                (Value::Optional(None), true) => {}
                (other, true) => return Err(not_optional("struct", &other)),
            }
        }
        self.spend(OBJECT_COST)?;
        Ok(Value::Made(Arc::new(Made {
            name: name.into(),
            fields: made,
        })))
    }

    fn run_loop(&mut self, run: &'a Loop) -> Result<Value<'a>> {
        let range = self.value(&run.range)?;
        let depth = self.locals.len();
        let result = self.iterate(run, &range);
        self.locals.truncate(depth);
        result
    }

    fn iterate(&mut self, run: &'a Loop, range: &Value<'a>) -> Result<Value<'a>> {
        let mut state = State::new(&run.what);
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
            _ => return Err(Fault::no_overload()),
        }
        self.spend(SELECT_COST)?;
        state.result()
    }

    /// One turn; whether the loop has nothing more to find out.
    fn step(
        &mut self,
        run: &'a Loop,
        state: &mut State<'a>,
        first: Value<'a>,
        second: Option<Value<'a>>,
    ) -> Result<bool> {
        let depth = self.locals.len();
        self.locals.push(first);
        self.locals.extend(second);
        let done = self.turn(&run.what, state);
        self.locals.truncate(depth);
        done
    }

    fn turn(&mut self, what: &'a What, state: &mut State<'a>) -> Result<bool> {
        match (what, state) {
            (What::All(test), State::Decision { fault, decided, .. }) => {
                self.spend(3)?;
                self.decide(test, false, fault, decided)
            }
            (What::Exists(test), State::Decision { fault, decided, .. }) => {
                self.spend(4)?;
                self.decide(test, true, fault, decided)
            }
            (What::One(test), State::Count(count)) => {
                if self.boolean(test)? {
                    *count += 1;
                    self.spend(1)?;
                }
                self.spend(1)?;
                Ok(false)
            }
            (What::Collect { only_if, item }, State::Items(items)) => {
                if self.wanted(only_if.as_ref())? {
                    let item = self.value(item)?;
                    self.spend(2 + LIST_COST)?;
                    items.push(item);
                } else {
                    self.spend(1)?;
                }
                Ok(false)
            }
            (
                What::Insert {
                    only_if,
                    key,
                    value,
                },
                State::Entries(entries),
            ) => {
                if self.wanted(only_if.as_ref())? {
                    self.insert(key.as_ref(), value, entries)?;
                }
                self.spend(2)?;
                Ok(false)
            }
            _ => Err(Fault::no_overload()),
        }
    }

    fn wanted(&mut self, only_if: Option<&'a Node>) -> Result<bool> {
        only_if.map_or(Ok(true), |test| self.boolean(test))
    }

    fn insert(
        &mut self,
        key: Option<&'a Node>,
        value: &'a Node,
        entries: &mut BTreeMap<crate::value::Key, Value<'a>>,
    ) -> Result<()> {
        if let Some(key) = key {
            let (key, value) = (self.value(key)?, self.value(value)?);
            return library::insert(entries, &key, value);
        }
        match self.value(value)? {
            Value::Map(map) => {
                for key in map.keys() {
                    let value = map.get(&key)?.unwrap_or(Value::Null);
                    library::insert(entries, &key, value)?;
                }
                Ok(())
            }
            _ => Err(Fault::no_overload()),
        }
    }

    fn decide(
        &mut self,
        test: &'a Node,
        decides: bool,
        fault: &mut Option<Fault>,
        decided: &mut bool,
    ) -> Result<bool> {
        match self.boolean(test) {
            Ok(value) if value == decides => {
                *decided = true;
                Ok(true)
            }
            Ok(_) => Ok(false),
            Err(Fault::TooExpensive) => Err(Fault::TooExpensive),
            Err(failed) => {
                fault.get_or_insert(failed);
                Ok(false)
            }
        }
    }
}

/// What a loop has found so far.
enum State<'a> {
    Decision {
        /// What it is if nothing decides otherwise.
        otherwise: bool,
        decided: bool,
        fault: Option<Fault>,
    },
    Count(u64),
    Items(Vec<Value<'a>>),
    Entries(BTreeMap<crate::value::Key, Value<'a>>),
}

impl<'a> State<'a> {
    fn new(what: &What) -> Self {
        match what {
            What::All(_) | What::Exists(_) => Self::Decision {
                otherwise: matches!(what, What::All(_)),
                decided: false,
                fault: None,
            },
            What::One(_) => Self::Count(0),
            What::Collect { .. } => Self::Items(Vec::new()),
            What::Insert { .. } => Self::Entries(BTreeMap::new()),
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
            Self::Items(items) => Ok(Value::List(List::Owned(Arc::new(items)))),
            Self::Entries(entries) => Ok(map_of(entries)),
        }
    }
}

/// A whole number, whatever its type.
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
        Value::Map(map) => map.field(field)?.ok_or_else(|| Fault::no_key(field)),
        Value::Optional(_) => opt_select(operand, field),
        Value::Made(made) => {
            let found = made.fields.iter().find(|(name, _)| **name == *field);
            let value = found.map(|(_, value)| value.clone());
            value.ok_or_else(|| Fault::no_key(field))
        }
        Value::Null => Err(Fault::no_key(field)),
        _ => Err(Fault::no_overload()),
    }
}

fn opt_select<'a>(operand: &Value<'a>, field: &str) -> Result<Value<'a>> {
    match operand {
        Value::Optional(None) => Ok(Value::Optional(None)),
        Value::Optional(Some(inside)) => opt_select(inside, field),
        Value::Map(map) => Ok(Value::Optional(map.field(field)?.map(Arc::new))),
        Value::Made(_) => Ok(Value::Optional(select(operand, field).ok().map(Arc::new))),
        Value::Null => Ok(Value::Optional(None)),
        _ => Err(Fault::no_overload()),
    }
}

fn has(operand: &Value<'_>, field: &str) -> Result<bool> {
    match operand {
        Value::Map(map) => Ok(map.has(field)),
        Value::Optional(None) => Ok(false),
        Value::Optional(Some(inside)) => has(inside, field),
        Value::Made(made) => Ok(made.fields.iter().any(|(name, _)| **name == *field)),
        Value::Null => Ok(false),
        _ => Err(Fault::no_overload()),
    }
}

fn not_optional(what: &str, value: &Value<'_>) -> Fault {
    let name = value.type_name().0;
    Fault::new(format!(
        "cannot initialize optional {what} element from non-optional value {name}"
    ))
}
