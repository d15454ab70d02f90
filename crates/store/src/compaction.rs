//! Compaction: removes unreachable versions from memory in bounded steps. Both engines use it to
//! bound their history.

use crate::history::History;
use crate::index::Index;
use crate::options::Retention;
use crate::revision::Revision;
use crate::version::Version;
use crate::view::View;
use optik_platform::Monotonic;

/// The number of compacted commits swept in one step; twice the number of commits just made, if
/// that is more.
pub(crate) const SWEEP_COMMITS: usize = 256;

/// Returns the revision up to which the history should be compacted, if any.
pub(crate) fn compaction_target(
    view: &View,
    retention: Retention,
    now: Monotonic,
) -> Option<Revision> {
    let Retention { age, bytes_max } = retention;
    let target = view.with_history(|history| history.compaction_target(now, age, bytes_max));
    target.filter(|target| *target > view.floor().get())
}

/// Whether the history exceeds its bound by so much that compaction must not wait for the next
/// tick: within a second, large values add up to gigabytes.
pub(crate) fn is_history_too_large(view: &View, retention: Retention) -> bool {
    let bytes = view.with_history(History::bytes);
    // Commits that are compacted and not swept yet count towards the size, but cannot be compacted
    // again.
    bytes / 9 * 8 > retention.bytes_max && !has_garbage(view)
}

/// All versions made unreachable by commits before this revision have been swept.
pub(crate) fn frontier(view: &View) -> Revision {
    let floor = view.floor().get();
    let oldest = view.with_history(|history| history.oldest());
    oldest.map_or(floor, |oldest| oldest.min(floor))
}

pub(crate) fn has_garbage(view: &View) -> bool {
    let needed = view.oldest_needed();
    view.with_history(|history| history.oldest().is_some_and(|oldest| oldest < needed))
}

/// Sweeps up to this number of commits, and passes each version that became unreachable to the
/// callback.
///
/// `index` is the engine's own copy of what it published last.
pub(crate) fn sweep(
    view: &View,
    index: &mut Index,
    commits: usize,
    mut garbage: impl FnMut(&Version),
) {
    let mut forgot = false;
    let floor = view.floor().get();
    for commit in view.drop_oldest(commits) {
        assert!(
            commit.revision < floor,
            "the floor rises before anything is dropped: {} goes at {floor}",
            commit.revision
        );
        for event in commit.events() {
            let version = event.version();
            check_unlinkable(index, version);
            if let Some(prior) = version.unlink_prior().filter(|prior| !prior.is_deletion()) {
                garbage(&prior);
            }
            if version.is_deletion() {
                garbage(version);
                index.remove_tombstone(version);
                forgot = true;
            }
        }
    }
    if forgot {
        view.publish(index.clone(), Vec::new());
    }
}

/// Asserts that the versions before that of a compacted commit can be dropped: they are older, and
/// a read of the newest state would not return them.
fn check_unlinkable(index: &Index, version: &Version) {
    if !cfg!(debug_assertions) {
        return;
    }
    let Some(prior) = version.prior() else {
        return;
    };
    assert!(
        prior.mod_revision < version.mod_revision,
        "chains: {prior:?} lies behind {version:?}"
    );
    let newest = index.newest(&version.key);
    assert!(
        newest.is_none_or(|newest| newest.mod_revision >= version.mod_revision),
        "compaction never cuts off the newest version of a key: {prior:?}"
    );
}
