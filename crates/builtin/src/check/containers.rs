//! The containers of a pod.

use super::errors::Errors;
use super::path::Path;
use super::read::{flag, int, is_set, items, shown, text};
use super::resources;
use super::volumes::{Mountable, descending_path, field_selector, resource_selector};
use super::words::{PORT_RANGE, config_key, environment_name, header_name, port_name};
use optik_object::{Value, dns_label, dns_subdomain};
use std::collections::BTreeSet;

/// What containers are checked against.
pub(crate) struct Around<'a> {
    pub(crate) volumes: Mountable<'a>,
    pub(crate) claims: BTreeSet<&'a str>,
    pub(crate) restart_policy: &'a str,
    pub(crate) grace: Option<i64>,
    pub(crate) host_users: bool,
    pub(crate) os: &'a Value,
}

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];
const ENVIRONMENT_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(crate) fn containers(path: Path<'_>, list: &Value, around: &Around<'_>, errors: &mut Errors) {
    let list = items(list);
    if list.is_empty() {
        return errors.required(path, "");
    }
    let mut names = BTreeSet::new();
    for (at, container) in list.iter().enumerate() {
        let path = path.index(at);
        common(path, container, around, errors);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        lifecycle(
            path.child("lifecycle"),
            &container["lifecycle"],
            around,
            errors,
        );
        probes(path, container, around, errors);
        restart_policy(path, container, errors);
    }
    host_ports(path, list, errors);
}

pub(crate) fn init_containers(
    path: Path<'_>,
    list: &Value,
    others: &Value,
    around: &Around<'_>,
    errors: &mut Errors,
) {
    let mut names: BTreeSet<&str> = items(others).iter().map(|one| text(&one["name"])).collect();
    for (at, container) in items(list).iter().enumerate() {
        let (parent, path) = (path, path.index(at));
        common(path, container, around, errors);
        restart_policy(path, container, errors);
        let stays = text(&container["restartPolicy"]) == "Always";
        let name = text(&container["name"]);
        if names.contains(name) {
            errors.duplicate(path.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        host_ports(parent, std::slice::from_ref(container), errors);
        if stays {
            lifecycle(
                path.child("lifecycle"),
                &container["lifecycle"],
                around,
                errors,
            );
            probes(path, container, around, errors);
            continue;
        }
        for member in [
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ] {
            if is_set(&container[member]) {
                let message = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(path.child(member), message);
            }
        }
    }
}

pub(crate) fn ephemeral_containers(
    path: Path<'_>,
    spec: &Value,
    around: &Around<'_>,
    errors: &mut Errors,
) {
    let others = ["containers", "initContainers"].into_iter();
    let others = others.flat_map(|list| items(&spec[list]));
    let others: BTreeSet<&str> = others.map(|one| text(&one["name"])).collect();
    let mut names = others.clone();
    for (at, container) in items(&spec["ephemeralContainers"]).iter().enumerate() {
        let path = path.index(at);
        common(path, container, around, errors);
        trimmed_image(path, container, errors);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        let target = text(&container["targetContainerName"]);
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(path.child("targetContainerName"), target);
        }
        for member in [
            "ports",
            "resources",
            "lifecycle",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
            "resizePolicy",
            "restartPolicy",
        ] {
            let value = &container[member];
            let empty = value.as_object().is_some_and(|members| members.is_empty());
            if is_set(value) && !empty {
                let message = "cannot be set for an Ephemeral Container";
                errors.forbidden(path.child(member), message);
            }
        }
    }
}

/// Only whole pods are as strict.
pub(crate) fn trimmed_images(path: Path<'_>, list: &Value, errors: &mut Errors) {
    for (at, container) in items(list).iter().enumerate() {
        trimmed_image(path.index(at), container, errors);
    }
}

fn trimmed_image(path: Path<'_>, container: &Value, errors: &mut Errors) {
    let image = text(&container["image"]);
    if image.trim() != image {
        let message = "must not have leading or trailing whitespace";
        errors.invalid(path.child("image"), image, message);
    }
}

fn common(path: Path<'_>, container: &Value, around: &Around<'_>, errors: &mut Errors) {
    let name = text(&container["name"]);
    if name.is_empty() {
        errors.required(path.child("name"), "");
    } else {
        errors.problems(path.child("name"), name, dns_label(name));
    }
    if text(&container["image"]).is_empty() {
        errors.required(path.child("image"), "");
    }
    errors.one_of(
        path.child("terminationMessagePolicy"),
        text(&container["terminationMessagePolicy"]),
        &["File", "FallbackToLogsOnError"],
    );
    ports(path.child("ports"), &container["ports"], errors);
    environment(path.child("env"), &container["env"], errors);
    environment_sources(path.child("envFrom"), &container["envFrom"], errors);
    mounts(path.child("volumeMounts"), container, around, errors);
    devices(path.child("volumeDevices"), container, around, errors);
    errors.one_of(
        path.child("imagePullPolicy"),
        text(&container["imagePullPolicy"]),
        &["Always", "IfNotPresent", "Never"],
    );
    let resources = &container["resources"];
    resources::requirements(path.child("resources"), resources, &around.claims, errors);
    resize_policy(path.child("resizePolicy"), container, around, errors);
    security_context(
        path.child("securityContext"),
        &container["securityContext"],
        around,
        errors,
    );
}

fn port_number(path: Path<'_>, port: i64, errors: &mut Errors) {
    if !(1..=65535).contains(&port) {
        errors.invalid(path, port, PORT_RANGE);
    }
}

/// A port by its number or by its name.
pub(crate) fn port_or_name(path: Path<'_>, port: &Value, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.problems(path, name, port_name(name)),
        other => port_number(path, int(other).unwrap_or(0), errors),
    }
}

fn ports(path: Path<'_>, list: &Value, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for (at, port) in items(list).iter().enumerate() {
        let path = path.index(at);
        let name = text(&port["name"]);
        if !name.is_empty() {
            let problems = port_name(name);
            if !problems.is_empty() {
                errors.problems(path.child("name"), name, problems);
            } else if !names.insert(name) {
                errors.duplicate(path.child("name"), name);
            }
        }
        match int(&port["containerPort"]).unwrap_or(0) {
            0 => errors.required(path.child("containerPort"), ""),
            number => port_number(path.child("containerPort"), number, errors),
        }
        match int(&port["hostPort"]).unwrap_or(0) {
            0 => {}
            number => port_number(path.child("hostPort"), number, errors),
        }
        errors.one_of(path.child("protocol"), text(&port["protocol"]), PROTOCOLS);
    }
}

/// A port of the host is given once.
fn host_ports(path: Path<'_>, containers: &[Value], errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        for (port_at, port) in items(&container["ports"]).iter().enumerate() {
            let number = int(&port["hostPort"]).unwrap_or(0);
            if number == 0 {
                continue;
            }
            let (protocol, ip) = (text(&port["protocol"]), text(&port["hostIP"]));
            let place = format!("{protocol}/{ip}/{number}");
            if !taken.insert(place.clone()) {
                let container = path.index(at);
                let ports = container.child("ports");
                errors.duplicate(ports.index(port_at).child("hostPort"), place);
            }
        }
    }
}

fn environment(path: Path<'_>, list: &Value, errors: &mut Errors) {
    for (at, variable) in items(list).iter().enumerate() {
        let path = path.index(at);
        let name = text(&variable["name"]);
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else {
            errors.problems(path.child("name"), name, environment_name(name));
        }
        if is_set(&variable["valueFrom"]) {
            value_source(path.child("valueFrom"), variable, errors);
        }
    }
}

fn value_source(path: Path<'_>, variable: &Value, errors: &mut Errors) {
    let source = &variable["valueFrom"];
    let mut sources = 0;
    if is_set(&source["fieldRef"]) {
        sources += 1;
        let path = path.child("fieldRef");
        field_selector(path, &source["fieldRef"], ENVIRONMENT_FIELDS, errors);
    }
    if is_set(&source["resourceFieldRef"]) {
        sources += 1;
        let path = path.child("resourceFieldRef");
        resource_selector(path, &source["resourceFieldRef"], false, errors);
    }
    for member in ["configMapKeyRef", "secretKeyRef"] {
        if is_set(&source[member]) {
            sources += 1;
            key_selector(path.child(member), &source[member], errors);
        }
    }
    sources += usize::from(is_set(&source["fileKeyRef"]));
    if sources == 0 {
        let message = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, \
                       `secretKeyRef` or `fileKeyRef`";
        errors.invalid(path, "", message);
    } else if !text(&variable["value"]).is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if sources > 1 {
        let message = "may not have more than one field specified at a time";
        errors.invalid(path, "", message);
    }
}

fn key_selector(path: Path<'_>, reference: &Value, errors: &mut Errors) {
    let name = text(&reference["name"]);
    errors.problems(path.child("name"), name, dns_subdomain(name));
    match text(&reference["key"]) {
        "" => errors.required(path.child("key"), ""),
        key => errors.problems(path.child("key"), key, config_key(key)),
    }
}

fn environment_sources(path: Path<'_>, list: &Value, errors: &mut Errors) {
    for (at, source) in items(list).iter().enumerate() {
        let own = path.index(at);
        let prefix = text(&source["prefix"]);
        if !prefix.is_empty() {
            errors.problems(own.child("prefix"), prefix, environment_name(prefix));
        }
        let mut sources = 0;
        for member in ["configMapRef", "secretRef"] {
            if !is_set(&source[member]) {
                continue;
            }
            sources += 1;
            let reference = own.child(member);
            match text(&source[member]["name"]) {
                "" => errors.required(reference.child("name"), ""),
                name => errors.problems(reference.child("name"), name, dns_subdomain(name)),
            }
        }
        if sources == 0 {
            let message = "must specify one of: `configMapRef` or `secretRef`";
            errors.invalid(path, "", message);
        } else if sources > 1 {
            let message = "may not have more than one field specified at a time";
            errors.invalid(path, "", message);
        }
    }
}

/// Volumes of a container, in one of two lists: what they are called, and where they are.
struct Attached<'a> {
    names: BTreeSet<&'a str>,
    places: BTreeSet<&'a str>,
}

impl<'a> Attached<'a> {
    fn of(list: &'a Value, place: &str) -> Self {
        Self {
            names: items(list).iter().map(|one| text(&one["name"])).collect(),
            places: items(list).iter().map(|one| text(&one[place])).collect(),
        }
    }
}

fn mounts(path: Path<'_>, container: &Value, around: &Around<'_>, errors: &mut Errors) {
    let devices = Attached::of(&container["volumeDevices"], "devicePath");
    let mut places = BTreeSet::new();
    for (at, mount) in items(&container["volumeMounts"]).iter().enumerate() {
        let own = path.index(at);
        let (name, place) = (text(&mount["name"]), text(&mount["mountPath"]));
        if name.is_empty() {
            errors.required(own.child("name"), "");
        }
        if !around.volumes.has(name) {
            errors.not_found(own.child("name"), name);
        }
        if place.is_empty() {
            errors.required(own.child("mountPath"), "");
        }
        if !places.insert(place) {
            errors.invalid(own.child("mountPath"), place, "must be unique");
        }
        if devices.names.contains(name) {
            let message = "must not already exist in volumeDevices";
            errors.invalid(own.child("name"), name, message);
        }
        if devices.places.contains(place) {
            let message = "must not already exist as a path in volumeDevices";
            errors.invalid(own.child("mountPath"), place, message);
        }
        let (below, computed) = (text(&mount["subPath"]), text(&mount["subPathExpr"]));
        if !below.is_empty() {
            descending_path(path.child("subPath"), below, errors);
        }
        if !computed.is_empty() {
            if !below.is_empty() {
                let message = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(own.child("subPathExpr"), computed, message);
            }
            descending_path(path.child("subPathExpr"), computed, errors);
        }
        propagation(path.child("mountPropagation"), mount, container, errors);
    }
}

fn propagation(path: Path<'_>, mount: &Value, container: &Value, errors: &mut Errors) {
    if !is_set(&mount["mountPropagation"]) {
        return;
    }
    let wanted = text(&mount["mountPropagation"]);
    errors.one_of_or_nothing(path, wanted, &["Bidirectional", "HostToContainer", "None"]);
    let privileged = flag(&container["securityContext"]["privileged"]);
    if wanted == "Bidirectional" && !privileged {
        let message = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(path, message);
    }
}

fn devices(path: Path<'_>, container: &Value, around: &Around<'_>, errors: &mut Errors) {
    let mounts = Attached::of(&container["volumeMounts"], "mountPath");
    let (mut names, mut places) = (BTreeSet::new(), BTreeSet::new());
    for (at, device) in items(&container["volumeDevices"]).iter().enumerate() {
        let path = path.index(at);
        let (name, place) = (text(&device["name"]), text(&device["devicePath"]));
        if name.is_empty() {
            errors.required(path.child("name"), "");
        }
        if names.contains(name) {
            errors.invalid(path.child("name"), name, "must be unique");
        }
        if around.volumes.has(name) && !around.volumes.is_block(name) {
            let message = "can only use volume source type of PersistentVolumeClaim or Ephemeral \
                           for block mode";
            errors.invalid(path.child("name"), name, message);
        }
        if !around.volumes.has(name) {
            errors.not_found(path.child("name"), name);
        }
        if place.is_empty() {
            errors.required(path.child("devicePath"), "");
        }
        if places.contains(place) {
            errors.invalid(path.child("devicePath"), place, "must be unique");
        }
        if place.split('/').any(|part| part == "..") {
            let message = "can not contain backsteps ('..')";
            errors.invalid(path.child("devicePath"), place, message);
        } else {
            places.insert(place);
        }
        if mounts.names.contains(name) {
            let message = "must not already exist in volumeMounts";
            errors.invalid(path.child("name"), name, message);
        }
        if mounts.places.contains(place) {
            let message = "must not already exist as a path in volumeMounts";
            errors.invalid(path.child("devicePath"), place, message);
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn resize_policy(path: Path<'_>, container: &Value, around: &Around<'_>, errors: &mut Errors) {
    let mut known = BTreeSet::new();
    for (at, policy) in items(&container["resizePolicy"]).iter().enumerate() {
        let resource = text(&policy["resourceName"]);
        if !known.insert(resource) {
            errors.duplicate(path.index(at), resource);
        }
        errors.one_of(path, resource, &["cpu", "memory"]);
        let restart = text(&policy["restartPolicy"]);
        errors.one_of(path, restart, &["NotRequired", "RestartContainer"]);
        if around.restart_policy == "Never" && restart != "NotRequired" {
            let message = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, restart, message);
        }
    }
}

pub(crate) const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";

pub(crate) fn numeric_id(path: Path<'_>, id: &Value, errors: &mut Errors) {
    if let Some(id) = int(id)
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        errors.invalid(path, id, ID_RANGE);
    }
}

fn security_context(path: Path<'_>, context: &Value, around: &Around<'_>, errors: &mut Errors) {
    if !is_set(context) {
        return;
    }
    numeric_id(path.child("runAsUser"), &context["runAsUser"], errors);
    numeric_id(path.child("runAsGroup"), &context["runAsGroup"], errors);
    let mount = &context["procMount"];
    if is_set(mount) {
        let path = path.child("procMount");
        errors.one_of_or_nothing(path, text(mount), &["Default", "Unmasked"]);
        if around.host_users && mount == "Unmasked" {
            let message = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(path, text(mount), message);
        }
    }
    super::pods::seccomp(
        path.child("seccompProfile"),
        &context["seccompProfile"],
        errors,
    );
    if context["allowPrivilegeEscalation"] == Value::Bool(false) {
        if flag(&context["privileged"]) {
            let message = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, context.clone(), message);
        }
        let added = items(&context["capabilities"]["add"]);
        if added.iter().any(|one| one == "CAP_SYS_ADMIN") {
            let message = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` \
                           CAP_SYS_ADMIN";
            errors.invalid(path, context.clone(), message);
        }
    }
}

fn lifecycle(path: Path<'_>, lifecycle: &Value, around: &Around<'_>, errors: &mut Errors) {
    for member in ["postStart", "preStop"] {
        if is_set(&lifecycle[member]) {
            handler(path.child(member), &lifecycle[member], around.grace, errors);
        }
    }
    if is_set(&lifecycle["stopSignal"]) && !is_set(around.os) {
        let message = "may not be set for containers with empty `spec.os.name`";
        errors.forbidden(path.child("stopSignal"), message);
    }
}

fn probes(path: Path<'_>, container: &Value, around: &Around<'_>, errors: &mut Errors) {
    for member in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let check = &container[member];
        if !is_set(check) {
            continue;
        }
        let path = path.child(member);
        probe(path, check, around, errors);
        let threshold = int(&check["successThreshold"]).unwrap_or(0);
        if member != "readinessProbe" && threshold != 1 {
            errors.invalid(path.child("successThreshold"), threshold, "must be 1");
        }
        let grace = &check["terminationGracePeriodSeconds"];
        if member == "readinessProbe" && is_set(grace) {
            let message = "must not be set for readinessProbes";
            let path = path.child("terminationGracePeriodSeconds");
            errors.invalid(path, grace.clone(), message);
        }
    }
}

fn probe(path: Path<'_>, probe: &Value, around: &Around<'_>, errors: &mut Errors) {
    handler(path, probe, around.grace, errors);
    for member in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        errors.non_negative(path.child(member), int(&probe[member]));
    }
    if let Some(grace) = int(&probe["terminationGracePeriodSeconds"])
        && grace <= 0
    {
        let path = path.child("terminationGracePeriodSeconds");
        errors.invalid(path, grace, "must be greater than 0");
    }
}

fn handler(path: Path<'_>, handler: &Value, grace: Option<i64>, errors: &mut Errors) {
    let mut handlers = 0;
    for member in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        let action = &handler[member];
        if !is_set(action) {
            continue;
        }
        let path = path.child(member);
        if handlers > 0 {
            errors.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        handlers += 1;
        match member {
            "exec" if items(&action["command"]).is_empty() => {
                errors.required(path.child("command"), "");
            }
            "httpGet" => http_get(path, action, errors),
            "tcpSocket" | "grpc" => {
                port_or_name(path.child("port"), &shown(&action["port"]), errors);
            }
            "sleep" => sleep(path, action, grace, errors),
            _ => {}
        }
    }
    if handlers == 0 {
        errors.required(path, "must specify a handler type");
    }
}

fn sleep(path: Path<'_>, action: &Value, grace: Option<i64>, errors: &mut Errors) {
    let seconds = int(&action["seconds"]).unwrap_or(0);
    let Some(grace) = grace else {
        return;
    };
    if seconds < 0 || seconds > grace {
        let message =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(path, seconds, message);
    }
}

fn http_get(path: Path<'_>, action: &Value, errors: &mut Errors) {
    if text(&action["path"]).is_empty() {
        errors.required(path.child("path"), "");
    }
    port_or_name(path.child("port"), &shown(&action["port"]), errors);
    let scheme = text(&action["scheme"]);
    errors.one_of_or_nothing(path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    for header in items(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        errors.problems(path.child("httpHeaders"), name, header_name(name));
    }
}

fn restart_policy(path: Path<'_>, container: &Value, errors: &mut Errors) {
    let (policy, rules) = (
        &container["restartPolicy"],
        items(&container["restartPolicyRules"]),
    );
    let own = path.child("restartPolicy");
    if !is_set(policy) && !rules.is_empty() {
        errors.required(
            own,
            "must specify restartPolicy when restart rules are used",
        );
    }
    if is_set(policy) {
        errors.one_of_or_nothing(own, text(policy), &["Always", "Never", "OnFailure"]);
    }
    if rules.len() > 20 {
        errors.too_many(path.child("restartPolicyRules"), rules.len(), 20);
    }
}
