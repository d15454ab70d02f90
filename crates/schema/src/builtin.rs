//! The types of the built-in kinds, parsed from a generated table.

use crate::schema::{Schema, TypeRef};
use std::sync::OnceLock;

static TABLE: &str = include_str!("builtin.table");
static SCHEMA: OnceLock<Schema> = OnceLock::new();

/// The type of a built-in kind. The first call parses the table.
///
/// # Panics
/// Never: a test parses the same table.
#[must_use]
pub fn builtin_type(group: &str, version: &str, kind: &str) -> Option<TypeRef<'static>> {
    let schema =
        SCHEMA.get_or_init(|| Schema::parse(TABLE).expect("embedded schema table is valid"));
    schema.kind(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::type_node::{ElementRelationship, EmptyEncoding, TypeNode};

    #[test]
    fn builtin_schema_table_parses_and_stays_small() {
        let schema = Schema::parse(TABLE).unwrap();
        assert!(schema.kinds.len() > 100 && TABLE.len() < 200_000);
        for (_, id) in &schema.kinds {
            assert!(schema.at(*id).as_struct().is_some());
        }
    }

    #[test]
    fn builtin_pod_fields_have_expected_types() {
        let pod = builtin_type("", "v1", "Pod").unwrap();
        let spec = pod.field("spec").unwrap();
        assert_eq!(spec.empty_encoding, EmptyEncoding::Zero);
        let containers = pod.at(spec.of).field("containers").unwrap();
        assert!(containers.required && containers.patch_strategy.merge);
        assert_eq!(containers.patch_strategy.key, "name");
        let TypeNode::List(list) = pod.at(containers.of).node() else {
            panic!("containers are a list");
        };
        assert_eq!(
            list.relationship,
            ElementRelationship::Keys(vec!["name".into()])
        );
        let container = pod.at(list.of);
        let ports = container.field("ports").unwrap();
        let TypeNode::List(ports) = container.at(ports.of).node() else {
            panic!("ports are a list");
        };
        let port = container.at(ports.of);
        assert_eq!(port.key_default("protocol"), Some(&"TCP".into()));
        assert_eq!(port.key_default("containerPort"), Some(&0.into()));
        assert_eq!(
            port.as_struct().map(|it| it.name.as_ref()),
            Some("v1.ContainerPort")
        );
    }

    #[test]
    fn builtin_field_overrides_atomicity_of_its_type() {
        let volume = builtin_type("", "v1", "PersistentVolume").unwrap();
        let spec = volume.at(volume.field("spec").unwrap().of);
        let claim = spec.at(spec.field("claimRef").unwrap().of);
        assert_eq!(claim.as_struct().map(|it| it.atomic), Some(false));
    }

    #[test]
    fn builtin_type_of_unknown_kind_is_none() {
        assert!(builtin_type("", "v1", "Pods").is_none());
        assert!(builtin_type("apps", "v1beta1", "Deployment").is_none());
    }
}
