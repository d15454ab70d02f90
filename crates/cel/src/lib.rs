//! CEL as Kubernetes speaks it: rules of schemas and admission policies.
//!
//! An expression is parsed by the crate `cel`, and checked, costed and run here: what
//! Kubernetes promises about types, costs and texts is more than an interpreter gives.
//! Pure: no I/O, no clock. Whoever asks for an authorizer brings it along.
//!
//! ```
//! use optik_cel::{Environment, Program, CelType, Value, Activation, EvalError};
//!
//! struct One<'a>(Value<'a>);
//! impl<'a> Activation<'a> for One<'a> {
//!     fn resolve(&self, _: usize) -> Result<Value<'a>, EvalError> {
//!         Ok(self.0.clone())
//!     }
//! }
//!
//! let names = Environment::default().with("self", CelType::Int);
//! let program = Program::compile("self > 1 && self in [2, 3]", &names, None).unwrap();
//! let outcome = program.run(&One(Value::Int(3)), 1000);
//! assert_eq!(outcome.result.unwrap().as_bool(), Some(true));
//! ```

mod compare;
mod cost_estimate;
mod decl_type;
mod depth;
mod eval;
mod go_regex;
mod interval;
mod issue;
mod library;
mod literal_checks;
mod macros;
mod overloads;
mod parser;
mod plan;
mod program;
mod runtime_cost;
mod time;
mod type_check;
mod types;
mod unification;
mod value;

pub use decl_type::{
    CelListType, DeclField, DeclKind, DeclType, ObjectDecl, REQUEST_BYTES_MAX, escape, unescape,
};
pub use eval::Activation;
pub use go_regex::GoRegex;
pub use issue::Issues;
pub use library::{AuthorizerCheck, AuthorizerDecision, CelAuthorizer, CheckTarget, ResourceCheck};
pub use overloads::function_names;
pub use program::{CALL_COST_MAX, CompileError, Evaluation, Program};
pub use type_check::{Environment, TypeProvider};
pub use types::{CelType, OpaqueType};
pub use value::{EvalError, ListValue, MapKey, MapValue, StringValue, StructValue, Value};
