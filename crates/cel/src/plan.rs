//! Compiles a type-checked expression into an evaluation plan.
//!
//! Variable names become slots, macro expansions become loops, constants are built once, and
//! regular expressions that are literals are compiled.

use crate::cost_estimate::is_bind;
use crate::library::{self, Arithmetic, Function, Regex};
use crate::macros;
use crate::parser::{Comprehension, Expr, ExprKind, Literal};
use crate::type_check::{Checked, Environment};
use crate::value::{EvalError, ListValue, MapKey, MapValue, Result, StringValue, TypeValue, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum PlanNode {
    Text(Box<str>),
    Constant(Value<'static>),
    Variable(usize),
    Local(usize),
    Select(Box<PlanNode>, Box<str>),
    Has(Box<PlanNode>, Box<str>),
    OptSelect(Box<PlanNode>, Box<str>),
    Index(Box<[PlanNode; 2]>),
    OptIndex(Box<[PlanNode; 2]>),
    And(Box<[PlanNode; 2]>),
    Or(Box<[PlanNode; 2]>),
    Not(Box<PlanNode>),
    If(Box<[PlanNode; 3]>),
    Equal(Box<[PlanNode; 2]>, bool),
    Order(Box<[PlanNode; 2]>, OrderingOp),
    In(Box<[PlanNode; 2]>),
    Arithmetic(Arithmetic, Box<[PlanNode; 2]>),
    Negate(Box<PlanNode>),
    Regex(Box<PlanNode>, Box<Regex>, u64, RegexOp),
    OrElse(Box<[PlanNode; 2]>, bool),
    Call(Function, Box<[PlanNode]>),
    List(Box<[(PlanNode, bool)]>),
    Map(Box<[(PlanNode, PlanNode, bool)]>),
    Make(Box<str>, Box<[(Box<str>, PlanNode, bool)]>),
    Loop(Box<Loop>),
    /// `cel.bind`: a value, and the expression in which it is bound to a local variable.
    Bind(Box<[PlanNode; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderingOp {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegexOp {
    Matches,
    Find,
    FindAll,
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) range: PlanNode,
    /// Whether the loop has two variables (key and value, or index and item).
    pub(crate) two: bool,
    pub(crate) kind: LoopKind,
}

#[derive(Debug)]
pub(crate) enum LoopKind {
    All(PlanNode),
    Exists(PlanNode),
    One(PlanNode),
    Collect {
        only_if: Option<PlanNode>,
        item: PlanNode,
    },
    Insert {
        only_if: Option<PlanNode>,
        /// `None`: the value is a map of entries.
        key: Option<PlanNode>,
        value: PlanNode,
    },
}

/// The root of a plan, and the slots of the declared variables that it uses.
pub(crate) struct EvalPlan {
    pub(crate) node: PlanNode,
    pub(crate) used: Vec<usize>,
}

pub(crate) fn plan(checked: &Checked, names: &Environment) -> Result<EvalPlan> {
    let mut planner = Planner {
        names,
        locals: Vec::new(),
        used: Vec::new(),
    };
    let node = planner.plan_expr(&checked.tree.root)?;
    let mut used = planner.used;
    used.sort_unstable();
    used.dedup();
    Ok(EvalPlan { node, used })
}

struct Planner<'p> {
    names: &'p Environment,
    locals: Vec<Box<str>>,
    used: Vec<usize>,
}

impl Planner<'_> {
    fn boxed(&mut self, expr: &Expr) -> Result<Box<PlanNode>> {
        self.plan_expr(expr).map(Box::new)
    }

    fn boxed_pair(&mut self, args: &[Expr]) -> Result<Box<[PlanNode; 2]>> {
        match args {
            [a, b] => Ok(Box::new([self.plan_expr(a)?, self.plan_expr(b)?])),
            _ => Err(EvalError::no_overload()),
        }
    }

    fn plan_expr(&mut self, expr: &Expr) -> Result<PlanNode> {
        Ok(match &expr.kind {
            ExprKind::Literal(literal) => constant(literal),
            ExprKind::Ident(name) => self.ident(name),
            ExprKind::Select {
                operand,
                field,
                test,
            } => self.select(operand, field, *test)?,
            ExprKind::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args)?,
            ExprKind::List { items, optional } => self.list(items, optional)?,
            ExprKind::Map(entries) => {
                let mut made = Vec::with_capacity(entries.len());
                for entry in entries {
                    let (key, value) = (self.plan_expr(&entry.key)?, self.plan_expr(&entry.value)?);
                    made.push((key, value, entry.optional));
                }
                PlanNode::Map(made.into())
            }
            ExprKind::Struct { name, fields } => {
                let mut made = Vec::with_capacity(fields.len());
                for field in fields {
                    made.push((
                        field.name.clone(),
                        self.plan_expr(&field.value)?,
                        field.optional,
                    ));
                }
                PlanNode::Make(name.clone(), made.into())
            }
            ExprKind::Comprehension(fold) if is_bind(fold) => {
                let value = self.plan_expr(&fold.init)?;
                self.locals.push(fold.accumulator.clone());
                let inside = self.plan_expr(&fold.result);
                self.locals.pop();
                PlanNode::Bind(Box::new([value, inside?]))
            }
            ExprKind::Comprehension(fold) => self.fold(fold)?,
        })
    }

    fn ident(&mut self, name: &str) -> PlanNode {
        if let Some(place) = self.locals.iter().rposition(|local| **local == *name) {
            return PlanNode::Local(place);
        }
        if let Some(place) = self.names.slot(name) {
            self.used.push(place);
            return PlanNode::Variable(place);
        }
        PlanNode::Constant(Value::Type(TypeValue(name.into())))
    }

    fn select(&mut self, operand: &Expr, field: &str, test: bool) -> Result<PlanNode> {
        // `variables.x` is declared as a variable of its own, which is evaluated lazily.
        if let ExprKind::Ident(name) = &operand.kind
            && !self.locals.iter().any(|local| local == name)
        {
            let whole = format!("{name}.{field}");
            if let Some(place) = self.names.slot(&whole) {
                self.used.push(place);
                return Ok(match test {
                    true => PlanNode::Constant(Value::Bool(true)),
                    false => PlanNode::Variable(place),
                });
            }
        }
        let operand = self.boxed(operand)?;
        Ok(match test {
            true => PlanNode::Has(operand, field.into()),
            false => PlanNode::Select(operand, field.into()),
        })
    }

    fn list(&mut self, items: &[Expr], optional: &[usize]) -> Result<PlanNode> {
        let mut made = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            made.push((self.plan_expr(item)?, optional.contains(&index)));
        }
        let is_constant = |(node, optional): &(PlanNode, bool)| {
            !optional && matches!(node, PlanNode::Text(_) | PlanNode::Constant(_))
        };
        if !made.iter().all(is_constant) {
            return Ok(PlanNode::List(made.into()));
        }
        let values = made.into_iter().filter_map(|(node, _)| match node {
            PlanNode::Text(text) => Some(Value::string(text)),
            PlanNode::Constant(value) => Some(value),
            _ => None,
        });
        Ok(PlanNode::Constant(Value::List(ListValue::Owned(Arc::new(
            values.collect(),
        )))))
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Result<PlanNode> {
        use OrderingOp::{Greater, GreaterOrEqual, Less, LessOrEqual};
        Ok(match function {
            macros::AND => PlanNode::And(self.boxed_pair(args)?),
            macros::OR => PlanNode::Or(self.boxed_pair(args)?),
            macros::NOT => PlanNode::Not(self.boxed(first(args)?)?),
            macros::EQUALS => PlanNode::Equal(self.boxed_pair(args)?, true),
            "_!=_" => PlanNode::Equal(self.boxed_pair(args)?, false),
            "_<_" => PlanNode::Order(self.boxed_pair(args)?, Less),
            "_<=_" => PlanNode::Order(self.boxed_pair(args)?, LessOrEqual),
            "_>_" => PlanNode::Order(self.boxed_pair(args)?, Greater),
            "_>=_" => PlanNode::Order(self.boxed_pair(args)?, GreaterOrEqual),
            "@in" => PlanNode::In(self.boxed_pair(args)?),
            macros::ADD => PlanNode::Arithmetic(Arithmetic::Add, self.boxed_pair(args)?),
            "_-_" => PlanNode::Arithmetic(Arithmetic::Subtract, self.boxed_pair(args)?),
            "_*_" => PlanNode::Arithmetic(Arithmetic::Multiply, self.boxed_pair(args)?),
            "_/_" => PlanNode::Arithmetic(Arithmetic::Divide, self.boxed_pair(args)?),
            "_%_" => PlanNode::Arithmetic(Arithmetic::Modulo, self.boxed_pair(args)?),
            "-_" => PlanNode::Negate(self.boxed(first(args)?)?),
            "_[_]" => PlanNode::Index(self.boxed_pair(args)?),
            "_[?_]" => PlanNode::OptIndex(self.boxed_pair(args)?),
            macros::CONDITIONAL => match args {
                [test, yes, no] => PlanNode::If(Box::new([
                    self.plan_expr(test)?,
                    self.plan_expr(yes)?,
                    self.plan_expr(no)?,
                ])),
                _ => return Err(EvalError::no_overload()),
            },
            macros::OPT_SELECT => match args {
                [operand, name] => match &name.kind {
                    ExprKind::Literal(Literal::String(field)) => {
                        PlanNode::OptSelect(self.boxed(operand)?, field.clone())
                    }
                    _ => return Err(EvalError::no_overload()),
                },
                _ => return Err(EvalError::no_overload()),
            },
            "or" | "orValue" if target.is_some() => {
                let (Some(target), [other]) = (target, args) else {
                    return Err(EvalError::no_overload());
                };
                let parts = Box::new([self.plan_expr(target)?, self.plan_expr(other)?]);
                PlanNode::OrElse(parts, function == "or")
            }
            _ => return self.function(function, target, args),
        })
    }

    fn function(
        &mut self,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<PlanNode> {
        let matching = match (function, args.len() + usize::from(target.is_some())) {
            ("matches", 2) => Some(RegexOp::Matches),
            ("find", 2) => Some(RegexOp::Find),
            ("findAll", 2) => Some(RegexOp::FindAll),
            _ => None,
        };
        let mut all: Vec<&Expr> = target.into_iter().collect();
        all.extend(args);
        if let (Some(matching), [text, regex]) = (matching, all.as_slice())
            && let ExprKind::Literal(Literal::String(source)) = &regex.kind
        {
            let compiled = library::compile_regex(source)?;
            let chars = source.chars().count() as u64;
            return Ok(PlanNode::Regex(
                self.boxed(text)?,
                Box::new(compiled),
                chars,
                matching,
            ));
        }
        let found = library::find_function(function).ok_or_else(EvalError::no_overload)?;
        let mut nodes = Vec::with_capacity(all.len());
        for arg in all {
            nodes.push(self.plan_expr(arg)?);
        }
        // Conversions of constants are evaluated at compile time, and can fail at compile time.
        if let (
            "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint",
            [PlanNode::Constant(_) | PlanNode::Text(_)],
        ) = (function, nodes.as_slice())
        {
            let value = match nodes.remove(0) {
                PlanNode::Text(text) => Value::string(text),
                PlanNode::Constant(value) => value,
                other => return Ok(PlanNode::Call(found, [other].into())),
            };
            return Ok(PlanNode::Constant((found.run)(&[value])?));
        }
        Ok(PlanNode::Call(found, nodes.into()))
    }

    fn fold(&mut self, fold: &Comprehension) -> Result<PlanNode> {
        let range = self.plan_expr(&fold.range)?;
        let depth = self.locals.len();
        self.locals.push(fold.variable.clone());
        if let Some(second) = &fold.second {
            self.locals.push(second.clone());
        }
        let what = self.loop_kind(fold);
        self.locals.truncate(depth);
        Ok(PlanNode::Loop(Box::new(Loop {
            range,
            two: fold.second.is_some(),
            kind: what?,
        })))
    }

    /// Recognizes the kind of loop. Macros are expanded by [`crate::macros`], so loop steps have
    /// exactly the forms that are matched here.
    fn loop_kind(&mut self, fold: &Comprehension) -> Result<LoopKind> {
        let odd = || EvalError::new("unsupported comprehension");
        let ExprKind::Call { function, args, .. } = &fold.step.kind else {
            return Err(odd());
        };
        match &fold.init.kind {
            ExprKind::Literal(Literal::Bool(true)) => {
                Ok(LoopKind::All(self.plan_expr(args.get(1).ok_or_else(odd)?)?))
            }
            ExprKind::Literal(Literal::Bool(false)) => Ok(LoopKind::Exists(
                self.plan_expr(args.get(1).ok_or_else(odd)?)?,
            )),
            ExprKind::Literal(_) => Ok(LoopKind::One(
                self.plan_expr(args.first().ok_or_else(odd)?)?,
            )),
            init => {
                let (only_if, step) = match (&**function, args.as_slice()) {
                    (macros::CONDITIONAL, [test, step, _]) => (Some(self.plan_expr(test)?), step),
                    _ => (None, &fold.step),
                };
                let ExprKind::Call { args, .. } = &step.kind else {
                    return Err(odd());
                };
                match (init, args.as_slice()) {
                    (ExprKind::List { .. }, [_, list]) => {
                        let ExprKind::List { items, .. } = &list.kind else {
                            return Err(odd());
                        };
                        let item = self.plan_expr(items.first().ok_or_else(odd)?)?;
                        Ok(LoopKind::Collect { only_if, item })
                    }
                    (ExprKind::Map(_), [_, key, value]) => Ok(LoopKind::Insert {
                        only_if,
                        key: Some(self.plan_expr(key)?),
                        value: self.plan_expr(value)?,
                    }),
                    (ExprKind::Map(_), [_, entries]) => Ok(LoopKind::Insert {
                        only_if,
                        key: None,
                        value: self.plan_expr(entries)?,
                    }),
                    _ => Err(odd()),
                }
            }
        }
    }
}

fn first(args: &[Expr]) -> Result<&Expr> {
    args.first().ok_or_else(EvalError::no_overload)
}

fn constant(literal: &Literal) -> PlanNode {
    PlanNode::Constant(match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone().into()),
        Literal::String(text) => return PlanNode::Text(text.clone()),
    })
}

/// A map value of computed entries.
pub(crate) fn map_of<'a>(entries: BTreeMap<MapKey, Value<'a>>) -> Value<'a> {
    Value::Map(MapValue::Owned(Arc::new(entries)))
}

/// A string value that borrows from the plan.
pub(crate) fn text_of(text: &str) -> Value<'_> {
    Value::String(StringValue::Borrowed(text))
}
