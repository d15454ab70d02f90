//! Watchers of all kinds: eager, slow, and reconnecting.

use crate::scenario::{WritersDone, all_done};
use optik_store::Revision;
use optik_store_testkit::client::{RecordingClient, RecordingWatcher};
use optik_store_testkit::history::{KeySpan, ReadFreshness, WatchRecordingEnd};
use optik_store_testkit::timeout::within;

/// More commits than a watch is given ahead of its reading.
const LAG_COMMITS: u64 = 1200;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPattern {
    /// Reads all available events.
    Eager,
    /// Reads a few events, then pauses for a long time.
    Slow,
    /// Disconnects after each batch and reconnects.
    Fickle,
    /// Begins ahead of time.
    Early,
}

impl ReadPattern {
    pub(crate) const ALL: [Self; 4] = [Self::Eager, Self::Slow, Self::Fickle, Self::Early];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Slow => "slow",
            Self::Fickle => "fickle",
            Self::Early => "early",
        }
    }
}

/// A watcher, and its next revision.
#[derive(Clone)]
pub(crate) struct WatcherTask {
    habit: ReadPattern,
    span: KeySpan,
    number: u32,
    next: u64,
}

impl WatcherTask {
    pub(crate) fn all() -> Vec<Self> {
        let spans = [
            KeySpan::all(),
            KeySpan::prefix("k/"),
            KeySpan::single("k/b"),
            KeySpan {
                start: "k/b".into(),
                end: Some("other/b".into()),
            },
        ];
        let pairs = ReadPattern::ALL
            .iter()
            .flat_map(|habit| spans.iter().map(move |s| (*habit, s)));
        let post = |(number, (habit, span)): (usize, (ReadPattern, &KeySpan))| Self {
            habit,
            span: span.clone(),
            number: number as u32,
            next: 1,
        };
        pairs.enumerate().map(post).collect()
    }

    /// Watchers are clients, too: they read when they have lost the thread.
    pub(crate) fn client(&self) -> u32 {
        1000 + self.number
    }
}

/// Watches until it has seen all writes, or the store stops.
pub(crate) async fn run_watcher(
    client: RecordingClient,
    mut post: WatcherTask,
    mut done: WritersDone,
) -> WatcherTask {
    if post.habit == ReadPattern::Early {
        post.next = client.store.snapshot().revision().get() + 50;
    }
    loop {
        let name = format!("{} {}", post.habit.name(), post.number);
        let Ok(mut watcher) = client.watch(&name, &post.span, post.next) else {
            if !resync(&client, &mut post).await {
                return post;
            }
            continue;
        };
        let left = session(&client, post.habit, &mut watcher, &mut done).await;
        post.next = watcher.next_revision();
        watcher.finish();
        match left {
            SessionResult::Resumes => {}
            SessionResult::Finished | SessionResult::Ended(WatchRecordingEnd::Stopped) => {
                return post;
            }
            SessionResult::Ended(_) => {
                if !resync(&client, &mut post).await {
                    return post;
                }
            }
        }
    }
}

/// Missed events were compacted: reads the state, and continues from there.
async fn resync(client: &RecordingClient, post: &mut WatcherTask) -> bool {
    let newest = client.store.snapshot().revision().get();
    let read = client.read(post.span.clone(), ReadFreshness::Latest).await;
    // At least as new as what was read; what came between is judged as missed.
    post.next = newest + 1;
    read.is_ok()
}

enum SessionResult {
    Finished,
    Resumes,
    Ended(WatchRecordingEnd),
}

async fn session(
    client: &RecordingClient,
    habit: ReadPattern,
    watcher: &mut RecordingWatcher,
    done: &mut WritersDone,
) -> SessionResult {
    loop {
        let all = tokio::select! {
            biased;
            read = watcher.read() => match read {
                Ok(()) => None,
                Err(ending) => return SessionResult::Ended(ending),
            },
            all = all_done(done) => Some(all),
        };
        if let Some(all) = all {
            return finish(client, watcher, all).await;
        }
        match habit {
            ReadPattern::Eager | ReadPattern::Early => {}
            ReadPattern::Slow => pause(client, watcher, done).await,
            ReadPattern::Fickle => return SessionResult::Resumes,
        }
    }
}

/// Does not read until the store has gone far ahead, or is done.
async fn pause(client: &RecordingClient, watcher: &RecordingWatcher, done: &mut WritersDone) {
    let far = Revision::new(watcher.next_revision() + LAG_COMMITS);
    tokio::select! {
        _ = client.store.wait_for_revision(far) => {}
        _ = all_done(done) => {}
    }
}

/// Reads all that is left, up to a bookmark that says so.
async fn finish(
    client: &RecordingClient,
    watcher: &mut RecordingWatcher,
    all: u64,
) -> SessionResult {
    tokio::select! {
        () = client.store.wait_dispatched(Revision::new(all)) => {}
        // A store that has stopped dispatches no more.
        ending = read_to_end(watcher) => return SessionResult::Ended(ending),
    }
    loop {
        if watcher.bookmark().is_some_and(|through| through >= all) {
            return SessionResult::Finished;
        }
        let reading = async {
            tokio::select! {
                biased;
                read = watcher.read() => read.err(),
                () = tokio::task::yield_now() => None,
            }
        };
        if let Some(ending) = within("the rest", reading).await {
            return SessionResult::Ended(ending);
        }
    }
}

async fn read_to_end(watcher: &mut RecordingWatcher) -> WatchRecordingEnd {
    loop {
        if let Err(ending) = watcher.read().await {
            return ending;
        }
    }
}
