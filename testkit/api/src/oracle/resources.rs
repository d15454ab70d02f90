//! The resources of the oracle: one of every sort.

use super::field_pointers::FieldPointers;
use crate::kinds::{Kind, SIGNING_REQUESTS, kind};
use crate::samples::{change, sample};
use serde_json::{Value, json};

/// A resource, its subresources, and the effects of its endpoints.
#[derive(Clone, Copy, Debug)]
pub struct OracleResource {
    pub plural: &'static str,
    /// The effect of `create`.
    pub created: AllowedEffect,
    /// The fields that `update` and `patch` change.
    pub writable: FieldPointers,
    /// The fields that change while an object is terminating, besides the deletion marks.
    pub writable_while_terminating: FieldPointers,
    pub subresources: &'static [OracleSubresource],
    pub names: ObjectNames,
    /// Whether its objects are stored. Of the others only the response can be checked.
    pub stored: bool,
    /// The resource whose objects it writes, if these are not its own.
    pub acts_on: Option<&'static str>,
    /// Substrings of keys that are written together with its objects.
    pub side_keys: &'static [&'static str],
    /// The resource whose objects are deleted with an object of this one.
    pub cascades_to: Option<&'static str>,
}

/// A subresource, and the fields that its endpoints change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OracleSubresource {
    pub name: &'static str,
    /// The effect of `create` on the object.
    pub created: AllowedEffect,
    /// The fields that `update` and `patch` change.
    pub writable: FieldPointers,
    /// Whether its responses are the object.
    pub shows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedEffect {
    Nothing,
    Makes,
    Changes(FieldPointers),
    /// It may also go.
    Removes(FieldPointers),
    /// The response contains a token.
    Token,
    /// The response repeats the request with a status.
    Echo,
}

/// The names of the existing objects, and of the object that a request creates.
#[derive(Clone, Copy, Debug)]
pub struct ObjectNames {
    pub existing: [&'static str; 2],
    pub new: &'static str,
}

const PLAIN: ObjectNames = ObjectNames {
    existing: super::NAMES,
    new: super::NEW_NAME,
};

/// A subresource that returns the object, and changes some of its fields.
const fn subresource(name: &'static str, writable: &'static [&'static str]) -> OracleSubresource {
    OracleSubresource {
        name,
        created: AllowedEffect::Nothing,
        writable: FieldPointers::only(writable),
        shows: true,
    }
}

/// A subresource whose responses are not the object.
const fn subresource_without_object(
    name: &'static str,
    writable: &'static [&'static str],
) -> OracleSubresource {
    OracleSubresource {
        shows: false,
        ..subresource(name, writable)
    }
}

const fn create_subresource(name: &'static str, created: AllowedEffect) -> OracleSubresource {
    OracleSubresource {
        created,
        ..subresource_without_object(name, &[])
    }
}

const STATUS: OracleSubresource = subresource("status", &["/status"]);
/// The status subresource of some kinds accepts labels, too, upstream as here.
const LABELED_STATUS: OracleSubresource = subresource("status", &["/status", "/metadata/labels"]);
const SCALE: OracleSubresource = subresource_without_object("scale", &["/spec/replicas"]);
const PROXY: OracleSubresource = subresource_without_object("proxy", &[]);
/// The fields that assign a pod to a node.
const BOUND: FieldPointers = FieldPointers::only(&["/spec/nodeName", "/status/conditions"]);

impl OracleResource {
    /// A resource without a status.
    const fn new(plural: &'static str) -> Self {
        Self {
            plural,
            created: AllowedEffect::Makes,
            writable: FieldPointers::all_but(&[]),
            writable_while_terminating: FieldPointers::only(&[]),
            subresources: &[],
            names: PLAIN,
            stored: true,
            acts_on: None,
            side_keys: &[],
            cascades_to: None,
        }
    }

    const fn with(
        mut self,
        fixed: &'static [&'static str],
        parts: &'static [OracleSubresource],
    ) -> Self {
        self.writable = FieldPointers::all_but(fixed);
        self.subresources = parts;
        self
    }

    const fn not_stored(mut self, created: AllowedEffect) -> Self {
        self.created = created;
        self.writable = FieldPointers::only(&[]);
        self.stored = false;
        self
    }
}

/// Built-in and custom resources, with and without namespaces, with every sort of subresource, and
/// virtual resources.
pub const RESOURCES: &[OracleResource] = &[
    // ConfigMaps have no status subresource; requests for it must be rejected.
    OracleResource::new("configmaps").with(&[], &[subresource_without_object("status", &[])]),
    OracleResource::new("secrets").with(&["/type"], &[]),
    OracleResource::new("pods").with(
        &["/status", "/spec/nodeName", "/spec/ephemeralContainers"],
        &[
            LABELED_STATUS,
            subresource_without_object("log", &[]),
            subresource_without_object("exec", &[]),
            subresource_without_object("attach", &[]),
            subresource_without_object("portforward", &[]),
            PROXY,
            subresource("ephemeralcontainers", &["/spec/ephemeralContainers"]),
            subresource("resize", &["/spec/containers"]),
            create_subresource("binding", AllowedEffect::Changes(BOUND)),
            create_subresource(
                "eviction",
                AllowedEffect::Removes(FieldPointers::only(&["/status/conditions"])),
            ),
        ],
    ),
    OracleResource::new("serviceaccounts")
        .with(&[], &[create_subresource("token", AllowedEffect::Token)]),
    OracleResource::new("deployments").with(&["/status"], &[STATUS, SCALE]),
    OracleResource {
        side_keys: &["/ipaddresses/", "/ranges/"],
        ..OracleResource::new("services").with(&["/status"], &[LABELED_STATUS, PROXY])
    },
    OracleResource::new("events"),
    OracleResource::new("nodes").with(&["/status"], &[LABELED_STATUS, PROXY]),
    OracleResource {
        writable_while_terminating: FieldPointers::only(&["/status/phase"]),
        ..OracleResource::new("namespaces").with(
            &["/status", "/spec/finalizers"],
            &[
                LABELED_STATUS,
                subresource("finalize", &["/spec/finalizers", "/metadata/labels"]),
            ],
        )
    },
    OracleResource::new("roles"),
    OracleResource::new("clusterroles"),
    OracleResource::new("rolebindings").with(&["/roleRef"], &[]),
    OracleResource::new("leases"),
    OracleResource::new("certificatesigningrequests").with(
        &["/status", "/spec"],
        &[
            LABELED_STATUS,
            subresource("approval", &["/status/conditions", "/metadata/labels"]),
        ],
    ),
    OracleResource {
        names: ObjectNames {
            existing: ["as.oracle.test", "bs.oracle.test"],
            new: "news.oracle.test",
        },
        writable_while_terminating: FieldPointers::only(&["/status/conditions"]),
        cascades_to: Some("widgets"),
        ..OracleResource::new("customresourcedefinitions").with(&["/status"], &[LABELED_STATUS])
    },
    OracleResource::new("widgets").with(&["/status"], &[STATUS, SCALE]),
    OracleResource {
        acts_on: Some("pods"),
        ..OracleResource::new("bindings").not_stored(AllowedEffect::Changes(BOUND))
    },
    OracleResource {
        names: ObjectNames {
            existing: ["etcd-0", super::NAMES[1]],
            ..PLAIN
        },
        ..OracleResource::new("componentstatuses").not_stored(AllowedEffect::Nothing)
    },
    OracleResource::new("tokenreviews").not_stored(AllowedEffect::Echo),
    OracleResource::new("subjectaccessreviews").not_stored(AllowedEffect::Echo),
    OracleResource::new("localsubjectaccessreviews").not_stored(AllowedEffect::Echo),
    // Self reviews, which every user may create.
    OracleResource::new("selfsubjectaccessreviews").not_stored(AllowedEffect::Nothing),
    OracleResource::new("selfsubjectrulesreviews").not_stored(AllowedEffect::Nothing),
    OracleResource::new("selfsubjectreviews").not_stored(AllowedEffect::Nothing),
];

/// Those that the suite does not check as kinds of objects.
static OTHERS: [Kind; 8] = [
    Kind::new("", "bindings", "Binding"),
    Kind::new("", "componentstatuses", "ComponentStatus").cluster(),
    Kind::new(AUTHENTICATION, "tokenreviews", "TokenReview").cluster(),
    Kind::new(AUTHENTICATION, "selfsubjectreviews", "SelfSubjectReview").cluster(),
    Kind::new(AUTHORIZATION, "subjectaccessreviews", "SubjectAccessReview").cluster(),
    Kind::new(
        AUTHORIZATION,
        "localsubjectaccessreviews",
        "LocalSubjectAccessReview",
    ),
    Kind::new(
        AUTHORIZATION,
        "selfsubjectaccessreviews",
        "SelfSubjectAccessReview",
    )
    .cluster(),
    Kind::new(
        AUTHORIZATION,
        "selfsubjectrulesreviews",
        "SelfSubjectRulesReview",
    )
    .cluster(),
];

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";

/// A text that occurs only in an object of this kind and place.
#[must_use]
pub fn marker(plural: &str, namespace: &str, name: &str) -> String {
    format!("oracle-saw/{plural}/{namespace}/{name}/")
}

impl OracleResource {
    #[must_use]
    pub fn kind(&self) -> &'static Kind {
        match self.plural {
            "certificatesigningrequests" => &SIGNING_REQUESTS,
            plural => {
                let other = OTHERS.iter().find(|kind| kind.plural == plural);
                other.unwrap_or_else(|| kind(plural))
            }
        }
    }

    /// An object that contains its marker.
    #[must_use]
    pub fn object(&self, namespace: &str, name: &str) -> Value {
        let namespace = if self.kind().namespaced {
            namespace
        } else {
            ""
        };
        let marker = marker(self.plural, namespace, name);
        let mut object = match self.plural {
            "certificatesigningrequests" => signing_request(name),
            _ if !self.stored => self.review_body(namespace, &marker),
            plural => sample(plural, name),
        };
        object["metadata"]["annotations"] = json!({"oracle": marker});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        merge(&mut object, self.required_fields(namespace));
        object
    }

    /// The fields without which some endpoint would reject its request.
    fn required_fields(&self, namespace: &str) -> Value {
        match self.plural {
            "events" => json!({"involvedObject": {"namespace": namespace}}),
            // Resizing must not change the QoS class. A volume would be missing in updates.
            "pods" => json!({"spec": {
                "automountServiceAccountToken": false, "containers": [container(1)],
            }}),
            // The scale subresource of a missing value cannot be changed.
            "widgets" => json!({"spec": {"replicas": 1}}),
            _ => json!({}),
        }
    }

    /// The body of a POST. It contains no stored data: its sender may see it.
    #[must_use]
    pub fn new_object(&self, namespace: &str) -> Value {
        let mut object = self.object(namespace, self.names.new);
        object["metadata"]["annotations"] = json!({});
        object
    }

    /// The body of a virtual resource, which is answered or executed, but not stored.
    fn review_body(&self, namespace: &str, marker: &str) -> Value {
        let about = json!({
            "verb": "get", "resource": "pods",
            "namespace": match namespace { "" => super::NAMESPACE, namespace => namespace },
        });
        let mut question = match self.plural {
            "bindings" => json!({
                "metadata": {"name": super::NAMES[0]},
                "target": {"kind": "Node", "name": super::NAMES[0]},
            }),
            "tokenreviews" => json!({"spec": {"token": marker}}),
            "selfsubjectrulesreviews" => json!({"spec": {"namespace": super::NAMESPACE}}),
            "selfsubjectaccessreviews" => json!({"spec": {"resourceAttributes": about}}),
            plural if plural.ends_with("accessreviews") => {
                json!({"spec": {"user": marker, "resourceAttributes": about}})
            }
            _ => json!({}),
        };
        question["apiVersion"] = self.kind().api_version().into();
        question["kind"] = self.kind().kind.into();
        question
    }

    /// The same, changed as far as updates allow, and further.
    #[must_use]
    pub fn changed_object(&self, namespace: &str, name: &str) -> Value {
        let mut object = self.object(namespace, name);
        object["metadata"]["labels"] = json!({"changed": "yes"});
        object["status"] = self.status();
        let (pointer, value) = match self.plural {
            "roles" | "clusterroles" | "rolebindings" | "certificatesigningrequests" => {
                return object;
            }
            _ if !self.stored => return object,
            plural => change(plural),
        };
        if let Some(field) = object.pointer_mut(pointer) {
            *field = value;
        }
        object
    }

    /// A status that differs from that of every object.
    #[must_use]
    pub fn status(&self) -> Value {
        json!({"conditions": [{
            "type": "Oracle", "status": "True", "reason": "Oracle", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }]})
    }

    /// The body of a POST or PUT of a subresource.
    #[must_use]
    pub fn subresource_body(&self, part: &str, namespace: &str, name: &str) -> Value {
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
                let mut object = self.changed_object(namespace, name);
                object["status"]["conditions"][0]["type"] = "Approved".into();
                object
            }
            _ => {
                let mut object = self.changed_object(namespace, name);
                merge(&mut object, self.subresource_change(part));
                object
            }
        }
    }

    /// A change that only the subresource can make.
    #[must_use]
    pub fn subresource_change(&self, part: &str) -> Value {
        match part {
            "ephemeralcontainers" => json!({"spec": {"ephemeralContainers": [
                {"name": "e", "image": "i"},
            ]}}),
            "resize" => json!({"spec": {"containers": [container(2)]}}),
            "finalize" => json!({"spec": {"finalizers": ["oracle.test/changed"]}}),
            "approval" => json!({"status": {"conditions": [{
                "type": "Approved", "status": "True", "reason": "Oracle",
            }]}}),
            _ => json!({}),
        }
    }
}

fn container(cpus: u32) -> Value {
    let requests = json!({"cpu": cpus.to_string()});
    json!({"name": "c", "image": "i", "resources": {"requests": requests}})
}

/// Members of objects are merged, all else is replaced.
pub(super) fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// A signer without a controller.
pub(super) const SIGNER: &str = "example.test/oracle";

fn signing_request(name: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "signerName": SIGNER, "usages": ["client auth"],
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
