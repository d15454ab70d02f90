//! From a checked expression to what is run.
//!
//! Names become places, macros become loops of their own kind, constants are made once,
//! and regular expressions that stand in the text are compiled.

use crate::check::{Checked, Names};
use crate::estimate::is_bind;
use crate::library::{self, Arithmetic, Function, Regex};
use crate::macros;
use crate::syntax::{Expr, Fold, Kind, Literal};
use crate::value::{Fault, Key, List, Map, Result, Text, TypeName, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) enum Node {
    Text(Box<str>),
    Constant(Value<'static>),
    Variable(usize),
    Local(usize),
    Select(Box<Node>, Box<str>),
    Has(Box<Node>, Box<str>),
    OptSelect(Box<Node>, Box<str>),
    Index(Box<[Node; 2]>),
    OptIndex(Box<[Node; 2]>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    Not(Box<Node>),
    If(Box<[Node; 3]>),
    Equal(Box<[Node; 2]>, bool),
    Order(Box<[Node; 2]>, Comparison),
    In(Box<[Node; 2]>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Negate(Box<Node>),
    Regex(Box<Node>, Box<Regex>, u64, Matching),
    OrElse(Box<[Node; 2]>, bool),
    Call(Function, Box<[Node]>),
    List(Box<[(Node, bool)]>),
    Map(Box<[(Node, Node, bool)]>),
    Make(Box<str>, Box<[(Box<str>, Node, bool)]>),
    Loop(Box<Loop>),
    /// Two parts: a value, and what is worked out while it has a name.
    Bind(Box<[Node; 2]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matching {
    Matches,
    Find,
    FindAll,
}

#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) range: Node,
    /// Key and value, not only one of them.
    pub(crate) two: bool,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    All(Node),
    Exists(Node),
    One(Node),
    Collect {
        only_if: Option<Node>,
        item: Node,
    },
    Insert {
        only_if: Option<Node>,
        /// `None`: the value is a map of entries.
        key: Option<Node>,
        value: Node,
    },
}

/// What is run, and which of the declared names it uses.
pub(crate) struct Plan {
    pub(crate) node: Node,
    pub(crate) used: Vec<usize>,
}

pub(crate) fn plan(checked: &Checked, names: &Names) -> Result<Plan> {
    let mut planner = Planner {
        names,
        locals: Vec::new(),
        used: Vec::new(),
    };
    let node = planner.node(&checked.tree.root)?;
    let mut used = planner.used;
    used.sort_unstable();
    used.dedup();
    Ok(Plan { node, used })
}

struct Planner<'p> {
    names: &'p Names,
    locals: Vec<Box<str>>,
    used: Vec<usize>,
}

impl Planner<'_> {
    fn boxed(&mut self, expr: &Expr) -> Result<Box<Node>> {
        self.node(expr).map(Box::new)
    }

    fn two(&mut self, args: &[Expr]) -> Result<Box<[Node; 2]>> {
        match args {
            [a, b] => Ok(Box::new([self.node(a)?, self.node(b)?])),
            _ => Err(Fault::no_overload()),
        }
    }

    fn node(&mut self, expr: &Expr) -> Result<Node> {
        Ok(match &expr.kind {
            Kind::Literal(literal) => constant(literal),
            Kind::Ident(name) => self.ident(name),
            Kind::Select {
                operand,
                field,
                test,
            } => self.select(operand, field, *test)?,
            Kind::Call {
                function,
                target,
                args,
            } => self.call(function, target.as_deref(), args)?,
            Kind::List { items, optional } => self.list(items, optional)?,
            Kind::Map(entries) => {
                let mut made = Vec::with_capacity(entries.len());
                for entry in entries {
                    let (key, value) = (self.node(&entry.key)?, self.node(&entry.value)?);
                    made.push((key, value, entry.optional));
                }
                Node::Map(made.into())
            }
            Kind::Struct { name, fields } => {
                let mut made = Vec::with_capacity(fields.len());
                for field in fields {
                    made.push((field.name.clone(), self.node(&field.value)?, field.optional));
                }
                Node::Make(name.clone(), made.into())
            }
            Kind::Fold(fold) if is_bind(fold) => {
                let value = self.node(&fold.init)?;
                self.locals.push(fold.accumulator.clone());
                let inside = self.node(&fold.result);
                self.locals.pop();
                Node::Bind(Box::new([value, inside?]))
            }
            Kind::Fold(fold) => self.fold(fold)?,
        })
    }

    fn ident(&mut self, name: &str) -> Node {
        if let Some(place) = self.locals.iter().rposition(|local| **local == *name) {
            return Node::Local(place);
        }
        if let Some(place) = self.names.place(name) {
            self.used.push(place);
            return Node::Variable(place);
        }
        Node::Constant(Value::Type(TypeName(name.into())))
    }

    fn select(&mut self, operand: &Expr, field: &str, test: bool) -> Result<Node> {
        // `variables.x` is a variable of its own, worked out when it is first needed.
        if let Kind::Ident(name) = &operand.kind
            && !self.locals.iter().any(|local| local == name)
        {
            let whole = format!("{name}.{field}");
            if let Some(place) = self.names.place(&whole) {
                self.used.push(place);
                return Ok(match test {
                    true => Node::Constant(Value::Bool(true)),
                    false => Node::Variable(place),
                });
            }
        }
        let operand = self.boxed(operand)?;
        Ok(match test {
            true => Node::Has(operand, field.into()),
            false => Node::Select(operand, field.into()),
        })
    }

    fn list(&mut self, items: &[Expr], optional: &[usize]) -> Result<Node> {
        let mut made = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            made.push((self.node(item)?, optional.contains(&index)));
        }
        let is_constant = |(node, optional): &(Node, bool)| {
            !optional && matches!(node, Node::Text(_) | Node::Constant(_))
        };
        if !made.iter().all(is_constant) {
            return Ok(Node::List(made.into()));
        }
        let values = made.into_iter().filter_map(|(node, _)| match node {
            Node::Text(text) => Some(Value::text(text)),
            Node::Constant(value) => Some(value),
            _ => None,
        });
        Ok(Node::Constant(Value::List(List::Owned(Arc::new(
            values.collect(),
        )))))
    }

    fn call(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Result<Node> {
        use Comparison::{Greater, GreaterOrEqual, Less, LessOrEqual};
        Ok(match function {
            macros::AND => Node::And(self.two(args)?),
            macros::OR => Node::Or(self.two(args)?),
            macros::NOT => Node::Not(self.boxed(first(args)?)?),
            macros::EQUALS => Node::Equal(self.two(args)?, true),
            "_!=_" => Node::Equal(self.two(args)?, false),
            "_<_" => Node::Order(self.two(args)?, Less),
            "_<=_" => Node::Order(self.two(args)?, LessOrEqual),
            "_>_" => Node::Order(self.two(args)?, Greater),
            "_>=_" => Node::Order(self.two(args)?, GreaterOrEqual),
            "@in" => Node::In(self.two(args)?),
            macros::ADD => Node::Arithmetic(Arithmetic::Add, self.two(args)?),
            "_-_" => Node::Arithmetic(Arithmetic::Subtract, self.two(args)?),
            "_*_" => Node::Arithmetic(Arithmetic::Multiply, self.two(args)?),
            "_/_" => Node::Arithmetic(Arithmetic::Divide, self.two(args)?),
            "_%_" => Node::Arithmetic(Arithmetic::Modulo, self.two(args)?),
            "-_" => Node::Negate(self.boxed(first(args)?)?),
            "_[_]" => Node::Index(self.two(args)?),
            "_[?_]" => Node::OptIndex(self.two(args)?),
            macros::CONDITIONAL => match args {
                [test, yes, no] => Node::If(Box::new([
                    self.node(test)?,
                    self.node(yes)?,
                    self.node(no)?,
                ])),
                _ => return Err(Fault::no_overload()),
            },
            macros::OPT_SELECT => match args {
                [operand, name] => match &name.kind {
                    Kind::Literal(Literal::String(field)) => {
                        Node::OptSelect(self.boxed(operand)?, field.clone())
                    }
                    _ => return Err(Fault::no_overload()),
                },
                _ => return Err(Fault::no_overload()),
            },
            "or" | "orValue" if target.is_some() => {
                let (Some(target), [other]) = (target, args) else {
                    return Err(Fault::no_overload());
                };
                let parts = Box::new([self.node(target)?, self.node(other)?]);
                Node::OrElse(parts, function == "or")
            }
            _ => return self.function(function, target, args),
        })
    }

    fn function(&mut self, function: &str, target: Option<&Expr>, args: &[Expr]) -> Result<Node> {
        let matching = match (function, args.len() + usize::from(target.is_some())) {
            ("matches", 2) => Some(Matching::Matches),
            ("find", 2) => Some(Matching::Find),
            ("findAll", 2) => Some(Matching::FindAll),
            _ => None,
        };
        let mut all: Vec<&Expr> = target.into_iter().collect();
        all.extend(args);
        if let (Some(matching), [text, regex]) = (matching, all.as_slice())
            && let Kind::Literal(Literal::String(source)) = &regex.kind
        {
            let compiled = library::compile_regex(source)?;
            let chars = source.chars().count() as u64;
            return Ok(Node::Regex(
                self.boxed(text)?,
                Box::new(compiled),
                chars,
                matching,
            ));
        }
        let found = library::find_function(function).ok_or_else(Fault::no_overload)?;
        let mut nodes = Vec::with_capacity(all.len());
        for arg in all {
            nodes.push(self.node(arg)?);
        }
        // What is the same every time is worked out now, and may fail now.
        if let (
            "bool" | "bytes" | "double" | "duration" | "int" | "string" | "timestamp" | "uint",
            [Node::Constant(_) | Node::Text(_)],
        ) = (function, nodes.as_slice())
        {
            let value = match nodes.remove(0) {
                Node::Text(text) => Value::text(text),
                Node::Constant(value) => value,
                other => return Ok(Node::Call(found, [other].into())),
            };
            return Ok(Node::Constant((found.run)(&[value])?));
        }
        Ok(Node::Call(found, nodes.into()))
    }

    fn fold(&mut self, fold: &Fold) -> Result<Node> {
        let range = self.node(&fold.range)?;
        let depth = self.locals.len();
        self.locals.push(fold.variable.clone());
        if let Some(second) = &fold.second {
            self.locals.push(second.clone());
        }
        let what = self.what(fold);
        self.locals.truncate(depth);
        Ok(Node::Loop(Box::new(Loop {
            range,
            two: fold.second.is_some(),
            what: what?,
        })))
    }

    /// Macros are expanded by us, so their steps have the forms that are looked for here.
    fn what(&mut self, fold: &Fold) -> Result<What> {
        let odd = || Fault::new("unsupported comprehension");
        let Kind::Call { function, args, .. } = &fold.step.kind else {
            return Err(odd());
        };
        match &fold.init.kind {
            Kind::Literal(Literal::Bool(true)) => {
                Ok(What::All(self.node(args.get(1).ok_or_else(odd)?)?))
            }
            Kind::Literal(Literal::Bool(false)) => {
                Ok(What::Exists(self.node(args.get(1).ok_or_else(odd)?)?))
            }
            Kind::Literal(_) => Ok(What::One(self.node(args.first().ok_or_else(odd)?)?)),
            init => {
                let (only_if, step) = match (&**function, args.as_slice()) {
                    (macros::CONDITIONAL, [test, step, _]) => (Some(self.node(test)?), step),
                    _ => (None, &fold.step),
                };
                let Kind::Call { args, .. } = &step.kind else {
                    return Err(odd());
                };
                match (init, args.as_slice()) {
                    (Kind::List { .. }, [_, list]) => {
                        let Kind::List { items, .. } = &list.kind else {
                            return Err(odd());
                        };
                        let item = self.node(items.first().ok_or_else(odd)?)?;
                        Ok(What::Collect { only_if, item })
                    }
                    (Kind::Map(_), [_, key, value]) => Ok(What::Insert {
                        only_if,
                        key: Some(self.node(key)?),
                        value: self.node(value)?,
                    }),
                    (Kind::Map(_), [_, entries]) => Ok(What::Insert {
                        only_if,
                        key: None,
                        value: self.node(entries)?,
                    }),
                    _ => Err(odd()),
                }
            }
        }
    }
}

fn first(args: &[Expr]) -> Result<&Expr> {
    args.first().ok_or_else(Fault::no_overload)
}

fn constant(literal: &Literal) -> Node {
    Node::Constant(match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(number) => Value::Int(*number),
        Literal::Uint(number) => Value::Uint(*number),
        Literal::Double(number) => Value::Double(*number),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone().into()),
        Literal::String(text) => return Node::Text(text.clone()),
    })
}

/// A map of what was put into it.
pub(crate) fn map_of<'a>(entries: BTreeMap<Key, Value<'a>>) -> Value<'a> {
    Value::Map(Map::Owned(Arc::new(entries)))
}

/// A string of the program itself.
pub(crate) fn text_of(text: &str) -> Value<'_> {
    Value::String(Text::Borrowed(text))
}
