//! Full checks of the state in memory: they assert what local assertions cannot.
//!
//! The feature `verify` enables them, like etcd's package of this name; the tests of this crate and
//! of `testkit/store` use it. `disk::log_verify` checks the state on disk.

use crate::history::Commit;
use crate::index::{Index, LiveSize};
use crate::key::KeyRange;
use crate::lease::{LeaseId, Leases};
use crate::mailbox::MAILBOX_COMMITS_MAX;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::version::{VERSION_OVERHEAD_BYTES, Version};
use crate::view::View;

/// The budget of a check in versions for each request since the last one. A small state is checked
/// after each batch, and a large one does not make tests slow.
const VERSIONS_PER_REQUEST: u64 = 32;
/// After a compaction, a state of up to this number of versions is always checked.
const SMALL_STATE_VERSIONS: u64 = 4096;
/// With more watchers than this, they are not compared one by one.
const WATCHERS_MAX: usize = 128;

/// Decides when the next full check runs.
#[derive(Debug, Default)]
pub(crate) struct VerifySchedule {
    /// The number of versions that may be visited.
    credit: u64,
    /// The floor at the last check.
    floor: Revision,
}

impl VerifySchedule {
    /// Whether a check is due, after this number of requests.
    pub(crate) fn is_due(&mut self, view: &View, requests: usize) -> bool {
        if !crate::VERIFY {
            return false;
        }
        let keys = view.with_index(|index| index.size().keys);
        let history = view.with_history(|history| history.bytes() / VERSION_OVERHEAD_BYTES);
        let (versions, floor) = (keys + history, view.floor().get());
        self.credit += VERSIONS_PER_REQUEST * requests as u64;
        let compacted = floor > self.floor && versions <= SMALL_STATE_VERSIONS;
        if self.credit < versions && !compacted || self.credit == 0 {
            return false;
        }
        self.credit = 0;
        self.floor = floor;
        true
    }
}

/// Checks what readers and watchers see. Called by the task that publishes: only the progress of
/// dispatching may change meanwhile. Revisions must be contiguous, so it does not apply to the etcd
/// engine.
pub(crate) fn view(view: &View) {
    revisions(view);
    watchers(view);
    let (history, state) = view.state_with_history();
    let bytes = view.with_history(|history| history.bytes());
    let events = commits(&history, bytes);
    let oldest = history.first().map(|oldest| oldest.revision);
    let found = index(&state, oldest);
    assert_eq!(
        found, events,
        "chains: every version of the history is in the chain of its key"
    );
    history_covers(view, &history);
}

/// Checks the order of the revisions of the view.
fn revisions(view: &View) {
    let told = view.hub().dispatched_at_least();
    let dispatched = view.hub().dispatched();
    let (floor, watchable) = (view.floor().get(), view.oldest_watchable());
    let published = view.revision();
    assert!(
        floor <= watchable && floor <= published && watchable <= published.next(),
        "order of revisions: floor {floor}, oldest watchable {watchable}, published {published}"
    );
    assert!(
        told <= dispatched && dispatched <= published,
        "order of revisions: told {told}, dispatched {dispatched}, published {published}"
    );
}

/// Checks that every revision is there from the floor on, and from the first undispatched commit
/// on.
fn history_covers(view: &View, history: &[Arc<Commit>]) {
    let (needed, floor) = (view.oldest_needed(), view.floor().get());
    let published = view.revision();
    let (Some(first), Some(last)) = (history.first(), history.last()) else {
        assert_eq!(
            floor, published,
            "history: nothing is there from {needed} on"
        );
        return;
    };
    assert_eq!(last.revision, published, "history: the newest is missing");
    assert!(
        first.revision <= floor.next(),
        "history: it begins at {}, and can be watched from {floor} on",
        first.revision
    );
}

/// Checks the commits; returns the number of their changes.
fn commits(history: &[Arc<Commit>], bytes: u64) -> usize {
    let sizes = history.iter().map(|commit| commit.size());
    assert_eq!(sizes.sum::<u64>(), bytes, "sizes: bytes of the history");
    for pair in history.windows(2) {
        assert_eq!(
            pair[0].revision.next(),
            pair[1].revision,
            "contiguous revisions: commits of the history"
        );
    }
    history.iter().map(|commit| events(commit)).sum()
}

fn events(commit: &Commit) -> usize {
    assert!(!commit.events.is_empty(), "a commit changes something");
    for (sub, event) in (0..).zip(&commit.events) {
        let version = &event.version;
        assert_eq!(
            (version.mod_revision, version.sub),
            (commit.revision, sub),
            "history: {version:?} is elsewhere in its commit"
        );
        let follows = |prior: &Arc<Version>| {
            !prior.is_deletion() && prior.key == version.key && place(prior) < place(version)
        };
        assert!(
            event.prior.as_ref().is_none_or(follows),
            "history: {version:?} follows {:?}",
            event.prior
        );
    }
    commit.events.len()
}

/// Checks the index; returns the number of versions from `oldest` on.
fn index(index: &Index, oldest: Option<Revision>) -> usize {
    let (mut size, mut stored, mut recent) = (LiveSize::default(), 0, 0);
    let mut before: Option<&Arc<Version>> = None;
    for newest in index.newest_entries(&KeyRange::all()) {
        assert!(
            before.is_none_or(|before| before.key < newest.key),
            "index: {:?} is not in order, or live and deleted at once",
            newest.key
        );
        before = Some(newest);
        let found = index.newest(&newest.key);
        assert!(
            found.is_some_and(|found| Arc::ptr_eq(found, newest)),
            "index: {newest:?} is kept under another key"
        );
        assert_eq!(
            newest.is_deletion(),
            index.live_version(&newest.key).is_none(),
            "index: the live are apart from the deleted: {newest:?}"
        );
        assert!(
            newest.mod_revision <= index.revision(),
            "index: {newest:?} is newer than the index"
        );
        if !newest.is_deletion() {
            size.keys += 1;
            size.bytes += (newest.key.len() + newest.value.len()) as u64;
            stored += newest.stored_bytes();
        }
        recent += chain_from(newest, oldest);
    }
    assert_eq!(size, index.size(), "sizes: live keys");
    assert_eq!(stored, index.stored_bytes(), "sizes: live keys on disk");
    recent
}

/// Checks a whole chain, and counts its versions from `oldest` on.
fn chain_from(newest: &Arc<Version>, oldest: Option<Revision>) -> usize {
    let mut newer: Option<Arc<Version>> = None;
    let mut recent = 0;
    for version in chain(newest) {
        if let Some(newer) = newer {
            link(&newer, &version);
        }
        assert!(
            (version.version == 1) == (version.create_revision == version.mod_revision),
            "chains: the first version of a key, and no other, creates it: {version:?}"
        );
        assert!(
            !version.is_deletion() || version.lease == LeaseId::NONE,
            "leases: {version:?} has one"
        );
        let is_recent = oldest.is_some_and(|oldest| version.mod_revision >= oldest);
        recent += usize::from(is_recent);
        newer = Some(version);
    }
    recent
}

/// Checks a version against its predecessor.
fn link(newer: &Version, older: &Version) {
    assert_eq!(newer.key, older.key, "chains: of one key each");
    assert!(
        place(older) < place(newer),
        "chains: newest first: {newer:?}, then {older:?}"
    );
    let follows = if newer.is_deletion() {
        !older.is_deletion()
    } else if older.is_deletion() {
        newer.version == 1
    } else {
        newer.version == older.version + 1 && newer.create_revision == older.create_revision
    };
    assert!(follows, "chains: {newer:?} does not follow {older:?}");
}

fn place(version: &Version) -> (Revision, u32) {
    (version.mod_revision, version.sub)
}

/// Iterates over all versions of a key, newest first.
pub(crate) fn chain(newest: &Arc<Version>) -> impl Iterator<Item = Arc<Version>> {
    std::iter::successors(Some(Arc::clone(newest)), |version| version.prior())
}

/// Checks that the keys of each lease are those whose versions name it. (A restored snapshot of an
/// etcd cluster may name unknown leases.)
pub(crate) fn leases(leases: &Leases, index: &Index) {
    assert!(leases.expiries_agree(), "leases: by id and by expiry");
    let mut followed = 0;
    for (id, keys) in leases.keys() {
        followed += keys.len();
        for key in keys {
            let version = index.live_version(key);
            assert!(
                version.is_some_and(|version| version.lease == id),
                "leases: {id} holds {key:?}, which is {version:?}"
            );
        }
    }
    let live = index.live_entries(&KeyRange::all());
    let held = live.filter(|version| leases.contains(version.lease));
    assert_eq!(held.count(), followed, "leases: a key is without its own");
}

/// Checks the mailboxes of watchers, and that the watchers are found by key.
fn watchers(view: &View) {
    let newest = view.with_history(|history| history.iter().last().cloned());
    let unread = view.hub().with_watchers(|watchers, _| {
        assert!(watchers.has_no_empty_entry(), "watchers: one is gone");
        let all: Vec<_> = watchers.entries().take(WATCHERS_MAX + 1).collect();
        if all.len() > WATCHERS_MAX {
            return Vec::new();
        }
        for (at, (range, one)) in all.iter().enumerate() {
            let twice = all[..at].iter().any(|(_, other)| Arc::ptr_eq(one, other));
            assert!(!twice, "watchers: one of {range:?} is there twice");
        }
        for event in newest.iter().flat_map(|commit| commit.events()) {
            let key = &event.version.key;
            let mut found = 0;
            watchers.for_each_watcher(key, |_| found += 1);
            let expected = all.iter().filter(|(range, _)| range.contains(key));
            assert_eq!(found, expected.count(), "watchers: found by {key:?}");
        }
        all.iter().map(|(_, mailbox)| mailbox.unread()).collect()
    });
    let published = view.revision();
    for (from, commits, overflowed) in unread {
        let last = commits.last().copied();
        assert!(
            commits.is_sorted_by(|one, next| one < next),
            "mailbox: strictly rising: {commits:?}"
        );
        assert!(
            commits.first().is_none_or(|first| *first >= from),
            "mailbox: {commits:?} begin before {from}"
        );
        assert!(
            last <= Some(published),
            "mailbox: {last:?} was dispatched, and {published} published"
        );
        assert!(
            overflowed.is_none_or(|missed| last.is_none_or(|last| last < missed)),
            "mailbox: {last:?} was taken in after {overflowed:?} was not"
        );
        assert!(
            commits.len() <= MAILBOX_COMMITS_MAX,
            "bounds: a mailbox of {} commits",
            commits.len()
        );
    }
}
