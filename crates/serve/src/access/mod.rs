//! Who is calling, and on whose behalf.

mod asked;
mod identity;
mod impersonate;

#[cfg(test)]
pub(crate) use asked::asked_for;
pub(crate) use asked::{Asked, is_long_running};
pub(crate) use identity::{By, Identity, authenticate, certified, has_ignored_token};
pub(crate) use impersonate::{Impersonated, impersonated};
