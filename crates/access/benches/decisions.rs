//! What a decision costs.

use optik_access::{Attributes, Binding, Policy, Resource, Role, User, bootstrap};

fn main() {
    divan::main();
}

/// A new cluster, and a user with the role of an editor in one of a hundred namespaces.
fn policy() -> Policy {
    let mut editor = Policy::default().edit();
    for wanted in bootstrap::objects() {
        let bytes = wanted.object.encode().expect("it can be encoded");
        if wanted.plural.ends_with("roles") {
            editor.put_role(Role::read(&bytes).expect("it is a role"));
        } else {
            editor.put_binding(Binding::read(&bytes).expect("it is a binding"));
        }
    }
    for at in 0..100 {
        let json = format!(
            r#"{{"metadata":{{"name":"e","namespace":"n{at}"}},"subjects":[{{"kind":"User","name":"kim"}}],
               "roleRef":{{"kind":"ClusterRole","name":"system:aggregate-to-edit"}}}}"#
        );
        editor.put_binding(Binding::read(json.as_bytes()).expect("it is a binding"));
    }
    editor.finish()
}

fn kim() -> User {
    let kim = User {
        name: "kim".into(),
        ..User::default()
    };
    kim.authenticated()
}

const CONFIGMAP: Resource<'_> = Resource {
    group: "",
    version: "v1",
    resource: "configmaps",
    subresource: "",
    namespace: "n7",
    name: "some-name",
};

#[divan::bench]
fn warm_allowed(bencher: divan::Bencher<'_, '_>) {
    let (policy, kim) = (policy(), kim());
    let asked = Attributes::on("update", CONFIGMAP);
    assert!(policy.allows(&kim, &asked));
    bencher.bench_local(|| policy.allows(divan::black_box(&kim), divan::black_box(&asked)));
}

#[divan::bench]
fn warm_refused(bencher: divan::Bencher<'_, '_>) {
    let (policy, kim) = (policy(), kim());
    let asked = Attributes::on(
        "update",
        Resource {
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
    let asked = Attributes::on("update", CONFIGMAP);
    bencher
        .with_inputs(|| policy.edit().finish())
        .bench_local_values(|fresh| fresh.allows(&kim, &asked));
}

/// What a change of any role costs.
#[divan::bench]
fn next_policy(bencher: divan::Bencher<'_, '_>) {
    let policy = policy();
    bencher.bench_local(|| policy.edit().finish());
}
