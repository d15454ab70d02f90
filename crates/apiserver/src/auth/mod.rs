//! Authorization by RBAC, service account tokens, access reviews and FlowSchemas.
//!
//! [`RbacAuthorizer`] authorizes requests by a policy compiled from the stored roles and bindings.
//! [`Escalation`] prevents users from granting permissions that they do not have. Service account
//! tokens are issued in [`service_account_tokens`] and authenticated in [`token_cache`].
//! [`FlowSchemas`] finds the FlowSchema of a request.

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
