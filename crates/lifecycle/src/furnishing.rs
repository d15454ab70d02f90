//! What every namespace has: the account that pods act for by default, and the
//! certificate by which they know the server.

use crate::NAMESPACES;
use crate::client::Client;
use http::Method;
use optik_apiserver::ApiServer;
use optik_store::{KeyRange, Store, Watch, WatchError, WatchFrom, WatchSpec};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// One thing that every namespace has.
#[derive(Clone, Debug)]
pub struct Furniture {
    plural: &'static str,
    name: &'static str,
    /// What it must say; the rest is its users' business.
    content: Value,
}

impl Furniture {
    /// The ServiceAccount `default`.
    #[must_use]
    pub fn account() -> Self {
        Self {
            plural: "serviceaccounts",
            name: "default",
            content: json!({}),
        }
    }

    /// The ConfigMap `kube-root-ca.crt`.
    #[must_use]
    pub fn certificate(authority: &str) -> Self {
        Self {
            plural: "configmaps",
            name: "kube-root-ca.crt",
            content: json!({
                "metadata": {"annotations": {"kubernetes.io/description": DESCRIPTION}},
                "data": {"ca.crt": authority},
            }),
        }
    }

    fn directory(&self) -> String {
        format!("/registry/{}/", self.plural)
    }
}

const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when \
    using internal endpoints such as the internal service IP or kubernetes.default.svc. No other \
    usage is guaranteed across distributions of Kubernetes clusters.";

/// Keeps one thing in every namespace for as long as it is polled, or until the store
/// stops.
pub async fn keep_furnished(api: ApiServer, store: Store, furniture: Furniture) {
    let client = Client::new(api, "namespace-furnisher");
    while let Err(WatchError::Compacted { .. }) = follow(&client, &store, &furniture).await {
        // Events are gone that we did not see: begin with the state again.
    }
}

async fn follow(client: &Client, store: &Store, furniture: &Furniture) -> Result<(), WatchError> {
    let state = store.snapshot();
    let from = WatchFrom::Revision(state.revision().next());
    let namespaces = KeyRange::prefix(NAMESPACES);
    let mut made = store.watch(WatchSpec {
        range: namespaces.clone(),
        from,
    })?;
    let mut there = store.watch(WatchSpec {
        range: KeyRange::prefix(furniture.directory()),
        from,
    })?;
    let names = state.entries(&namespaces);
    let mut bare: BTreeSet<String> = names
        .filter_map(|version| Some(namespace_of(version.key())?.to_owned()))
        .collect();
    drop(state);
    loop {
        for namespace in bare.clone() {
            if furnish(client, store, furniture, &namespace).await {
                bare.remove(&namespace);
            }
        }
        wait(&mut made, &mut there, furniture, &mut bare).await?;
    }
}

fn namespace_of(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(NAMESPACES.len()..)?).ok()
}

/// Waits until a namespace comes, or something of ours changes.
async fn wait(
    made: &mut Watch,
    there: &mut Watch,
    furniture: &Furniture,
    bare: &mut BTreeSet<String>,
) -> Result<(), WatchError> {
    let pause = async {
        match bare.is_empty() {
            true => std::future::pending().await,
            false => tokio::time::sleep(LOOK_AGAIN).await,
        }
    };
    tokio::select! {
        batch = made.next() => {
            for event in batch?.events() {
                let namespace = namespace_of(event.version().key());
                bare.extend(namespace.map(str::to_owned));
            }
        }
        batch = there.next() => {
            let suffix = format!("/{}", furniture.name);
            let start = furniture.directory().len();
            for event in batch?.events() {
                let key = std::str::from_utf8(event.version().key()).unwrap_or_default();
                if let Some(rest) = key.strip_suffix(&suffix) {
                    bare.extend(rest.get(start..).map(str::to_owned));
                }
            }
        }
        () = pause => {}
    }
    if bare.is_empty() {
        crate::gather().await;
    }
    Ok(())
}

/// Makes what is missing. False if that did not work.
async fn furnish(client: &Client, store: &Store, furniture: &Furniture, namespace: &str) -> bool {
    let state = store.snapshot();
    let home = state.get(format!("{NAMESPACES}{namespace}").as_bytes());
    let lives = home
        .is_some_and(|home| memchr::memmem::find(home.value(), b"\"deletionTimestamp\"").is_none());
    if !lives {
        return true;
    }
    let Furniture {
        plural,
        name,
        content,
    } = furniture;
    let key = format!("{}{namespace}/{name}", furniture.directory());
    let there = state.get(key.as_bytes());
    let there: Option<Value> = there.and_then(|it| serde_json::from_slice(it.value()).ok());
    drop(state);
    let path = format!("/api/v1/namespaces/{namespace}/{plural}");
    let answer = match there {
        None => {
            let mut object = content.clone();
            object["metadata"]["name"] = (*name).into();
            client.send(Method::POST, &path, Some(&object)).await
        }
        Some(object) if says(&object, content) => return true,
        Some(_) => client.merge(&format!("{path}/{name}"), content).await,
    };
    // Refused: it is there by now, or the namespace is going.
    matches!(answer.code, 200..=299 | 403 | 404 | 409)
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
