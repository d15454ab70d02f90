//! Runs a random history on a store and on the model, and compares every result.

use super::plan::{PlanStep, resolve_query, resolve_txn, revision_at};
use super::{ModelEntry, ModelEvent, ModelResult, StoreModel};
use crate::timeout::within;
use futures::FutureExt;
use optik_store::{
    CommitError, CompactError, KeyRange, LeaseError, LeaseId, Origin, RangeError, RangeQuery,
    Revision, Snapshot, Store, Txn, TxnLimits, Watch, WatchError, WatchFrom, WatchSpec,
};
use std::time::Duration;

/// Long enough for no lease to run out while the test runs.
const TTL: Duration = Duration::from_secs(100_000);

/// Opens the store under test; called again for every restart.
pub trait StoreFixture {
    fn open(&self) -> Store;
    /// Whether writes survive reopening.
    fn is_durable(&self) -> bool;
    fn limits(&self) -> TxnLimits;
}

/// Runs all steps.
///
/// # Errors
/// With words, if the store answers anything but what the model does.
pub async fn run(bench: &impl StoreFixture, steps: &[PlanStep]) -> Result<(), String> {
    let mut driver = ModelDriver {
        bench,
        store: bench.open(),
        model: StoreModel::default(),
        watches: Vec::new(),
        held: Vec::new(),
    };
    for (number, step) in steps.iter().enumerate() {
        let done = driver.step(step).await;
        done.map_err(|difference| format!("step {number}, {step:?}: {difference}"))?;
    }
    let end = driver.finish().await;
    end.map_err(|difference| format!("at the end: {difference}"))
}

struct ModelDriver<'bench, B> {
    bench: &'bench B,
    store: Store,
    model: StoreModel,
    watches: Vec<DrivenWatch>,
    held: Vec<Snapshot>,
}

/// A watch, and the revision up to which it has shown everything, plus one.
struct DrivenWatch {
    watch: Watch,
    range: KeyRange,
    next: Revision,
}

macro_rules! same {
    ($what:expr, $store:expr, $model:expr) => {
        let (store, model) = ($store, $model);
        if store != model {
            let what = $what;
            return Err(format!("{what}\n store: {store:#?}\n model: {model:#?}"));
        }
    };
}

impl<B: StoreFixture> ModelDriver<'_, B> {
    async fn step(&mut self, step: &PlanStep) -> Result<(), String> {
        match step {
            PlanStep::Commit(txn) => self.commit(&resolve_txn(txn, &self.model)).await?,
            PlanStep::Compact(when) => {
                let to = revision_at(*when, self.model.revision());
                self.compact(to).await?;
            }
            PlanStep::Reopen if self.bench.is_durable() => self.reopen().await?,
            PlanStep::Reopen => {}
            PlanStep::Read(query) => self.read(query).await?,
            PlanStep::Hold => self.held.push(self.store.snapshot()),
            PlanStep::ReadHeld { which, query } => self.read_held(*which, query)?,
            PlanStep::Watch { range, from } => {
                let from = revision_at(*from, self.model.revision());
                self.watch(range, from)?;
            }
            PlanStep::Drain { which } => self.drain(*which).await?,
            PlanStep::Resume { which } => self.resume(*which)?,
            PlanStep::Grant(id) => self.grant(*id).await?,
            PlanStep::Revoke(id) => self.revoke(*id).await?,
            PlanStep::KeepAlive(id) => self.keep_alive(*id).await?,
            PlanStep::Shrink => self.store.defragment().await.map_err(|e| e.to_string())?,
        }
        self.compare_newest()
    }

    async fn commit(&mut self, txn: &Txn) -> Result<(), String> {
        let limits = self.bench.limits();
        let expected = self.model.commit(txn, &limits);
        let commit = self.store.commit(txn.clone(), Origin::default());
        match (within("a commit", commit).await, expected) {
            (Ok(result), Ok(expected)) => {
                same!(format!("{txn:?}"), ModelResult::from(&result), expected);
            }
            (Err(CommitError::Txn(error)), Err(reasons)) if reasons.contains(&error) => {}
            (store, model) => {
                return Err(format!("{txn:?}\n store: {store:#?}\n model: {model:#?}"));
            }
        }
        Ok(())
    }

    async fn compact(&mut self, to: Revision) -> Result<(), String> {
        let (oldest, newest) = (self.model.floor(), self.model.revision());
        let expected = if self.model.compact(to) {
            Ok(())
        } else if to > newest {
            Err(CompactError::Future { newest })
        } else {
            Err(CompactError::Compacted { oldest })
        };
        let compacted = within("compaction", self.store.compact(to)).await;
        same!("compaction", compacted, expected);
        Ok(())
    }

    /// Watches end with the store, and go on from where they were.
    async fn reopen(&mut self) -> Result<(), String> {
        within("the end", self.store.close()).await;
        self.held.clear();
        self.store = self.bench.open();
        for which in (0..self.watches.len()).rev() {
            self.resume(which)?;
        }
        self.compare_everything().await
    }

    async fn read(&self, query: &RangeQuery) -> Result<(), String> {
        let query = resolve_query(query, self.model.revision());
        let latest = self.store.latest().await.map_err(|e| e.to_string())?;
        let found = latest.range(&query).map(|found| ModelResult::from(&found));
        same!(format!("{query:?}"), found, self.model.range(&query));
        Ok(())
    }

    /// A snapshot cannot read later revisions, and can always read its own.
    fn read_held(&self, which: usize, query: &RangeQuery) -> Result<(), String> {
        let Some(held) = self.held.get(which) else {
            return Ok(());
        };
        let newest = held.revision();
        let query = resolve_query(query, newest);
        let at = query.at.unwrap_or(newest);
        let found = held.range(&query).map(|found| ModelResult::from(&found));
        let expected = if at > newest {
            Err(RangeError::Future { newest })
        } else if at < self.model.floor() && at != newest {
            let oldest = self.model.floor();
            Err(RangeError::Compacted { oldest })
        } else {
            Ok(self.model.range_of(at, &query))
        };
        same!(format!("held at {newest}: {query:?}"), found, expected);
        Ok(())
    }

    fn watch(&mut self, range: &KeyRange, from: Revision) -> Result<(), String> {
        let spec = WatchSpec {
            range: range.clone(),
            from: WatchFrom::Revision(from),
        };
        let oldest = self.model.floor();
        match self.store.watch(spec) {
            Ok(watch) if from >= oldest => self.watches.push(DrivenWatch {
                watch,
                range: range.clone(),
                next: from,
            }),
            Err(error) if from < oldest => {
                same!("a watch", error, WatchError::Compacted { oldest });
            }
            other => return Err(format!("watch from {from}, kept from {oldest}: {other:?}")),
        }
        Ok(())
    }

    fn resume(&mut self, which: usize) -> Result<(), String> {
        if which >= self.watches.len() {
            return Ok(());
        }
        let DrivenWatch { range, next, .. } = self.watches.remove(which);
        self.watch(&range, next)
    }

    async fn drain(&mut self, which: usize) -> Result<(), String> {
        if which >= self.watches.len() {
            return Ok(());
        }
        let mut watching = self.watches.remove(which);
        let newest = self.model.revision();
        let expected = self.model.commits(&watching.range, watching.next);
        let (seen, ended) = read_to(&self.store, &mut watching.watch, newest).await;
        match ended {
            None => {
                same!("a watch", seen, expected);
                watching.next = watching.next.max(newest.next());
                self.watches.push(watching);
            }
            Some(reason) => {
                // Only what it has not shown can keep it from going on.
                let next = seen.last().map_or(watching.next, |(last, _)| last.next());
                let oldest = self.model.floor();
                same!("an end", reason, WatchError::Compacted { oldest });
                same!("a watch", seen.as_slice(), &expected[..seen.len()]);
                if next >= oldest {
                    return Err(format!("a watch at {next} ended, kept from {oldest}"));
                }
            }
        }
        Ok(())
    }

    async fn grant(&mut self, id: i64) -> Result<(), String> {
        let granted = self.store.grant_lease(Some(LeaseId(id)), TTL).await;
        let expected = if self.model.grant(id) {
            Ok(LeaseId(id))
        } else {
            Err(LeaseError::Exists)
        };
        same!("a grant", granted, expected);
        Ok(())
    }

    async fn revoke(&mut self, id: i64) -> Result<(), String> {
        let revoked = self.store.revoke_lease(LeaseId(id)).await;
        let expected = if self.model.revoke(id) {
            Ok(self.model.revision())
        } else {
            Err(LeaseError::NotFound)
        };
        same!("a revocation", revoked, expected);
        Ok(())
    }

    async fn keep_alive(&self, id: i64) -> Result<(), String> {
        let kept = self.store.keep_lease_alive(LeaseId(id)).await;
        let known = self.model.leases().contains(&id);
        same!("keeping alive", kept.is_ok(), known);
        Ok(())
    }

    fn compare_newest(&self) -> Result<(), String> {
        let snapshot = self.store.snapshot();
        same!("revision", snapshot.revision(), self.model.revision());
        same!("oldest", snapshot.oldest(), self.model.floor());
        let all = KeyRange::all();
        let entries: Vec<_> = snapshot
            .entries(&all)
            .map(|e| ModelEntry::from(&**e))
            .collect();
        let expected: Vec<_> = self.model.state().values().cloned().collect();
        same!("keys", snapshot.size().keys, expected.len() as u64);
        let bytes: usize = expected.iter().map(|e| e.key.len() + e.value.len()).sum();
        same!("bytes", snapshot.size().bytes, bytes as u64);
        same!("the newest state", entries, expected);
        Ok(())
    }

    /// Compares every readable state, every event, every lease.
    async fn compare_everything(&self) -> Result<(), String> {
        let (oldest, newest) = (self.model.floor(), self.model.revision());
        let snapshot = self.store.snapshot();
        for at in oldest.get()..=newest.get() {
            let at = Revision::new(at);
            let query = RangeQuery {
                at: Some(at),
                ..RangeQuery::new(KeyRange::all())
            };
            let found = snapshot
                .range(&query)
                .map(|found| ModelResult::from(&found));
            same!(
                format!("the state at {at}"),
                found,
                self.model.range(&query)
            );
        }
        for from in oldest.get()..=newest.next().get() {
            let from = Revision::new(from);
            let spec = WatchSpec {
                range: KeyRange::all(),
                from: WatchFrom::Revision(from),
            };
            let mut watch = self.store.watch(spec).map_err(|e| e.to_string())?;
            let (seen, ended) = read_to(&self.store, &mut watch, newest).await;
            same!("an end", ended, None);
            let expected = self.model.commits(&KeyRange::all(), from);
            same!(format!("the events from {from}"), seen, expected);
        }
        self.compare_leases().await
    }

    async fn compare_leases(&self) -> Result<(), String> {
        let leases = self.store.leases().await.map_err(|e| e.to_string())?;
        let ids: Vec<_> = leases.iter().map(|id| id.0).collect();
        same!("leases", ids, self.model.leases());
        for id in leases {
            let info = self.store.lease(id).await.map_err(|e| e.to_string())?;
            let keys: Vec<_> = info.keys.iter().map(|key| key.to_vec()).collect();
            same!(format!("keys of {id}"), keys, self.model.keys_of(id.0));
            same!("time", info.granted, TTL);
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), String> {
        self.compare_everything().await?;
        while !self.watches.is_empty() {
            let before = self.watches.len();
            self.drain(0).await?;
            if self.watches.len() == before {
                self.watches.pop();
            }
        }
        within("the end", self.store.close()).await;
        Ok(())
    }
}

impl StoreModel {
    fn range_of(&self, at: Revision, query: &RangeQuery) -> ModelResult {
        let mut whole = self.clone();
        whole.floor = 0;
        let query = RangeQuery {
            at: Some(at),
            ..query.clone()
        };
        whole.range(&query).expect("nothing is compacted")
    }
}

type Seen = Vec<(Revision, Vec<ModelEvent>)>;

/// Reads a watch until nothing up to `newest` is left, or it ends.
async fn read_to(store: &Store, watch: &mut Watch, newest: Revision) -> (Seen, Option<WatchError>) {
    within("dispatch", store.wait_dispatched(newest)).await;
    let mut seen = Vec::new();
    while watch
        .progress_revision()
        .is_none_or(|through| through < newest)
    {
        match watch.next().now_or_never() {
            // It lets others run, or has just found out that there is no more.
            None => tokio::task::yield_now().await,
            Some(Err(reason)) => return (seen, Some(reason)),
            Some(Ok(batch)) => seen.extend(batch.commits().iter().map(|commit| {
                let events = batch.events_of(commit).map(ModelEvent::from);
                (commit.revision(), events.collect())
            })),
        }
    }
    (seen, None)
}
