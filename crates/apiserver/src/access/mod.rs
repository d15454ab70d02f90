//! Who may do what, as the stored roles say.
//!
//! [`RbacAuthorizer`] answers for a request; it holds the policy made of the roles and bindings of
//! the moment. [`Escalation`] keeps people from giving away what they do not have. The
//! tokens of service accounts are made in [`accounts`], and believed in [`belief`]. [`FlowSchemas`]
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

pub(crate) use accounts::{ServiceAccountTokens, token_request_kind};
pub(crate) use escalation::{Escalation, is_only_mutating_gc_fields};
pub use flows::FlowHeaders;
pub(crate) use flows::FlowSchemas;
pub use follow::{run_flow_schema_refresh, run_rbac_refresh};
pub(crate) use gate::RbacAuthorizer;
pub use options::{AuthOptions, AuthorizationMode, ServiceAccountOptions};
