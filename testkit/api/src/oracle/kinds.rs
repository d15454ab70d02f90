//! A kind of every sort there is.

use super::members::Members;
use crate::kinds::{Kind, SIGNING_REQUESTS, kind};
use crate::samples::{change, sample};
use serde_json::{Value, json};

/// A resource, and what it has beside its objects.
#[derive(Clone, Copy, Debug)]
pub struct Resource {
    pub plural: &'static str,
    /// What `create` does.
    pub created: Effect,
    /// What `update` and `patch` change.
    pub writable: Members,
    /// What changes while an object waits to go, beside the marks that all have.
    pub waning: Members,
    pub parts: &'static [Part],
    pub names: Names,
    /// Its objects are in the store. Of others, only what is answered can be judged.
    pub kept: bool,
    /// The resource whose objects it writes, if these are not its own.
    pub acts_on: Option<&'static str>,
    /// Keys that are written together with its objects, by what they contain.
    pub aside: &'static [&'static str],
    /// The resource whose objects go when an object of this one goes.
    pub takes_along: Option<&'static str>,
}

/// A subresource, and what its endpoints change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// What `create` on it does to the object.
    pub created: Effect,
    /// What `update` and `patch` change.
    pub writable: Members,
    /// Its answers are the object.
    pub shows: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    Makes,
    Changes(Members),
    /// It may also go.
    Removes(Members),
    /// The answer holds a token.
    Token,
    /// The question comes back with its answer.
    Echo,
}

/// What the objects are called, and what a request makes.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    pub there: [&'static str; 2],
    pub new: &'static str,
}

const PLAIN: Names = Names {
    there: super::NAMES,
    new: super::NEW_NAME,
};

/// A subresource that shows the object, and changes some of it.
const fn part(name: &'static str, writable: &'static [&'static str]) -> Part {
    Part {
        name,
        created: Effect::Nothing,
        writable: Members::only(writable),
        shows: true,
    }
}

/// A subresource whose answers are something else.
const fn apart(name: &'static str, writable: &'static [&'static str]) -> Part {
    Part {
        shows: false,
        ..part(name, writable)
    }
}

const fn creating(name: &'static str, created: Effect) -> Part {
    Part {
        created,
        ..apart(name, &[])
    }
}

const STATUS: Part = part("status", &["/status"]);
/// Of some kinds it takes labels, too, upstream as here.
const LABELED_STATUS: Part = part("status", &["/status", "/metadata/labels"]);
const SCALE: Part = apart("scale", &["/spec/replicas"]);
const PROXY: Part = apart("proxy", &[]);
/// Who runs where.
const BOUND: Members = Members::only(&["/spec/nodeName", "/status/conditions"]);

impl Resource {
    /// A resource without a status.
    const fn new(plural: &'static str) -> Self {
        Self {
            plural,
            created: Effect::Makes,
            writable: Members::all_but(&[]),
            waning: Members::only(&[]),
            parts: &[],
            names: PLAIN,
            kept: true,
            acts_on: None,
            aside: &[],
            takes_along: None,
        }
    }

    const fn with(mut self, fixed: &'static [&'static str], parts: &'static [Part]) -> Self {
        self.writable = Members::all_but(fixed);
        self.parts = parts;
        self
    }

    const fn not_kept(mut self, created: Effect) -> Self {
        self.created = created;
        self.writable = Members::only(&[]);
        self.kept = false;
        self
    }
}

/// Built-in and custom, with and without namespaces, with every sort of subresource, and
/// what is no object at all.
pub const RESOURCES: &[Resource] = &[
    // It has no status, which does not keep anybody from asking for one.
    Resource::new("configmaps").with(&[], &[apart("status", &[])]),
    Resource::new("secrets").with(&["/type"], &[]),
    Resource::new("pods").with(
        &["/status", "/spec/nodeName", "/spec/ephemeralContainers"],
        &[
            LABELED_STATUS,
            apart("log", &[]),
            apart("exec", &[]),
            apart("attach", &[]),
            apart("portforward", &[]),
            PROXY,
            part("ephemeralcontainers", &["/spec/ephemeralContainers"]),
            part("resize", &["/spec/containers"]),
            creating("binding", Effect::Changes(BOUND)),
            creating(
                "eviction",
                Effect::Removes(Members::only(&["/status/conditions"])),
            ),
        ],
    ),
    Resource::new("serviceaccounts").with(&[], &[creating("token", Effect::Token)]),
    Resource::new("deployments").with(&["/status"], &[STATUS, SCALE]),
    Resource {
        aside: &["/ipaddresses/", "/ranges/"],
        ..Resource::new("services").with(&["/status"], &[LABELED_STATUS, PROXY])
    },
    Resource::new("events"),
    Resource::new("nodes").with(&["/status"], &[LABELED_STATUS, PROXY]),
    Resource {
        waning: Members::only(&["/status/phase"]),
        ..Resource::new("namespaces").with(
            &["/status", "/spec/finalizers"],
            &[
                LABELED_STATUS,
                part("finalize", &["/spec/finalizers", "/metadata/labels"]),
            ],
        )
    },
    Resource::new("roles"),
    Resource::new("clusterroles"),
    Resource::new("rolebindings").with(&["/roleRef"], &[]),
    Resource::new("leases"),
    Resource::new("certificatesigningrequests").with(
        &["/status", "/spec"],
        &[
            LABELED_STATUS,
            part("approval", &["/status/conditions", "/metadata/labels"]),
        ],
    ),
    Resource {
        names: Names {
            there: ["as.oracle.test", "bs.oracle.test"],
            new: "news.oracle.test",
        },
        waning: Members::only(&["/status/conditions"]),
        takes_along: Some("widgets"),
        ..Resource::new("customresourcedefinitions").with(&["/status"], &[LABELED_STATUS])
    },
    Resource::new("widgets").with(&["/status"], &[STATUS, SCALE]),
    Resource {
        acts_on: Some("pods"),
        ..Resource::new("bindings").not_kept(Effect::Changes(BOUND))
    },
    Resource {
        names: Names {
            there: ["etcd-0", super::NAMES[1]],
            ..PLAIN
        },
        ..Resource::new("componentstatuses").not_kept(Effect::Nothing)
    },
    Resource::new("tokenreviews").not_kept(Effect::Echo),
    Resource::new("subjectaccessreviews").not_kept(Effect::Echo),
    Resource::new("localsubjectaccessreviews").not_kept(Effect::Echo),
    // Everybody may ask these about themselves.
    Resource::new("selfsubjectaccessreviews").not_kept(Effect::Nothing),
    Resource::new("selfsubjectrulesreviews").not_kept(Effect::Nothing),
    Resource::new("selfsubjectreviews").not_kept(Effect::Nothing),
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
            plural => {
                let other = OTHERS.iter().find(|kind| kind.plural == plural);
                other.unwrap_or_else(|| kind(plural))
            }
        }
    }

    /// An object that shows where it is from.
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
            _ if !self.kept => self.question(namespace, &marker),
            plural => sample(plural, name),
        };
        object["metadata"]["annotations"] = json!({"oracle": marker});
        if !namespace.is_empty() {
            object["metadata"]["namespace"] = namespace.into();
        }
        merge(&mut object, self.peculiar(namespace));
        object
    }

    /// Without which some endpoint would refuse what it is asked for.
    fn peculiar(&self, namespace: &str) -> Value {
        match self.plural {
            "events" => json!({"involvedObject": {"namespace": namespace}}),
            // Resizing keeps the class of service. A volume would be missed in updates.
            "pods" => json!({"spec": {
                "automountServiceAccountToken": false, "containers": [container(1)],
            }}),
            // A view of what is not there cannot be changed.
            "widgets" => json!({"spec": {"replicas": 1}}),
            _ => json!({}),
        }
    }

    /// What is posted, and shows nothing of what was there: its sender may see it.
    #[must_use]
    pub fn new_object(&self, namespace: &str) -> Value {
        let mut object = self.object(namespace, self.names.new);
        object["metadata"]["annotations"] = json!({});
        object
    }

    /// What is not kept but answered, or carried out.
    fn question(&self, namespace: &str, marker: &str) -> Value {
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
    pub fn changed(&self, namespace: &str, name: &str) -> Value {
        let mut object = self.object(namespace, name);
        object["metadata"]["labels"] = json!({"changed": "yes"});
        object["status"] = self.status();
        let (pointer, value) = match self.plural {
            "roles" | "clusterroles" | "rolebindings" | "certificatesigningrequests" => {
                return object;
            }
            _ if !self.kept => return object,
            plural => change(plural),
        };
        if let Some(field) = object.pointer_mut(pointer) {
            *field = value;
        }
        object
    }

    /// A status that nobody has.
    #[must_use]
    pub fn status(&self) -> Value {
        json!({"conditions": [{
            "type": "Oracle", "status": "True", "reason": "Oracle", "message": "",
            "lastTransitionTime": "2020-01-01T00:00:00Z",
        }]})
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
                let mut object = self.changed(namespace, name);
                object["status"]["conditions"][0]["type"] = "Approved".into();
                object
            }
            _ => {
                let mut object = self.changed(namespace, name);
                merge(&mut object, self.part_change(part));
                object
            }
        }
    }

    /// What only the subresource changes.
    #[must_use]
    pub fn part_change(&self, part: &str) -> Value {
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

/// Nobody's.
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
