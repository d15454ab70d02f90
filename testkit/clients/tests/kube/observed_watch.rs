//! The events of a kube-rs watcher, and their comparison with the change log.

use crate::store_change_log::{State, StoreChange, state_after};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::runtime::watcher::{self, Event};
use std::collections::BTreeMap;
use std::pin::pin;
use tokio::sync::watch;

/// From one beginning to the next.
#[derive(Debug, Default)]
struct WatchEpoch {
    initial: State,
    /// The initial state is complete.
    complete: bool,
    changes: Vec<StoreChange>,
}

/// All events of a watcher.
#[derive(Debug, Default)]
pub(crate) struct ObservedWatch {
    epochs: Vec<WatchEpoch>,
    /// The objects according to the last events.
    pub(crate) objects: BTreeMap<String, ConfigMap>,
    /// The number of errors for an expired resourceVersion.
    pub(crate) gone: usize,
    pub(crate) errors: usize,
}

/// Follows a watcher until it tells of an object with this name. `progress` is told the
/// newest revision.
pub(crate) async fn record_watch(
    events: impl Stream<Item = watcher::Result<Event<ConfigMap>>>,
    last: &str,
    progress: watch::Sender<u64>,
) -> ObservedWatch {
    let mut account = ObservedWatch::default();
    let mut events = pin!(events);
    while !account.objects.contains_key(last) {
        match events.next().await.expect("a watcher never ends") {
            Ok(event) => {
                let newest = account.add(event);
                progress.send_modify(|known| *known = newest.max(*known));
            }
            Err(error) => account.count_expired(&error),
        }
    }
    account
}

fn revision_of(object: &ConfigMap) -> u64 {
    let revision = object.resource_version().and_then(|text| text.parse().ok());
    revision.expect("an object has a revision")
}

impl ObservedWatch {
    /// Returns the newest revision of which it knows, once it knows the state.
    fn add(&mut self, event: Event<ConfigMap>) -> u64 {
        match event {
            Event::Init => {
                self.objects.clear();
                self.epochs.push(WatchEpoch::default());
            }
            Event::InitApply(object) => {
                let (name, revision) = (object.name_any(), revision_of(&object));
                let twice = self.epoch().initial.insert(name, revision);
                assert_eq!(twice, None, "an object is there once");
                self.objects.insert(object.name_any(), object);
            }
            Event::InitDone => self.epoch().complete = true,
            Event::Apply(object) => {
                self.epoch().changes.push(change(&object, false));
                self.objects.insert(object.name_any(), object);
            }
            Event::Delete(object) => {
                self.epoch().changes.push(change(&object, true));
                self.objects.remove(&object.name_any());
            }
        }
        let epoch = self.epoch();
        let told = epoch.changes.last().map(|change| change.revision);
        let newest = told.or_else(|| epoch.initial.values().max().copied());
        newest.filter(|_| epoch.complete).unwrap_or(0)
    }

    fn epoch(&mut self) -> &mut WatchEpoch {
        self.epochs.last_mut().expect("it begins with a beginning")
    }

    fn count_expired(&mut self, error: &watcher::Error) {
        self.errors += 1;
        match error {
            watcher::Error::WatchError(status) => {
                assert_eq!(status.code, 410, "{status:?}");
                assert_eq!(status.reason, "Expired", "{status:?}");
                self.gone += 1;
            }
            // A wire was cut.
            watcher::Error::InitialListFailed(_)
            | watcher::Error::WatchStartFailed(_)
            | watcher::Error::WatchFailed(_) => {}
            watcher::Error::NoResourceVersion => panic!("{error}"),
        }
    }

    /// The number of complete initial lists.
    pub(crate) fn relists(&self) -> usize {
        self.epochs.iter().filter(|epoch| epoch.complete).count()
    }

    /// Whether it was told exactly what happened: after each beginning every change,
    /// once, in order, up to the end or the next beginning.
    pub(crate) fn check_against(&self, ledger: &[StoreChange]) -> Result<(), String> {
        let mut told = 0;
        let complete: Vec<_> = self.epochs.iter().filter(|epoch| epoch.complete).collect();
        for (number, epoch) in complete.iter().enumerate() {
            let is_last = number + 1 == complete.len();
            let start = epoch.start(ledger, told, is_last)?;
            told = start + epoch.changes.len();
            let real = ledger.get(start..told).unwrap_or_default();
            if let Some((real, seen)) = real.iter().zip(&epoch.changes).find(|(a, b)| a != b) {
                return Err(format!("{real:?} happened, and {seen:?} was told"));
            }
        }
        if told == ledger.len() {
            return Ok(());
        }
        Err(format!("{} changes, {told} of them told", ledger.len()))
    }
}

impl WatchEpoch {
    /// The number of changes that its initial state includes: `told` or more.
    fn start(&self, ledger: &[StoreChange], told: usize, is_last: bool) -> Result<usize, String> {
        let fits = |at: &usize| state_after(&ledger[..*at]) == self.initial;
        let start = match self.changes.first() {
            Some(first) => ledger.iter().position(|change| change == first),
            None if is_last => Some(ledger.len()),
            None => (told..=ledger.len()).find(fits),
        };
        match start.filter(fits) {
            Some(start) if start >= told => Ok(start),
            _ => Err(format!("no state is this one: {self:?}")),
        }
    }
}

fn change(object: &ConfigMap, deleted: bool) -> StoreChange {
    StoreChange {
        revision: revision_of(object),
        name: object.name_any(),
        deleted,
    }
}
