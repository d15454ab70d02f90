//! Custom resource definitions (CRDs) for the checks: `widgets` have the subresources status and
//! scale, `gadgets` do not.

use crate::failure::ensure;
use crate::object::set;
use crate::samples::sample;
use crate::{Outcome, Scope};
use serde_json::{Value, json};

/// The definitions have fixed names and stay: a second run finds them.
pub(crate) async fn define(scope: &Scope) -> Outcome {
    for plural in ["widgets", "gadgets"] {
        let path = scope.collection_path("customresourcedefinitions");
        let answer = scope.client.post(&path, &definition(plural)).await?;
        ensure!(
            matches!(answer.status, 201 | 409),
            "{}: {} {}",
            answer.asked,
            answer.status,
            answer.text()
        );
    }
    for plural in ["widgets", "gadgets"] {
        is_served(scope, &scope.collection_path(plural)).await?;
    }
    Ok(())
}

/// Waits until a collection can be listed.
pub(crate) async fn is_served(scope: &Scope, path: &str) -> Outcome {
    scope
        .wait_until(path, || async {
            let answer = scope.client.get(path).await?;
            Ok((answer.status == 200).then_some(()))
        })
        .await
}

pub(crate) fn definition(plural: &str) -> Value {
    let name = format!("{plural}.{}", crate::kinds::CUSTOM_GROUP);
    let mut definition = sample("customresourcedefinitions", &name);
    let version = "/spec/versions/0";
    if plural == "widgets" {
        let subresources = json!({
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            },
        });
        set(
            &mut definition,
            &format!("{version}/subresources"),
            subresources,
        );
        let fields = json!([{"jsonPath": ".spec.color"}]);
        set(
            &mut definition,
            &format!("{version}/selectableFields"),
            fields,
        );
    }
    definition
}

/// A kind of one check alone.
pub(crate) struct CrdFixture {
    pub(crate) group: String,
    /// Of the definition.
    pub(crate) name: String,
    pub(crate) definition: Value,
    /// Of its objects, in the namespace of the check.
    pub(crate) path: String,
    kind: String,
}

impl CrdFixture {
    /// The CRD `things` with an arbitrary schema for `spec`, and without subresources.
    pub(crate) fn with_default_schema(scope: &Scope) -> Self {
        let group = format!("{}.optik.test", scope.namespace);
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {}, "spec": {
                "group": group, "scope": "Namespaced", "names": {},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": {"type": "object", "properties": {
                            "a": {"type": "string"}, "n": {"type": "integer"}}}}}}}],
            },
        });
        let plain = Self {
            group,
            name: String::new(),
            definition,
            path: scope.namespace.clone(),
            kind: String::new(),
        };
        plain.with_names("things", "Thing")
    }

    /// Sets other names.
    pub(crate) fn with_names(mut self, plural: &str, kind: &str) -> Self {
        let group = &self.group;
        let namespace = group.split('.').next().unwrap_or_default();
        self.path = format!("/apis/{group}/v1/namespaces/{namespace}/{plural}");
        self.name = format!("{plural}.{group}");
        kind.clone_into(&mut self.kind);
        set(&mut self.definition, "/metadata/name", json!(self.name));
        set(
            &mut self.definition,
            "/spec/names",
            json!({"plural": plural, "kind": kind}),
        );
        self
    }

    /// With another schema of `spec`.
    pub(crate) fn with_spec(mut self, spec: Value) -> Self {
        let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        set(&mut self.definition, path, spec);
        self
    }

    /// An object of it.
    pub(crate) fn object(&self, name: &str) -> Value {
        json!({
            "apiVersion": format!("{}/v1", self.group), "kind": self.kind,
            "metadata": {"name": name},
        })
    }

    /// The same with a spec.
    pub(crate) fn with(&self, name: &str, spec: Value) -> Value {
        let mut object = self.object(name);
        object["spec"] = spec;
        object
    }

    pub(crate) async fn make(&self, scope: &Scope) -> Outcome<Value> {
        let path = scope.collection_path("customresourcedefinitions");
        scope
            .client
            .post(&path, &self.definition)
            .await?
            .expect_json(201)
    }

    /// Creates the CRD and waits until it is served.
    pub(crate) async fn serve(&self, scope: &Scope) -> Outcome {
        self.make(scope).await?;
        is_served(scope, &self.path).await
    }

    pub(crate) async fn get(&self, scope: &Scope) -> Outcome<Value> {
        scope.get("customresourcedefinitions", &self.name).await
    }

    /// Waits until it is established.
    pub(crate) async fn established(&self, scope: &Scope) -> Outcome<Value> {
        scope
            .wait_until("establishment", || async {
                let now = self.get(scope).await?;
                let list = now["status"]["conditions"].as_array();
                let mut list = list.into_iter().flatten();
                let done = list.any(|one| one["type"] == "Established" && one["status"] == "True");
                Ok(done.then_some(now))
            })
            .await
    }

    pub(crate) async fn delete_definitions(&self, scope: &Scope) -> Outcome {
        let path = scope.object_path("customresourcedefinitions", &self.name);
        scope.client.delete(&path).await?.has_status(200)
    }
}
