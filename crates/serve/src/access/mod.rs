//! Who is calling, and on whose behalf.

mod asked;
mod identity;
mod impersonate;
mod local;

#[cfg(test)]
pub(crate) use asked::asked_for;
pub(crate) use asked::{Asked, is_long_running};
pub(crate) use identity::{Identity, authenticate, certified};
pub(crate) use impersonate::impersonated;
pub(crate) use local::is_foreign;
