//! Custom resources in merging writes: their schema is declared by the CRD (PATCH §3.9).

use super::{APPLY, by, entry_of, has_owners, one_conflict, owners, send, unexplained, warnings};
use crate::check::checks;
use crate::crds::is_served;
use crate::failure::{ensure, same, same_json};
use crate::object::{set, with};
use crate::samples::sample;
use crate::{ApiResponse, Outcome, Request, Scope};
use http::Method;
use serde_json::{Value, json};

checks! { custom_resource_merging:
    ["PATCH-80"] apply_merges_list_type_set [CustomResources, Apply],
    ["PATCH-81"] apply_replaces_atomic_values [CustomResources, Apply],
    ["PATCH-82"] apply_merges_untyped_objects_and_replaces_lists [CustomResources, Apply],
    ["PATCH-83"] ownership_follows_list_type_change_from_set_to_atomic [CustomResources, Apply],
    ["PATCH-101"] empty_managed_fields_list_in_patch_is_ignored [CustomResources, Apply],
    ["PATCH-109"] unknown_custom_resource_fields_are_pruned_silently [CustomResources],
    ["PATCH-110"] unknown_fields_in_custom_resource_patch_are_rejected [CustomResources, Patch],
    ["PATCH-120"] custom_resource_scale_can_be_patched_but_not_applied [CustomResources, Apply, Patch, Scale],
    [] custom_resource_warnings_name_duplicate_and_unknown_fields [CustomResources],
}

/// A kind with a list of each type.
pub(crate) struct MergeCrdFixture {
    scope: Scope,
    group: String,
}

impl MergeCrdFixture {
    pub(crate) fn at(&self) -> String {
        let Self { scope, group } = self;
        format!("/apis/{group}/v1/namespaces/{}/parts", scope.namespace)
    }

    pub(crate) fn of(&self, name: &str) -> String {
        format!("{}/{name}", self.at())
    }

    fn config(&self, name: &str, mut content: Value) -> Value {
        content["apiVersion"] = format!("{}/v1", self.group).into();
        content["kind"] = "Part".into();
        set(&mut content, "/metadata/name", name.into());
        content
    }

    pub(crate) async fn create(&self, name: &str, content: Value) -> Outcome<Value> {
        let path = by(&self.at(), "u");
        let body = self.config(name, content);
        self.scope.client.post(&path, &body).await?.expect_json(201)
    }

    async fn apply(&self, manager: &str, spec: Value) -> Outcome<ApiResponse> {
        let body = self.config("a", json!({ "spec": spec }));
        let path = by(&self.of("a"), manager);
        send(&self.scope, APPLY, &path, body.to_string()).await
    }

    async fn patch(&self, manager: &str, patch: Value) -> Outcome<ApiResponse> {
        let path = by(&self.of("a"), manager);
        self.scope.client.patch(&path, &patch).await
    }
}

/// The definition stays: a second run finds it.
pub(crate) async fn define(scope: &Scope) -> Outcome<MergeCrdFixture> {
    define_in(scope, "merging.optik.test").await
}

async fn define_in(scope: &Scope, group: &str) -> Outcome<MergeCrdFixture> {
    let name = format!("parts.{group}");
    let path = scope.collection_path("customresourcedefinitions");
    let answer = scope.client.post(&path, &definition(&name)).await?;
    ensure!(
        matches!(answer.status, 201 | 409),
        "{}: {} {}",
        answer.asked,
        answer.status,
        answer.text()
    );
    let parts = MergeCrdFixture {
        scope: scope.clone(),
        group: group.to_owned(),
    };
    is_served(scope, &parts.at()).await?;
    Ok(parts)
}

const SCHEMA: &str = "/spec/versions/0/schema/openAPIV3Schema/properties";

fn definition(name: &str) -> Value {
    let mut definition = sample("customresourcedefinitions", name);
    let names =
        json!({"plural": "parts", "singular": "part", "kind": "Part", "listKind": "PartList"});
    set(&mut definition, "/spec/names", names);
    let subresources = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
        },
    });
    set(
        &mut definition,
        "/spec/versions/0/subresources",
        subresources,
    );
    let text = json!({"type": "string"});
    let spec = json!({"type": "object", "properties": {
        "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "list": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
        "map": {
            "type": "object", "additionalProperties": text, "x-kubernetes-map-type": "atomic",
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "text": text, "replicas": {"type": "integer"},
    }});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    set(
        &mut definition,
        SCHEMA,
        json!({"spec": spec, "status": status}),
    );
    definition
}

async fn apply_merges_list_type_set(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    parts
        .apply("m1", json!({"set": ["a", "b"]}))
        .await?
        .expect_json(201)?;
    let after = parts.apply("m2", json!({"set": ["c", "a"]})).await?;
    let after = after.expect_json(200)?;
    same_json("set", &json!(["c", "a", "b"]), &after["spec"]["set"])?;
    let fields = |manager| &entry_of(&after, manager)["fieldsV1"]["f:spec"]["f:set"];
    let (a, b, c) = ("v:\"a\"", "v:\"b\"", "v:\"c\"");
    same_json("m1", &json!({a: {}, b: {}}), fields("m1"))?;
    same_json("m2", &json!({a: {}, c: {}}), fields("m2"))
}

async fn apply_replaces_atomic_values(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    let whole = json!({"list": ["a"], "map": {"a": "1"}});
    parts.apply("m1", whole.clone()).await?.expect_json(201)?;
    for (spec, path) in [
        (json!({"list": ["a", "b"]}), ".spec.list"),
        (json!({"map": {"a": "1", "b": "1"}}), ".spec.map"),
    ] {
        let answer = parts.apply("m2", spec).await?;
        answer.expect_failure(&one_conflict("\"m1\"", path))?;
    }
    parts.apply("m2", whole).await?.has_status(200)
}

async fn apply_merges_untyped_objects_and_replaces_lists(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    let first = json!({"free": {"x": {"a": 1}, "l": [1, 2]}});
    let made = parts.apply("m1", first).await?.expect_json(201)?;
    has_owners(&made, "A m1 .spec.free.l .spec.free.x .spec.free.x.a")?;
    let second = json!({"free": {"x": {"b": 1}}});
    let after = parts.apply("m2", second).await?.expect_json(200)?;
    let expected = json!({"x": {"a": 1, "b": 1}, "l": [1, 2]});
    same_json("free", &expected, &after["spec"]["free"])?;
    let answer = parts.apply("m2", json!({"free": {"l": [3]}})).await?;
    answer.expect_failure(&one_conflict("\"m1\"", ".spec.free.l"))
}

async fn ownership_follows_list_type_change_from_set_to_atomic(scope: Scope) -> Outcome {
    let group = format!("{}.optik.test", scope.namespace);
    let parts = define_in(&scope, &group).await?;
    let made = parts
        .apply("m", json!({"set": ["a", "b"]}))
        .await?
        .expect_json(201)?;
    has_owners(&made, "A m .spec.set[=\"a\"] .spec.set[=\"b\"]")?;
    let name = format!("parts.{group}");
    let definition = scope.get("customresourcedefinitions", &name).await?;
    let pointer = format!("{SCHEMA}/spec/properties/set/x-kubernetes-list-type");
    let atomic = with(&definition, &pointer, "atomic");
    scope.replace("customresourcedefinitions", &atomic).await?;
    let text = std::sync::atomic::AtomicU32::new(0);
    scope
        .wait_until("the new type", || async {
            let next = text.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let patch = json!({"spec": {"text": next.to_string()}});
            let after = parts.patch("u", patch).await?.expect_json(200)?;
            let expected = "A m .spec.set; U u .spec.text";
            Ok((owners(&after) == expected).then_some(()))
        })
        .await?;
    let path = scope.object_path("customresourcedefinitions", &name);
    scope.client.delete(&path).await?.has_status(200)
}

async fn empty_managed_fields_list_in_patch_is_ignored(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    let made = parts.create("a", json!({"spec": {"text": "x"}})).await?;
    has_owners(&made, "U u .spec .spec.text")?;
    let none = json!({"metadata": {"managedFields": []}});
    let kept = parts.patch("u", none).await?.expect_json(200)?;
    has_owners(&kept, "U u .spec .spec.text")?;
    let clear = json!({"metadata": {"managedFields": [{}]}});
    let cleared = parts.patch("u", clear).await?.expect_json(200)?;
    has_owners(&cleared, "")
}

async fn unknown_custom_resource_fields_are_pruned_silently(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    let path = format!("{}?fieldValidation=Ignore", parts.at());
    let body = parts.config("a", json!({"spec": {"text": "x", "bogus": 1}}));
    let answer = scope.client.post(&path, &body).await?;
    let made = answer.expect_json(201)?;
    same_json("spec", &json!({"text": "x"}), &made["spec"])?;
    same("warnings", &Vec::<&str>::new(), &warnings(&answer))
}

async fn custom_resource_warnings_name_duplicate_and_unknown_fields(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    let version = format!("{}/v1", parts.group);
    let body = format!(
        r#"{{"apiVersion":"{version}","kind":"Part","metadata":{{"name":"a","bogus":1}},
        "spec":{{"text":"x","text":"y","bogus":1,"free":{{"z":1,"y":1,"y":2}}}}}}"#
    );
    let request = Request::new(Method::POST, parts.at()).body("application/json", body);
    let answer = scope.client.execute(request).await?;
    answer.has_status(201)?;
    let expected = vec![
        r#"299 - "duplicate field \"spec.text\"""#,
        r#"299 - "duplicate field \"spec.free.y\"""#,
        r#"299 - "unknown field \"metadata.bogus\"""#,
        r#"299 - "unknown field \"spec.bogus\"""#,
    ];
    same("warnings", &expected, &warnings(&answer))
}

async fn unknown_fields_in_custom_resource_patch_are_rejected(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    parts.create("a", json!({"spec": {"text": "x"}})).await?;
    let path = format!("{}?fieldValidation=Strict", parts.of("a"));
    let unknown = json!({"spec": {"bogus": 1}});
    let refused = scope
        .client
        .patch(&path, &unknown)
        .await?
        .expect_json(422)?;
    let cause = &refused["details"]["causes"][0];
    same_json("field", &json!("patch"), &cause["field"])?;
    let message = refused["message"].as_str().unwrap_or_default();
    ensure!(
        message.ends_with(": strict decoding error: unknown field \"spec.bogus\""),
        "another text: {refused}"
    );
    Ok(())
}

/// Upstream finds out that it cannot convert once there is a change and no conflict.
async fn custom_resource_scale_can_be_patched_but_not_applied(scope: Scope) -> Outcome {
    let parts = define(&scope).await?;
    parts.create("a", json!({"spec": {"replicas": 1}})).await?;
    let path = format!("{}/scale", parts.of("a"));
    let scaled = scope
        .client
        .patch(&path, &json!({"spec": {"replicas": 2}}))
        .await?
        .expect_json(200)?;
    same_json("spec", &json!({"replicas": 2}), &scaled["spec"])?;
    let view = |count: u32| {
        json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"},
            "spec": {"replicas": count},
        })
    };
    let answer = send(&scope, APPLY, &by(&path, "sc"), view(3).to_string()).await?;
    answer.has_status(409)?;
    let answer = send(&scope, APPLY, &by(&path, "sc!"), view(3).to_string()).await?;
    answer.expect_failure(&unexplained(
        "failed to convert new object (/a; autoscaling/v1, Kind=Scale) to proper version: \
         request to convert CR to an invalid group/version: autoscaling/v1",
    ))?;
    let answer = send(&scope, APPLY, &by(&path, "sc"), view(2).to_string()).await?;
    answer.has_status(200)
}
