//! The built-in kinds, built from the generated and the handwritten tables.

use crate::resource::{
    ApiResource, ConnectTarget, ResponseKind, Scope, Subresource, SubresourceAction, Text, Verb,
    Verbs,
};
use crate::{field_selectors, generated, scale, strategy_options};

/// A row of the generated table.
pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) scope: Scope,
    /// The prefix of the keys of its objects; `None` if it is not stored.
    pub(crate) key_prefix: Option<&'static str>,
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

/// Returns every built-in resource; groups and versions are in discovery order.
#[must_use]
pub fn builtin() -> Vec<ApiResource> {
    generated::ROWS.iter().map(resource).collect()
}

/// Whether a resource of this group and plural is built in, in any version.
#[must_use]
pub fn is_builtin(group: &str, plural: &str) -> bool {
    let mut rows = generated::ROWS.iter();
    rows.any(|row| row.group == group && row.plural == plural)
}

fn resource(row: &Row) -> ApiResource {
    let has = |name: &str| row.subresources.iter().any(|sub| sub.name == name);
    ApiResource {
        group: row.group.into(),
        version: row.version.into(),
        plural: row.plural.into(),
        singular: row.singular.into(),
        kind: row.kind.into(),
        scope: row.scope,
        verbs: Verbs::from_verbs(row.verbs),
        short_names: texts(row.short_names),
        categories: texts(row.categories),
        subresources: row
            .subresources
            .iter()
            .map(|sub| subresource(row, sub))
            .collect(),
        list_kind: format!("{}List", row.kind).into(),
        verb_order: &Verb::ALL,
        key_prefix: row.key_prefix.map(Text::from),
        strategy_options: strategy_options::for_resource(row.group, row.plural, has("status")),
        selectable_fields: field_selectors::selectable_fields(row.group, row.plural),
        scale: has("scale").then(|| scale::for_resource(row.plural)),
        columns: Vec::new(),
    }
}

fn subresource(owner: &Row, row: &SubresourceRow) -> Subresource {
    let [group, version, kind] = row.kind.map(Text::from);
    Subresource {
        name: row.name.into(),
        verbs: Verbs::from_verbs(row.verbs),
        action: match row.name {
            "status" => SubresourceAction::Status,
            "approval" => SubresourceAction::Approve,
            "finalize" => SubresourceAction::Finalize,
            "scale" => SubresourceAction::Scale,
            "binding" => SubresourceAction::Bind,
            "eviction" => SubresourceAction::Evict,
            "ephemeralcontainers" => SubresourceAction::EphemeralContainers,
            "resize" => SubresourceAction::Resize,
            "token" => SubresourceAction::Token,
            "log" => SubresourceAction::Connect(ConnectTarget::Log),
            "exec" | "attach" => SubresourceAction::Connect(ConnectTarget::ExecOrAttach),
            "portforward" => SubresourceAction::Connect(ConnectTarget::PortForward),
            "proxy" => SubresourceAction::Connect(ConnectTarget::Proxy),
            _ if kind == owner.kind => SubresourceAction::ReadOnly,
            _ => SubresourceAction::Unserved,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_prefix::REGISTRY_PREFIX;
    use std::collections::BTreeMap;

    /// Two resources share a storage prefix only if they serve the same objects.
    #[test]
    fn builtin_storage_prefixes_do_not_collide() {
        let mut owners: BTreeMap<Text, Vec<String>> = BTreeMap::new();
        for resource in builtin() {
            if let Some(directory) = &resource.key_prefix {
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

    /// Custom objects are stored under group and plural, and their groups contain a dot. A built-in
    /// prefix of that form must belong to the built-in resource of that group and plural, which no
    /// CRD may define.
    #[test]
    fn custom_resource_storage_prefix_never_equals_builtin() {
        for resource in builtin() {
            let prefix = resource.key_prefix.unwrap_or_default();
            let directory = prefix.strip_prefix(REGISTRY_PREFIX).unwrap_or(&prefix);
            let directory = directory.trim_end_matches('/');
            let (group, plural) = directory.split_once('/').unwrap_or((directory, ""));
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

    /// Warnings and errors name an action by its subresource, so an action must identify its path.
    #[test]
    fn writing_subresources_have_distinct_actions() {
        let mut paths: BTreeMap<String, std::collections::BTreeSet<Text>> = BTreeMap::new();
        for sub in builtin().iter().flat_map(|resource| &resource.subresources) {
            if !matches!(
                sub.action,
                SubresourceAction::ReadOnly
                    | SubresourceAction::Unserved
                    | SubresourceAction::Connect(_)
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
    fn strategy_exception_tables_name_served_kinds() {
        let all = builtin();
        let find = |group: &str, plural: &str| {
            all.iter()
                .find(|r| r.group == group && r.plural == plural)
                .unwrap()
        };
        assert!(find("", "configmaps").strategy_options.unconditional_update);
        assert!(
            !find("coordination.k8s.io", "leases")
                .strategy_options
                .unconditional_update
        );
        assert!(
            find("resource.k8s.io", "deviceclasses")
                .strategy_options
                .delete_returns_object
        );
        assert!(
            find("authorization.k8s.io", "subjectaccessreviews")
                .key_prefix
                .is_none()
        );
        assert_eq!(
            find("", "nodes").key_prefix.as_deref(),
            Some("/registry/minions/")
        );
        assert!(all.len() > 60);
    }
}
