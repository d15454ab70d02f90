//! A slow watcher (CONC §4.4).

use crate::check::checks;
use crate::failure::{ensure, same};
use crate::object::{revision, with};
use crate::watch::{NextEvent, WatchStream};
use crate::{Outcome, Scope};
use std::time::Duration;

checks! { slow_watcher:
    ["CONC-103"] slow_watcher_is_disconnected_and_can_resume [],
}

/// More than kernel and server buffer together.
const WRITES: usize = 1500;
const VALUE_BYTES: usize = 30 * 1024;

async fn slow_watcher_is_disconnected_and_can_resume(scope: Scope) -> Outcome {
    let made = scope.make("configmaps", "a").await?;
    let mut from = revision(&made)?;
    let mut watch = watch_from(&scope.with_small_buffer_client(), from).await?;
    let written = churn(&scope).await?;
    let mut seen = Vec::new();
    // Reopens the watch at the last seen revision until no event is missing.
    for attempt in 0.. {
        read(&mut watch, &mut seen, written.len()).await?;
        if seen.len() == written.len() {
            break;
        }
        ensure!(
            attempt < 20,
            "{} of {WRITES} after {attempt} watches",
            seen.len()
        );
        from = seen.last().copied().unwrap_or(from);
        watch = watch_from(&scope, from).await?;
    }
    same("revisions", &written, &seen)
}

async fn watch_from(scope: &Scope, from: u64) -> Outcome<WatchStream> {
    let text = from.to_string();
    scope.watch(&[("resourceVersion", &text)]).await
}

/// Reads the available events up to the end, or up to the last write. An ERROR event is a failure.
async fn read(watch: &mut WatchStream, seen: &mut Vec<u64>, all: usize) -> Outcome {
    while seen.len() < all {
        match watch.next(Duration::from_secs(20)).await {
            NextEvent::Event(event) if event.kind == "MODIFIED" => seen.push(event.revision()?),
            NextEvent::End => return Ok(()),
            other => return Err(watch.instead_of("an event or the end", &other)),
        }
    }
    Ok(())
}

/// Changes one object many times, and returns the revisions.
async fn churn(scope: &Scope) -> Outcome<Vec<u64>> {
    let mut object = scope.get("configmaps", "a").await?;
    let mut written = Vec::new();
    for number in 0..WRITES {
        let value = format!("{number}-{}", "x".repeat(VALUE_BYTES));
        object = scope
            .replace("configmaps", &with(&object, "/data/k", value))
            .await?;
        written.push(revision(&object)?);
    }
    Ok(written)
}
