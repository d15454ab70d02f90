//! What every namespace has: the account that pods act for by default, and the
//! certificates by which they know the servers; and what `kube-system` alone has.

use crate::NAMESPACES;
use crate::authorities::{self, Authorities, Purpose, union};
use crate::client::{Client, note_refusal};
use crate::pace::Pace;
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
pub struct Furniture {
    plural: &'static str,
    name: &'static str,
    only_in: Option<&'static str>,
    content: Content,
}

/// What it must say; the rest is its users' business.
#[derive(Clone, Debug)]
enum Content {
    Nothing,
    /// The authorities that clients trust: ours, and those of other servers.
    Trusted(watch::Receiver<Authorities>),
    /// The authorities that vouch for clients.
    Vouching(watch::Receiver<Authorities>),
}

impl Content {
    fn at(&self, state: &Snapshot) -> Value {
        match self {
            Self::Nothing => json!({}),
            Self::Trusted(own) => json!({
                "metadata": {"annotations": {"kubernetes.io/description": DESCRIPTION}},
                "data": {"ca.crt": union(state, Purpose::Server, &own.borrow().server)},
            }),
            Self::Vouching(own) => json!({
                "data": {"client-ca-file": union(state, Purpose::Client, &own.borrow().client)},
            }),
        }
    }

    /// Completes when it has changed by our own doing.
    async fn change(&mut self) {
        match self {
            Self::Nothing => std::future::pending().await,
            Self::Trusted(own) | Self::Vouching(own) => authorities::change(own).await,
        }
    }
}

impl Furniture {
    /// The ServiceAccount `default`.
    #[must_use]
    pub fn account() -> Self {
        Self {
            plural: "serviceaccounts",
            name: "default",
            only_in: None,
            content: Content::Nothing,
        }
    }

    /// The ConfigMap `kube-root-ca.crt`.
    #[must_use]
    pub fn certificate(own: &watch::Receiver<Authorities>) -> Self {
        Self {
            plural: "configmaps",
            name: "kube-root-ca.crt",
            only_in: None,
            content: Content::Trusted(own.clone()),
        }
    }

    /// The ConfigMap by which other programs of the cluster know whose client certificates
    /// to believe.
    #[must_use]
    pub fn authentication(own: &watch::Receiver<Authorities>) -> Self {
        Self {
            plural: "configmaps",
            name: "extension-apiserver-authentication",
            only_in: Some("kube-system"),
            content: Content::Vouching(own.clone()),
        }
    }

    fn directory(&self) -> String {
        format!("/registry/{}/", self.plural)
    }

    fn belongs_in(&self, namespace: &str) -> bool {
        self.only_in.is_none_or(|only| only == namespace)
    }
}

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
    using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
    usage is guaranteed across distributions of Kubernetes clusters.";

const PUBLISHING: Task = Task::upkeep("authentication-config");

/// Lets other programs of the cluster know whose client certificates to believe. No
/// controller that can be turned off does that: kube-apiserver does it itself.
pub fn start_publishing_authentication(
    supervisor: &Supervisor,
    api: &ApiServer,
    store: &Store,
    own: watch::Receiver<Authorities>,
) {
    let (api, store) = (api.clone(), store.clone());
    supervisor.spawn(PUBLISHING, move || {
        let furniture = Furniture::authentication(&own);
        keep_furnished(api.clone(), store.clone(), furniture)
    });
}

/// Keeps one thing where it belongs for as long as it is polled, or until the store stops.
pub async fn keep_furnished(api: ApiServer, store: Store, furniture: Furniture) {
    let client = Client::new(api, "namespace-furnisher");
    let mut furnisher = Furnisher {
        client,
        store,
        furniture,
        pace: Pace::default(),
    };
    while let Err(WatchError::Compacted { .. }) = furnisher.follow().await {
        // Events are gone that we did not see: begin with the state again.
    }
}

struct Furnisher {
    client: Client,
    store: Store,
    furniture: Furniture,
    pace: Pace,
}

/// What has to be looked at: namespaces, the things themselves, what they are made from.
struct Watches {
    namespaces: Watch,
    things: Watch,
    sources: Watch,
}

impl Furnisher {
    async fn follow(&mut self) -> Result<(), WatchError> {
        let state = self.store.snapshot();
        let mut watches = self.watch(&state)?;
        let mut bare = self.namespaces(&state);
        drop(state);
        loop {
            for namespace in bare.clone() {
                if self.furnish(&namespace).await {
                    bare.remove(&namespace);
                }
            }
            let due = bare.iter().map(|namespace| self.pace.next(namespace));
            self.wait(&mut watches, due.min(), &mut bare).await?;
        }
    }

    fn watch(&self, state: &Snapshot) -> Result<Watches, WatchError> {
        let from = WatchFrom::Revision(state.revision().next());
        let watch = |prefix: &str| {
            let range = KeyRange::prefix(prefix);
            self.store.watch(WatchSpec { range, from })
        };
        Ok(Watches {
            namespaces: watch(NAMESPACES)?,
            things: watch(&self.furniture.directory())?,
            sources: watch(authorities::DIRECTORY)?,
        })
    }

    /// Those that it belongs in.
    fn namespaces(&self, state: &Snapshot) -> BTreeSet<String> {
        let range = KeyRange::prefix(NAMESPACES);
        let names = state.entries(&range);
        let names = names.filter_map(|version| Some(namespace_of(version.key())?.to_owned()));
        names
            .filter(|name| self.furniture.belongs_in(name))
            .collect()
    }

    /// Waits until a namespace comes, something of ours changes, or what was put off is due.
    async fn wait(
        &mut self,
        watches: &mut Watches,
        due: Option<Instant>,
        bare: &mut BTreeSet<String>,
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
                bare.extend(names.filter(|name| self.furniture.belongs_in(name)).map(str::to_owned));
            }
            batch = watches.things.next() => {
                let batch = batch?;
                let names = batch.events().filter_map(|event| self.namespace_with(event.version().key()));
                bare.extend(names.filter(|name| self.furniture.belongs_in(name)).map(str::to_owned));
            }
            batch = watches.sources.next() => {
                batch?;
                bare.extend(self.namespaces(&self.store.snapshot()));
            }
            () = self.furniture.content.change() => {
                bare.extend(self.namespaces(&self.store.snapshot()));
            }
            () = put_off => return Ok(()),
        }
        crate::gather().await;
        Ok(())
    }

    /// The namespace of a key, if it is that of our thing.
    fn namespace_with<'a>(&self, key: &'a [u8]) -> Option<&'a str> {
        let rest = std::str::from_utf8(key).ok()?;
        let rest = rest.strip_prefix(&self.furniture.directory())?;
        rest.strip_suffix(self.furniture.name)?.strip_suffix('/')
    }

    /// Makes what is missing. True if nothing is left to do until something changes.
    async fn furnish(&mut self, namespace: &str) -> bool {
        let state = self.store.snapshot();
        let Some(home) = state.get(format!("{NAMESPACES}{namespace}").as_bytes()) else {
            self.pace.forget(namespace);
            return true;
        };
        if memchr::memmem::find(home.value(), b"\"deletionTimestamp\"").is_some() {
            return true;
        }
        let content = self.furniture.content.at(&state);
        let Furniture { plural, name, .. } = self.furniture;
        let key = format!("{}{namespace}/{name}", self.furniture.directory());
        let there = state.get(key.as_bytes());
        let there: Option<Value> = there.and_then(|it| serde_json::from_slice(it.value()).ok());
        drop(state);
        if there.as_ref().is_some_and(|there| says(there, &content)) {
            return true;
        }
        if self.pace.next(namespace) > Instant::now() {
            return false;
        }
        let path = format!("/api/v1/namespaces/{namespace}/{plural}");
        let answer = match there {
            None => {
                let mut object = content;
                object["metadata"]["name"] = name.into();
                self.client.send(Method::POST, &path, Some(&object)).await
            }
            Some(_) => self.client.merge(&format!("{path}/{name}"), &content).await,
        };
        // Whether it says what it should is seen by its event: others may have changed it
        // on the way, and will do so the next time.
        self.pace.wrote(namespace);
        match answer.code {
            // It is there by now, or the namespace is gone: events tell of both.
            200..=299 | 404 | 409 => true,
            code => {
                let what = format_args!("cannot make {name} in the namespace {namespace}");
                note_refusal(what, code, &answer.body);
                false
            }
        }
    }
}

fn namespace_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(NAMESPACES.len()..)?).ok()
}

/// Whether an object says at least that.
fn says(object: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(members) => members
            .iter()
            .all(|(name, value)| says(&object[name.as_str()], value)),
        other => object == other,
    }
}
