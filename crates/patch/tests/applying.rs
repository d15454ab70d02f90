//! Server-side apply (PATCH §3).

mod world;

use optik_object::Value;
use optik_patch::{ApplyError, only_managed_fields_times_differ};
use serde_json::json;
use world::World;

/// m1 applied `a` and `b`.
fn applied() -> World {
    let mut world = World::config_map();
    world
        .apply("m1", json!({"data": {"a": "1", "b": "1"}}))
        .unwrap();
    world
}

fn message(error: &ApplyError) -> String {
    error.status().message().to_owned()
}

/// PATCH-46.
#[test]
fn first_apply_records_owned_fields() {
    let world = applied();
    assert_eq!(world.owners(), "A m1 .data.a .data.b");
    assert_eq!(
        world.at("/metadata/managedFields/0/time"),
        "1970-01-01T00:16:40Z"
    );
    assert_eq!(
        world.at("/metadata/managedFields/0/fieldsV1"),
        json!({"f:data": {"f:a": {}, "f:b": {}}})
    );
}

/// PATCH-51, PATCH-52.
#[test]
fn apply_conflict_is_409_unless_forced() {
    let mut world = applied();
    let error = world.apply("m2", json!({"data": {"a": "2"}})).unwrap_err();
    assert_eq!(
        String::from_utf8(error.status().to_json()).unwrap(),
        r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Apply failed with 1 conflict: conflict with \"m1\": .data.a","reason":"Conflict","details":{"causes":[{"reason":"FieldManagerConflict","message":"conflict with \"m1\"","field":".data.a"}]},"code":409}"#
    );
    world.apply("m2!", json!({"data": {"a": "2"}})).unwrap();
    assert_eq!(world.at("/data"), json!({"a": "2", "b": "1"}));
    assert_eq!(world.owners(), "A m1 .data.b; A m2 .data.a");
}

/// PATCH-53, PATCH-54, PATCH-55.
#[test]
fn apply_shares_fields_and_removes_dropped_ones() {
    let mut world = applied();
    world.apply("m2", json!({"data": {"a": "1"}})).unwrap();
    assert_eq!(
        world.owners(),
        "A m2 .data.a; A m1 .data.a .data.b",
        "PATCH-53, and no time: nothing changed"
    );
    world.apply("m1", json!({"data": {"b": "1"}})).unwrap();
    assert_eq!(world.at("/data"), json!({"a": "1", "b": "1"}), "PATCH-54");
    assert_eq!(world.owners(), "A m2 .data.a; A m1 .data.b", "PATCH-54");
    world.apply("m1", json!({"data": {}})).unwrap();
    assert_eq!(world.at("/data"), json!({"a": "1"}), "PATCH-55");
    assert_eq!(world.owners(), "A m2 .data.a; A m1 .data", "PATCH-55");
}

/// PATCH-56.
#[test]
fn field_taken_by_update_survives_dropping_it_from_apply() {
    let mut world = applied();
    world.patch("upd", &json!({"data": {"a": "9"}}));
    assert_eq!(world.owners(), "A m1 .data.b; U upd .data.a");
    world.apply("m1", json!({"data": {"b": "1"}})).unwrap();
    assert_eq!(world.at("/data"), json!({"a": "9", "b": "1"}));
}

/// PATCH-57.
#[test]
fn field_deleted_by_update_loses_its_applier() {
    let mut world = applied();
    world.patch("upd", &json!({"data": {"a": null}}));
    assert_eq!(world.owners(), "A m1 .data.b");
}

/// PATCH-58, PATCH-59, PATCH-60, PATCH-61, PATCH-62.
#[test]
fn apply_conflict_messages_match_upstream() {
    let mut world = World::config_map();
    world.create("m", json!({"data": {"a": "1"}}));
    let error = world.apply("m", json!({"data": {"a": "2"}})).unwrap_err();
    assert_eq!(
        message(&error),
        r#"Apply failed with 1 conflict: conflict with "m" using v1: .data.a"#,
        "PATCH-58, PATCH-59"
    );
    world.apply("m1", json!({"data": {"b": "1"}})).unwrap();
    let error = world
        .apply("z", json!({"data": {"a": "2", "b": "2"}}))
        .unwrap_err();
    assert_eq!(
        message(&error),
        "Apply failed with 2 conflicts: conflicts with \"m\" using v1:\n- .data.a\nconflicts with \"m1\":\n- .data.b",
        "PATCH-60"
    );

    let mut world = World::deployment();
    let containers = json!([{"name": "a", "image": "1"}]);
    world.create(
        "curl",
        json!({"spec": {"replicas": 1, "template": {"spec": {"containers": containers}}}}),
    );
    world.patch_to("scale", "sc", &json!({"spec": {"replicas": 2}}));
    // The scale endpoint resets no field of its parent here, so only its name matters.
    world.live.as_mut().unwrap().metadata_mut()["managedFields"] = json!([
        {"manager": "sc", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:spec": {"f:replicas": {}}}, "subresource": "scale"},
        {"manager": "im", "operation": "Apply", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
         "fieldsV1": {"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}}}}}}},
    ]);
    let error = world
        .apply("m", json!({"spec": {"replicas": 3}}))
        .unwrap_err();
    assert_eq!(
        message(&error),
        r#"Apply failed with 1 conflict: conflict with "sc" with subresource "scale" using apps/v1: .spec.replicas"#,
        "PATCH-61"
    );
    let error = world
        .apply(
            "m",
            json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "2"}]}}}}),
        )
        .unwrap_err();
    assert_eq!(
        message(&error),
        r#"Apply failed with 1 conflict: conflict with "im": .spec.template.spec.containers[name="a"].image"#,
        "PATCH-62"
    );
}

/// PATCH-63, PATCH-64.
#[test]
fn apply_defaults_list_keys() {
    let mut world = World::deployment();
    let config = |ports: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "ports": ports}]}}}});
    world
        .apply("m1", config(json!([{"containerPort": 80}])))
        .unwrap();
    let ports = "/metadata/managedFields/0/fieldsV1/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"a\"}/f:ports";
    let expected =
        json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}});
    assert_eq!(world.at(ports), expected, "PATCH-63");
    let error = world
        .apply(
            "m1",
            config(json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}])),
        )
        .unwrap_err();
    assert_eq!(error.status().code(), 500, "PATCH-64");
    assert_eq!(
        message(&error),
        r#"failed to create typed patch object (/x; apps/v1, Kind=Deployment): .spec.template.spec.containers[name="a"].ports: duplicate entries for key [containerPort=80,protocol="TCP"]"#,
        "PATCH-64"
    );
}

/// Error texts recorded from a server.
/// PATCH-65.
#[test]
fn apply_of_mistyped_config_is_refused() {
    let containers =
        |containers: Value| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    for (config, expected) in [
        (json!({"bogus": 1}), ".bogus: field not declared in schema"),
        (
            json!({"spec": {"paused": "x"}}),
            ".spec.paused: expected boolean, got &{x}",
        ),
        (
            json!({"spec": {"paused": 5}}),
            ".spec.paused: expected boolean, got &{5}",
        ),
        (
            json!({"spec": {"selector": "x"}}),
            ".spec.selector: expected map, got &{x}",
        ),
        (
            json!({"spec": {"replicas": {"a": 1}}}),
            ".spec.replicas: expected numeric (int or float), got map[string]interface {}",
        ),
        (
            json!({"spec": {"replicas": "x"}}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        (
            containers(json!("x")),
            ".spec.template.spec.containers: expected list, got &{x}",
        ),
        (
            containers(json!([5])),
            ".spec.template.spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            containers(json!([null])),
            ".spec.template.spec.containers: element 0: associative list with keys may not have a null element",
        ),
        (
            containers(json!([{"name": "a", "image": {"a": [1, "x", null, true]}}])),
            r#".spec.template.spec.containers[name="a"].image: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":[]interface {}{1, "x", interface {}(nil), true}}}"#,
        ),
        (
            containers(json!([{"name": "a", "args": [1, 2.5]}])),
            "errors:\n  .spec.template.spec.containers[name=\"a\"].args[0]: expected string, got &value.valueUnstructured{Value:1}\n  .spec.template.spec.containers[name=\"a\"].args[1]: expected string, got &value.valueUnstructured{Value:2.5}",
        ),
        (
            json!({"metadata": {"finalizers": [null]}}),
            ".metadata.finalizers: element 0: associative list without keys has an element that's an explicit null",
        ),
        (
            json!({"metadata": {"finalizers": [1]}}),
            ".metadata.finalizers[=1]: expected string, got &value.valueUnstructured{Value:1}",
        ),
        (
            json!({"metadata": {"creationTimestamp": {"a": true}}}),
            ".metadata.creationTimestamp: expected any scalar, got &{map[a:true]}",
        ),
    ] {
        let error = World::deployment().apply("m1", config).unwrap_err();
        let before = "failed to create typed patch object (/x; apps/v1, Kind=Deployment): ";
        assert_eq!(message(&error), format!("{before}{expected}"));
        assert_eq!(
            (error.status().code(), error.status().reason()),
            (500, None)
        );
    }
}

/// PATCH-66, PATCH-67.
#[test]
fn apply_of_other_kind_or_with_managed_fields_gets_400() {
    let world = World::config_map();
    for (config, expected) in [
        (
            json!({"apiVersion": "v1", "kind": "Secret"}),
            "invalid object type: /v1, Kind=Secret",
        ),
        (
            json!({"apiVersion": "apps/v1", "kind": "ConfigMap"}),
            "invalid object type: apps/v1, Kind=ConfigMap",
        ),
        (json!({}), "invalid object type: /, Kind="),
        (
            json!({"apiVersion": "a/b/c", "kind": "X"}),
            "invalid object type: /, Kind=",
        ),
        (
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": []}}),
            "metadata.managedFields must be nil",
        ),
    ] {
        let error = world
            .try_apply("m", "", &world::object(config), false)
            .unwrap_err();
        assert_eq!(
            (message(&error).as_str(), error.status().code()),
            (expected, 400)
        );
    }
    let null =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"managedFields": null}});
    assert!(
        world
            .try_apply("m", "", &world::object(null), false)
            .is_ok(),
        "PATCH-67"
    );
}

/// PATCH-72, PATCH-73.
#[test]
fn apply_without_change_keeps_object_and_times() {
    let mut world = applied();
    let before = world.live.clone().unwrap();
    let again = world
        .apply("m1", json!({"data": {"a": "1", "b": "1"}}))
        .unwrap();
    assert!(!again.changed);
    assert_eq!(again.object, before, "PATCH-72");
    let shared = world.apply("m2", json!({"data": {"a": "1"}})).unwrap();
    assert!(!shared.changed);
    assert_eq!(world.at("/metadata/managedFields/0/manager"), "m2");
    assert_eq!(
        world.at("/metadata/managedFields/0/time"),
        json!(null),
        "PATCH-73"
    );

    // Decoding normalizes the difference away, so only the time would change.
    let mut other = before.clone();
    other.metadata_mut()["managedFields"][0]["time"] = "2030-01-01T00:00:00Z".into();
    assert!(only_managed_fields_times_differ(&before, &other));
    other.members_mut()["data"]["a"] = "2".into();
    assert!(!only_managed_fields_times_differ(&before, &other));
}

/// PATCH-74.
#[test]
fn apply_of_empty_config_removes_owned_fields() {
    let mut world = applied();
    world.apply("m1", json!({})).unwrap();
    assert_eq!(
        (world.at("/data"), world.owners()),
        (json!(null), String::new())
    );
}

/// PATCH-75, PATCH-76.
#[test]
fn first_apply_adopts_before_first_apply_manager() {
    let mut world = World::config_map();
    world.create("curl", json!({"data": {"a": "1"}}));
    world
        .live
        .as_mut()
        .unwrap()
        .remove_metadata_member("managedFields");
    world.patch("upd", &json!({"data": {"b": "1"}}));
    assert_eq!(world.owners(), "", "PATCH-76");
    let error = world.apply("m1", json!({"data": {"a": "2"}})).unwrap_err();
    assert_eq!(
        message(&error),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.a"#,
        "PATCH-75"
    );
    world.apply("m1", json!({"data": {"a": "1"}})).unwrap();
    assert_eq!(
        world.owners(),
        "A m1 .data.a; U before-first-apply .data .data.a .data.b"
    );
}

/// PATCH-77, PATCH-78.
#[test]
fn apply_does_not_own_fields_reset_by_endpoint() {
    let mut world = World::deployment();
    world.create("curl", json!({"spec": {"replicas": 1}}));
    world
        .apply("main", json!({"status": {"replicas": 5}}))
        .unwrap();
    assert!(!world.owners().contains("main"), "PATCH-78");
    world
        .apply_to(
            "status",
            "st",
            json!({"status": {"observedGeneration": 1}, "spec": {"replicas": 9}}),
        )
        .unwrap();
    assert!(
        world.owners().contains("A st .status.observedGeneration;"),
        "77: {}",
        world.owners()
    );
}
