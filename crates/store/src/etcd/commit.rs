//! Transactions of the etcd engine: executed by the cluster, answered once the mirror has them.

use super::cluster::{CallIntent, EtcdCallError, EtcdCluster};
use super::connection::EtcdConnection;
use super::error_class::is_too_large;
use super::origin_tracker::write_ranges;
use super::wire::{
    Provenance, covers, decode_revision, decode_txn, encode_txn, has_writes, version_from_kv,
};
use crate::error::{CommitError, RangeError, TxnError};
use crate::history::Commit;
use crate::index::Index;
use crate::origin::Origin;
use crate::revision::Revision;
use crate::sync::Arc;
use crate::txn::{Op, Txn, TxnResult};
use crate::txn_validation::validate_txn;
use crate::version::{Version, visible};
use optik_etcd_api::errors;
use optik_etcd_api::etcdserverpb::{TxnRequest, TxnResponse};
use optik_etcd_api::mvccpb::KeyValue;
use tokio::time::Instant;
use tonic::Status;

impl EtcdCluster {
    /// Checks that a transaction may be sent to the cluster.
    pub(crate) fn check_txn(&self, txn: &Txn) -> Result<(), TxnError> {
        validate_txn(txn, &self.options.limits)?;
        let within = |range| covers(&self.options.range, range);
        if !write_ranges(txn).iter().all(within) {
            return Err(TxnError::KeyOutOfRange);
        }
        Ok(())
    }

    pub(crate) async fn commit(&self, txn: &Txn, origin: Origin) -> Result<TxnResult, CommitError> {
        let deadline = self.request_deadline();
        let request = encode_txn(txn, &self.options.range);
        // A write whose event could not be observed would have to be reported as unknown.
        self.wait_in_sync(deadline).await?;
        let before = self.view.revision();
        let ticket = self.origin_tracker.register(txn, origin);
        let response = match self.send_txn(txn, request, deadline).await {
            Ok(response) => response,
            Err(failure) => return Err(self.commit_error(txn, before, failure, deadline).await),
        };
        let revision = decode_revision(response.header.unwrap_or_default().revision);
        let wrote = has_writes(&response);
        if let Some(ticket) = ticket.as_ref().filter(|_| wrote) {
            ticket.set_revision(revision);
        }
        drop(ticket);
        if wrote {
            self.wait_for_write(revision, deadline).await?;
        } else {
            self.wait_for_revision(revision, deadline).await?;
        }
        let index = self.view.with_index(Index::clone);
        let find = |kv: &KeyValue| local_version(&index, kv);
        decode_txn(txn, response, revision, &find)
            .ok_or_else(|| CommitError::Unknown("etcd's answer does not fit the question".into()))
    }

    async fn send_txn(
        &self,
        txn: &Txn,
        request: TxnRequest,
        deadline: Instant,
    ) -> Result<TxnResponse, EtcdCallError> {
        let intent = if txn.may_write() {
            CallIntent::Write
        } else {
            CallIntent::Read
        };
        let send = |link: Arc<EtcdConnection>| {
            let request = request.clone();
            async move { link.kv().txn(request).await }
        };
        self.call(intent, deadline, send).await
    }

    /// Waits until the mirror contains an acknowledged write.
    pub(crate) async fn wait_for_write(
        &self,
        revision: Revision,
        deadline: Instant,
    ) -> Result<(), EtcdCallError> {
        let reached = self.wait_for_revision(revision, deadline).await;
        reached.map_err(|failure| match failure {
            EtcdCallError::Unavailable(why) => {
                EtcdCallError::Unknown(format!("written at revision {revision}, but {why}"))
            }
            EtcdCallError::Stopped => EtcdCallError::Unknown(format!(
                "written at revision {revision}, but the store stops"
            )),
            other => other,
        })
    }

    async fn commit_error(
        &self,
        txn: &Txn,
        before: Revision,
        failure: EtcdCallError,
        deadline: Instant,
    ) -> CommitError {
        let EtcdCallError::Refused(status) = &failure else {
            return failure.into();
        };
        if errors::NO_SPACE.matches(status) {
            return self.no_space_error(txn, before, deadline).await;
        }
        match self.txn_error(txn, status) {
            Some(error) => error.into(),
            None => failure.into(),
        }
    }

    /// etcd also returns "no space" for the write that used up the quota, although it executed that
    /// write. Whether this write was executed is determined from later events.
    async fn no_space_error(&self, txn: &Txn, before: Revision, deadline: Instant) -> CommitError {
        let caught_up = async {
            let newest = self.linearizable_revision(deadline).await?;
            self.wait_for_revision(newest, deadline)
                .await
                .map(|()| newest)
        };
        let Ok(now) = caught_up.await else {
            return CommitError::Unknown("etcd has no room left on its disk".into());
        };
        let commits = self
            .view
            .with_history(|history| history.between(before.next(), now, usize::MAX));
        let ranges = write_ranges(txn);
        let touched = |commit: &Arc<Commit>| ranges.iter().any(|range| commit.touches(range));
        if self.view.oldest_watchable() > before.next() || commits.iter().any(touched) {
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
                // etcd does not return the compacted revision; it is newer than a revision that the
                // transaction reads.
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

/// Returns the mirror's copy of a version if there is one, since it knows its time and origin;
/// otherwise the version as etcd returned it.
fn local_version(index: &Index, kv: &KeyValue) -> Arc<Version> {
    let revision = decode_revision(kv.mod_revision);
    let ours = index
        .newest(&kv.key)
        .and_then(|newest| visible(newest, revision))
        .filter(|version| version.mod_revision == revision);
    ours.unwrap_or_else(|| Arc::new(version_from_kv(kv, None, Provenance::default())))
}

impl From<EtcdCallError> for CommitError {
    fn from(failure: EtcdCallError) -> Self {
        match failure {
            EtcdCallError::Stopped => Self::Stopped,
            EtcdCallError::Unavailable(why) => Self::Unavailable(why),
            EtcdCallError::Unknown(why) => Self::Unknown(why),
            EtcdCallError::Refused(status) => Self::Unavailable(status.message().to_owned()),
        }
    }
}
