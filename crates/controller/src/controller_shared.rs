//! The state that all reconciles of one controller share.

use crate::api_client::ApiClient;
use crate::breaker::{Breaker, BreakerOptions};
use crate::events::EventRecorder;
use crate::key::ObjectKey;
use crate::leadership_fence::LeadershipFence;
use crate::metrics::ControllerMetrics;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use optik_platform::{Clock, Entropy};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

pub(crate) struct ControllerShared {
    /// The name of the controller, which is also the field manager.
    pub(crate) name: &'static str,
    pub(crate) api: ApiClient,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) metrics: Arc<ControllerMetrics>,
    pub(crate) recorder: EventRecorder,
    pub(crate) fence: LeadershipFence,
    started: Instant,
    breaker: Mutex<Breaker>,
    applied: Mutex<BTreeMap<(u32, ObjectKey), AppliedState>>,
}

/// Hashes of the last apply and of the object that the server stored for it. While both are
/// unchanged, another apply would change nothing, even if the server rewrites what is applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppliedState {
    pub(crate) uid: u128,
    pub(crate) desired: u64,
    pub(crate) content: u64,
}

impl ControllerShared {
    pub(crate) fn new(
        name: &'static str,
        api: ApiClient,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        recorder: EventRecorder,
        fence: LeadershipFence,
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
            fence,
            started: Instant::now(),
            breaker: Mutex::new(Breaker::new(breaker)),
            applied: Mutex::default(),
        }
    }

    /// The wall-clock time, truncated to seconds: `metav1.Time` is no more precise.
    pub(crate) fn wall_seconds(&self) -> Time {
        Time(wall_rounded(&*self.clock, 1000))
    }

    /// Records a write that changed an object. If it was one too many, returns how long to leave
    /// the object alone.
    pub(crate) fn record_write(&self, cache: u32, key: &ObjectKey) -> Option<std::time::Duration> {
        self.metrics.writes.add(1);
        let mut breaker = self.breaker.lock().unwrap_or_else(PoisonError::into_inner);
        breaker.record_write(cache, key, self.started.elapsed())
    }

    fn applied(&self) -> MutexGuard<'_, BTreeMap<(u32, ObjectKey), AppliedState>> {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn was_applied(&self, cache: u32, key: &ObjectKey, applied: AppliedState) -> bool {
        self.applied().get(&(cache, key.clone())) == Some(&applied)
    }

    pub(crate) fn record_applied(&self, cache: u32, key: &ObjectKey, applied: AppliedState) {
        self.applied().insert((cache, key.clone()), applied);
    }

    pub(crate) fn forget_applied(&self, cache: u32, key: &ObjectKey) {
        self.applied().remove(&(cache, key.clone()));
    }
}

/// The wall-clock time, truncated to a multiple of `step_millis`.
pub(crate) fn wall_rounded(clock: &dyn Clock, step_millis: u64) -> Timestamp {
    let millis = clock.wall().0 / step_millis * step_millis;
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Waits until a flag is set.
pub(crate) async fn wait_until_set(flag: &mut tokio::sync::watch::Receiver<bool>) {
    // If the sender is gone, the flag counts as set.
    let _ = flag.wait_for(|raised| *raised).await;
}
