//! Writes through the subresource `scale` (PATCH §1.8, PATCH §3.8).

mod world;

use optik_object::{Object, Timestamp, Value};
use optik_patch::{
    ApplyError, ApplyRequest, Endpoint, Family, Managed, OneVersion, PathElement, ScaleHandler,
    UpdateRequest, apply, update,
};
use optik_schema::builtin_type;
use serde_json::json;
use world::World;

const REPLICAS: ScaleHandler<'_> = ScaleHandler {
    api_version: "apps/v1",
    path: &|api_version| {
        (api_version == "apps/v1").then(|| ["spec", "replicas"].map(PathElement::field).to_vec())
    },
};

/// The view of a Deployment, with its managers.
fn view(parent: &Object) -> Object {
    let replicas = &parent.get("spec").expect("a spec")["replicas"];
    let mut view: Object = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"},
        "spec": {"replicas": replicas}, "status": {"replicas": 0},
    })
    .try_into()
    .unwrap();
    REPLICAS
        .to_subresource(&Managed::from_object(parent).unwrap())
        .write_to(&mut view);
    view
}

fn on_scale<T>(run: impl FnOnce(&Endpoint<'_>) -> T) -> T {
    let versions = OneVersion {
        api_version: "autoscaling/v1",
        of: builtin_type("autoscaling", "v1", "Scale").unwrap(),
        reset: None,
    };
    run(&Endpoint {
        api_version: "autoscaling/v1",
        kind: "Scale",
        subresource: "scale",
        versions: &versions,
    })
}

/// Writes the managers and the replicas of the view to the parent.
fn store(world: &mut World, view: &Object) {
    let mut parent = world.live.clone().unwrap();
    let managed = Managed::from_object(&parent).unwrap();
    let after = REPLICAS.to_parent(&managed, &Managed::from_object(view).unwrap());
    parent.members_mut()["spec"]["replicas"] = view.get("spec").unwrap()["replicas"].clone();
    after.write_to(&mut parent);
    world.live = Some(parent);
}

fn patch(world: &mut World, manager: &str, replicas: i64) {
    let live = view(world.live.as_ref().unwrap());
    let mut new = live.clone();
    new.members_mut()["spec"]["replicas"] = replicas.into();
    let write = UpdateRequest {
        live: Some(&live),
        manager,
        now: Timestamp::from_seconds(9000),
        family: Family::BuiltIn,
    };
    on_scale(|endpoint| update(endpoint, &write, &mut new));
    store(world, &new);
}

fn apply_replicas(world: &mut World, manager: &str, replicas: i64) -> Result<(), ApplyError> {
    let live = view(world.live.as_ref().unwrap());
    let config: Object = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "x"},
        "spec": {"replicas": replicas},
    })
    .try_into()
    .unwrap();
    let request = ApplyRequest {
        live: Some(&live),
        config: &config,
        manager,
        force: false,
        now: Timestamp::from_seconds(9000),
    };
    let applied = on_scale(|endpoint| apply(endpoint, &request))?;
    store(world, &applied.object);
    Ok(())
}

fn deployment() -> World {
    let mut world = World::deployment();
    world.create("curl", json!({"spec": {"replicas": 1, "paused": true}}));
    world
}

/// PATCH-118.
#[test]
fn scale_update_takes_replicas_from_parent_manager() {
    let mut world = deployment();
    patch(&mut world, "kubectl", 3);
    assert_eq!(
        world.owners(),
        "U kubectl .spec.replicas; U curl .spec.paused"
    );
    let entry = world.at("/metadata/managedFields/0");
    assert_eq!(
        (&entry["subresource"], &entry["apiVersion"]),
        (&json!("scale"), &json!("apps/v1"))
    );
    assert_eq!(entry.get("time"), None);
    assert_eq!(world.at("/spec/replicas"), 3);
}

#[test]
fn scale_update_to_same_replicas_changes_nothing() {
    let mut world = deployment();
    let before = world.live.clone();
    patch(&mut world, "kubectl", 1);
    assert_eq!(world.live, before);
}

/// PATCH-61.
#[test]
fn scale_apply_conflicts_with_parent_manager() {
    let mut world = deployment();
    let error = apply_replicas(&mut world, "sc", 3).unwrap_err();
    assert_eq!(
        error.status().message(),
        r#"Apply failed with 1 conflict: conflict with "curl" using autoscaling/v1: .spec.replicas"#
    );
    apply_replicas(&mut world, "sc", 1).unwrap();
    assert_eq!(
        world.owners(),
        "A sc .spec.replicas; U curl .spec.paused .spec.replicas"
    );
    let error = world
        .apply("m", json!({"spec": {"replicas": 5}}))
        .unwrap_err();
    assert_eq!(
        error.status().message(),
        "Apply failed with 2 conflicts: conflicts with \"curl\" using apps/v1:\n- .spec.replicas\nconflicts with \"sc\" with subresource \"scale\":\n- .spec.replicas"
    );
}

#[test]
fn scale_apply_conflicts_over_unowned_replicas() {
    let mut world = World::deployment();
    world.create("curl", json!({"spec": {"paused": true}}));
    world.live.as_mut().unwrap().members_mut()["spec"]["replicas"] = 1.into();
    patch(&mut world, "kubectl", 3);
    assert_eq!(world.owners(), "U curl .spec.paused", "not tracked");
    let error = apply_replicas(&mut world, "sc", 5).unwrap_err();
    assert_eq!(
        error.status().message(),
        r#"Apply failed with 1 conflict: conflict with "before-first-apply" with subresource "scale" using autoscaling/v1: .spec.replicas"#
    );
}

#[test]
fn scale_drops_managers_of_unknown_versions() {
    let mut world = deployment();
    let managers = &mut world.live.as_mut().unwrap().metadata_mut()["managedFields"];
    if let Value::Array(managers) = managers {
        let mut old = managers[0].clone();
        old["apiVersion"] = "apps/v1beta1".into();
        managers.push(old);
    }
    patch(&mut world, "kubectl", 3);
    assert_eq!(
        world.owners(),
        "U kubectl .spec.replicas; U curl .spec.paused"
    );
}
