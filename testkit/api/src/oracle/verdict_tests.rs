//! The judge finds what it is there for.

use super::rights::rights;
use super::{Change, Observed, Place, Right, complaints};
use serde_json::{Value, json};

fn right(verb: &str, resource: &str) -> Right {
    let found = rights().find(|it| it.verb == verb && it.rule_resource() == resource);
    found.unwrap_or_else(|| panic!("nobody may {verb} {resource}"))
}

fn pod() -> Place {
    Place::of_key("/registry/pods/oracle/oracle-a")
}

fn object() -> Value {
    json!({
        "kind": "Pod", "metadata": {"name": "oracle-a", "uid": "1"},
        "spec": {"nodeName": "", "image": "i"}, "status": {"phase": "Pending"},
    })
}

fn changed(pointer: &str) -> Observed {
    let mut is = object();
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    is.pointer_mut(parent).unwrap()[member] = json!("changed");
    Observed {
        changes: vec![Change {
            place: pod(),
            was: Some(object()),
            is: Some(is),
        }],
        ..Observed::default()
    }
}

fn made(key: &str) -> Observed {
    Observed {
        changes: vec![Change {
            place: Place::of_key(key),
            was: None,
            is: Some(object()),
        }],
        ..Observed::default()
    }
}

fn gone() -> Observed {
    Observed {
        changes: vec![Change {
            place: pod(),
            was: Some(object()),
            is: None,
        }],
        ..Observed::default()
    }
}

fn shown(mut seen: Observed) -> Observed {
    seen.shown.push(pod());
    seen
}

fn passes(verb: &str, resource: &str, seen: &Observed) -> bool {
    complaints(&right(verb, resource), seen).is_empty()
}

#[test]
fn who_writes_reads_nothing_else() {
    let read = shown(Observed::default());
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
    let dry = Observed {
        dry: gone().changes,
        ..shown(Observed::default())
    };
    assert!(passes("delete", "pods", &dry));
    assert!(!passes("update", "pods", &dry), "it would be gone");
}

#[test]
fn who_gets_one_lists_none() {
    let mut both = shown(Observed::default());
    both.shown
        .push(Place::of_key("/registry/pods/oracle/oracle-b"));
    assert!(passes("list", "pods", &both));
    assert!(!passes("get", "pods", &both));
}

#[test]
fn each_endpoint_changes_its_own_members() {
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
fn nothing_is_made_or_removed_otherwise() {
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
    let object = Observed {
        changes: vec![Change {
            place: Place::of_key("/registry/checks.optik.test/widgets/oracle/oracle-a"),
            was: Some(object()),
            is: None,
        }],
        ..Observed::default()
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
fn tokens_are_for_who_may_make_them() {
    let token = Observed {
        token: true,
        ..Observed::default()
    };
    assert!(passes("create", "serviceaccounts/token", &token));
    assert!(!passes("get", "serviceaccounts/token", &token));
    assert!(!passes("create", "serviceaccounts", &token));
}
