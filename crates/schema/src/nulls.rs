//! A null says nothing: members that are null are as good as absent.

use crate::node::{Node, Scalar};
use crate::schema::Type;
use optik_object::Value;

/// Drops declared members that are null. A null in a map of texts is an empty text, as
/// it is after a round through Go; list items and what has no type stay as they are.
pub fn drop_nulls(of: Type<'_>, value: &mut Value) {
    match (of.node(), value) {
        (Node::Struct(structure), Value::Object(members)) => {
            members.retain(|_, member| !member.is_null());
            for (name, member) in members {
                if let Some(field) = structure.field(name) {
                    drop_nulls(of.at(field.of), member);
                }
            }
        }
        (Node::Map(map), Value::Object(members)) => {
            let values = of.at(map.value);
            let texts = matches!(values.node(), Node::Scalar(Scalar::String));
            for (_, member) in members.iter_mut() {
                if member.is_null() && texts {
                    *member = Value::String(String::new());
                }
            }
            members.retain(|_, member| !member.is_null());
            for (_, member) in members {
                drop_nulls(values, member);
            }
        }
        (Node::List(list), Value::Array(items)) => {
            for item in items {
                drop_nulls(of.at(list.of), item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;
    use serde_json::json;

    #[test]
    fn nulls_are_dropped_where_types_are_known() {
        let config_map = builtin("", "v1", "ConfigMap").unwrap();
        let mut value = json!({
            "metadata": {"labels": null, "annotations": {"a": null}},
            "data": {"a": null, "b": "x"}, "binaryData": null,
        });
        drop_nulls(config_map, &mut value);
        let expected = json!({"metadata": {"annotations": {"a": ""}}, "data": {"a": "", "b": "x"}});
        assert_eq!(value, expected);
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        let mut value = json!({"spec": {"template": {"metadata": {"creationTimestamp": null},
            "spec": {"containers": [{"name": "a", "resources": null}]}}}});
        drop_nulls(deployment, &mut value);
        let expected = json!({"spec": {"template": {"metadata": {},
            "spec": {"containers": [{"name": "a"}]}}}});
        assert_eq!(value, expected);
    }
}
