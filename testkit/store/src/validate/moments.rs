//! Answers that name no revision: each must be true at a moment between the request
//! and the answer.
//!
//! Every answer is given the first revision that it can be of, and what was known
//! when a request began bounds that from below. So there is no search here either:
//! if an answer finds no moment, no order of events explains the history.

use super::log::is_met;
use super::order::{self, Moment};
use super::{Guarantee, Log, Verdict, Violation};
use crate::history::{Expectation, History, Item, Operation, Outcome, Request, Span};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn check(history: &History, log: &Log) -> Verdict {
    let past = Past::of(log);
    let mut newest = log.start();
    let mut known_at: BTreeMap<u64, u64> = BTreeMap::new();
    for (operation, moment) in order::moments(history).into_values() {
        match moment {
            Moment::Begins => drop(known_at.insert(operation.begun, newest)),
            Moment::Ends => {
                let known = known_at.remove(&operation.begun).unwrap_or(newest);
                newest = newest.max(past.moment_of(operation, known)?);
            }
        }
    }
    Ok(())
}

/// Every key at every revision.
struct Past {
    keys: BTreeMap<String, BTreeMap<u64, Option<Item>>>,
    /// When the last write up to each revision was asked for.
    asked: BTreeMap<u64, u64>,
    /// The revision of the write that was asked for at a time.
    made: BTreeMap<u64, u64>,
}

impl Past {
    fn of(log: &Log) -> Self {
        let mut keys: BTreeMap<String, BTreeMap<u64, Option<Item>>> = BTreeMap::new();
        let initial = log.initial().iter();
        let initial = initial.map(|(key, item)| (key, log.start(), Some(item.clone())));
        let events = log.commits().values().flatten();
        let events = events.map(|event| (&event.key, event.revision, event.item.clone()));
        for (key, revision, item) in initial.chain(events) {
            keys.entry(key.clone()).or_default().insert(revision, item);
        }
        let mut last = 0;
        let asked = log.asked().iter().map(|(revision, begun)| {
            last = last.max(*begun);
            (*revision, last)
        });
        let made = log
            .asked()
            .iter()
            .map(|(revision, begun)| (*begun, *revision));
        Self {
            keys,
            asked: asked.collect(),
            made: made.collect(),
        }
    }

    fn item(&self, key: &str, at: u64) -> Option<&Item> {
        let (_, item) = self.keys.get(key)?.range(..=at).next_back()?;
        item.as_ref()
    }

    /// The first revision that an answer can be of; zero if it tells nothing.
    fn moment_of(&self, operation: &Operation, known: u64) -> Result<u64, Violation> {
        let named = match operation.outcome {
            Outcome::Done => self.made.get(&operation.begun).copied(),
            _ => operation.outcome.revision(),
        };
        if let Some(revision) = named {
            return match order::broken(operation, revision, known, 0) {
                None => Ok(revision),
                Some(guarantee) => {
                    let evidence = format!("{known} was known before {revision}: {operation:?}");
                    Err(Violation::new(guarantee, evidence))
                }
            };
        }
        match (&operation.request, &operation.outcome) {
            (Request::Write { expects, .. }, Outcome::Denied) => {
                self.denied(operation, expects, known)
            }
            (Request::Read { span, .. }, Outcome::Glimpsed { items }) => {
                self.glimpsed(operation, span, items, known)
            }
            _ => Ok(0),
        }
    }

    fn denied(
        &self,
        operation: &Operation,
        expects: &[Expectation],
        known: u64,
    ) -> Result<u64, Violation> {
        let keys = expects.iter().map(|expected| expected.key.as_str());
        let unmet = |at| {
            let is_unmet = |expected: &Expectation| {
                let item = self.item(&expected.key, at);
                let state = item.map(|item| (expected.key.clone(), item.clone()));
                !is_met(expected, &state.into_iter().collect())
            };
            expects.iter().any(is_unmet)
        };
        let moment = self.first(operation, known, keys, unmet);
        moment.ok_or_else(|| {
            let evidence = format!("every condition held all the time: {operation:?}");
            Violation::new(Guarantee::RefusalsAreRight, evidence)
        })
    }

    fn glimpsed(
        &self,
        operation: &Operation,
        span: &Span,
        items: &[Item],
        known: u64,
    ) -> Result<u64, Violation> {
        let key = span.start.as_str();
        let shown = |at| match (self.item(key, at), items) {
            (Some(real), [seen]) => real.looks_like(seen),
            (None, []) => true,
            _ => false,
        };
        if *span == Span::one(key)
            && let Some(moment) = self.first(operation, known, std::iter::once(key), shown)
        {
            return Ok(moment);
        }
        let evidence = format!("{known} was known before {operation:?}");
        Err(Violation::new(Guarantee::ReadsAreFresh, evidence))
    }

    /// The first revision at which something holds, of those an answer can be of. Only
    /// changes of `keys` can make a difference.
    fn first<'key>(
        &self,
        operation: &Operation,
        known: u64,
        keys: impl Iterator<Item = &'key str>,
        holds: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        let has_begun = |at: &u64| {
            self.asked
                .get(at)
                .is_none_or(|asked| *asked < operation.ended)
        };
        let changes: BTreeSet<u64> = keys
            .filter_map(|key| self.keys.get(key))
            .flat_map(|changes| {
                let later = changes.range(known + 1..).map(|(at, _)| *at);
                later.take_while(has_begun)
            })
            .collect();
        std::iter::once(known).chain(changes).find(|at| holds(*at))
    }
}
