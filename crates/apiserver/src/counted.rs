//! What there is, for those who measure it.

use crate::kinds::Kinds;
use optik_store::Snapshot;
use std::collections::BTreeSet;

/// How many objects there are of each kind, as Prometheus reads it.
pub(crate) fn counted(kinds: &Kinds, state: &Snapshot) -> String {
    let mut directories = BTreeSet::new();
    let (mut storage, mut resources) = (String::new(), String::new());
    for kind in &kinds.all {
        let resource = &kind.resource;
        if !kind.is_kept() || !directories.insert(&resource.storage) {
            continue;
        }
        let count = state.entries(&kind.range(None)).count();
        let name = &resource.plural;
        let full = match &*resource.group {
            "" => name.to_string(),
            group => format!("{name}.{group}"),
        };
        storage.push_str(&format!(
            "apiserver_storage_objects{{resource=\"{full}\"}} {count}\n"
        ));
        let group = &resource.group;
        resources.push_str(&format!(
            "apiserver_resource_objects{{group=\"{group}\",resource=\"{name}\"}} {count}\n"
        ));
    }
    format!(
        "# TYPE apiserver_storage_objects gauge\n{storage}\
         # TYPE apiserver_resource_objects gauge\n{resources}"
    )
}
