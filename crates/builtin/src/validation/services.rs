//! Validation of Service, Endpoints and EndpointSlice objects.

use super::accessors::{int, int_or_string, is_set, items, text};
use super::containers::validate_port_or_name;
use super::errors::Errors;
use super::field_path::FieldPath;
use super::name_formats::PORT_RANGE;
use super::pods::validate_ip;
use super::selectors::validate_labels;
use optik_object::{Object, Value, dns1123_label, dns1123_subdomain, qualified_name};
use serde_json::json;
use std::collections::BTreeSet;
use std::net::IpAddr;

const SPEC: FieldPath<'static> = FieldPath::root("spec");
const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn is_headless(spec: &Value) -> bool {
    items(&spec["clusterIPs"])
        .first()
        .is_some_and(|ip| ip == "None")
}

/// Whether a service is reachable from outside the cluster, by its type or its external IPs.
pub(crate) fn is_external(spec: &Value) -> bool {
    let kind = text(&spec["type"]);
    let outside = !items(&spec["externalIPs"]).is_empty();
    kind == "LoadBalancer" || kind == "NodePort" || (kind == "ClusterIP" && outside)
}

pub(crate) fn validate_service(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let kind = text(&spec["type"]);
    let list = SPEC.child("ports");
    let ports = items(&spec["ports"]);
    if ports.is_empty() && !is_headless(spec) && kind != "ExternalName" {
        errors.required(list, "");
    }
    validate_service_type(spec, kind, errors);
    let mut names = BTreeSet::new();
    for (at, one) in ports.iter().enumerate() {
        validate_service_port(list.index(at), one, ports.len() > 1, &mut names, errors);
    }
    validate_labels(SPEC.child("selector"), &spec["selector"], errors);
    validate_session_affinity(spec, errors);
    validate_cluster_ips(spec, errors);
    let externals = SPEC.child("externalIPs");
    for (at, address) in items(&spec["externalIPs"]).iter().enumerate() {
        validate_ip(externals.index(at), text(address), errors);
    }
    errors.one_of(
        SPEC.child("type"),
        kind,
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    validate_unique_service_ports(spec, kind, errors);
    let allocate = SPEC.child("allocateLoadBalancerNodePorts");
    if is_set(&spec["allocateLoadBalancerNodePorts"]) && kind != "LoadBalancer" {
        let message = "may only be used when `type` is 'LoadBalancer'";
        errors.forbidden(allocate, message);
    }
    validate_traffic_policies(spec, errors);
}

fn validate_service_type(spec: &Value, kind: &str, errors: &mut Errors) {
    let ips = SPEC.child("clusterIPs");
    if ["LoadBalancer", "NodePort"].contains(&kind) && is_headless(spec) {
        let message = format!("may not be set to 'None' for {kind} services");
        errors.invalid(ips.index(0), "None", message);
    }
    if kind != "ExternalName" {
        return;
    }
    if !items(&spec["clusterIPs"]).is_empty() {
        errors.forbidden(ips, "may not be set for ExternalName services");
    }
    for member in ["ipFamilies", "ipFamilyPolicy"] {
        if is_set(&spec[member]) {
            let message = "may not be set for ExternalName services";
            errors.forbidden(SPEC.child(member), message);
        }
    }
    let name = text(&spec["externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    let path = SPEC.child("externalName");
    if name.is_empty() {
        errors.required(path, "");
    } else {
        errors.problems(path, name, dns1123_subdomain(name));
    }
}

fn validate_service_port<'a>(
    path: FieldPath<'_>,
    port: &'a Value,
    several: bool,
    names: &mut BTreeSet<&'a str>,
    errors: &mut Errors,
) {
    let name = text(&port["name"]);
    if name.is_empty() {
        if several {
            errors.required(path.child("name"), "");
        }
    } else {
        errors.problems(path.child("name"), name, dns1123_label(name));
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
    }
    let number = int(&port["port"]).unwrap_or(0);
    if !(1..=65535).contains(&number) {
        errors.invalid(path.child("port"), number, PORT_RANGE);
    }
    errors.one_of(path.child("protocol"), text(&port["protocol"]), PROTOCOLS);
    validate_port_or_name(
        path.child("targetPort"),
        &int_or_string(&port["targetPort"]),
        errors,
    );
    if is_set(&port["appProtocol"]) {
        let name = text(&port["appProtocol"]);
        errors.problems(path.child("appProtocol"), name, qualified_name(name));
    }
}

fn validate_session_affinity(spec: &Value, errors: &mut Errors) {
    let kind = text(&spec["sessionAffinity"]);
    errors.one_of(SPEC.child("sessionAffinity"), kind, &["ClientIP", "None"]);
    let path = SPEC.child("sessionAffinityConfig");
    let config = &spec["sessionAffinityConfig"];
    if kind == "None" && is_set(config) {
        let message = "must not be set when session affinity is None";
        errors.forbidden(path, message);
    }
    if kind == "ClientIP" {
        let seconds = int(&config["clientIP"]["timeoutSeconds"]).unwrap_or(0);
        if !(1..=86400).contains(&seconds) {
            let own = path.child("clientIP");
            let message = "must be greater than 0 and less than 86400";
            errors.invalid(own.child("timeoutSeconds"), seconds, message);
        }
    }
}

fn validate_cluster_ips(spec: &Value, errors: &mut Errors) {
    if text(&spec["type"]) == "ExternalName" {
        return;
    }
    let path = SPEC.child("clusterIPs");
    let (first, all) = (text(&spec["clusterIP"]), items(&spec["clusterIPs"]));
    if first.is_empty() && !all.is_empty() {
        let message = "must be empty when `clusterIP` is not specified";
        errors.invalid(path, spec["clusterIPs"].clone(), message);
    } else if !first.is_empty() && all.is_empty() {
        errors.required(path, "");
    } else if !first.is_empty() && text(&all[0]) != first {
        let message = "first value must match `clusterIP`";
        errors.invalid(path, spec["clusterIPs"].clone(), message);
    }
    let families = SPEC.child("ipFamilies");
    let mut known = BTreeSet::new();
    for (at, family) in items(&spec["ipFamilies"]).iter().enumerate() {
        let family = text(family);
        errors.one_of_or_nothing(families.index(at), family, &["IPv4", "IPv6"]);
        if !known.insert(family) {
            errors.duplicate(families.index(at), family);
        }
    }
    let policy = &spec["ipFamilyPolicy"];
    if is_set(policy) {
        errors.one_of_or_nothing(
            SPEC.child("ipFamilyPolicy"),
            text(policy),
            &["PreferDualStack", "RequireDualStack", "SingleStack"],
        );
    }
    for (at, address) in all.iter().enumerate() {
        if at == 0 && address == "None" {
            if all.len() > 1 {
                let message = "'None' must be the first and only value";
                errors.invalid(path, spec["clusterIPs"].clone(), message);
            }
            continue;
        }
        validate_ip(path.index(at), text(address), errors);
    }
    if all.len() > 2 {
        let message = "may only hold up to 2 values";
        errors.invalid(path, spec["clusterIPs"].clone(), message);
    }
}

fn validate_unique_service_ports(spec: &Value, kind: &str, errors: &mut Errors) {
    let list = SPEC.child("ports");
    let ports = items(&spec["ports"]);
    let number = |port: &Value, member: &str| int(&port[member]).unwrap_or(0);
    if kind == "ClusterIP" {
        for (at, port) in ports.iter().enumerate() {
            if number(port, "nodePort") != 0 {
                let message = "may not be used when `type` is 'ClusterIP'";
                errors.forbidden(list.index(at).child("nodePort"), message);
            }
        }
    }
    let mut known = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let node = number(port, "nodePort");
        if node != 0 && !known.insert((text(&port["protocol"]), node)) {
            errors.duplicate(list.index(at).child("nodePort"), node);
        }
    }
    let mut known = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (protocol, number) = (text(&port["protocol"]), number(port, "port"));
        if !known.insert((protocol, number)) {
            let shown = json!({
                "Name": "", "Protocol": protocol, "AppProtocol": null, "Port": number,
                "TargetPort": 0, "NodePort": 0,
            });
            errors.duplicate(list.index(at), shown);
        }
    }
}

fn validate_traffic_policies(spec: &Value, errors: &mut Errors) {
    let policy = text(&spec["externalTrafficPolicy"]);
    let path = SPEC.child("externalTrafficPolicy");
    if is_external(spec) {
        errors.one_of(path, policy, &["Cluster", "Local"]);
    } else if !policy.is_empty() {
        let message = "may only be set for externally-accessible services";
        errors.invalid(path, policy, message);
    }
    let health = int(&spec["healthCheckNodePort"]).unwrap_or(0);
    let checked = text(&spec["type"]) == "LoadBalancer" && policy == "Local";
    if health != 0 && !checked {
        let message = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` \
                       is 'Local'";
        errors.invalid(SPEC.child("healthCheckNodePort"), health, message);
    }
    let inside = &spec["internalTrafficPolicy"];
    if is_set(inside) {
        let path = SPEC.child("internalTrafficPolicy");
        errors.one_of_or_nothing(path, text(inside), &["Cluster", "Local"]);
    }
}

/// A cluster IP is immutable while the service type has one.
pub(crate) fn validate_service_update(new: &Object, old: &Object, errors: &mut Errors) {
    let (new, old) = (spec(new), spec(old));
    let external = |spec: &Value| text(&spec["type"]) == "ExternalName";
    if external(new) || external(old) {
        return;
    }
    let (after, before) = (items(&new["clusterIPs"]), items(&old["clusterIPs"]));
    let path = SPEC.child("clusterIPs");
    let Some(first) = before.first() else {
        return;
    };
    if after.is_empty() {
        errors.invalid(path.index(0), "", "primary clusterIP can not be unset");
    } else if after[0] != *first {
        let message = "may not change once set";
        errors.invalid(path.index(0), new["clusterIPs"].clone(), message);
    }
}

pub(crate) fn validate_endpoints(object: &Object, errors: &mut Errors) {
    let list = FieldPath::root("subsets");
    let subsets = object.get("subsets").unwrap_or(&Value::Null);
    for (at, subset) in items(subsets).iter().enumerate() {
        let path = list.index(at);
        let (ready, others) = (&subset["addresses"], &subset["notReadyAddresses"]);
        if items(ready).is_empty() && items(others).is_empty() {
            errors.required(path, "must specify `addresses` or `notReadyAddresses`");
        }
        for (member, addresses) in [("addresses", ready), ("notReadyAddresses", others)] {
            let list = path.child(member);
            for (at, address) in items(addresses).iter().enumerate() {
                let path = list.index(at);
                validate_ip(path.child("ip"), text(&address["ip"]), errors);
                validate_non_special_ip(path.child("ip"), text(&address["ip"]), errors);
            }
        }
        let ports = path.child("ports");
        let several = items(&subset["ports"]).len() > 1;
        for (at, port) in items(&subset["ports"]).iter().enumerate() {
            validate_endpoint_port(ports.index(at), port, several, errors);
        }
    }
}

fn validate_non_special_ip(path: FieldPath<'_>, address: &str, errors: &mut Errors) {
    let Ok(parsed) = address.parse::<IpAddr>() else {
        return errors.invalid(path, address, "must be a valid IP address");
    };
    let link_local = match parsed {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    if parsed.is_unspecified() {
        let message = format!("may not be unspecified ({address})");
        errors.invalid(path, address, message);
    }
    if parsed.is_loopback() {
        let message = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
        errors.invalid(path, address, message);
    }
    if link_local {
        let message = "may not be in the link-local range (169.254.0.0/16, fe80::/10)";
        errors.invalid(path, address, message);
    }
}

fn validate_endpoint_port(path: FieldPath<'_>, port: &Value, several: bool, errors: &mut Errors) {
    let name = text(&port["name"]);
    if several && name.is_empty() {
        errors.required(path.child("name"), "");
    } else if !name.is_empty() {
        errors.problems(path.child("name"), name, dns1123_label(name));
    }
    let number = int(&port["port"]).unwrap_or(0);
    if !(1..=65535).contains(&number) {
        errors.invalid(path.child("port"), number, PORT_RANGE);
    }
    errors.one_of(path.child("protocol"), text(&port["protocol"]), PROTOCOLS);
}

pub(crate) fn validate_endpoint_slice(object: &Object, errors: &mut Errors) {
    let member = |name: &str| object.get(name).unwrap_or(&Value::Null);
    let kind = text(member("addressType"));
    let kinds = ["FQDN", "IPv4", "IPv6"];
    errors.one_of(FieldPath::root("addressType"), kind, &kinds);
    let list = FieldPath::root("ports");
    let mut names = BTreeSet::new();
    for (at, port) in items(member("ports")).iter().enumerate() {
        let path = list.index(at);
        let name = text(&port["name"]);
        if !name.is_empty() {
            errors.problems(path.child("name"), name, dns1123_label(name));
        }
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        errors.one_of(path.child("protocol"), text(&port["protocol"]), PROTOCOLS);
    }
    let list = FieldPath::root("endpoints");
    for (at, endpoint) in items(member("endpoints")).iter().enumerate() {
        let path = list.index(at);
        let own = path.child("addresses");
        let addresses = items(&endpoint["addresses"]);
        if addresses.is_empty() {
            errors.required(own, "must contain at least 1 address");
        } else if addresses.len() > 100 {
            errors.too_many(own, addresses.len(), 100);
        }
        for (at, address) in addresses.iter().enumerate() {
            if kind.starts_with("IPv") {
                validate_slice_ip(own, at, kind, text(address), errors);
            }
        }
    }
}

fn validate_slice_ip(
    path: FieldPath<'_>,
    at: usize,
    kind: &str,
    address: &str,
    errors: &mut Errors,
) {
    match address.parse::<IpAddr>() {
        Err(_) => validate_ip(path.index(at), address, errors),
        Ok(parsed) => {
            if parsed.is_ipv4() != (kind == "IPv4") {
                errors.invalid(path, address, format!("must be an {kind} address"));
            }
            validate_non_special_ip(path.index(at), address, errors);
        }
    }
}

pub(crate) fn validate_endpoint_slice_update(new: &Object, old: &Object, errors: &mut Errors) {
    let of = |object: &Object| object.get("addressType").cloned().unwrap_or(Value::Null);
    errors.is_fixed(FieldPath::root("addressType"), &of(new), &of(old));
}
