//! What Go writes for an object that nobody filled in.

use crate::node::{Field, Node, Written};
use crate::schema::Type;
use optik_object::{DEPTH_MAX, Map, Value};

/// A new object with the members that are written even when empty. Who creates an
/// object is compared with this, so that such members do not look like its choice.
#[must_use]
pub fn zero(of: Type<'_>) -> Value {
    zero_within(of, DEPTH_MAX)
}

/// A structure that contains itself by value does not exist in Go, but nothing keeps a
/// table from saying so.
fn zero_within(of: Type<'_>, depth: usize) -> Value {
    let (Node::Struct(structure), Some(depth)) = (of.node(), depth.checked_sub(1)) else {
        return Value::Null;
    };
    let fields = structure.fields().iter();
    let members: Map = fields
        .filter_map(|field| Some((field.name.to_string(), written(of, field, depth)?)))
        .collect();
    members.into()
}

fn written(of: Type<'_>, field: &Field, depth: usize) -> Option<Value> {
    match field.written {
        Written::Omitted => None,
        Written::Null => Some(Value::Null),
        Written::Zero => match &field.default {
            Some(default) => Some(default.clone()),
            None => Some(zero_within(of.at(field.of), depth)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;
    use crate::schema::Schema;
    use serde_json::json;

    #[test]
    fn a_new_deployment() {
        let deployment = builtin("apps", "v1", "Deployment").unwrap();
        let expected = json!({
            "metadata": {},
            "spec": {
                "selector": null, "strategy": {},
                "template": {"metadata": {}, "spec": {"containers": null}},
            },
            "status": {},
        });
        assert_eq!(zero(deployment), expected);
    }

    #[test]
    fn a_structure_within_itself_ends() {
        let schema = Schema::parse("=A\n a @0 z").unwrap();
        assert!(zero(schema.root()).is_object());
    }
}
