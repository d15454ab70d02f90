//! Keeps compiled configuration up to date with the stored objects, including writes of other
//! servers.
//!
//! A write of this server takes effect before its response is sent; this loop covers writes of
//! others.

use optik_control_loop::{Outcome, reconcile_on_change};
use optik_store::{Snapshot, Store};
use std::future::ready;

/// Calls `catch_up` on changes of some directories, until it is dropped or the store stops.
pub(crate) async fn run_refresh(store: &Store, directories: &[&str], catch_up: impl Fn(&Snapshot)) {
    let refresh = || {
        catch_up(&store.snapshot());
        ready(Outcome::Done)
    };
    reconcile_on_change(store, directories, refresh).await;
}
