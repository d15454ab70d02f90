//! Transactions: carried out by the cluster, answered once our copy has them.

use super::authors::writes;
use super::cluster::{Cluster, Failure, Intent};
use super::link::Link;
use super::verdict::is_too_large;
use super::wire::{Provenance, covers, decode_txn, encode_txn, unsigned, version, wrote};
use crate::check::check;
use crate::error::{CommitError, RangeError, TxnError};
use crate::history::Commit;
use crate::index::Index;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::txn::{Op, Txn, TxnResult};
use crate::version::{Version, visible};
use optik_etcd_api::errors;
use optik_etcd_api::etcdserverpb::{TxnRequest, TxnResponse};
use optik_etcd_api::mvccpb::KeyValue;
use tokio::time::Instant;
use tonic::Status;

impl Cluster {
    /// Whether a transaction may be sent at all.
    pub(crate) fn check_txn(&self, txn: &Txn) -> Result<(), TxnError> {
        check(txn, &self.options.limits)?;
        let within = |range| covers(&self.options.range, range);
        if !writes(txn).iter().all(within) {
            return Err(TxnError::OutOfReach);
        }
        Ok(())
    }

    pub(crate) async fn commit(&self, txn: &Txn, origin: Origin) -> Result<TxnResult, CommitError> {
        let deadline = self.by();
        let request = encode_txn(txn, &self.options.range);
        // A write that we could not see come back would have to be called unclear.
        self.following(deadline).await?;
        let before = self.view.revision();
        let ticket = self.authors.announce(txn, origin);
        let response = match self.send(txn, request, deadline).await {
            Ok(response) => response,
            Err(failure) => return Err(self.refusal(txn, before, failure, deadline).await),
        };
        let revision = unsigned(response.header.unwrap_or_default().revision);
        let wrote = wrote(&response);
        if let Some(ticket) = ticket.as_ref().filter(|_| wrote) {
            ticket.answered(revision);
        }
        drop(ticket);
        if wrote {
            self.reached_after_write(revision, deadline).await?;
        } else {
            self.reached(revision, deadline).await?;
        }
        let index = self.view.with_index(Index::clone);
        let find = |kv: &KeyValue| find(&index, kv);
        decode_txn(txn, response, revision, &find)
            .ok_or_else(|| CommitError::Unknown("etcd's answer does not fit the question".into()))
    }

    async fn send(
        &self,
        txn: &Txn,
        request: TxnRequest,
        deadline: Instant,
    ) -> Result<TxnResponse, Failure> {
        let intent = if txn.may_write() {
            Intent::Write
        } else {
            Intent::Read
        };
        let send = |link: Arc<Link>| {
            let request = request.clone();
            async move { link.kv().txn(request).await }
        };
        self.call(intent, deadline, send).await
    }

    /// Waits until our copy has a write that the cluster has acknowledged.
    pub(crate) async fn reached_after_write(
        &self,
        revision: Revision,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let reached = self.reached(revision, deadline).await;
        reached.map_err(|failure| match failure {
            Failure::Unavailable(why) => {
                Failure::Unclear(format!("written at revision {revision}, but {why}"))
            }
            Failure::Stopped => Failure::Unclear(format!(
                "written at revision {revision}, but the store stops"
            )),
            other => other,
        })
    }

    async fn refusal(
        &self,
        txn: &Txn,
        before: Revision,
        failure: Failure,
        deadline: Instant,
    ) -> CommitError {
        let Failure::Refused(status) = &failure else {
            return failure.into();
        };
        if errors::NO_SPACE.matches(status) {
            return self.without_space(txn, before, deadline).await;
        }
        match self.txn_error(txn, status) {
            Some(error) => error.into(),
            None => failure.into(),
        }
    }

    /// etcd also says "no space" about the write that used up the last of it, which
    /// it has carried out. Whether ours was that one shows in what came after.
    async fn without_space(&self, txn: &Txn, before: Revision, deadline: Instant) -> CommitError {
        let caught_up = async {
            let newest = self.newest(deadline).await?;
            self.reached(newest, deadline).await.map(|()| newest)
        };
        let Ok(now) = caught_up.await else {
            return CommitError::Unknown("etcd has no room left on its disk".into());
        };
        let commits = self
            .view
            .with_history(|history| history.between(before.next(), now, usize::MAX));
        let ranges = writes(txn);
        let touched = |commit: &Arc<Commit>| ranges.iter().any(|range| commit.touches(range));
        if self.view.resumable() > before.next() || commits.iter().any(touched) {
            let why = "etcd ran out of room while it was carried out";
            return CommitError::Unknown(why.into());
        }
        CommitError::NoSpace
    }

    fn txn_error(&self, txn: &Txn, status: &Status) -> Option<TxnError> {
        let error = match status {
            _ if is_too_large(status) => TxnError::TooLarge {
                bytes: txn.size(),
                bytes_max: self.options.limits.bytes_max,
            },
            _ if errors::TOO_MANY_OPS.matches(status) => TxnError::TooManyOperations,
            _ if errors::DUPLICATE_KEY.matches(status) => TxnError::DuplicateKey,
            _ if errors::KEY_NOT_PROVIDED.matches(status) => TxnError::NoKey,
            _ if errors::KEY_NOT_FOUND.matches(status) => TxnError::KeyNotFound,
            _ if errors::LEASE_NOT_FOUND.matches(status) => TxnError::LeaseNotFound,
            _ if errors::COMPACTED.matches(status) => {
                // etcd does not say up to where; it is beyond something we asked for.
                let asked = oldest_read(txn).unwrap_or_default();
                let oldest = self.view.floor().get().max(asked.next());
                RangeError::Compacted { oldest }.into()
            }
            _ if errors::FUTURE_REVISION.matches(status) => {
                let newest = self.view.revision();
                RangeError::Future { newest }.into()
            }
            _ => return None,
        };
        Some(error)
    }
}

fn oldest_read(txn: &Txn) -> Option<Revision> {
    let ops = txn.success.iter().chain(&txn.failure);
    let reads = ops.filter_map(|op| match op {
        Op::Range(query) => query.at,
        Op::Txn(inner) => oldest_read(inner),
        Op::Put(_) | Op::Delete(_) => None,
    });
    reads.min()
}

/// Our own copy of a version if there is one, since it knows when and by whom it was
/// written; otherwise what etcd says.
fn find(index: &Index, kv: &KeyValue) -> Arc<Version> {
    let revision = unsigned(kv.mod_revision);
    let ours = index
        .newest(&kv.key)
        .and_then(|newest| visible(newest, revision))
        .filter(|version| version.mod_revision == revision);
    ours.unwrap_or_else(|| Arc::new(version(kv, None, Provenance::default())))
}

impl From<Failure> for CommitError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Stopped => Self::Stopped,
            Failure::Unavailable(why) => Self::Unavailable(why),
            Failure::Unclear(why) => Self::Unknown(why),
            Failure::Refused(status) => Self::Unavailable(status.message().to_owned()),
        }
    }
}
