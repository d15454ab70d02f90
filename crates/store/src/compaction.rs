//! Clears away what compaction made unreachable, in bounded steps. Every engine
//! keeps its history this way.

use crate::history::History;
use crate::index::Index;
use crate::options::Retention;
use crate::revision::Revision;
use crate::version::Version;
use crate::view::View;
use optik_platform::Monotonic;

/// How many compacted commits are cleared away in one step; twice as many as were just made,
/// if those are more.
pub(crate) const SWEEP_COMMITS: usize = 256;

/// Up to where the history should go, if any of it should.
pub(crate) fn compaction_target(
    view: &View,
    retention: Retention,
    now: Monotonic,
) -> Option<Revision> {
    let Retention { age, bytes_max } = retention;
    let target = view.with_history(|history| history.compaction_target(now, age, bytes_max));
    target.filter(|target| *target > view.floor().get())
}

/// Whether the history has outgrown its bound by so much that it must not wait for the next
/// tick: within a second, large values add up to gigabytes.
pub(crate) fn is_history_too_large(view: &View, retention: Retention) -> bool {
    let bytes = view.with_history(History::bytes);
    // What is compacted and not cleared away yet counts, but cannot be compacted again.
    bytes / 9 * 8 > retention.bytes_max && !has_garbage(view)
}

/// All that commits before this made unreachable has been cleared away.
pub(crate) fn frontier(view: &View) -> Revision {
    let floor = view.floor().get();
    let oldest = view.with_history(|history| history.oldest());
    oldest.map_or(floor, |oldest| oldest.min(floor))
}

pub(crate) fn has_garbage(view: &View) -> bool {
    let needed = view.oldest_needed();
    view.with_history(|history| history.oldest().is_some_and(|oldest| oldest < needed))
}

/// Takes one step of so many commits, and hands over the versions that nobody can reach now.
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

/// What lies behind a version of a compacted commit can go: it is older, and not what a read
/// of now would find.
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
