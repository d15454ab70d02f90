//! Benchmarks of RBAC authorization decisions.

#[path = "../tests/support/mod.rs"]
mod support;

use optik_auth::{AuthorizationAttributes, ResourceAttributes};
use support::{CONFIGMAP, kim, policy};

fn main() {
    divan::main();
}

#[divan::bench]
fn warm_allowed(bencher: divan::Bencher<'_, '_>) {
    let (policy, kim) = (policy(), kim());
    let asked = AuthorizationAttributes::for_resource("update", CONFIGMAP);
    assert!(policy.allows(&kim, &asked));
    bencher.bench_local(|| policy.allows(divan::black_box(&kim), divan::black_box(&asked)));
}

#[divan::bench]
fn warm_refused(bencher: divan::Bencher<'_, '_>) {
    let (policy, kim) = (policy(), kim());
    let asked = AuthorizationAttributes::for_resource(
        "update",
        ResourceAttributes {
            group: "apps",
            ..CONFIGMAP
        },
    );
    assert!(!policy.allows(&kim, &asked));
    bencher.bench_local(|| policy.allows(divan::black_box(&kim), divan::black_box(&asked)));
}

#[divan::bench]
fn cold(bencher: divan::Bencher<'_, '_>) {
    let (policy, kim) = (policy(), kim());
    let asked = AuthorizationAttributes::for_resource("update", CONFIGMAP);
    bencher
        .with_inputs(|| policy.edit().finish())
        .bench_local_values(|fresh| fresh.allows(&kim, &asked));
}

/// The cost of rebuilding the policy after any role changes.
#[divan::bench]
fn next_policy(bencher: divan::Bencher<'_, '_>) {
    let policy = policy();
    bencher.bench_local(|| policy.edit().finish());
}
