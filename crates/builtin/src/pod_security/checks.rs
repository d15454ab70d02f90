//! The checks of the Pod Security Standards, per level and version.

use super::{LevelVersion, PodSecurityLevel, PodView, Violations};
use crate::validation::{entries, flag, is_set, items, text};
use optik_object::{Value, quote};
use std::collections::BTreeSet;

/// One check of a level.
struct SecurityCheck {
    /// The first minor version with this check.
    since: u32,
    /// The version from which on the restricted level replaces it with another check.
    replaced: u32,
    check: CheckPodFn,
}

/// Returns the reason and the details of a violation, if the pod violates the check.
type CheckPodFn = fn(PodView<'_>, u32) -> Option<(&'static str, String)>;

const NEVER: u32 = u32::MAX;
/// The latest known minor version; later versions have the same checks.
const LATEST_MINOR: u32 = 35;
/// From this version on, Windows pods are exempt from Linux-only checks.
const WINDOWS_EXEMPT: u32 = 25;
/// From this version on, pods with a user namespace may run as root.
const USER_NAMESPACES_EXEMPT: u32 = 35;

const fn check_since(since: u32, judge: CheckPodFn) -> SecurityCheck {
    SecurityCheck {
        since,
        replaced: NEVER,
        check: judge,
    }
}

const fn check_until(since: u32, replaced: u32, judge: CheckPodFn) -> SecurityCheck {
    SecurityCheck {
        since,
        replaced,
        check: judge,
    }
}

/// In the order in which violations are reported.
const BASELINE: &[SecurityCheck] = &[
    check_since(0, app_armor),
    check_until(0, 22, added_capabilities),
    check_since(0, host_namespaces),
    check_until(0, 0, host_paths),
    check_since(0, host_ports),
    check_since(34, probe_hosts),
    check_since(0, privileged),
    check_until(0, 35, proc_mount_in_host_user_namespace),
    check_since(0, se_linux),
    check_until(0, 19, seccomp_baseline),
    check_since(0, sysctls),
    check_since(0, windows_host_process),
];

const RESTRICTED: &[SecurityCheck] = &[
    check_since(8, privilege_escalation),
    check_since(22, dropped_capabilities),
    check_since(35, proc_mount),
    check_since(0, volumes),
    check_since(0, run_as_non_root),
    check_since(23, run_as_user),
    check_since(19, seccomp_restricted),
];

/// The violations of a pod at a level.
#[must_use]
pub fn violations(bar: LevelVersion, pod: PodView<'_>) -> Violations {
    let version = bar
        .minor
        .map_or(LATEST_MINOR, |minor| minor.min(LATEST_MINOR));
    let restricted = bar.level == PodSecurityLevel::Restricted;
    let (first, second): (&[SecurityCheck], &[SecurityCheck]) = match bar.level {
        PodSecurityLevel::Privileged => (&[], &[]),
        PodSecurityLevel::Baseline => (BASELINE, &[]),
        PodSecurityLevel::Restricted => (BASELINE, RESTRICTED),
    };
    let kept = first
        .iter()
        .filter(|asked| !restricted || version < asked.replaced);
    let asked = kept.chain(second).filter(|asked| asked.since <= version);
    Violations(
        asked
            .filter_map(|asked| (asked.check)(pod, version))
            .collect(),
    )
}

/// Names in a message: `container "a"`, `containers "a", "b"`.
fn named(what: &str, names: &[&str]) -> String {
    let many = if names.len() == 1 { "" } else { "s" };
    format!("{what}{many} {}", quoted(names))
}

fn quoted<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("\"{}\"", name.as_ref()))
        .collect();
    names.join(", ")
}

fn sorted(values: &BTreeSet<&str>) -> String {
    let values: Vec<&str> = values.iter().copied().collect();
    quoted(&values)
}

fn one_or_many<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// The names of the containers that satisfy a predicate.
fn containers_that<'a>(pod: PodView<'a>, so: impl Fn(&'a Value) -> bool) -> Vec<&'a str> {
    let found = pod.containers().filter(|container| so(container));
    found.map(|container| text(&container["name"])).collect()
}

fn context(holder: &Value) -> &Value {
    &holder["securityContext"]
}

/// Where a security context satisfies a predicate: `pod`, `container "a"`, or both; `None` if
/// nowhere.
fn setters<'a>(pod: PodView<'a>, so: impl Fn(&'a Value) -> bool) -> Option<String> {
    let mut who = Vec::new();
    if so(context(pod.spec)) {
        who.push("pod".to_owned());
    }
    let containers = containers_that(pod, |container| so(context(container)));
    if !containers.is_empty() {
        who.push(named("container", &containers));
    }
    (!who.is_empty()).then(|| who.join(" and "))
}

fn is_windows(pod: PodView<'_>) -> bool {
    pod.spec["os"]["name"] == "windows"
}

fn has_user_namespace(pod: PodView<'_>) -> bool {
    pod.spec["hostUsers"] == false
}

fn app_armor(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    let wrong = |profile: &str| !["RuntimeDefault", "Localhost"].contains(&profile);
    let who = setters(pod, |context| {
        sets_forbidden_profile(context, "appArmorProfile", wrong)
    });
    let mut who: Vec<String> = who.into_iter().collect();
    let kinds = forbidden_profiles(pod, "appArmorProfile", wrong).into_iter();
    let mut told: Vec<String> = kinds.map(str::to_owned).collect();
    let annotations = entries(pod.annotations).filter(|(name, value)| {
        let value = text(value);
        name.starts_with("container.apparmor.security.beta.kubernetes.io/")
            && !(value.is_empty() || value == "runtime/default" || value.starts_with("localhost/"))
    });
    let annotations: Vec<String> = annotations
        .map(|(name, value)| format!("{name}={}", quote(text(value))))
        .collect();
    if !annotations.is_empty() {
        who.push(one_or_many(annotations.len(), "annotation", "annotations").to_owned());
        told.extend(annotations);
    }
    if who.is_empty() {
        return None;
    }
    let reason = match told.len() {
        1 => "forbidden AppArmor profile",
        _ => "forbidden AppArmor profiles",
    };
    let who = who.join(" and ");
    let detail = format!(
        "{who} must not set AppArmor profile type to {}",
        quoted(&told)
    );
    Some((reason, detail))
}

/// Whether a security context sets a forbidden profile type.
fn sets_forbidden_profile(context: &Value, profile: &str, wrong: impl Fn(&str) -> bool) -> bool {
    is_set(&context[profile]) && wrong(text(&context[profile]["type"]))
}

/// The forbidden profile types that the pod sets.
fn forbidden_profiles<'a>(
    pod: PodView<'a>,
    profile: &str,
    wrong: impl Fn(&str) -> bool,
) -> BTreeSet<&'a str> {
    let holders = std::iter::once(pod.spec).chain(pod.containers());
    let set = holders
        .map(context)
        .filter(|context| sets_forbidden_profile(context, profile, &wrong));
    set.map(|context| text(&context[profile]["type"])).collect()
}

/// A message about the containers that add capabilities beyond `allowed`; `None` if there are none.
fn added_beyond<'a>(pod: PodView<'a>, allowed: &[&str]) -> Option<String> {
    let added = |container: &'a Value| items(&context(container)["capabilities"]["add"]);
    let wrong = |value: &&Value| !allowed.contains(&text(value));
    let containers = containers_that(pod, |container| added(container).iter().any(|c| wrong(&c)));
    let all = pod.containers().flat_map(added).filter(wrong);
    let all: BTreeSet<&str> = all.map(text).collect();
    (!containers.is_empty()).then(|| {
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            named("container", &containers),
            sorted(&all)
        )
    })
}

const BASELINE_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

fn added_capabilities(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    let detail = added_beyond(pod, BASELINE_CAPABILITIES)?;
    Some(("non-default capabilities", detail))
}

fn dropped_capabilities(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    if version >= WINDOWS_EXEMPT && is_windows(pod) {
        return None;
    }
    let keeping = containers_that(pod, |container| {
        let dropped = items(&context(container)["capabilities"]["drop"]);
        !dropped.iter().any(|one| one == "ALL")
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(
            r#"{} must set securityContext.capabilities.drop=["ALL"]"#,
            named("container", &keeping)
        ));
    }
    details.extend(added_beyond(pod, &["NET_BIND_SERVICE"]));
    (!details.is_empty()).then(|| ("unrestricted capabilities", details.join("; ")))
}

fn host_namespaces(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let shared = shared.filter(|name| flag(&pod.spec[*name]));
    let shared: Vec<String> = shared.map(|name| format!("{name}=true")).collect();
    (!shared.is_empty()).then(|| ("host namespaces", shared.join(", ")))
}

fn host_paths(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    let volumes = items(&pod.spec["volumes"]).iter();
    let volumes = volumes.filter(|volume| is_set(&volume["hostPath"]));
    let names: Vec<&str> = volumes.map(|volume| text(&volume["name"])).collect();
    (!names.is_empty()).then(|| ("hostPath volumes", named("volume", &names)))
}

fn host_ports(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    let ports = |container: &Value| -> Vec<String> {
        let ports = items(&container["ports"]).iter();
        let taken = ports.filter_map(|port| port["hostPort"].as_i64());
        taken
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect()
    };
    let containers = containers_that(pod, |container| !ports(container).is_empty());
    let all: BTreeSet<String> = pod.containers().flat_map(ports).collect();
    let all: Vec<String> = all.into_iter().collect();
    (!containers.is_empty()).then(|| {
        let detail = format!(
            "{} {} {} {}",
            named("container", &containers),
            one_or_many(containers.len(), "uses", "use"),
            one_or_many(all.len(), "hostPort", "hostPorts"),
            all.join(", ")
        );
        ("hostPort", detail)
    })
}

fn probe_hosts(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    fn hosts(container: &Value) -> impl Iterator<Item = &str> {
        let lifecycle = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &lifecycle["postStart"],
            &lifecycle["preStop"],
        ];
        let hosts = handlers.into_iter().flat_map(|handler| {
            let ways = ["httpGet", "tcpSocket"].into_iter();
            ways.map(|way| text(&handler[way]["host"]))
        });
        hosts.filter(|host| !host.is_empty())
    }
    let containers = containers_that(pod, |container| hosts(container).next().is_some());
    let containers: BTreeSet<&str> = containers.into_iter().collect();
    let containers: Vec<&str> = containers.into_iter().collect();
    let all: BTreeSet<&str> = pod.containers().flat_map(hosts).collect();
    let told = one_or_many(
        all.len(),
        "probe or lifecycle host",
        "probe or lifecycle hosts",
    );
    (!containers.is_empty()).then(|| {
        let detail = format!(
            "{} {} {told} {}",
            named("container", &containers),
            one_or_many(containers.len(), "uses", "use"),
            sorted(&all)
        );
        ("probe or lifecycle host", detail)
    })
}

fn privileged(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    let containers = containers_that(pod, |container| flag(&context(container)["privileged"]));
    let named = named("container", &containers);
    (!containers.is_empty()).then(|| {
        let detail = format!("{named} must not set securityContext.privileged=true");
        ("privileged", detail)
    })
}

fn proc_mount_in_host_user_namespace(
    pod: PodView<'_>,
    version: u32,
) -> Option<(&'static str, String)> {
    if version >= USER_NAMESPACES_EXEMPT && has_user_namespace(pod) {
        return None;
    }
    proc_mount(pod, version)
}

fn proc_mount(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    fn wrong(container: &Value) -> Option<&str> {
        let mount = context(container)["procMount"].as_str();
        mount.filter(|mount| *mount != "Default")
    }
    let containers = containers_that(pod, |container| wrong(container).is_some());
    let mounts: BTreeSet<&str> = pod.containers().filter_map(wrong).collect();
    (!containers.is_empty()).then(|| {
        let named = named("container", &containers);
        let detail = format!(
            "{named} must not set securityContext.procMount to {}",
            sorted(&mounts)
        );
        ("procMount", detail)
    })
}

fn se_linux(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    let wrong_type = |context: &Value| {
        let named = text(&context["seLinuxOptions"]["type"]);
        let allowed = ["", "container_t", "container_init_t", "container_kvm_t"];
        let newer = version >= 31 && named == "container_engine_t";
        !allowed.contains(&named) && !newer
    };
    let sets = |context: &Value, name: &str| !text(&context["seLinuxOptions"][name]).is_empty();
    let who = setters(pod, |context| {
        wrong_type(context) || sets(context, "user") || sets(context, "role")
    })?;
    let holders = || {
        std::iter::once(pod.spec)
            .chain(pod.containers())
            .map(context)
    };
    let types = holders().filter(|context| wrong_type(context));
    let types: BTreeSet<&str> = types
        .map(|context| text(&context["seLinuxOptions"]["type"]))
        .collect();
    let mut told = Vec::new();
    if !types.is_empty() {
        let types: Vec<&str> = types.into_iter().collect();
        told.push(named("type", &types));
    }
    for name in ["user", "role"] {
        if holders().any(|context| sets(context, name)) {
            told.push(format!("{name} may not be set"));
        }
    }
    let told = told.join("; ");
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {told}");
    Some(("seLinuxOptions", detail))
}

const ALLOWED_SECCOMP_TYPES: &[&str] = &["Localhost", "RuntimeDefault"];

/// The violation of setting a forbidden seccomp profile.
fn wrong_seccomp(pod: PodView<'_>) -> Option<(&'static str, String)> {
    let wrong = |profile: &str| !ALLOWED_SECCOMP_TYPES.contains(&profile);
    let who = setters(pod, |context| {
        sets_forbidden_profile(context, "seccompProfile", wrong)
    })?;
    let all = forbidden_profiles(pod, "seccompProfile", wrong);
    let detail = format!(
        "{who} must not set securityContext.seccompProfile.type to {}",
        sorted(&all)
    );
    Some(("seccompProfile", detail))
}

fn seccomp_baseline(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    if version >= 19 {
        return wrong_seccomp(pod);
    }
    let allowed = |value: &str| {
        ["runtime/default", "docker/default"].contains(&value) || value.starts_with("localhost/")
    };
    let of_containers = pod.containers().map(|container| {
        let name = text(&container["name"]);
        format!("container.seccomp.security.alpha.kubernetes.io/{name}")
    });
    let of_pod = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_owned());
    let wrong = of_pod.chain(of_containers).filter_map(|name| {
        let value = pod.annotations[&name].as_str()?;
        (!allowed(value)).then(|| format!("{name}={}", quote(value)))
    });
    let wrong: BTreeSet<String> = wrong.collect();
    let count = wrong.len();
    let told: Vec<String> = wrong.into_iter().collect();
    (count > 0).then(|| {
        let what = one_or_many(count, "annotation", "annotations");
        let detail = format!("forbidden {what} {}", told.join(", "));
        ("seccompProfile", detail)
    })
}

fn seccomp_restricted(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    if version >= WINDOWS_EXEMPT && is_windows(pod) {
        return None;
    }
    if let Some(wrong) = wrong_seccomp(pod) {
        return Some(wrong);
    }
    let unset = |holder: &Value| !is_set(&context(holder)["seccompProfile"]);
    if !unset(pod.spec) {
        return None;
    }
    let containers = containers_that(pod, unset);
    (!containers.is_empty()).then(|| {
        let named = named("container", &containers);
        let detail = format!(
            r#"pod or {named} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#
        );
        ("seccompProfile", detail)
    })
}

/// Allowed sysctls, with the version since which they are allowed.
const SYSCTLS: &[(u32, &str)] = &[
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
];

fn sysctls(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    let set = items(&context(pod.spec)["sysctls"]).iter();
    let names = set.map(|sysctl| text(&sysctl["name"]));
    let allowed = |name: &&str| {
        let mut known = SYSCTLS.iter().filter(|(since, _)| *since <= version);
        known.any(|(_, known)| known == name)
    };
    let wrong: Vec<&str> = names.filter(|name| !allowed(name)).collect();
    (!wrong.is_empty()).then(|| ("forbidden sysctls", wrong.join(", ")))
}

fn windows_host_process(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    let who = setters(pod, |context| {
        flag(&context["windowsOptions"]["hostProcess"])
    })?;
    let detail = format!("{who} must not set securityContext.windowsOptions.hostProcess=true");
    Some(("hostProcess", detail))
}

fn privilege_escalation(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    if version >= WINDOWS_EXEMPT && is_windows(pod) {
        return None;
    }
    let containers = containers_that(pod, |container| {
        context(container)["allowPrivilegeEscalation"] != false
    });
    (!containers.is_empty()).then(|| {
        let named = named("container", &containers);
        let detail = format!("{named} must set securityContext.allowPrivilegeEscalation=false");
        ("allowPrivilegeEscalation != false", detail)
    })
}

/// The allowed volume types.
const ALLOWED_VOLUME_TYPES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

fn volumes(pod: PodView<'_>, _: u32) -> Option<(&'static str, String)> {
    fn sources(volume: &Value) -> impl Iterator<Item = &str> {
        let members = entries(volume).map(|(name, _)| name.as_str());
        members.filter(|name| *name != "name")
    }
    let wrong = items(&pod.spec["volumes"]).iter();
    let wrong = wrong
        .filter(|volume| !sources(volume).any(|source| ALLOWED_VOLUME_TYPES.contains(&source)));
    let wrong: Vec<&Value> = wrong.collect();
    if wrong.is_empty() {
        return None;
    }
    let names: Vec<&str> = wrong.iter().map(|volume| text(&volume["name"])).collect();
    let kinds = wrong.iter();
    let kinds: BTreeSet<&str> = kinds
        .map(|volume| sources(volume).next().unwrap_or("unknown"))
        .collect();
    let detail = format!(
        "{} {} {} {}",
        named("volume", &names),
        one_or_many(names.len(), "uses", "use"),
        one_or_many(
            kinds.len(),
            "restricted volume type",
            "restricted volume types"
        ),
        sorted(&kinds)
    );
    Some(("restricted volume types", detail))
}

fn run_as_non_root(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    if version >= USER_NAMESPACES_EXEMPT && has_user_namespace(pod) {
        return None;
    }
    const REASON: &str = "runAsNonRoot != true";
    if let Some(who) = setters(pod, |context| context["runAsNonRoot"] == false) {
        let detail = format!("{who} must not set securityContext.runAsNonRoot=false");
        return Some((REASON, detail));
    }
    let says = |holder: &Value| context(holder)["runAsNonRoot"] == true;
    if says(pod.spec) {
        return None;
    }
    let containers = containers_that(pod, |container| !says(container));
    (!containers.is_empty()).then(|| {
        let named = named("container", &containers);
        let detail = format!("pod or {named} must set securityContext.runAsNonRoot=true");
        (REASON, detail)
    })
}

fn run_as_user(pod: PodView<'_>, version: u32) -> Option<(&'static str, String)> {
    if version >= USER_NAMESPACES_EXEMPT && has_user_namespace(pod) {
        return None;
    }
    let who = setters(pod, |context| context["runAsUser"] == 0)?;
    let detail = format!("{who} must not set runAsUser=0");
    Some(("runAsUser=0", detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use optik_object::Object;
    use serde_json::json;

    fn describe(
        level: PodSecurityLevel,
        minor: Option<u32>,
        spec: &Value,
        annotations: &Value,
    ) -> String {
        let object = json!({"metadata": {"annotations": annotations}, "spec": spec});
        let object = Object::try_from(object).unwrap();
        let pod = PodView::in_object("", "pods", &object).unwrap();
        violations(LevelVersion { level, minor }, pod).details()
    }

    /// Violations that can be compared with a real server only if it is started with other options.
    #[test]
    fn pod_security_checks_shadowed_by_other_admission() {
        let privileged = json!({"containers": [
            {"name": "a", "securityContext": {"privileged": true}},
            {"name": "b", "securityContext": {"privileged": true}},
        ]});
        assert_eq!(
            describe(PodSecurityLevel::Baseline, None, &privileged, &json!({})),
            r#"privileged (containers "a", "b" must not set securityContext.privileged=true)"#
        );
        let process = json!({
            "securityContext": {"windowsOptions": {"hostProcess": true}},
            "containers": [
                {"name": "a", "securityContext": {"windowsOptions": {"hostProcess": true}}},
            ],
        });
        assert_eq!(
            describe(PodSecurityLevel::Baseline, None, &process, &json!({})),
            r#"hostProcess (pod and container "a" must not set securityContext.windowsOptions.hostProcess=true)"#
        );
        let unmasked = json!({"containers": [
            {"name": "a", "securityContext": {"procMount": "Unmasked"}},
        ]});
        let expected =
            r#"procMount (container "a" must not set securityContext.procMount to "Unmasked")"#;
        for minor in [Some(0), Some(34), Some(35), None] {
            let found = describe(PodSecurityLevel::Baseline, minor, &unmasked, &json!({}));
            assert_eq!(found, expected, "{minor:?}");
        }
    }

    #[test]
    fn pod_security_counts_app_armor_annotations_once() {
        let spec = json!({"containers": [{"name": "a"}]});
        let annotations = json!({
            "container.apparmor.security.beta.kubernetes.io/a": "unconfined",
            "container.apparmor.security.beta.kubernetes.io/b": "localhost/x",
            "seccomp.security.alpha.kubernetes.io/pod": "unconfined",
        });
        assert_eq!(
            describe(PodSecurityLevel::Baseline, Some(18), &spec, &annotations),
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to \
             \"container.apparmor.security.beta.kubernetes.io/a=\"unconfined\"\"), \
             seccompProfile (forbidden annotation \
             seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")"
        );
        assert_eq!(
            describe(PodSecurityLevel::Privileged, None, &spec, &annotations),
            ""
        );
    }
}
