//! Validation of the containers of a pod.

use super::accessors::{flag, int, int_or_string, is_set, items, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::name_formats::{PORT_RANGE, config_key, environment_name, header_name, port_name};
use super::resources;
use super::volumes::{
    PodVolumes, validate_field_selector, validate_local_descending_path, validate_resource_selector,
};
use optik_object::{Value, dns1123_label, dns1123_subdomain};
use std::collections::BTreeSet;

/// The properties of the pod that container validation needs.
pub(crate) struct ContainerContext<'a> {
    pub(crate) volumes: PodVolumes<'a>,
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

pub(crate) fn validate_containers(
    path: FieldPath<'_>,
    list: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    let list = items(list);
    if list.is_empty() {
        return errors.required(path, "");
    }
    let mut names = BTreeSet::new();
    for (at, container) in list.iter().enumerate() {
        let path = path.index(at);
        validate_container_common(path, container, around, errors);
        let name = text(&container["name"]);
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        validate_lifecycle(
            path.child("lifecycle"),
            &container["lifecycle"],
            around,
            errors,
        );
        validate_probes(path, container, around, errors);
        validate_restart_policy(path, container, errors);
    }
    validate_host_ports(path, list, errors);
}

pub(crate) fn validate_init_containers(
    path: FieldPath<'_>,
    list: &Value,
    others: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    let mut names: BTreeSet<&str> = items(others).iter().map(|one| text(&one["name"])).collect();
    for (at, container) in items(list).iter().enumerate() {
        let (parent, path) = (path, path.index(at));
        validate_container_common(path, container, around, errors);
        validate_restart_policy(path, container, errors);
        let stays = text(&container["restartPolicy"]) == "Always";
        let name = text(&container["name"]);
        if names.contains(name) {
            errors.duplicate(path.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        validate_host_ports(parent, std::slice::from_ref(container), errors);
        if stays {
            validate_lifecycle(
                path.child("lifecycle"),
                &container["lifecycle"],
                around,
                errors,
            );
            validate_probes(path, container, around, errors);
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

pub(crate) fn validate_ephemeral_containers(
    path: FieldPath<'_>,
    spec: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    let others = ["containers", "initContainers"].into_iter();
    let others = others.flat_map(|list| items(&spec[list]));
    let others: BTreeSet<&str> = others.map(|one| text(&one["name"])).collect();
    let mut names = others.clone();
    for (at, container) in items(&spec["ephemeralContainers"]).iter().enumerate() {
        let path = path.index(at);
        validate_container_common(path, container, around, errors);
        validate_one_image_whitespace(path, container, errors);
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

/// Applies to pods only, not to pod templates.
pub(crate) fn validate_image_whitespace(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
    for (at, container) in items(list).iter().enumerate() {
        validate_one_image_whitespace(path.index(at), container, errors);
    }
}

fn validate_one_image_whitespace(path: FieldPath<'_>, container: &Value, errors: &mut Errors) {
    let image = text(&container["image"]);
    if image.trim() != image {
        let message = "must not have leading or trailing whitespace";
        errors.invalid(path.child("image"), image, message);
    }
}

fn validate_container_common(
    path: FieldPath<'_>,
    container: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    let name = text(&container["name"]);
    if name.is_empty() {
        errors.required(path.child("name"), "");
    } else {
        errors.problems(path.child("name"), name, dns1123_label(name));
    }
    if text(&container["image"]).is_empty() {
        errors.required(path.child("image"), "");
    }
    errors.one_of(
        path.child("terminationMessagePolicy"),
        text(&container["terminationMessagePolicy"]),
        &["File", "FallbackToLogsOnError"],
    );
    validate_ports(path.child("ports"), &container["ports"], errors);
    validate_env(path.child("env"), &container["env"], errors);
    validate_env_from(path.child("envFrom"), &container["envFrom"], errors);
    validate_volume_mounts(path.child("volumeMounts"), container, around, errors);
    validate_volume_devices(path.child("volumeDevices"), container, around, errors);
    errors.one_of(
        path.child("imagePullPolicy"),
        text(&container["imagePullPolicy"]),
        &["Always", "IfNotPresent", "Never"],
    );
    let resources = &container["resources"];
    resources::validate_resource_requirements(
        path.child("resources"),
        resources,
        &around.claims,
        errors,
    );
    validate_resize_policy(path.child("resizePolicy"), container, around, errors);
    validate_security_context(
        path.child("securityContext"),
        &container["securityContext"],
        around,
        errors,
    );
}

fn validate_port_number(path: FieldPath<'_>, port: i64, errors: &mut Errors) {
    if !(1..=65535).contains(&port) {
        errors.invalid(path, port, PORT_RANGE);
    }
}

/// Validates a port number or port name.
pub(crate) fn validate_port_or_name(path: FieldPath<'_>, port: &Value, errors: &mut Errors) {
    match port {
        Value::String(name) => errors.problems(path, name, port_name(name)),
        other => validate_port_number(path, int(other).unwrap_or(0), errors),
    }
}

fn validate_ports(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
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
            number => validate_port_number(path.child("containerPort"), number, errors),
        }
        match int(&port["hostPort"]).unwrap_or(0) {
            0 => {}
            number => validate_port_number(path.child("hostPort"), number, errors),
        }
        errors.one_of(path.child("protocol"), text(&port["protocol"]), PROTOCOLS);
    }
}

/// Reports duplicate host ports.
fn validate_host_ports(path: FieldPath<'_>, containers: &[Value], errors: &mut Errors) {
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

fn validate_env(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
    for (at, variable) in items(list).iter().enumerate() {
        let path = path.index(at);
        let name = text(&variable["name"]);
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else {
            errors.problems(path.child("name"), name, environment_name(name));
        }
        if is_set(&variable["valueFrom"]) {
            validate_env_value_source(path.child("valueFrom"), variable, errors);
        }
    }
}

fn validate_env_value_source(path: FieldPath<'_>, variable: &Value, errors: &mut Errors) {
    let source = &variable["valueFrom"];
    let mut sources = 0;
    if is_set(&source["fieldRef"]) {
        sources += 1;
        let path = path.child("fieldRef");
        validate_field_selector(path, &source["fieldRef"], ENVIRONMENT_FIELDS, errors);
    }
    if is_set(&source["resourceFieldRef"]) {
        sources += 1;
        let path = path.child("resourceFieldRef");
        validate_resource_selector(path, &source["resourceFieldRef"], false, errors);
    }
    for member in ["configMapKeyRef", "secretKeyRef"] {
        if is_set(&source[member]) {
            sources += 1;
            validate_key_selector(path.child(member), &source[member], errors);
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

fn validate_key_selector(path: FieldPath<'_>, reference: &Value, errors: &mut Errors) {
    let name = text(&reference["name"]);
    errors.problems(path.child("name"), name, dns1123_subdomain(name));
    match text(&reference["key"]) {
        "" => errors.required(path.child("key"), ""),
        key => errors.problems(path.child("key"), key, config_key(key)),
    }
}

fn validate_env_from(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
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
                name => errors.problems(reference.child("name"), name, dns1123_subdomain(name)),
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

/// The names and paths of a container's volume mounts or volume devices.
struct VolumeUses<'a> {
    names: BTreeSet<&'a str>,
    places: BTreeSet<&'a str>,
}

impl<'a> VolumeUses<'a> {
    fn new(list: &'a Value, place: &str) -> Self {
        Self {
            names: items(list).iter().map(|one| text(&one["name"])).collect(),
            places: items(list).iter().map(|one| text(&one[place])).collect(),
        }
    }
}

fn validate_volume_mounts(
    path: FieldPath<'_>,
    container: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    let devices = VolumeUses::new(&container["volumeDevices"], "devicePath");
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
            validate_local_descending_path(path.child("subPath"), below, errors);
        }
        if !computed.is_empty() {
            if !below.is_empty() {
                let message = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(own.child("subPathExpr"), computed, message);
            }
            validate_local_descending_path(path.child("subPathExpr"), computed, errors);
        }
        validate_mount_propagation(path.child("mountPropagation"), mount, container, errors);
    }
}

fn validate_mount_propagation(
    path: FieldPath<'_>,
    mount: &Value,
    container: &Value,
    errors: &mut Errors,
) {
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

fn validate_volume_devices(
    path: FieldPath<'_>,
    container: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    let mounts = VolumeUses::new(&container["volumeMounts"], "mountPath");
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

fn validate_resize_policy(
    path: FieldPath<'_>,
    container: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
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

pub(crate) fn validate_user_or_group_id(path: FieldPath<'_>, id: &Value, errors: &mut Errors) {
    if let Some(id) = int(id)
        && !(0..=i64::from(i32::MAX)).contains(&id)
    {
        errors.invalid(path, id, ID_RANGE);
    }
}

fn validate_security_context(
    path: FieldPath<'_>,
    context: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    if !is_set(context) {
        return;
    }
    validate_user_or_group_id(path.child("runAsUser"), &context["runAsUser"], errors);
    validate_user_or_group_id(path.child("runAsGroup"), &context["runAsGroup"], errors);
    let mount = &context["procMount"];
    if is_set(mount) {
        let path = path.child("procMount");
        errors.one_of_or_nothing(path, text(mount), &["Default", "Unmasked"]);
        if around.host_users && mount == "Unmasked" {
            let message = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(path, text(mount), message);
        }
    }
    super::pods::validate_seccomp_profile(
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

fn validate_lifecycle(
    path: FieldPath<'_>,
    lifecycle: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    for member in ["postStart", "preStop"] {
        if is_set(&lifecycle[member]) {
            validate_handler(path.child(member), &lifecycle[member], around.grace, errors);
        }
    }
    if is_set(&lifecycle["stopSignal"]) && !is_set(around.os) {
        let message = "may not be set for containers with empty `spec.os.name`";
        errors.forbidden(path.child("stopSignal"), message);
    }
}

fn validate_probes(
    path: FieldPath<'_>,
    container: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    for member in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let check = &container[member];
        if !is_set(check) {
            continue;
        }
        let path = path.child(member);
        validate_probe(path, check, around, errors);
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

fn validate_probe(
    path: FieldPath<'_>,
    probe: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    validate_handler(path, probe, around.grace, errors);
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

fn validate_handler(path: FieldPath<'_>, handler: &Value, grace: Option<i64>, errors: &mut Errors) {
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
            "httpGet" => validate_http_get(path, action, errors),
            "tcpSocket" | "grpc" => {
                validate_port_or_name(path.child("port"), &int_or_string(&action["port"]), errors);
            }
            "sleep" => validate_sleep(path, action, grace, errors),
            _ => {}
        }
    }
    if handlers == 0 {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_sleep(path: FieldPath<'_>, action: &Value, grace: Option<i64>, errors: &mut Errors) {
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

fn validate_http_get(path: FieldPath<'_>, action: &Value, errors: &mut Errors) {
    if text(&action["path"]).is_empty() {
        errors.required(path.child("path"), "");
    }
    validate_port_or_name(path.child("port"), &int_or_string(&action["port"]), errors);
    let scheme = text(&action["scheme"]);
    errors.one_of_or_nothing(path.child("scheme"), scheme, &["HTTP", "HTTPS"]);
    for header in items(&action["httpHeaders"]) {
        let name = text(&header["name"]);
        errors.problems(path.child("httpHeaders"), name, header_name(name));
    }
}

fn validate_restart_policy(path: FieldPath<'_>, container: &Value, errors: &mut Errors) {
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
