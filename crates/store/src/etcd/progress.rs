//! Requests progress notifications of the watch, so that a quiet range counts as current, and
//! detects a member that does not respond.

use crate::sync::Mutex;
use optik_etcd_api::etcdserverpb::watch_request::RequestUnion;
use optik_etcd_api::etcdserverpb::{WatchProgressRequest, WatchRequest};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Default)]
pub(crate) struct ProgressRequester {
    state: Mutex<ProgressState>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct ProgressState {
    /// The request channel of the current watch.
    requests: Option<mpsc::Sender<WatchRequest>>,
    asked: Option<Instant>,
    /// Time of the first unanswered progress request.
    unanswered: Option<Instant>,
}

impl ProgressRequester {
    pub(crate) fn connect(&self, requests: mpsc::Sender<WatchRequest>) {
        let mut state = self.state.lock();
        state.requests = Some(requests);
        state.unanswered = None;
    }

    pub(crate) fn disconnect(&self) {
        self.state.lock().requests = None;
    }

    pub(crate) fn request(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.asked = Some(now);
        if let Some(requests) = &state.requests {
            let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
            // If the channel is full, requests are already pending.
            let _ = requests.try_send(WatchRequest {
                request_union: Some(progress),
            });
            state.unanswered.get_or_insert(now);
            self.asked.notify_one();
        }
    }

    /// Requests progress unless a request was sent within `interval`, so that concurrent waiters
    /// share one.
    pub(crate) fn request_throttled(&self, interval: Duration) {
        let asked = self.state.lock().asked;
        if asked.is_none_or(|asked| asked.elapsed() >= interval) {
            self.request();
        }
    }

    /// Records a response of the watch; any response counts as an answer.
    pub(crate) fn record_response(&self) {
        self.state.lock().unanswered = None;
    }

    /// Returns once a request has been unanswered for `patience`.
    pub(crate) async fn wait_unanswered(&self, patience: Duration) {
        loop {
            let since = self.state.lock().unanswered;
            match since {
                Some(since) if since.elapsed() >= patience => return,
                Some(since) => sleep_until(since + patience).await,
                None => self.asked.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn progress_timeout_counts_from_first_request() {
        let progress = ProgressRequester::default();
        let (requests, mut sent) = mpsc::channel(1);
        progress.connect(requests);
        let start = Instant::now();
        let questions = async {
            for _ in 0..5 {
                progress.request_throttled(Duration::from_millis(50));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::join!(progress.wait_unanswered(ANSWER_TIMEOUT), questions);
        assert_eq!(start.elapsed(), ANSWER_TIMEOUT);
        assert!(sent.try_recv().is_ok());
        assert!(sent.try_recv().is_err(), "one is enough");
    }

    #[tokio::test(start_paused = true)]
    async fn any_watch_response_answers_progress_request() {
        let progress = ProgressRequester::default();
        let (requests, _sent) = mpsc::channel(1);
        progress.connect(requests);
        let start = Instant::now();
        let talk = async {
            progress.request();
            tokio::time::sleep(Duration::from_secs(1)).await;
            progress.record_response();
            tokio::time::sleep(Duration::from_secs(9)).await;
            progress.request();
        };
        tokio::join!(progress.wait_unanswered(ANSWER_TIMEOUT), talk);
        assert_eq!(start.elapsed(), Duration::from_secs(10) + ANSWER_TIMEOUT);
    }
}
