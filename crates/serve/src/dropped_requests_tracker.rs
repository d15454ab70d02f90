//! The `Retry-After` of requests that the in-flight limit rejects.
//!
//! It adapts to the overload: if many requests were rejected within the current `Retry-After`, it
//! doubles; if few were, it decreases by a second.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const RETRY_AFTER_SECONDS_MAX: u64 = 32;
/// The number of rejections for each second of `Retry-After` that counts as many.
const MANY_PER_SECOND: u64 = 3;

#[derive(Debug, Default)]
pub(crate) struct DroppedRequestsTracker(Mutex<DroppedRequestsState>);

#[derive(Debug)]
struct DroppedRequestsState {
    /// Seconds, and the number of rejections in each.
    dropped_by_second: VecDeque<(u64, u64)>,
    retry_after: u64,
    raised: Option<u64>,
}

impl Default for DroppedRequestsState {
    fn default() -> Self {
        Self {
            dropped_by_second: VecDeque::new(),
            retry_after: 1,
            raised: None,
        }
    }
}

impl DroppedRequestsTracker {
    /// Records a rejection in this second; returns the `Retry-After` in seconds.
    pub(crate) fn record_dropped_request(&self, second: u64) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.dropped_by_second.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => {
                state.adjust_retry_after(second);
                state.dropped_by_second.push_back((second, 1));
            }
        }
        state.retry_after
    }
}

impl DroppedRequestsState {
    /// Adapts `retry_after`, at the first rejection of a second.
    fn adjust_retry_after(&mut self, now: u64) {
        let old = |(second, _): &(u64, u64)| second.saturating_add(RETRY_AFTER_SECONDS_MAX) < now;
        while self.dropped_by_second.front().is_some_and(old) {
            self.dropped_by_second.pop_front();
        }
        let since = now.saturating_sub(self.retry_after);
        let recent = self
            .dropped_by_second
            .iter()
            .filter(|(second, _)| *second >= since);
        let refused: u64 = recent.map(|(_, count)| count).sum();
        // One burst raises it once.
        let settled = self.raised.is_none_or(|raised| raised <= since);
        if settled && refused >= MANY_PER_SECOND * self.retry_after {
            self.retry_after = (2 * self.retry_after).min(RETRY_AFTER_SECONDS_MAX);
            self.raised = Some(now);
        } else if refused < self.retry_after && self.retry_after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_grows_while_many_requests_are_dropped_then_shrinks() {
        let refusals = DroppedRequestsTracker::default();
        let rush = |second: u64, count: u64| {
            let told: Vec<u64> = (0..count)
                .map(|_| refusals.record_dropped_request(second))
                .collect();
            assert!(told.windows(2).all(|two| two[0] == two[1]), "{told:?}");
            told[0]
        };
        assert_eq!(rush(100, 50), 1, "at first nobody knows better");
        assert_eq!(rush(101, 50), 2);
        assert_eq!(rush(102, 50), 2, "they were told two seconds");
        assert_eq!(rush(103, 50), 4);
        let grown = (104..200).map(|second| rush(second, 200)).max();
        assert_eq!(grown, Some(32), "and no further");
        assert_eq!(rush(300, 1), 31);
        let shrunk: Vec<u64> = (1..40).map(|turn| rush(300 + 40 * turn, 1)).collect();
        assert_eq!((shrunk[0], shrunk[38]), (30, 1), "{shrunk:?}");
    }
}
