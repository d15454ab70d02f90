//! Parsing of requests: route, query, options, content negotiation, body, field validation.

pub(crate) mod body;
pub(crate) mod delete_options;
pub(crate) mod field_validation;
pub(crate) mod http_types;
pub(crate) mod list_options;
pub(crate) mod negotiation;
pub(crate) mod query;
pub(crate) mod route;
pub(crate) mod selection_predicate;
pub(crate) mod write_options;
