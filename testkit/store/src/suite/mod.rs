//! One behaviour suite for every engine.
//!
//! A check relies on the guarantees of [`Store`] only: other keys may exist, the revision is
//! arbitrary, and it must leave no lease behind. [`embedded_only`] holds the checks that need more,
//! such as a clock that a test moves.

mod compaction;
mod compares;
mod embedded;
mod leases;
mod ranges;
mod revisions_and_versions;
mod snapshots;
mod txns;
mod watches;

pub use embedded::{EmbeddedCheck, embedded_only};

use crate::key_scope::KeyScope;
use futures::future::BoxFuture;
use optik_store::Store;

/// A named check of one guarantee of the store.
#[derive(Clone, Copy, Debug)]
pub struct EngineCheck {
    pub name: &'static str,
    /// Panics if the promise is broken.
    pub run: fn(Store) -> BoxFuture<'static, ()>,
}

/// A table of checks out of functions that take a [`KeyScope`].
macro_rules! checks {
    ($($module:ident::$check:ident,)*) => {
        &[$(EngineCheck {
            name: concat!(stringify!($module), "::", stringify!($check)),
            run: |store| Box::pin(async move {
                let name = concat!(stringify!($module), "::", stringify!($check));
                $module::$check(KeyScope::enter(store, name).await).await;
            }),
        },)*]
    };
}

/// Every check that every engine must pass.
#[must_use]
pub fn all() -> &'static [EngineCheck] {
    ALL
}

const ALL: &[EngineCheck] = checks![
    revisions_and_versions::transaction_takes_one_revision,
    revisions_and_versions::transaction_without_writes_takes_no_revision,
    revisions_and_versions::key_version_counts_from_creation,
    revisions_and_versions::deletion_resets_create_revision_and_version,
    revisions_and_versions::put_with_ignore_value_or_ignore_lease_keeps_it,
    revisions_and_versions::acknowledged_write_is_in_every_later_read,
    revisions_and_versions::commits_keep_their_origin,
    revisions_and_versions::keys_and_values_are_arbitrary_bytes,
    revisions_and_versions::large_values_round_trip,
    revisions_and_versions::many_keys_are_returned_in_order,
    compares::compare_revisions_and_version_in_every_relation,
    compares::compare_values_as_bytes,
    compares::compare_missing_key_as_zero_and_no_value,
    compares::compare_range_holds_if_all_keys_hold,
    compares::compare_empty_range_as_missing_key,
    compares::transaction_succeeds_only_if_all_compares_hold,
    txns::transaction_branch_follows_compares,
    txns::transaction_results_match_operations,
    txns::operations_see_earlier_operations_of_the_transaction,
    txns::read_at_past_revision_does_not_see_own_transaction,
    txns::nested_transactions_share_the_revision,
    txns::nested_compares_see_state_before_the_transaction,
    txns::transaction_writing_a_key_twice_is_rejected,
    txns::exclusive_branches_may_write_the_same_key,
    txns::rejected_transaction_changes_nothing,
    txns::transaction_limits_are_exact,
    txns::empty_key_is_rejected,
    txns::concurrent_increments_lose_no_update,
    ranges::range_returns_exactly_its_keys,
    ranges::range_with_end_before_start_is_empty,
    ranges::range_limit_truncates_and_sets_more,
    ranges::range_pages_cover_all_keys,
    ranges::count_only_range_returns_no_entries,
    ranges::range_filters_by_min_and_max_revision,
    ranges::every_retained_revision_can_be_read,
    ranges::read_at_future_revision_is_rejected,
    snapshots::snapshot_is_immutable,
    snapshots::snapshot_survives_compaction,
    snapshots::snapshot_sizes_follow_live_keys,
    snapshots::reached_waits_for_its_revision,
    watches::watch_sees_only_its_keys,
    watches::watch_from_now_omits_the_past,
    watches::watch_from_past_revision_starts_there,
    watches::watch_from_future_revision_waits,
    watches::watch_from_past_revision_continues_live,
    watches::watch_sees_same_sequence_from_every_start,
    watches::watch_events_carry_previous_value,
    watches::watch_delivers_commit_in_one_batch,
    watches::watch_delivers_watched_part_of_commit_in_one_batch,
    watches::watch_of_non_prefix_range,
    watches::watch_progress_covers_dispatched_commits,
    watches::watch_progress_waits_for_the_reader,
    watches::cancelled_watch_read_loses_no_event,
    watches::dropped_watch_does_not_affect_others,
    watches::watch_far_behind_catches_up_from_history,
    watches::watches_of_same_key_are_independent,
    compaction::reads_below_compact_revision_fail,
    compaction::compaction_keeps_newest_state,
    compaction::compaction_keeps_deleted_keys_deleted,
    compaction::watch_below_compact_revision_is_rejected,
    compaction::watch_at_compact_revision_sees_its_event,
    compaction::watch_overtaken_by_compaction_ends,
    compaction::compaction_does_not_end_synced_watch,
    compaction::live_watches_miss_nothing_during_compaction,
    compaction::transaction_read_below_compact_revision_fails,
    compaction::compaction_revision_cannot_go_back_or_ahead,
    compaction::compaction_keeps_revisions_and_versions_of_live_keys,
    leases::lease_revoke_deletes_all_keys_in_one_revision,
    leases::lease_revoke_without_keys_takes_no_revision,
    leases::lease_ids_are_assigned_or_chosen,
    leases::unknown_lease_is_rejected_everywhere,
    leases::lease_info_reports_ttl_and_keys,
    leases::put_moves_key_between_leases,
    leases::deleted_key_is_detached_from_its_lease,
    leases::recreated_key_has_no_lease,
    leases::expired_lease_deletes_its_keys,
    leases::lease_keep_alive_resets_ttl,
    leases::lease_ttl_is_limited,
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
    checks: &[EngineCheck],
    make: impl AsyncFn() -> Store,
    after: impl AsyncFn(&EngineCheck, Store),
) {
    let mut failed = Vec::new();
    for check in checks {
        let store = make().await;
        // A task of its own isolates a panic from the other checks.
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
