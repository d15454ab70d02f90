//! What is decided about a request is what is then done: whoever takes paths apart to
//! authorize them finds the same in them as whoever carries them out.

use optik_access::{Path, RequestInfo};
use optik_apiserver::{Route, route};
use proptest::prelude::*;

fn segment() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::sample::select(vec![
            "api", "apis", "v1", "apps", "namespaces", "watch", "pods", "secrets", "status",
            "finalize", "default", "a", "scale", "proxy", "rbac.authorization.k8s.io", "roles",
        ])
        .prop_map(str::to_owned),
        1 => prop::sample::select(vec!["", ".", "..", "%2F", "%2f", "a%2Fb", "%61pi", "%ff", "%", "%00", "API", "a b"])
        .prop_map(str::to_owned),
        1 => "[a-z%./0-9]{0,6}",
    ]
}

/// Where objects are, or almost: the beginning is right.
fn below_a_version() -> impl Strategy<Value = Vec<String>> {
    let beginnings = vec![
        "api/v1",
        "apis/apps/v1",
        "api/v1/watch",
        "api/v1/namespaces",
        "api/v1/namespaces/",
        "api/v1/watch/namespaces",
        "api/v1/watch/namespaces/",
        "apis/apps/v1/namespaces/",
        "apis/apps/v1/namespaces/a",
    ];
    let beginning = prop::sample::select(beginnings).prop_map(str::to_owned);
    let rest = prop::collection::vec(segment(), 0..4);
    (beginning, rest).prop_map(|(beginning, rest)| [vec![beginning], rest].concat())
}

fn path() -> impl Strategy<Value = String> {
    let anything = prop::collection::vec(segment(), 0..9);
    let segments = prop_oneof![anything, below_a_version()];
    (
        segments,
        prop::sample::select(vec!["/", "/", "/", "//", ""]),
        prop::sample::select(vec!["", "/", "//"]),
    )
        .prop_map(|(segments, before, after)| format!("{before}{}{after}", segments.join("/")))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn authorized_is_what_is_done(path in path(), method in prop::sample::select(vec!["GET", "POST", "DELETE", "PUT"])) {
        let decoded = Path::decode(&path);
        let info = RequestInfo::read(method, &decoded, "");
        match (route(&path), info.resource()) {
            (Route::Objects(target), Some(of)) => {
                prop_assert_eq!(&target.group, of.group);
                prop_assert_eq!(&target.version, of.version);
                prop_assert_eq!(&target.plural, of.resource);
                prop_assert_eq!(target.name.as_deref().unwrap_or_default(), of.name);
                prop_assert_eq!(target.subresource.as_deref().unwrap_or_default(), of.subresource);
                let own = if of.resource == "namespaces" && target.namespace.is_none() { of.name } else { "" };
                prop_assert_eq!(target.namespace.as_deref().unwrap_or(own), of.namespace);
                prop_assert_eq!(target.watch, info.verb() == "watch");
            }
            (Route::Objects(target), None) => prop_assert!(false, "{path} leads to {target:?}"),
            (other, Some(of)) => prop_assert!(false, "{path} is {other:?}, not {of:?}"),
            (_, None) => {}
        }
    }
}
