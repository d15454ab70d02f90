//! Type checking of objects against a schema, with Go's decoding errors.
//!
//! The schema has no names for Go's string types: where Go prints `v1.PullPolicy`, this prints
//! `string`.

use crate::schema::TypeRef;
use crate::type_node::{Scalar, TypeNode, UnknownFields};
use optik_object::{Value, json_type};

/// The first value of a wrong type, in the order of sorted members.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go {place} of type {wanted}")]
pub struct TypeMismatch {
    /// `spec.containers[0].image`
    pub path: String,
    /// The type found: `string`, `array`, `number 1.5`.
    pub found: String,
    /// `struct field Container.spec.containers.image`, or `value`.
    pub place: String,
    /// `int32`, `map[string]string`, `[]v1.Container`
    pub wanted: String,
}

/// Rare properties of a value. Each requires another walk to correct it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Whether there are members that no type declares.
    pub unknown: bool,
    /// Whether there are nulls with a known type.
    pub nulls: bool,
}

/// Checks the types of all declared members. Null is valid for every type.
pub fn check_types(of: TypeRef<'_>, value: &Value) -> Result<Findings, TypeMismatch> {
    let mut oddities = Findings::default();
    let visited = visit(of, value, &mut oddities);
    visited.map_err(|misfit| TypeMismatch {
        path: path(&misfit.path),
        place: place(&misfit),
        found: misfit.found,
        wanted: misfit.wanted,
    })?;
    Ok(oddities)
}

/// A mismatch under construction. Steps of the path are added on the way out, so that a valid value
/// costs nothing.
struct Mismatch<'a> {
    found: String,
    wanted: String,
    /// The innermost structure.
    structure: Option<&'a str>,
    path: Vec<TypePathStep>,
}

enum TypePathStep {
    /// A member of a structure, which is part of the place in Go's message.
    Field(String),
    Key(String),
    Index(usize),
}

type TypeCheckResult<'a> = Result<(), Box<Mismatch<'a>>>;

fn visit<'a>(of: TypeRef<'a>, value: &Value, odd: &mut Findings) -> TypeCheckResult<'a> {
    match (of.node(), value) {
        (_, Value::Null) => {
            odd.nulls = true;
            Ok(())
        }
        (TypeNode::Untyped(_), _) => Ok(()),
        (TypeNode::Scalar(scalar), _) => match scalar_mismatch(*scalar, value) {
            None => Ok(()),
            Some(found) => Err(mismatch(of, found)),
        },
        (TypeNode::Struct(structure), Value::Object(members)) => {
            for (name, member) in members {
                let Some(field) = structure.field(name) else {
                    odd.unknown |= structure.unknown == UnknownFields::Refused;
                    odd.nulls |= member.is_null();
                    continue;
                };
                visit(of.at(field.of), member, odd).map_err(|mut misfit| {
                    misfit.structure.get_or_insert(&structure.name);
                    misfit.path.push(TypePathStep::Field(name.clone()));
                    misfit
                })?;
            }
            Ok(())
        }
        (TypeNode::Map(map), Value::Object(members)) => {
            for (name, member) in members {
                visit(of.at(map.value), member, odd).map_err(|mut misfit| {
                    misfit.path.push(TypePathStep::Key(name.clone()));
                    misfit
                })?;
            }
            Ok(())
        }
        (TypeNode::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                visit(of.at(list.of), item, odd).map_err(|mut misfit| {
                    misfit.path.push(TypePathStep::Index(index));
                    misfit
                })?;
            }
            Ok(())
        }
        (TypeNode::Struct(_) | TypeNode::Map(_) | TypeNode::List(_), _) => {
            Err(mismatch(of, json_type(value).into()))
        }
    }
}

fn mismatch<'a>(of: TypeRef<'a>, found: String) -> Box<Mismatch<'a>> {
    Box::new(Mismatch {
        found,
        wanted: go_type(of),
        structure: None,
        path: Vec::new(),
    })
}

/// The type found, if a scalar has the wrong type.
fn scalar_mismatch(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match scalar {
        Scalar::String | Scalar::Bytes | Scalar::DateTime => value.is_string(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::Number => value.is_number(),
        Scalar::Int32 => value.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        Scalar::Int64 => value.is_i64(),
        Scalar::IntOrString => {
            value.is_string() || value.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
        }
        // Go decodes any value as text; the normalization of quantities reports invalid ones.
        Scalar::Quantity => true,
    };
    let is_whole = matches!(scalar, Scalar::Int32 | Scalar::Int64 | Scalar::IntOrString);
    match value {
        _ if fits => None,
        // Go prints a number that does not fit.
        Value::Number(number) if is_whole => Some(format!("number {number}")),
        _ => Some(json_type(value).into()),
    }
}

fn go_type(of: TypeRef<'_>) -> String {
    match of.node() {
        TypeNode::Scalar(scalar) => scalar_type(*scalar).into(),
        TypeNode::Struct(structure) => structure.name.to_string(),
        TypeNode::Map(map) => format!("map[string]{}", go_type(of.at(map.value))),
        TypeNode::List(list) => format!("[]{}", go_type(of.at(list.of))),
        TypeNode::Untyped(_) => "interface {}".into(),
    }
}

fn scalar_type(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::String => "string",
        Scalar::Int32 => "int32",
        Scalar::Int64 => "int64",
        Scalar::Number => "float64",
        Scalar::Boolean => "bool",
        // The last type Go tries to decode as.
        Scalar::IntOrString => "int32",
        Scalar::Quantity => "resource.Quantity",
        Scalar::DateTime => "string",
        Scalar::Bytes => "[]uint8",
    }
}

fn path(trail: &[TypePathStep]) -> String {
    let mut path = String::new();
    for step in trail.iter().rev() {
        match step {
            TypePathStep::Index(index) => path.push_str(&format!("[{index}]")),
            TypePathStep::Field(name) | TypePathStep::Key(name) => {
                if !path.is_empty() {
                    path.push('.');
                }
                path.push_str(name);
            }
        }
    }
    path
}

/// The place as Go prints it: the innermost structure, and the members that lead to it.
fn place(misfit: &Mismatch<'_>) -> String {
    let Some(structure) = misfit.structure else {
        return "value".into();
    };
    let name = structure.rsplit('.').next().unwrap_or(structure);
    let steps = misfit.path.iter().rev();
    let members: Vec<&str> = steps
        .filter_map(|step| match step {
            TypePathStep::Field(name) => Some(name.as_str()),
            TypePathStep::Key(_) | TypePathStep::Index(_) => None,
        })
        .collect();
    format!("struct field {name}.{}", members.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin_type;
    use serde_json::json;

    #[test]
    fn type_mismatches_are_worded_as_go_does() {
        let config_map = ("", "v1", "ConfigMap");
        let deployment = ("apps", "v1", "Deployment");
        let pod = ("", "v1", "Pod");
        for ((group, version, kind), value, path, expected) in [
            (
                config_map,
                json!({"data": [1]}),
                "data",
                "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string",
            ),
            (
                config_map,
                json!({"data": {"a": 1}}),
                "data.a",
                "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                deployment,
                json!({"spec": {"replicas": "x"}}),
                "spec.replicas",
                "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                deployment,
                json!({"spec": {"replicas": 1.5}}),
                "spec.replicas",
                "json: cannot unmarshal number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                pod,
                json!({"spec": {"containers": [{}, {"image": true}]}}),
                "spec.containers[1].image",
                "json: cannot unmarshal bool into Go struct field Container.spec.containers.image of type string",
            ),
            (
                pod,
                json!({"spec": {"containers": {}}}),
                "spec.containers",
                "json: cannot unmarshal object into Go struct field PodSpec.spec.containers of type []v1.Container",
            ),
            (
                pod,
                json!([]),
                "",
                "json: cannot unmarshal array into Go value of type v1.Pod",
            ),
        ] {
            let of = builtin_type(group, version, kind).unwrap();
            let mismatch = check_types(of, &value).unwrap_err();
            assert_eq!(
                (mismatch.path.as_str(), mismatch.to_string().as_str()),
                (path, expected)
            );
        }
    }

    #[test]
    fn type_check_accepts_values_that_fit() {
        let pod = builtin_type("", "v1", "Pod").unwrap();
        let value = json!({
            "metadata": {"creationTimestamp": null, "generation": 9_007_199_254_740_993_i64},
            "spec": {"containers": [{"resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": "http"}}}]},
            "bogus": {"is": "not looked at"},
        });
        assert!(check_types(pod, &value).is_ok());
    }

    #[test]
    fn type_check_notices_unknown_fields_and_nulls() {
        let pod = builtin_type("", "v1", "Pod").unwrap();
        let odd = |unknown, nulls| Ok(Findings { unknown, nulls });
        for (value, expected) in [
            (
                json!({"metadata": {"labels": {"any": "thing"}}}),
                odd(false, false),
            ),
            (json!({"spec": {"nodeNam": "n"}}), odd(true, false)),
            (json!({"spec": {"nodeName": null}}), odd(false, true)),
            (
                json!({"spec": {"containers": [{"x": null}]}}),
                odd(true, true),
            ),
            (
                json!({"metadata": {"annotations": {"a": null}}}),
                odd(false, true),
            ),
        ] {
            assert_eq!(check_types(pod, &value), expected, "{value}");
        }
    }
}
