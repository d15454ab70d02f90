//! Compiled CEL programs: compiled once, evaluated often.

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

/// Cost limit of one evaluation (upstream: `PerCallLimit`).
pub const CALL_COST_MAX: u64 = 1_000_000;

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    node: PlanNode,
    output: CelType,
    used: Vec<usize>,
    cost_max: u64,
}

/// Why compilation failed.
#[derive(Debug)]
pub enum CompileError {
    /// The expression has syntax or type errors.
    Issues(Issues),
    /// The expression is well-typed, but its plan cannot be built (for example an invalid
    /// constant).
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

/// The result and the cost of one evaluation.
#[derive(Debug)]
pub struct Evaluation<'a> {
    pub result: Result<Value<'a>, EvalError>,
    pub cost: u64,
}

impl Program {
    /// Compiles an expression. Its cost is estimated if the declared type of `self` is given.
    pub fn compile(
        source: &str,
        names: &Environment,
        about: Option<&DeclType>,
    ) -> Result<Self, CompileError> {
        let tree = parse(source).map_err(CompileError::Issues)?;
        // The following passes recurse as deep as the parser did.
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

    /// The type of the result.
    #[must_use]
    pub const fn output(&self) -> &CelType {
        &self.output
    }

    /// Whether the expression uses a variable, by its slot in the environment.
    #[must_use]
    pub fn uses(&self, place: usize) -> bool {
        self.used.contains(&place)
    }

    /// The estimated upper bound of the cost; 0 without a declared type.
    #[must_use]
    pub const fn cost_max(&self) -> u64 {
        self.cost_max
    }

    /// Evaluates the expression, up to a cost limit. The result may borrow from the program and the
    /// variables.
    pub fn run<'a>(&'a self, variables: &dyn Activation<'a>, limit: u64) -> Evaluation<'a> {
        let mut run = Evaluator::new(variables, limit);
        let result = run.evaluate(&self.node);
        Evaluation {
            result,
            cost: run.cost(),
        }
    }
}
