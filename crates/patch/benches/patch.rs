//! Benchmarks of patches, on objects of typical size.

use optik_object::{Map, Object, Timestamp, Value};
use optik_patch::{
    ApplyRequest, Endpoint, Family, FieldSet, JsonPatch, OneVersion, StrictDecoding, UpdateRequest,
    apply, merge_patch, strategic_merge_patch, update,
};
use optik_schema::{Schema, TypeRef, builtin_type};
use serde_json::json;
use std::hint::black_box;

fn main() {
    // Parsed before the measurement.
    let _ = deployment_type();
    divan::main();
}

fn deployment_type() -> TypeRef<'static> {
    builtin_type("apps", "v1", "Deployment").expect("a built-in kind")
}

/// About 1 KB of configuration.
fn config(image: &str) -> Object {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
            "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}, "spec": {
                "serviceAccountName": "web", "terminationGracePeriodSeconds": 30,
                "containers": [{
                    "name": "web", "image": image, "args": ["--verbose", "--port=8080"],
                    "ports": [{"containerPort": 8080, "name": "http"}, {"containerPort": 9090, "name": "metrics"}],
                    "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"},
                        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
                    "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                }],
                "volumes": [{"name": "data", "emptyDir": {}}],
            }},
        },
    });
    value.try_into().expect("an object")
}

struct Fixture {
    reset: FieldSet,
}

impl Fixture {
    fn new() -> Self {
        Self {
            reset: FieldSet::from_fields(&[&["status"]]),
        }
    }

    fn with<T>(&self, run: impl FnOnce(&Endpoint<'_>) -> T) -> T {
        let versions = OneVersion {
            api_version: "apps/v1",
            of: deployment_type(),
            reset: Some(&self.reset),
        };
        run(&Endpoint {
            api_version: "apps/v1",
            kind: "Deployment",
            subresource: "",
            versions: &versions,
        })
    }

    fn apply(&self, live: Option<&Object>, config: &Object, manager: &str) -> Object {
        let request = ApplyRequest {
            live,
            config,
            manager,
            force: true,
            now: Timestamp::from_seconds(1),
        };
        let applied = self.with(|endpoint| apply(endpoint, &request));
        applied.expect("it is forced").object
    }
}

#[divan::bench]
fn apply_creates(bencher: divan::Bencher<'_, '_>) {
    let (fixture, config) = (Fixture::new(), config("web:1"));
    bencher.bench(|| fixture.apply(None, black_box(&config), "m1"));
}

#[divan::bench]
fn apply_changes_nothing(bencher: divan::Bencher<'_, '_>) {
    let (fixture, config) = (Fixture::new(), config("web:1"));
    let live = fixture.apply(None, &config, "m1");
    bencher.bench(|| fixture.apply(Some(&live), black_box(&config), "m1"));
}

#[divan::bench]
fn apply_changes_the_image(bencher: divan::Bencher<'_, '_>) {
    let fixture = Fixture::new();
    let live = fixture.apply(None, &config("web:1"), "m1");
    let new = config("web:2");
    bencher.bench(|| fixture.apply(Some(&live), black_box(&new), "m1"));
}

#[divan::bench]
fn apply_drops_a_field(bencher: divan::Bencher<'_, '_>) {
    let fixture = Fixture::new();
    let live = fixture.apply(None, &config("web:1"), "m1");
    let mut new = config("web:1");
    new.members_mut()["spec"]
        .as_object_mut()
        .map(|spec| spec.remove("replicas"));
    bencher.bench(|| fixture.apply(Some(&live), black_box(&new), "m1"));
}

#[divan::bench]
fn update_changes_the_image(bencher: divan::Bencher<'_, '_>) {
    let fixture = Fixture::new();
    let live = fixture.apply(None, &config("web:1"), "m1");
    let mut new = live.clone();
    new.members_mut()["spec"]["template"]["spec"]["containers"][0]["image"] = "web:2".into();
    new.remove_metadata_member("managedFields");
    bencher.with_inputs(|| new.clone()).bench_values(|mut new| {
        let write = UpdateRequest {
            live: Some(&live),
            manager: "m2",
            now: Timestamp::from_seconds(2),
            family: Family::BuiltIn,
        };
        fixture.with(|endpoint| update(endpoint, &write, &mut new));
        new
    });
}

/// A document of about 100 KB.
fn large() -> Map {
    let entries = (0..1000).map(|n| {
        (
            format!("key-{n:04}"),
            json!({"value": "x".repeat(64), "n": n}),
        )
    });
    let Value::Object(members) = json!({"data": Value::Object(entries.collect())}) else {
        unreachable!("written as an object");
    };
    members
}

#[divan::bench]
fn merge_patch_of_100_kb(bencher: divan::Bencher<'_, '_>) {
    let (document, patch) = (large(), large());
    let inputs = || (document.clone(), patch.clone());
    bencher
        .with_inputs(inputs)
        .bench_values(|(mut document, patch)| {
            merge_patch(&mut document, patch);
            document
        });
}

#[divan::bench]
fn json_patch_of_100_kb(bencher: divan::Bencher<'_, '_>) {
    let body = br#"[{"op":"replace","path":"/data/key-0500/n","value":1},{"op":"test","path":"/data/key-0500/n","value":1}]"#;
    let document = Value::Object(large());
    let inputs = || document.clone();
    bencher.with_inputs(inputs).bench_values(|document| {
        JsonPatch::decode(body, StrictDecoding::On).and_then(|patch| patch.apply(document))
    });
}

#[divan::bench]
fn strategic_patch_of_a_deployment(bencher: divan::Bencher<'_, '_>) {
    let live = config("web:1").members().clone();
    let Value::Object(patch) = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "web"}],
        "containers": [{"name": "web", "image": "web:2"}],
    }}}}) else {
        unreachable!("written as an object");
    };
    let inputs = || (live.clone(), patch.clone());
    bencher
        .with_inputs(inputs)
        .bench_values(|(live, patch)| strategic_merge_patch(live, patch, deployment_type()));
}

#[divan::bench]
fn parse_builtin_schema_table() -> Schema {
    Schema::parse(include_str!("../../schema/src/builtin.table")).expect("a table")
}
