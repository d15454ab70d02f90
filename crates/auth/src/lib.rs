//! Authentication and authorization: tokens, RBAC, impersonation, request attributes, audit policy
//! and FlowSchemas.
//!
//! The crate is pure: it takes credentials, rules and requests as data and returns decisions.
//! Storage and transport are in other crates.

mod attributes;
pub mod audit_policy;
pub mod bootstrap;
mod flow_schema;
pub mod impersonation;
pub mod jwt;
mod rbac;
mod request;
mod token_file;
mod user;

pub use attributes::{
    AccessTarget, AuthorizationAttributes, ResourceAttributes, authorize_without_rbac,
};
pub use flow_schema::{FlowRule, FlowSchema, FlowSchemaDecodeError, FlowSchemaSet};
pub use rbac::{
    AggregationRule, ClusterRoleSelector, FULL_AUTHORITY_NEEDED, Policy, PolicyEditor, PolicyRule,
    RbacDecision, RbacDecodeError, Role, RoleBinding, RoleKind, RoleRef, Subject, aggregated_rules,
    default_binding, escalation, full_authority, validate_binding, validate_role,
};
pub use request::{
    NonResourceRequestInfo, PathDepth, PathScope, PathShape, RequestInfo, RequestPath, RequestVerb,
    ResourcePath, ResourceRequestInfo, RouteMatch,
};
pub use token_file::{TokenFile, TokenFileError};
pub use user::{
    ANONYMOUS, AUTHENTICATED, Extra, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED, User,
    service_account_groups, service_account_name, split_service_account,
};
