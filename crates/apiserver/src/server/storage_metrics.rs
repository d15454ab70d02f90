//! Storage metrics: object counts and store size.

use crate::registry::served_resource::ResourceRegistry;
use optik_store::{Snapshot, StoreStatus};
use std::collections::BTreeSet;

/// Object counts per kind, in the Prometheus format.
pub(crate) fn object_counts(kinds: &ResourceRegistry, state: &Snapshot) -> String {
    let mut directories = BTreeSet::new();
    let (mut storage, mut resources) = (String::new(), String::new());
    for kind in &kinds.all {
        let resource = &kind.resource;
        if !kind.is_stored() || !directories.insert(&resource.key_prefix) {
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

/// The size of the store on disk.
pub(crate) fn storage_size(status: &StoreStatus) -> String {
    // Upstream numbers its etcd clusters; there is one here.
    let mut page = format!(
        "# TYPE apiserver_storage_size_bytes gauge\n\
         apiserver_storage_size_bytes{{storage_cluster_id=\"etcd-0\"}} {}\n",
        status.disk_bytes
    );
    let Some(disk) = status.disk else {
        return page;
    };
    let rows = [
        ("optik_store_live_bytes", "gauge", Some(disk.live_bytes)),
        (
            "optik_store_history_bytes",
            "gauge",
            Some(disk.history_bytes),
        ),
        (
            "optik_store_garbage_bytes",
            "gauge",
            Some(disk.garbage_bytes),
        ),
        (
            "optik_store_appended_bytes_total",
            "counter",
            Some(disk.appended_bytes),
        ),
        (
            "optik_store_cleaned_bytes_total",
            "counter",
            Some(disk.cleaned_bytes),
        ),
        ("optik_store_disk_free_bytes", "gauge", disk.free_bytes),
    ];
    for (name, kind, value) in rows {
        if let Some(value) = value {
            page.push_str(&format!("# TYPE {name} {kind}\n{name} {value}\n"));
        }
    }
    page
}
