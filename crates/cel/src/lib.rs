//! CEL (Common Expression Language) as Kubernetes uses it: validation rules of
//! CustomResourceDefinition schemas, admission policies and match conditions.
//!
//! An expression is parsed by the crate `cel`, and type-checked, costed and evaluated here:
//! Kubernetes guarantees types, costs and error texts that an ordinary interpreter does not
//! provide. The crate is pure: no I/O, no clock. The caller supplies the authorizer behind the
//! `authorizer` variable.
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
//! let names = Environment::default().with_variable("self", CelType::Int);
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
