use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const NOW: Moment = Duration::from_secs(100);

fn queue() -> Queue<u8> {
    Queue::new(QueueOptions::default())
}

fn add(queue: &mut Queue<u8>, key: u8, priority: Priority) {
    queue.add(key, priority, None, NOW);
}

fn taken(queue: &mut Queue<u8>) -> Vec<u8> {
    std::iter::from_fn(|| queue.take(NOW)).collect()
}

#[test]
fn keys_come_once_in_the_order_they_were_asked_for() {
    let mut queue = queue();
    for key in [3, 1, 2, 1, 3] {
        add(&mut queue, key, Priority::Normal);
    }
    assert_eq!(taken(&mut queue), [3, 1, 2]);
}

#[test]
fn higher_priorities_come_first_and_lower_ones_come_too() {
    let mut queue = queue();
    add(&mut queue, 100, Priority::Low);
    for key in 0..40 {
        add(&mut queue, key, Priority::Normal);
    }
    add(&mut queue, 200, Priority::High);
    let order = taken(&mut queue);
    assert_eq!(order[0], 200);
    let place = order.iter().position(|key| *key == 100).expect("it comes");
    assert!((1..=17).contains(&place), "the low one came at {place}");
}

#[test]
fn a_key_is_raised_by_whoever_needs_it_most() {
    let mut queue = queue();
    add(&mut queue, 1, Priority::Low);
    add(&mut queue, 2, Priority::Normal);
    add(&mut queue, 1, Priority::High);
    assert_eq!(taken(&mut queue), [1, 2]);
}

#[test]
fn what_is_told_meanwhile_brings_it_back_once() {
    let mut queue = queue();
    add(&mut queue, 1, Priority::Normal);
    assert_eq!(queue.take(NOW), Some(1));
    add(&mut queue, 1, Priority::Normal);
    add(&mut queue, 1, Priority::Normal);
    assert_eq!(queue.take(NOW), None, "one worker for each key");
    queue.finish(&1, Verdict::Done, &[], NOW, 0.0);
    assert_eq!(taken(&mut queue), [1]);
}

#[test]
fn its_own_changes_do_not_bring_it_back_but_others_do() {
    for (told, comes) in [
        (vec![(1, 7)], false),
        (vec![(1, 7), (1, 8)], true),
        (vec![(2, 7)], true),
    ] {
        let mut queue = queue();
        add(&mut queue, 1, Priority::Normal);
        queue.take(NOW);
        for cause in told {
            queue.add(1, Priority::Normal, Some(cause), NOW);
        }
        queue.finish(&1, Verdict::Done, &[(1, 7)], NOW, 0.0);
        assert_eq!(queue.take(NOW).is_some(), comes);
    }
}

#[test]
fn failures_wait_longer_each_time_and_success_forgets_them() {
    let mut queue = queue();
    let mut now = NOW;
    add(&mut queue, 1, Priority::Normal);
    for failure in 0..30_u32 {
        assert_eq!(queue.take(now), Some(1));
        queue.finish(&1, Verdict::Failed, &[], now, 0.0);
        let wake = queue.next_wake().expect("it waits");
        let expected = doubled(Duration::from_millis(5), failure, Duration::from_secs(1000));
        assert_eq!(wake - now, expected);
        assert_eq!(queue.take(wake - Duration::from_nanos(1)), None);
        now = wake;
    }
    assert_eq!(queue.take(now), Some(1));
    queue.finish(&1, Verdict::Done, &[], now, 0.0);
    assert_eq!(queue.failures(&1), 0);
}

#[test]
fn a_change_does_not_wait_for_a_failure_to_be_forgiven() {
    let mut queue = queue();
    add(&mut queue, 1, Priority::Normal);
    queue.take(NOW);
    queue.finish(&1, Verdict::Failed, &[], NOW, 0.5);
    assert_eq!(queue.take(NOW), None);
    add(&mut queue, 1, Priority::Normal);
    assert_eq!(queue.take(NOW), Some(1));
    assert_eq!(queue.failures(&1), 1);
}

#[test]
fn the_sooner_of_two_times_counts() {
    let mut queue = queue();
    queue.add_at(1, NOW + Duration::from_secs(10), NOW);
    queue.add_at(1, NOW + Duration::from_secs(20), NOW);
    assert_eq!(queue.next_wake(), Some(NOW + Duration::from_secs(10)));
    queue.add_at(1, NOW + Duration::from_secs(5), NOW);
    assert_eq!(queue.next_wake(), Some(NOW + Duration::from_secs(5)));
    assert_eq!(queue.delayed(), 1);
}

#[derive(Clone, Debug)]
enum Deed {
    Add(u8, Priority, Option<Cause>),
    AddAt(u8, u64),
    Take,
    Finish(usize, Verdict, Vec<Cause>),
    Forget(u8),
    Pass(u64),
}

fn deed() -> impl Strategy<Value = Deed> {
    let priority = prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ];
    let cause = proptest::option::of((0..2_u32, 0..4_u64));
    let verdict = prop_oneof![
        Just(Verdict::Done),
        (0..50_u64).prop_map(|ms| Verdict::After(Duration::from_millis(ms))),
        (0..50_u64).prop_map(|ms| Verdict::Hold(Duration::from_millis(ms))),
        Just(Verdict::Failed),
        Just(Verdict::Undone),
    ];
    prop_oneof![
        3 => (0..6_u8, priority, cause).prop_map(|(key, priority, cause)| Deed::Add(key, priority, cause)),
        1 => (0..6_u8, 0..100_u64).prop_map(|(key, ms)| Deed::AddAt(key, ms)),
        4 => Just(Deed::Take),
        3 => (0..6_usize, verdict, proptest::collection::vec((0..2_u32, 0..4_u64), 0..3))
            .prop_map(|(which, verdict, own)| Deed::Finish(which, verdict, own)),
        1 => (0..6_u8).prop_map(Deed::Forget),
        2 => (0..30_u64).prop_map(Deed::Pass),
    ]
}

/// What must come, by the simplest bookkeeping there is.
#[derive(Default)]
struct Model {
    /// Asked for, and neither taken nor forgotten since.
    wanted: BTreeSet<u8>,
    running: Vec<u8>,
    /// What was asked while they ran: causes, `None` for those without.
    meanwhile: BTreeMap<u8, Vec<Option<Cause>>>,
    timed: BTreeMap<u8, Moment>,
    /// Of those, whom nobody can have sooner.
    held: BTreeSet<u8>,
}

proptest! {
    #[test]
    fn nothing_asked_for_is_lost_and_nothing_runs_twice(deeds in proptest::collection::vec(deed(), 1..200)) {
        let mut queue = queue();
        let mut model = Model::default();
        let mut now = NOW;
        for deed in deeds {
            match deed {
                Deed::Add(key, priority, cause) => {
                    queue.add(key, priority, cause, now);
                    if model.running.contains(&key) {
                        model.meanwhile.entry(key).or_default().push(cause);
                    } else if !model.held.contains(&key) {
                        model.timed.remove(&key);
                        model.wanted.insert(key);
                    }
                }
                Deed::AddAt(key, ms) => {
                    let at = now + Duration::from_millis(ms);
                    queue.add_at(key, at, now);
                    let out = !model.running.contains(&key) && !model.wanted.contains(&key);
                    if out && !model.held.contains(&key) {
                        let own = model.timed.entry(key).or_insert(at);
                        *own = at.min(*own);
                    }
                }
                Deed::Take => {
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
                Deed::Finish(which, verdict, own) if !model.running.is_empty() => {
                    let key = model.running.remove(which % model.running.len());
                    queue.finish(&key, verdict, &own, now, 0.0);
                    let asked = model.meanwhile.remove(&key).unwrap_or_default();
                    let by_others = asked.iter().any(|cause| cause.is_none_or(|cause| !own.contains(&cause)));
                    match verdict {
                        Verdict::Undone => { model.wanted.insert(key); }
                        Verdict::Hold(wait) => {
                            model.timed.insert(key, now + wait);
                            model.held.insert(key);
                        }
                        _ if by_others => { model.wanted.insert(key); }
                        Verdict::Done => {}
                        Verdict::After(wait) => { model.timed.insert(key, now + wait); }
                        Verdict::Failed => {
                            let wait = doubled(Duration::from_millis(5), queue.failures(&key) - 1, Duration::from_secs(1000));
                            model.timed.insert(key, now + wait);
                        }
                    }
                }
                Deed::Finish(..) => {}
                Deed::Forget(key) => {
                    queue.forget(&key);
                    model.wanted.remove(&key);
                    model.timed.remove(&key);
                    model.held.remove(&key);
                }
                Deed::Pass(ms) => now += Duration::from_millis(ms),
            }
            prop_assert_eq!(queue.running(), model.running.len());
        }
    }
}
