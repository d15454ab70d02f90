//! Defaulting functions, for defaults that depend on other fields (upstream: `SetDefaults_*`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use optik_object::{Map, Value};
use serde_json::json;

/// Sets the defaults of one message that depend on its other fields.
pub(crate) type DefaultFn = fn(&mut Map);

/// The defaulting function of a message, in addition to the lines of the table.
pub(crate) fn for_message(message: &str) -> Option<DefaultFn> {
    Some(match message {
        "core/v1.Container" | "core/v1.EphemeralContainerCommon" => container,
        "core/v1.ImageVolumeSource" => image_volume,
        "core/v1.Volume" => volume,
        "core/v1.Pod" => pod,
        "core/v1.PodSpec" => pod_spec,
        "core/v1.PodStatus" => pod_status,
        "core/v1.Secret" => secret,
        "core/v1.Service" => service,
        "core/v1.Namespace" => namespace,
        "core/v1.NodeSpec" => node_spec,
        "core/v1.NodeStatus" => node_status,
        "core/v1.LimitRangeItem" => limit_range_item,
        "core/v1.ReplicationController" => replication_controller,
        "apps/v1.DaemonSet" => daemon_set,
        "apps/v1.StatefulSetSpec" => stateful_set_spec,
        "apps/v1.DeploymentStrategy" => deployment_strategy,
        "apps/v1.DaemonSetUpdateStrategy" => daemon_set_strategy,
        "apps/v1.StatefulSetUpdateStrategy" => stateful_set_strategy,
        "batch/v1.Job" => job,
        "autoscaling/v2.HorizontalPodAutoscalerSpec" => horizontal_pod_autoscaler,
        "networking/v1.NetworkPolicySpec" => network_policy,
        "rbac/v1.Subject" => rbac_subject,
        "resource/v1.ExactDeviceRequest" | "resource/v1.DeviceSubRequest" => device_request,
        _ => return None,
    })
}

/// Synchronizes `podIP` and `podIPs`; `podIP` wins.
fn pod_status(members: &mut Map) {
    let first = |members: &Map| {
        let list = members.get("podIPs").and_then(Value::as_array)?;
        list.first()?.get("ip")?.as_str().map(String::from)
    };
    match (text(members, "podIP"), first(members)) {
        ("", None) => {}
        ("", Some(first)) => drop(members.insert("podIP".into(), first.into())),
        (own, first) if first.as_deref() != Some(own) => {
            let list = json!([{"ip": own}]);
            members.insert("podIPs".into(), list);
        }
        _ => {}
    }
}

fn absent(members: &Map, name: &str) -> bool {
    members.get(name).is_none_or(Value::is_null)
}

fn set_if_absent(members: &mut Map, name: &str, value: impl Into<Value>) {
    if absent(members, name) {
        members.insert(name.into(), value.into());
    }
}

fn text<'a>(members: &'a Map, name: &str) -> &'a str {
    members
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The member that is an object; created if absent.
fn object<'a>(members: &'a mut Map, name: &str) -> Option<&'a mut Map> {
    let value = members.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Map::new().into();
    }
    value.as_object_mut()
}

fn items<'a>(members: &'a mut Map, name: &str) -> impl Iterator<Item = &'a mut Map> {
    let list = members.get_mut(name).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn container(members: &mut Map) {
    if absent(members, "imagePullPolicy") {
        let policy = pull_policy(text(members, "image"));
        members.insert("imagePullPolicy".into(), policy.into());
    }
}

fn image_volume(members: &mut Map) {
    if absent(members, "pullPolicy") {
        let policy = pull_policy(text(members, "reference"));
        members.insert("pullPolicy".into(), policy.into());
    }
}

/// The default `imagePullPolicy`: the tag `latest` is always pulled.
fn pull_policy(image: &str) -> &'static str {
    match tag(image) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    }
}

/// The tag of an image; `latest` if it has neither a tag nor a digest. `None` if the image is
/// invalid or has a digest only.
fn tag(image: &str) -> Option<&str> {
    let name = image.split('@').next().unwrap_or_default();
    let digest = name.len() < image.len();
    let last = name.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let path = match tag {
        Some(tag) => &name[..name.len() - tag.len() - 1],
        None => name,
    };
    let readable = !path.is_empty() && !path.contains(|c: char| c.is_ascii_uppercase() || c == ' ');
    match tag {
        _ if !readable => None,
        Some(tag) => Some(tag),
        None if digest => None,
        None => Some("latest"),
    }
}

/// A volume without a source is an `emptyDir`.
fn volume(members: &mut Map) {
    if members.keys().all(|name| name == "name") {
        members.insert("emptyDir".into(), json!({}));
    }
}

fn pod(members: &mut Map) {
    let Some(spec) = object(members, "spec") else {
        return;
    };
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            request_limits(container);
        }
    }
    if spec.get("resources").is_some_and(Value::is_object) {
        crate::quantity::default_pod_level_requests(spec);
    }
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            for container in items(spec, list) {
                default_host_ports(container);
            }
        }
    }
}

/// Requests default to the limits.
fn request_limits(container: &mut Map) {
    let Some(resources) = container
        .get_mut("resources")
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    let Some(Value::Object(limits)) = resources.get("limits").cloned() else {
        return;
    };
    if let Some(requests) = object(resources, "requests") {
        for (name, limit) in limits {
            requests.entry(name).or_insert(limit);
        }
    }
}

fn default_host_ports(container: &mut Map) {
    for port in items(container, "ports") {
        let zero = port.get("hostPort").is_none_or(|port| port == 0);
        if let Some(own) = port.get("containerPort").cloned()
            && zero
        {
            port.insert("hostPort".into(), own);
        }
    }
}

fn service(members: &mut Map) {
    let is_balanced = {
        let Some(spec) = object(members, "spec") else {
            return;
        };
        service_spec(spec);
        text(spec, "type") == "LoadBalancer"
    };
    if is_balanced
        && let Some(status) = object(members, "status")
        && let Some(balancer) = object(status, "loadBalancer")
    {
        for ingress in items(balancer, "ingress") {
            if !text(ingress, "ip").is_empty() {
                set_if_absent(ingress, "ipMode", "VIP");
            }
        }
    }
}

fn service_spec(spec: &mut Map) {
    set_if_absent(spec, "sessionAffinity", "None");
    set_if_absent(spec, "type", "ClusterIP");
    match text(spec, "sessionAffinity") {
        "None" => drop(spec.remove("sessionAffinityConfig")),
        "ClientIP" => {
            let timeout = spec
                .get("sessionAffinityConfig")
                .and_then(|config| config.get("clientIP")?.get("timeoutSeconds"));
            if timeout.is_none_or(Value::is_null) {
                let config = json!({"clientIP": {"timeoutSeconds": 10800}});
                spec.insert("sessionAffinityConfig".into(), config);
            }
        }
        _ => {}
    }
    for port in items(spec, "ports") {
        let target = port.get("targetPort");
        let unset = target.is_none_or(|target| target.is_null() || target == 0 || target == "");
        if let Some(own) = port.get("port").cloned()
            && unset
        {
            port.insert("targetPort".into(), own);
        }
    }
    let kind = text(spec, "type").to_owned();
    let external_ips = spec.get("externalIPs").and_then(Value::as_array);
    let has_external = external_ips.is_some_and(|list| !list.is_empty());
    let outside =
        kind == "NodePort" || kind == "LoadBalancer" || (kind == "ClusterIP" && has_external);
    if outside {
        set_if_absent(spec, "externalTrafficPolicy", "Cluster");
    }
    if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&kind.as_str()) {
        set_if_absent(spec, "internalTrafficPolicy", "Cluster");
    }
    if kind == "LoadBalancer" {
        set_if_absent(spec, "allocateLoadBalancerNodePorts", true);
    }
}

/// Sets the label `kubernetes.io/metadata.name`, so that selectors can find a namespace by name.
fn namespace(members: &mut Map) {
    let Some(metadata) = object(members, "metadata") else {
        return;
    };
    let name = text(metadata, "name").to_owned();
    if !name.is_empty()
        && let Some(labels) = object(metadata, "labels")
    {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    }
}

/// Synchronizes `podCIDR` and `podCIDRs`; the older field `podCIDR` wins.
fn node_spec(members: &mut Map) {
    let own = text(members, "podCIDR").to_owned();
    let list = members.get("podCIDRs").and_then(Value::as_array);
    let first = list.and_then(|list| list.first()).and_then(Value::as_str);
    match first.map(str::to_owned) {
        Some(first) if own.is_empty() => drop(members.insert("podCIDR".into(), first.into())),
        first if !own.is_empty() && first.as_deref() != Some(&own) => {
            members.insert("podCIDRs".into(), json!([own]));
        }
        _ => {}
    }
}

fn node_status(members: &mut Map) {
    if let Some(capacity) = members.get("capacity").cloned() {
        set_if_absent(members, "allocatable", capacity);
    }
}

fn limit_range_item(members: &mut Map) {
    if text(members, "type") != "Container" {
        return;
    }
    for (target, source) in [
        ("default", "max"),
        ("defaultRequest", "default"),
        ("defaultRequest", "min"),
    ] {
        let Some(Value::Object(given)) = members.get(source).cloned() else {
            continue;
        };
        if let Some(target) = object(members, target) {
            for (name, value) in given {
                target.entry(name).or_insert(value);
            }
        }
    }
}

fn template_labels(members: &Map) -> Option<Value> {
    let labels = members
        .get("spec")?
        .get("template")?
        .get("metadata")?
        .get("labels")?;
    labels
        .as_object()
        .is_some_and(|labels| !labels.is_empty())
        .then(|| labels.clone())
}

fn default_labels_from_template(members: &mut Map, labels: &Value) {
    let Some(metadata) = object(members, "metadata") else {
        return;
    };
    let own = metadata.get("labels").and_then(Value::as_object);
    if own.is_none_or(Map::is_empty) {
        metadata.insert("labels".into(), labels.clone());
    }
}

fn replication_controller(members: &mut Map) {
    let Some(labels) = template_labels(members) else {
        return;
    };
    if let Some(spec) = object(members, "spec") {
        let selector = spec.get("selector").and_then(Value::as_object);
        if selector.is_none_or(Map::is_empty) {
            spec.insert("selector".into(), labels.clone());
        }
    }
    default_labels_from_template(members, &labels);
}

/// Synchronizes `serviceAccountName` with its deprecated alias `serviceAccount`.
fn pod_spec(members: &mut Map) {
    let account = match text(members, "serviceAccountName") {
        "" => text(members, "serviceAccount").to_owned(),
        name => name.to_owned(),
    };
    if !account.is_empty() {
        members.insert("serviceAccountName".into(), account.as_str().into());
        members.insert("serviceAccount".into(), account.into());
    }
}

/// Moves `stringData` into `data`, encoded in base64.
fn secret(members: &mut Map) {
    let Some(Value::Object(texts)) = members.remove("stringData") else {
        return;
    };
    let Some(data) = object(members, "data") else {
        return;
    };
    for (key, value) in texts {
        let bytes = value.as_str().unwrap_or_default().as_bytes();
        data.insert(key, STANDARD.encode(bytes).into());
    }
}

/// The default of the template generation annotation. Creates set it to 1, and updates increment it
/// if the template changes.
fn daemon_set(members: &mut Map) {
    if let Some(metadata) = object(members, "metadata")
        && let Some(annotations) = object(metadata, "annotations")
    {
        set_if_absent(annotations, "deprecated.daemonset.template.generation", "0");
    }
}

/// Sets `apiVersion` and `kind` of the claim templates.
fn stateful_set_spec(members: &mut Map) {
    for claim in items(members, "volumeClaimTemplates") {
        claim.insert("apiVersion".into(), "v1".into());
        claim.insert("kind".into(), "PersistentVolumeClaim".into());
    }
}

fn deployment_strategy(members: &mut Map) {
    rolling_update(
        members,
        &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))],
    );
}

fn daemon_set_strategy(members: &mut Map) {
    rolling_update(
        members,
        &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))],
    );
}

fn rolling_update(members: &mut Map, defaults: &[(&str, Value)]) {
    set_if_absent(members, "type", "RollingUpdate");
    if text(members, "type") != "RollingUpdate" {
        return;
    }
    if let Some(rolling) = object(members, "rollingUpdate") {
        for (name, value) in defaults {
            set_if_absent(rolling, name, value.clone());
        }
    }
}

/// An explicit `type` without `rollingUpdate` does not get its parameters.
fn stateful_set_strategy(members: &mut Map) {
    if absent(members, "type") {
        members.insert("type".into(), "RollingUpdate".into());
        set_if_absent(members, "rollingUpdate", json!({}));
    }
    if text(members, "type") == "RollingUpdate"
        && let Some(Value::Object(rolling)) = members.get_mut("rollingUpdate")
    {
        set_if_absent(rolling, "partition", 0);
    }
}

fn job(members: &mut Map) {
    let labels = template_labels(members);
    let Some(spec) = object(members, "spec") else {
        return;
    };
    if absent(spec, "completions") && absent(spec, "parallelism") {
        spec.insert("completions".into(), 1.into());
    }
    set_if_absent(spec, "parallelism", 1);
    let retries = if absent(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    set_if_absent(spec, "backoffLimit", retries);
    let replacement = if absent(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set_if_absent(spec, "podReplacementPolicy", replacement);
    if let Some(labels) = labels {
        default_labels_from_template(members, &labels);
    }
}

fn horizontal_pod_autoscaler(members: &mut Map) {
    let metrics = members.get("metrics").and_then(Value::as_array);
    if metrics.is_none_or(Vec::is_empty) {
        let cpu = json!([{"type": "Resource", "resource": {"name": "cpu",
            "target": {"type": "Utilization", "averageUtilization": 80}}}]);
        members.insert("metrics".into(), cpu);
    }
    let Some(Value::Object(behavior)) = members.get_mut("behavior") else {
        return;
    };
    let up = [
        ("stabilizationWindowSeconds", json!(0)),
        ("selectPolicy", json!("Max")),
        (
            "policies",
            json!([
                {"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15},
            ]),
        ),
    ];
    let down = [
        ("selectPolicy", json!("Max")),
        (
            "policies",
            json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
        ),
    ];
    for (direction, rules) in [("scaleUp", &up[..]), ("scaleDown", &down[..])] {
        if let Some(target) = object(behavior, direction) {
            for (name, value) in rules {
                set_if_absent(target, name, value.clone());
            }
        }
    }
}

fn network_policy(members: &mut Map) {
    let some = |name: &str| {
        let list = members.get(name).and_then(Value::as_array);
        list.is_some_and(|list| !list.is_empty())
    };
    if some("policyTypes") {
        return;
    }
    let mut types = vec![Value::from("Ingress")];
    if some("egress") {
        types.push("Egress".into());
    }
    members.insert("policyTypes".into(), types.into());
}

fn rbac_subject(members: &mut Map) {
    if ["User", "Group"].contains(&text(members, "kind")) {
        set_if_absent(members, "apiGroup", "rbac.authorization.k8s.io");
    }
}

fn device_request(members: &mut Map) {
    set_if_absent(members, "allocationMode", "ExactCount");
    if text(members, "allocationMode") == "ExactCount" {
        set_if_absent(members, "count", 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_pull_policy_defaults_follow_image_tag() {
        for (image, expected) in [
            ("i", Some("latest")),
            ("i:latest", Some("latest")),
            ("i:1", Some("1")),
            ("host:5000/i", Some("latest")),
            ("host:5000/i:2", Some("2")),
            ("i@sha256:abc", None),
            ("i:3@sha256:abc", Some("3")),
            ("", None),
            ("Upper", None),
        ] {
            assert_eq!(tag(image), expected, "{image}");
        }
    }
}
