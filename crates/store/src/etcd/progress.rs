//! Asks the watch how far it has come, so that a quiet range counts as up to date,
//! and notices when nobody answers.

use crate::sync::Mutex;
use optik_etcd_api::etcdserverpb::watch_request::RequestUnion;
use optik_etcd_api::etcdserverpb::{WatchProgressRequest, WatchRequest};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

#[derive(Debug, Default)]
pub(crate) struct Progress {
    state: Mutex<State>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Where the requests of the present watch go.
    requests: Option<mpsc::Sender<WatchRequest>>,
    asked: Option<Instant>,
    /// The first question since we last heard anything.
    unanswered: Option<Instant>,
}

impl Progress {
    pub(crate) fn connect(&self, requests: mpsc::Sender<WatchRequest>) {
        let mut state = self.state.lock();
        state.requests = Some(requests);
        state.unanswered = None;
    }

    pub(crate) fn disconnect(&self) {
        self.state.lock().requests = None;
    }

    pub(crate) fn ask(&self) {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.asked = Some(now);
        if let Some(requests) = &state.requests {
            let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
            // If it is full, then others have asked already.
            let _ = requests.try_send(WatchRequest {
                request_union: Some(progress),
            });
            state.unanswered.get_or_insert(now);
            self.asked.notify_one();
        }
    }

    /// Asks unless somebody did within `interval`: those who wait need not all ask.
    pub(crate) fn ask_again(&self, interval: Duration) {
        let asked = self.state.lock().asked;
        if asked.is_none_or(|asked| asked.elapsed() >= interval) {
            self.ask();
        }
    }

    /// Says that the watch has sent something, which is as good as an answer.
    pub(crate) fn heard(&self) {
        self.state.lock().unanswered = None;
    }

    /// Returns once a question has gone without an answer for `patience`.
    pub(crate) async fn unanswered(&self, patience: Duration) {
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

    const PATIENCE: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn silence_counts_from_the_first_question() {
        let progress = Progress::default();
        let (requests, mut sent) = mpsc::channel(1);
        progress.connect(requests);
        let start = Instant::now();
        let questions = async {
            for _ in 0..5 {
                progress.ask_again(Duration::from_millis(50));
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::join!(progress.unanswered(PATIENCE), questions);
        assert_eq!(start.elapsed(), PATIENCE);
        assert!(sent.try_recv().is_ok());
        assert!(sent.try_recv().is_err(), "one is enough");
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_is_heard_is_an_answer() {
        let progress = Progress::default();
        let (requests, _sent) = mpsc::channel(1);
        progress.connect(requests);
        let start = Instant::now();
        let talk = async {
            progress.ask();
            tokio::time::sleep(Duration::from_secs(1)).await;
            progress.heard();
            tokio::time::sleep(Duration::from_secs(9)).await;
            progress.ask();
        };
        tokio::join!(progress.unanswered(PATIENCE), talk);
        assert_eq!(start.elapsed(), Duration::from_secs(10) + PATIENCE);
    }
}
