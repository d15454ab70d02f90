//! What type each part of an expression has, and which functions it calls.

use crate::issue::{Issue, Issues};
use crate::macros;
use crate::overloads::{self, Overload};
use crate::syntax::{Expr, Fold, Kind, Literal, Tree};
use crate::types::{Library, Type};
use crate::unify::{Known, instantiate, most_general};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names that an expression can use.
#[derive(Clone, Debug, Default)]
pub struct Names {
    variables: Vec<Type>,
    /// The last one of each name.
    places: BTreeMap<Box<str>, usize>,
    /// Objects that can be made: `Object{…}`.
    pub(crate) makers: Option<Arc<dyn Makers>>,
    /// `jsonpatch.escapeKey` is there.
    pub(crate) patches: bool,
}

/// The types of objects that an expression can make.
pub trait Makers: std::fmt::Debug + Send + Sync {
    /// Whether there is a type of that name, with the type of a field of it.
    fn field(&self, type_name: &str, field: &str) -> Option<Type>;
    fn exists(&self, type_name: &str) -> bool;
}

impl Names {
    #[must_use]
    pub fn with(mut self, name: &str, of: Type) -> Self {
        self.add(name, of);
        self
    }

    pub fn add(&mut self, name: &str, of: Type) {
        self.places.insert(name.into(), self.variables.len());
        self.variables.push(of);
    }

    #[must_use]
    pub fn making(mut self, makers: Arc<dyn Makers>) -> Self {
        self.makers = Some(makers);
        self.patches = true;
        self
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Type> {
        self.variables.get(self.place(name)?)
    }

    pub(crate) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// An expression whose types are known.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) tree: Tree,
    types: Vec<Type>,
    calls: Vec<Vec<&'static Overload>>,
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &Type {
        self.types.get(expr.id as usize).unwrap_or(&Type::Dyn)
    }

    /// The ways in which a function may be called here.
    pub(crate) fn overloads(&self, expr: &Expr) -> &[&'static Overload] {
        let found = self.calls.get(expr.id as usize);
        found.map_or(&[], Vec::as_slice)
    }
}

/// Checks a tree.
pub(crate) fn check(source: &str, mut tree: Tree, names: &Names) -> Result<Checked, Issues> {
    let count = tree.count();
    let mut root = std::mem::replace(
        &mut tree.root,
        Expr {
            id: 0,
            kind: Kind::Literal(Literal::Null),
        },
    );
    let mut checker = Checker {
        source,
        tree: &tree,
        names,
        scope: Vec::new(),
        types: vec![Type::Error; count],
        calls: vec![Vec::new(); count],
        known: Known::default(),
        next: 0,
        issues: Vec::new(),
    };
    checker.check(&mut root);
    let Checker {
        types,
        calls,
        known,
        issues,
        ..
    } = checker;
    if !issues.is_empty() {
        return Err(Issues::several(source, issues));
    }
    let types = types.iter().map(|of| known.resolve(of, true)).collect();
    tree.root = root;
    Ok(Checked { tree, types, calls })
}

struct Checker<'c> {
    source: &'c str,
    tree: &'c Tree,
    names: &'c Names,
    /// Variables of folds, innermost last.
    scope: Vec<(Box<str>, Type)>,
    types: Vec<Type>,
    calls: Vec<Vec<&'static Overload>>,
    known: Known,
    next: u32,
    issues: Vec<Issue>,
}

impl Checker<'_> {
    fn complain(&mut self, id: u32, text: String) {
        let issue = Issue::at(self.source, self.tree.place(id), text);
        self.issues.push(issue);
    }

    fn set(&mut self, expr: &Expr, of: Type) {
        self.types[expr.id as usize] = of;
    }

    fn get(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    fn free(&mut self) -> Type {
        self.next += 1;
        Type::Free(self.next - 1)
    }

    fn find(&self, name: &str) -> Option<Type> {
        let local = self.scope.iter().rev().find(|(known, _)| **known == *name);
        let local = local.map(|(_, of)| of.clone());
        let local = local.or_else(|| self.names.find(name).cloned());
        local.or_else(|| named_type(name).map(Type::type_of))
    }

    fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            Kind::Literal(literal) => {
                let of = literal_type(literal);
                self.set(expr, of);
            }
            Kind::Ident(name) => match self.find(name) {
                Some(of) => self.set(expr, of),
                None => {
                    let text = format!("undeclared reference to '{name}' (in container '')");
                    self.complain(expr.id, text);
                    self.set(expr, Type::Error);
                }
            },
            Kind::Select { .. } => self.select(expr),
            Kind::Call { .. } => self.call(expr),
            Kind::List { .. } => self.list(expr),
            Kind::Map(_) => self.map(expr),
            Kind::Struct { .. } => self.make(expr),
            Kind::Fold(fold) => {
                let of = self.fold(fold);
                self.set(expr, of);
            }
        }
    }

    fn select(&mut self, expr: &mut Expr) {
        if let Some(name) = qualified(expr)
            && let Some(of) = self.find(&name)
        {
            expr.kind = Kind::Ident(name.into());
            return self.set(expr, of);
        }
        let id = expr.id;
        let Kind::Select {
            operand,
            field,
            test,
        } = &mut expr.kind
        else {
            return;
        };
        let of = self.field(id, operand, field, false);
        let of = if *test { Type::Bool } else { of };
        let of = self.known.resolve(&of, false);
        self.set(expr, of);
    }

    fn field(&mut self, id: u32, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let of = self.known.resolve(&self.get(operand), false);
        let (target, is_optional) = of.unwrapped();
        let found = match target {
            Type::Map(of) => of.1.clone(),
            Type::Object(object) => match object.field(field) {
                Some(found) => found.shape.type_of(),
                None => {
                    self.complain(id, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Library(_) => {
                self.complain(id, format!("undefined field '{field}'"));
                Type::Error
            }
            Type::Free(_) => {
                self.known.assign(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let text = format!("type '{other}' does not support field selection");
                self.complain(id, text);
                Type::Dyn
            }
        };
        if is_optional || optional {
            Type::optional(found)
        } else {
            found
        }
    }

    fn call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Kind::Call {
            function,
            target,
            args,
        } = &mut expr.kind
        else {
            return;
        };
        if &**function == macros::OPT_SELECT {
            let of = match args.as_mut_slice() {
                [operand, name] => match &name.kind {
                    Kind::Literal(Literal::String(field)) => {
                        let field = field.clone();
                        self.field(id, operand, &field, true)
                    }
                    _ => Type::Error,
                },
                _ => Type::Error,
            };
            let of = self.known.resolve(&of, false);
            self.calls[id as usize].extend(overloads::find(macros::OPT_SELECT).unwrap_or(&[]));
            return self.set(expr, of);
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        if let Some(inside) = target {
            // `sets.contains(…)` is a function of that name, not one called on `sets`.
            let name = qualified(inside).map(|prefix| format!("{prefix}.{function}"));
            if let Some(name) = name.filter(|name| self.function(name).is_some()) {
                *function = name.into();
                *target = None;
            } else {
                self.check(inside);
            }
        }
        let Some(overloads) = self.function(function) else {
            let text = format!("undeclared reference to '{function}' (in container '')");
            self.complain(id, text);
            return self.set(expr, Type::Error);
        };
        let mut given: Vec<Type> = Vec::with_capacity(args.len() + 1);
        given.extend(target.iter().map(|target| self.get(target)));
        given.extend(args.iter().map(|arg| self.get(arg)));
        let is_member = target.is_some();
        if matches!(&**function, macros::AND | macros::OR) {
            let ids: Vec<u32> = args.iter().map(|arg| arg.id).collect();
            let of = self.logic(&ids, &given);
            self.calls[id as usize].extend(overloads.first());
            return self.set(expr, of);
        }
        let found = self.resolve(overloads, &given, is_member);
        let of = match found {
            Some((found, of)) => {
                self.calls[id as usize] = found;
                of
            }
            None => {
                let shown = given.iter().map(|of| self.known.resolve(of, true));
                let text = signature(function, &shown.collect::<Vec<_>>(), is_member);
                self.complain(id, text);
                Type::Error
            }
        };
        self.set(expr, of);
    }

    fn function(&self, name: &str) -> Option<&'static [Overload]> {
        let found = overloads::find(name)?;
        (self.names.patches || name != "jsonpatch.escapeKey").then_some(found)
    }

    fn logic(&mut self, ids: &[u32], given: &[Type]) -> Type {
        let mut of = Type::Bool;
        for (id, given) in ids.iter().zip(given) {
            if !self.known.assign(given, &Type::Bool) {
                let given = self.known.resolve(given, false);
                self.complain(*id, format!("expected type 'bool' but found '{given}'"));
                of = Type::Error;
            }
        }
        of
    }

    fn resolve(
        &mut self,
        overloads: &'static [Overload],
        given: &[Type],
        is_member: bool,
    ) -> Option<(Vec<&'static Overload>, Type)> {
        let mut found = Vec::new();
        let mut result: Option<Type> = None;
        let given: Vec<&Type> = given.iter().collect();
        for overload in overloads {
            if overload.member != is_member || overload.params.len() != given.len() {
                continue;
            }
            let from = self.next;
            self.next += overload.free;
            let wanted = overload.params.iter().map(|of| instantiate(of, from));
            let wanted: Vec<Type> = wanted.collect();
            if !self
                .known
                .assign_all(&given, &wanted.iter().collect::<Vec<_>>())
            {
                continue;
            }
            found.push(overload);
            let of = instantiate(&overload.result, from);
            let of = self.known.resolve(&of, false);
            result = Some(match result {
                None => of,
                Some(before) if before.is_dyn_or_error() || before.is(&of) => before,
                Some(_) => Type::Dyn,
            });
        }
        result.map(|of| (found, of))
    }

    /// The type that all of them have. Whether they must is asked later.
    fn join(&mut self, before: Option<Type>, now: Type) -> Type {
        let Some(before) = before else {
            return now;
        };
        if self.known.assign(&before, &now) {
            return most_general(&before, &now).clone();
        }
        Type::Dyn
    }

    /// The type inside an optional, for `[?a]`.
    fn inside(&mut self, expr: &Expr, of: &Type, optional: bool) -> Type {
        if !optional {
            return of.clone();
        }
        let (inside, is_optional) = of.unwrapped();
        if !is_optional && !matches!(inside, Type::Dyn) {
            let text = format!("expected type 'optional_type({of})' but found '{of}'");
            self.complain(expr.id, text);
        }
        inside.clone()
    }

    fn list(&mut self, expr: &mut Expr) {
        let Kind::List { items, optional } = &mut expr.kind else {
            return;
        };
        let mut joined = None;
        for (index, item) in items.iter_mut().enumerate() {
            self.check(item);
            let of = self.get(item);
            let of = self.inside(item, &of, optional.contains(&index));
            joined = Some(self.join(joined, of));
        }
        let of = joined.unwrap_or_else(|| self.free());
        self.set(expr, Type::list(of));
    }

    fn map(&mut self, expr: &mut Expr) {
        let Kind::Map(entries) = &mut expr.kind else {
            return;
        };
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let of = self.get(&entry.key);
            keys = Some(self.join(keys, of));
            self.check(&mut entry.value);
            let of = self.get(&entry.value);
            let of = self.inside(&entry.value, &of, entry.optional);
            values = Some(self.join(values, of));
        }
        let keys = keys.unwrap_or_else(|| self.free());
        let values = values.unwrap_or_else(|| self.free());
        self.set(expr, Type::map(keys, values));
    }

    fn make(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let Kind::Struct { name, fields } = &mut expr.kind else {
            return;
        };
        let makers = self.names.makers.clone();
        let Some(makers) = makers.filter(|makers| makers.exists(name)) else {
            let text = match self.find(name) {
                Some(Type::Type(of)) => format!("'{of}' is not a message type"),
                Some(of) => format!("'{of}' is not a type"),
                None => format!("undeclared reference to '{name}' (in container '')"),
            };
            self.complain(id, text);
            return self.set(expr, Type::Error);
        };
        for field in fields.iter_mut() {
            self.check(&mut field.value);
            let of = self.get(&field.value);
            let of = self.inside(&field.value, &of, field.optional);
            match makers.field(name, &field.name) {
                Some(wanted) if self.known.assign(&wanted, &of) => {}
                Some(wanted) => {
                    let of = self.known.resolve(&of, false);
                    let text = format!(
                        "expected type of field '{}' is '{wanted}' but provided type is '{of}'",
                        field.name
                    );
                    self.complain(field.id, text);
                }
                None => self.complain(field.id, format!("undefined field '{}'", field.name)),
            }
        }
        let of = Type::Object(Arc::new(crate::shape::ObjectShape::new(
            name.to_string(),
            Vec::new(),
        )));
        self.set(expr, of);
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.known.resolve(&self.get(&fold.range), false);
        let accumulated = self.get(&fold.init);
        let two = fold.second.is_some();
        let (first, second) = match &range {
            Type::List(of) if two => (Type::Int, (**of).clone()),
            Type::List(of) => ((**of).clone(), Type::Error),
            Type::Map(of) => (of.0.clone(), of.1.clone()),
            Type::Dyn | Type::Error | Type::Free(_) => {
                self.known.assign(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.complain(fold.range.id, text);
                (Type::Error, Type::Error)
            }
        };
        let depth = self.scope.len();
        self.scope
            .push((fold.accumulator.clone(), accumulated.clone()));
        let outer = self.scope.len();
        self.scope.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.scope.push((name.clone(), second));
        }
        self.check(&mut fold.condition);
        self.must_be(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.must_be(&fold.step, &accumulated);
        self.scope.truncate(outer);
        self.check(&mut fold.result);
        self.scope.truncate(depth);
        self.known.resolve(&self.get(&fold.result), false)
    }

    fn must_be(&mut self, expr: &Expr, wanted: &Type) {
        let of = self.get(expr);
        if !self.known.assign(wanted, &of) {
            let (wanted, of) = (
                self.known.resolve(wanted, false),
                self.known.resolve(&of, false),
            );
            self.complain(
                expr.id,
                format!("expected type '{wanted}' but found '{of}'"),
            );
        }
    }
}

/// `a.b.c` if the expression is nothing but names.
pub(crate) fn qualified(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.to_string()),
        Kind::Select {
            operand,
            field,
            test: false,
        } => Some(format!("{}.{field}", qualified(operand)?)),
        _ => None,
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// The types that have names.
pub(crate) fn named_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "null_type" => Type::Null,
        "list" => Type::list(Type::Dyn),
        "map" => Type::map(Type::Dyn, Type::Dyn),
        "type" => Type::type_of(Type::Dyn),
        "dyn" => Type::Dyn,
        "optional_type" => Type::optional(Type::Dyn),
        "google.protobuf.Timestamp" => Type::Timestamp,
        "google.protobuf.Duration" => Type::Duration,
        other => {
            let library = Library::ALL.iter().find(|of| of.name() == other)?;
            Type::Library(*library)
        }
    })
}

fn signature(function: &str, given: &[Type], is_member: bool) -> String {
    let list = |of: &[Type]| {
        let texts: Vec<String> = of.iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    let shown = match given.split_first() {
        Some((target, rest)) if is_member => format!("{target}.({})", list(rest)),
        _ => format!("({})", list(given)),
    };
    format!("found no matching overload for '{function}' applied to '{shown}'")
}
