//! The table of checks itself.

use optik_api_testkit::{suite, wire};
use std::collections::BTreeSet;

/// Informers are checked with the clients that have them, not here.
const LEFT_TO_CLIENTS: u16 = 113;

#[test]
fn every_assertion_has_a_check() {
    let covered: BTreeSet<u16> = suite::all()
        .flat_map(|check| check.numbers)
        .copied()
        .collect();
    let expected: BTreeSet<u16> = (1..=118)
        .filter(|number| *number != LEFT_TO_CLIENTS)
        .collect();
    assert_eq!(expected, covered);
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<&str> = suite::all().map(|check| check.name).collect();
    assert_eq!(names.len(), suite::all().count());
}

#[test]
fn the_checklist_of_the_wire_names_checks() {
    let names: BTreeSet<&str> = suite::all().map(|check| check.name).collect();
    for (number, checks) in wire::ASSERTIONS {
        for check in *checks {
            assert!(names.contains(check), "{number}: {check}");
        }
    }
}
