//! What a configuration would replace as a whole.

use super::shape::{MapShape, Shape, root, shape};
use optik_object::{Map, Value};
use optik_schema::Type;

/// The paths of lists, maps and structures in a configuration that are one value each.
#[must_use]
pub fn atomics(of: Type<'_>, config: &Map) -> Vec<String> {
    let mut found = Vec::new();
    of_members(root(of), config, "", &mut found);
    found
}

fn of_value(of: Type<'_>, value: &Value, path: &str, found: &mut Vec<String>) {
    match (shape(of, Some(value)), value) {
        (Shape::Map(map), Value::Object(members)) => {
            if map.atomic {
                found.push(path.to_owned());
            }
            of_members(map, members, path, found);
        }
        (Shape::List(list), Value::Array(items)) => {
            if list.is_atomic() {
                found.push(path.to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                of_value(list.of, item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}

/// Upstream does not look into what is not declared.
fn of_members(map: MapShape<'_>, members: &Map, path: &str, found: &mut Vec<String>) {
    for (name, value) in members {
        let member = map.member(name);
        if member.is_declared() {
            of_value(member.of(), value, &format!("{path}.{name}"), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As a real kube-apiserver names them.
    #[test]
    fn what_is_one_value_is_named() {
        let of = optik_schema::builtin("apps", "v1", "Deployment").expect("a type");
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
            assert_eq!(atomics(of, members), wanted, "{config}");
        }
    }
}
