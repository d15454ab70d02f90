//! What every namespace has: the account that pods act for by default, and the
//! certificates by which they know the servers; and what `kube-system` alone has.

use crate::NAMESPACES_PREFIX;
use crate::ca_bundles::{self, CaBundles, CaPurpose, merged_bundle};
use crate::loopback_client::{LoopbackClient, log_failure};
use crate::write_backoff::WriteBackoff;
use http::Method;
use optik_apiserver::ApiServer;
use optik_store::{KeyRange, Snapshot, Store, Watch, WatchError, WatchFrom, WatchSpec};
use optik_supervisor::{Supervisor, Task};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// One thing that every namespace has, or one of them.
#[derive(Clone, Debug)]
pub struct NamespaceDefault {
    plural: &'static str,
    name: &'static str,
    only_in: Option<&'static str>,
    content: DefaultContent,
}

/// What it must say; the rest is its users' business.
#[derive(Clone, Debug)]
enum DefaultContent {
    Empty,
    /// The authorities that clients trust: ours, and those of other servers.
    RootCa(watch::Receiver<CaBundles>),
    /// The authorities that vouch for clients.
    ClientCa(watch::Receiver<CaBundles>),
}

impl DefaultContent {
    fn render(&self, state: &Snapshot) -> Value {
        match self {
            Self::Empty => json!({}),
            Self::RootCa(own) => json!({
                "metadata": {"annotations": {"kubernetes.io/description": DESCRIPTION}},
                "data": {"ca.crt": merged_bundle(state, CaPurpose::Server, &own.borrow().server)},
            }),
            Self::ClientCa(own) => json!({
                "data": {"client-ca-file": merged_bundle(state, CaPurpose::Client, &own.borrow().client)},
            }),
        }
    }

    /// Completes when it has changed by our own doing.
    async fn changed(&mut self) {
        match self {
            Self::Empty => std::future::pending().await,
            Self::RootCa(own) | Self::ClientCa(own) => ca_bundles::changed(own).await,
        }
    }
}

impl NamespaceDefault {
    /// The ServiceAccount `default`.
    #[must_use]
    pub fn service_account() -> Self {
        Self {
            plural: "serviceaccounts",
            name: "default",
            only_in: None,
            content: DefaultContent::Empty,
        }
    }

    /// The ConfigMap `kube-root-ca.crt`.
    #[must_use]
    pub fn root_ca_config_map(own: &watch::Receiver<CaBundles>) -> Self {
        Self {
            plural: "configmaps",
            name: "kube-root-ca.crt",
            only_in: None,
            content: DefaultContent::RootCa(own.clone()),
        }
    }

    /// The ConfigMap by which other programs of the cluster know whose client certificates
    /// to believe.
    #[must_use]
    pub fn extension_apiserver_authentication(own: &watch::Receiver<CaBundles>) -> Self {
        Self {
            plural: "configmaps",
            name: "extension-apiserver-authentication",
            only_in: Some("kube-system"),
            content: DefaultContent::ClientCa(own.clone()),
        }
    }

    fn directory(&self) -> String {
        format!("/registry/{}/", self.plural)
    }

    fn applies_to(&self, namespace: &str) -> bool {
        self.only_in.is_none_or(|only| only == namespace)
    }
}

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
    using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
    usage is guaranteed across distributions of Kubernetes clusters.";

const AUTHENTICATION_CONFIG_TASK: Task = Task::upkeep("authentication-config");

/// Lets other programs of the cluster know whose client certificates to believe. No
/// controller that can be turned off does that: kube-apiserver does it itself.
pub fn start_authentication_config_publisher(
    supervisor: &Supervisor,
    api: &ApiServer,
    store: &Store,
    own: watch::Receiver<CaBundles>,
) {
    let (api, store) = (api.clone(), store.clone());
    supervisor.spawn(AUTHENTICATION_CONFIG_TASK, move || {
        let namespace_default = NamespaceDefault::extension_apiserver_authentication(&own);
        run_namespace_default(api.clone(), store.clone(), namespace_default)
    });
}

/// Keeps one thing where it belongs for as long as it is polled, or until the store stops.
pub async fn run_namespace_default(
    api: ApiServer,
    store: Store,
    namespace_default: NamespaceDefault,
) {
    let client = LoopbackClient::new(api, "namespace-furnisher");
    let mut controller = NamespaceDefaultController {
        client,
        store,
        namespace_default,
        backoff: WriteBackoff::default(),
    };
    while let Err(WatchError::Compacted { .. }) = controller.run_until_compacted().await {
        // Events are gone that we did not see: begin with the state again.
    }
}

struct NamespaceDefaultController {
    client: LoopbackClient,
    store: Store,
    namespace_default: NamespaceDefault,
    backoff: WriteBackoff,
}

/// What has to be looked at: namespaces, the things themselves, what they are made from.
struct SourceWatches {
    namespaces: Watch,
    objects: Watch,
    sources: Watch,
}

impl NamespaceDefaultController {
    async fn run_until_compacted(&mut self) -> Result<(), WatchError> {
        let state = self.store.snapshot();
        let mut watches = self.watch(&state)?;
        let mut missing = self.namespaces(&state);
        drop(state);
        loop {
            for namespace in missing.clone() {
                if self.ensure(&namespace).await {
                    missing.remove(&namespace);
                }
            }
            let due = missing
                .iter()
                .map(|namespace| self.backoff.next_write_at(namespace));
            self.wait(&mut watches, due.min(), &mut missing).await?;
        }
    }

    fn watch(&self, state: &Snapshot) -> Result<SourceWatches, WatchError> {
        let from = WatchFrom::Revision(state.revision().next());
        let watch = |prefix: &str| {
            let range = KeyRange::prefix(prefix);
            self.store.watch(WatchSpec { range, from })
        };
        Ok(SourceWatches {
            namespaces: watch(NAMESPACES_PREFIX)?,
            objects: watch(&self.namespace_default.directory())?,
            sources: watch(ca_bundles::CA_BUNDLES_PREFIX)?,
        })
    }

    /// Those that it belongs in.
    fn namespaces(&self, state: &Snapshot) -> BTreeSet<String> {
        let range = KeyRange::prefix(NAMESPACES_PREFIX);
        let names = state.entries(&range);
        let names = names.filter_map(|version| Some(namespace_of(version.key())?.to_owned()));
        names
            .filter(|name| self.namespace_default.applies_to(name))
            .collect()
    }

    /// Waits until a namespace comes, something of ours changes, or what was put off is due.
    async fn wait(
        &mut self,
        watches: &mut SourceWatches,
        due: Option<Instant>,
        missing: &mut BTreeSet<String>,
    ) -> Result<(), WatchError> {
        let put_off = async {
            match due {
                None => std::future::pending().await,
                Some(due) => sleep_until(due).await,
            }
        };
        tokio::select! {
            batch = watches.namespaces.next() => {
                let batch = batch?;
                let names = batch.events().filter_map(|event| namespace_of(event.version().key()));
                missing.extend(names.filter(|name| self.namespace_default.applies_to(name)).map(str::to_owned));
            }
            batch = watches.objects.next() => {
                let batch = batch?;
                let names = batch.events().filter_map(|event| self.namespace_of_object(event.version().key()));
                missing.extend(names.filter(|name| self.namespace_default.applies_to(name)).map(str::to_owned));
            }
            batch = watches.sources.next() => {
                batch?;
                missing.extend(self.namespaces(&self.store.snapshot()));
            }
            () = self.namespace_default.content.changed() => {
                missing.extend(self.namespaces(&self.store.snapshot()));
            }
            () = put_off => return Ok(()),
        }
        crate::batch_delay().await;
        Ok(())
    }

    /// The namespace of a key, if it is that of our thing.
    fn namespace_of_object<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let rest = std::str::from_utf8(key).ok()?;
        let rest = rest.strip_prefix(&self.namespace_default.directory())?;
        rest.strip_suffix(self.namespace_default.name)?
            .strip_suffix('/')
    }

    /// Makes what is missing. True if nothing is left to do until something changes.
    async fn ensure(&mut self, namespace: &str) -> bool {
        let state = self.store.snapshot();
        let Some(namespace_object) =
            state.get(format!("{NAMESPACES_PREFIX}{namespace}").as_bytes())
        else {
            self.backoff.forget(namespace);
            return true;
        };
        if memchr::memmem::find(namespace_object.value(), b"\"deletionTimestamp\"").is_some() {
            return true;
        }
        let content = self.namespace_default.content.render(&state);
        let NamespaceDefault { plural, name, .. } = self.namespace_default;
        let key = format!("{}{namespace}/{name}", self.namespace_default.directory());
        let there = state.get(key.as_bytes());
        let there: Option<Value> = there.and_then(|it| serde_json::from_slice(it.value()).ok());
        drop(state);
        if there
            .as_ref()
            .is_some_and(|there| contains_fields(there, &content))
        {
            return true;
        }
        if self.backoff.next_write_at(namespace) > Instant::now() {
            return false;
        }
        let path = format!("/api/v1/namespaces/{namespace}/{plural}");
        let answer = match there {
            None => {
                let mut object = content;
                object["metadata"]["name"] = name.into();
                self.client.send(Method::POST, &path, Some(&object)).await
            }
            Some(_) => {
                self.client
                    .merge_patch(&format!("{path}/{name}"), &content)
                    .await
            }
        };
        // Whether it says what it should is seen by its event: others may have changed it
        // on the way, and will do so the next time.
        self.backoff.record_write(namespace);
        match answer.code {
            // It is there by now, or the namespace is gone: events tell of both.
            200..=299 | 404 | 409 => true,
            code => {
                let what = format_args!("cannot make {name} in the namespace {namespace}");
                log_failure(what, code, &answer.body);
                false
            }
        }
    }
}

fn namespace_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(NAMESPACES_PREFIX.len()..)?).ok()
}

/// Whether an object says at least that.
fn contains_fields(object: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(members) => members
            .iter()
            .all(|(name, value)| contains_fields(&object[name.as_str()], value)),
        other => object == other,
    }
}
