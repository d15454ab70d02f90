//! Resolves services to addresses, for a server outside the cluster network.
//!
//! Ready endpoints come first, as upstream does when cluster IPs are not routable for it
//! (aggregator routing); without endpoints the cluster IP, as upstream does otherwise.

use crate::registry::served_resource::parse_stored;
use optik_catalog::key_prefix;
use optik_object::{Object, Value};
use optik_store::{KeyRange, Snapshot, Store};

const SERVICES_DIRECTORY: &str = key_prefix("", "services");
const ENDPOINT_SLICES_DIRECTORY: &str = key_prefix("discovery.k8s.io", "endpointslices");

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceReference {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) port: i64,
}

/// `host:port`, or why there is none.
pub(super) fn resolve(service: &ServiceReference, store: &Store) -> Result<String, String> {
    let state = store.snapshot();
    let ServiceReference {
        namespace,
        name,
        port,
    } = service;
    let key = format!("{SERVICES_DIRECTORY}{namespace}/{name}");
    let stored = state.get(key.as_bytes());
    let object = stored.and_then(|stored| parse_stored(stored.value()).ok());
    let object = object.ok_or_else(|| format!("service \"{name}\" not found"))?;
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let kind = spec["type"].as_str().unwrap_or("ClusterIP");
    if kind == "ExternalName" {
        let host = spec["externalName"].as_str().unwrap_or_default();
        return Ok(format!("{host}:{port}"));
    }
    let mut ports = spec["ports"].as_array().into_iter().flatten();
    let found = ports.find(|found| found["port"].as_i64() == Some(*port));
    let found =
        found.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
    if let Some(address) = ready_endpoint(service, found, &state) {
        return Ok(address);
    }
    match spec["clusterIP"].as_str() {
        Some("None") => Err("cannot route to service with ClusterIP \"None\"".into()),
        Some(host) if host.contains(':') => Ok(format!("[{host}]:{port}")),
        Some(host) if !host.is_empty() => Ok(format!("{host}:{port}")),
        _ => Err(format!("no endpoints available for service \"{name}\"")),
    }
}

/// The first ready address.
fn ready_endpoint(service: &ServiceReference, port: &Value, state: &Snapshot) -> Option<String> {
    let range = KeyRange::prefix(format!("{ENDPOINT_SLICES_DIRECTORY}{}/", service.namespace));
    state.entries(&range).find_map(|stored| {
        let slice = parse_stored(stored.value()).ok()?;
        if slice.label("kubernetes.io/service-name") != Some(&service.name) {
            return None;
        }
        ready_address_in(&slice, port)
    })
}

fn ready_address_in(slice: &Object, port: &Value) -> Option<String> {
    let name = |port: &Value| port["name"].as_str().unwrap_or_default().to_owned();
    let wanted = name(port);
    let mut ports = slice.get("ports")?.as_array()?.iter();
    let number = ports.find(|port| name(port) == wanted)?["port"].as_i64()?;
    let mut endpoints = slice.get("endpoints")?.as_array()?.iter();
    let ready = endpoints.find(|endpoint| endpoint["conditions"]["ready"] != Value::Bool(false))?;
    let host = ready["addresses"].get(0)?.as_str()?;
    Some(match host.contains(':') {
        true => format!("[{host}]:{number}"),
        false => format!("{host}:{number}"),
    })
}
