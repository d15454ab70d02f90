//! Parses an expression into an AST, on top of the parser of the crate `cel`.
//!
//! Macros are expanded here, not by that parser: Kubernetes has more of them, and costs are
//! estimated from their expansions.

use crate::depth;
use crate::issue::{Issue, Issues};
use crate::macros;
use cel::common::ast as parsed;

/// Longer expressions are rejected before they are parsed.
pub(crate) const EXPRESSION_CHARS_MAX: usize = 100_000;
/// Nesting limit of expressions.
pub(crate) const DEPTH_MAX: usize = 250;

/// Node limit of an AST after macro expansion.
const EXPRESSION_NODES_MAX: usize = 1 << 18;

/// An AST and the source offsets of its nodes.
#[derive(Debug)]
pub(crate) struct Ast {
    pub(crate) root: Expr,
    offsets: Vec<u32>,
}

/// A node of the AST. The id is its index in tables about the AST.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) id: u32,
    pub(crate) kind: ExprKind,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Literal),
    Ident(Box<str>),
    Select {
        operand: Box<Expr>,
        field: Box<str>,
        /// Presence test, from `has(a.b)`.
        test: bool,
    },
    Call {
        function: Box<str>,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        items: Vec<Expr>,
        optional: Vec<usize>,
    },
    Map(Vec<MapEntry>),
    Struct {
        name: Box<str>,
        fields: Vec<StructFieldInit>,
    },
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    pub(crate) key: Expr,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct StructFieldInit {
    pub(crate) id: u32,
    pub(crate) name: Box<str>,
    pub(crate) value: Expr,
    pub(crate) optional: bool,
}

/// The expansion of a macro over a list or a map.
#[derive(Clone, Debug)]
pub(crate) struct Comprehension {
    pub(crate) range: Expr,
    pub(crate) variable: Box<str>,
    pub(crate) second: Option<Box<str>>,
    pub(crate) accumulator: Box<str>,
    pub(crate) init: Expr,
    pub(crate) condition: Expr,
    pub(crate) step: Expr,
    pub(crate) result: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
}

impl Expr {
    /// Calls a function for each direct child.
    pub(crate) fn for_each_child_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        match &mut self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => each(operand),
            ExprKind::Call { target, args, .. } => {
                target.iter_mut().for_each(|target| each(target));
                args.iter_mut().for_each(each);
            }
            ExprKind::List { items, .. } => items.iter_mut().for_each(each),
            ExprKind::Map(entries) => {
                for entry in entries {
                    each(&mut entry.key);
                    each(&mut entry.value);
                }
            }
            ExprKind::Struct { fields, .. } => {
                fields.iter_mut().for_each(|field| each(&mut field.value));
            }
            ExprKind::Comprehension(fold) => {
                each(&mut fold.range);
                each(&mut fold.init);
                each(&mut fold.condition);
                each(&mut fold.step);
                each(&mut fold.result);
            }
        }
    }

    pub(crate) fn for_each_child<'e>(&'e self, each: &mut dyn FnMut(&'e Expr)) {
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => each(operand),
            ExprKind::Call { target, args, .. } => {
                target.iter().for_each(|target| each(target));
                args.iter().for_each(each);
            }
            ExprKind::List { items, .. } => items.iter().for_each(each),
            ExprKind::Map(entries) => {
                for entry in entries {
                    each(&entry.key);
                    each(&entry.value);
                }
            }
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| each(&field.value)),
            ExprKind::Comprehension(fold) => {
                each(&fold.range);
                each(&fold.init);
                each(&fold.condition);
                each(&fold.step);
                each(&fold.result);
            }
        }
    }
}

/// Whether an expression has at most `room` nodes.
fn fits_node_limit(expr: &Expr, room: &mut usize) -> bool {
    if *room == 0 {
        return false;
    }
    *room -= 1;
    let mut good = true;
    expr.for_each_child(&mut |part| good = good && fits_node_limit(part, room));
    good
}

impl Ast {
    /// The source offset of a node, in characters.
    pub(crate) fn offset(&self, id: u32) -> u32 {
        self.offsets.get(id as usize).copied().unwrap_or(0)
    }

    /// The number of node ids.
    pub(crate) fn count(&self) -> usize {
        self.offsets.len()
    }
}

/// Parses an expression and expands its macros.
pub(crate) fn parse(source: &str) -> Result<Ast, Issues> {
    let chars = source.chars().count();
    if chars > EXPRESSION_CHARS_MAX {
        let text = format!(
            "expression code point size exceeds limit: size: {chars}, limit {EXPRESSION_CHARS_MAX}"
        );
        return Err(Issues::single(source, Issue::without_location(text)));
    }
    let depth = depth::nesting_depth(source);
    if depth > DEPTH_MAX {
        let text = format!("expression recursion limit exceeded: {DEPTH_MAX}");
        return Err(Issues::single(source, Issue::without_location(text)));
    }
    depth::with_stack_for_depth(depth, || parse_on_this_stack(source))
}

fn parse_on_this_stack(source: &str) -> Result<Ast, Issues> {
    let parser = cel::Env::default()
        .parser()
        .max_recursion_depth(u16::try_from(DEPTH_MAX).unwrap_or(u16::MAX));
    let (root, info) = parser.parse_with_source_info(source).map_err(|errors| {
        let errors = errors.errors.iter().map(|error| Issue {
            line: u32::try_from(error.pos.0).unwrap_or(1),
            column: u32::try_from(error.pos.1 - 1).unwrap_or(0),
            text: message(&error.msg),
        });
        Issues::multiple(
            source,
            errors
                .filter(|issue| !is_follow_up_error(&issue.text))
                .collect(),
        )
    })?;
    let mut builder = AstBuilder {
        info: &info,
        source,
        offsets: vec![0],
        issues: Vec::new(),
    };
    let root = builder.expr(root);
    if builder.issues.is_empty() {
        let places = builder.offsets;
        Ok(Ast {
            root,
            offsets: places,
        })
    } else {
        Err(Issues::multiple(source, builder.issues))
    }
}

/// Whether an error of the parser is only a consequence of a syntax error that the grammar has
/// reported.
fn is_follow_up_error(text: &str) -> bool {
    text.starts_with("Incomplete ") || text.starts_with("No `")
}

fn message(text: &str) -> String {
    match text.split_once("Recursion limit of") {
        Some(_) => format!("expression recursion limit exceeded: {DEPTH_MAX}"),
        None => text.to_owned(),
    }
}

/// Builds the AST, and the nodes of macro expansions.
pub(crate) struct AstBuilder<'a> {
    info: &'a parsed::SourceInfo,
    source: &'a str,
    offsets: Vec<u32>,
    pub(crate) issues: Vec<Issue>,
}

impl AstBuilder<'_> {
    /// A new node with the source offset of another one.
    pub(crate) fn expr_at(&mut self, place: u32, kind: ExprKind) -> Expr {
        let id = self.id(place);
        Expr { id, kind }
    }

    fn id(&mut self, place: u32) -> u32 {
        let id = u32::try_from(self.offsets.len()).unwrap_or(u32::MAX);
        self.offsets.push(place);
        id
    }

    pub(crate) fn offset(&self, expr: &Expr) -> u32 {
        self.offsets.get(expr.id as usize).copied().unwrap_or(0)
    }

    pub(crate) fn report(&mut self, place: u32, text: impl Into<String>) {
        let issue = Issue::at_offset(self.source, place, text.into());
        self.issues.push(issue);
    }

    /// A copy of an expression with new node ids. Reports an error instead of exceeding the node
    /// limit.
    pub(crate) fn copy(&mut self, expr: &Expr) -> Expr {
        if self.offsets.len() > EXPRESSION_NODES_MAX
            || !fits_node_limit(expr, &mut (EXPRESSION_NODES_MAX - self.offsets.len()))
        {
            let text = format!("expression recursion limit exceeded: {DEPTH_MAX}");
            let place = self.offset(expr);
            self.report(place, text);
            return self.expr_at(place, ExprKind::Literal(Literal::Null));
        }
        let mut copy = expr.clone();
        self.renumber(&mut copy);
        copy
    }

    fn renumber(&mut self, expr: &mut Expr) {
        expr.id = self.id(self.offset(expr));
        expr.for_each_child_mut(&mut |part| self.renumber(part));
    }

    /// The source offset of a node of the parser, converted from bytes to characters.
    fn offset_of(&self, id: u64) -> u32 {
        let (start, _) = self.info.offset_for(id).unwrap_or((0, 0));
        let before = self.source.get(..start as usize);
        let chars = before.map_or(start as usize, |before| before.chars().count());
        u32::try_from(chars).unwrap_or(0)
    }

    fn expr(&mut self, from: parsed::IdedExpr) -> Expr {
        let place = self.offset_of(from.id);
        let kind = match from.expr {
            parsed::Expr::Literal(value) => ExprKind::Literal(literal(&value)),
            parsed::Expr::Ident(name) => ExprKind::Ident(name.trim_start_matches('.').into()),
            parsed::Expr::Select(select) => ExprKind::Select {
                operand: Box::new(self.expr(*select.operand)),
                field: select.field.into(),
                test: select.test,
            },
            parsed::Expr::Call(call) => return self.call(place, call),
            parsed::Expr::List(list) => ExprKind::List {
                items: list.elements.into_iter().map(|e| self.expr(e)).collect(),
                optional: list.optional_indices,
            },
            parsed::Expr::Map(map) => ExprKind::Map(self.entries(map.entries)),
            parsed::Expr::Struct(made) => ExprKind::Struct {
                name: made.type_name.trim_start_matches('.').into(),
                fields: self.fields(made.entries),
            },
            parsed::Expr::Comprehension(_) | parsed::Expr::Unspecified => {
                ExprKind::Literal(Literal::Null)
            }
        };
        self.expr_at(place, kind)
    }

    fn call(&mut self, place: u32, call: parsed::CallExpr) -> Expr {
        let target = call.target.map(|target| self.expr(*target));
        let args: Vec<Expr> = call.args.into_iter().map(|arg| self.expr(arg)).collect();
        let function = call.func_name.trim_start_matches('.');
        macros::expand(self, place, function, target, args)
    }

    fn entries(&mut self, entries: Vec<parsed::IdedEntryExpr>) -> Vec<MapEntry> {
        let entries = entries.into_iter().filter_map(|entry| match entry.expr {
            parsed::EntryExpr::MapEntry(entry) => Some(MapEntry {
                key: self.expr(entry.key),
                value: self.expr(entry.value),
                optional: entry.optional,
            }),
            parsed::EntryExpr::StructField(_) => None,
        });
        entries.collect()
    }

    fn fields(&mut self, entries: Vec<parsed::IdedEntryExpr>) -> Vec<StructFieldInit> {
        let fields = entries.into_iter().filter_map(|entry| match entry.expr {
            parsed::EntryExpr::StructField(field) => {
                let place = self.offset_of(entry.id);
                Some(StructFieldInit {
                    id: self.id(place),
                    name: field.field.into(),
                    value: self.expr(field.value),
                    optional: field.optional,
                })
            }
            parsed::EntryExpr::MapEntry(_) => None,
        });
        fields.collect()
    }
}

fn literal(value: &parsed::LiteralValue) -> Literal {
    match value {
        parsed::LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        parsed::LiteralValue::Bytes(value) => Literal::Bytes(value.inner().into()),
        parsed::LiteralValue::Double(value) => Literal::Double(*value.inner()),
        parsed::LiteralValue::Int(value) => Literal::Int(*value.inner()),
        parsed::LiteralValue::Null => Literal::Null,
        parsed::LiteralValue::String(value) => Literal::String(value.inner().into()),
        parsed::LiteralValue::UInt(value) => Literal::Uint(*value.inner()),
    }
}
