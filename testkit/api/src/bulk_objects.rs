//! Many objects that are deleted together: the dependents of one owner, and the content of a
//! namespace. For measurements of the deletion, and for tests that kill the server meanwhile.

use crate::kinds::kind;
use crate::object::set;
use crate::samples::sample;
use crate::{Client, Failure, Outcome};
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};
use std::time::Duration;

/// Timeout for deletions on any machine.
const DELETION_TIMEOUT: Duration = Duration::from_secs(300);
const GROUP: &str = "crowd.optik.test";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Built-in kinds that fill a namespace, besides those of [`CUSTOM`].
const BUILT_IN: [&str; 17] = [
    "configmaps",
    "secrets",
    "services",
    "endpoints",
    "pods",
    "serviceaccounts",
    "podtemplates",
    "replicationcontrollers",
    "deployments",
    "replicasets",
    "statefulsets",
    "daemonsets",
    "jobs",
    "cronjobs",
    "ingresses",
    "networkpolicies",
    "leases",
];
const CUSTOM: [&str; 3] = ["reds", "greens", "blues"];

/// How many kinds fill a namespace.
pub const KINDS: usize = BUILT_IN.len() + CUSTOM.len();

/// Creates many objects concurrently, and waits for their deletion.
#[derive(Clone, Debug)]
pub struct BulkObjects {
    pub client: Client,
    /// How many requests are under way at a time.
    pub connections: usize,
}

impl BulkObjects {
    #[must_use]
    pub fn new(client: Client) -> Self {
        let connections = 16;
        Self {
            client,
            connections,
        }
    }

    /// # Errors
    /// If it cannot be made.
    pub async fn namespace(&self, name: &str) -> Outcome<Value> {
        let path = namespace("");
        let object = sample("namespaces", name);
        let answer = self.client.post(path.trim_end_matches('/'), &object);
        answer.await?.expect_json(201)
    }

    /// Creates a config map and dependents of it. The name of the owner is the prefix of their
    /// names.
    ///
    /// # Errors
    /// If one cannot be made.
    pub async fn create_owned(&self, place: &str, owner: &str, count: usize) -> Outcome {
        let path = maps(place);
        let made = self
            .client
            .post(&path, &sample("configmaps", owner))
            .await?;
        let reference = owned_by(&made.expect_json(201)?);
        let bodies = (0..count).map(|number| {
            let mut object = sample("configmaps", &format!("{owner}-{number}"));
            set(&mut object, "/metadata/labels/owner", json!(owner));
            set(&mut object, "/metadata/ownerReferences", json!([reference]));
            (path.clone(), object)
        });
        self.make(bodies.collect()).await
    }

    /// The collection path of the objects that [`Self::create_owned`] creates.
    #[must_use]
    pub fn path_of_owned(place: &str, owner: &str) -> String {
        format!("{}?labelSelector=owner%3D{owner}", maps(place))
    }

    /// Defines the custom kinds that fill namespaces, unless they are there.
    ///
    /// # Errors
    /// If they cannot be.
    pub async fn create_crds(&self) -> Outcome {
        for plural in CUSTOM {
            let definition = sample("customresourcedefinitions", &format!("{plural}.{GROUP}"));
            let answer = self.client.post(DEFINITIONS, &definition).await?;
            if !matches!(answer.status, 201 | 409) {
                return answer.has_status(201);
            }
            let path = format!("/apis/{GROUP}/v1/{plural}");
            self.wait_for(&path, |status, _| status == 200).await?;
        }
        Ok(())
    }

    /// Fills a namespace with the given number of objects of each of [`KINDS`] kinds.
    ///
    /// # Errors
    /// If one cannot be made.
    pub async fn fill_namespace(&self, place: &str, each: usize) -> Outcome {
        let mut bodies = Vec::new();
        for (plural, path) in BUILT_IN
            .iter()
            .chain(&CUSTOM)
            .zip(Self::filled_paths(place))
        {
            for number in 0..each {
                bodies.push((path.clone(), object(plural, &format!("one-{number}"))));
            }
        }
        self.make(bodies).await
    }

    /// The collection paths of the objects that [`Self::fill_namespace`] creates, kind by kind.
    #[must_use]
    pub fn filled_paths(place: &str) -> Vec<String> {
        let path = |plural: &&str| {
            let root = match CUSTOM.contains(plural) {
                true => format!("/apis/{GROUP}/v1"),
                false => kind(plural).root(),
            };
            format!("{root}/namespaces/{place}/{plural}")
        };
        BUILT_IN.iter().chain(&CUSTOM).map(path).collect()
    }

    async fn make(&self, bodies: Vec<(String, Value)>) -> Outcome {
        let made = futures::stream::iter(bodies).map(|(path, object)| async move {
            let answer = self.client.post(&path, &object).await?;
            answer.has_status(201)
        });
        made.buffer_unordered(self.connections).try_collect().await
    }

    /// # Errors
    /// If it is still there after a long time.
    pub async fn wait_until_gone(&self, path: &str) -> Outcome {
        self.wait_for(path, |status, _| status == 404).await
    }

    /// Waits until a list has no items.
    ///
    /// # Errors
    /// If it has some after a long time.
    pub async fn wait_until_empty(&self, path: &str) -> Outcome {
        let mark = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{mark}limit=1");
        let empty = |list: &Value| list["items"].as_array().is_some_and(Vec::is_empty);
        self.wait_for(&path, |status, list| status == 200 && empty(list))
            .await
    }

    async fn wait_for(&self, path: &str, so: impl Fn(u16, &Value) -> bool) -> Outcome {
        let waiting = async {
            let mut pulse = tokio::time::interval(Duration::from_millis(10));
            loop {
                pulse.tick().await;
                let answer = self.client.get(path).await?;
                if so(answer.status, &answer.json().unwrap_or_default()) {
                    return Ok(());
                }
            }
        };
        let done = tokio::time::timeout(DELETION_TIMEOUT, waiting).await;
        done.unwrap_or_else(|_| {
            Err(Failure::new(format!(
                "{path}: timed out waiting for deletion"
            )))
        })
    }
}

/// Where a namespace is.
#[must_use]
pub fn namespace(name: &str) -> String {
    format!("/api/v1/namespaces/{name}")
}

/// Where the config maps of a namespace are.
#[must_use]
pub fn maps(place: &str) -> String {
    format!("/api/v1/namespaces/{place}/configmaps")
}

/// An owner reference with `blockOwnerDeletion`.
#[must_use]
pub fn owned_by(owner: &Value) -> Value {
    json!({
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": true,
    })
}

fn object(plural: &str, name: &str) -> Value {
    if !CUSTOM.contains(&plural) {
        return sample(plural, name);
    }
    // As the definitions of `sample` call it.
    let mut kind = plural.trim_end_matches('s').to_owned();
    kind[..1].make_ascii_uppercase();
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name},
        "spec": {"color": plural},
    })
}
