//! Encoding of stored bytes as responses: representations, serializer, tables, lists, errors.

pub(crate) mod byte_rope;
pub(crate) mod encode_pool;
pub(crate) mod error_response;
pub(crate) mod list_encoder;
pub(crate) mod representation;
pub(crate) mod serializer;
