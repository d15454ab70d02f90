//! Clears away what compaction made unreachable, in bounded steps. Every engine
//! keeps its history this way.

use crate::index::Index;
use crate::options::Retention;
use crate::replay::Place;
use crate::revision::Revision;
use crate::view::View;
use optik_platform::Monotonic;

/// How many compacted commits are cleared away in one step.
const SWEEP_COMMITS_MAX: usize = 1024;

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

pub(crate) fn has_garbage(view: &View) -> bool {
    let needed = view.needed();
    view.with_history(|history| history.oldest().is_some_and(|oldest| oldest < needed))
}

/// Takes one step, and hands over where the versions were kept that are gone now, and how
/// large they were.
///
/// `index` is the engine's own copy of what it published last.
pub(crate) fn sweep(view: &View, index: &mut Index, mut garbage: impl FnMut(Place, u64)) {
    let mut forgot = false;
    for commit in view.drop_oldest(SWEEP_COMMITS_MAX) {
        for event in commit.events() {
            let version = event.version();
            if let Some(prior) = version.cut().filter(|prior| !prior.is_deletion()) {
                garbage((prior.mod_revision, prior.sub), prior.size());
            }
            if version.is_deletion() {
                garbage((version.mod_revision, version.sub), version.size());
                index.forget(version);
                forgot = true;
            }
        }
    }
    if forgot {
        view.publish(index.clone(), Vec::new());
    }
}
