//! The emulation of kube-apiserver: the API on the etcd that its flags name.

use super::apiserver_flag_actions::FLAG_GROUPS;
use super::{EmulatedProgram, FlagSyntax, Flags, last_value};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

pub(super) const PROGRAM: EmulatedProgram = EmulatedProgram {
    name: "kube-apiserver",
    version: "Kubernetes v1.36.4",
    syntax: FlagSyntax {
        table: include_str!("kube-apiserver.txt"),
        one_dash: false,
        short: &["v"],
    },
    exit_usage: 1,
    flag_groups: FLAG_GROUPS,
    translate,
};

/// The reason to reject flags whose omission would let unexpected clients in, or store data in
/// unexpected places.
const NOT_SUPPORTED: &str = "not supported by Optik, and not safe to ignore";
const NO_NODE_AUTHORIZER: &str = "Optik has no authorizer for nodes: they would have no rights. Say RBAC, \
    and bind system:node to system:nodes if nodes are to be users with that role";

/// No controllers run: a test suite that emulates controllers must not meet real ones.
const NO_CONTROLLERS_FLAG: &str = "--controllers=";

const ETCD_PREFIX: &str = "/registry";
const DEFAULT_PORT: &str = "6443";

fn translate(flags: &Flags) -> Result<Vec<String>, String> {
    let servers = flags.get("etcd-servers").map(|urls| urls.join(","));
    let servers = servers.filter(|urls| !urls.is_empty());
    let servers = servers.ok_or("--etcd-servers must be specified")?;
    let prefix = last_value(flags, "etcd-prefix").unwrap_or(ETCD_PREFIX);
    if prefix.trim_end_matches('/') != ETCD_PREFIX {
        return Err(format!(
            "--etcd-prefix {prefix}: Optik keeps objects below {ETCD_PREFIX}"
        ));
    }
    if last_value(flags, "audit-log-path") == Some("-") {
        return Err("--audit-log-path -: Optik writes its audit log to a file only".into());
    }
    let mut words = vec![
        format!("--etcd={servers}"),
        format!("--listen={}", listen_address(flags)?),
        format!("--authorization-mode={}", authorization_mode(flags)?),
        NO_CONTROLLERS_FLAG.to_owned(),
    ];
    if let Some(range) =
        last_value(flags, "service-cluster-ip-range").filter(|said| !said.is_empty())
    {
        words.push(format!(
            "--service-cluster-ip-range={}",
            single_service_range(range)?
        ));
    }
    match flags.get("service-account-issuer").map(Vec::as_slice) {
        None => {}
        Some([issuer]) => words.push(format!("--service-account-issuer={issuer}")),
        Some(_) => return Err("--service-account-issuer: Optik believes one issuer".into()),
    }
    if let Some(directory) = last_value(flags, "cert-dir") {
        let own_pair = flags.contains_key("tls-cert-file");
        words.extend(certificate_flags(Path::new(directory), own_pair));
    }
    Ok(words)
}

fn single_service_range(said: &str) -> Result<&str, String> {
    match said.contains([',', ':']) {
        false => Ok(said),
        true => Err(format!(
            "--service-cluster-ip-range {said}: Optik gives services addresses of one IPv4 network"
        )),
    }
}

/// Of several authorization modes, the one that allows most is chosen.
fn authorization_mode(flags: &Flags) -> Result<&'static str, String> {
    let Some(said) = last_value(flags, "authorization-mode") else {
        return Ok("AlwaysAllow");
    };
    let modes: Vec<_> = said.split(',').collect();
    for mode in &modes {
        let reason = match *mode {
            "AlwaysAllow" | "RBAC" => continue,
            "Node" => NO_NODE_AUTHORIZER,
            _ => NOT_SUPPORTED,
        };
        return Err(format!("--authorization-mode {mode}: {reason}"));
    }
    Ok(if modes.contains(&"AlwaysAllow") {
        "AlwaysAllow"
    } else {
        "RBAC"
    })
}

fn listen_address(flags: &Flags) -> Result<SocketAddr, String> {
    let port = last_value(flags, "secure-port").unwrap_or(DEFAULT_PORT);
    let port = port.parse().ok().filter(|port| *port != 0).ok_or_else(|| {
        format!("invalid argument {port:?} for \"--secure-port\" flag: it is a port")
    })?;
    let ip = last_value(flags, "bind-address").unwrap_or("0.0.0.0");
    let ip: IpAddr = ip.parse().map_err(|_| {
        format!("invalid argument {ip:?} for \"--bind-address\" flag: it is an IP address")
    })?;
    Ok(SocketAddr::new(ip, port))
}

/// The certificate flags. A pair in the directory is the server's; other files go into a directory
/// of their own, because there may be another `ca.crt` beside the pair.
fn certificate_flags(directory: &Path, own_pair: bool) -> Vec<String> {
    let path = |name: &str| directory.join(name).display().to_string();
    let mut words = vec![
        format!("--kubeconfig-out={}", path("optik/kubeconfig")),
        format!("--cert-dir={}", path("optik")),
    ];
    let (certificate, key) = (path("apiserver.crt"), path("apiserver.key"));
    if !own_pair && Path::new(&certificate).exists() && Path::new(&key).exists() {
        words.push(format!("--tls-cert-file={certificate}"));
        words.push(format!("--tls-private-key-file={key}"));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cert_dir_pair_becomes_the_serving_certificate() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name).display().to_string();
        let ours = [
            format!("--kubeconfig-out={}", path("optik/kubeconfig")),
            format!("--cert-dir={}", path("optik")),
        ];
        assert_eq!(certificate_flags(scratch.path(), false), ours);
        for name in ["apiserver.crt", "apiserver.key"] {
            std::fs::write(path(name), "").unwrap();
        }
        let theirs = [
            format!("--tls-cert-file={}", path("apiserver.crt")),
            format!("--tls-private-key-file={}", path("apiserver.key")),
        ];
        let all = [ours.clone(), theirs].concat();
        assert_eq!(certificate_flags(scratch.path(), false), all);
        assert_eq!(certificate_flags(scratch.path(), true), ours);
    }
}
