//! The table of checks itself.

use optik_api_testkit::{Contract, suite, wire_checklist};
use std::collections::BTreeSet;

/// Informers are checked with the clients that have them, not here.
const LEFT_TO_CLIENTS: u16 = 113;

#[test]
fn every_specification_assertion_has_a_check() {
    let expected = (1..=118).filter(|number| *number != LEFT_TO_CLIENTS);
    assert_eq!(
        expected.collect::<BTreeSet<u16>>(),
        covered(Contract::Concurrency)
    );
    assert_eq!(
        (1..=120).collect::<BTreeSet<u16>>(),
        covered(Contract::Merging)
    );
}

/// Of access, what a client cannot show on any server: it needs a certificate, a full server,
/// a log.
const SHOWN_ELSEWHERE: &[(u16, &str)] = &[
    (96, "crates/serve/tests/access.rs"),
    (106, "crates/serve/tests/flow.rs"),
    (107, "crates/serve/tests/flow.rs"),
];

#[test]
fn every_authorization_assertion_has_a_check() {
    let mut shown = covered(Contract::Extension);
    for (number, file) in SHOWN_ELSEWHERE {
        let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect(file);
        assert!(
            text.contains(&format!("_e{number}(")),
            "{file}: no {number}"
        );
        shown.insert(*number);
    }
    let missing: Vec<u16> = (94..=107)
        .filter(|number| !shown.contains(number))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn covered(contract: Contract) -> BTreeSet<u16> {
    let checks = suite::all().filter(|check| check.contract == contract);
    checks.flat_map(|check| check.numbers).copied().collect()
}

/// What the contract on extension says of garbage and namespaces: a check here, or a test
/// of `lifecycle` if it takes controllers.
#[test]
fn every_lifecycle_assertion_has_a_test() {
    let mut covered = covered(Contract::Extension);
    covered.extend(suite::all().filter_map(|check| number_of(check.name)));
    for file in ["garbage_collection.rs", "namespace_controller.rs"] {
        let path = format!("{}/tests/lifecycle/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect(file);
        let tests = text
            .lines()
            .filter_map(|line| line.strip_prefix("async fn "));
        covered.extend(tests.filter_map(|test| number_of(test.split('(').next()?)));
    }
    let missing: Vec<u16> = (80..=93)
        .filter(|number| !covered.contains(number))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Of the contract on extension: names may end in `_e12`.
fn number_of(name: &str) -> Option<u16> {
    name.rsplit_once("_e")?.1.parse().ok()
}

#[test]
fn check_names_are_unique() {
    let names: BTreeSet<&str> = suite::all().map(|check| check.name).collect();
    assert_eq!(names.len(), suite::all().count());
}

#[test]
fn wire_checklist_names_existing_checks() {
    let names: BTreeSet<&str> = suite::all().map(|check| check.name).collect();
    for (number, checks) in wire_checklist::ASSERTIONS {
        for check in *checks {
            assert!(names.contains(check), "{number}: {check}");
        }
    }
}

#[test]
fn files_in_wire_checklist_cite_their_numbers() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for (number, files) in wire_checklist::BY_CLIENTS {
        for file in *files {
            let text = std::fs::read_to_string(format!("{root}/{file}")).expect(file);
            let lines = text.lines().filter_map(|line| line.split_once("ire "));
            let mut numbers = lines.flat_map(|(_, rest)| {
                let list = rest.split([':', ')', '.']).next().unwrap_or_default();
                list.split(", ").map(str::to_owned).collect::<Vec<_>>()
            });
            assert!(
                numbers.any(|found| found == number.to_string()),
                "{file} does not name wire {number}"
            );
        }
    }
}
