//! Macro expansion: `has`, `all`, `exists`, `map`, `filter` and the macros of Kubernetes.
//!
//! The expansions are those of `cel-go`, because types and costs follow from them.

use crate::parser::{AstBuilder, Comprehension, Expr, ExprKind, Literal};

pub(crate) const ACCUMULATOR: &str = "@result";
const OLD_ACCUMULATOR: &str = "__result__";
pub(crate) const UNUSED: &str = "#unused";

pub(crate) const AND: &str = "_&&_";
pub(crate) const OR: &str = "_||_";
pub(crate) const NOT: &str = "!_";
pub(crate) const CONDITIONAL: &str = "_?_:_";
pub(crate) const ADD: &str = "_+_";
pub(crate) const EQUALS: &str = "_==_";
pub(crate) const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
pub(crate) const OPT_SELECT: &str = "_?._";
pub(crate) const MAP_INSERT: &str = "cel.@mapInsert";
pub(crate) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";

/// Expands a call if a macro has this name; otherwise returns the call.
pub(crate) fn expand(
    builder: &mut AstBuilder<'_>,
    place: u32,
    function: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Expr {
    let mut expansion = MacroExpander { builder, place };
    match (function, target, args.len()) {
        ("has", None, 1) => expansion.has(args),
        ("all", Some(range), 2 | 3) => expansion.quantifier(range, args, Quantifier::All),
        ("exists", Some(range), 2 | 3) => expansion.quantifier(range, args, Quantifier::Exists),
        ("exists_one", Some(range), 2 | 3) | ("existsOne", Some(range), 3) => {
            expansion.quantifier(range, args, Quantifier::ExistsOne)
        }
        ("map", Some(range), 2 | 3) => expansion.map(range, args),
        ("filter", Some(range), 2) => expansion.filter(range, args),
        ("transformList", Some(range), 3 | 4) => {
            expansion.transform(range, args, TransformTarget::List)
        }
        ("transformMap", Some(range), 3 | 4) => {
            expansion.transform(range, args, TransformTarget::Map)
        }
        ("transformMapEntry", Some(range), 3 | 4) => {
            expansion.transform(range, args, TransformTarget::Entries)
        }
        ("optMap", Some(target), 2) => expansion.opt_map(target, args, true),
        ("optFlatMap", Some(target), 2) => expansion.opt_map(target, args, false),
        ("sortBy", Some(target), 2) => expansion.sort_by(target, args),
        (_, target, _) => expansion.builder.expr_at(
            place,
            ExprKind::Call {
                function: function.into(),
                target: target.map(Box::new),
                args,
            },
        ),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    All,
    Exists,
    ExistsOne,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransformTarget {
    List,
    Map,
    Entries,
}

/// The variable names (one or two) of a macro call, and the remaining arguments.
type MacroVariables = (Box<str>, Option<Box<str>>, Vec<Expr>);

struct MacroExpander<'b, 'a> {
    builder: &'b mut AstBuilder<'a>,
    place: u32,
}

impl MacroExpander<'_, '_> {
    fn new_expr(&mut self, kind: ExprKind) -> Expr {
        self.builder.expr_at(self.place, kind)
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.new_expr(ExprKind::Ident(name.into()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.new_expr(ExprKind::Literal(literal))
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.new_expr(ExprKind::Call {
            function: function.into(),
            target: None,
            args,
        })
    }

    fn member(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.new_expr(ExprKind::Call {
            function: function.into(),
            target: Some(Box::new(target)),
            args,
        })
    }

    fn list(&mut self, items: Vec<Expr>) -> Expr {
        self.new_expr(ExprKind::List {
            items,
            optional: Vec::new(),
        })
    }

    fn fail(&mut self, at: &Expr, text: impl std::convert::Into<String>) -> Expr {
        let place = self.builder.offset(at);
        self.builder.report(place, text);
        self.literal(Literal::Null)
    }

    fn has(&mut self, mut args: Vec<Expr>) -> Expr {
        let Some(arg) = args.pop() else {
            return self.literal(Literal::Null);
        };
        match arg.kind {
            ExprKind::Select { operand, field, .. } => self.new_expr(ExprKind::Select {
                operand,
                field,
                test: true,
            }),
            _ => self.fail(&arg, "invalid argument to has() macro"),
        }
    }

    /// Reads the name of an iteration variable; otherwise reports `otherwise`.
    fn variable(&mut self, expr: &Expr, otherwise: &str) -> Result<Box<str>, Expr> {
        match &expr.kind {
            ExprKind::Ident(name) if matches!(&**name, ACCUMULATOR | OLD_ACCUMULATOR) => {
                let text = "iteration variable overwrites accumulator variable";
                Err(self.fail(expr, text))
            }
            ExprKind::Ident(name) => Ok(name.clone()),
            _ => Err(self.fail(expr, otherwise)),
        }
    }

    /// Reads one or two iteration variables; returns them with the remaining arguments.
    fn variables(
        &mut self,
        args: Vec<Expr>,
        count: usize,
        otherwise: &str,
    ) -> Result<MacroVariables, Expr> {
        let mut args = args.into_iter();
        let mut names = Vec::new();
        for arg in args.by_ref().take(count) {
            let name = self.variable(&arg, otherwise)?;
            if names.contains(&name) {
                return Err(self.fail(&arg, format!("duplicate variable name: {name}")));
            }
            names.push(name);
        }
        let second = (names.len() > 1).then(|| names.pop()).flatten();
        let first = names.pop().unwrap_or_default();
        Ok((first, second, args.collect()))
    }

    fn quantifier(&mut self, range: Expr, args: Vec<Expr>, kind: Quantifier) -> Expr {
        let names = args.len() - 1;
        let name = "argument must be a simple name";
        let (variable, second, mut rest) = match self.variables(args, names, name) {
            Ok(found) => found,
            Err(failed) => return failed,
        };
        let test = rest.remove(0);
        let (init, condition, step, result);
        match kind {
            Quantifier::All | Quantifier::Exists => {
                let all = kind == Quantifier::All;
                init = self.literal(Literal::Bool(all));
                let mut go_on = self.accumulator();
                if !all {
                    go_on = self.call(NOT, vec![go_on]);
                }
                condition = self.call(NOT_STRICTLY_FALSE, vec![go_on]);
                let so_far = self.accumulator();
                step = self.call(if all { AND } else { OR }, vec![so_far, test]);
                result = self.accumulator();
            }
            Quantifier::ExistsOne => {
                init = self.literal(Literal::Int(0));
                condition = self.literal(Literal::Bool(true));
                let (so_far, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                let more = self.call(ADD, vec![so_far, one]);
                let same = self.accumulator();
                step = self.call(CONDITIONAL, vec![test, more, same]);
                let (so_far, one) = (self.accumulator(), self.literal(Literal::Int(1)));
                result = self.call(EQUALS, vec![so_far, one]);
            }
        }
        self.fold(range, variable, second, [init, condition, step, result])
    }

    fn fold(
        &mut self,
        range: Expr,
        variable: Box<str>,
        second: Option<Box<str>>,
        parts: [Expr; 4],
    ) -> Expr {
        let [init, condition, step, result] = parts;
        self.new_expr(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable,
            second,
            accumulator: ACCUMULATOR.into(),
            init,
            condition,
            step,
            result,
        })))
    }

    fn map(&mut self, range: Expr, args: Vec<Expr>) -> Expr {
        let name = "argument is not an identifier";
        let (variable, _, mut rest) = match self.variables(args, 1, name) {
            Ok(found) => found,
            Err(failed) => return failed,
        };
        let made = rest.pop();
        let Some(made) = made else {
            return self.literal(Literal::Null);
        };
        let step = self.append(made, rest.pop());
        self.collect(range, variable, None, step)
    }

    fn filter(&mut self, range: Expr, args: Vec<Expr>) -> Expr {
        let name = "argument is not an identifier";
        let (variable, _, mut rest) = match self.variables(args, 1, name) {
            Ok(found) => found,
            Err(failed) => return failed,
        };
        let item = self.ident(&variable);
        let step = self.append(item, rest.pop());
        self.collect(range, variable, None, step)
    }

    /// Builds `@result + [item]`, guarded by a condition if one is given.
    fn append(&mut self, item: Expr, only_if: Option<Expr>) -> Expr {
        let (so_far, item) = (self.accumulator(), self.list(vec![item]));
        let step = self.call(ADD, vec![so_far, item]);
        self.only_if(step, only_if)
    }

    fn only_if(&mut self, step: Expr, only_if: Option<Expr>) -> Expr {
        match only_if {
            Some(test) => {
                let same = self.accumulator();
                self.call(CONDITIONAL, vec![test, step, same])
            }
            None => step,
        }
    }

    fn collect(
        &mut self,
        range: Expr,
        variable: Box<str>,
        second: Option<Box<str>>,
        step: Expr,
    ) -> Expr {
        let init = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(true));
        let result = self.accumulator();
        self.fold(range, variable, second, [init, condition, step, result])
    }

    fn transform(&mut self, range: Expr, args: Vec<Expr>, into: TransformTarget) -> Expr {
        let name = "argument must be a simple name";
        let (variable, second, mut rest) = match self.variables(args, 2, name) {
            Ok(found) => found,
            Err(failed) => return failed,
        };
        let Some(made) = rest.pop() else {
            return self.literal(Literal::Null);
        };
        let only_if = rest.pop();
        if into == TransformTarget::List {
            let step = self.append(made, only_if);
            return self.collect(range, variable, second, step);
        }
        let mut args = vec![self.accumulator()];
        if into == TransformTarget::Map {
            args.push(self.ident(&variable));
        }
        args.push(made);
        let step = self.call(MAP_INSERT, args);
        let step = self.only_if(step, only_if);
        let init = self.new_expr(ExprKind::Map(Vec::new()));
        let condition = self.literal(Literal::Bool(true));
        let result = self.accumulator();
        self.fold(range, variable, second, [init, condition, step, result])
    }

    /// Builds a comprehension that binds a name to a value inside an expression.
    fn bind(&mut self, name: &str, value: Expr, inside: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(name);
        self.new_expr(ExprKind::Comprehension(Box::new(Comprehension {
            range,
            variable: UNUSED.into(),
            second: None,
            accumulator: name.into(),
            init: value,
            condition,
            step,
            result: inside,
        })))
    }

    fn opt_map(&mut self, target: Expr, mut args: Vec<Expr>, wrap: bool) -> Expr {
        let (Some(inside), Some(name)) = (args.pop(), args.pop()) else {
            return self.literal(Literal::Null);
        };
        let ExprKind::Ident(name) = &name.kind else {
            let function = if wrap { "optMap" } else { "optFlatMap" };
            let text = format!("{function}() variable name must be a simple identifier");
            return self.fail(&name, text);
        };
        let again = self.builder.copy(&target);
        let test = self.member("hasValue", target, Vec::new());
        let value = self.member("value", again, Vec::new());
        let mut made = self.bind(name, value, inside);
        if wrap {
            made = self.call("optional.of", vec![made]);
        }
        let none = self.call("optional.none", Vec::new());
        self.call(CONDITIONAL, vec![test, made, none])
    }

    fn sort_by(&mut self, target: Expr, args: Vec<Expr>) -> Expr {
        const INPUT: &str = "@__sortBy_input__";
        if matches!(
            target.kind,
            ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct { .. }
        ) {
            let text = "sortBy can only be applied to a list, identifier, comprehension, call or \
                        select expression";
            return self.fail(&target, text);
        }
        let range = self.ident(INPUT);
        let keys = self.map(range, args);
        let input = self.ident(INPUT);
        let sorted = self.member(SORT_BY_KEYS, input, vec![keys]);
        self.bind(INPUT, target, sorted)
    }
}
