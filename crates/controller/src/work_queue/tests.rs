use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NOW: MonotonicTime = Duration::from_secs(100);

fn queue() -> WorkQueue<u8> {
    WorkQueue::new(WorkQueueOptions::default())
}

fn add(queue: &mut WorkQueue<u8>, key: u8, priority: QueuePriority) {
    queue.add(key, priority, None, NOW);
}

fn taken(queue: &mut WorkQueue<u8>) -> Vec<u8> {
    std::iter::from_fn(|| queue.take(NOW)).collect()
}

#[test]
fn work_queue_deduplicates_keys_and_keeps_their_order() {
    let mut queue = queue();
    for key in [3, 1, 2, 1, 3] {
        add(&mut queue, key, QueuePriority::Normal);
    }
    assert_eq!(taken(&mut queue), [3, 1, 2]);
}

#[test]
fn work_queue_serves_high_priority_first_without_starving_low() {
    let mut queue = queue();
    add(&mut queue, 100, QueuePriority::Low);
    for key in 0..40 {
        add(&mut queue, key, QueuePriority::Normal);
    }
    add(&mut queue, 200, QueuePriority::High);
    let order = taken(&mut queue);
    assert_eq!(order[0], 200);
    let place = order.iter().position(|key| *key == 100).expect("it comes");
    assert!((1..=17).contains(&place), "the low one came at {place}");
}

#[test]
fn work_queue_key_takes_the_highest_requested_priority() {
    let mut queue = queue();
    add(&mut queue, 1, QueuePriority::Low);
    add(&mut queue, 2, QueuePriority::Normal);
    add(&mut queue, 1, QueuePriority::High);
    assert_eq!(taken(&mut queue), [1, 2]);
}

#[test]
fn key_added_while_processing_is_requeued_once() {
    let mut queue = queue();
    add(&mut queue, 1, QueuePriority::Normal);
    assert_eq!(queue.take(NOW), Some(1));
    add(&mut queue, 1, QueuePriority::Normal);
    add(&mut queue, 1, QueuePriority::Normal);
    assert_eq!(queue.take(NOW), None, "one worker for each key");
    queue.finish(&1, RequeueDecision::Done, &[], NOW, 0.0);
    assert_eq!(taken(&mut queue), [1]);
}

#[test]
fn own_changes_do_not_requeue_key_but_foreign_changes_do() {
    for (told, comes) in [
        (vec![(1, 7)], false),
        (vec![(1, 7), (1, 8)], true),
        (vec![(2, 7)], true),
    ] {
        let mut queue = queue();
        add(&mut queue, 1, QueuePriority::Normal);
        queue.take(NOW);
        for cause in told {
            queue.add(1, QueuePriority::Normal, Some(cause), NOW);
        }
        queue.finish(&1, RequeueDecision::Done, &[(1, 7)], NOW, 0.0);
        assert_eq!(queue.take(NOW).is_some(), comes);
    }
}

#[test]
fn work_queue_backoff_doubles_per_failure_and_resets_on_success() {
    let mut queue = queue();
    let mut now = NOW;
    add(&mut queue, 1, QueuePriority::Normal);
    for failure in 0..30_u32 {
        assert_eq!(queue.take(now), Some(1));
        queue.finish(&1, RequeueDecision::Failed, &[], now, 0.0);
        let wake = queue.next_wake().expect("it waits");
        let expected = doubled(Duration::from_millis(5), failure, Duration::from_secs(1000));
        assert_eq!(wake - now, expected);
        assert_eq!(queue.take(wake - Duration::from_nanos(1)), None);
        now = wake;
    }
    assert_eq!(queue.take(now), Some(1));
    queue.finish(&1, RequeueDecision::Done, &[], now, 0.0);
    assert_eq!(queue.failures(&1), 0);
}

#[test]
fn change_requeues_failed_key_before_its_backoff_ends() {
    let mut queue = queue();
    add(&mut queue, 1, QueuePriority::Normal);
    queue.take(NOW);
    queue.finish(&1, RequeueDecision::Failed, &[], NOW, 0.5);
    assert_eq!(queue.take(NOW), None);
    add(&mut queue, 1, QueuePriority::Normal);
    assert_eq!(queue.take(NOW), Some(1));
    assert_eq!(queue.failures(&1), 1);
}

#[test]
fn work_queue_add_at_keeps_the_earlier_time() {
    let mut queue = queue();
    queue.add_at(1, NOW + Duration::from_secs(10), NOW);
    queue.add_at(1, NOW + Duration::from_secs(20), NOW);
    assert_eq!(queue.next_wake(), Some(NOW + Duration::from_secs(10)));
    queue.add_at(1, NOW + Duration::from_secs(5), NOW);
    assert_eq!(queue.next_wake(), Some(NOW + Duration::from_secs(5)));
    assert_eq!(queue.delayed(), 1);
}

#[derive(Clone, Debug)]
enum QueueOp {
    Add(u8, QueuePriority, Option<ChangeId>),
    AddAt(u8, u64),
    Take,
    Finish(usize, RequeueDecision, Vec<ChangeId>),
    Forget(u8),
    Advance(u64),
}

fn queue_op() -> impl Strategy<Value = QueueOp> {
    let priority = prop_oneof![
        Just(QueuePriority::Low),
        Just(QueuePriority::Normal),
        Just(QueuePriority::High)
    ];
    let cause = proptest::option::of((0..2_u32, 0..4_u64));
    let verdict = prop_oneof![
        Just(RequeueDecision::Done),
        (0..50_u64).prop_map(|ms| RequeueDecision::After(Duration::from_millis(ms))),
        (0..50_u64).prop_map(|ms| RequeueDecision::Hold(Duration::from_millis(ms))),
        Just(RequeueDecision::Failed),
        Just(RequeueDecision::Abandoned),
    ];
    prop_oneof![
        3 => (0..6_u8, priority, cause).prop_map(|(key, priority, cause)| QueueOp::Add(key, priority, cause)),
        1 => (0..6_u8, 0..100_u64).prop_map(|(key, ms)| QueueOp::AddAt(key, ms)),
        4 => Just(QueueOp::Take),
        3 => (0..6_usize, verdict, proptest::collection::vec((0..2_u32, 0..4_u64), 0..3))
            .prop_map(|(which, verdict, own)| QueueOp::Finish(which, verdict, own)),
        1 => (0..6_u8).prop_map(QueueOp::Forget),
        2 => (0..30_u64).prop_map(QueueOp::Advance),
    ]
}

/// A model of the queue, with the simplest possible state.
#[derive(Default)]
struct QueueModel {
    /// Requested, and neither taken nor forgotten since.
    wanted: BTreeSet<u8>,
    running: Vec<u8>,
    /// The requests while a key was processed: their causes, `None` for those without one.
    meanwhile: BTreeMap<u8, Vec<Option<ChangeId>>>,
    timed: BTreeMap<u8, MonotonicTime>,
    /// The timed keys that a request does not make ready earlier.
    held: BTreeSet<u8>,
}

proptest! {
    #[test]
    fn work_queue_loses_no_key_and_processes_none_twice(deeds in proptest::collection::vec(queue_op(), 1..200)) {
        let mut queue = queue();
        let mut model = QueueModel::default();
        let mut now = NOW;
        for deed in deeds {
            match deed {
                QueueOp::Add(key, priority, cause) => {
                    queue.add(key, priority, cause, now);
                    if model.running.contains(&key) {
                        model.meanwhile.entry(key).or_default().push(cause);
                    } else if !model.held.contains(&key) {
                        model.timed.remove(&key);
                        model.wanted.insert(key);
                    }
                }
                QueueOp::AddAt(key, ms) => {
                    let at = now + Duration::from_millis(ms);
                    queue.add_at(key, at, now);
                    let out = !model.running.contains(&key) && !model.wanted.contains(&key);
                    if out && !model.held.contains(&key) {
                        let own = model.timed.entry(key).or_insert(at);
                        *own = at.min(*own);
                    }
                }
                QueueOp::Take => {
                    let due: Vec<u8> = model.timed.iter().filter(|(_, at)| **at <= now).map(|(key, _)| *key).collect();
                    for key in due {
                        model.timed.remove(&key);
                        model.held.remove(&key);
                        model.wanted.insert(key);
                    }
                    match queue.take(now) {
                        Some(key) => {
                            prop_assert!(model.wanted.remove(&key), "{key} was not asked for");
                            prop_assert!(!model.running.contains(&key), "{key} runs twice");
                            model.running.push(key);
                        }
                        None => prop_assert!(model.wanted.is_empty(), "{:?} do not come", model.wanted),
                    }
                }
                QueueOp::Finish(which, verdict, own) if !model.running.is_empty() => {
                    let key = model.running.remove(which % model.running.len());
                    queue.finish(&key, verdict, &own, now, 0.0);
                    let asked = model.meanwhile.remove(&key).unwrap_or_default();
                    let by_others = asked.iter().any(|cause| cause.is_none_or(|cause| !own.contains(&cause)));
                    match verdict {
                        RequeueDecision::Abandoned => { model.wanted.insert(key); }
                        RequeueDecision::Hold(wait) => {
                            model.timed.insert(key, now + wait);
                            model.held.insert(key);
                        }
                        _ if by_others => { model.wanted.insert(key); }
                        RequeueDecision::Done => {}
                        RequeueDecision::After(wait) => { model.timed.insert(key, now + wait); }
                        RequeueDecision::Failed => {
                            let wait = doubled(Duration::from_millis(5), queue.failures(&key) - 1, Duration::from_secs(1000));
                            model.timed.insert(key, now + wait);
                        }
                    }
                }
                QueueOp::Finish(..) => {}
                QueueOp::Forget(key) => {
                    queue.forget(&key);
                    model.wanted.remove(&key);
                    model.timed.remove(&key);
                    model.held.remove(&key);
                }
                QueueOp::Advance(ms) => now += Duration::from_millis(ms),
            }
            prop_assert_eq!(queue.processing(), model.running.len());
        }
    }
}
