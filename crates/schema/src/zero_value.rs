//! Zero values: what Go writes for an object without any set field.

use crate::schema::TypeRef;
use crate::type_node::{EmptyEncoding, StructField, TypeNode};
use optik_object::{DEPTH_MAX, Map, Value};

/// An object with only the members that are written even when empty. A created object is compared
/// with it, so that its creator does not own such members.
#[must_use]
pub fn zero_value(of: TypeRef<'_>) -> Value {
    zero_value_within(of, DEPTH_MAX)
}

/// The depth is limited because a table could declare a structure that contains itself by value,
/// which Go does not allow.
fn zero_value_within(of: TypeRef<'_>, depth: usize) -> Value {
    let (TypeNode::Struct(structure), Some(depth)) = (of.node(), depth.checked_sub(1)) else {
        return Value::Null;
    };
    let fields = structure.fields().iter();
    let members: Map = fields
        .filter_map(|field| Some((field.name.to_string(), empty_value(of, field, depth)?)))
        .collect();
    members.into()
}

fn empty_value(of: TypeRef<'_>, field: &StructField, depth: usize) -> Option<Value> {
    match field.empty_encoding {
        EmptyEncoding::Omitted => None,
        EmptyEncoding::Null => Some(Value::Null),
        EmptyEncoding::Zero => match &field.default {
            Some(default) => Some(default.clone()),
            None => Some(zero_value_within(of.at(field.of), depth)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin_type;
    use crate::schema::Schema;
    use serde_json::json;

    #[test]
    fn zero_value_of_deployment_matches_go() {
        let deployment = builtin_type("apps", "v1", "Deployment").unwrap();
        let expected = json!({
            "metadata": {},
            "spec": {
                "selector": null, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}},
            },
            "status": {},
        });
        assert_eq!(zero_value(deployment), expected);
    }

    #[test]
    fn zero_value_of_recursive_type_ends() {
        let schema = Schema::parse("=A\n a @0 z").unwrap();
        assert!(zero_value(schema.root()).is_object());
    }
}
