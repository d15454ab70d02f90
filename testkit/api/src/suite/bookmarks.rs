//! Bookmarks during a watch (CONC §4.3).

use crate::check::checks;
use crate::failure::{ensure, same, same_json};
use crate::object::{revision, with};
use crate::watch::NextEvent;
use crate::{Outcome, Scope};
use serde_json::json;
use std::time::Duration;

checks! { bookmarks:
    ["CONC-98"] watch_sends_bookmark_before_timeout [],
    ["CONC-98"] watch_sends_bookmark_every_minute [SlowMinutes],
}

async fn watch_sends_bookmark_before_timeout(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let from = revision(&made)?.to_string();
    let parameters = [
        ("resourceVersion", from.as_str()),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", "5"),
    ];
    let start = scope.monotonic_now();
    let mut watch = scope.watch(&parameters).await?;
    let changed = scope
        .replace("configmaps", &with(&made, "/data/k", "new"))
        .await?;
    watch.expect_summary("MODIFIED a").await?;
    let bookmark = watch.expect("BOOKMARK").await?;
    let took = scope.elapsed_since(start);
    let expected = Duration::from_secs(2)..Duration::from_millis(4900);
    ensure!(expected.contains(&took), "the bookmark came after {took:?}");
    let at = bookmark.revision()?;
    ensure!(at >= revision(&changed)?, "too old: {}", bookmark.object);
    let expected = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"resourceVersion": at.to_string()},
    });
    same_json("bookmark", &expected, &bookmark.object)?;
    // There may be a second one; then the end.
    let events = rest(&mut watch).await?;
    ensure!(
        events.iter().all(|kind| kind == "BOOKMARK"),
        "events: {events:?}"
    );
    Ok(())
}

/// The types of all events up to the end, which must be clean.
async fn rest(watch: &mut crate::WatchStream) -> Outcome<Vec<String>> {
    let mut kinds = Vec::new();
    loop {
        match watch.next(Duration::from_secs(20)).await {
            NextEvent::Event(event) => kinds.push(event.kind),
            NextEvent::End => return Ok(kinds),
            other => return Err(watch.instead_of("the end", &other)),
        }
    }
}

async fn watch_sends_bookmark_every_minute(scope: Scope) -> Outcome {
    const EXPECTED: [u64; 3] = [60, 120, 148];
    const TOLERANCE: u64 = 6;
    let made = scope.make("configmaps", "a").await?;
    let from = revision(&made)?.to_string();
    let parameters = [
        ("resourceVersion", from.as_str()),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", "150"),
    ];
    let start = scope.monotonic_now();
    let mut watch = scope.watch(&parameters).await?;
    scope
        .replace("configmaps", &with(&made, "/data/k", "new"))
        .await?;
    watch.expect_summary("MODIFIED a").await?;
    let (mut times, mut last) = (Vec::new(), 0);
    loop {
        match watch.next(Duration::from_secs(90)).await {
            NextEvent::Event(event) if event.kind == "BOOKMARK" => {
                let now = event.revision()?;
                ensure!(now >= last, "not ascending: {last}, {now}");
                last = now;
                times.push(scope.elapsed_since(start).as_secs());
            }
            NextEvent::End => break,
            other => return Err(watch.instead_of("a bookmark", &other)),
        }
    }
    same("bookmarks", &EXPECTED.len(), &times.len())?;
    for (expected, got) in EXPECTED.iter().zip(&times) {
        ensure!(
            got.abs_diff(*expected) <= TOLERANCE,
            "bookmarks after {times:?} s, expected {EXPECTED:?}"
        );
    }
    Ok(())
}
