//! The work queue of a controller: adds a clock, wakeups and metrics to [`WorkQueue`].

use crate::backoff::random_fraction;
use crate::key::ObjectKey;
use crate::metrics::ControllerMetrics;
use crate::work_queue::{
    ChangeId, MonotonicTime, QueuePriority, RequeueDecision, WorkQueue, WorkQueueOptions,
};
use optik_platform::Entropy;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct ControllerQueue {
    queue: Mutex<WorkQueue<ObjectKey>>,
    started: Instant,
    wakeup: Notify,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<ControllerMetrics>,
}

impl ControllerQueue {
    pub(crate) fn new(
        options: WorkQueueOptions,
        entropy: Arc<dyn Entropy>,
        metrics: Arc<ControllerMetrics>,
    ) -> Self {
        Self {
            queue: Mutex::new(WorkQueue::new(options)),
            started: Instant::now(),
            wakeup: Notify::new(),
            entropy,
            metrics,
        }
    }

    pub(crate) fn now(&self) -> MonotonicTime {
        self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, WorkQueue<ObjectKey>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, key: ObjectKey, priority: QueuePriority, cause: Option<ChangeId>) {
        let now = self.now();
        let mut queue = self.lock();
        let depth = queue.depth();
        queue.add(key, priority, cause, now);
        let is_new = queue.depth() > depth;
        drop(queue);
        self.metrics.adds.add(1);
        if is_new {
            self.wakeup.notify_one();
        }
    }

    /// Waits for the next key. Any number of workers can wait at the same time.
    pub(crate) async fn take(&self) -> ObjectKey {
        loop {
            let wake = {
                let mut queue = self.lock();
                let now = self.now();
                if let Some(key) = queue.take(now) {
                    if let Some(since) = queue.queued_since(&key) {
                        self.metrics
                            .queue_duration
                            .observe(now.saturating_sub(since));
                    }
                    self.record_depth(&queue);
                    if queue.depth() > 0 {
                        // Two additions at the same time may have woken only one worker.
                        self.wakeup.notify_one();
                    }
                    return key;
                }
                queue.next_wake()
            };
            match wake {
                None => self.wakeup.notified().await,
                Some(wake) => {
                    tokio::select! {
                        () = self.wakeup.notified() => {}
                        () = tokio::time::sleep_until(self.started + wake) => {}
                    }
                }
            }
        }
    }

    pub(crate) fn finish(
        &self,
        key: &ObjectKey,
        decision: RequeueDecision,
        own_changes: &[ChangeId],
    ) {
        let (now, chance) = (self.now(), random_fraction(&*self.entropy));
        let mut queue = self.lock();
        queue.finish(key, decision, own_changes, now, chance);
        self.record_depth(&queue);
        // A waiting worker may have to wait for another time.
        let must_wake = queue.depth() > 0 || decision != RequeueDecision::Done;
        drop(queue);
        if must_wake {
            self.wakeup.notify_one();
        }
    }

    fn record_depth(&self, queue: &WorkQueue<ObjectKey>) {
        self.metrics
            .depth
            .set(i64::try_from(queue.depth()).unwrap_or(i64::MAX));
    }

    /// Whether no key is ready or being processed.
    pub(crate) fn is_idle(&self) -> bool {
        let queue = self.lock();
        queue.depth() == 0 && queue.processing() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;
    use std::time::Duration;

    fn keys() -> ControllerQueue {
        let entropy = Arc::new(SeededEntropy::new(1));
        ControllerQueue::new(WorkQueueOptions::default(), entropy, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn queue_waiter_wakes_exactly_when_the_delay_ends() {
        let (keys, key) = (keys(), ObjectKey::new("n", "a"));
        keys.add(key.clone(), QueuePriority::Normal, None);
        assert_eq!(keys.take().await, key);
        keys.finish(&key, RequeueDecision::After(Duration::from_secs(60)), &[]);
        let begun = Instant::now();
        assert_eq!(keys.take().await, key);
        assert_eq!(begun.elapsed().as_secs(), 60);
        keys.finish(&key, RequeueDecision::Failed, &[]);
        assert_eq!(keys.take().await, key);
        let waited = begun.elapsed() - Duration::from_secs(60);
        assert!(waited <= Duration::from_millis(6), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn change_requeues_delayed_key_unless_it_is_held() {
        for (verdict, seconds) in [
            (RequeueDecision::After(Duration::from_secs(60)), 0),
            (RequeueDecision::Hold(Duration::from_secs(60)), 60),
        ] {
            let (keys, key) = (keys(), ObjectKey::new("n", "a"));
            keys.add(key.clone(), QueuePriority::Normal, None);
            keys.take().await;
            keys.finish(&key, verdict, &[]);
            let begun = Instant::now();
            keys.add(key.clone(), QueuePriority::Normal, None);
            assert_eq!(keys.take().await, key);
            assert_eq!(begun.elapsed().as_secs(), seconds, "{verdict:?}");
        }
    }
}
