//! The CEL type checker: resolves the type of each node and the overloads of each call.

use crate::issue::{Issue, Issues};
use crate::macros;
use crate::overloads::{self, Overload};
use crate::parser::{Ast, Comprehension, Expr, ExprKind, Literal};
use crate::types::{CelType, OpaqueType};
use crate::unification::{Substitution, instantiate, most_general};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The variables and types that an expression can use.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: Vec<CelType>,
    /// Slots by variable name; the last declaration of a name wins.
    places: BTreeMap<Box<str>, usize>,
    /// Types that expressions can construct: `SelfActivation{…}`.
    pub(crate) type_provider: Option<Arc<dyn TypeProvider>>,
    /// Whether `jsonpatch.escapeKey` is available.
    pub(crate) has_json_patch: bool,
}

/// The object types that an expression can construct.
pub trait TypeProvider: std::fmt::Debug + Send + Sync {
    /// The type of a field; `None` if there is no such type or field.
    fn field_type(&self, type_name: &str, field: &str) -> Option<CelType>;
    fn has_type(&self, type_name: &str) -> bool;
}

impl Environment {
    #[must_use]
    pub fn with_variable(mut self, name: &str, of: CelType) -> Self {
        self.add_variable(name, of);
        self
    }

    pub fn add_variable(&mut self, name: &str, of: CelType) {
        self.places.insert(name.into(), self.variables.len());
        self.variables.push(of);
    }

    #[must_use]
    pub fn with_type_provider(mut self, makers: Arc<dyn TypeProvider>) -> Self {
        self.type_provider = Some(makers);
        self.has_json_patch = true;
        self
    }

    pub(crate) fn find(&self, name: &str) -> Option<&CelType> {
        self.variables.get(self.slot(name)?)
    }

    pub(crate) fn slot(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }
}

/// A type-checked expression.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) tree: Ast,
    types: Vec<CelType>,
    calls: Vec<Vec<&'static Overload>>,
}

impl Checked {
    pub(crate) fn type_of(&self, expr: &Expr) -> &CelType {
        self.types.get(expr.id as usize).unwrap_or(&CelType::Dyn)
    }

    /// The candidate overloads of a call.
    pub(crate) fn overloads(&self, expr: &Expr) -> &[&'static Overload] {
        let found = self.calls.get(expr.id as usize);
        found.map_or(&[], Vec::as_slice)
    }
}

/// Type-checks an AST.
pub(crate) fn check(source: &str, mut tree: Ast, names: &Environment) -> Result<Checked, Issues> {
    let count = tree.count();
    let mut root = std::mem::replace(
        &mut tree.root,
        Expr {
            id: 0,
            kind: ExprKind::Literal(Literal::Null),
        },
    );
    let mut checker = TypeChecker {
        source,
        tree: &tree,
        names,
        scope: Vec::new(),
        types: vec![CelType::Error; count],
        calls: vec![Vec::new(); count],
        known: Substitution::default(),
        next: 0,
        issues: Vec::new(),
    };
    checker.check(&mut root);
    let TypeChecker {
        types,
        calls,
        known,
        issues,
        ..
    } = checker;
    if !issues.is_empty() {
        return Err(Issues::multiple(source, issues));
    }
    let types = types.iter().map(|of| known.resolve(of, true)).collect();
    tree.root = root;
    Ok(Checked { tree, types, calls })
}

struct TypeChecker<'c> {
    source: &'c str,
    tree: &'c Ast,
    names: &'c Environment,
    /// Variables of enclosing comprehensions, innermost last.
    scope: Vec<(Box<str>, CelType)>,
    types: Vec<CelType>,
    calls: Vec<Vec<&'static Overload>>,
    known: Substitution,
    next: u32,
    issues: Vec<Issue>,
}

impl TypeChecker<'_> {
    fn report(&mut self, id: u32, text: String) {
        let issue = Issue::at_offset(self.source, self.tree.offset(id), text);
        self.issues.push(issue);
    }

    fn set(&mut self, expr: &Expr, of: CelType) {
        self.types[expr.id as usize] = of;
    }

    fn get(&self, expr: &Expr) -> CelType {
        self.types[expr.id as usize].clone()
    }

    fn fresh_type_param(&mut self) -> CelType {
        self.next += 1;
        CelType::TypeParam(self.next - 1)
    }

    fn find(&self, name: &str) -> Option<CelType> {
        let local = self.scope.iter().rev().find(|(known, _)| **known == *name);
        let local = local.map(|(_, of)| of.clone());
        let local = local.or_else(|| self.names.find(name).cloned());
        local.or_else(|| named_type(name).map(CelType::type_of))
    }

    fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Literal(literal) => {
                let of = literal_type(literal);
                self.set(expr, of);
            }
            ExprKind::Ident(name) => match self.find(name) {
                Some(of) => self.set(expr, of),
                None => {
                    let text = format!("undeclared reference to '{name}' (in container '')");
                    self.report(expr.id, text);
                    self.set(expr, CelType::Error);
                }
            },
            ExprKind::Select { .. } => self.select(expr),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { .. } => self.list(expr),
            ExprKind::Map(_) => self.map(expr),
            ExprKind::Struct { .. } => self.struct_literal(expr),
            ExprKind::Comprehension(fold) => {
                let of = self.fold(fold);
                self.set(expr, of);
            }
        }
    }

    fn select(&mut self, expr: &mut Expr) {
        if let Some(name) = qualified_name(expr)
            && let Some(of) = self.find(&name)
        {
            expr.kind = ExprKind::Ident(name.into());
            return self.set(expr, of);
        }
        let id = expr.id;
        let ExprKind::Select {
            operand,
            field,
            test,
        } = &mut expr.kind
        else {
            return;
        };
        let of = self.field(id, operand, field, false);
        let of = if *test { CelType::Bool } else { of };
        let of = self.known.resolve(&of, false);
        self.set(expr, of);
    }

    fn field(&mut self, id: u32, operand: &mut Expr, field: &str, optional: bool) -> CelType {
        self.check(operand);
        let of = self.known.resolve(&self.get(operand), false);
        let (target, is_optional) = of.unwrapped();
        let found = match target {
            CelType::Map(of) => of.1.clone(),
            CelType::Object(object) => match object.field(field) {
                Some(found) => found.shape.type_of(),
                None => {
                    self.report(id, format!("undefined field '{field}'"));
                    CelType::Error
                }
            },
            CelType::Opaque(_) => {
                self.report(id, format!("undefined field '{field}'"));
                CelType::Error
            }
            CelType::TypeParam(_) => {
                self.known.is_assignable(&CelType::Dyn, target);
                CelType::Dyn
            }
            CelType::Dyn | CelType::Error => CelType::Dyn,
            other => {
                let text = format!("type '{other}' does not support field selection");
                self.report(id, text);
                CelType::Dyn
            }
        };
        if is_optional || optional {
            CelType::optional(found)
        } else {
            found
        }
    }

    fn call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call {
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
                    ExprKind::Literal(Literal::String(field)) => {
                        let field = field.clone();
                        self.field(id, operand, &field, true)
                    }
                    _ => CelType::Error,
                },
                _ => CelType::Error,
            };
            let of = self.known.resolve(&of, false);
            self.calls[id as usize].extend(overloads::find(macros::OPT_SELECT).unwrap_or(&[]));
            return self.set(expr, of);
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        if let Some(inside) = target {
            // `sets.contains(…)` is a function with a qualified name, not a method called on
            // `sets`.
            let name = qualified_name(inside).map(|prefix| format!("{prefix}.{function}"));
            if let Some(name) = name.filter(|name| self.function(name).is_some()) {
                *function = name.into();
                *target = None;
            } else {
                self.check(inside);
            }
        }
        let Some(overloads) = self.function(function) else {
            let text = format!("undeclared reference to '{function}' (in container '')");
            self.report(id, text);
            return self.set(expr, CelType::Error);
        };
        let mut given: Vec<CelType> = Vec::with_capacity(args.len() + 1);
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
                self.report(id, text);
                CelType::Error
            }
        };
        self.set(expr, of);
    }

    fn function(&self, name: &str) -> Option<&'static [Overload]> {
        let found = overloads::find(name)?;
        (self.names.has_json_patch || name != "jsonpatch.escapeKey").then_some(found)
    }

    fn logic(&mut self, ids: &[u32], given: &[CelType]) -> CelType {
        let mut of = CelType::Bool;
        for (id, given) in ids.iter().zip(given) {
            if !self.known.is_assignable(given, &CelType::Bool) {
                let given = self.known.resolve(given, false);
                self.report(*id, format!("expected type 'bool' but found '{given}'"));
                of = CelType::Error;
            }
        }
        of
    }

    fn resolve(
        &mut self,
        overloads: &'static [Overload],
        given: &[CelType],
        is_member: bool,
    ) -> Option<(Vec<&'static Overload>, CelType)> {
        let mut found = Vec::new();
        let mut result: Option<CelType> = None;
        let given: Vec<&CelType> = given.iter().collect();
        for overload in overloads {
            if overload.member != is_member || overload.params.len() != given.len() {
                continue;
            }
            let from = self.next;
            self.next += overload.free;
            let wanted = overload.params.iter().map(|of| instantiate(of, from));
            let wanted: Vec<CelType> = wanted.collect();
            if !self
                .known
                .are_assignable(&given, &wanted.iter().collect::<Vec<_>>())
            {
                continue;
            }
            found.push(overload);
            let of = instantiate(&overload.result, from);
            let of = self.known.resolve(&of, false);
            result = Some(match result {
                None => of,
                Some(before) if before.is_dyn_or_error() || before.is_identical(&of) => before,
                Some(_) => CelType::Dyn,
            });
        }
        result.map(|of| (found, of))
    }

    /// The common type of list or map items, `dyn` if there is none. Whether mixed types are
    /// allowed is checked later, by [`crate::literal_checks`].
    fn join(&mut self, before: Option<CelType>, now: CelType) -> CelType {
        let Some(before) = before else {
            return now;
        };
        if self.known.is_assignable(&before, &now) {
            return most_general(&before, &now).clone();
        }
        CelType::Dyn
    }

    /// The type inside an optional element `[?a]`; reports an error if it is not optional.
    fn unwrap_optional(&mut self, expr: &Expr, of: &CelType, optional: bool) -> CelType {
        if !optional {
            return of.clone();
        }
        let (inside, is_optional) = of.unwrapped();
        if !is_optional && !matches!(inside, CelType::Dyn) {
            let text = format!("expected type 'optional_type({of})' but found '{of}'");
            self.report(expr.id, text);
        }
        inside.clone()
    }

    fn list(&mut self, expr: &mut Expr) {
        let ExprKind::List { items, optional } = &mut expr.kind else {
            return;
        };
        let mut joined = None;
        for (index, item) in items.iter_mut().enumerate() {
            self.check(item);
            let of = self.get(item);
            let of = self.unwrap_optional(item, &of, optional.contains(&index));
            joined = Some(self.join(joined, of));
        }
        let of = joined.unwrap_or_else(|| self.fresh_type_param());
        self.set(expr, CelType::list(of));
    }

    fn map(&mut self, expr: &mut Expr) {
        let ExprKind::Map(entries) = &mut expr.kind else {
            return;
        };
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            self.check(&mut entry.key);
            let of = self.get(&entry.key);
            keys = Some(self.join(keys, of));
            self.check(&mut entry.value);
            let of = self.get(&entry.value);
            let of = self.unwrap_optional(&entry.value, &of, entry.optional);
            values = Some(self.join(values, of));
        }
        let keys = keys.unwrap_or_else(|| self.fresh_type_param());
        let values = values.unwrap_or_else(|| self.fresh_type_param());
        self.set(expr, CelType::map(keys, values));
    }

    fn struct_literal(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Struct { name, fields } = &mut expr.kind else {
            return;
        };
        let makers = self.names.type_provider.clone();
        let Some(makers) = makers.filter(|makers| makers.has_type(name)) else {
            let text = match self.find(name) {
                Some(CelType::Type(of)) => format!("'{of}' is not a message type"),
                Some(of) => format!("'{of}' is not a type"),
                None => format!("undeclared reference to '{name}' (in container '')"),
            };
            self.report(id, text);
            return self.set(expr, CelType::Error);
        };
        for field in fields.iter_mut() {
            self.check(&mut field.value);
            let of = self.get(&field.value);
            let of = self.unwrap_optional(&field.value, &of, field.optional);
            match makers.field_type(name, &field.name) {
                Some(wanted) if self.known.is_assignable(&wanted, &of) => {}
                Some(wanted) => {
                    let of = self.known.resolve(&of, false);
                    let text = format!(
                        "expected type of field '{}' is '{wanted}' but provided type is '{of}'",
                        field.name
                    );
                    self.report(field.id, text);
                }
                None => self.report(field.id, format!("undefined field '{}'", field.name)),
            }
        }
        let of = CelType::Object(Arc::new(crate::decl_type::ObjectDecl::new(
            name.to_string(),
            Vec::new(),
        )));
        self.set(expr, of);
    }

    fn fold(&mut self, fold: &mut Comprehension) -> CelType {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.known.resolve(&self.get(&fold.range), false);
        let accumulated = self.get(&fold.init);
        let two = fold.second.is_some();
        let (first, second) = match &range {
            CelType::List(of) if two => (CelType::Int, (**of).clone()),
            CelType::List(of) => ((**of).clone(), CelType::Error),
            CelType::Map(of) => (of.0.clone(), of.1.clone()),
            CelType::Dyn | CelType::Error | CelType::TypeParam(_) => {
                self.known.is_assignable(&CelType::Dyn, &range);
                (CelType::Dyn, CelType::Dyn)
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be \
                     list, map, or dynamic)"
                );
                self.report(fold.range.id, text);
                (CelType::Error, CelType::Error)
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
        self.expect_type(&fold.condition, &CelType::Bool);
        self.check(&mut fold.step);
        self.expect_type(&fold.step, &accumulated);
        self.scope.truncate(outer);
        self.check(&mut fold.result);
        self.scope.truncate(depth);
        self.known.resolve(&self.get(&fold.result), false)
    }

    fn expect_type(&mut self, expr: &Expr, wanted: &CelType) {
        let of = self.get(expr);
        if !self.known.is_assignable(wanted, &of) {
            let (wanted, of) = (
                self.known.resolve(wanted, false),
                self.known.resolve(&of, false),
            );
            self.report(
                expr.id,
                format!("expected type '{wanted}' but found '{of}'"),
            );
        }
    }
}

/// The qualified name `a.b.c`, if the expression consists of identifiers only.
pub(crate) fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        ExprKind::Ident(name) => Some(name.to_string()),
        ExprKind::Select {
            operand,
            field,
            test: false,
        } => Some(format!("{}.{field}", qualified_name(operand)?)),
        _ => None,
    }
}

fn literal_type(literal: &Literal) -> CelType {
    match literal {
        Literal::Null => CelType::Null,
        Literal::Bool(_) => CelType::Bool,
        Literal::Int(_) => CelType::Int,
        Literal::Uint(_) => CelType::Uint,
        Literal::Double(_) => CelType::Double,
        Literal::String(_) => CelType::String,
        Literal::Bytes(_) => CelType::Bytes,
    }
}

/// The types that expressions can name.
pub(crate) fn named_type(name: &str) -> Option<CelType> {
    Some(match name {
        "bool" => CelType::Bool,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "double" => CelType::Double,
        "string" => CelType::String,
        "bytes" => CelType::Bytes,
        "null_type" => CelType::Null,
        "list" => CelType::list(CelType::Dyn),
        "map" => CelType::map(CelType::Dyn, CelType::Dyn),
        "type" => CelType::type_of(CelType::Dyn),
        "dyn" => CelType::Dyn,
        "optional_type" => CelType::optional(CelType::Dyn),
        "google.protobuf.Timestamp" => CelType::Timestamp,
        "google.protobuf.Duration" => CelType::Duration,
        other => {
            let library = OpaqueType::ALL.iter().find(|of| of.name() == other)?;
            CelType::Opaque(*library)
        }
    })
}

fn signature(function: &str, given: &[CelType], is_member: bool) -> String {
    let list = |of: &[CelType]| {
        let texts: Vec<String> = of.iter().map(ToString::to_string).collect();
        texts.join(", ")
    };
    let shown = match given.split_first() {
        Some((target, rest)) if is_member => format!("{target}.({})", list(rest)),
        _ => format!("({})", list(given)),
    };
    format!("found no matching overload for '{function}' applied to '{shown}'")
}
