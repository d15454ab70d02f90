//! Who may do what, as the stored roles say.
//!
//! [`Gate`] answers for a request; it holds the policy made of the roles and bindings of
//! the moment. [`Escalation`] keeps people from giving away what they do not have. The
//! tokens of service accounts are made and believed in [`accounts`].

mod accounts;
mod answers;
mod bootstrap;
mod escalation;
mod follow;
mod gate;
mod options;
mod reviews;

pub(crate) use accounts::{Accounts, token_request_kind};
pub(crate) use escalation::Escalation;
pub use follow::keep_roles;
pub(crate) use gate::Gate;
pub use options::{AccessOptions, AccountOptions, Authorization};
