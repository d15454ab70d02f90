//! The queue of a controller, with a clock and somebody who waits.

use crate::backoff::fraction;
use crate::key::ObjectKey;
use crate::metrics::ControllerMetrics;
use crate::queue::{Cause, Moment, Priority, Queue, QueueOptions, Verdict};
use optik_platform::Entropy;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct Keys {
    queue: Mutex<Queue<ObjectKey>>,
    begun: Instant,
    bell: Notify,
    entropy: Arc<dyn Entropy>,
    metrics: Arc<ControllerMetrics>,
}

impl Keys {
    pub(crate) fn new(
        options: QueueOptions,
        entropy: Arc<dyn Entropy>,
        metrics: Arc<ControllerMetrics>,
    ) -> Self {
        Self {
            queue: Mutex::new(Queue::new(options)),
            begun: Instant::now(),
            bell: Notify::new(),
            entropy,
            metrics,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.begun.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, Queue<ObjectKey>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, key: ObjectKey, priority: Priority, cause: Option<Cause>) {
        let now = self.now();
        let mut queue = self.lock();
        let depth = queue.depth();
        queue.add(key, priority, cause, now);
        let is_new = queue.depth() > depth;
        drop(queue);
        self.metrics.adds.add(1);
        if is_new {
            self.bell.notify_one();
        }
    }

    /// Waits for a key that may be worked on. Any number may wait.
    pub(crate) async fn take(&self) -> ObjectKey {
        loop {
            let wake = {
                let mut queue = self.lock();
                let now = self.now();
                if let Some(key) = queue.take(now) {
                    if let Some(since) = queue.since(&key) {
                        self.metrics.waited.note(now.saturating_sub(since));
                    }
                    self.note_depth(&queue);
                    if queue.depth() > 0 {
                        // Two calls at the same time may have woken only one who waits.
                        self.bell.notify_one();
                    }
                    return key;
                }
                queue.next_wake()
            };
            match wake {
                None => self.bell.notified().await,
                Some(wake) => {
                    tokio::select! {
                        () = self.bell.notified() => {}
                        () = tokio::time::sleep_until(self.begun + wake) => {}
                    }
                }
            }
        }
    }

    pub(crate) fn finish(&self, key: &ObjectKey, verdict: Verdict, own: &[Cause]) {
        let (now, chance) = (self.now(), fraction(&*self.entropy));
        let mut queue = self.lock();
        queue.finish(key, verdict, own, now, chance);
        self.note_depth(&queue);
        // Whoever waits for a time may have to wait for another.
        let is_news = queue.depth() > 0 || verdict != Verdict::Done;
        drop(queue);
        if is_news {
            self.bell.notify_one();
        }
    }

    fn note_depth(&self, queue: &Queue<ObjectKey>) {
        self.metrics
            .depth
            .set(i64::try_from(queue.depth()).unwrap_or(i64::MAX));
    }

    /// Whether nothing waits for a turn and nothing is worked on.
    pub(crate) fn is_quiet(&self) -> bool {
        let queue = self.lock();
        queue.depth() == 0 && queue.running() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_platform::SeededEntropy;
    use std::time::Duration;

    fn keys() -> Keys {
        let entropy = Arc::new(SeededEntropy::new(1));
        Keys::new(QueueOptions::default(), entropy, Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_is_woken_when_it_is_time_and_not_before() {
        let (keys, key) = (keys(), ObjectKey::new("n", "a"));
        keys.add(key.clone(), Priority::Normal, None);
        assert_eq!(keys.take().await, key);
        keys.finish(&key, Verdict::After(Duration::from_secs(60)), &[]);
        let begun = Instant::now();
        assert_eq!(keys.take().await, key);
        assert_eq!(begun.elapsed().as_secs(), 60);
        keys.finish(&key, Verdict::Failed, &[]);
        assert_eq!(keys.take().await, key);
        let waited = begun.elapsed() - Duration::from_secs(60);
        assert!(waited <= Duration::from_millis(6), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_wakes_a_key_that_waits_unless_it_is_held() {
        for (verdict, seconds) in [
            (Verdict::After(Duration::from_secs(60)), 0),
            (Verdict::Hold(Duration::from_secs(60)), 60),
        ] {
            let (keys, key) = (keys(), ObjectKey::new("n", "a"));
            keys.add(key.clone(), Priority::Normal, None);
            keys.take().await;
            keys.finish(&key, verdict, &[]);
            let begun = Instant::now();
            keys.add(key.clone(), Priority::Normal, None);
            assert_eq!(keys.take().await, key);
            assert_eq!(begun.elapsed().as_secs(), seconds, "{verdict:?}");
        }
    }
}
