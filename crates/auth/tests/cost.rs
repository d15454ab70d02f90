//! Upper bounds of the cost of a decision that hold on any machine and in any build profile.
//! Measurements are in BENCHMARKS.md, made by `cargo bench -p optik-auth`.

mod support;

use optik_auth::{AuthorizationAttributes, FlowSchema, FlowSchemaSet, ResourceAttributes};
use optik_platform::{Clock, SystemClock};
use std::hint::black_box;
use std::time::Duration;
use support::{CONFIGMAP, kim, policy};

/// The fastest of many rounds, because the machine may be busy.
fn cost(mut of: impl FnMut() -> bool) -> Duration {
    const ROUNDS: u32 = 50;
    const TIMES: u32 = 1_000;
    let clock = SystemClock::default();
    let rounds = (0..ROUNDS).map(|_| {
        let began = clock.monotonic();
        for _ in 0..TIMES {
            black_box(of());
        }
        clock.monotonic().since(began) / TIMES
    });
    rounds.min().unwrap_or_default()
}

#[test]
#[expect(clippy::print_stdout, reason = "numbers are for people")]
fn rbac_cached_decision_stays_within_time_bound() {
    let (policy, kim) = (policy(), kim());
    let may = AuthorizationAttributes::for_resource("update", CONFIGMAP);
    let may_not = AuthorizationAttributes::for_resource(
        "update",
        ResourceAttributes {
            group: "apps",
            ..CONFIGMAP
        },
    );
    assert!(policy.allows(&kim, &may) && !policy.allows(&kim, &may_not));
    let flows = FlowSchemaSet::new(
        (0..13)
            .map(|at| {
                let schema = format!(
                    r#"{{"metadata":{{"name":"f{at}"}},"spec":{{"matchingPrecedence":{at},"rules":[{{
                    "subjects":[{{"kind":"Group","group":{{"name":"g{at}"}}}}],"resourceRules":[{{
                    "verbs":["*"],"apiGroups":["*"],"resources":["*"],"namespaces":["*"]}}]}}]}}}}"#
                );
                (FlowSchema::from_json(schema.as_bytes()).unwrap(), at)
            })
            .collect(),
    );
    for (what, cost) in [
        (
            "allowed",
            cost(|| policy.allows(black_box(&kim), black_box(&may))),
        ),
        (
            "refused",
            cost(|| policy.allows(black_box(&kim), black_box(&may_not))),
        ),
        (
            "flow",
            cost(|| flows.find(black_box(&kim), black_box(&may)).is_some()),
        ),
    ] {
        println!("{what}: {cost:?}");
        // An optimised build takes a microsecond; this build may be unoptimised.
        assert!(cost < Duration::from_micros(20), "{what}: {cost:?}");
    }
}
