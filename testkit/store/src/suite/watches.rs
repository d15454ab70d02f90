//! Watches: delivery of commits.

use crate::key_scope::KeyScope;
use crate::timeout::within;
use futures::FutureExt;
use optik_store::{KeyRange, Op, Txn, Watch, WatchFrom};

/// A short story: puts, an overwrite, a deletion, a new beginning.
async fn describe(scope: &KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    scope.put("a", "2").await;
    scope.delete("a").await;
    scope.put("a", "3").await;
}

const STORY: [&str; 5] = [
    "a=1 @+1 (created +1, version 1)",
    "b=1 @+2 (created +2, version 1)",
    "a=2 @+3 (created +1, version 2) was a=1 @+1 (created +1, version 1)",
    "a gone @+4 was a=2 @+3 (created +1, version 2)",
    "a=3 @+5 (created +5, version 1)",
];

/// Writes `last`, and sees that nothing else was left for the watch.
async fn expect_only(scope: &KeyScope, watch: &mut Watch, last: &str) {
    let revision = scope.put(last, "last").await;
    let seen = scope.events(watch, 1).await;
    let offset = revision.get() - scope.base().get();
    assert_eq!(
        seen,
        [format!(
            "{last}=last @+{offset} (created +{offset}, version 1)"
        )]
    );
}

/// Shows G14.
pub(super) async fn watch_sees_only_its_keys(scope: KeyScope) {
    let mut one = scope.watch(scope.single_key("d/a"), WatchFrom::Now);
    let mut under = scope.watch(scope.prefix("d/"), WatchFrom::Now);
    let mut between = scope.watch(scope.between("d/a", "d/c"), WatchFrom::Now);
    let mut from_key = scope.watch(KeyRange::from_key(scope.key("d/b")), WatchFrom::Now);
    for name in ["c", "d/a", "d/a\0", "d/b", "d/c", "d0"] {
        scope.put(name, "1").await;
    }
    scope.delete("d/a").await;
    let names = |seen: Vec<String>| {
        let name = |text: String| text.split(['=', ' ']).next().unwrap_or_default().to_owned();
        seen.into_iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(scope.events(&mut one, 2).await), ["d/a", "d/a"]);
    let expected = ["d/a", "d/a\0", "d/b", "d/c", "d/a"];
    assert_eq!(names(scope.events(&mut under, 5).await), expected);
    let expected = ["d/a", "d/a\0", "d/b", "d/a"];
    assert_eq!(names(scope.events(&mut between, 4).await), expected);
    let expected = ["d/b", "d/c", "d0"];
    assert_eq!(names(scope.events(&mut from_key, 3).await), expected);
    assert_eq!(under.range(), &scope.prefix("d/"));
}

pub(super) async fn watch_from_now_omits_the_past(scope: KeyScope) {
    describe(&scope).await;
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    expect_only(&scope, &mut watch, "z").await;
}

pub(super) async fn watch_from_past_revision_starts_there(scope: KeyScope) {
    describe(&scope).await;
    for (skipped, offset) in (1..=6).enumerate() {
        let from = WatchFrom::Revision(scope.revision_at(offset));
        let mut watch = scope.watch(scope.all_keys(), from);
        let expected = &STORY[skipped..];
        let seen = scope.events(&mut watch, expected.len()).await;
        assert_eq!(seen, expected, "from +{offset}");
    }
    let mut b = scope.watch(
        scope.single_key("b"),
        WatchFrom::Revision(scope.revision_at(1)),
    );
    assert_eq!(scope.events(&mut b, 1).await, &STORY[1..2]);
}

pub(super) async fn watch_from_future_revision_waits(scope: KeyScope) {
    let from = WatchFrom::Revision(scope.revision_at(4));
    let mut watch = scope.watch(scope.all_keys(), from);
    let mut further = scope.watch(scope.all_keys(), WatchFrom::Revision(scope.revision_at(6)));
    describe(&scope).await;
    assert_eq!(scope.events(&mut watch, 2).await, &STORY[3..]);
    expect_only(&scope, &mut further, "z").await;
}

pub(super) async fn watch_from_past_revision_continues_live(scope: KeyScope) {
    scope.put("a", "1").await;
    scope.put("b", "1").await;
    let from = WatchFrom::Revision(scope.revision_at(2));
    let mut watch = scope.watch(scope.all_keys(), from);
    scope.put("a", "2").await;
    assert_eq!(scope.events(&mut watch, 2).await, &STORY[1..3]);
    scope.delete("a").await;
    assert_eq!(scope.events(&mut watch, 1).await, &STORY[3..4]);
    scope.put("a", "3").await;
    assert_eq!(scope.events(&mut watch, 1).await, &STORY[4..]);
    expect_only(&scope, &mut watch, "z").await;
}

/// The revisions that a watch shows until it has shown `last`.
async fn revisions(watch: &mut Watch, last: u64) -> Vec<u64> {
    let mut seen = Vec::new();
    while seen.last() != Some(&last) {
        let batch = within("commits", watch.next()).await.expect("goes on");
        seen.extend(batch.commits().iter().map(|commit| commit.revision().get()));
    }
    seen
}

/// Shows G8.
pub(super) async fn watch_sees_same_sequence_from_every_start(scope: KeyScope) {
    // Watches start before, while and after the commits they ask for are made.
    const COMMITS: u64 = 200;
    let last = scope.revision_at(COMMITS).get();
    let writer = tokio::spawn({
        let scope = scope.clone();
        async move {
            for number in 0..COMMITS {
                scope.put("a", &number.to_string()).await;
            }
        }
    });
    let mut readers = Vec::new();
    for offset in (1..=COMMITS).step_by(3) {
        let from = scope.revision_at(offset);
        let mut watch = scope.watch(scope.all_keys(), WatchFrom::Revision(from));
        readers.push(tokio::spawn(async move {
            let seen = revisions(&mut watch, last).await;
            assert_eq!(seen, (from.get()..=last).collect::<Vec<_>>());
        }));
    }
    for task in readers.into_iter().chain([writer]) {
        within("readers", task)
            .await
            .expect("in order, none missing");
    }
}

/// Shows G15.
pub(super) async fn watch_events_carry_previous_value(scope: KeyScope) {
    let mut live = scope.watch(scope.all_keys(), WatchFrom::Now);
    describe(&scope).await;
    assert_eq!(scope.events(&mut live, 5).await, STORY);
    let from = WatchFrom::Revision(scope.revision_at(1));
    let mut replayed = scope.watch(scope.all_keys(), from);
    assert_eq!(scope.events(&mut replayed, 5).await, STORY);
    let mut watch = scope.watch(scope.all_keys(), from);
    let commits = scope.commits(&mut watch, 5).await;
    let created = commits
        .iter()
        .map(|commit| commit.events()[0].is_creation());
    let created: Vec<_> = created.collect();
    assert_eq!(created, [true, true, false, false, true]);
}

async fn commit_several(scope: &KeyScope) {
    scope.put("d/a", "1").await;
    scope.put("e/a", "1").await;
    let ops = vec![
        scope.put_op("d/c", "2"),
        scope.put_op("e/b", "2"),
        scope.put_op("d/b", "2"),
        Op::Delete(scope.single_key("d/a")),
        Op::Delete(scope.single_key("e/a")),
    ];
    scope.commit(Txn::from_ops(ops)).await;
}

const SEVERAL: [&str; 5] = [
    "d/c=2 @+3 (created +3, version 1)",
    "e/b=2 @+3 (created +3, version 1)",
    "d/b=2 @+3 (created +3, version 1)",
    "d/a gone @+3 was d/a=1 @+1 (created +1, version 1)",
    "e/a gone @+3 was e/a=1 @+2 (created +2, version 1)",
];

/// Shows G10.
pub(super) async fn watch_delivers_commit_in_one_batch(scope: KeyScope) {
    let from = WatchFrom::Revision(scope.revision_at(3));
    let mut live = scope.watch(scope.all_keys(), from);
    commit_several(&scope).await;
    let mut replayed = scope.watch(scope.all_keys(), from);
    for watch in [&mut live, &mut replayed] {
        let batch = within("a commit", watch.next()).await.expect("goes on");
        assert_eq!(batch.commits().len(), 1);
        assert_eq!(batch.last_revision(), scope.revision_at(3));
        let seen: Vec<_> = batch
            .events()
            .map(|event| scope.describe_event(event))
            .collect();
        assert_eq!(seen, SEVERAL, "in the order of the operations");
    }
    expect_only(&scope, &mut live, "z").await;
}

pub(super) async fn watch_delivers_watched_part_of_commit_in_one_batch(scope: KeyScope) {
    let from = WatchFrom::Revision(scope.revision_at(3));
    let mut live = scope.watch(scope.prefix("d/"), from);
    commit_several(&scope).await;
    let mut replayed = scope.watch(scope.prefix("d/"), from);
    for watch in [&mut live, &mut replayed] {
        let batch = within("a commit", watch.next()).await.expect("goes on");
        let commit = &batch.commits()[0];
        let meant: Vec<_> = batch
            .events_of(commit)
            .map(|event| scope.describe_event(event))
            .collect();
        assert_eq!(meant, [SEVERAL[0], SEVERAL[2], SEVERAL[3]]);
        assert_eq!(batch.events().count(), 3);
    }
    expect_only(&scope, &mut live, "d/z").await;
}

pub(super) async fn watch_of_non_prefix_range(scope: KeyScope) {
    let mut watch = scope.watch(scope.between("b", "d"), WatchFrom::Now);
    let mut same = scope.watch(scope.between("b", "d"), WatchFrom::Now);
    let ops = ["a", "b", "c", "cc", "d"].map(|name| scope.put_op(name, "1"));
    scope.commit(Txn::from_ops(ops.to_vec())).await;
    let expected = ["b", "c", "cc"].map(|name| format!("{name}=1 @+1 (created +1, version 1)"));
    assert_eq!(scope.events(&mut watch, 3).await, expected);
    assert_eq!(scope.events(&mut same, 3).await, expected);
    expect_only(&scope, &mut watch, "cd").await;
}

pub(super) async fn watch_progress_covers_dispatched_commits(scope: KeyScope) {
    let mut watch = scope.watch(scope.single_key("a"), WatchFrom::Now);
    scope.put("a", "1").await;
    assert_eq!(scope.events(&mut watch, 1).await, &STORY[..1]);
    // Commits that are not for this watch move it on as well.
    for number in 0..10 {
        scope.put("b", &number.to_string()).await;
    }
    let revision = scope.revision().await;
    within("dispatch", scope.store.wait_dispatched(revision)).await;
    let through = watch.progress_revision().expect("it has read everything");
    assert!(through >= revision, "{through} < {revision}");
    // Also one that begins now, and has never been read.
    let fresh = scope.watch(scope.single_key("a"), WatchFrom::Now);
    assert!(
        fresh
            .progress_revision()
            .is_some_and(|through| through >= revision)
    );
}

/// Shows G13.
pub(super) async fn watch_progress_waits_for_the_reader(scope: KeyScope) {
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    let revision = scope.put("a", "1").await;
    within("dispatch", scope.store.wait_dispatched(revision)).await;
    let early = watch.progress_revision();
    assert!(
        early.is_none_or(|through| through < revision),
        "{early:?} covers {revision}, which has not been read"
    );
    scope.events(&mut watch, 1).await;
    assert!(
        watch
            .progress_revision()
            .is_some_and(|through| through >= revision)
    );
    let mut behind = scope.watch(scope.all_keys(), WatchFrom::Revision(revision));
    assert!(
        behind
            .progress_revision()
            .is_none_or(|through| through < revision)
    );
    scope.events(&mut behind, 1).await;
    // It finds out that there is no more by looking.
    assert!(behind.next().now_or_never().is_none());
    assert!(
        behind
            .progress_revision()
            .is_some_and(|through| through >= revision)
    );
}

pub(super) async fn cancelled_watch_read_loses_no_event(scope: KeyScope) {
    let mut watch = scope.watch(scope.all_keys(), WatchFrom::Now);
    let mut seen = Vec::new();
    for number in 0..50 {
        assert!(watch.next().now_or_never().is_none(), "nothing is there");
        let revision = scope.put("a", &number.to_string()).await;
        within("dispatch", scope.store.wait_dispatched(revision)).await;
        // A reader that is woken and goes away before it looks.
        drop(watch.next());
        let batch = within("a commit", watch.next()).await.expect("goes on");
        seen.extend(batch.commits().iter().map(|commit| commit.revision()));
    }
    let expected: Vec<_> = (1..=50).map(|offset| scope.revision_at(offset)).collect();
    assert_eq!(seen, expected);
}

pub(super) async fn dropped_watch_does_not_affect_others(scope: KeyScope) {
    let mut kept = scope.watch(scope.all_keys(), WatchFrom::Now);
    let same_range = scope.watch(scope.all_keys(), WatchFrom::Now);
    let other_range = scope.watch(scope.single_key("a"), WatchFrom::Now);
    scope.put("a", "1").await;
    drop((same_range, other_range));
    scope.put("b", "1").await;
    assert_eq!(scope.events(&mut kept, 2).await, &STORY[..2]);
}

/// Shows G11.
pub(super) async fn watch_far_behind_catches_up_from_history(scope: KeyScope) {
    // More than the capacity of a mailbox. Every other commit is for another watch.
    const COMMITS: u64 = 2600;
    let mut lagging = scope.watch(scope.prefix("d/"), WatchFrom::Now);
    let mut keeping_up = scope.watch(scope.prefix("d/"), WatchFrom::Now);
    let reading = tokio::spawn({
        let scope = scope.clone();
        async move {
            scope
                .commits(&mut keeping_up, COMMITS as usize / 2)
                .await
                .len()
        }
    });
    let puts = (0..COMMITS).map(|number| {
        let name = if number % 2 == 0 { "d/a" } else { "e" };
        scope.put(name, "x")
    });
    futures::future::join_all(puts).await;
    within("the reader", reading).await.expect("reads all");
    let commits = scope.commits(&mut lagging, COMMITS as usize / 2).await;
    for (number, commit) in commits.iter().enumerate() {
        let event = &commit.events()[0];
        assert_eq!(event.version().version(), number as u64 + 1, "none missing");
        assert_eq!(event.prior().is_none(), number == 0);
    }
    expect_only(&scope, &mut lagging, "d/z").await;
}

pub(super) async fn watches_of_same_key_are_independent(scope: KeyScope) {
    let mut watches: Vec<_> = (0..20)
        .map(|_| scope.watch(scope.single_key("a"), WatchFrom::Now))
        .collect();
    scope.put("a", "1").await;
    for watch in watches.iter_mut().step_by(2) {
        assert_eq!(scope.events(watch, 1).await, &STORY[..1]);
    }
    scope.put("b", "1").await;
    scope.put("a", "2").await;
    for (number, watch) in watches.iter_mut().enumerate() {
        let expected = [STORY[0], STORY[2]];
        let expected = &expected[usize::from(number % 2 == 0)..];
        assert_eq!(scope.events(watch, expected.len()).await, expected);
    }
}
