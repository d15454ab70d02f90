use super::*;
use crate::rbac::policy_rule::has_or_all;
use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::json;

fn rules(value: serde_json::Value) -> Vec<PolicyRule> {
    serde_json::from_value(value).unwrap()
}

/// A reference implementation that materializes the product.
fn naively_missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let parts = wanted.iter().flat_map(broken_down);
    let covered = |part: &PolicyRule| held.iter().any(|rule| covers_part(rule, part));
    parts.filter(|part| !covered(part)).collect()
}

fn broken_down(rule: &PolicyRule) -> Vec<PolicyRule> {
    let one = |value: &String| vec![value.clone()];
    let mut parts = Vec::new();
    let names: Vec<Vec<String>> = match rule.resource_names.is_empty() {
        true => vec![Vec::new()],
        false => rule.resource_names.iter().map(one).collect(),
    };
    for group in &rule.api_groups {
        for resource in &rule.resources {
            for verb in &rule.verbs {
                parts.extend(names.iter().map(|names| PolicyRule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    resource_names: names.clone(),
                    ..PolicyRule::default()
                }));
            }
        }
    }
    for url in &rule.non_resource_urls {
        parts.extend(rule.verbs.iter().map(|verb| PolicyRule {
            verbs: one(verb),
            non_resource_urls: one(url),
            ..PolicyRule::default()
        }));
    }
    parts
}

fn covers_part(held: &PolicyRule, part: &PolicyRule) -> bool {
    let resource = |resource: &String| {
        let below = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
        has_or_all(&held.resources, resource)
            || below.is_some_and(|below| held.resources.contains(&below))
    };
    let names = held.resource_names.is_empty()
        || (!part.resource_names.is_empty()
            && part
                .resource_names
                .iter()
                .all(|name| held.resource_names.contains(name)));
    let path = |path: &String| {
        held.non_resource_urls
            .iter()
            .any(|url| url_covers(url, path))
    };
    names
        && part.verbs.iter().all(|verb| has_or_all(&held.verbs, verb))
        && part
            .api_groups
            .iter()
            .all(|group| has_or_all(&held.api_groups, group))
        && part.resources.iter().all(resource)
        && part.non_resource_urls.iter().all(path)
}

fn url_covers(url: &str, path: &str) -> bool {
    url == path || (url.ends_with(WILDCARD) && path.starts_with(url.trim_end_matches(WILDCARD)))
}

fn some(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    let some = subsequence(of, 0..=of.len().min(3)).prop_shuffle();
    (some, prop::option::of(prop::sample::select(of))).prop_map(|(mut some, again)| {
        some.extend(again);
        some.into_iter().map(str::to_owned).collect()
    })
}

fn rule() -> impl Strategy<Value = PolicyRule> {
    (
        some(&["get", "list", "watch", "*"]),
        some(&["", "apps", "*"]),
        some(&["pods", "pods/scale", "*/scale", "jobs", "*", "*/"]),
        some(&["a", "b", "*"]),
        some(&["/a", "/a/b", "/a/*", "/*", "*"]),
        any::<bool>(),
    )
        .prop_map(
            |(verbs, api_groups, resources, names, urls, named)| PolicyRule {
                verbs,
                api_groups,
                resources,
                resource_names: if named { names } else { Vec::new() },
                non_resource_urls: urls,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn uncovered_rules_match_naive_product(
        held in prop::collection::vec(rule(), 0..5),
        wanted in prop::collection::vec(rule(), 0..4),
    ) {
        let found = uncovered_rules(&held, &wanted);
        prop_assert!(!found.more);
        prop_assert_eq!(found.parts, naively_missing(&held, &wanted));
    }
}

fn many(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{what}{at}")).collect()
}

/// A rule of ten thousand bytes that stands for 100 million combinations.
fn large() -> PolicyRule {
    PolicyRule {
        verbs: many("v", 100),
        api_groups: many("g", 100),
        resources: many("r", 100),
        resource_names: many("n", 100),
        ..PolicyRule::default()
    }
}

#[test]
fn uncovered_rules_of_large_product_are_bounded() {
    let missing = uncovered_rules(&[], &[large()]);
    assert!(missing.more);
    assert_eq!(missing.parts.len(), REPORTED_RULES_MAX);
    assert_eq!(missing.parts, broken_down_at_first(&large()));
}

fn broken_down_at_first(rule: &PolicyRule) -> Vec<PolicyRule> {
    let few = PolicyRule {
        api_groups: rule.api_groups[..1].to_vec(),
        resources: rule.resources[..1].to_vec(),
        verbs: rule.verbs[..REPORTED_RULES_MAX / rule.resource_names.len()].to_vec(),
        ..rule.clone()
    };
    broken_down(&few)
}

#[test]
fn large_product_covered_by_several_rules_is_covered() {
    let whole = large();
    let half = |from: usize| PolicyRule {
        resource_names: whole.resource_names[from..from + 50].to_vec(),
        ..whole.clone()
    };
    let held = [half(0), half(50)];
    assert!(uncovered_rules(&held, std::slice::from_ref(&whole)).is_empty());
    let found = uncovered_rules(&held[..1], &[whole]);
    assert_eq!(found.parts[0].resource_names, ["n50"]);
}

#[test]
fn undecidable_coverage_counts_as_uncovered() {
    // Each held rule lacks a different value of each dimension, so that no two combinations are
    // allowed by the same set of rules.
    let whole = large();
    let but = |list: &[String], at: usize| -> Vec<String> {
        let kept = list.iter().enumerate().filter(|&(n, _)| n % 100 != at);
        kept.map(|(_, value)| value.clone()).collect()
    };
    let held = (0..100).map(|at| PolicyRule {
        verbs: but(&whole.verbs, at),
        api_groups: but(&whole.api_groups, (at * 7) % 100),
        resources: but(&whole.resources, (at * 13) % 100),
        resource_names: but(&whole.resource_names, (at * 29) % 100),
        ..PolicyRule::default()
    });
    let found = uncovered_rules(&held.collect::<Vec<_>>(), std::slice::from_ref(&whole));
    assert!(found.more);
    assert_eq!(found.parts, [whole]);
}

#[test]
fn uncovered_rules_output_bytes_are_bounded() {
    let rule = PolicyRule {
        verbs: vec!["v".repeat(100_000)],
        api_groups: vec![String::new()],
        resources: many("r", 1_000),
        ..PolicyRule::default()
    };
    let found = uncovered_rules(&[], &[rule]);
    assert!(found.more);
    assert_eq!(found.parts.len(), 2);
}

#[test]
fn rule_cover_cases() {
    let held = rules(json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]},
        {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/logs/*"]},
    ]));
    for (wanted, expected) in [
        (
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods", "deployments/scale"]}]),
            "",
        ),
        (
            json!([{"verbs": ["get", "watch"], "apiGroups": [""], "resources": ["pods"]}]),
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}"#,
        ),
        (
            json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["pods"]}]),
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#,
        ),
        (
            json!([{"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["x"]}]),
            "",
        ),
        (
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]),
            r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#,
        ),
        (
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a", "b"]}]),
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#,
        ),
        (
            json!([{"verbs": ["get"], "nonResourceURLs": ["/logs/a", "/logs/*", "/healthz"]}]),
            "",
        ),
        (
            json!([{"verbs": ["get", "post"], "nonResourceURLs": ["/healthz"]}]),
            r#"{NonResourceURLs:["/healthz"], Verbs:["post"]}"#,
        ),
    ] {
        let found = uncovered_rules(&held, &rules(wanted));
        let found: Vec<_> = found.parts.iter().map(PolicyRule::compact).collect();
        assert_eq!(found.join("\n"), expected);
    }
}
