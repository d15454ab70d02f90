//! CEL as Kubernetes speaks it: rules of schemas and admission policies.
//!
//! An expression is parsed by the crate `cel`, and checked, costed and run here: what
//! Kubernetes promises about types, costs and texts is more than an interpreter gives.
//! Pure: no I/O, no clock. Whoever asks for an authorizer brings it along.
//!
//! ```
//! use optik_rules::{Names, Program, Type, Value, Variables, Fault};
//!
//! struct One<'a>(Value<'a>);
//! impl<'a> Variables<'a> for One<'a> {
//!     fn value(&self, _: usize) -> Result<Value<'a>, Fault> {
//!         Ok(self.0.clone())
//!     }
//! }
//!
//! let names = Names::default().with("self", Type::Int);
//! let program = Program::compile("self > 1 && self in [2, 3]", &names, None).unwrap();
//! let outcome = program.run(&One(Value::Int(3)), 1000);
//! assert_eq!(outcome.result.unwrap().as_bool(), Some(true));
//! ```

mod check;
mod compare;
mod depth;
mod estimate;
mod eval;
mod issue;
mod library;
mod literals;
mod macros;
mod overloads;
mod pattern;
mod plan;
mod program;
mod range;
mod shape;
mod spend;
mod syntax;
mod time;
mod types;
mod unify;
mod value;

pub use check::{Makers, Names};
pub use eval::Variables;
pub use issue::Issues;
pub use library::{Ask, Authorizer, Decision, Of, ResourceAsk};
pub use overloads::function_names;
pub use pattern::Pattern;
pub use program::{CALL_COST_MAX, CompileError, Outcome, Program};
pub use shape::{
    FieldShape, ObjectShape, Order, REQUEST_BYTES_MAX, Shape, ShapeKind, escape, unescape,
};
pub use types::{Library, Type};
pub use value::{Fault, Key, List, Made, Map, Text, Value};
