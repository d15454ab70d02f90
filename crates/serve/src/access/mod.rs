//! Who is calling, and whether they may.

mod attempt;
mod authorize;
mod identity;
mod local;
mod tokens;

pub(crate) use attempt::{Asked, attempt, is_long_running};
pub(crate) use authorize::authorize;
pub(crate) use identity::{Identity, authenticate, certified};
pub(crate) use local::is_foreign;
pub use tokens::{TokenFileError, Tokens};
