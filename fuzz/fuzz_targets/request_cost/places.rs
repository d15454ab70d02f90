//! The endpoints that requests go to, and the objects stored there.

use serde_json::{Value, json};

pub struct Place {
    pub collection: &'static str,
    /// An object called `a` as the target of patches; None where objects are not stored.
    pub stored: Option<Value>,
}

fn place(collection: &'static str, stored: Value) -> Place {
    let mut stored = stored;
    stored["metadata"] = json!({"name": "a"});
    Place {
        collection,
        stored: Some(stored),
    }
}

/// Made in this order: the definition before its objects.
pub fn places() -> Vec<Place> {
    let mut definition = place(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition(),
    );
    if let Some(stored) = &mut definition.stored {
        stored["metadata"]["name"] = "a.example.com".into();
    }
    vec![
        place("/api/v1/namespaces/default/serviceaccounts", json!({})),
        place(
            "/api/v1/namespaces/default/configmaps",
            json!({"data": {"k": "v"}}),
        ),
        place(
            "/api/v1/namespaces/default/pods",
            json!({"spec": {"containers": [container()], "serviceAccountName": "a"}}),
        ),
        place(
            "/api/v1/namespaces/default/services",
            json!({"spec": {"ports": [{"port": 80}]}}),
        ),
        place("/apis/apps/v1/namespaces/default/deployments", deployment()),
        place(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        place(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            json!({"spec": {
                "signerName": "example.com/fuzz", "usages": ["client auth"], "request": REQUEST,
            }}),
        ),
        place(
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
            policy(),
        ),
        Place {
            collection: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            stored: None,
        },
        definition,
        place(
            THINGS,
            json!({
                "apiVersion": "example.com/v1", "kind": "Thing",
                "spec": {"list": ["x"], "map": {"k": "v"}},
            }),
        ),
    ]
}

pub const THINGS: &str = "/apis/example.com/v1/namespaces/default/a";

/// A certificate request for `example.com/fuzz`, a signer without a controller.
const REQUEST: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlISU1IRUNBUUF3RHpFTk1Bc0dBMVVFQXd3RVpuVjZlakJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSApBMElBQkN1Z0VyeENHSng3cnN5a1FZUjBTdTJFU1JoRnZ0UXBsdVdWaVhjOUxVN3U4OUJNWEJUM2J6dElEbU12CmhreVl6UStvSnh1eFVpRTZ6eUFhTU5KdHcwdWdBREFLQmdncWhrak9QUVFEQWdOSEFEQkVBaUFXU2hxNlE1MlAKVnI2a3d4YXltaVdITzgzbkdUWGw1eFlCUVpzOHBjQ3drZ0lnUlVhUUZrUE1yZXErbzRwci9UOGI0a3VWNWlaMgpRVlhES1dIWXRxMHJ2SlE9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=";

fn container() -> Value {
    json!({"name": "c", "image": "i"})
}

fn deployment() -> Value {
    let labels = json!({"a": "b"});
    json!({"spec": {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container()]}},
    }})
}

fn policy() -> Value {
    json!({"spec": {
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["example.org"], "apiVersions": ["*"],
            "operations": ["CREATE"], "resources": ["none"],
        }]},
        "validations": [{"expression": "true"}],
    }})
}

/// A CRD with a list, a set, a map by key, a map, and fields that are not pruned.
fn definition() -> Value {
    let text = json!({"type": "string"});
    let keyed = json!({"type": "object", "required": ["k"], "properties": {"k": text, "v": text}});
    let spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "list": {"type": "array", "items": text},
            "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
            "keyed": {"type": "array", "items": keyed, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"]},
            "map": {"type": "object", "additionalProperties": text},
        },
    });
    json!({"spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "a", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": spec}},
        }}],
    }})
}
