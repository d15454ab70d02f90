//! Who somebody is and what they may do.
//!
//! Pure: credentials, rules and requests come in as data, decisions go out. Where the
//! rules are kept and how requests arrive is the business of others.

mod attributes;
pub mod audit;
pub mod bootstrap;
mod flow;
pub mod impersonation;
pub mod jwt;
mod rbac;
mod request;
mod tokens;
mod user;

pub use attributes::{Attributes, Resource, What, without_roles};
pub use flow::{FlowRule, FlowSchema, FlowSet, NoFlowSchema};
pub use rbac::{
    AggregationRule, Binding, Decision, FULL_AUTHORITY_NEEDED, LabelSelector, Policy, PolicyEditor,
    Role, RoleKind, RoleRef, Rule, Subject, Unreadable, aggregated_rules, check_binding,
    check_role, default_binding, escalation, full_authority,
};
pub use request::{
    Depth, Leads, NonResourceRequest, Path, PathScope, RequestInfo, RequestVerb, ResourceRequest,
    Shape, Target,
};
pub use tokens::{TokenFileError, Tokens};
pub use user::{
    ANONYMOUS, AUTHENTICATED, Extra, MASTERS, SERVICE_ACCOUNTS, UNAUTHENTICATED, User,
    service_account_groups, service_account_name, split_service_account,
};
