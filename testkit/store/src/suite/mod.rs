//! One behaviour suite for every engine.
//!
//! A check relies on the promises of [`Store`] only: it may find other keys and any
//! revision, and must leave no lease behind. [`embedded_only`] holds those that
//! need more, such as a clock that a test moves.

mod compaction;
mod compares;
mod embedded;
mod leases;
mod numbers;
mod ranges;
mod snapshots;
mod txns;
mod watches;

pub use embedded::{EmbeddedCheck, embedded_only};

use crate::scope::Scope;
use futures::future::BoxFuture;
use optik_store::Store;

/// A promise of the store, and how to see whether it is kept.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    pub name: &'static str,
    /// Panics if the promise is broken.
    pub run: fn(Store) -> BoxFuture<'static, ()>,
}

/// A table of checks out of functions that take a [`Scope`].
macro_rules! checks {
    ($($module:ident::$check:ident,)*) => {
        &[$(Check {
            name: concat!(stringify!($module), "::", stringify!($check)),
            run: |store| Box::pin(async move {
                let name = concat!(stringify!($module), "::", stringify!($check));
                $module::$check(Scope::enter(store, name).await).await;
            }),
        },)*]
    };
}

/// Every check that every engine must pass.
#[must_use]
pub fn all() -> &'static [Check] {
    ALL
}

const ALL: &[Check] = checks![
    numbers::a_transaction_takes_one_revision,
    numbers::what_writes_nothing_takes_no_revision,
    numbers::versions_count_from_creation,
    numbers::deletion_starts_the_numbers_again,
    numbers::a_put_may_keep_value_or_lease,
    numbers::an_acknowledged_write_is_in_every_later_read,
    numbers::origins_stay_with_their_commits,
    numbers::keys_and_values_are_any_bytes,
    numbers::large_values_come_back_whole,
    numbers::many_keys_come_back_in_order,
    compares::numbers_of_a_key_compare_in_every_relation,
    compares::values_compare_as_bytes,
    compares::a_missing_key_has_zeroes_and_no_value,
    compares::a_range_holds_if_all_its_keys_do,
    compares::an_empty_range_is_judged_as_a_missing_key,
    compares::all_compares_must_hold,
    txns::the_branch_follows_the_compares,
    txns::answers_match_the_operations,
    txns::operations_see_those_before_them,
    txns::a_read_of_the_past_does_not_see_its_own_transaction,
    txns::nested_transactions_share_the_revision,
    txns::nested_compares_see_the_state_before_the_transaction,
    txns::one_key_is_written_once_at_most,
    txns::branches_that_exclude_each_other_may_write_one_key,
    txns::a_refused_transaction_changes_nothing,
    txns::limits_hold_at_their_edges,
    txns::a_key_must_be_named,
    txns::concurrent_increments_are_not_lost,
    ranges::ranges_hold_what_they_say,
    ranges::a_range_that_ends_before_it_starts_is_empty,
    ranges::a_limit_cuts_and_says_so,
    ranges::pages_add_up,
    ranges::counting_returns_no_entries,
    ranges::filters_choose_by_revision,
    ranges::every_kept_revision_can_be_read,
    ranges::the_future_cannot_be_read,
    snapshots::a_snapshot_does_not_change,
    snapshots::a_snapshot_outlives_compaction,
    snapshots::sizes_follow_the_live_keys,
    snapshots::reached_waits_for_the_revision,
    watches::a_watch_sees_its_keys_only,
    watches::a_watch_from_now_leaves_out_the_past,
    watches::a_watch_from_the_past_begins_there,
    watches::a_watch_from_the_future_waits,
    watches::a_watch_from_the_past_goes_on_into_the_present,
    watches::every_start_gives_the_same_sequence,
    watches::events_carry_what_was_there_before,
    watches::a_commit_comes_whole,
    watches::a_commit_comes_whole_even_if_partly_watched,
    watches::ranges_that_are_no_prefixes_are_watched_too,
    watches::progress_covers_what_was_dispatched,
    watches::progress_waits_for_the_reader,
    watches::a_dropped_read_loses_nothing,
    watches::a_dropped_watch_does_not_disturb_others,
    watches::a_thousand_commits_behind_is_not_lost,
    watches::watches_of_one_key_are_independent,
    compaction::reads_below_fail_and_at_it_work,
    compaction::the_newest_state_is_untouched,
    compaction::deleted_keys_stay_deleted,
    compaction::watches_below_are_refused,
    compaction::a_watch_at_it_sees_the_event_there,
    compaction::a_watch_that_falls_below_ends,
    compaction::a_watch_that_is_up_to_date_goes_on,
    compaction::live_watches_miss_nothing,
    compaction::a_transaction_cannot_read_below,
    compaction::it_cannot_go_back_or_ahead,
    compaction::numbers_of_living_keys_survive,
    leases::revoking_deletes_all_keys_at_once,
    leases::revoking_nothing_takes_no_revision,
    leases::ids_are_given_or_chosen,
    leases::an_unknown_lease_is_an_error_everywhere,
    leases::info_tells_time_and_keys,
    leases::keys_move_between_leases,
    leases::a_deleted_key_leaves_its_lease,
    leases::a_recreated_key_is_free_of_its_old_lease,
    leases::a_lease_that_runs_out_takes_its_keys,
    leases::keeping_alive_starts_the_time_again,
    leases::the_time_has_a_limit,
];

/// Runs every check, each on a store of its own making, and names those that fail.
///
/// `make` may return the same store again and again.
///
/// # Panics
/// If a check fails.
pub async fn run_all(make: impl AsyncFn() -> Store) {
    run_each(all(), make, async |_, _| {}).await;
}

/// As [`run_all`], for some checks, and looks at each store after its check.
///
/// # Panics
/// If a check fails.
pub async fn run_each(
    checks: &[Check],
    make: impl AsyncFn() -> Store,
    after: impl AsyncFn(&Check, Store),
) {
    let mut failed = Vec::new();
    for check in checks {
        let store = make().await;
        // A task of its own: a panic ends it, and not the others.
        match tokio::spawn((check.run)(store.clone())).await {
            Ok(()) => after(check, store).await,
            Err(_) => failed.push(check.name),
        }
    }
    let total = checks.len();
    assert!(
        failed.is_empty(),
        "{} of {total} checks failed: {failed:#?}",
        failed.len()
    );
}
