//! Keeps what is compiled what the stored objects say, whoever writes them.
//!
//! What this server writes is in force before its write is answered; this is for what
//! others write.

use optik_control_loop::{Outcome, reconcile_on_change};
use optik_store::{Snapshot, Store};
use std::future::ready;

/// Catches up with some directories for as long as it is polled, or until the store stops.
pub(crate) async fn run_refresh(store: &Store, directories: &[&str], catch_up: impl Fn(&Snapshot)) {
    let refresh = || {
        catch_up(&store.snapshot());
        ready(Outcome::Done)
    };
    reconcile_on_change(store, directories, refresh).await;
}
