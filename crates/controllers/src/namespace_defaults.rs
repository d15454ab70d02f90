//! Default objects of namespaces: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`
//! in each, and `extension-apiserver-authentication` in `kube-system`.

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

/// A default object of every namespace, or of one namespace.
#[derive(Clone, Debug)]
pub struct NamespaceDefault {
    plural: &'static str,
    key_prefix: &'static str,
    name: &'static str,
    only_in: Option<&'static str>,
    content: DefaultContent,
}

/// The required content of the object; other fields belong to users.
#[derive(Clone, Debug)]
enum DefaultContent {
    Empty,
    /// The CA bundle that clients use to verify servers: of this server and of the others.
    RootCa(watch::Receiver<CaBundles>),
    /// The CA bundle that verifies client certificates.
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

    /// Completes when the content has changed in this process.
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

    /// The ConfigMap from which extension API servers read the CA of client certificates.
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

/// Publishes the CA of client certificates for extension API servers. It is not a controller that
/// can be disabled, because kube-apiserver publishes it itself.
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

/// Keeps the object in its namespaces until the future is dropped or the store stops.
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
        // Namespaces, the objects themselves, and the sources of their content.
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

    /// Enqueues every namespace that the object belongs in.
    fn enqueue_all(&self, state: &Snapshot, control: &mut ControlLoop<String>) {
        let namespaces = KeyRange::prefix(NAMESPACES_PREFIX);
        for version in state.entries(&namespaces) {
            self.enqueue(namespace_of(version.key()), control);
        }
    }

    /// Enqueues the namespaces that a change of this key affects.
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

    /// Returns the namespace of a key if it is the key of such an object.
    fn namespace_of_object<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let rest = std::str::from_utf8(key).ok()?;
        let rest = rest.strip_prefix(self.namespace_default.key_prefix)?;
        rest.strip_suffix(self.namespace_default.name)?
            .strip_suffix('/')
    }

    /// Creates or updates the object.
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
        // The watch event shows whether the stored content is right: admission may change it, and
        // would do so again.
        self.backoff.record_write(namespace);
        match answer.code {
            // The object exists, or the namespace is gone: the watch reports both.
            200..=299 | 404 | 409 => Outcome::Done,
            code => {
                let what = format_args!("cannot make {name} in the namespace {namespace}");
                log_failure(what, code, &answer.body);
                self.when_writable(namespace)
            }
        }
    }

    /// Requeues the namespace for when the backoff allows a write.
    fn when_writable(&self, namespace: &str) -> Outcome<String> {
        let time = self.backoff.next_write_at(namespace);
        Outcome::RequeueAfter(time.saturating_duration_since(Instant::now()))
    }
}

fn namespace_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(NAMESPACES_PREFIX.len()..)?).ok()
}

/// Whether an object contains all wanted fields.
fn contains_fields(object: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(members) => members
            .iter()
            .all(|(name, value)| contains_fields(&object[name.as_str()], value)),
        other => object == other,
    }
}
