//! Expressions that are compiled once and run often.

use crate::cost_estimate::estimate_cost;
use crate::decl_type::DeclType;
use crate::depth;
use crate::eval::{Activation, Evaluator};
use crate::issue::Issues;
use crate::literal_checks;
use crate::parser::parse;
use crate::plan::{PlanNode, plan};
use crate::type_check::{Environment, check};
use crate::types::CelType;
use crate::value::{EvalError, Value};

/// What one run of an expression may cost.
pub const CALL_COST_MAX: u64 = 1_000_000;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    node: PlanNode,
    output: CelType,
    used: Vec<usize>,
    cost_max: u64,
}

/// Why an expression cannot be compiled.
#[derive(Debug)]
pub enum CompileError {
    /// It says nothing that makes sense.
    Issues(Issues),
    /// It makes sense, but could never run.
    Program(EvalError),
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
pub struct Evaluation<'a> {
    pub result: Result<Value<'a>, EvalError>,
    pub cost: u64,
}

impl Program {
    /// Compiles an expression. Its cost is estimated if it is about a value of a shape.
    pub fn compile(
        source: &str,
        names: &Environment,
        about: Option<&DeclType>,
    ) -> Result<Self, CompileError> {
        let tree = parse(source).map_err(CompileError::Issues)?;
        // What follows recurses as deep as the parser did.
        depth::with_stack_for_depth(depth::nesting_depth(source), || {
            let checked = check(source, tree, names).map_err(CompileError::Issues)?;
            let issues = literal_checks::check_literals(source, &checked);
            if !issues.is_empty() {
                return Err(CompileError::Issues(Issues::multiple(source, issues)));
            }
            let plan = plan(&checked, names).map_err(CompileError::Program)?;
            Ok(Self {
                node: plan.node,
                output: checked.type_of(&checked.tree.root).clone(),
                used: plan.used,
                cost_max: about.map_or(0, |shape| estimate_cost(&checked, shape).max),
            })
        })
    }

    /// The type of its values.
    #[must_use]
    pub const fn output(&self) -> &CelType {
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
    pub fn run<'a>(&'a self, variables: &dyn Activation<'a>, limit: u64) -> Evaluation<'a> {
        let mut run = Evaluator::new(variables, limit);
        let result = run.evaluate(&self.node);
        Evaluation {
            result,
            cost: run.cost(),
        }
    }
}
