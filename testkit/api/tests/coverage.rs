//! Tests of the table of checks: coverage of the assertions.

use optik_api_testkit::suite;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Assertions that no check of the suite covers, because they need a certificate, a server at its
/// limit, a log, controllers, a client library or an etcd server, and the files whose tests show
/// them.
const SHOWN_ELSEWHERE: &[(&[&str], &str)] = &[
    (
        &[
            "EXT-80", "EXT-81", "EXT-82", "EXT-83", "EXT-84", "EXT-85", "EXT-86",
        ],
        "testkit/api/tests/lifecycle/garbage_collection.rs",
    ),
    (
        &["EXT-91", "EXT-92", "EXT-93"],
        "testkit/api/tests/lifecycle/namespace_controller.rs",
    ),
    (&["EXT-96", "WIRE-79"], "crates/serve/tests/access.rs"),
    (
        &["EXT-106", "EXT-107", "WIRE-85", "WIRE-86"],
        "crates/serve/tests/flow.rs",
    ),
    (&["WIRE-28", "WIRE-89"], "compat/kubectl/run.sh"),
    (&["WIRE-29", "WIRE-74", "WIRE-90"], "compat/kubectl/read.sh"),
    (&["WIRE-32"], "crates/apiserver/tests/patched_custom.rs"),
    (
        &["CONC-113", "WIRE-73"],
        "compat/go/clientgo/informers_test.go",
    ),
    (&["WIRE-84"], "crates/serve/tests/shutdown.rs"),
    (&["WIRE-91", "WIRE-92"], "compat/go/envtest/envtest_test.go"),
    (&["WIRE-93"], "compat/java/Client.java"),
    (&["WIRE-94"], "testkit/clients/tests/kube/main.rs"),
    (&["WIRE-95"], "compat/helm/run.sh"),
    (
        &[
            "WIRE-96", "WIRE-97", "WIRE-98", "WIRE-99", "WIRE-100", "WIRE-101", "WIRE-102",
            "WIRE-103", "WIRE-104", "WIRE-105", "WIRE-106", "WIRE-107", "WIRE-108",
        ],
        "crates/etcd-facade/tests/spec.rs",
    ),
    (&["WIRE-109"], "xtask/src/compat/etcd.rs"),
];

/// The files of `docs/spec` whose assertions the suite is about.
const SPECIFICATIONS: &[&str] = &[
    "concurrency-and-watch.md",
    "patch-and-apply.md",
    "extension-and-policy.md",
    "wire.md",
];

fn read(path: &str) -> String {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    std::fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `CONC-17` of `- **CONC-17** …`
fn assertion(line: &str) -> Option<&str> {
    let id = line.strip_prefix("- **")?.split("**").next()?;
    let (_, number) = id.split_once('-')?;
    number.parse::<u16>().is_ok().then_some(id)
}

#[test]
fn every_assertion_has_a_check_or_a_test_elsewhere() {
    let covered: BTreeSet<&str> = suite::all().flat_map(|check| check.ids).copied().collect();
    let elsewhere: BTreeMap<&str, &str> = SHOWN_ELSEWHERE
        .iter()
        .flat_map(|(ids, file)| ids.iter().map(|id| (*id, *file)))
        .collect();
    // `cargo xtask tidy` checks that these have no test.
    let unproven = read("docs/spec/unproven.md");
    let mut missing = Vec::new();
    for file in SPECIFICATIONS {
        let text = read(&format!("docs/spec/{file}"));
        for id in text.lines().filter_map(assertion) {
            let is_unproven = unproven.contains(&format!("| {id} |"));
            let places = [
                covered.contains(id),
                elsewhere.contains_key(id),
                is_unproven,
            ];
            if places.iter().filter(|place| **place).count() != 1 {
                missing.push(id.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "not in exactly one place: {missing:?}");
}

#[test]
fn files_that_show_assertions_cite_their_ids() {
    for (ids, file) in SHOWN_ELSEWHERE {
        let text = read(file);
        let cited: BTreeSet<&str> = text
            .split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-')
            .collect();
        for id in *ids {
            assert!(cited.contains(id), "{file} does not cite {id}");
        }
    }
}

#[test]
fn check_names_are_unique() {
    let names: BTreeSet<&str> = suite::all().map(|check| check.name).collect();
    assert_eq!(names.len(), suite::all().count());
}
