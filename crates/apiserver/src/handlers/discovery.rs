//! Discovery documents: API groups, versions and resources (WIRE §1.3 to WIRE §1.5).

use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use optik_catalog::{ApiResource, ResponseKind, Subresource, Verb};
use optik_object::Value;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// `/api`
pub(crate) fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Groups in order, each with its versions, the preferred one first.
fn groups(kinds: &ResourceRegistry) -> Vec<(&str, Vec<&str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for kind in &kinds.all {
        let (group, version) = (&*kind.resource.group, &*kind.resource.version);
        // The kinds of a group mostly stand next to each other.
        let last = groups.last().is_some_and(|(name, _)| *name == group);
        let found = if last {
            groups.last_mut()
        } else {
            groups.iter_mut().find(|(name, _)| *name == group)
        };
        match found {
            Some((_, versions)) if versions.contains(&version) => {}
            Some((_, versions)) => versions.push(version),
            None => groups.push((group, vec![version])),
        }
    }
    groups
}

fn group_body((name, versions): &(&str, Vec<&str>)) -> Value {
    let version =
        |version: &&str| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({
        "name": name,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

/// `/apis`
pub(crate) fn group_list(kinds: &ResourceRegistry) -> Value {
    let groups = groups(kinds);
    let named = groups.iter().filter(|(name, _)| !name.is_empty());
    json!({
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": named.map(group_body).collect::<Vec<_>>(),
    })
}

/// `/apis/{group}`
pub(crate) fn group(kinds: &ResourceRegistry, name: &str) -> Option<Value> {
    let groups = groups(kinds);
    let found = groups.iter().find(|(known, _)| *known == name)?;
    let mut body = group_body(found);
    body["kind"] = "APIGroup".into();
    body["apiVersion"] = "v1".into();
    Some(body)
}

fn resources_of_version<'k>(
    kinds: &'k ResourceRegistry,
    group: &'k str,
    version: &'k str,
) -> impl Iterator<Item = &'k Arc<ServedResource>> {
    let all = kinds.all.iter();
    all.filter(move |kind| kind.resource.group == group && kind.resource.version == version)
}

/// `/api/v1`, `/apis/{group}/{version}`
pub(crate) fn resource_list(kinds: &ResourceRegistry, group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for kind in resources_of_version(kinds, group, version) {
        resources.push(resource_entry(kind));
        let subresources = kind.resource.subresources.iter();
        resources.extend(subresources.map(|sub| subresource_entry(kind, sub)));
    }
    let mut body = json!({"kind": "APIResourceList"});
    if !group.is_empty() {
        body["apiVersion"] = "v1".into();
    }
    body["groupVersion"] = if group.is_empty() {
        version.into()
    } else {
        format!("{group}/{version}").into()
    };
    body["resources"] = resources.into();
    body
}

fn resource_entry(kind: &ServedResource) -> Value {
    let resource = &kind.resource;
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": kind.is_namespaced(),
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    if kind.is_stored() {
        entry["storageVersionHash"] = storage_version_hash(kind).into();
    }
    entry
}

/// The `storageVersionHash` of a resource: it changes with the storage version of its kind.
fn storage_version_hash(kind: &ServedResource) -> String {
    let (version, name) = kind.stored_type();
    let version = kind
        .resource
        .strategy_options
        .storage_hash_version
        .unwrap_or(version);
    let slash = if version.contains('/') { "" } else { "/" };
    let digest = Sha256::digest(format!("{slash}{version}/{name}"));
    STANDARD.encode(&digest[..8])
}

fn subresource_entry(kind: &ServedResource, sub: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", kind.resource.plural, sub.name),
        "singularName": "",
        "namespaced": kind.is_namespaced(),
        "kind": sub.kind.kind,
        "verbs": names(sub.verbs.iter()),
    });
    if !sub.kind.version.is_empty() {
        entry["group"] = json!(sub.kind.group);
        entry["version"] = json!(sub.kind.version);
    }
    entry
}

fn verbs(resource: &ApiResource) -> Vec<&'static str> {
    names(resource.verbs.iter_as(resource.verb_order))
}

fn names(verbs: impl Iterator<Item = Verb>) -> Vec<&'static str> {
    verbs.map(Verb::as_str).collect()
}

/// Which groups an aggregated discovery document covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryRoot {
    Api,
    Apis,
}

/// The aggregated discovery document of `/api` or of `/apis`.
pub(crate) fn aggregated(kinds: &ResourceRegistry, part: DiscoveryRoot) -> Value {
    let groups = groups(kinds);
    let wanted = groups
        .iter()
        .filter(|(name, _)| name.is_empty() == (part == DiscoveryRoot::Api));
    let items: Vec<Value> = wanted
        .map(|(name, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let resources: Vec<Value> = resources_of_version(kinds, name, version)
                        .map(|kind| aggregated_resource(kind))
                        .collect();
                    json!({"version": version, "resources": resources, "freshness": "Current"})
                })
                .collect();
            let metadata = if name.is_empty() {
                json!({})
            } else {
                json!({"name": name})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(kind: &ServedResource) -> Value {
    let resource = &kind.resource;
    let scope = if kind.is_namespaced() {
        "Namespaced"
    } else {
        "Cluster"
    };
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": response_kind(kind, None),
        "scope": scope,
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        entry["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        entry["categories"] = json!(resource.categories);
    }
    if !resource.subresources.is_empty() {
        let subs = resource.subresources.iter().map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(kind, Some(&sub.kind)),
                "verbs": names(sub.verbs.iter()),
            })
        });
        entry["subresources"] = subs.collect::<Vec<_>>().into();
    }
    entry
}

/// The `responseKind` of a resource. Built-in kinds omit group and version where they equal those
/// of the endpoint; custom kinds do not.
fn response_kind(kind: &ServedResource, sub: Option<&ResponseKind>) -> Value {
    let resource = &kind.resource;
    let (group, version, name) = match sub {
        Some(sub) if !sub.version.is_empty() => (&*sub.group, &*sub.version, &*sub.kind),
        _ if kind.custom.is_some() => (&*resource.group, &*resource.version, &*resource.kind),
        Some(sub) => ("", "", &*sub.kind),
        None => ("", "", &*resource.kind),
    };
    json!({"group": group, "version": version, "kind": name})
}
