//! What every namespace has: the account that pods act for by default, and the
//! certificates by which they know the servers; and what `kube-system` alone has.

use crate::NAMESPACES_PREFIX;
use crate::ca_bundles::{self, CaBundles, CaPurpose, merged_bundle};
use crate::loopback_client::{LoopbackClient, log_failure};
use crate::write_backoff::WriteBackoff;
use http::Method;
use optik_apiserver::{ApiServer, key_prefix};
use optik_control_loop::{ControlLoop, Outcome, Step};
use optik_store::{KeyRange, Snapshot, Store};
use optik_supervisor::{Supervisor, Task};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

/// One thing that every namespace has, or one of them.
#[derive(Clone, Debug)]
pub struct NamespaceDefault {
    plural: &'static str,
    key_prefix: &'static str,
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
            key_prefix: key_prefix("", "serviceaccounts"),
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
            key_prefix: key_prefix("", "configmaps"),
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
            key_prefix: key_prefix("", "configmaps"),
            name: "extension-apiserver-authentication",
            only_in: Some("kube-system"),
            content: DefaultContent::ClientCa(own.clone()),
        }
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
    controller.run().await;
}

struct NamespaceDefaultController {
    client: LoopbackClient,
    store: Store,
    namespace_default: NamespaceDefault,
    backoff: WriteBackoff,
}

impl NamespaceDefaultController {
    async fn run(&mut self) {
        // Namespaces, the objects themselves, and what they are made from.
        let prefixes = [
            NAMESPACES_PREFIX,
            self.namespace_default.key_prefix,
            ca_bundles::CA_BUNDLES_PREFIX,
        ];
        let ranges = prefixes.map(KeyRange::prefix);
        let mut control =
            ControlLoop::new(&self.store, ranges).with_batch_delay(crate::BATCH_DELAY);
        loop {
            let step = tokio::select! {
                step = control.next() => step,
                () = self.namespace_default.content.changed() => {
                    self.enqueue_all(&self.store.snapshot(), &mut control);
                    continue;
                }
            };
            match step {
                None => return,
                Some(Step::Resync(state)) => self.enqueue_all(&state, &mut control),
                Some(Step::Changes(batch)) => {
                    for event in batch.events() {
                        self.enqueue_affected(event.version().key(), &mut control);
                    }
                }
                Some(Step::Work(namespaces)) => {
                    for namespace in namespaces {
                        let outcome = self.ensure(&namespace).await;
                        control.finish(namespace, outcome);
                    }
                }
            }
        }
    }

    /// Those namespaces that it belongs in.
    fn enqueue_all(&self, state: &Snapshot, control: &mut ControlLoop<String>) {
        let namespaces = KeyRange::prefix(NAMESPACES_PREFIX);
        for version in state.entries(&namespaces) {
            self.enqueue(namespace_of(version.key()), control);
        }
    }

    /// Those that a change of this key is about.
    fn enqueue_affected(&self, key: &[u8], control: &mut ControlLoop<String>) {
        if key.starts_with(ca_bundles::CA_BUNDLES_PREFIX.as_bytes()) {
            self.enqueue_all(&self.store.snapshot(), control);
        } else if key.starts_with(NAMESPACES_PREFIX.as_bytes()) {
            self.enqueue(namespace_of(key), control);
        } else {
            self.enqueue(self.namespace_of_object(key), control);
        }
    }

    fn enqueue(&self, namespace: Option<&str>, control: &mut ControlLoop<String>) {
        let applies = |name: &&str| self.namespace_default.applies_to(name);
        if let Some(namespace) = namespace.filter(applies) {
            control.add(namespace.to_owned());
        }
    }

    /// The namespace of a key, if it is that of our thing.
    fn namespace_of_object<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let rest = std::str::from_utf8(key).ok()?;
        let rest = rest.strip_prefix(self.namespace_default.key_prefix)?;
        rest.strip_suffix(self.namespace_default.name)?
            .strip_suffix('/')
    }

    /// Makes what is missing.
    async fn ensure(&mut self, namespace: &str) -> Outcome<String> {
        let state = self.store.snapshot();
        let Some(namespace_object) =
            state.get(format!("{NAMESPACES_PREFIX}{namespace}").as_bytes())
        else {
            self.backoff.forget(namespace);
            return Outcome::Done;
        };
        if memchr::memmem::find(namespace_object.value(), b"\"deletionTimestamp\"").is_some() {
            return Outcome::Done;
        }
        let content = self.namespace_default.content.render(&state);
        let NamespaceDefault { plural, name, .. } = self.namespace_default;
        let key = format!("{}{namespace}/{name}", self.namespace_default.key_prefix);
        let there = state.get(key.as_bytes());
        let there: Option<Value> = there.and_then(|it| serde_json::from_slice(it.value()).ok());
        drop(state);
        if there
            .as_ref()
            .is_some_and(|there| contains_fields(there, &content))
        {
            return Outcome::Done;
        }
        if self.backoff.next_write_at(namespace) > Instant::now() {
            return self.when_writable(namespace);
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
            200..=299 | 404 | 409 => Outcome::Done,
            code => {
                let what = format_args!("cannot make {name} in the namespace {namespace}");
                log_failure(what, code, &answer.body);
                self.when_writable(namespace)
            }
        }
    }

    /// Again when the pause after the last write is over.
    fn when_writable(&self, namespace: &str) -> Outcome<String> {
        let time = self.backoff.next_write_at(namespace);
        Outcome::RequeueAfter(time.saturating_duration_since(Instant::now()))
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
