//! A kind of every sort there is.

use crate::kinds::{Kind, SIGNING_REQUESTS, kind};
use crate::samples::{change, sample};
use serde_json::{Value, json};

/// A resource, and what it has beside its objects.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    pub plural: &'static str,
    pub parts: &'static [Part],
}

/// A subresource, and what its endpoints change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// What `create` on it does to the object.
    pub created: Effect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    Changes,
    /// It may also go.
    Removes,
    /// The answer holds a token.
    Token,
}

const fn part(name: &'static str) -> Part {
    Part {
        name,
        created: Effect::Nothing,
    }
}

const fn creating(name: &'static str, created: Effect) -> Part {
    Part { name, created }
}

/// Built-in and custom, with and without namespaces, with every sort of subresource.
pub const RESOURCES: &[Resource] = &[
    Resource {
        plural: "configmaps",
        parts: &[part("status")],
    },
    Resource {
        plural: "secrets",
        parts: &[],
    },
    Resource {
        plural: "pods",
        parts: &[
            part("status"),
            part("log"),
            part("exec"),
            part("attach"),
            part("portforward"),
            part("proxy"),
            part("ephemeralcontainers"),
            part("resize"),
            creating("binding", Effect::Changes),
            creating("eviction", Effect::Removes),
        ],
    },
    Resource {
        plural: "serviceaccounts",
        parts: &[creating("token", Effect::Token)],
    },
    Resource {
        plural: "deployments",
        parts: &[part("status"), part("scale")],
    },
    Resource {
        plural: "nodes",
        parts: &[part("status"), part("proxy")],
    },
    Resource {
        plural: "namespaces",
        parts: &[part("status"), part("finalize")],
    },
    Resource {
        plural: "roles",
        parts: &[],
    },
    Resource {
        plural: "clusterroles",
        parts: &[],
    },
    Resource {
        plural: "leases",
        parts: &[],
    },
    Resource {
        plural: "certificatesigningrequests",
        parts: &[part("status"), part("approval")],
    },
    Resource {
        plural: "widgets",
        parts: &[part("status"), part("scale")],
    },
];

/// What is found in an object of this kind and place, and nowhere else.
#[must_use]
pub fn marker(plural: &str, namespace: &str, name: &str) -> String {
    format!("oracle-saw/{plural}/{namespace}/{name}/")
}

impl Resource {
    #[must_use]
    pub fn kind(&self) -> &'static Kind {
        match self.plural {
            "certificatesigningrequests" => &SIGNING_REQUESTS,
            plural => kind(plural),
        }
    }

    /// An object that shows where it is from.
    #[must_use]
    pub fn object(&self, namespace: &str, name: &str) -> Value {
        let mut object = match self.plural {
            "certificatesigningrequests" => signing_request(name),
            plural => sample(plural, name),
        };
        let namespace = if self.kind().namespaced {
            namespace
        } else {
            ""
        };
        let marker = marker(self.plural, namespace, name);
        object["metadata"]["annotations"] = json!({"oracle": marker});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        object
    }

    /// The same, changed as far as updates allow.
    #[must_use]
    pub fn changed(&self, namespace: &str, name: &str) -> Value {
        let mut object = self.object(namespace, name);
        object["metadata"]["labels"] = json!({"changed": "yes"});
        let (pointer, value) = match self.plural {
            "roles" | "clusterroles" | "certificatesigningrequests" => return object,
            plural => change(plural),
        };
        if let Some(field) = object.pointer_mut(pointer) {
            *field = value;
        }
        object
    }

    /// What is posted to or put at a subresource.
    #[must_use]
    pub fn part_body(&self, part: &str, namespace: &str, name: &str) -> Value {
        let metadata = json!({"name": name, "namespace": namespace});
        match part {
            "eviction" => {
                json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata})
            }
            "binding" => json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": metadata,
                "target": {"kind": "Node", "name": super::NAMES[0]},
            }),
            "token" => json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {},
            }),
            "scale" => json!({
                "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata,
                "spec": {"replicas": 7},
            }),
            "approval" => {
                let mut object = self.object(namespace, name);
                object["status"] = json!({"conditions": [{
                    "type": "Approved", "status": "True", "reason": "Oracle",
                }]});
                object
            }
            _ => self.changed(namespace, name),
        }
    }
}

/// The signer is nobody's, so that nothing but rights on requests is asked for.
fn signing_request(name: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "signerName": "example.test/oracle", "usages": ["client auth"],
            "request": request_pem(),
        },
    })
}

/// PEM in base64, as a client sends it.
fn request_pem() -> String {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    let key = rcgen::KeyPair::generate().expect("a key can be made");
    let request = rcgen::CertificateParams::default().serialize_request(&key);
    let request = STANDARD.encode(request.expect("a request can be signed").der());
    let lines: Vec<&str> = (0..request.len())
        .step_by(64)
        .map(|at| &request[at..request.len().min(at + 64)])
        .collect();
    let (begin, end) = (
        "-----BEGIN CERTIFICATE REQUEST-----",
        "-----END CERTIFICATE REQUEST-----",
    );
    STANDARD.encode(format!("{begin}\n{}\n{end}\n", lines.join("\n")))
}
