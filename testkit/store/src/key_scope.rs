use crate::timeout::within;
use bytes::Bytes;
use optik_platform::{Entropy, SystemEntropy};
use optik_store::{
    Commit, CommitError, Event, KeyRange, Op, Origin, Put, RangeQuery, RangeResult, Revision,
    Snapshot, Store, Txn, TxnError, TxnResult, Version, Watch, WatchFrom, WatchSpec,
};
use std::sync::Arc;

/// A key prefix reserved for one check, and the revision at its start.
///
/// Checks run one after another on a store with earlier content. So they name keys below a prefix
/// of their own, and count revisions from [`KeyScope::base`].
#[derive(Clone, Debug)]
pub struct KeyScope {
    pub store: Store,
    prefix: String,
    base: Revision,
}

impl KeyScope {
    /// # Panics
    /// If the store cannot be read.
    pub async fn enter(store: Store, name: &str) -> Self {
        let nonce = SystemEntropy.next_u64();
        let latest = store.latest().await.expect("the store can be read");
        Self {
            store,
            prefix: format!("{name}/{nonce:016x}/"),
            base: latest.revision(),
        }
    }

    #[must_use]
    pub fn key(&self, name: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), name.as_bytes()].concat()
    }

    #[must_use]
    pub fn single_key(&self, name: &str) -> KeyRange {
        KeyRange::one(self.key(name))
    }

    #[must_use]
    pub fn prefix(&self, name: &str) -> KeyRange {
        KeyRange::prefix(self.key(name))
    }

    #[must_use]
    pub fn all_keys(&self) -> KeyRange {
        self.prefix("")
    }

    #[must_use]
    pub fn between(&self, start: &str, end: &str) -> KeyRange {
        KeyRange::between(self.key(start), self.key(end))
    }

    #[must_use]
    pub fn put_of(&self, name: &str, value: &str) -> Put {
        Put::new(self.key(name), Bytes::copy_from_slice(value.as_bytes()))
    }

    #[must_use]
    pub fn put_op(&self, name: &str, value: &str) -> Op {
        Op::Put(self.put_of(name, value))
    }

    #[must_use]
    pub fn delete_op(&self, name: &str) -> Op {
        Op::Delete(self.single_key(name))
    }

    /// # Panics
    /// If the transaction is not carried out.
    pub async fn commit(&self, txn: Txn) -> TxnResult {
        let commit = self.store.commit(txn, Origin::default());
        within("a commit", commit).await.expect("the txn is sound")
    }

    /// # Panics
    /// If the transaction is carried out, or refused for no fault of its own.
    pub async fn commit_error(&self, txn: Txn) -> TxnError {
        let commit = self.store.commit(txn, Origin::default());
        match within("a refusal", commit).await {
            Err(CommitError::Txn(error)) => error,
            other => panic!("the store should have refused the txn, and said {other:?}"),
        }
    }

    pub async fn put(&self, name: &str, value: &str) -> Revision {
        self.commit(Txn::put(self.put_of(name, value)))
            .await
            .revision
    }

    pub async fn delete(&self, name: &str) -> Revision {
        self.commit(Txn::delete(self.single_key(name)))
            .await
            .revision
    }

    /// # Panics
    /// If the store cannot be read.
    pub async fn latest(&self) -> Snapshot {
        let latest = within("the latest state", self.store.latest()).await;
        latest.expect("the store can be read")
    }

    pub async fn revision(&self) -> Revision {
        self.latest().await.revision()
    }

    pub async fn get(&self, name: &str) -> Option<Arc<Version>> {
        self.latest().await.get(&self.key(name)).cloned()
    }

    /// # Panics
    /// If the store cannot answer.
    pub async fn range(&self, query: &RangeQuery) -> RangeResult {
        let latest = self.latest().await;
        latest.range(query).expect("the revision is kept")
    }

    /// # Panics
    /// If the watch cannot be started.
    #[must_use]
    pub fn watch(&self, range: KeyRange, from: WatchFrom) -> Watch {
        let spec = WatchSpec { range, from };
        self.store.watch(spec).expect("the revision is kept")
    }

    #[must_use]
    pub fn base(&self) -> Revision {
        self.base
    }

    /// The revision `offset` commits after the scope was entered.
    #[must_use]
    pub fn revision_at(&self, offset: u64) -> Revision {
        Revision::new(self.base.get() + offset)
    }

    /// A version in words: `a=1 @+2 (created +1, version 2)`.
    #[must_use]
    pub fn describe(&self, version: &Version) -> String {
        let key = String::from_utf8_lossy(version.key());
        let name = key.strip_prefix(&self.prefix).unwrap_or(&key);
        let modified = self.offset(version.mod_revision());
        if version.is_deletion() {
            return format!("{name} gone @{modified}");
        }
        format!(
            "{name}={} @{modified} (created {}, version {})",
            String::from_utf8_lossy(version.value()),
            self.offset(version.create_revision()),
            version.version()
        )
    }

    fn offset(&self, revision: Revision) -> String {
        if revision < self.base {
            return format!("{revision}");
        }
        format!("+{}", revision.get() - self.base.get())
    }

    #[must_use]
    pub fn describe_all(&self, versions: &[Arc<Version>]) -> Vec<String> {
        versions
            .iter()
            .map(|version| self.describe(version))
            .collect()
    }

    /// An event in words: `a=2 @+2 (created +1, version 2) was a=1 @+1 (…)`.
    #[must_use]
    pub fn describe_event(&self, event: &Event) -> String {
        let shown = self.describe(event.version());
        match event.prior() {
            Some(prior) => format!("{shown} was {}", self.describe(prior)),
            None => shown,
        }
    }

    /// The next commits of a watch, until it has shown `count` events.
    ///
    /// # Panics
    /// If the watch ends, or shows more.
    pub async fn events(&self, watch: &mut Watch, count: usize) -> Vec<String> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let batch = within("events", watch.next()).await.expect("goes on");
            seen.extend(batch.events().map(|event| self.describe_event(event)));
        }
        assert_eq!(seen.len(), count, "too many events: {seen:#?}");
        seen
    }

    /// The next commits of a watch, `count` of them.
    ///
    /// # Panics
    /// If the watch ends, or shows more.
    pub async fn commits(&self, watch: &mut Watch, count: usize) -> Vec<Arc<Commit>> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let batch = within("commits", watch.next()).await.expect("goes on");
            seen.extend(batch.commits().iter().cloned());
        }
        assert_eq!(seen.len(), count, "too many commits: {seen:#?}");
        seen
    }
}
