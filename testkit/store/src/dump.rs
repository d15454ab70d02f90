//! A dump of everything observable of a store.

use crate::timeout::within;
use optik_store::{
    Commit, KeyRange, LeaseId, LiveSize, Origin, RangeQuery, Revision, Snapshot, Store, Version,
    Watch, WatchFrom, WatchSpec,
};
use std::time::Duration;

/// Two stores with equal dumps are indistinguishable, except for the remaining time of leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreDump {
    pub id: u64,
    pub revision: Revision,
    pub oldest: Revision,
    pub size: LiveSize,
    pub states: Vec<(Revision, Vec<DumpLine>)>,
    pub watches: Vec<(Revision, Vec<DumpLine>)>,
    pub leases: Vec<(LeaseId, Duration, Vec<Vec<u8>>)>,
}

/// A version or an event, with all that belongs to it. Kept as text: it is only
/// compared, and shown when it differs.
pub type DumpLine = String;

/// Beyond this many revisions, a portrait looks at some of them only.
const REVISIONS_MAX: u64 = 30;

impl StoreDump {
    /// # Panics
    /// If the store cannot be read.
    pub async fn capture(store: &Store) -> Self {
        let latest = store.latest().await.expect("the store can be read");
        let kept = kept_revisions(&latest);
        let states = kept.iter().map(|at| (*at, state(&latest, *at)));
        let states = states.collect();
        let mut watches = Vec::new();
        for from in kept {
            let all = KeyRange::all();
            watches.push((from, events(store, all, from, latest.revision()).await));
        }
        Self {
            id: store.id(),
            revision: latest.revision(),
            oldest: latest.oldest(),
            size: latest.size(),
            states,
            watches,
            leases: leases(store).await,
        }
    }
}

impl StoreDump {
    /// The first difference, if any.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Option<String> {
        let numbers = |of: &Self| (of.id, of.revision, of.oldest, of.size);
        let here = [
            format!("{:?}", numbers(self)),
            format!("{:#?}", self.leases),
        ];
        let there = [
            format!("{:?}", numbers(other)),
            format!("{:#?}", other.leases),
        ];
        let totals = here
            .into_iter()
            .zip(there)
            .map(|(here, there)| ("", here, there));
        let states = first_difference("state at", &self.states, &other.states);
        let events = first_difference("events from", &self.watches, &other.watches);
        let mut all = totals
            .map(|(what, here, there)| (what.to_owned(), here, there))
            .chain(states)
            .chain(events);
        let (what, here, there) = all.find(|(_, here, there)| here != there)?;
        Some(format!("{what}\nbefore: {here}\nafter: {there}"))
    }
}

fn first_difference(
    what: &str,
    here: &[(Revision, Vec<DumpLine>)],
    there: &[(Revision, Vec<DumpLine>)],
) -> impl Iterator<Item = (String, String, String)> {
    let pairs = here.iter().zip(there);
    pairs.map(move |((revision, here), (_, there))| {
        let lines = here.len().max(there.len());
        let first = (0..lines).find(|line| here.get(*line) != there.get(*line));
        let show = |lines: &[DumpLine]| format!("{:?}", first.map(|line| lines.get(line)));
        (format!("{what} {revision}"), show(here), show(there))
    })
}

/// The oldest, the newest, and as many between as there is patience for.
fn kept_revisions(latest: &Snapshot) -> Vec<Revision> {
    let (oldest, newest) = (latest.oldest().get(), latest.revision().get());
    let step = (newest - oldest) / REVISIONS_MAX + 1;
    let mut kept: Vec<_> = (oldest..=newest).step_by(step as usize).collect();
    if kept.last() != Some(&newest) {
        kept.push(newest);
    }
    kept.into_iter().map(Revision::new).collect()
}

fn state(latest: &Snapshot, at: Revision) -> Vec<DumpLine> {
    let query = RangeQuery {
        at: Some(at),
        ..RangeQuery::new(KeyRange::all())
    };
    let found = latest.range(&query).expect("the revision is kept");
    found.entries.iter().map(|entry| line(entry)).collect()
}

/// The events of a watch from `from` to `last`.
async fn events(store: &Store, range: KeyRange, from: Revision, last: Revision) -> Vec<DumpLine> {
    let spec = WatchSpec {
        range,
        from: WatchFrom::Revision(from),
    };
    let mut watch = store.watch(spec).expect("the revision is kept");
    let mut lines = Vec::new();
    // Nothing was ever committed at the very first revision.
    let mut at = from.max(Revision::FIRST).previous();
    while at < last && last > Revision::FIRST {
        let batch = within("events", watch.next()).await.expect("goes on");
        for commit in batch.commits() {
            lines.push(commit_line(commit));
            lines.extend(commit.events().iter().map(|event| {
                let prior = event.prior().map(|prior| line(prior));
                format!("{} was {prior:?}", line(event.version()))
            }));
        }
        at = batch.last_revision();
    }
    lines
}

fn commit_line(commit: &Commit) -> DumpLine {
    let origin = commit.origin().map(|origin| Origin::clone(origin));
    format!("{} at {:?} by {origin:?}", commit.revision(), commit.time())
}

fn line(version: &Version) -> DumpLine {
    let origin = version.origin().map(|origin| Origin::clone(origin));
    let value = version.value();
    let value = if value.len() > 100 {
        format!("{} bytes, {:x}", value.len(), checksum(value))
    } else {
        format!("{value:?}")
    };
    format!(
        "{:?} = {value} @{} created {} version {} lease {} at {:?} by {origin:?}",
        &version.key()[..],
        version.mod_revision(),
        version.create_revision(),
        version.version(),
        version.lease(),
        version.time(),
    )
}

fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

async fn leases(store: &Store) -> Vec<(LeaseId, Duration, Vec<Vec<u8>>)> {
    let mut known = Vec::new();
    for id in store.leases().await.expect("the store can be read") {
        let info = store.lease(id).await.expect("was listed");
        let keys = info.keys.iter().map(|key| key.to_vec()).collect();
        known.push((id, info.granted, keys));
    }
    known
}

/// Reads a watch until it has nothing up to `last` left.
///
/// # Panics
/// If it ends.
pub async fn drain(
    store: &Store,
    watch: &mut Watch,
    last: Revision,
) -> Vec<std::sync::Arc<Commit>> {
    within("dispatch", store.wait_dispatched(last)).await;
    let mut commits = Vec::new();
    while watch
        .progress_revision()
        .is_none_or(|through| through < last)
    {
        let Some(batch) = futures::FutureExt::now_or_never(watch.next()) else {
            // It looked through a part of the history, or is up to date.
            tokio::task::yield_now().await;
            continue;
        };
        commits.extend(batch.expect("goes on").commits().iter().cloned());
    }
    commits
}
