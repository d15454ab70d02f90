//! Server-side apply: lists, and the last-applied annotation of client-side apply (PATCH §3).

mod world;

use optik_object::Value;
use optik_patch::ApplyError;
use serde_json::json;
use world::World;

fn message(error: &ApplyError) -> String {
    error.status().message().to_owned()
}

/// PATCH-80, PATCH-81, PATCH-82.
#[test]
fn apply_follows_list_types_of_custom_kinds() {
    let mut world = World::thing();
    world
        .apply(
            "m1",
            json!({"spec": {"set": ["a", "b"], "list": ["1"], "whole": {"a": "1"}}}),
        )
        .unwrap();
    world
        .apply("m2", json!({"spec": {"set": ["c", "a"]}}))
        .unwrap();
    assert_eq!(world.at("/spec/set"), json!(["c", "a", "b"]), "PATCH-80");
    let owners = world.owners();
    assert!(
        owners.contains(r#"A m2 .spec.set[="a"] .spec.set[="c"]"#),
        "80: {owners}"
    );
    assert!(
        owners.contains(r#"A m1 .spec.list .spec.whole .spec.set[="a"] .spec.set[="b"]"#),
        "80: {owners}"
    );
    let error = world
        .apply("m3", json!({"spec": {"list": ["2"], "whole": {"b": "1"}}}))
        .unwrap_err();
    assert_eq!(
        message(&error),
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .spec.list\n- .spec.whole",
        "PATCH-81"
    );
    world
        .apply("m3", json!({"spec": {"free": {"x": {"y": [1]}, "z": 1}}}))
        .unwrap();
    assert!(
        world
            .owners()
            .contains("A m3 .spec.free.x .spec.free.z .spec.free.x.y"),
        "82: {}",
        world.owners()
    );
    world
        .apply("m4", json!({"spec": {"free": {"x": {"q": 1}}}}))
        .unwrap();
    let error = world
        .apply("m4", json!({"spec": {"free": {"x": {"y": [1, 2]}}}}))
        .unwrap_err();
    assert_eq!(
        message(&error),
        r#"Apply failed with 1 conflict: conflict with "m3": .spec.free.x.y"#,
        "PATCH-82"
    );
}

#[test]
fn apply_merges_set_items_in_order() {
    for (live, config, expected) in [
        (
            json!(["1", "2", "3", "4"]),
            json!(["3", "9", "1"]),
            json!(["2", "3", "4", "9", "1"]),
        ),
        (json!(["a", "b"]), json!(["c", "a"]), json!(["c", "a", "b"])),
        (json!([]), json!(["c", "a"]), json!(["c", "a"])),
        (json!(["a", "b"]), json!([]), json!(["a", "b"])),
    ] {
        let mut world = World::thing();
        world.create("curl", json!({"spec": {"set": live}}));
        world.apply("m", json!({"spec": {"set": config}})).unwrap();
        assert_eq!(world.at("/spec/set"), expected);
    }
}

/// PATCH-87.
#[test]
fn apply_removes_dropped_list_item_with_updates_in_it() {
    let mut world = World::deployment();
    let containers =
        |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    world
        .apply(
            "m1",
            containers(json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])),
        )
        .unwrap();
    let changed = json!([{"name": "a", "image": "1"}, {"name": "b", "image": "1", "tty": true}]);
    world.patch("upd", &containers(changed));
    assert!(
        world
            .owners()
            .contains(r#"U upd .spec.template.spec.containers[name="b"].tty"#)
    );
    world
        .apply("m1", containers(json!([{"name": "a", "image": "1"}])))
        .unwrap();
    assert_eq!(
        world.at("/spec/template/spec/containers"),
        json!([{"name": "a", "image": "1"}])
    );
    assert!(!world.owners().contains("upd"));
}

/// PATCH-88.
#[test]
fn apply_handles_duplicate_keys_in_live_lists() {
    let mut world = World::deployment();
    let env = |env: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "env": env}]}}}});
    let twice = json!([{"name": "D", "value": "1"}, {"name": "D", "value": "2"}, {"name": "O"}]);
    world.create("curl", env(twice.clone()));
    let owner = r#".containers[name="a"].env[name="D"] "#;
    assert!(world.owners().contains(owner), "{}", world.owners());
    world.apply("m1", env(json!([{"name": "O"}]))).unwrap();
    let pointer = "/spec/template/spec/containers/0/env";
    assert_eq!(world.at(pointer), twice);
    let error = world
        .apply("m2", env(json!([{"name": "D", "value": "1"}])))
        .unwrap_err();
    assert_eq!(
        message(&error),
        r#"Apply failed with 1 conflict: conflict with "curl" using apps/v1: .spec.template.spec.containers[name="a"].env[name="D"]"#
    );
    world
        .apply("m2!", env(json!([{"name": "D", "value": "1"}])))
        .unwrap();
    assert_eq!(
        world.at(pointer),
        json!([{"name": "D", "value": "1"}, {"name": "O"}]),
        "collapsed"
    );
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// PATCH-89, PATCH-90.
#[test]
fn kubectl_apply_takes_over_last_applied_annotation() {
    let mut world = World::config_map();
    let annotation =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"}}"#;
    world.create(
        "csa",
        json!({"data": {"a": "1"}, "metadata": {"annotations": {LAST_APPLIED: annotation}}}),
    );
    assert!(
        world.apply("m1", json!({"data": {"a": "2"}})).is_err(),
        "PATCH-90"
    );
    world.apply("kubectl", json!({"data": {"a": "2"}})).unwrap();
    assert_eq!(world.at("/data/a"), "2", "PATCH-89");
    let pointer = format!("/metadata/annotations/{}", LAST_APPLIED.replace('/', "~1"));
    let expected = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n";
    assert_eq!(world.at(&pointer), expected, "PATCH-89");
    world.patch("upd", &json!({"data": {"a": "3"}}));
    let error = world
        .apply("kubectl", json!({"data": {"a": "4"}}))
        .unwrap_err();
    assert_eq!(
        message(&error),
        r#"Apply failed with 1 conflict: conflict with "upd" using v1: .data.a"#
    );
}

/// PATCH-119.
#[test]
fn kubectl_csa_to_ssa_migration_keeps_one_manager() {
    let mut world = World::config_map();
    let annotation =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1"}}"#;
    let annotations = json!({"annotations": {LAST_APPLIED: annotation}});
    world.create("csa", json!({"data": {"a": "1"}, "metadata": annotations}));
    world.apply("kubectl", json!({"data": {"a": "1"}})).unwrap();
    let annotation = world.at(&format!(
        "/metadata/annotations/{}",
        LAST_APPLIED.replace('/', "~1")
    ));
    world
        .apply(
            "kubectl-last-applied",
            json!({"metadata": {"annotations": {LAST_APPLIED: annotation}}}),
        )
        .unwrap();
    // The client removes the Update entry by renaming its manager in a patch of managedFields.
    let Value::Array(list) = world.at("/metadata/managedFields") else {
        panic!("a list");
    };
    let kept: Vec<Value> = list
        .into_iter()
        .filter(|it| it["operation"] == "Apply")
        .collect();
    world.patch("kubectl", &json!({"metadata": {"managedFields": kept}}));
    world.apply("kubectl", json!({"data": {"a": "1"}})).unwrap();
    let names = [0, 1, 2].map(|at| world.at(&format!("/metadata/managedFields/{at}/manager")));
    assert_eq!(
        names,
        [json!("kubectl"), json!("kubectl-last-applied"), json!(null)]
    );
}

/// A struct dropped by its only applier is removed with the unowned fields in it.
#[test]
fn apply_removes_struct_dropped_by_its_only_applier() {
    let mut world = World::thing();
    world
        .apply("m1", json!({"spec": {"inner": {"a": "1"}, "text": "t"}}))
        .unwrap();
    world.live.as_mut().unwrap().members_mut()["spec"]["inner"]["b"] = "default".into();
    world.apply("m1", json!({"spec": {"text": "t"}})).unwrap();
    assert_eq!(world.at("/spec"), json!({"text": "t"}));
}
