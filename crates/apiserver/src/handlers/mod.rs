//! One handler for each verb: get, list, watch, write, connect, discovery, OpenAPI.

pub(crate) mod connect;
pub(crate) mod discovery;
pub(crate) mod discovery_handler;
pub(crate) mod freshness;
pub(crate) mod get;
pub(crate) mod list;
pub(crate) mod openapi;
pub(crate) mod watch;
pub(crate) mod write;
