//! What an expression can cost at most, before it ever runs.
//!
//! Definitions are accepted or refused by these numbers, so they are upstream's, with
//! their quirks. [`crate::spend`] counts what is really spent.

use crate::check::Checked;
use crate::macros;
use crate::overloads::Overload;
use crate::range::{Range, UNKNOWN};
use crate::shape::{Shape, Step};
use crate::spend::{LIST_COST, MAP_COST, OBJECT_COST, REGEX_FACTOR, SELECT_COST, TEXT_FACTOR};
use crate::syntax::{Expr, Fold, Kind, Literal};
use crate::types::{Library, Type};

/// The regular expressions of formats are not seen; they are taken to be this long.
const FORMAT_REGEX_CHARS: f64 = 128.0;
const FORMAT_CHARS_MAX: u64 = 64;
const CHECK_COST: u64 = 350_000;

/// What an expression about a value of that shape costs.
pub(crate) fn estimate(checked: &Checked, root: &Shape) -> Range {
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

/// The sizes of the keys and the values of a list or a map.
#[derive(Clone, Copy, Debug)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

/// Where a value comes from: `None` if not from the object itself.
type Path = Option<Vec<Step>>;

struct Local {
    name: Box<str>,
    path: Path,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'e> {
    checked: &'e Checked,
    root: &'e Shape,
    paths: Vec<Path>,
    sizes: Vec<Option<Range>>,
    entries: Vec<Option<Entries>>,
    locals: Vec<Local>,
}

/// What a call costs, and how large its result is.
struct Call {
    cost: Range,
    size: Option<Range>,
}

impl Call {
    const fn costs(cost: Range) -> Self {
        Self { cost, size: None }
    }
}

impl<'e> Estimator<'e> {
    fn cost(&mut self, expr: &'e Expr) -> Range {
        let one = Range::exactly(SELECT_COST);
        match &expr.kind {
            Kind::Literal(_) => Range::default(),
            Kind::Ident(name) => {
                self.paths[expr.id as usize] = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => Some(Vec::new()),
                };
                one
            }
            Kind::Select {
                operand,
                field,
                test,
            } => {
                let cost = self.cost(operand);
                if *test {
                    return cost;
                }
                self.paths[expr.id as usize] = self.path(operand).map(|mut path| {
                    path.push(Step::Field(field.clone()));
                    path
                });
                match self.checked.type_of(operand) {
                    Type::Map(_) | Type::Object(_) | Type::Library(_) | Type::Free(_) => {
                        cost.plus(one)
                    }
                    _ => cost,
                }
            }
            Kind::Call { .. } => self.call(expr),
            Kind::List { items, .. } => {
                let mut sum = Range::default();
                let mut size = nothing_yet(items.is_empty());
                for item in items {
                    sum = sum.plus(self.cost(item));
                    size = size.union(self.size_or_unknown(item));
                }
                self.entries[expr.id as usize] = Some(Entries {
                    is_list: true,
                    key: Range::exactly(1),
                    value: size,
                });
                sum.plus(Range::exactly(LIST_COST))
            }
            Kind::Map(entries) => {
                let mut sum = Range::default();
                let mut key = nothing_yet(entries.is_empty());
                let mut value = key;
                for entry in entries {
                    sum = sum
                        .plus(self.cost(&entry.key))
                        .plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries[expr.id as usize] = Some(Entries {
                    is_list: false,
                    key,
                    value,
                });
                sum.plus(Range::exactly(MAP_COST))
            }
            Kind::Struct { fields, .. } => {
                let mut sum = Range::default();
                for field in fields {
                    sum = sum.plus(self.cost(&field.value));
                }
                sum.plus(Range::exactly(OBJECT_COST))
            }
            Kind::Fold(fold) if is_bind(fold) => self.bind(expr, fold),
            Kind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| *local.name == *name)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths[expr.id as usize].clone()
    }

    fn bind(&mut self, expr: &'e Expr, fold: &'e Fold) -> Range {
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

    fn push_iterated(&mut self, name: &str, range: &Expr, what: What) {
        let entries = self.entries_of(range);
        let is_list = match entries {
            Some(entries) => entries.is_list,
            None => matches!(self.checked.type_of(range), Type::List(_)),
        };
        let keys = what == What::Key || (what == What::Only && !is_list);
        let step = match (keys, is_list) {
            (true, true) => Step::Indices,
            (true, false) => Step::Keys,
            (false, true) => Step::Items,
            (false, false) => Step::Values,
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

    fn fold(&mut self, expr: &'e Expr, fold: &'e Fold) -> Range {
        let sum = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_value(&fold.accumulator, &fold.init);
        match &fold.second {
            Some(second) => {
                self.push_iterated(&fold.variable, &fold.range, What::Key);
                self.push_iterated(second, &fold.range, What::Value);
            }
            None => self.push_iterated(&fold.variable, &fold.range, What::Only),
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
            Kind::Literal(_) => self.sizes[at] = self.size(&fold.init),
            Kind::List { .. } | Kind::Map(_) => {
                self.sizes[at] = Some(times);
                if let Some(entries) = self.entries_of(&fold.step) {
                    self.entries[at] = Some(entries);
                }
            }
            _ => {}
        }
        sum.plus(times.times(each))
    }

    fn entries_of(&self, expr: &Expr) -> Option<Entries> {
        if let Some(entries) = self.entries[expr.id as usize] {
            return Some(entries);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes[expr.id as usize] {
            return Some(size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Range::exactly(size));
        }
        if let Some(size) = self.declared_size(self.path(expr)) {
            self.sizes[expr.id as usize] = Some(size);
            return Some(size);
        }
        if self.checked.type_of(expr).unwrapped().0.is_scalar() {
            return Some(Range::exactly(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn declared_size(&self, path: Path) -> Option<Range> {
        Some(Range::up_to(self.root.size_at(&path?)?))
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(UNKNOWN)
    }

    /// The size of the items of a list; `None` if it is no list.
    fn item(&self, list: &Expr) -> Option<(Type, Range)> {
        let Type::List(of) = self.checked.type_of(list) else {
            return None;
        };
        let path = self.path(list).map(|mut path| {
            path.push(Step::Items);
            path
        });
        let size = self.declared_size(path).unwrap_or(UNKNOWN);
        Some(((**of).clone(), size))
    }

    fn call(&mut self, expr: &'e Expr) -> Range {
        let Kind::Call {
            function,
            target,
            args,
        } = &expr.kind
        else {
            return Range::default();
        };
        let at = expr.id as usize;
        if &**function == "dyn"
            && let [arg] = args.as_slice()
        {
            let cost = self.cost(arg);
            self.sizes[at] = self.size(arg);
            self.entries[at] = self.entries_of(arg);
            return cost.plus(Range::exactly(1));
        }
        let costs: Vec<Range> = args.iter().map(|arg| self.cost(arg)).collect();
        let overloads = self.checked.overloads(expr);
        if overloads.is_empty() {
            // `a.?b` has none.
            return Range::default();
        }
        let target_cost = target.as_ref().map(|target| self.cost(target));
        let mut cost = Range {
            min: u64::MAX,
            max: 0,
        };
        let mut size: Option<Range> = None;
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
                    "index_list" => Step::Items,
                    _ => Step::Values,
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
        costs: &[Range],
    ) -> Call {
        let sum = costs.iter().fold(Range::default(), |a, b| a.plus(*b));
        let by_library = self
            .collections(overload, target, args)
            .or_else(|| self.kubernetes(function, overload, target, args));
        if let Some(mut call) = by_library {
            call.cost = call.cost.plus(sum);
            return call;
        }
        self.standard(expr, overload, target, args, costs, sum)
    }

    /// Functions on lists and sets that allocate.
    fn collections(
        &mut self,
        overload: &Overload,
        target: Option<&'e Expr>,
        args: &'e [Expr],
    ) -> Option<Call> {
        let id = overload.id.as_str();
        let allocating = |size: Range, factor: f64| {
            let cost = size.scaled(factor).plus(Range::exactly(1 + LIST_COST));
            Some(Call {
                cost,
                size: Some(size),
            })
        };
        match (id, target, args) {
            ("list_slice", Some(target), [start, end]) => {
                let size = self.size_or_unknown(target);
                let (start, end) = (int_literal(start, 0), int_literal(end, size.max));
                allocating(Range::exactly(end.wrapping_sub(start)), 1.0)
            }
            ("lists_range", None, [count]) => {
                allocating(Range::exactly(int_literal(count, u64::MAX)), 1.0)
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
                Some(Call::costs(size.scaled(factor).plus(Range::exactly(1))))
            }
            _ => None,
        }
    }

    /// Functions that Kubernetes adds, or costs otherwise.
    fn kubernetes(
        &mut self,
        function: &str,
        overload: &Overload,
        target: Option<&'e Expr>,
        args: &'e [Expr],
    ) -> Option<Call> {
        let one = Call::costs(Range::exactly(1));
        let first = target.or(args.first());
        Some(match function {
            "check" => Call::costs(Range::exactly(CHECK_COST)),
            "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace"
            | "name" | "allowed" | "reason" | "error" | "errored" => one,
            "fieldSelector" | "labelSelector" => {
                let size = self.size_or_unknown(args.first()?);
                let parts = size.scaled(0.5).scaled(f64::from(
                    u32::try_from(LIST_COST + OBJECT_COST).unwrap_or(50),
                ));
                let cost = Range::exactly(LIST_COST).plus(size.scaled(TEXT_FACTOR));
                Call::costs(cost.plus(parts))
            }
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                let target = target?;
                let size = self.size_or_unknown(target);
                match self.item(target) {
                    Some((of, item)) => {
                        let mut each = Range::exactly(1);
                        if matches!(of, Type::String | Type::Bytes) {
                            each = each.plus(item.scaled(TEXT_FACTOR));
                        }
                        Call::costs(size.times(each))
                    }
                    None => Call::costs(size.scaled(TEXT_FACTOR)),
                }
            }
            "url" | "jsonpatch.escapeKey" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                let size = self.size_or_unknown(first?);
                Call {
                    cost: size.scaled(TEXT_FACTOR),
                    size: Some(size),
                }
            }
            "replace" => self.replace(target?, args)?,
            "split" => {
                let size = self.size_or_unknown(target?);
                let most = args.get(1).and_then(|arg| match arg.kind {
                    Kind::Literal(Literal::Int(number)) => Some(number as u64),
                    _ => None,
                });
                Call {
                    cost: size.scaled(2.0 * TEXT_FACTOR),
                    size: Some(Range::up_to(most.unwrap_or(size.max))),
                }
            }
            "join" => self.join(target?, args),
            "find" | "findAll" => {
                let size = self.size_or_unknown(target?);
                let regex = self.size_or_unknown(args.first()?).scaled(REGEX_FACTOR);
                let text = size.plus(Range::exactly(1)).scaled(TEXT_FACTOR);
                Call {
                    cost: text.times(regex),
                    size: Some(Range::up_to(size.max)),
                }
            }
            "ip" if overload.id == "cidr_ip" => one,
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver"
            | "isSemver" => Call::costs(self.size_or_unknown(args.first()?).scaled(TEXT_FACTOR)),
            "ip.isCanonical" => {
                let size = self.size_or_unknown(args.first()?);
                Call::costs(size.scaled(2.0 * TEXT_FACTOR))
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
                let address = Range { min: 4, max: 16 };
                let mut cost = address.plus(address).scaled(TEXT_FACTOR);
                if function == "containsCIDR" {
                    cost = cost
                        .plus(address.scaled(TEXT_FACTOR))
                        .plus(Range::exactly(1));
                }
                if overload.id.ends_with("_string") {
                    let size = self.size_or_unknown(args.first()?);
                    cost = cost.plus(size.scaled(TEXT_FACTOR));
                }
                Call::costs(cost)
            }
            "validate" => {
                let size = self.size_or_unknown(args.first()?).scaled(TEXT_FACTOR);
                Call::costs(size.scaled(FORMAT_REGEX_CHARS * REGEX_FACTOR))
            }
            macros::EQUALS => return self.equal_libraries(args),
            _ => return None,
        })
    }

    fn equal_libraries(&mut self, args: &[Expr]) -> Option<Call> {
        let [a, b] = args else { return None };
        let (Type::Library(a_type), Type::Library(b_type)) =
            (self.checked.type_of(a), self.checked.type_of(b))
        else {
            return None;
        };
        if a_type != b_type {
            return None;
        }
        let cost = match a_type {
            Library::Format => Range {
                min: 1,
                max: FORMAT_CHARS_MAX,
            }
            .scaled(TEXT_FACTOR),
            Library::Url => {
                let max = self.size(b).map_or(1, |size| size.max);
                Range { min: 1, max }.scaled(TEXT_FACTOR)
            }
            _ => Range::exactly(1),
        };
        Some(Call::costs(cost))
    }

    fn replace(&mut self, target: &Expr, args: &[Expr]) -> Option<Call> {
        let [from, to, ..] = args else { return None };
        let size = self.size_or_unknown(target);
        let (from, to) = (self.size_or_unknown(from), self.size_or_unknown(to));
        let (mut count, mut kept) = (Range::default(), Range::default());
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
        Some(Call {
            cost: size.scaled(2.0 * TEXT_FACTOR),
            size: Some(count.times(to).plus(kept)),
        })
    }

    fn join(&mut self, target: &Expr, args: &[Expr]) -> Call {
        let list = self.size_or_unknown(target);
        let mut size = match self.item(target) {
            Some((_, item)) => list.times(item),
            None => Range::default(),
        };
        if let Some(separator) = args.first() {
            let between = Range {
                min: list.min.saturating_sub(1),
                max: list.max.saturating_sub(1),
            };
            size = size.plus(self.size_or_unknown(separator).times(between));
        }
        Call {
            cost: size.scaled(TEXT_FACTOR),
            size: Some(size),
        }
    }

    /// Functions of the language itself.
    fn standard(
        &mut self,
        expr: &Expr,
        overload: &Overload,
        target: Option<&Expr>,
        args: &[Expr],
        costs: &[Range],
        sum: Range,
    ) -> Call {
        let at = expr.id as usize;
        match (overload.id.as_str(), target, args) {
            ("string_format", Some(target), _) => {
                Call::costs(self.size_or_unknown(target).scaled(TEXT_FACTOR).plus(sum))
            }
            ("string_to_bytes", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                Call {
                    cost: size.scaled(TEXT_FACTOR).plus(sum),
                    size: Some(Range {
                        min: size.min,
                        max: size.max.wrapping_mul(4),
                    }),
                }
            }
            ("bytes_to_string", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                Call {
                    cost: size.scaled(TEXT_FACTOR).plus(sum),
                    size: Some(Range {
                        min: size.min / 4,
                        max: size.max,
                    }),
                }
            }
            ("strings_quote", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                Call {
                    cost: size.scaled(TEXT_FACTOR).plus(sum),
                    size: Some(Range {
                        min: size.min.wrapping_add(2),
                        max: size.max.wrapping_mul(2).wrapping_add(2),
                    }),
                }
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => {
                Call::costs(self.size_or_unknown(arg).scaled(TEXT_FACTOR).plus(sum))
            }
            ("in_list", _, [_, list]) => Call::costs(self.size_or_unknown(list).plus(sum)),
            ("matches_string", Some(target), [regex]) => {
                let text = self.size_or_unknown(target).plus(Range::exactly(1));
                let regex = self.size_or_unknown(regex).scaled(REGEX_FACTOR);
                Call::costs(text.scaled(TEXT_FACTOR).times(regex).plus(sum))
            }
            ("contains_string", Some(target), [part]) => {
                let text = self.size_or_unknown(target).scaled(TEXT_FACTOR);
                let part = self.size_or_unknown(part).scaled(TEXT_FACTOR);
                Call::costs(text.times(part).plus(sum))
            }
            ("logical_and" | "logical_or", _, [..]) if costs.len() == 2 => Call::costs(Range {
                min: costs[0].min,
                max: costs[0].plus(costs[1]).max,
            }),
            ("conditional", _, [_, yes, no]) if costs.len() == 3 => {
                let size = self.size_or_unknown(yes).union(self.size_or_unknown(no));
                if let (Some(yes), Some(no)) = (self.entries_of(yes), self.entries_of(no)) {
                    self.entries[at] = Some(yes.union(no));
                }
                Call {
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
                    "add_list" => Range::exactly(1),
                    _ => size.scaled(TEXT_FACTOR),
                };
                Call {
                    cost: cost.plus(sum),
                    size: Some(size),
                }
            }
            (id, _, [a, b]) if compares_all_of_it(id) => {
                let most = self.size_or_unknown(a).max.min(self.size_or_unknown(b).max);
                let cost = Range {
                    min: u64::from(most > 0),
                    max: most,
                };
                Call::costs(cost.scaled(TEXT_FACTOR).plus(sum))
            }
            _ => Call::costs(Range::exactly(1).plus(sum)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Key,
    Value,
    /// The only variable: items of lists, keys of maps.
    Only,
}

/// Whether a comparison looks at everything the values are made of.
pub(crate) fn compares_all_of_it(id: &str) -> bool {
    matches!(id, "equals" | "not_equals")
        || (["less", "greater"].iter().any(|word| id.starts_with(word))
            && (id.ends_with("_string") || id.ends_with("_bytes")))
}

/// `cel.bind`: a name for a value, not a loop.
pub(crate) fn is_bind(fold: &Fold) -> bool {
    matches!(&fold.range.kind, Kind::List { items, .. } if items.is_empty())
        && matches!(fold.condition.kind, Kind::Literal(Literal::Bool(false)))
}

/// The size of no value at all; nothing if there will be none.
const fn nothing_yet(empty: bool) -> Range {
    Range {
        min: if empty { 0 } else { u64::MAX },
        max: 0,
    }
}

fn literal_size(expr: &Expr) -> Option<u64> {
    let count = match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count(),
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len(),
        Kind::Literal(_) => 1,
        Kind::List { items, .. } => items.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(count as u64)
}

fn int_literal(expr: &Expr, otherwise: u64) -> u64 {
    match expr.kind {
        Kind::Literal(Literal::Int(number)) => u64::try_from(number).unwrap_or(0),
        _ => otherwise,
    }
}
