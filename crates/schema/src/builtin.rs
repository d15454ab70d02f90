//! The types of the built-in kinds.

use crate::schema::{Schema, Type};
use std::sync::OnceLock;

static TABLE: &str = include_str!("builtin.table");
static SCHEMA: OnceLock<Schema> = OnceLock::new();

/// The type of a built-in kind. The first call reads the table.
///
/// # Panics
/// Never: a test reads the same table.
#[must_use]
pub fn builtin(group: &str, version: &str, kind: &str) -> Option<Type<'static>> {
    let schema = SCHEMA.get_or_init(|| Schema::parse(TABLE).expect("the table is part of us"));
    schema.kind(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Item, Node, Written};

    #[test]
    fn the_table_is_read_and_small() {
        let schema = Schema::parse(TABLE).unwrap();
        assert!(schema.kinds.len() > 100 && TABLE.len() < 200_000);
        for (_, id) in &schema.kinds {
            assert!(schema.at(*id).as_struct().is_some());
        }
    }

    #[test]
    fn facts_of_a_pod() {
        let pod = builtin("", "v1", "Pod").unwrap();
        let spec = pod.field("spec").unwrap();
        assert_eq!(spec.written, Written::Zero);
        let containers = pod.at(spec.of).field("containers").unwrap();
        assert!(containers.required && containers.merge.merge);
        assert_eq!(containers.merge.key, "name");
        let Node::List(list) = pod.at(containers.of).node() else {
            panic!("containers are a list");
        };
        assert_eq!(list.item, Item::Keys(vec!["name".into()]));
        let container = pod.at(list.of);
        let ports = container.field("ports").unwrap();
        let Node::List(ports) = container.at(ports.of).node() else {
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
    fn a_field_may_overrule_its_type() {
        let volume = builtin("", "v1", "PersistentVolume").unwrap();
        let spec = volume.at(volume.field("spec").unwrap().of);
        let claim = spec.at(spec.field("claimRef").unwrap().of);
        assert_eq!(claim.as_struct().map(|it| it.atomic), Some(false));
    }

    #[test]
    fn unknown_kinds() {
        assert!(builtin("", "v1", "Pods").is_none());
        assert!(builtin("apps", "v1beta1", "Deployment").is_none());
    }
}
