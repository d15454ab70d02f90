//! Protobuf message descriptors of the built-in kinds.
//!
//! `cargo xtask protobuf` generates the table; [`optik_object::protobuf`] encodes and decodes with
//! it.

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use optik_object::protobuf::MessageTable;
use std::sync::OnceLock;

/// Returns the messages of every built-in kind, their lists, and the messages shared by all groups.
/// The first call parses the table, which takes about a millisecond.
///
/// # Panics
/// Never: the table is constant, and a test parses it.
#[must_use]
pub fn messages() -> &'static MessageTable {
    static MESSAGES: OnceLock<MessageTable> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        MessageTable::parse(include_str!("protobuf/table.txt")).expect("the table is well-formed")
    })
}
