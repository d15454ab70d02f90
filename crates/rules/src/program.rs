//! Expressions that are compiled once and run often.

use crate::check::{Names, check};
use crate::depth;
use crate::estimate::estimate;
use crate::eval::{Run, Variables};
use crate::issue::Issues;
use crate::literals;
use crate::plan::{Node, plan};
use crate::shape::Shape;
use crate::syntax::parse;
use crate::types::Type;
use crate::value::{Fault, Value};

/// What one run of an expression may cost.
pub const CALL_COST_MAX: u64 = 1_000_000;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    node: Node,
    output: Type,
    used: Vec<usize>,
    cost_max: u64,
}

/// Why an expression cannot be compiled.
#[derive(Debug)]
pub enum CompileError {
    /// It says nothing that makes sense.
    Issues(Issues),
    /// It makes sense, but could never run.
    Program(Fault),
}

impl std::fmt::Display for CompileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Issues(issues) => write!(f, "compilation failed: {issues}"),
            Self::Program(fault) => write!(f, "program instantiation failed: {fault}"),
        }
    }
}

/// What a run came to, and what it cost.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub result: Result<Value<'a>, Fault>,
    pub cost: u64,
}

impl Program {
    /// Compiles an expression. Its cost is estimated if it is about a value of a shape.
    pub fn compile(
        source: &str,
        names: &Names,
        about: Option<&Shape>,
    ) -> Result<Self, CompileError> {
        let tree = parse(source).map_err(CompileError::Issues)?;
        // What follows recurses as deep as the parser did.
        depth::with_room(depth::of(source), || {
            let checked = check(source, tree, names).map_err(CompileError::Issues)?;
            let issues = literals::check(source, &checked);
            if !issues.is_empty() {
                return Err(CompileError::Issues(Issues::several(source, issues)));
            }
            let plan = plan(&checked, names).map_err(CompileError::Program)?;
            Ok(Self {
                node: plan.node,
                output: checked.type_of(&checked.tree.root).clone(),
                used: plan.used,
                cost_max: about.map_or(0, |shape| estimate(&checked, shape).max),
            })
        })
    }

    /// The type of its values.
    #[must_use]
    pub const fn output(&self) -> &Type {
        &self.output
    }

    /// Whether it uses a variable, by its place among the names.
    #[must_use]
    pub fn uses(&self, place: usize) -> bool {
        self.used.contains(&place)
    }

    /// What it can cost at most.
    #[must_use]
    pub const fn cost_max(&self) -> u64 {
        self.cost_max
    }

    /// Runs it; what it borrows lives as long as the program and the values.
    pub fn run<'a>(&'a self, variables: &dyn Variables<'a>, limit: u64) -> Outcome<'a> {
        let mut run = Run::new(variables, limit);
        let result = run.value(&self.node);
        Outcome {
            result,
            cost: run.cost(),
        }
    }
}
