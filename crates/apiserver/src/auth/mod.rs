//! Who may do what, as the stored roles say.
//!
//! [`RbacAuthorizer`] answers for a request; it holds the policy made of the roles and bindings of
//! the moment. [`Escalation`] keeps people from giving away what they do not have. The
//! tokens of service accounts are made in [`accounts`], and believed in [`belief`]. [`FlowSchemas`]
//! knows which flow a request belongs to.

mod auth_api;
mod auth_options;
pub(crate) mod authorizer;
mod escalation_check;
pub(crate) mod flow_schemas;
mod rbac_bootstrap;
mod review_selectors;
mod reviews;
mod service_account_tokens;
mod token_cache;

pub use crate::auth::auth_options::{AuthOptions, AuthorizationMode, ServiceAccountOptions};
pub(crate) use crate::auth::authorizer::RbacAuthorizer;
pub(crate) use crate::auth::escalation_check::{Escalation, is_only_mutating_gc_fields};
pub use crate::auth::flow_schemas::FlowHeaders;
pub(crate) use crate::auth::flow_schemas::FlowSchemas;
pub(crate) use crate::auth::service_account_tokens::{ServiceAccountTokens, token_request_kind};
pub use crate::background::auth_refresher::{run_flow_schema_refresh, run_rbac_refresh};
