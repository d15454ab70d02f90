//! The built-in kinds, put together from the tables.

use crate::resource::{
    Action, Reach, Resource, ResponseKind, Scope, Subresource, Text, Verb, Verbs,
};
use crate::{behaviour, fields, generated, scaling};

/// A line of the generated table.
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    pub(crate) verbs: &'static [Verb],
    pub(crate) short_names: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) subresources: &'static [SubresourceRow],
}

pub(crate) struct SubresourceRow {
    pub(crate) name: &'static str,
    pub(crate) verbs: &'static [Verb],
    /// Group, version, kind.
    pub(crate) kind: [&'static str; 3],
}

/// Every built-in resource, groups and versions in the order of discovery.
#[must_use]
pub fn builtin() -> Vec<Resource> {
    generated::ROWS.iter().map(resource).collect()
}

/// Whether a resource of that name is built in, in any version.
#[must_use]
pub fn is_builtin(group: &str, plural: &str) -> bool {
    let mut rows = generated::ROWS.iter();
    rows.any(|row| row.group == group && row.plural == plural)
}

fn resource(row: &Row) -> Resource {
    let has = |name: &str| row.subresources.iter().any(|sub| sub.name == name);
    Resource {
        group: row.group.into(),
        version: row.version.into(),
        plural: row.plural.into(),
        singular: row.singular.into(),
        kind: row.kind.into(),
        scope: row.scope,
        verbs: Verbs::of(row.verbs),
        short_names: texts(row.short_names),
        categories: texts(row.categories),
        subresources: row
            .subresources
            .iter()
            .map(|sub| subresource(row, sub))
            .collect(),
        list_kind: format!("{}List", row.kind).into(),
        verb_order: &Verb::ALL,
        storage: storage(row),
        behaviour: behaviour::of(row.group, row.plural, has("status")),
        fields: fields::selectable(row.group, row.plural),
        scaling: has("scale").then(|| scaling::of(row.plural)),
        columns: Vec::new(),
    }
}

fn subresource(owner: &Row, row: &SubresourceRow) -> Subresource {
    let [group, version, kind] = row.kind.map(Text::from);
    Subresource {
        name: row.name.into(),
        verbs: Verbs::of(row.verbs),
        action: match row.name {
            "status" => Action::Status,
            "approval" => Action::Approve,
            "finalize" => Action::Finalize,
            "scale" => Action::Scale,
            "binding" => Action::Bind,
            "eviction" => Action::Evict,
            "ephemeralcontainers" => Action::Ephemeral,
            "resize" => Action::Resize,
            "token" => Action::Token,
            "log" => Action::Reach(Reach::Log),
            "exec" | "attach" => Action::Reach(Reach::Container),
            "portforward" => Action::Reach(Reach::Pod),
            "proxy" => Action::Reach(Reach::Proxy),
            _ if kind == owner.kind => Action::Show,
            _ => Action::Unserved,
        },
        kind: ResponseKind {
            group,
            version,
            kind,
        },
    }
}

fn texts(list: &'static [&'static str]) -> Vec<Text> {
    list.iter().map(|text| (*text).into()).collect()
}

/// The directory below `/registry/`. What can be read back is kept somewhere.
fn storage(row: &Row) -> Option<Text> {
    if !row.verbs.contains(&Verb::Get) || row.plural == "componentstatuses" {
        return None;
    }
    Some(match (row.group, row.plural) {
        ("", "replicationcontrollers") => "controllers".into(),
        ("", "endpoints") => "services/endpoints".into(),
        ("", "services") => "services/specs".into(),
        ("", "nodes") => "minions".into(),
        ("networking.k8s.io", "ingresses") => "ingress".into(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => {
            format!("{}/{plural}", row.group).into()
        }
        (_, plural) => plural.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Two resources share a directory only if they are two faces of the same objects.
    #[test]
    fn directories_do_not_collide() {
        let mut owners: BTreeMap<Text, Vec<String>> = BTreeMap::new();
        for resource in builtin() {
            if let Some(directory) = &resource.storage {
                let face = format!("{}.{}", resource.plural, resource.group);
                let faces = owners.entry(directory.clone()).or_default();
                if !faces.contains(&face) {
                    faces.push(face);
                }
            }
        }
        let shared: Vec<_> = owners.values().filter(|faces| faces.len() > 1).collect();
        assert_eq!(shared, [&["events.", "events.events.k8s.io"]]);
    }

    /// Objects of custom kinds are kept by group and plural, and their groups have a dot. So
    /// a directory that could be theirs must be of a resource of just that name, which no
    /// definition gets.
    #[test]
    fn no_custom_kind_has_the_directory_of_a_built_in_one() {
        for resource in builtin() {
            let directory = resource.storage.unwrap_or_default();
            let (group, plural) = directory.split_once('/').unwrap_or((&directory, ""));
            assert!(
                !group.contains('.') || is_builtin(group, plural),
                "{directory} could be that of a custom kind"
            );
        }
        assert!(is_builtin(
            "apiextensions.k8s.io",
            "customresourcedefinitions"
        ));
    }

    /// Whoever is told what a request does is told the name of its path, so what a path does
    /// must say which path it was.
    #[test]
    fn subresources_that_write_do_not_share_an_action() {
        let mut paths: BTreeMap<String, std::collections::BTreeSet<Text>> = BTreeMap::new();
        for sub in builtin().iter().flat_map(|resource| &resource.subresources) {
            if !matches!(
                sub.action,
                Action::Show | Action::Unserved | Action::Reach(_)
            ) {
                let names = paths.entry(format!("{:?}", sub.action)).or_default();
                names.insert(sub.name.clone());
            }
        }
        let shared: Vec<_> = paths.iter().filter(|(_, names)| names.len() > 1).collect();
        assert!(shared.is_empty(), "{shared:?}");
        assert!(paths.len() >= 9, "{paths:?}");
    }

    #[test]
    fn the_tables_of_exceptions_name_real_kinds() {
        let all = builtin();
        let find = |group: &str, plural: &str| {
            all.iter()
                .find(|r| r.group == group && r.plural == plural)
                .unwrap()
        };
        assert!(find("", "configmaps").behaviour.unconditional_update);
        assert!(
            !find("coordination.k8s.io", "leases")
                .behaviour
                .unconditional_update
        );
        assert!(
            find("resource.k8s.io", "deviceclasses")
                .behaviour
                .delete_returns_object
        );
        assert!(
            find("authorization.k8s.io", "subjectaccessreviews")
                .storage
                .is_none()
        );
        assert_eq!(find("", "nodes").storage.as_deref(), Some("minions"));
        assert!(all.len() > 60);
    }
}
