//! The scope of a check: a namespace of its own on a server.

use crate::client::query;
use crate::crds;
use crate::failure::ensure;
use crate::kinds::kind;
use crate::object::revision;
use crate::samples::sample;
use crate::watch::WatchStream;
use crate::{Client, Failure, Outcome, ServerCapabilities};
use optik_platform::{Clock, Monotonic, SystemClock};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OnceCell;

/// The context that all checks of a run share.
#[derive(Debug)]
pub(crate) struct RunContext {
    pub(crate) traits: ServerCapabilities,
    pub(crate) clock: SystemClock,
    definitions: OnceCell<()>,
}

impl RunContext {
    pub(crate) fn new(traits: ServerCapabilities) -> Arc<Self> {
        Arc::new(Self {
            traits,
            clock: SystemClock::default(),
            definitions: OnceCell::new(),
        })
    }
}

/// Where a check works.
#[derive(Clone, Debug)]
pub struct Scope {
    pub client: Client,
    /// Created for this check; other checks do not access it.
    pub namespace: String,
    shared: Arc<RunContext>,
}

impl Scope {
    pub(crate) async fn enter(
        client: Client,
        namespace: String,
        shared: Arc<RunContext>,
    ) -> Outcome<Self> {
        let scope = Self {
            client,
            namespace,
            shared,
        };
        scope.make("namespaces", &scope.namespace).await?;
        Ok(scope)
    }

    /// The scope with another client.
    pub(crate) fn with_another_client(&self) -> Self {
        Self {
            client: self.client.with_new_connections(),
            ..self.clone()
        }
    }

    /// The scope with a client whose unread events soon block the server.
    pub(crate) fn with_small_buffer_client(&self) -> Self {
        Self {
            client: self.client.with_small_receive_buffer(),
            ..self.clone()
        }
    }

    /// A second namespace: `suffix` is appended to the name.
    pub(crate) async fn second_namespace(&self, suffix: &str) -> Outcome<Self> {
        let namespace = format!("{}{suffix}", self.namespace);
        Self::enter(self.client.clone(), namespace, Arc::clone(&self.shared)).await
    }

    /// The collection of a kind, in this namespace or in the cluster.
    pub(crate) fn collection_path(&self, plural: &str) -> String {
        let kind = kind(plural);
        if kind.namespaced {
            format!("{}/namespaces/{}/{plural}", kind.root(), self.namespace)
        } else {
            format!("{}/{plural}", kind.root())
        }
    }

    /// The path of one object.
    pub(crate) fn object_path(&self, plural: &str, name: &str) -> String {
        format!("{}/{name}", self.collection_path(plural))
    }

    /// A name that is unique in the cluster.
    pub(crate) fn unique_name(&self, name: &str) -> String {
        format!("{}-{name}", self.namespace)
    }

    /// The smallest object of a kind that is valid in this namespace.
    pub(crate) fn sample(&self, plural: &str, name: &str) -> Value {
        let mut object = sample(plural, name);
        if plural == "events" {
            object["involvedObject"]["namespace"] = self.namespace.as_str().into();
        }
        object
    }

    /// Creates the smallest object of a kind.
    pub(crate) async fn make(&self, plural: &str, name: &str) -> Outcome<Value> {
        self.create(plural, &self.sample(plural, name)).await
    }

    pub(crate) async fn create(&self, plural: &str, object: &Value) -> Outcome<Value> {
        self.client
            .post(&self.collection_path(plural), object)
            .await?
            .expect_json(201)
    }

    /// Creates config maps in this order.
    pub(crate) async fn make_several(&self, names: &[&str]) -> Outcome<Vec<Value>> {
        let mut made = Vec::new();
        for name in names {
            made.push(self.make("configmaps", name).await?);
        }
        Ok(made)
    }

    pub(crate) async fn get(&self, plural: &str, name: &str) -> Outcome<Value> {
        self.client
            .get(&self.object_path(plural, name))
            .await?
            .expect_json(200)
    }

    /// Replaces an object that carries its name.
    pub(crate) async fn replace(&self, plural: &str, object: &Value) -> Outcome<Value> {
        let name = crate::object::name(object)?;
        let path = self.object_path(plural, name);
        self.client.put(&path, object).await?.expect_json(200)
    }

    pub(crate) async fn is_gone(&self, plural: &str, name: &str) -> Outcome {
        let expected = crate::status::not_found(kind(plural), name);
        let answer = self.client.get(&self.object_path(plural, name)).await?;
        answer.expect_failure(&expected)
    }

    /// The object must still have this revision.
    pub(crate) async fn is_still_at(&self, plural: &str, name: &str, expected: u64) -> Outcome {
        let got = revision(&self.get(plural, name).await?)?;
        ensure!(
            got == expected,
            "{plural} {name}: expected resourceVersion {expected}, got {got}"
        );
        Ok(())
    }

    /// The config maps of this namespace.
    pub(crate) async fn list(&self, parameters: &[(&str, &str)]) -> Outcome<Value> {
        let path = query(&self.collection_path("configmaps"), parameters);
        self.client.get(&path).await?.expect_json(200)
    }

    /// A watch of the config maps of this namespace.
    pub(crate) async fn watch(&self, parameters: &[(&str, &str)]) -> Outcome<WatchStream> {
        self.watch_kind("configmaps", parameters).await
    }

    pub(crate) async fn watch_kind(
        &self,
        plural: &str,
        parameters: &[(&str, &str)],
    ) -> Outcome<WatchStream> {
        let mut all = vec![("watch", "true")];
        all.extend_from_slice(parameters);
        self.client
            .watch(&query(&self.collection_path(plural), &all))
            .await
    }

    /// A watch of the config maps of this namespace from here on.
    pub(crate) async fn watch_from_now(&self) -> Outcome<WatchStream> {
        let now = self.now().await?.to_string();
        self.watch(&[("resourceVersion", &now)]).await
    }

    /// The newest revision.
    pub(crate) async fn now(&self) -> Outcome<u64> {
        revision(&self.list(&[]).await?)
    }

    /// A namespace holds finalizers of the server; a custom kind needs a CRD.
    pub(crate) async fn define_custom_kinds(&self) -> Outcome {
        let define = || crds::define(self);
        self.shared
            .definitions
            .get_or_try_init(define)
            .await
            .copied()
    }

    /// Compacts the store at its current revision.
    pub(crate) async fn compact(&self) -> Outcome<u64> {
        let Some(compact) = &self.shared.traits.compact else {
            return Err(Failure::new(
                "check compacts but does not declare Need::Compaction",
            ));
        };
        compact().await.map_err(Failure::new)
    }

    pub(crate) fn monotonic_now(&self) -> Monotonic {
        self.shared.clock.monotonic()
    }

    pub(crate) fn elapsed_since(&self, start: Monotonic) -> Duration {
        self.monotonic_now().since(start)
    }

    /// Wall-clock seconds since 1970.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.shared.clock.wall().0 / 1000
    }

    /// Retries until the function returns a value.
    pub(crate) async fn wait_until<T, F>(
        &self,
        what: &str,
        mut ask: impl FnMut() -> F,
    ) -> Outcome<T>
    where
        F: Future<Output = Outcome<Option<T>>>,
    {
        const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
        let start = self.monotonic_now();
        let mut pulse = tokio::time::interval(Duration::from_millis(50));
        loop {
            pulse.tick().await;
            if let Some(found) = ask().await? {
                return Ok(found);
            }
            ensure!(
                self.elapsed_since(start) < WAIT_TIMEOUT,
                "waited {WAIT_TIMEOUT:?} in vain for {what}"
            );
        }
    }

    /// Sleeps: only for behaviour that is defined by time.
    pub(crate) async fn sleep(&self, time: Duration) {
        let never = std::future::pending::<()>();
        let _ = tokio::time::timeout(time, never).await;
    }

    /// Removes everything that could disturb another run.
    pub(crate) async fn cleanup(&self) {
        let path = self.object_path("namespaces", &self.namespace);
        // The result is ignored: the server may reject the delete.
        let _ = self.client.delete_with(&path, &json!({})).await;
    }
}
