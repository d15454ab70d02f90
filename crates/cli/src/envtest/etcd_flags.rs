//! The emulation of etcd: the store alone, behind etcd's v3 gRPC API.

use super::flag_action::FlagAction::{Ignored, Refused, Translated};
use super::flag_action::FlagGroup;
use super::{EmulatedProgram, FlagSyntax, Flags, last_value};

pub(super) const PROGRAM: EmulatedProgram = EmulatedProgram {
    name: "etcd",
    version: "etcd Version: 3.6.8",
    syntax: FlagSyntax {
        table: include_str!("etcd.txt"),
        one_dash: true,
        short: &[],
    },
    exit_usage: 2,
    flag_groups: FLAG_GROUPS,
    translate,
};

/// Every flag is in exactly one group.
const FLAG_GROUPS: &[FlagGroup] = &[
    (
        Translated,
        &[
            "data-dir",
            "initial-cluster",
            "listen-client-urls",
            "name",
            "unsafe-no-fsync",
        ],
    ),
    (
        Refused(NO_TLS),
        &[
            "auto-tls",
            "cert-file",
            "client-cert-allowed-hostname",
            "client-cert-auth",
            "client-crl-file",
            "key-file",
            "trusted-ca-file",
        ],
    ),
    (
        Refused(SINGLE_MEMBER),
        &[
            "discovery",
            "discovery-endpoints",
            "discovery-srv",
            "force-new-cluster",
        ],
    ),
    // Consensus, logging and size limits: there is no cluster, and no less data is kept here.
    (
        Ignored,
        &[
            "advertise-client-urls",
            "auth-token-ttl",
            "auth-token",
            "auto-compaction-mode",
            "auto-compaction-retention",
            "backend-batch-interval",
            "backend-batch-limit",
            "backend-bbolt-freelist-type",
            "bcrypt-cost",
            "bootstrap-defrag-threshold-megabytes",
            "cipher-suites",
            "client-cert-file",
            "client-key-file",
            "compact-hash-check-time",
            "compaction-batch-limit",
            "compaction-sleep-interval",
            "corrupt-check-time",
            "cors",
            "discovery-cacert",
            "discovery-cert",
            "discovery-dial-timeout",
            "discovery-fallback",
            "discovery-insecure-skip-tls-verify",
            "discovery-insecure-transport",
            "discovery-keepalive-time",
            "discovery-keepalive-timeout",
            "discovery-key",
            "discovery-password",
            "discovery-proxy",
            "discovery-request-timeout",
            "discovery-srv-name",
            "discovery-token",
            "discovery-user",
            "distributed-tracing-address",
            "distributed-tracing-instance-id",
            "distributed-tracing-sampling-rate",
            "distributed-tracing-service-name",
            "downgrade-check-time",
            "election-timeout",
            "enable-distributed-tracing",
            "enable-grpc-gateway",
            "enable-log-rotation",
            "enable-pprof",
            "experimental-bootstrap-defrag-threshold-megabytes",
            "experimental-compact-hash-check-enabled",
            "experimental-compact-hash-check-time",
            "experimental-compaction-batch-limit",
            "experimental-compaction-sleep-interval",
            "experimental-corrupt-check-time",
            "experimental-distributed-tracing-address",
            "experimental-distributed-tracing-instance-id",
            "experimental-distributed-tracing-sampling-rate",
            "experimental-distributed-tracing-service-name",
            "experimental-downgrade-check-time",
            "experimental-enable-distributed-tracing",
            "experimental-enable-lease-checkpoint",
            "experimental-enable-lease-checkpoint-persist",
            "experimental-initial-corrupt-check",
            "experimental-memory-mlock",
            "experimental-peer-skip-client-san-verification",
            "experimental-snapshot-catchup-entries",
            "experimental-stop-grpc-service-on-defrag",
            "experimental-txn-mode-write-with-shared-buffer",
            "experimental-warning-apply-duration",
            "experimental-warning-unary-request-duration",
            "experimental-watch-progress-notify-interval",
            "feature-gates",
            "grpc-keepalive-interval",
            "grpc-keepalive-min-time",
            "grpc-keepalive-timeout",
            "heartbeat-interval",
            "host-whitelist",
            "initial-advertise-peer-urls",
            "initial-cluster-state",
            "initial-cluster-token",
            "initial-election-tick-advance",
            "listen-client-http-urls",
            "listen-metrics-urls",
            "listen-peer-urls",
            "log-format",
            "log-level",
            "log-outputs",
            "log-rotation-config-json",
            "logger",
            "max-concurrent-streams",
            "max-learners",
            "max-request-bytes",
            "max-snapshots",
            "max-txn-ops",
            "max-wals",
            "memory-mlock",
            "metrics",
            "peer-auto-tls",
            "peer-cert-allowed-cn",
            "peer-cert-allowed-hostname",
            "peer-cert-file",
            "peer-client-cert-auth",
            "peer-client-cert-file",
            "peer-client-key-file",
            "peer-crl-file",
            "peer-key-file",
            "peer-skip-client-san-verification",
            "peer-trusted-ca-file",
            "pre-vote",
            "quota-backend-bytes",
            "raft-read-timeout",
            "raft-write-timeout",
            "self-signed-cert-validity",
            "snapshot-catchup-entries",
            "snapshot-count",
            "socket-reuse-address",
            "socket-reuse-port",
            "strict-reconfig-check",
            "tls-max-version",
            "tls-min-version",
            "v2-deprecation",
            "wal-dir",
            "warning-apply-duration",
            "warning-unary-request-duration",
            "watch-progress-notify-interval",
        ],
    ),
];

const NO_TLS: &str = "Optik's etcd speaks no TLS; it listens on this machine only";
const SINGLE_MEMBER: &str = "Optik's etcd is always the only member";

/// etcd compacts on request only; Optik's store would compact after minutes by default.
const HISTORY_AGE_FLAG: &str = "--history-age=8760h";

fn translate(flags: &Flags) -> Result<Vec<String>, String> {
    if last_value(flags, "initial-cluster").is_some_and(|members| members.contains(',')) {
        return Err(format!("--initial-cluster: {SINGLE_MEMBER}"));
    }
    let name = last_value(flags, "name").unwrap_or("default");
    let data = last_value(flags, "data-dir").filter(|data| !data.is_empty());
    let data = data.map_or_else(|| format!("{name}.etcd"), str::to_owned);
    let urls = last_value(flags, "listen-client-urls").unwrap_or("http://localhost:2379");
    let mut words = vec![
        "--etcd-only".to_owned(),
        format!("--etcd-listen={}", listen_address(urls)?),
        format!("--data={data}"),
        HISTORY_AGE_FLAG.to_owned(),
    ];
    if last_value(flags, "unsafe-no-fsync") == Some("true") {
        words.push("--durability=process-crash".to_owned());
    }
    Ok(words)
}

/// The address in a URL, as `optik serve` takes it.
fn listen_address(urls: &str) -> Result<String, String> {
    let refuse = |reason: &str| Err(format!("--listen-client-urls {urls}: {reason}"));
    if urls.contains(',') {
        return refuse("Optik's etcd listens on one address");
    }
    let Some(authority) = urls.strip_prefix("http://") else {
        return refuse(NO_TLS);
    };
    let authority = authority.trim_end_matches('/');
    let Some((host, port)) = authority.rsplit_once(':') else {
        return refuse("it names no port");
    };
    let host = if host == "localhost" {
        "127.0.0.1"
    } else {
        host
    };
    Ok(format!("{host}:{port}"))
}
