//! Who may do what, as the stored roles say.
//!
//! [`Gate`] answers for a request; it holds the policy made of the roles and bindings of
//! the moment. [`Escalation`] keeps people from giving away what they do not have. The
//! tokens of service accounts are made in [`accounts`], and believed in [`belief`]. [`Flows`]
//! knows which flow a request belongs to.

mod accounts;
mod answers;
mod belief;
mod bootstrap;
mod escalation;
mod flows;
mod follow;
mod gate;
mod options;
mod reviews;
mod selectors;

pub(crate) use accounts::{Accounts, token_request_kind};
pub(crate) use escalation::{Escalation, only_for_collectors};
pub use flows::FlowMarks;
pub(crate) use flows::Flows;
pub use follow::{keep_flows, keep_roles};
pub(crate) use gate::Gate;
pub use options::{AccessOptions, AccountOptions, Authorization};
