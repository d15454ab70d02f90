//! Validation of pods and pod templates.

use super::accessors::{entries, flag, int, is_set, items, text};
use super::containers::{
    ContainerContext, validate_containers, validate_ephemeral_containers,
    validate_image_whitespace, validate_init_containers, validate_user_or_group_id,
};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::selectors::{validate_annotations, validate_label_selector, validate_labels};
use super::volumes::{validate_local_descending_path, validate_volumes};
use super::{go_diff, resources};
use optik_object::{
    Object, Value, dns1123_label, dns1123_subdomain, label_value, qualified_name, to_bytes,
};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const SPEC: FieldPath<'static> = FieldPath::root("spec");

pub(crate) fn validate_pod(object: &Object, errors: &mut Errors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    validate_pod_spec(SPEC, spec, PodOwner::Pod(object.name()), errors);
    if text(&spec["serviceAccountName"]).is_empty() {
        validate_token_volumes_need_service_account(spec, errors);
    }
    validate_image_whitespace(SPEC.child("containers"), &spec["containers"], errors);
    validate_image_whitespace(
        SPEC.child("initContainers"),
        &spec["initContainers"],
        errors,
    );
}

pub(crate) fn validate_pod_create(object: &Object, errors: &mut Errors) {
    validate_pod(object, errors);
    let spec = object.get("spec").unwrap_or(&Value::Null);
    if !items(&spec["ephemeralContainers"]).is_empty() {
        errors.forbidden(SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(&spec["nodeName"]).is_empty() && !items(&spec["schedulingGates"]).is_empty() {
        let message = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(SPEC.child("nodeName"), message);
    }
}

fn validate_token_volumes_need_service_account(spec: &Value, errors: &mut Errors) {
    let list = SPEC.child("volumes");
    for (at, volume) in items(&spec["volumes"]).iter().enumerate() {
        let volume_path = list.index(at);
        let projected = volume_path.child("projected");
        let sources = projected.child("sources");
        for (at, source) in items(&volume["projected"]["sources"]).iter().enumerate() {
            if is_set(&source["serviceAccountToken"]) {
                let message = "must not be specified when serviceAccountName is not set";
                errors.forbidden(sources.index(at).child("serviceAccountToken"), message);
            }
        }
    }
}

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Only some fields of a pod are mutable.
pub(crate) fn validate_pod_update(new: &Object, old: &Object, errors: &mut Errors) {
    let empty = Value::Null;
    let spec = new.get("spec").unwrap_or(&empty);
    let before = old.get("spec").unwrap_or(&empty);
    validate_pod(new, errors);
    for list in ["containers", "initContainers"] {
        let path = SPEC.child(list);
        if items(&spec[list]).len() != items(&before[list]).len() {
            let message = "pod updates may not add or remove containers";
            return errors.forbidden(path, message);
        }
        for (at, container) in items(&spec[list]).iter().enumerate() {
            let image = text(&container["image"]);
            if image.is_empty() {
                errors.required(path.index(at).child("image"), "");
            }
            if image.trim() != image {
                let message = "must not have leading or trailing whitespace";
                errors.invalid(path.index(at).child("image"), image, message);
            }
        }
    }
    if !validate_active_deadline_update(spec, before, errors) {
        return;
    }
    validate_tolerations_only_added(spec, before, errors);
    validate_scheduling_gates_only_removed(spec, before, errors);
    let mut changed = spec.clone();
    for list in ["containers", "initContainers"] {
        let images = items(&before[list]).iter().map(|one| one["image"].clone());
        let containers = changed.get_mut(list).and_then(Value::as_array_mut);
        for (container, image) in containers.into_iter().flatten().zip(images) {
            container["image"] = image;
        }
    }
    for member in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        restore_member(&mut changed, before, member);
    }
    let grace = "terminationGracePeriodSeconds";
    if int(&before[grace]).is_some_and(|seconds| seconds < 0) && changed[grace] == 1 {
        restore_member(&mut changed, before, grace);
    }
    if !items(&before["schedulingGates"]).is_empty() {
        // Until its scheduling gates are removed, a pod may get further scheduling constraints.
        restore_member(&mut changed, before, "nodeSelector");
        restore_member(&mut changed, before, "affinity");
    }
    if changed != *before {
        let difference = go_diff::go_diff("core.PodSpec", before, &changed);
        let message =
            format!("pod updates may not change fields other than {CHANGEABLE}\n{difference}");
        errors.forbidden(SPEC, message);
    }
}

fn restore_member(changed: &mut Value, before: &Value, member: &str) {
    let Some(members) = changed.as_object_mut() else {
        return;
    };
    match before.get(member) {
        Some(value) => drop(members.insert(member.into(), value.clone())),
        None => drop(members.remove(member)),
    }
}

fn validate_active_deadline_update(spec: &Value, before: &Value, errors: &mut Errors) -> bool {
    let path = SPEC.child("activeDeadlineSeconds");
    let (new, old) = (
        int(&spec["activeDeadlineSeconds"]),
        int(&before["activeDeadlineSeconds"]),
    );
    match (new, old) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            errors.invalid(path, new, "must be between 0 and 2147483647, inclusive");
            return false;
        }
        (Some(new), Some(old)) if old < new => {
            errors.invalid(path, new, "must be less than or equal to previous value");
            return false;
        }
        (None, Some(_)) => {
            let message = "must not update from a positive integer to nil value";
            errors.invalid(path, Value::Null, message);
        }
        _ => {}
    }
    true
}

fn validate_tolerations_only_added(spec: &Value, before: &Value, errors: &mut Errors) {
    let path = SPEC.child("tolerations");
    let timeless = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(members) = toleration.as_object_mut() {
            members.remove("tolerationSeconds");
        }
        toleration
    };
    let now = items(&spec["tolerations"]).iter();
    let now: BTreeSet<Vec<u8>> = now.map(|it| to_bytes(&timeless(it))).collect();
    for old in items(&before["tolerations"]) {
        if !now.contains(&to_bytes(&timeless(old))) {
            let message = "existing toleration can not be modified except its tolerationSeconds";
            return errors.forbidden(path, message);
        }
    }
    validate_tolerations(path, &spec["tolerations"], errors);
}

fn validate_scheduling_gates_only_removed(spec: &Value, before: &Value, errors: &mut Errors) {
    let path = SPEC.child("schedulingGates");
    let known = items(&before["schedulingGates"]).iter();
    let known: BTreeSet<Vec<u8>> = known.map(to_bytes).collect();
    for (at, gate) in items(&spec["schedulingGates"]).iter().enumerate() {
        if !known.contains(&to_bytes(gate)) {
            let message = format!(
                "only deletion is allowed, but found new scheduling gate '{}'",
                text(&gate["name"])
            );
            errors.forbidden(path.index(at), message);
        }
    }
}

/// The owner of a pod spec.
#[derive(Clone, Copy)]
pub(crate) enum PodOwner<'a> {
    Pod(&'a str),
    Template,
}

/// Validates the pod template of a workload.
pub(crate) fn validate_pod_template_spec(
    path: FieldPath<'_>,
    template: &Value,
    errors: &mut Errors,
) {
    let metadata = &template["metadata"];
    validate_labels(path.child("labels"), &metadata["labels"], errors);
    validate_annotations(path.child("annotations"), &metadata["annotations"], errors);
    let spec = path.child("spec");
    validate_pod_spec(spec, &template["spec"], PodOwner::Template, errors);
    if !items(&template["spec"]["ephemeralContainers"]).is_empty() {
        let message = "ephemeral containers not allowed in pod template";
        errors.forbidden(spec.child("ephemeralContainers"), message);
    }
}

pub(crate) fn validate_pod_spec(
    path: FieldPath<'_>,
    spec: &Value,
    whose: PodOwner<'_>,
    errors: &mut Errors,
) {
    let grace = int(&spec["terminationGracePeriodSeconds"]);
    if grace.is_none() {
        errors.required(path.child("terminationGracePeriodSeconds"), "");
    }
    let pod = match whose {
        PodOwner::Pod(name) => name,
        PodOwner::Template => "",
    };
    let claims = items(&spec["resourceClaims"]).iter();
    let around = ContainerContext {
        volumes: validate_volumes(path.child("volumes"), &spec["volumes"], pod, errors),
        claims: claims.map(|claim| text(&claim["name"])).collect(),
        restart_policy: text(&spec["restartPolicy"]),
        grace,
        host_users: spec["hostUsers"] != Value::Bool(false),
        os: &spec["os"],
    };
    validate_resource_claims(
        path.child("resourceClaims"),
        &spec["resourceClaims"],
        errors,
    );
    validate_containers(
        path.child("containers"),
        &spec["containers"],
        &around,
        errors,
    );
    validate_init_containers(
        path.child("initContainers"),
        &spec["initContainers"],
        &spec["containers"],
        &around,
        errors,
    );
    validate_ephemeral_containers(path.child("ephemeralContainers"), spec, &around, errors);
    validate_pod_resources(path.child("resources"), spec, &around, errors);
    validate_host_network(path, spec, whose, errors);
    errors.one_of(
        path.child("restartPolicy"),
        text(&spec["restartPolicy"]),
        &["Always", "OnFailure", "Never"],
    );
    errors.one_of(
        path.child("dnsPolicy"),
        text(&spec["dnsPolicy"]),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    validate_labels(path.child("nodeSelector"), &spec["nodeSelector"], errors);
    validate_security_context(path.child("securityContext"), spec, errors);
    validate_affinity(path.child("affinity"), &spec["affinity"], errors);
    validate_dns_config(path.child("dnsConfig"), spec, errors);
    validate_readiness_and_scheduling_gates(path, spec, errors);
    validate_topology_spread_constraints(
        path.child("topologySpreadConstraints"),
        &spec["topologySpreadConstraints"],
        errors,
    );
    validate_pod_spec_names(path, spec, errors);
}

fn validate_resource_claims(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
    let mut known = BTreeSet::new();
    for (at, claim) in items(list).iter().enumerate() {
        let path = path.index(at);
        let name = text(&claim["name"]);
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else if !known.insert(name) {
            errors.duplicate(path.child("name"), name);
        } else {
            errors.problems(path.child("name"), name, dns1123_label(name));
        }
    }
}

fn validate_pod_resources(
    path: FieldPath<'_>,
    spec: &Value,
    around: &ContainerContext<'_>,
    errors: &mut Errors,
) {
    if is_set(&spec["resources"]) {
        resources::validate_resource_requirements(path, &spec["resources"], &around.claims, errors);
    }
}

fn validate_host_network(
    path: FieldPath<'_>,
    spec: &Value,
    whose: PodOwner<'_>,
    errors: &mut Errors,
) {
    if !flag(&spec["hostNetwork"]) {
        return;
    }
    let list = path.child("containers");
    for (at, container) in items(&spec["containers"]).iter().enumerate() {
        let container_path = list.index(at);
        let ports = container_path.child("ports");
        for (at, port) in items(&container["ports"]).iter().enumerate() {
            let host = int(&port["hostPort"]).unwrap_or(0);
            let own = int(&port["containerPort"]).unwrap_or(0);
            if (host != 0 || matches!(whose, PodOwner::Pod(_))) && host != own {
                let message = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(ports.index(at).child("hostPort"), host, message);
            }
        }
    }
}

fn validate_security_context(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let context = &spec["securityContext"];
    for member in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_user_or_group_id(path.child(member), &context[member], errors);
    }
    let groups = path.child("supplementalGroups");
    for (at, group) in items(&context["supplementalGroups"]).iter().enumerate() {
        validate_user_or_group_id(groups.index(at), group, errors);
    }
    if flag(&spec["shareProcessNamespace"]) && flag(&spec["hostPID"]) {
        let message = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(path.child("shareProcessNamespace"), true, message);
    }
    let policy = &context["fsGroupChangePolicy"];
    if is_set(policy) {
        let path = path.child("fsGroupChangePolicy");
        errors.one_of_or_nothing(path, text(policy), &["Always", "OnRootMismatch"]);
    }
    validate_seccomp_profile(
        path.child("seccompProfile"),
        &context["seccompProfile"],
        errors,
    );
}

pub(crate) fn validate_seccomp_profile(path: FieldPath<'_>, profile: &Value, errors: &mut Errors) {
    if !is_set(profile) {
        return;
    }
    let kind = text(&profile["type"]);
    match kind {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(
            path.child("type"),
            "type is required when seccompProfile is set",
        ),
        other => errors.not_supported(
            path.child("type"),
            other,
            &["Localhost", "RuntimeDefault", "Unconfined"],
        ),
    }
    let file = &profile["localhostProfile"];
    if kind != "Localhost" {
        if is_set(file) {
            let message = "can only be set when seccomp type is Localhost";
            errors.invalid(path.child("localhostProfile"), profile.clone(), message);
        }
    } else if is_set(file) {
        validate_local_descending_path(path.child("localhostProfile"), text(file), errors);
    } else {
        let message = "must be set when seccomp type is Localhost";
        errors.required(path.child("localhostProfile"), message);
    }
}

fn validate_affinity(path: FieldPath<'_>, affinity: &Value, errors: &mut Errors) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let nodes = &affinity["nodeAffinity"];
    let node_path = path.child("nodeAffinity");
    if is_set(&nodes[required]) {
        validate_node_selector(node_path.child(required), &nodes[required], errors);
    }
    let list = node_path.child(preferred);
    for (at, term) in items(&nodes[preferred]).iter().enumerate() {
        let path = list.index(at);
        validate_affinity_weight(path.child("weight"), &term["weight"], errors);
        validate_node_selector_term(path.child("preference"), &term["preference"], errors);
    }
    for member in ["podAffinity", "podAntiAffinity"] {
        let (own, terms) = (path.child(member), &affinity[member]);
        let list = own.child(required);
        for (at, term) in items(&terms[required]).iter().enumerate() {
            validate_pod_affinity_term(list.index(at), term, errors);
        }
        let list = own.child(preferred);
        for (at, term) in items(&terms[preferred]).iter().enumerate() {
            let path = list.index(at);
            validate_affinity_weight(path.child("weight"), &term["weight"], errors);
            validate_pod_affinity_term(
                path.child("podAffinityTerm"),
                &term["podAffinityTerm"],
                errors,
            );
        }
    }
}

fn validate_affinity_weight(path: FieldPath<'_>, weight: &Value, errors: &mut Errors) {
    let weight = int(weight).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.invalid(path, weight, "must be in the range 1-100");
    }
}

pub(crate) fn validate_node_selector(path: FieldPath<'_>, selector: &Value, errors: &mut Errors) {
    let list = path.child("nodeSelectorTerms");
    let terms = items(&selector["nodeSelectorTerms"]);
    if terms.is_empty() {
        return errors.required(list, "must have at least one node selector term");
    }
    for (at, term) in terms.iter().enumerate() {
        validate_node_selector_term(list.index(at), term, errors);
    }
}

fn validate_node_selector_term(path: FieldPath<'_>, term: &Value, errors: &mut Errors) {
    let list = path.child("matchExpressions");
    for (at, requirement) in items(&term["matchExpressions"]).iter().enumerate() {
        validate_node_selector_requirement(list.index(at), requirement, errors);
    }
}

fn validate_node_selector_requirement(
    path: FieldPath<'_>,
    requirement: &Value,
    errors: &mut Errors,
) {
    let values = items(&requirement["values"]);
    let own = path.child("values");
    match text(&requirement["operator"]) {
        "In" | "NotIn" => {
            if values.is_empty() {
                let message = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.required(own, message);
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let message = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(own, message);
            }
        }
        "Gt" | "Lt" => {
            if values.len() != 1 {
                let message = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.required(own, message);
            }
        }
        other => errors.invalid(
            path.child("operator"),
            other,
            "not a valid selector operator",
        ),
    }
    let key = text(&requirement["key"]);
    errors.problems(path.child("key"), key, qualified_name(key));
    for (at, value) in values.iter().enumerate() {
        errors.problems(own.index(at), text(value), label_value(text(value)));
    }
}

fn validate_pod_affinity_term(path: FieldPath<'_>, term: &Value, errors: &mut Errors) {
    validate_label_selector(path.child("labelSelector"), &term["labelSelector"], errors);
    let namespaces = path.child("namespaceSelector");
    validate_label_selector(namespaces, &term["namespaceSelector"], errors);
    for name in items(&term["namespaces"]) {
        errors.problems(
            path.child("namespace"),
            text(name),
            dns1123_label(text(name)),
        );
    }
    let key = text(&term["topologyKey"]);
    if key.is_empty() {
        errors.required(path.child("topologyKey"), "can not be empty");
    }
    errors.problems(path.child("topologyKey"), key, qualified_name(key));
}

fn validate_dns_config(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let config = &spec["dnsConfig"];
    let servers = items(&config["nameservers"]);
    if text(&spec["dnsPolicy"]) == "None" {
        if !is_set(config) {
            let message = "must provide `dnsConfig` when `dnsPolicy` is None";
            return errors.required(path, message);
        }
        if servers.is_empty() {
            let message = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(path.child("nameservers"), message);
        }
    }
    let list = path.child("nameservers");
    if servers.len() > 3 {
        let message = "must not have more than 3 nameservers";
        errors.invalid(list, config["nameservers"].clone(), message);
    }
    for (at, server) in servers.iter().enumerate() {
        validate_ip(list.index(at), text(server), errors);
    }
}

pub(crate) fn validate_ip(path: FieldPath<'_>, address: &str, errors: &mut Errors) {
    if address.parse::<IpAddr>().is_err() {
        let message = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.invalid(path, address, message);
    }
}

fn validate_readiness_and_scheduling_gates(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let list = path.child("readinessGates");
    for (at, gate) in items(&spec["readinessGates"]).iter().enumerate() {
        let name = text(&gate["conditionType"]);
        let own = list.index(at);
        errors.problems(own.child("conditionType"), name, qualified_name(name));
    }
    let list = path.child("schedulingGates");
    let mut known = BTreeSet::new();
    for (at, gate) in items(&spec["schedulingGates"]).iter().enumerate() {
        let name = text(&gate["name"]);
        errors.problems(list.index(at), name, qualified_name(name));
        if !known.insert(name) {
            errors.duplicate(list.index(at), name);
        }
    }
}

fn validate_topology_spread_constraints(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
    let list = items(list);
    let pair = |constraint: &Value| {
        ["topologyKey", "whenUnsatisfiable"].map(|key| to_bytes(&constraint[key]))
    };
    // A constraint is reported as a duplicate if an equal one follows.
    let mut later: BTreeMap<[Vec<u8>; 2], usize> = BTreeMap::new();
    for constraint in list {
        *later.entry(pair(constraint)).or_default() += 1;
    }
    for (at, constraint) in list.iter().enumerate() {
        let path = path.index(at);
        let skew = int(&constraint["maxSkew"]).unwrap_or(0);
        if skew <= 0 {
            errors.invalid(path.child("maxSkew"), skew, "must be greater than zero");
        }
        if text(&constraint["topologyKey"]).is_empty() {
            errors.required(path.child("topologyKey"), "can not be empty");
        }
        errors.one_of_or_nothing(
            path.child("whenUnsatisfiable"),
            text(&constraint["whenUnsatisfiable"]),
            &["DoNotSchedule", "ScheduleAnyway"],
        );
        let left = later.entry(pair(constraint)).or_default();
        *left = left.saturating_sub(1);
        if *left > 0 {
            let pair = format!(
                "{{{}, {}}}",
                text(&constraint["topologyKey"]),
                text(&constraint["whenUnsatisfiable"])
            );
            errors.duplicate(path.child("{topologyKey, whenUnsatisfiable}"), pair);
        }
        validate_label_selector(
            path.child("labelSelector"),
            &constraint["labelSelector"],
            errors,
        );
    }
}

fn validate_tolerations(path: FieldPath<'_>, list: &Value, errors: &mut Errors) {
    for (at, one) in items(list).iter().enumerate() {
        validate_toleration(path.index(at), one, errors);
    }
}

pub(crate) fn validate_toleration(path: FieldPath<'_>, toleration: &Value, errors: &mut Errors) {
    let key = text(&toleration["key"]);
    let (operator, value) = (text(&toleration["operator"]), text(&toleration["value"]));
    let effect = text(&toleration["effect"]);
    if !key.is_empty() {
        errors.problems(path.child("key"), key, qualified_name(key));
    } else if operator != "Exists" {
        let message = "operator must be Exists when `key` is empty, which means \"match all \
                       values and all keys\"";
        errors.invalid(path.child("operator"), operator, message);
    }
    if is_set(&toleration["tolerationSeconds"]) && effect != "NoExecute" {
        let message = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(path.child("effect"), effect, message);
    }
    match operator {
        "Equal" | "" => {
            let problems = label_value(value);
            if !problems.is_empty() {
                errors.invalid(path.child("operator"), value, problems.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            let message = "value must be empty when `operator` is 'Exists'";
            errors.invalid(path.child("operator"), value, message);
        }
        "Exists" => {}
        "Lt" | "Gt" => errors.not_supported(
            path.child("operator"),
            operator,
            &["Equal", "Exists", "Lt", "Gt"],
        ),
        other => errors.not_supported(path.child("operator"), other, &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        errors.one_of_or_nothing(path.child("effect"), effect, &effects);
    }
}

fn validate_pod_spec_names(path: FieldPath<'_>, spec: &Value, errors: &mut Errors) {
    let mut named = |member: &str, check: fn(&str) -> Vec<String>| {
        let name = text(&spec[member]);
        if !name.is_empty() {
            errors.problems(path.child(member), name, check(name));
        }
    };
    named("serviceAccountName", dns1123_subdomain);
    named("nodeName", dns1123_subdomain);
    if let Some(seconds) = int(&spec["activeDeadlineSeconds"])
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        let message = "must be between 1 and 2147483647, inclusive";
        errors.invalid(path.child("activeDeadlineSeconds"), seconds, message);
    }
    let mut named = |member: &str, check: fn(&str) -> Vec<String>| {
        let name = text(&spec[member]);
        if !name.is_empty() {
            errors.problems(path.child(member), name, check(name));
        }
    };
    named("hostname", dns1123_label);
    named("subdomain", dns1123_label);
    validate_tolerations(path.child("tolerations"), &spec["tolerations"], errors);
    let aliases = path.child("hostAliases");
    for (at, alias) in items(&spec["hostAliases"]).iter().enumerate() {
        let path = aliases.index(at);
        validate_ip(path.child("ip"), text(&alias["ip"]), errors);
        let hosts = path.child("hostnames");
        for (at, host) in items(&alias["hostnames"]).iter().enumerate() {
            errors.problems(hosts.index(at), text(host), dns1123_subdomain(text(host)));
        }
    }
    let mut named = |member: &str, check: fn(&str) -> Vec<String>| {
        let name = text(&spec[member]);
        if !name.is_empty() {
            errors.problems(path.child(member), name, check(name));
        }
    };
    named("priorityClassName", dns1123_subdomain);
    named("runtimeClassName", dns1123_subdomain);
    let policy = &spec["preemptionPolicy"];
    if is_set(policy) {
        errors.one_of(
            path.child("preemptionPolicy"),
            text(policy),
            &["PreemptLowerPriority", "Never"],
        );
    }
    let overhead = path.child("overhead");
    for (resource, value) in entries(&spec["overhead"]) {
        let limits = overhead.child("limits");
        resources::validate_container_resource_name(limits.key(resource), resource, errors);
        resources::validate_resource_quantity(limits.key(resource), resource, value, errors);
    }
    if is_set(&spec["os"]) {
        errors.one_of(
            path.child("os"),
            text(&spec["os"]["name"]),
            &["linux", "windows"],
        );
    }
}
