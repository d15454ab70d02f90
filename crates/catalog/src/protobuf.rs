//! The messages of the built-in kinds.
//!
//! The table is made by `cargo xtask protobuf`; [`optik_object::protobuf`] says how to
//! read it.

#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

use optik_object::protobuf::MessageTable;
use std::sync::OnceLock;

/// The messages of every built-in kind, their lists, and what all groups share.
/// The first call reads the table, which takes about a millisecond.
///
/// # Panics
/// Never: the table is fixed, and a test has read it.
#[must_use]
pub fn messages() -> &'static MessageTable {
    static MESSAGES: OnceLock<MessageTable> = OnceLock::new();
    MESSAGES.get_or_init(|| {
        MessageTable::parse(include_str!("protobuf/table.txt")).expect("the table is well-formed")
    })
}
