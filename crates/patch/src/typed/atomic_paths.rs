//! The atomic values of a configuration, which an apply replaces as a whole.

use super::shape::{MapShape, ValueShape, root, shape};
use optik_object::{Map, Value};
use optik_schema::TypeRef;

/// The paths of atomic lists, maps and structures in a configuration.
#[must_use]
pub fn atomic_paths(of: TypeRef<'_>, config: &Map) -> Vec<String> {
    let mut found = Vec::new();
    visit_members(root(of), config, "", &mut found);
    found
}

fn visit_value(of: TypeRef<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (shape(of, Some(value)), value) {
        (ValueShape::Map(map), Value::Object(members)) => {
            if map.atomic {
                found.push(path.to_owned());
            }
            visit_members(map, members, path, found);
        }
        (ValueShape::List(list), Value::Array(items)) => {
            if list.is_atomic() {
                found.push(path.to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                visit_value(list.of, item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// As upstream, undeclared members are not visited.
fn visit_members(map: MapShape<'_>, members: &Map, path: &str, found: &mut Vec<String>) {
    for (name, value) in members {
        let member = map.member(name);
        if member.is_declared() {
            visit_value(member.type_ref(), value, &format!("{path}.{name}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Names recorded from a real kube-apiserver.
    #[test]
    fn atomic_paths_match_kube_apiserver() {
        let of = optik_schema::builtin_type("apps", "v1", "Deployment").expect("a type");
        let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
        for (config, wanted) in [
            (json!({"spec": {"replicas": 1}}), vec![]),
            (
                json!({"spec": {"selector": {"matchLabels": {"a": "b"}}}}),
                vec![".spec.selector"],
            ),
            (
                pod(json!({"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}]})),
                vec![
                    ".spec.template.spec.nodeSelector",
                    ".spec.template.spec.tolerations",
                ],
            ),
            (
                pod(json!({"containers": [{"name": "c", "args": ["x"]}]})),
                vec![".spec.template.spec.containers[0].args"],
            ),
            (
                pod(json!({"containers": [{"name": "c", "image": "i"}]})),
                vec![],
            ),
        ] {
            let members = config.as_object().expect("an object");
            assert_eq!(atomic_paths(of, members), wanted, "{config}");
        }
    }
}
