//! Cells of services, endpoints, endpoint slices, ingresses, network policies, ServiceCIDRs and IP
//! addresses.

use crate::format::{
    items, joined, labels, lookup, number_at, or_none, selector_or_none, shortened, text_at,
};
use crate::row_writer::RowWriter;
use optik_object::JsonView;
use std::collections::BTreeSet;

pub(crate) fn service(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let kind = text_at(object, &["spec", "type"]);
    let kind = if kind.is_empty() { "ClusterIP" } else { &kind };
    row.name(object);
    row.text(kind);
    let address = items(object, &["spec", "clusterIPs"]).next();
    let address = address.or_else(|| object.get_path(&["spec", "clusterIP"]));
    let address = address
        .and_then(JsonView::as_str)
        .filter(|text| !text.is_empty());
    row.text(address.as_deref().unwrap_or("<none>"));
    row.text(&external_address(object, kind));
    let ports: Vec<String> = items(object, &["spec", "ports"]).map(port).collect();
    row.text(&or_none(ports.join(",")));
    row.age(object);
    row.text(&or_none(labels(object.get_path(&["spec", "selector"]))));
}

fn port(port: JsonView<'_>) -> String {
    let protocol = text_at(port, &["protocol"]);
    let protocol = if protocol.is_empty() {
        "TCP"
    } else {
        &protocol
    };
    let number = number_at(port, &["port"]);
    match number_at(port, &["nodePort"]) {
        node @ 1.. => format!("{number}:{node}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

fn external_address(object: JsonView<'_>, kind: &str) -> String {
    let own = joined(items(object, &["spec", "externalIPs"]), ",");
    match kind {
        "ClusterIP" | "NodePort" => or_none(own),
        "LoadBalancer" => {
            let both = [balancers(object), own];
            let both: Vec<String> = both.into_iter().filter(|text| !text.is_empty()).collect();
            match both.join(",") {
                none if none.is_empty() => "<pending>".into(),
                both => both,
            }
        }
        "ExternalName" => text_at(object, &["spec", "externalName"]).into_owned(),
        _ => "<unknown>".into(),
    }
}

/// The addresses in `status.loadBalancer.ingress`.
fn balancers(object: JsonView<'_>) -> String {
    let ingress = items(object, &["status", "loadBalancer", "ingress"]);
    let addresses: BTreeSet<String> = ingress
        .map(|one| match &*text_at(one, &["ip"]) {
            "" => text_at(one, &["hostname"]).into_owned(),
            ip => ip.to_owned(),
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

pub(crate) fn endpoints(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let mut all = Vec::new();
    for subset in items(object, &["subsets"]) {
        let addresses = || items(subset, &["addresses"]).map(|one| text_at(one, &["ip"]));
        let ports = items(subset, &["ports"]);
        if ports.clone().next().is_none() {
            all.extend(addresses().map(std::borrow::Cow::into_owned));
        }
        for port in ports {
            let port = number_at(port, &["port"]);
            all.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    row.name(object);
    let nothing = match items(object, &["subsets"]).next() {
        None => "<none>",
        Some(_) => "",
    };
    row.text(&shortened(&all, 3, nothing));
    row.age(object);
}

pub(crate) fn endpoint_slice(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["addressType"], "");
    let ports: Vec<String> = items(object, &["ports"])
        .map(|port| match lookup(port, &["port"]) {
            Some(number) => number.as_i64().unwrap_or(0).to_string(),
            None => match lookup(port, &["name"]).and_then(JsonView::as_str) {
                Some(name) => name.into_owned(),
                None => "*".into(),
            },
        })
        .collect();
    row.text(&shortened(&ports, 3, "<unset>"));
    let addresses: Vec<String> = items(object, &["endpoints"])
        .flat_map(|endpoint| items(endpoint, &["addresses"]))
        .filter_map(|address| address.as_str().map(std::borrow::Cow::into_owned))
        .collect();
    row.text(&shortened(&addresses, 3, "<unset>"));
    row.age(object);
}

pub(crate) fn ingress(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text_or(object, &["spec", "ingressClassName"], "<none>");
    row.text(&hosts(object));
    row.text(&balancers(object));
    let encrypted = items(object, &["spec", "tls"]).next().is_some();
    row.text(if encrypted { "80, 443" } else { "80" });
    row.age(object);
}

const HOSTS_MAX: usize = 3;

fn hosts(object: JsonView<'_>) -> String {
    let rules = items(object, &["spec", "rules"]);
    let all = rules.clone().count();
    let mut list: Vec<String> = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == HOSTS_MAX;
        let host = text_at(rule, &["host"]);
        if !more && !host.is_empty() {
            list.push(host.into_owned());
        }
    }
    match list.join(",") {
        none if none.is_empty() => "*".into(),
        shown if more => format!("{shown} + {} more...", all - HOSTS_MAX),
        shown => shown,
    }
}

pub(crate) fn ingress_class(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    let annotations = object.get_path(&["metadata", "annotations"]);
    let default =
        annotations.and_then(|map| map.get("ingressclass.kubernetes.io/is-default-class"));
    let name = text_at(object, &["metadata", "name"]);
    match default.is_some_and(|default| default.equals_str("true")) {
        true => row.text(&format!("{name} (default)")),
        false => row.text(&name),
    }
    row.text_or(object, &["spec", "controller"], "");
    let parameters = lookup(object, &["spec", "parameters"]).map(|parameters| {
        let group = match lookup(parameters, &["apiGroup"]).and_then(JsonView::as_str) {
            Some(group) => format!(".{group}"),
            None => String::new(),
        };
        let kind = text_at(parameters, &["kind"]);
        format!("{kind}{group}/{}", text_at(parameters, &["name"]))
    });
    row.text(parameters.as_deref().unwrap_or("<none>"));
    row.age(object);
}

pub(crate) fn network_policy(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text(&selector_or_none(object.get_path(&["spec", "podSelector"])));
    row.age(object);
}

pub(crate) fn service_cidr(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    row.text(&joined(items(object, &["spec", "cidrs"]), ","));
    row.age(object);
}

pub(crate) fn ip_address(object: JsonView<'_>, row: &mut RowWriter<'_>) {
    row.name(object);
    let parent = lookup(object, &["spec", "parentRef"]).map(|parent| {
        let of = |name: &str| text_at(parent, &[name]).into_owned();
        let group = match of("group") {
            group if group.is_empty() => group,
            group => format!(".{group}"),
        };
        let resource = format!("{}{group}", of("resource")).to_lowercase();
        let parts = [resource, of("namespace"), of("name")];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join("/")
    });
    row.text(parent.as_deref().unwrap_or("<none>"));
    row.age(object);
}
