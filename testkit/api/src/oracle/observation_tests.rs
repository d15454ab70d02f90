//! Tests that the oracle detects violations.

use super::permissions::permissions;
use super::{Observation, ObservedChange, Permission, StoredObjectId, violations};
use serde_json::{Value, json};

fn right(verb: &str, resource: &str) -> Permission {
    let found = permissions().find(|it| it.verb == verb && it.rule_resource() == resource);
    found.unwrap_or_else(|| panic!("nobody may {verb} {resource}"))
}

fn pod() -> StoredObjectId {
    StoredObjectId::from_key("/registry/pods/oracle/oracle-a")
}

fn object() -> Value {
    json!({
        "kind": "Pod", "metadata": {"name": "oracle-a", "uid": "1"},
        "spec": {"nodeName": "", "image": "i"}, "status": {"phase": "Pending"},
    })
}

fn changed(pointer: &str) -> Observation {
    let mut is = object();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    is.pointer_mut(parent).unwrap()[member] = json!("changed");
    Observation {
        changes: vec![ObservedChange {
            place: pod(),
            was: Some(object()),
            is: Some(is),
        }],
        ..Observation::default()
    }
}

fn made(key: &str) -> Observation {
    Observation {
        changes: vec![ObservedChange {
            place: StoredObjectId::from_key(key),
            was: None,
            is: Some(object()),
        }],
        ..Observation::default()
    }
}

fn gone() -> Observation {
    Observation {
        changes: vec![ObservedChange {
            place: pod(),
            was: Some(object()),
            is: None,
        }],
        ..Observation::default()
    }
}

fn shown(mut seen: Observation) -> Observation {
    seen.shown.push(pod());
    seen
}

fn passes(verb: &str, resource: &str, seen: &Observation) -> bool {
    violations(&right(verb, resource), seen).is_empty()
}

#[test]
fn write_permission_shows_nothing_else() {
    let read = shown(Observation::default());
    for verb in ["get", "list", "watch"] {
        assert!(passes(verb, "pods", &read), "{verb}");
        assert!(!passes(verb, "pods/log", &read), "{verb}");
        assert!(!passes(verb, "configmaps", &read), "{verb}");
    }
    for verb in ["create", "update", "patch", "delete", "deletecollection"] {
        assert!(!passes(verb, "pods", &read), "{verb}");
    }
    assert!(passes("get", "pods/status", &read));
    assert!(!passes("update", "pods/status", &read));
    assert!(passes(
        "update",
        "pods/status",
        &shown(changed("/status/phase"))
    ));
    assert!(passes("delete", "pods", &shown(gone())));
    let dry = Observation {
        dry: gone().changes,
        ..shown(Observation::default())
    };
    assert!(passes("delete", "pods", &dry));
    assert!(!passes("update", "pods", &dry), "it would be gone");
}

#[test]
fn get_permission_does_not_allow_list() {
    let mut both = shown(Observation::default());
    both.shown
        .push(StoredObjectId::from_key("/registry/pods/oracle/oracle-b"));
    assert!(passes("list", "pods", &both));
    assert!(!passes("get", "pods", &both));
}

#[test]
fn each_endpoint_may_change_only_its_own_fields() {
    let writers = [
        "pods",
        "pods/status",
        "pods/ephemeralcontainers",
        "pods/resize",
        "pods/log",
    ];
    for (pointer, allowed) in [
        ("/spec/image", &["pods"] as &[_]),
        ("/metadata/labels", &["pods", "pods/status"]),
        ("/metadata/finalizers", &["pods"]),
        ("/status/phase", &["pods/status"]),
        ("/spec/ephemeralContainers", &["pods/ephemeralcontainers"]),
        ("/spec/containers", &["pods", "pods/resize"]),
        ("/metadata/uid", &[]),
        ("/metadata/deletionTimestamp", &[]),
    ] {
        for verb in ["update", "patch"] {
            let pass = writers.map(|it| (it, passes(verb, it, &changed(pointer))));
            let pass: Vec<_> = pass.iter().filter(|it| it.1).map(|it| it.0).collect();
            assert_eq!(pass, allowed, "{verb} {pointer}");
        }
    }
    assert!(passes("create", "pods/binding", &changed("/spec/nodeName")));
    assert!(passes("create", "bindings", &changed("/spec/nodeName")));
    assert!(!passes("create", "pods/binding", &changed("/spec/image")));
    assert!(!passes("create", "pods/eviction", &changed("/spec/image")));
    assert!(passes(
        "delete",
        "pods",
        &changed("/metadata/deletionTimestamp")
    ));
    assert!(!passes("delete", "pods", &changed("/spec/image")));
}

#[test]
fn update_permission_does_not_allow_create_or_delete() {
    let new = made("/registry/pods/oracle/oracle-new");
    assert!(passes("create", "pods", &new));
    for verb in ["update", "patch", "delete", "get"] {
        assert!(!passes(verb, "pods", &new), "{verb}");
    }
    let elsewhere = made("/registry/pods/oracle-other/oracle-new");
    assert!(!passes("create", "pods", &elsewhere));
    assert!(passes("create", "pods/eviction", &gone()));
    assert!(passes("deletecollection", "pods", &gone()));
    assert!(!passes("update", "pods", &gone()));
    let object = Observation {
        changes: vec![ObservedChange {
            place: StoredObjectId::from_key("/registry/checks.optik.test/widgets/oracle/oracle-a"),
            was: Some(object()),
            is: None,
        }],
        ..Observation::default()
    };
    assert!(passes("delete", "customresourcedefinitions", &object));
    assert!(!passes("update", "customresourcedefinitions", &object));
    assert!(!passes("delete", "pods", &object));
    let address = made("/registry/ipaddresses/10.0.0.7");
    assert!(passes("create", "services", &address));
    assert!(!passes("create", "pods", &address));
    assert!(!passes("get", "services", &address));
}

#[test]
fn token_requires_create_permission_on_token_subresource() {
    let token = Observation {
        token: true,
        ..Observation::default()
    };
    assert!(passes("create", "serviceaccounts/token", &token));
    assert!(!passes("get", "serviceaccounts/token", &token));
    assert!(!passes("create", "serviceaccounts", &token));
}
