//! Compile-time checks of literals (upstream: `cel-go`'s AST validators).

use crate::issue::Issue;
use crate::library::{check_format, compile_regex};
use crate::parser::{Expr, ExprKind, Literal, MapEntry};
use crate::time::{CelTimestamp, parse_duration, parse_instant};
use crate::type_check::Checked;
use crate::types::CelType;

/// Reports literals that the functions they are passed to can never accept.
pub(crate) fn check_literals(source: &str, checked: &Checked) -> Vec<Issue> {
    let mut issues = Vec::new();
    visit(source, checked, &checked.tree.root, &mut issues);
    check_homogeneous(source, checked, &checked.tree.root, &mut issues);
    issues
}

/// Reports list and map literals with items of different types, except the argument list of
/// `format`.
fn check_homogeneous(source: &str, checked: &Checked, expr: &Expr, issues: &mut Vec<Issue>) {
    let mut complain = |expr: &Expr, wanted: &CelType, found: &CelType| {
        let text = format!("expected type '{wanted}' but found '{found}'");
        issues.push(Issue::at_offset(source, checked.tree.offset(expr.id), text));
    };
    match &expr.kind {
        ExprKind::Call { function, .. } if &**function == "format" => return,
        ExprKind::List { items, optional } => {
            let types = items.iter().enumerate().map(|(index, item)| {
                let of = checked.type_of(item);
                let inside = optional.contains(&index).then(|| of.unwrapped().0);
                (item, inside.unwrap_or(of))
            });
            let mut types = types;
            if let Some((_, wanted)) = types.next()
                && let Some((item, found)) = types.find(|(_, of)| !of.is_identical(wanted))
            {
                complain(item, wanted, found);
            }
        }
        ExprKind::Map(entries) => {
            let value_type = |entry: &'_ MapEntry| match entry.optional {
                true => checked.type_of(&entry.value).unwrapped().0.clone(),
                false => checked.type_of(&entry.value).clone(),
            };
            if let Some((first, rest)) = entries.split_first() {
                let (key, value) = (checked.type_of(&first.key), value_type(first));
                for entry in rest {
                    let found = checked.type_of(&entry.key);
                    if !found.is_identical(key) {
                        complain(&entry.key, key, found);
                    }
                    let found = value_type(entry);
                    if !found.is_identical(&value) {
                        complain(&entry.value, &value, &found);
                    }
                }
            }
        }
        _ => {}
    }
    expr.for_each_child(&mut |part| check_homogeneous(source, checked, part, issues));
}

fn visit(source: &str, checked: &Checked, expr: &Expr, issues: &mut Vec<Issue>) {
    if let ExprKind::Call {
        function,
        target,
        args,
    } = &expr.kind
    {
        let at = |id: u32, text: String| Issue::at_offset(source, checked.tree.offset(id), text);
        if let (None, [arg]) = (target, args.as_slice())
            && let ExprKind::Literal(literal) = &arg.kind
        {
            let good = match (&**function, literal) {
                ("duration", Literal::String(text)) => parse_duration(text).is_some(),
                ("timestamp", Literal::String(text)) => parse_instant(text).is_some(),
                ("timestamp", Literal::Int(seconds)) => CelTimestamp::new(*seconds, 0).is_some(),
                _ => true,
            };
            if !good {
                issues.push(at(arg.id, format!("invalid {function} argument")));
            }
        }
        if &**function == "matches"
            && let Some(arg) = args.last()
            && let ExprKind::Literal(Literal::String(regex)) = &arg.kind
            && compile_regex(regex).is_err()
        {
            issues.push(at(arg.id, "invalid matches argument".into()));
        }
        if &**function == "format"
            && let Some(target) = target
            && let ExprKind::Literal(Literal::String(format)) = &target.kind
            && let [
                Expr {
                    kind: ExprKind::List { items, .. },
                    ..
                },
            ] = args.as_slice()
        {
            let types: Vec<&CelType> = items.iter().map(|item| checked.type_of(item)).collect();
            if let Err((place, why)) = check_format(format, &types) {
                let id = place.map_or(expr.id, |place| items[place].id);
                issues.push(at(id, why));
            }
        }
    }
    expr.for_each_child(&mut |part| visit(source, checked, part, issues));
}
