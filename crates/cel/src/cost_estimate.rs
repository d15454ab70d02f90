//! Static cost estimation of CEL expressions: the cost at most, before an expression ever runs.
//!
//! CRDs and policies are accepted or rejected by these estimates, so they equal upstream's
//! (`cel-go`'s checker and Kubernetes' `CostEstimator`), with their quirks. [`crate::runtime_cost`]
//! counts the cost at run time.

use crate::decl_type::{DeclType, SchemaStep};
use crate::interval::{Interval, UNKNOWN};
use crate::macros;
use crate::overloads::Overload;
use crate::parser::{Comprehension, Expr, ExprKind, Literal};
use crate::runtime_cost::{
    LIST_COST, MAP_COST, OBJECT_COST, REGEX_FACTOR, SELECT_COST, TEXT_FACTOR,
};
use crate::type_check::Checked;
use crate::types::{CelType, OpaqueType};

/// Assumed length of the regular expression behind a named format; the estimator cannot see it.
const FORMAT_REGEX_CHARS: f64 = 128.0;
const FORMAT_CHARS_MAX: u64 = 64;
const CHECK_COST: u64 = 350_000;

/// Estimates the cost of an expression over a value of the type `root`.
pub(crate) fn estimate_cost(checked: &Checked, root: &DeclType) -> Interval {
    let count = checked.tree.count();
    let mut estimator = Estimator {
        checked,
        root,
        paths: vec![None; count],
        sizes: vec![None; count],
        entries: vec![None; count],
        locals: Vec::new(),
    };
    estimator.cost(&checked.tree.root)
}

/// The sizes of the keys and values of a list or a map.
#[derive(Clone, Copy, Debug)]
struct EntrySizes {
    is_list: bool,
    key: Interval,
    value: Interval,
}

impl EntrySizes {
    fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// The schema path of a value; `None` if the value does not come from the object itself.
type ValuePath = Option<Vec<SchemaStep>>;

struct Local {
    name: Box<str>,
    path: ValuePath,
    size: Option<Interval>,
    entries: Option<EntrySizes>,
}

struct Estimator<'e> {
    checked: &'e Checked,
    root: &'e DeclType,
    paths: Vec<ValuePath>,
    sizes: Vec<Option<Interval>>,
    entries: Vec<Option<EntrySizes>>,
    locals: Vec<Local>,
}

/// The cost of a call and the size of its result.
struct CallEstimate {
    cost: Interval,
    size: Option<Interval>,
}

impl CallEstimate {
    const fn costs(cost: Interval) -> Self {
        Self { cost, size: None }
    }
}

impl<'e> Estimator<'e> {
    fn cost(&mut self, expr: &'e Expr) -> Interval {
        let one = Interval::exactly(SELECT_COST);
        match &expr.kind {
            ExprKind::Literal(_) => Interval::default(),
            ExprKind::Ident(name) => {
                self.paths[expr.id as usize] = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => Some(Vec::new()),
                };
                one
            }
            ExprKind::Select {
                operand,
                field,
                test,
            } => {
                let cost = self.cost(operand);
                if *test {
                    return cost;
                }
                self.paths[expr.id as usize] = self.path(operand).map(|mut path| {
                    path.push(SchemaStep::Field(field.clone()));
                    path
                });
                match self.checked.type_of(operand) {
                    CelType::Map(_)
                    | CelType::Object(_)
                    | CelType::Opaque(_)
                    | CelType::TypeParam(_) => cost.plus(one),
                    _ => cost,
                }
            }
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { items, .. } => {
                let mut sum = Interval::default();
                let mut size = empty_size(items.is_empty());
                for item in items {
                    sum = sum.plus(self.cost(item));
                    size = size.union(self.size_or_unknown(item));
                }
                self.entries[expr.id as usize] = Some(EntrySizes {
                    is_list: true,
                    key: Interval::exactly(1),
                    value: size,
                });
                sum.plus(Interval::exactly(LIST_COST))
            }
            ExprKind::Map(entries) => {
                let mut sum = Interval::default();
                let mut key = empty_size(entries.is_empty());
                let mut value = key;
                for entry in entries {
                    sum = sum
                        .plus(self.cost(&entry.key))
                        .plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries[expr.id as usize] = Some(EntrySizes {
                    is_list: false,
                    key,
                    value,
                });
                sum.plus(Interval::exactly(MAP_COST))
            }
            ExprKind::Struct { fields, .. } => {
                let mut sum = Interval::default();
                for field in fields {
                    sum = sum.plus(self.cost(&field.value));
                }
                sum.plus(Interval::exactly(OBJECT_COST))
            }
            ExprKind::Comprehension(fold) if is_bind(fold) => self.bind(expr, fold),
            ExprKind::Comprehension(fold) => self.fold(expr, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }

    fn path(&self, expr: &Expr) -> ValuePath {
        if let ExprKind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[expr.id as usize].clone()
    }

    fn bind(&mut self, expr: &'e Expr, fold: &'e Comprehension) -> Interval {
        let sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_value(&fold.accumulator, &fold.init);
        let sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        self.sizes[expr.id as usize] = self.size(&fold.result);
        self.entries[expr.id as usize] = self.entries_of(&fold.result);
        sum
    }

    fn push_value(&mut self, name: &str, value: &Expr) {
        let local = Local {
            name: name.into(),
            path: self.path(value),
            size: self.size(value),
            entries: self.entries_of(value),
        };
        self.locals.push(local);
    }

    fn push_iterated(&mut self, name: &str, range: &Expr, what: IterVariable) {
        let entries = self.entries_of(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range), CelType::List(_)),
        };
        let keys = what == IterVariable::Key || (what == IterVariable::Only && !is_list);
        let step = match (keys, is_list) {
            (true, true) => SchemaStep::Indices,
            (true, false) => SchemaStep::Keys,
            (false, true) => SchemaStep::Items,
            (false, false) => SchemaStep::Values,
        };
        let path = self.path(range).map(|mut path| {
            path.push(step);
            path
        });
        let size = entries.map(|entries| if keys { entries.key } else { entries.value });
        self.locals.push(Local {
            name: name.into(),
            path,
            size,
            entries: None,
        });
    }

    fn fold(&mut self, expr: &'e Expr, fold: &'e Comprehension) -> Interval {
        let sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_value(&fold.accumulator, &fold.init);
        match &fold.second {
            Some(second) => {
                self.push_iterated(&fold.variable, &fold.range, IterVariable::Key);
                self.push_iterated(second, &fold.range, IterVariable::Value);
            }
            None => self.push_iterated(&fold.variable, &fold.range, IterVariable::Only),
        }
        let each = self.cost(&fold.condition).plus(self.cost(&fold.step));
        self.locals.pop();
        if fold.second.is_some() {
            self.locals.pop();
        }
        let sum = sum.plus(self.cost(&fold.result));
        self.locals.pop();
        let times = self.size_or_unknown(&fold.range);
        let at = expr.id as usize;
        match &fold.init.kind {
            ExprKind::Literal(_) => self.sizes[at] = self.size(&fold.init),
            ExprKind::List { .. } | ExprKind::Map(_) => {
                self.sizes[at] = Some(times);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries[at] = Some(entries);
                }
            }
            _ => {}
        }
        sum.plus(times.times(each))
    }

    fn entries_of(&self, expr: &Expr) -> Option<EntrySizes> {
        if let Some(entries) = self.entries[expr.id as usize] {
            return Some(entries);
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn size(&mut self, expr: &Expr) -> Option<Interval> {
        if let Some(size) = self.sizes[expr.id as usize] {
            return Some(size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Interval::exactly(size));
        }
        if let Some(size) = self.declared_size(self.path(expr)) {
            self.sizes[expr.id as usize] = Some(size);
            return Some(size);
        }
        if self.checked.type_of(expr).unwrapped().0.is_scalar() {
            return Some(Interval::exactly(1));
        }
        match &expr.kind {
            ExprKind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn declared_size(&self, path: ValuePath) -> Option<Interval> {
        Some(Interval::up_to(self.root.size_at(&path?)?))
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Interval {
        self.size(expr).unwrap_or(UNKNOWN)
    }

    /// The size of the items of a list; `None` if the expression is not a list.
    fn item(&self, list: &Expr) -> Option<(CelType, Interval)> {
        let CelType::List(of) = self.checked.type_of(list) else {
            return None;
        };
        let path = self.path(list).map(|mut path| {
            path.push(SchemaStep::Items);
            path
        });
        let size = self.declared_size(path).unwrap_or(UNKNOWN);
        Some(((**of).clone(), size))
    }

    fn call(&mut self, expr: &'e Expr) -> Interval {
        let ExprKind::Call {
            function,
            target,
            args,
        } = &expr.kind
        else {
            return Interval::default();
        };
        let at = expr.id as usize;
        if &**function == "dyn"
            && let [arg] = args.as_slice()
        {
            let cost = self.cost(arg);
            self.sizes[at] = self.size(arg);
            self.entries[at] = self.entries_of(arg);
            return cost.plus(Interval::exactly(1));
        }
        let costs: Vec<Interval> = args.iter().map(|arg| self.cost(arg)).collect();
        let overloads = self.checked.overloads(expr);
        if overloads.is_empty() {
            // The optional selection `a.?b` has no overload.
            return Interval::default();
        }
        let target_cost = target.as_ref().map(|target| self.cost(target));
        let mut cost = Interval {
            min: u64::MAX,
            max: 0,
        };
        let mut size: Option<Interval> = None;
        for overload in overloads {
            let call = self.call_by(expr, function, overload, target.as_deref(), args, &costs);
            cost = cost.union(call.cost);
            size = match (size, call.size) {
                (Some(a), Some(b)) => Some(a.union(b)),
                (a, b) => a.or(b),
            };
            if let (true, Some(list)) = (overload.id.starts_with("index_"), args.first()) {
                size = self.entries_of(list).map(|entries| entries.value);
                let step = match overload.id.as_str() {
                    "index_list" => SchemaStep::Items,
                    _ => SchemaStep::Values,
                };
                self.paths[at] = self.path(list).map(|mut path| {
                    path.push(step);
                    path
                });
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if size.is_some() {
            self.sizes[at] = size;
        }
        target_cost.unwrap_or_default().plus(cost)
    }

    fn call_by(
        &mut self,
        expr: &'e Expr,
        function: &str,
        overload: &Overload,
        target: Option<&'e Expr>,
        args: &'e [Expr],
        costs: &[Interval],
    ) -> CallEstimate {
        let sum = costs.iter().fold(Interval::default(), |a, b| a.plus(*b));
        let by_library = self
            .collection_call(overload, target, args)
            .or_else(|| self.kubernetes_call(function, overload, target, args));
        if let Some(mut call) = by_library {
            call.cost = call.cost.plus(sum);
            return call;
        }
        self.standard_call(expr, overload, target, args, costs, sum)
    }

    /// Cost of functions on lists and sets that allocate.
    fn collection_call(
        &mut self,
        overload: &Overload,
        target: Option<&'e Expr>,
        args: &'e [Expr],
    ) -> Option<CallEstimate> {
        let id = overload.id.as_str();
        let allocating = |size: Interval, factor: f64| {
            let cost = size.scaled(factor).plus(Interval::exactly(1 + LIST_COST));
            Some(CallEstimate {
                cost,
                size: Some(size),
            })
        };
        match (id, target, args) {
            ("list_slice", Some(target), [start, end]) => {
                let size = self.size_or_unknown(target);
                let (start, end) = (int_literal(start, 0), int_literal(end, size.max));
                allocating(Interval::exactly(end.wrapping_sub(start)), 1.0)
            }
            ("lists_range", None, [count]) => {
                allocating(Interval::exactly(int_literal(count, u64::MAX)), 1.0)
            }
            ("list_reverse", Some(target), []) => allocating(self.size_or_unknown(target), 1.0),
            ("list_flatten" | "list_flatten_int", Some(target), args) => {
                let depth = args.first().map_or(1, |arg| int_literal(arg, u64::MAX));
                allocating(self.size_or_unknown(target), depth as f64)
            }
            ("list_distinct", Some(target), []) => {
                let size = self.size_or_unknown(target);
                allocating(size.times(size), 2.0)
            }
            (_, Some(target), args)
                if id.ends_with("_sort") || id.ends_with("_sortByAssociatedKeys") =>
            {
                let size = self.size_or_unknown(args.first().unwrap_or(target));
                let text = id.starts_with("list_string") || id.starts_with("list_bytes");
                let factor = if text { 2.0 + TEXT_FACTOR } else { 2.0 };
                allocating(size.times(size), factor)
            }
            (_, None, [a, b]) if id.starts_with("list_sets_") => {
                let factor = if id.contains("equivalent") { 2.0 } else { 1.0 };
                let size = self.size_or_unknown(a).times(self.size_or_unknown(b));
                Some(CallEstimate::costs(
                    size.scaled(factor).plus(Interval::exactly(1)),
                ))
            }
            _ => None,
        }
    }

    /// Cost of functions that Kubernetes adds to CEL, or costs differently from `cel-go`.
    fn kubernetes_call(
        &mut self,
        function: &str,
        overload: &Overload,
        target: Option<&'e Expr>,
        args: &'e [Expr],
    ) -> Option<CallEstimate> {
        let one = CallEstimate::costs(Interval::exactly(1));
        let first = target.or(args.first());
        Some(match function {
            "check" => CallEstimate::costs(Interval::exactly(CHECK_COST)),
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace"
            | "name" | "allowed" | "reason" | "error" | "errored" => one,
            "fieldSelector" | "labelSelector" => {
                let size = self.size_or_unknown(args.first()?);
                let parts = size.scaled(0.5).scaled(f64::from(
                    u32::try_from(LIST_COST + OBJECT_COST).unwrap_or(50),
                ));
                let cost = Interval::exactly(LIST_COST).plus(size.scaled(TEXT_FACTOR));
                CallEstimate::costs(cost.plus(parts))
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = target?;
                let size = self.size_or_unknown(target);
                match self.item(target) {
                    Some((of, item)) => {
                        let mut each = Interval::exactly(1);
                        if matches!(of, CelType::String | CelType::Bytes) {
                            each = each.plus(item.scaled(TEXT_FACTOR));
                        }
                        CallEstimate::costs(size.times(each))
                    }
                    None => CallEstimate::costs(size.scaled(TEXT_FACTOR)),
                }
            }
            "url" | "jsonpatch.escapeKey" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = self.size_or_unknown(first?);
                CallEstimate {
                    cost: size.scaled(TEXT_FACTOR),
                    size: Some(size),
                }
            }
            "replace" => self.replace(target?, args)?,
            "split" => {
                let size = self.size_or_unknown(target?);
                let most = args.get(1).and_then(|arg| match arg.kind {
                    ExprKind::Literal(Literal::Int(number)) => Some(number as u64),
                    _ => None,
                });
                CallEstimate {
                    cost: size.scaled(2.0 * TEXT_FACTOR),
                    size: Some(Interval::up_to(most.unwrap_or(size.max))),
                }
            }
            "join" => self.join(target?, args),
            "find" | "findAll" => {
                let size = self.size_or_unknown(target?);
                let regex = self.size_or_unknown(args.first()?).scaled(REGEX_FACTOR);
                let text = size.plus(Interval::exactly(1)).scaled(TEXT_FACTOR);
                CallEstimate {
                    cost: text.times(regex),
                    size: Some(Interval::up_to(size.max)),
                }
            }
            "ip" if overload.id == "cidr_ip" => one,
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver"
            | "isSemver" => {
                CallEstimate::costs(self.size_or_unknown(args.first()?).scaled(TEXT_FACTOR))
            }
            "ip.isCanonical" => {
                let size = self.size_or_unknown(args.first()?);
                CallEstimate::costs(size.scaled(2.0 * TEXT_FACTOR))
            }
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => one,
            "containsIP" | "containsCIDR" => {
                let address = Interval { min: 4, max: 16 };
                let mut cost = address.plus(address).scaled(TEXT_FACTOR);
                if function == "containsCIDR" {
                    cost = cost
                        .plus(address.scaled(TEXT_FACTOR))
                        .plus(Interval::exactly(1));
                }
                if overload.id.ends_with("_string") {
                    let size = self.size_or_unknown(args.first()?);
                    cost = cost.plus(size.scaled(TEXT_FACTOR));
                }
                CallEstimate::costs(cost)
            }
            "validate" => {
                let size = self.size_or_unknown(args.first()?).scaled(TEXT_FACTOR);
                CallEstimate::costs(size.scaled(FORMAT_REGEX_CHARS * REGEX_FACTOR))
            }
            macros::EQUALS => return self.equal_libraries(args),
            _ => return None,
        })
    }

    fn equal_libraries(&mut self, args: &[Expr]) -> Option<CallEstimate> {
        let [a, b] = args else { return None };
        let (CelType::Opaque(a_type), CelType::Opaque(b_type)) =
            (self.checked.type_of(a), self.checked.type_of(b))
        else {
            return None;
        };
        if a_type != b_type {
            return None;
        }
        let cost = match a_type {
            OpaqueType::Format => Interval {
                min: 1,
                max: FORMAT_CHARS_MAX,
            }
            .scaled(TEXT_FACTOR),
            OpaqueType::Url => {
                let max = self.size(b).map_or(1, |size| size.max);
                Interval { min: 1, max }.scaled(TEXT_FACTOR)
            }
            _ => Interval::exactly(1),
        };
        Some(CallEstimate::costs(cost))
    }

    fn replace(&mut self, target: &Expr, args: &[Expr]) -> Option<CallEstimate> {
        let [from, to, ..] = args else { return None };
        let size = self.size_or_unknown(target);
        let (from, to) = (self.size_or_unknown(from), self.size_or_unknown(to));
        let (mut count, mut kept) = (Interval::default(), Interval::default());
        if from.min == 0 {
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if to.max <= from.min {
            kept.max = size.max;
        } else {
            count.max = size.max.div_ceil(from.min);
        }
        if from.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if from.max <= to.min {
            kept.min = size.min;
        } else {
            count.min = size.min.div_ceil(from.max);
        }
        Some(CallEstimate {
            cost: size.scaled(2.0 * TEXT_FACTOR),
            size: Some(count.times(to).plus(kept)),
        })
    }

    fn join(&mut self, target: &Expr, args: &[Expr]) -> CallEstimate {
        let list = self.size_or_unknown(target);
        let mut size = match self.item(target) {
            Some((_, item)) => list.times(item),
            None => Interval::default(),
        };
        if let Some(separator) = args.first() {
            let between = Interval {
                min: list.min.saturating_sub(1),
                max: list.max.saturating_sub(1),
            };
            size = size.plus(self.size_or_unknown(separator).times(between));
        }
        CallEstimate {
            cost: size.scaled(TEXT_FACTOR),
            size: Some(size),
        }
    }

    /// Cost of the standard functions of CEL.
    fn standard_call(
        &mut self,
        expr: &Expr,
        overload: &Overload,
        target: Option<&Expr>,
        args: &[Expr],
        costs: &[Interval],
        sum: Interval,
    ) -> CallEstimate {
        let at = expr.id as usize;
        match (overload.id.as_str(), target, args) {
            ("string_format", Some(target), _) => {
                CallEstimate::costs(self.size_or_unknown(target).scaled(TEXT_FACTOR).plus(sum))
            }
            ("string_to_bytes", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                CallEstimate {
                    cost: size.scaled(TEXT_FACTOR).plus(sum),
                    size: Some(Interval {
                        min: size.min,
                        max: size.max.wrapping_mul(4),
                    }),
                }
            }
            ("bytes_to_string", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                CallEstimate {
                    cost: size.scaled(TEXT_FACTOR).plus(sum),
                    size: Some(Interval {
                        min: size.min / 4,
                        max: size.max,
                    }),
                }
            }
            ("strings_quote", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                CallEstimate {
                    cost: size.scaled(TEXT_FACTOR).plus(sum),
                    size: Some(Interval {
                        min: size.min.wrapping_add(2),
                        max: size.max.wrapping_mul(2).wrapping_add(2),
                    }),
                }
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => {
                CallEstimate::costs(self.size_or_unknown(arg).scaled(TEXT_FACTOR).plus(sum))
            }
            ("in_list", _, [_, list]) => CallEstimate::costs(self.size_or_unknown(list).plus(sum)),
            ("matches_string", Some(target), [regex]) => {
                let text = self.size_or_unknown(target).plus(Interval::exactly(1));
                let regex = self.size_or_unknown(regex).scaled(REGEX_FACTOR);
                CallEstimate::costs(text.scaled(TEXT_FACTOR).times(regex).plus(sum))
            }
            ("contains_string", Some(target), [part]) => {
                let text = self.size_or_unknown(target).scaled(TEXT_FACTOR);
                let part = self.size_or_unknown(part).scaled(TEXT_FACTOR);
                CallEstimate::costs(text.times(part).plus(sum))
            }
            ("logical_and" | "logical_or", _, [..]) if costs.len() == 2 => {
                CallEstimate::costs(Interval {
                    min: costs[0].min,
                    max: costs[0].plus(costs[1]).max,
                })
            }
            ("conditional", _, [_, yes, no]) if costs.len() == 3 => {
                let size = self.size_or_unknown(yes).union(self.size_or_unknown(no));
                if let (Some(yes), Some(no)) = (self.entries_of(yes), self.entries_of(no)) {
                    self.entries[at] = Some(yes.union(no));
                }
                CallEstimate {
                    cost: costs[0].plus(costs[1].union(costs[2])),
                    size: Some(size),
                }
            }
            ("add_string" | "add_bytes" | "add_list", _, [a, b]) => {
                let size = self.size_or_unknown(a).plus(self.size_or_unknown(b));
                if let (Some(a), Some(b)) = (self.entries_of(a), self.entries_of(b)) {
                    self.entries[at] = Some(a.union(b));
                }
                let cost = match overload.id.as_str() {
                    "add_list" => Interval::exactly(1),
                    _ => size.scaled(TEXT_FACTOR),
                };
                CallEstimate {
                    cost: cost.plus(sum),
                    size: Some(size),
                }
            }
            (id, _, [a, b]) if is_deep_comparison(id) => {
                let most = self.size_or_unknown(a).max.min(self.size_or_unknown(b).max);
                let cost = Interval {
                    min: u64::from(most > 0),
                    max: most,
                };
                CallEstimate::costs(cost.scaled(TEXT_FACTOR).plus(sum))
            }
            _ => CallEstimate::costs(Interval::exactly(1).plus(sum)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IterVariable {
    Key,
    Value,
    /// The variable of a one-variable macro: items of lists, keys of maps.
    Only,
}

/// Whether a comparison overload traverses its operands completely.
pub(crate) fn is_deep_comparison(id: &str) -> bool {
    matches!(id, "equals" | "not_equals")
        || (["less", "greater"].iter().any(|word| id.starts_with(word))
            && (id.ends_with("_string") || id.ends_with("_bytes")))
}

/// Whether a comprehension is `cel.bind`, which names a value and does not loop.
pub(crate) fn is_bind(fold: &Comprehension) -> bool {
    matches!(&fold.range.kind, ExprKind::List { items, .. } if items.is_empty())
        && matches!(fold.condition.kind, ExprKind::Literal(Literal::Bool(false)))
}

/// The interval that is neutral in a union of sizes; zero if the container is empty.
const fn empty_size(empty: bool) -> Interval {
    Interval {
        min: if empty { 0 } else { u64::MAX },
        max: 0,
    }
}

fn literal_size(expr: &Expr) -> Option<u64> {
    let count = match &expr.kind {
        ExprKind::Literal(Literal::String(text)) => text.chars().count(),
        ExprKind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        ExprKind::Literal(_) => 1,
        ExprKind::List { items, .. } => items.len(),
        ExprKind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(count as u64)
}

fn int_literal(expr: &Expr, otherwise: u64) -> u64 {
    match expr.kind {
        ExprKind::Literal(Literal::Int(number)) => u64::try_from(number).unwrap_or(0),
        _ => otherwise,
    }
}
