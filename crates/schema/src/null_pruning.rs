//! Removal of null members, which are equivalent to absent ones.

use crate::schema::TypeRef;
use crate::type_node::{Scalar, TypeNode};
use optik_object::Value;

/// Drops declared members that are null. A null value in a map of strings becomes an empty string,
/// as it does in Go; list items and untyped values are unchanged.
pub fn drop_declared_nulls(of: TypeRef<'_>, value: &mut Value) {
    match (of.node(), value) {
        (TypeNode::Struct(structure), Value::Object(members)) => {
            members.retain(|_, member| !member.is_null());
            for (name, member) in members {
                if let Some(field) = structure.field(name) {
                    drop_declared_nulls(of.at(field.of), member);
                }
            }
        }
        (TypeNode::Map(map), Value::Object(members)) => {
            let values = of.at(map.value);
            let texts = matches!(values.node(), TypeNode::Scalar(Scalar::String));
            for (_, member) in members.iter_mut() {
                if member.is_null() && texts {
                    *member = Value::String(String::new());
                }
            }
            members.retain(|_, member| !member.is_null());
            for (_, member) in members {
                drop_declared_nulls(values, member);
            }
        }
        (TypeNode::List(list), Value::Array(items)) => {
            for item in items {
                drop_declared_nulls(of.at(list.of), item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin_type;
    use serde_json::json;

    #[test]
    fn drop_declared_nulls_drops_only_typed_nulls() {
        let config_map = builtin_type("", "v1", "ConfigMap").unwrap();
        let mut value = json!({
            "metadata": {"labels": null, "annotations": {"a": null}},
            "data": {"a": null, "b": "x"}, "binaryData": null,
        });
        drop_declared_nulls(config_map, &mut value);
        let expected = json!({"metadata": {"annotations": {"a": ""}}, "data": {"a": "", "b": "x"}});
        assert_eq!(value, expected);
        let deployment = builtin_type("apps", "v1", "Deployment").unwrap();
        let mut value = json!({"spec": {"template": {"metadata": {"creationTimestamp": null},
            "spec": {"containers": [{"name": "a", "resources": null}]}}}});
        drop_declared_nulls(deployment, &mut value);
        let expected = json!({"spec": {"template": {"metadata": {},
            "spec": {"containers": [{"name": "a"}]}}}});
        assert_eq!(value, expected);
    }
}
