//! The collection that the clients write: config maps of one namespace.

use optik_store_testkit::history::{KeySpan, KeyState};
use serde_json::{Value, json};

/// The config maps of a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    pub namespace: &'static str,
}

impl Collection {
    #[must_use]
    pub fn path(self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", self.namespace)
    }

    #[must_use]
    pub fn path_of(self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// The key range of the collection in the store.
    #[must_use]
    pub fn span(self) -> KeySpan {
        KeySpan::prefix(&format!("/registry/configmaps/{}/", self.namespace))
    }

    #[must_use]
    pub fn key(self, name: &str) -> String {
        format!("{}{name}", self.span().start)
    }

    #[must_use]
    pub fn name_of(self, key: &str) -> &str {
        let directory = self.span().start.len();
        key.get(directory..).unwrap_or(key)
    }

    /// An object to send. A resourceVersion is a precondition.
    #[must_use]
    pub fn object(self, name: &str, value: &str, revision: Option<u64>) -> Value {
        let mut object = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace},
            "data": {"value": value},
        });
        if let Some(revision) = revision {
            object["metadata"]["resourceVersion"] = revision.to_string().into();
        }
        object
    }
}

/// An object as it was received.
///
/// # Panics
/// If it is none of ours.
#[must_use]
pub fn item_of(object: &Value) -> KeyState {
    let metadata = |name: &str| value_text(&object["metadata"][name]);
    KeyState {
        key: format!(
            "/registry/configmaps/{}/{}",
            metadata("namespace"),
            metadata("name")
        ),
        value: value_text(&object["data"]["value"]).to_owned(),
        mod_revision: revision_of(object),
        create_revision: None,
        version: None,
    }
}

/// The revision of an object or a list.
///
/// # Panics
/// If it has none.
#[must_use]
pub fn revision_of(object: &Value) -> u64 {
    let revision = value_text(&object["metadata"]["resourceVersion"]).parse();
    revision.unwrap_or_else(|_| panic!("a revision is a number: {object}"))
}

fn value_text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
