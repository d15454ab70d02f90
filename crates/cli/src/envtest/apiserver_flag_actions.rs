//! The action for each flag of kube-apiserver.

use super::admission_plugins::{check_disabled, check_enabled};
use super::flag_action::FlagAction::{Checked, Ignored, Refused, Same, Translated};
use super::flag_action::FlagGroup;

const NOT_SUPPORTED: &str = "not supported by Optik, and not safe to ignore";
const NO_FRONT_PROXY: &str = "Optik takes nobody's word for who somebody is: users behind a front \
    proxy would not get in";
const NO_CONFIGURATION: &str =
    "Optik's admission plugins cannot be configured: what the file asks for would not happen";
const ADMISSION_CONTROL_REPLACED: &str = "Optik's admission plugins cannot be listed; see \
    --enable-admission-plugins and --disable-admission-plugins";

/// Every flag is in exactly one group.
pub(super) const FLAG_GROUPS: &[FlagGroup] = &[
    (
        Same,
        &[
            "anonymous-auth",
            "api-audiences",
            "audit-log-maxage",
            "audit-log-maxbackup",
            "audit-log-maxsize",
            "audit-log-path",
            "audit-policy-file",
            "client-ca-file",
            "cors-allowed-origins",
            "etcd-cafile",
            "etcd-certfile",
            "etcd-keyfile",
            "max-mutating-requests-inflight",
            "max-requests-inflight",
            "service-account-key-file",
            "service-account-max-token-expiration",
            "service-account-signing-key-file",
            "tls-cert-file",
            "tls-private-key-file",
            "token-auth-file",
        ],
    ),
    (
        Translated,
        &[
            "authorization-mode",
            "bind-address",
            "cert-dir",
            "etcd-prefix",
            "etcd-servers",
            "secure-port",
            "service-account-issuer",
            "service-cluster-ip-range",
        ],
    ),
    // Authentication and authorization.
    (
        Refused(NOT_SUPPORTED),
        &[
            "authentication-config",
            "authentication-token-webhook-config-file",
            "authorization-config",
            "authorization-policy-file",
            "authorization-webhook-config-file",
            "enable-bootstrap-token-auth",
            "oidc-issuer-url",
            "service-account-signing-endpoint",
        ],
    ),
    (Refused(NO_FRONT_PROXY), &["requestheader-client-ca-file"]),
    (Checked(must_be_true), &["service-account-lookup"]),
    (
        Checked(must_be_true),
        &["service-account-extend-token-expiration"],
    ),
    // TLS.
    (Checked(tls_version), &["tls-min-version"]),
    (Checked(cipher_suites), &["tls-cipher-suites"]),
    (
        Refused("Optik has one choice of TLS curves and one certificate for all names"),
        &["tls-curve-preferences", "tls-sni-cert-key"],
    ),
    (
        Refused("Optik always speaks HTTP/2 to those who want it"),
        &["disable-http2-serving"],
    ),
    (
        Refused("Optik calls webhooks itself, and would go past the proxy"),
        &["egress-selector-config-file"],
    ),
    // Admission.
    (
        Refused(NO_CONFIGURATION),
        &["admission-control-config-file"],
    ),
    (Refused(ADMISSION_CONTROL_REPLACED), &["admission-control"]),
    (Checked(check_enabled), &["enable-admission-plugins"]),
    (Checked(check_disabled), &["disable-admission-plugins"]),
    (
        Checked(toleration_seconds),
        &[
            "default-not-ready-toleration-seconds",
            "default-unreachable-toleration-seconds",
        ],
    ),
    (Checked(node_ports), &["service-node-port-range"]),
    // Storage.
    (
        Refused(NOT_SUPPORTED),
        &["encryption-provider-config", "etcd-servers-overrides"],
    ),
    (Checked(event_ttl), &["event-ttl"]),
    (Checked(must_be_true), &["enable-garbage-collector"]),
    (Checked(storage_backend), &["storage-backend"]),
    (Checked(compaction), &["etcd-compaction-interval"]),
    // Audit.
    (
        Refused("Optik writes its audit log to a file only; see --audit-log-path"),
        &["audit-webhook-config-file"],
    ),
    (Checked(audit_mode), &["audit-log-mode"]),
    (Checked(audit_format), &["audit-log-format"]),
    (Checked(audit_version), &["audit-log-version"]),
    (
        Ignored,
        &[
            "advertise-address",
            "aggregator-reject-forwarding-redirect",
            "allow-metric-labels",
            "allow-metric-labels-manifest",
            "allow-privileged",
            "audit-log-batch-buffer-size",
            "audit-log-batch-max-size",
            "audit-log-batch-max-wait",
            "audit-log-batch-throttle-burst",
            "audit-log-batch-throttle-enable",
            "audit-log-batch-throttle-qps",
            "audit-log-compress",
            // Events are never truncated here: more is logged, not less.
            "audit-log-truncate-enabled",
            "audit-log-truncate-max-batch-size",
            "audit-log-truncate-max-event-size",
            // These only configure the audit webhook, whose own flag is rejected.
            "audit-webhook-batch-buffer-size",
            "audit-webhook-batch-max-size",
            "audit-webhook-batch-max-wait",
            "audit-webhook-batch-throttle-burst",
            "audit-webhook-batch-throttle-enable",
            "audit-webhook-batch-throttle-qps",
            "audit-webhook-initial-backoff",
            "audit-webhook-mode",
            "audit-webhook-truncate-enabled",
            "audit-webhook-truncate-max-batch-size",
            "audit-webhook-truncate-max-event-size",
            "audit-webhook-version",
            "authentication-token-webhook-cache-ttl",
            "authentication-token-webhook-version",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
            "authorization-webhook-version",
            "contention-profiling",
            "coordinated-leadership-lease-duration",
            "coordinated-leadership-renew-deadline",
            "coordinated-leadership-retry-period",
            "debug-socket-path",
            "delete-collection-workers",
            "disabled-metrics",
            "emulated-version",
            "emulation-forward-compatible",
            "enable-aggregator-routing",
            "enable-logs-handler",
            "enable-priority-and-fairness",
            "encryption-provider-config-automatic-reload",
            "endpoint-reconciler-type",
            "etcd-count-metric-poll-period",
            "etcd-db-metric-poll-interval",
            "etcd-healthcheck-timeout",
            "etcd-readycheck-timeout",
            "external-hostname",
            "feature-gates",
            "goaway-chance",
            "help",
            "http2-max-streams-per-connection",
            "kubelet-certificate-authority",
            "kubelet-client-certificate",
            "kubelet-client-key",
            "kubelet-preferred-address-types",
            "kubelet-timeout",
            "kubernetes-service-node-port",
            "lease-reuse-duration-seconds",
            "livez-grace-period",
            "log-flush-frequency",
            "log-json-info-buffer-size",
            "log-json-split-stream",
            "log-text-info-buffer-size",
            "log-text-split-stream",
            "logging-format",
            "max-connection-bytes-per-sec",
            "min-compatibility-version",
            "min-request-timeout",
            // These only configure OIDC tokens, whose issuer flag is rejected.
            "oidc-ca-file",
            "oidc-client-id",
            "oidc-groups-claim",
            "oidc-groups-prefix",
            "oidc-required-claim",
            "oidc-signing-algs",
            "oidc-username-claim",
            "oidc-username-prefix",
            "peer-advertise-ip",
            "peer-advertise-port",
            "peer-ca-file",
            "permit-address-sharing",
            "permit-port-sharing",
            "profiling",
            "proxy-client-cert-file",
            "proxy-client-key-file",
            "request-timeout",
            // Without a CA for front proxies, these headers are ignored.
            "requestheader-allowed-names",
            "requestheader-extra-headers-prefix",
            "requestheader-group-headers",
            "requestheader-uid-headers",
            "requestheader-username-headers",
            "runtime-config",
            "runtime-config-emulation-forward-compatible",
            "service-account-jwks-uri",
            "show-hidden-metrics-for-version",
            "shutdown-delay-duration",
            "shutdown-send-retry-after",
            "shutdown-watch-termination-grace-period",
            "storage-initialization-timeout",
            "storage-media-type",
            "strict-transport-security-directives",
            "tracing-config-file",
            "v",
            "version",
            "vmodule",
            "watch-cache",
            "watch-cache-sizes",
        ],
    ),
];

fn one_of(said: &str, possible: &[&str], otherwise: &str) -> Result<(), String> {
    match possible.contains(&said) {
        true => Ok(()),
        false => Err(format!("{said:?} cannot be had: {otherwise}")),
    }
}

fn must_be_true(said: &str) -> Result<(), String> {
    one_of(said, &["true"], "Optik always does this")
}

fn tls_version(said: &str) -> Result<(), String> {
    let possible = ["", "VersionTLS10", "VersionTLS11", "VersionTLS12"];
    one_of(said, &possible, "Optik also speaks TLS 1.2")
}

/// The cipher suites of TLS 1.2 that Optik offers. Those of TLS 1.3 cannot be configured, as in Go.
const CIPHER_SUITES: [&str; 6] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Checks a list of cipher suites: it may have more than Optik offers, but must have all of those.
fn cipher_suites(said: &str) -> Result<(), String> {
    let listed: Vec<&str> = said.split(',').map(str::trim).collect();
    // Go has an older name for two of them.
    let has = |suite: &str| {
        let short = suite.strip_suffix("_SHA256").unwrap_or(suite);
        listed.contains(&suite) || suite.contains("CHACHA20") && listed.contains(&short)
    };
    match CIPHER_SUITES.iter().find(|suite| !has(suite)) {
        Some(suite) if !said.is_empty() => Err(format!(
            "Optik also offers {suite}; a list must have all of {}",
            CIPHER_SUITES.join(",")
        )),
        _ => Ok(()),
    }
}

fn toleration_seconds(said: &str) -> Result<(), String> {
    one_of(said, &["300"], "Optik always adds 300 seconds")
}

fn node_ports(said: &str) -> Result<(), String> {
    let otherwise = "Optik gives services ports of 30000-32767";
    one_of(said, &["30000-32767", "30000+2767"], otherwise)
}

fn event_ttl(said: &str) -> Result<(), String> {
    let hour = ["1h", "1h0m", "1h0m0s", "60m", "60m0s", "3600s"];
    one_of(said, &hour, "Optik keeps events for an hour")
}

fn compaction(said: &str) -> Result<(), String> {
    let minutes = ["5m", "5m0s", "300s"];
    one_of(said, &minutes, "Optik compacts every five minutes here")
}

fn storage_backend(said: &str) -> Result<(), String> {
    one_of(said, &["", "etcd3"], "there is only etcd3")
}

fn audit_mode(said: &str) -> Result<(), String> {
    let otherwise = "Optik writes events before it goes on, and goes on if it cannot";
    one_of(said, &["batch", "blocking"], otherwise)
}

fn audit_format(said: &str) -> Result<(), String> {
    one_of(said, &["json"], "Optik writes json")
}

fn audit_version(said: &str) -> Result<(), String> {
    one_of(said, &["audit.k8s.io/v1"], "Optik writes audit.k8s.io/v1")
}
