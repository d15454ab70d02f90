//! The webhooks of this moment.

use super::hook::{Hook, hooks_of};
use crate::kept::{Kept, Known, Made};
use optik_store::Snapshot;
use std::sync::Arc;

/// Where configurations are kept.
pub(crate) const MUTATING: &str = "/registry/mutatingwebhookconfigurations/";
pub(crate) const VALIDATING: &str = "/registry/validatingwebhookconfigurations/";

/// All webhooks there are, kept what the stored configurations say.
pub(crate) type Hooks = Kept<HookSet>;

/// Webhooks by configuration, then as they stand there.
#[derive(Debug, Default)]
pub(crate) struct HookSet {
    pub(super) mutating: Vec<Arc<Hook>>,
    pub(super) validating: Vec<Arc<Hook>>,
}

/// The webhooks of each configuration.
#[derive(Debug, Default)]
pub(crate) struct Read {
    mutating: Known<Vec<Arc<Hook>>>,
    validating: Known<Vec<Arc<Hook>>>,
}

impl Made for HookSet {
    type Read = Read;

    fn make(read: &mut Read, state: &Snapshot) -> Self {
        read.mutating.reread(MUTATING, state, hooks_of);
        read.validating.reread(VALIDATING, state, hooks_of);
        let all = |known: &Known<Vec<Arc<Hook>>>| {
            let hooks = known.values().flat_map(|hooks| hooks.iter());
            hooks.map(Arc::clone).collect()
        };
        Self {
            mutating: all(&read.mutating),
            validating: all(&read.validating),
        }
    }

    fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty()
    }
}
