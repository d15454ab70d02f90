//! The hub, mailboxes and watches under every interleaving that a scheduler generates.
//!
//! These are the store's own sources, on the locks of shuttle instead of those of the standard
//! library: only the module `sync` differs.

#![expect(
    dead_code,
    unreachable_pub,
    reason = "parts of the store, of which the scenes use a part"
)]

/// As in the store.
const VERIFY: bool = true;

mod sync;
mod watch_interleavings;

#[path = "../../../../crates/store/src/draft.rs"]
mod draft;
#[path = "../../../../crates/store/src/error.rs"]
mod error;
#[path = "../../../../crates/store/src/executor.rs"]
mod executor;
#[path = "../../../../crates/store/src/history.rs"]
mod history;
#[path = "../../../../crates/store/src/hub.rs"]
mod hub;
#[path = "../../../../crates/store/src/index.rs"]
mod index;
#[path = "../../../../crates/store/src/key.rs"]
mod key;
#[path = "../../../../crates/store/src/lease.rs"]
mod lease;
#[path = "../../../../crates/store/src/mailbox.rs"]
mod mailbox;
#[path = "../../../../crates/store/src/origin.rs"]
mod origin;
#[path = "../../../../crates/store/src/revision.rs"]
mod revision;
#[path = "../../../../crates/store/src/txn.rs"]
mod txn;
#[path = "../../../../crates/store/src/txn_validation.rs"]
mod txn_validation;
#[path = "../../../../crates/store/src/verify.rs"]
mod verify;
#[path = "../../../../crates/store/src/version.rs"]
mod version;
#[path = "../../../../crates/store/src/view.rs"]
mod view;
#[path = "../../../../crates/store/src/watch.rs"]
mod watch;
#[path = "../../../../crates/store/src/watcher_index.rs"]
mod watcher_index;
