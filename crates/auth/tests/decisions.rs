//! Compares RBAC decisions with those recorded from a real kube-apiserver
//! (`testkit/api/examples/decisions.rs`).

use optik_auth::{
    AuthorizationAttributes, Policy, ResourceAttributes, Role, RoleBinding, User, bootstrap,
};
use serde_json::Value;

/// What was made for the questions, besides the roles of a new cluster.
const ROLES: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/authorization/roles.json"
));
const DECISIONS: &str = include_str!(concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../recordings/authorization/decisions.txt"
));

fn policy() -> Policy {
    let mut editor = Policy::default().edit();
    let mut put = |kind: &str, json: &[u8]| match kind.contains("Binding") {
        true => editor.put_binding(RoleBinding::from_json(json).unwrap()),
        false => editor.put_role(Role::from_json(json).unwrap()),
    };
    for wanted in bootstrap::objects() {
        put(wanted.object.kind(), &wanted.object.encode().unwrap());
    }
    let own: Vec<Value> = serde_json::from_str(ROLES).unwrap();
    for object in own {
        put(
            object["kind"].as_str().unwrap(),
            object.to_string().as_bytes(),
        );
    }
    editor.finish()
}

fn user(name: &str, groups: &str) -> User {
    let groups = groups.split(',').filter(|group| !group.is_empty());
    User {
        name: name.into(),
        groups: groups.map(str::to_owned).collect(),
        ..User::default()
    }
}

/// The index and the rule-by-rule evaluation both match the recorded decisions.
#[test]
fn rbac_decisions_match_kube_apiserver() {
    let policy = policy();
    let mut count = [0, 0];
    for line in DECISIONS.lines() {
        let parts: Vec<&str> = line.split('|').collect();
        let (asked, expected) = match parts[..] {
            [_, _, verb, path, yes] => {
                (AuthorizationAttributes::for_path(verb, path), yes == "yes")
            }
            [
                _,
                _,
                verb,
                group,
                resource,
                subresource,
                namespace,
                name,
                yes,
            ] => {
                let resource = ResourceAttributes {
                    group,
                    version: "",
                    resource,
                    subresource,
                    namespace,
                    name,
                };
                (
                    AuthorizationAttributes::for_resource(verb, resource),
                    yes == "yes",
                )
            }
            _ => panic!("{line}"),
        };
        let user = user(parts[0], parts[1]);
        assert_eq!(policy.allows(&user, &asked), expected, "{line}");
        let decision = policy.decide(&user, &asked);
        assert_eq!(decision.allowed, expected, "{line}");
        let says = decision.reason.starts_with("RBAC: allowed by ") || user.is_master();
        assert_eq!(says, expected, "{line}: {}", decision.reason);
        count[usize::from(expected)] += 1;
    }
    assert!(count[0] > 300 && count[1] > 300, "{count:?}");
}
