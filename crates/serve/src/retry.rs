//! How soon those are to come again who found no room.
//!
//! The longer there is none, the later: if many were sent away within the time that they
//! were told, it doubles, and if few were, it becomes a second less.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

const SECONDS_MAX: u64 = 32;
/// For each second of waiting, how many refusals are many.
const MANY: u64 = 3;

#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Seconds, and how many were refused in each.
    seconds: VecDeque<(u64, u64)>,
    after: u64,
    raised: Option<u64>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            seconds: VecDeque::new(),
            after: 1,
            raised: None,
        }
    }
}

impl Refusals {
    /// Somebody is refused in this second; after how many more they are to come again.
    pub(crate) fn one_more(&self, second: u64) -> u64 {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.seconds.back_mut() {
            Some((last, count)) if *last == second => *count += 1,
            _ => {
                state.judge(second);
                state.seconds.push_back((second, 1));
            }
        }
        state.after
    }
}

impl State {
    /// A second in which somebody is refused begins.
    fn judge(&mut self, now: u64) {
        let old = |(second, _): &(u64, u64)| second.saturating_add(SECONDS_MAX) < now;
        while self.seconds.front().is_some_and(old) {
            self.seconds.pop_front();
        }
        let since = now.saturating_sub(self.after);
        let recent = self.seconds.iter().filter(|(second, _)| *second >= since);
        let refused: u64 = recent.map(|(_, count)| count).sum();
        // One rush raises it once.
        let settled = self.raised.is_none_or(|raised| raised <= since);
        if settled && refused >= MANY * self.after {
            self.after = (2 * self.after).min(SECONDS_MAX);
            self.raised = Some(now);
        } else if refused < self.after && self.after > 1 {
            self.after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_while_many_are_refused_and_shrinks_again() {
        let refusals = Refusals::default();
        let rush = |second: u64, count: u64| {
            let told: Vec<u64> = (0..count).map(|_| refusals.one_more(second)).collect();
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
        let shrunk = (1..40).map(|turn| rush(300 + 40 * turn, 1)).last();
        assert_eq!(shrunk, Some(1));
    }
}
