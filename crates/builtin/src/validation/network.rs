//! Validation of Ingress, IngressClass, NetworkPolicy, IPAddress and ServiceCIDR objects.

use super::accessors::{int, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::name_formats::{PORT_RANGE, port_name, wildcard_subdomain};
use super::pods::validate_ip;
use super::selectors::validate_label_selector;
use optik_object::{Object, Value, dns1123_label, dns1123_subdomain, path_segment};
use serde_json::json;
use std::net::IpAddr;

const SPEC: FieldPath<'static> = FieldPath::root("spec");

fn spec(object: &Object) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(crate) fn validate_ingress(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    let backend_path = SPEC.child("defaultBackend");
    if items(&spec["rules"]).is_empty() && !is_set(&spec["defaultBackend"]) {
        let message = "either `defaultBackend` or `rules` must be specified";
        errors.invalid(SPEC, Value::Null, message);
    }
    if is_set(&spec["defaultBackend"]) {
        validate_ingress_backend(backend_path, &spec["defaultBackend"], errors);
    }
    let list = SPEC.child("rules");
    for (at, rule) in items(&spec["rules"]).iter().enumerate() {
        let path = list.index(at);
        validate_ingress_host(path.child("host"), text(&rule["host"]), errors);
        if is_set(&rule["http"]) {
            validate_http_rule(path.child("http"), &rule["http"], errors);
        }
    }
    let list = SPEC.child("tls");
    for (at, tls) in items(&spec["tls"]).iter().enumerate() {
        let path = list.index(at);
        let hosts = path.child("hosts");
        for (at, host) in items(&tls["hosts"]).iter().enumerate() {
            let name = text(host);
            let problems = match name.contains('*') {
                true => wildcard_subdomain(name),
                false => dns1123_subdomain(name),
            };
            errors.problems(hosts.index(at), name, problems);
        }
        let secret = text(&tls["secretName"]);
        if !secret.is_empty() {
            errors.problems(path.child("secretName"), secret, dns1123_subdomain(secret));
        }
    }
    let class = text(&spec["ingressClassName"]);
    if is_set(&spec["ingressClassName"]) {
        errors.problems(
            SPEC.child("ingressClassName"),
            class,
            dns1123_subdomain(class),
        );
    }
}

fn validate_ingress_host(path: FieldPath<'_>, host: &str, errors: &mut Errors) {
    if host.is_empty() {
        return;
    }
    if host.parse::<IpAddr>().is_ok() {
        errors.invalid(path, host, "must be a DNS name, not an IP address");
    }
    let problems = match host.contains('*') {
        true => wildcard_subdomain(host),
        false => dns1123_subdomain(host),
    };
    errors.problems(path, host, problems);
}

fn validate_http_rule(path: FieldPath<'_>, http: &Value, errors: &mut Errors) {
    let list = path.child("paths");
    if items(&http["paths"]).is_empty() {
        errors.required(list, "");
    }
    for (at, one) in items(&http["paths"]).iter().enumerate() {
        validate_http_ingress_path(list.index(at), one, errors);
    }
}

fn validate_http_ingress_path(path: FieldPath<'_>, one: &Value, errors: &mut Errors) {
    let place = text(&one["path"]);
    let own = path.child("path");
    let absolute = "must be an absolute path";
    match one["pathType"].as_str() {
        None => return errors.required(path.child("pathType"), "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !place.starts_with('/') {
                errors.invalid(own, place, absolute);
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if place.contains(part) {
                    errors.invalid(own, place, format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if place.ends_with(end) {
                    errors.invalid(own, place, format!("cannot end with '{end}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !place.is_empty() && !place.starts_with('/') {
                errors.invalid(own, place, absolute);
            }
        }
        Some(other) => {
            let kinds = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.not_supported(path.child("pathType"), other, &kinds);
        }
    }
    validate_ingress_backend(path.child("backend"), &one["backend"], errors);
}

fn validate_ingress_backend(path: FieldPath<'_>, backend: &Value, errors: &mut Errors) {
    let (resource, service) = (&backend["resource"], &backend["service"]);
    match (is_set(resource), is_set(service)) {
        (true, true) => {
            let message = "cannot set both resource and service backends";
            errors.invalid(path, "", message);
        }
        (true, false) => {}
        (false, true) => validate_service_backend(path, service, errors),
        (false, false) => errors.invalid(path, "", "resource or service backend is required"),
    }
}

fn validate_service_backend(path: FieldPath<'_>, service: &Value, errors: &mut Errors) {
    let own = path.child("service");
    let name = text(&service["name"]);
    if name.is_empty() {
        errors.required(own.child("name"), "");
    } else {
        errors.problems(own.child("name"), name, dns1123_label(name));
    }
    let port = own.child("port");
    let name = text(&service["port"]["name"]);
    match (name, int(&service["port"]["number"]).unwrap_or(0)) {
        ("", 0) => errors.required(path, "port name or number is required"),
        ("", number) if !(1..=65535).contains(&number) => {
            errors.invalid(port.child("number"), number, PORT_RANGE);
        }
        ("", _) => {}
        (name, 0) => errors.problems(port.child("name"), name, port_name(name)),
        _ => errors.invalid(path, "", "cannot set both port name & port number"),
    }
}

pub(crate) fn validate_ingress_class(object: &Object, errors: &mut Errors) {
    let controller = text(&spec(object)["controller"]);
    let path = SPEC.child("controller");
    match controller.split_once('/') {
        _ if controller.is_empty() => errors.required(path, ""),
        Some((domain, rest)) if !domain.is_empty() && !rest.is_empty() => {
            errors.problems(path, domain, dns1123_subdomain(domain));
        }
        _ => {
            let message = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.invalid(path, controller, message);
        }
    }
}

pub(crate) fn validate_ingress_class_update(new: &Object, old: &Object, errors: &mut Errors) {
    let (new, old) = (spec(new), spec(old));
    errors.is_fixed(
        SPEC.child("controller"),
        &new["controller"],
        &old["controller"],
    );
}

pub(crate) fn validate_network_policy(object: &Object, errors: &mut Errors) {
    let spec = spec(object);
    validate_label_selector(SPEC.child("podSelector"), &spec["podSelector"], errors);
    for (member, side) in [("ingress", "from"), ("egress", "to")] {
        let list = SPEC.child(member);
        for (at, rule) in items(&spec[member]).iter().enumerate() {
            let path = list.index(at);
            let ports = path.child("ports");
            for (at, port) in items(&rule["ports"]).iter().enumerate() {
                validate_network_policy_port(ports.index(at), port, errors);
            }
            let peers = path.child(side);
            for (at, one) in items(&rule[side]).iter().enumerate() {
                validate_network_policy_peer(peers.index(at), one, errors);
            }
        }
    }
    let list = SPEC.child("policyTypes");
    let types = items(&spec["policyTypes"]);
    if types.len() > 2 {
        let message = "may not specify more than two policyTypes";
        return errors.invalid(list, json!(types), message);
    }
    for (at, kind) in types.iter().enumerate() {
        errors.one_of_or_nothing(list.index(at), text(kind), &["Ingress", "Egress"]);
    }
}

fn validate_network_policy_port(path: FieldPath<'_>, port: &Value, errors: &mut Errors) {
    if is_set(&port["protocol"]) {
        let protocol = text(&port["protocol"]);
        errors.one_of_or_nothing(path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let end = int(&port["endPort"]);
    let last = path.child("endPort");
    match (&port["port"], end) {
        (Value::Null, Some(end)) => {
            let message = "may not be specified when `port` is not specified";
            errors.invalid(last, end, message);
        }
        (Value::Null, None) => {}
        (Value::String(name), end) => {
            if let Some(end) = end {
                let message = "may not be specified when `port` is non-numeric";
                errors.invalid(last, end, message);
            }
            errors.problems(path.child("port"), name, port_name(name));
        }
        (number, end) => {
            let number = int(number).unwrap_or(0);
            if !(1..=65535).contains(&number) {
                errors.invalid(path.child("port"), number, PORT_RANGE);
            }
            if let Some(end) = end {
                if end < number {
                    let message = "must be greater than or equal to `port`";
                    errors.invalid(last, number, message);
                }
                if !(1..=65535).contains(&end) {
                    errors.invalid(last, end, PORT_RANGE);
                }
            }
        }
    }
}

fn validate_network_policy_peer(path: FieldPath<'_>, peer: &Value, errors: &mut Errors) {
    let mut peers = 0;
    for member in ["podSelector", "namespaceSelector"] {
        if is_set(&peer[member]) {
            peers += 1;
            validate_label_selector(path.child(member), &peer[member], errors);
        }
    }
    let block = &peer["ipBlock"];
    if is_set(block) {
        peers += 1;
        let own = path.child("ipBlock");
        match text(&block["cidr"]) {
            "" => errors.required(own.child("cidr"), ""),
            cidr => validate_cidr(own.child("cidr"), cidr, errors),
        }
    }
    if peers == 0 {
        errors.required(path, "must specify a peer");
    } else if peers > 1 && is_set(block) {
        let message = "may not specify both ipBlock and another peer";
        errors.forbidden(path, message);
    }
}

pub(crate) fn validate_cidr(path: FieldPath<'_>, cidr: &str, errors: &mut Errors) {
    let good = cidr.split_once('/').is_some_and(|(address, bits)| {
        let most = match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) => 32,
            Ok(IpAddr::V6(_)) => 128,
            Err(_) => return false,
        };
        bits.parse::<u8>().is_ok_and(|bits| bits <= most)
    });
    if !good {
        let message = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.invalid(path, cidr, message);
    }
}

pub(crate) fn validate_ip_address(object: &Object, errors: &mut Errors) {
    let metadata = FieldPath::root("metadata");
    validate_ip(metadata.child("name"), object.name(), errors);
    let path = SPEC.child("parentRef");
    let parent = &spec(object)["parentRef"];
    if !is_set(parent) {
        return errors.required(path, "");
    }
    let group = text(&parent["group"]);
    if !group.is_empty() {
        errors.problems(path.child("group"), group, dns1123_subdomain(group));
    }
    for (member, needed) in [("resource", true), ("name", true), ("namespace", false)] {
        let own = path.child(member);
        match text(&parent[member]) {
            "" if needed => errors.required(own, ""),
            "" => {}
            name => errors.problems(own, name, path_segment(name)),
        }
    }
}

pub(crate) fn validate_ip_address_update(new: &Object, old: &Object, errors: &mut Errors) {
    let (now, before) = (&spec(new)["parentRef"], &spec(old)["parentRef"]);
    errors.is_fixed(SPEC.child("parentRef"), now, before);
}

pub(crate) fn validate_service_cidr(object: &Object, errors: &mut Errors) {
    let path = SPEC.child("cidrs");
    let cidrs = items(&spec(object)["cidrs"]);
    match cidrs.len() {
        0 => return errors.required(path, "at least one CIDR required"),
        1 | 2 => {}
        _ => {
            let shown = json!({"CIDRs": cidrs});
            return errors.invalid(path, shown, "may only hold up to 2 values");
        }
    }
    for (at, cidr) in cidrs.iter().enumerate() {
        validate_cidr(path.index(at), text(cidr), errors);
    }
    if let [one, two] = cidrs
        && text(one).contains(':') == text(two).contains(':')
    {
        let message = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and \
                       2001:db8::/64";
        errors.invalid(path, json!(cidrs), message);
    }
}
