//! Detects that the cluster is no longer the one whose revisions were published.
//!
//! A cluster that was created anew or restored from a backup continues from an earlier revision.
//! The published revisions would then not be part of its history, and every resourceVersion that
//! clients hold would be wrong.

use crate::revision::Revision;
use crate::sync::Mutex;
use optik_etcd_api::etcdserverpb::ResponseHeader;

#[derive(Debug, Default)]
pub(crate) struct ClusterIdentity(Mutex<ClusterPosition>);

/// The position of the cluster at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClusterPosition {
    cluster: Option<u64>,
    revision: Revision,
    term: u64,
}

/// The cluster is a different one, or its revision went back. The text is for the operator.
#[derive(Clone, Debug)]
pub(crate) struct ClusterMismatch(pub(crate) String);

impl ClusterIdentity {
    /// Must be taken before a request is sent, because responses of concurrent requests may arrive
    /// in any order.
    pub(crate) fn position(&self) -> ClusterPosition {
        *self.0.lock()
    }

    pub(crate) fn cluster_id(&self) -> u64 {
        self.position().cluster.unwrap_or_default()
    }

    /// Records that `revision` has been published.
    pub(crate) fn record_shown(&self, revision: Revision) {
        let mut seen = self.0.lock();
        seen.revision = seen.revision.max(revision);
    }

    /// Checks that a response is from our cluster.
    pub(crate) fn check_cluster(
        &self,
        header: Option<&ResponseHeader>,
    ) -> Result<(), ClusterMismatch> {
        // Some headers inside others carry no ids.
        let Some(header) = header.filter(|header| header.cluster_id != 0) else {
            return Ok(());
        };
        let mut seen = self.0.lock();
        let ours = *seen.cluster.get_or_insert(header.cluster_id);
        if ours == header.cluster_id {
            return Ok(());
        }
        let theirs = header.cluster_id;
        Err(ClusterMismatch(format!(
            "etcd's cluster id changed from {ours:x} to {theirs:x}: this is another cluster, \
             or one that was set up anew; restart Optik to go on with what it holds"
        )))
    }

    /// Checks a linearizable response: it must not be behind the position `before` its request.
    pub(crate) fn check_linearizable(
        &self,
        header: Option<&ResponseHeader>,
        before: ClusterPosition,
    ) -> Result<Revision, ClusterMismatch> {
        self.check_cluster(header)?;
        let Some(header) = header else {
            return Err(ClusterMismatch("etcd's answer has no header".into()));
        };
        let revision = Revision::new(u64::try_from(header.revision).unwrap_or_default());
        if revision < before.revision {
            return Err(ClusterMismatch(format!(
                "etcd went back from revision {} to {revision}: it lost data or was restored \
                 from a backup; restart Optik to go on with what it holds",
                before.revision
            )));
        }
        // Zero: the member does not know its term yet.
        if header.raft_term != 0 && header.raft_term < before.term {
            return Err(ClusterMismatch(format!(
                "etcd's raft term went back from {} to {}: it was restored from a backup; \
                 restart Optik to go on with what it holds",
                before.term, header.raft_term
            )));
        }
        let mut seen = self.0.lock();
        seen.revision = seen.revision.max(revision);
        seen.term = seen.term.max(header.raft_term);
        Ok(revision)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(cluster_id: u64, revision: i64, raft_term: u64) -> ResponseHeader {
        ResponseHeader {
            cluster_id,
            member_id: 1,
            revision,
            raft_term,
        }
    }

    #[test]
    fn cluster_identity_rejects_rollback_and_other_cluster() {
        let check = |cluster, revision, term| {
            let witness = ClusterIdentity::default();
            let first = witness.position();
            witness.check_linearizable(Some(&header(7, 10, 3)), first)?;
            let before = witness.position();
            witness.check_linearizable(Some(&header(cluster, revision, term)), before)
        };
        assert_eq!(check(7, 10, 3).expect("the same"), Revision::new(10));
        assert_eq!(check(7, 12, 4).expect("later"), Revision::new(12));
        assert_eq!(check(7, 12, 0).expect("restarting"), Revision::new(12));
        assert!(check(8, 12, 4).is_err(), "another cluster");
        assert!(check(7, 9, 4).is_err(), "an earlier revision");
        assert!(check(7, 12, 2).is_err(), "an earlier term");
    }

    #[test]
    fn cluster_identity_accepts_reordered_responses() {
        let witness = ClusterIdentity::default();
        let before_both = witness.position();
        let later = witness.check_linearizable(Some(&header(7, 10, 3)), before_both);
        let earlier = witness.check_linearizable(Some(&header(7, 9, 3)), before_both);
        assert!(later.is_ok() && earlier.is_ok());
    }
}
