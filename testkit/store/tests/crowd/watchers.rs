//! Watchers of all kinds: eager, slow, and those who come and go.

use crate::scene::{Done, all_done};
use optik_store::Revision;
use optik_store_testkit::client::{Client, Watcher};
use optik_store_testkit::history::{Ending, Span, Wanted};
use optik_store_testkit::patience::within;

/// More commits than a watch is given ahead of its reading.
const LAG_COMMITS: u64 = 1200;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Habit {
    /// Reads whatever there is.
    Eager,
    /// Reads a little, and then nothing for a long time.
    Slow,
    /// Leaves after each batch and comes back.
    Fickle,
    /// Begins ahead of time.
    Early,
}

impl Habit {
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

/// A watcher, and where it goes on.
#[derive(Clone)]
pub(crate) struct Post {
    habit: Habit,
    span: Span,
    number: u32,
    next: u64,
}

impl Post {
    pub(crate) fn all() -> Vec<Self> {
        let spans = [
            Span::everything(),
            Span::under("k/"),
            Span::one("k/b"),
            Span {
                start: "k/b".into(),
                end: Some("other/b".into()),
            },
        ];
        let pairs = Habit::ALL
            .iter()
            .flat_map(|habit| spans.iter().map(move |s| (*habit, s)));
        let post = |(number, (habit, span)): (usize, (Habit, &Span))| Self {
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

/// Watches until everything has been seen that the writers did, or the store stops.
pub(crate) async fn keep_watching(client: Client, mut post: Post, mut done: Done) -> Post {
    if post.habit == Habit::Early {
        post.next = client.store.snapshot().revision().get() + 50;
    }
    loop {
        let name = format!("{} {}", post.habit.name(), post.number);
        let Ok(mut watcher) = client.watch(&name, &post.span, post.next) else {
            if !start_again(&client, &mut post).await {
                return post;
            }
            continue;
        };
        let left = session(&client, post.habit, &mut watcher, &mut done).await;
        post.next = watcher.next_revision();
        watcher.leave();
        match left {
            Left::Resumes => {}
            Left::Finished | Left::Ended(Ending::Stopped) => return post,
            Left::Ended(_) => {
                if !start_again(&client, &mut post).await {
                    return post;
                }
            }
        }
    }
}

/// What was missed is gone: read the state, and go on from there.
async fn start_again(client: &Client, post: &mut Post) -> bool {
    let newest = client.store.snapshot().revision().get();
    let read = client.read(post.span.clone(), Wanted::Latest).await;
    // At least as new as what was read; what came between is judged as missed.
    post.next = newest + 1;
    read.is_ok()
}

enum Left {
    Finished,
    Resumes,
    Ended(Ending),
}

async fn session(client: &Client, habit: Habit, watcher: &mut Watcher, done: &mut Done) -> Left {
    loop {
        let all = tokio::select! {
            biased;
            read = watcher.read() => match read {
                Ok(()) => None,
                Err(ending) => return Left::Ended(ending),
            },
            all = all_done(done) => Some(all),
        };
        if let Some(all) = all {
            return finish(client, watcher, all).await;
        }
        match habit {
            Habit::Eager | Habit::Early => {}
            Habit::Slow => pause(client, watcher, done).await,
            Habit::Fickle => return Left::Resumes,
        }
    }
}

/// Does not read until the store has gone far ahead, or is done.
async fn pause(client: &Client, watcher: &Watcher, done: &mut Done) {
    let far = Revision::new(watcher.next_revision() + LAG_COMMITS);
    tokio::select! {
        _ = client.store.reached(far) => {}
        _ = all_done(done) => {}
    }
}

/// Reads all that is left, up to a bookmark that says so.
async fn finish(client: &Client, watcher: &mut Watcher, all: u64) -> Left {
    tokio::select! {
        () = client.store.dispatched(Revision::new(all)) => {}
        // A store that has stopped dispatches no more.
        ending = until_the_end(watcher) => return Left::Ended(ending),
    }
    loop {
        if watcher.bookmark().is_some_and(|through| through >= all) {
            return Left::Finished;
        }
        let reading = async {
            tokio::select! {
                biased;
                read = watcher.read() => read.err(),
                () = tokio::task::yield_now() => None,
            }
        };
        if let Some(ending) = within("the rest", reading).await {
            return Left::Ended(ending);
        }
    }
}

async fn until_the_end(watcher: &mut Watcher) -> Ending {
    loop {
        if let Err(ending) = watcher.read().await {
            return ending;
        }
    }
}
