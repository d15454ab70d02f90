//! What all passes of one controller share.

use crate::api::Api;
use crate::breaker::{Breaker, BreakerOptions};
use crate::events::Recorder;
use crate::key::ObjectKey;
use crate::metrics::ControllerMetrics;
use crate::term::Term;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use optik_platform::{Clock, Entropy};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

pub(crate) struct Desk {
    /// Also the field manager.
    pub(crate) name: &'static str,
    pub(crate) api: Api,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) recorder: Recorder,
    pub(crate) term: Term,
    begun: Instant,
    breaker: Mutex<Breaker>,
    applied: Mutex<BTreeMap<(u32, ObjectKey), Applied>>,
}

/// What was applied last, and what the server made of it. As long as neither changes,
/// applying it again would change nothing, even if the server rewrites it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) uid: u128,
    pub(crate) desired: u64,
    pub(crate) content: u64,
}

impl Desk {
    pub(crate) fn new(
        name: &'static str,
        api: Api,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        recorder: Recorder,
        term: Term,
        breaker: BreakerOptions,
    ) -> Self {
        let metrics = api.metrics.controller(name);
        Self {
            name,
            api,
            clock,
            entropy,
            metrics,
            recorder,
            term,
            begun: Instant::now(),
            breaker: Mutex::new(Breaker::new(breaker)),
            applied: Mutex::default(),
        }
    }

    /// The time of day, to the second: servers keep no more.
    pub(crate) fn wall(&self) -> Time {
        Time(wall(&*self.clock, 1000))
    }

    /// A write changed an object. Says how long to leave it alone if it was one too many.
    pub(crate) fn note_write(&self, shelf: u32, key: &ObjectKey) -> Option<std::time::Duration> {
        self.metrics.writes.add(1);
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        breaker.note(shelf, key, self.begun.elapsed())
    }

    fn applied(&self) -> MutexGuard<'_, BTreeMap<(u32, ObjectKey), Applied>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn was_applied(&self, shelf: u32, key: &ObjectKey, applied: Applied) -> bool {
        self.applied().get(&(shelf, key.clone())) == Some(&applied)
    }

    pub(crate) fn note_applied(&self, shelf: u32, key: &ObjectKey, applied: Applied) {
        self.applied().insert((shelf, key.clone()), applied);
    }

    pub(crate) fn forget_applied(&self, shelf: u32, key: &ObjectKey) {
        self.applied().remove(&(shelf, key.clone()));
    }
}

/// The time of day in steps of so many milliseconds.
pub(crate) fn wall(clock: &dyn Clock, step_millis: u64) -> Timestamp {
    let millis = clock.wall().0 / step_millis * step_millis;
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Waits for a flag.
pub(crate) async fn told(flag: &mut tokio::sync::watch::Receiver<bool>) {
    // Nobody left who could raise it is as good as raised.
    let _ = flag.wait_for(|raised| *raised).await;
}
