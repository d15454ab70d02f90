//! Real peers against a freshly built `optik`: etcd and etcdctl, kubectl, clients in five
//! languages, Helm, kube-apiserver.

mod clients;
mod etcd;
mod etcdctl;
mod operators;
mod process;
mod scripts;
mod server;
mod tools;

use crate::Outcome;

pub(crate) use etcd::{EtcdServer, KubeApiserver, TOKEN};
pub(crate) use operators::measure;
pub(crate) use process::output;

/// One compatibility job, and its outcome.
struct CompatJob {
    name: &'static str,
    run: fn() -> Outcome,
    /// Too slow for every change; only when it is named.
    on_request: bool,
}

const fn job(name: &'static str, run: fn() -> Outcome) -> CompatJob {
    CompatJob {
        name,
        run,
        on_request: false,
    }
}

const PARTS: &[CompatJob] = &[
    job("etcd-1", etcd::one_node),
    job("etcd-3", etcd::three_nodes),
    job("etcd-faults", etcd::faults),
    job("etcdctl", etcdctl::newest),
    job("etcdctl-3.4", etcdctl::debian),
    job("seeds", scripts::seeds),
    job("kubectl", scripts::kubectl),
    job("kubectl-1.36", scripts::newest_kubectl),
    job("client-go", clients::client_go),
    job("controller-runtime", clients::controller_runtime),
    job("envtest", clients::envtest),
    job("kube-rs", clients::kube_rs),
    job("operator", clients::operator),
    job("operators", operators::operator_lifecycles),
    job("python", clients::python),
    job("kopf", clients::kopf),
    job("client-node", clients::client_node),
    job("fabric8", clients::fabric8),
    job("helm", clients::helm),
    job("definitions", clients::definitions),
    CompatJob {
        on_request: true,
        ..job("kube-apiserver", etcd::kube_apiserver)
    },
    CompatJob {
        on_request: true,
        ..job("controller-manager", scripts::controller_manager)
    },
    CompatJob {
        on_request: true,
        ..job("--live", etcd::live)
    },
];

pub(crate) fn run(wanted: &[String]) -> Outcome {
    let chosen = |part: &&CompatJob| {
        if wanted.is_empty() {
            !part.on_request
        } else {
            wanted.iter().any(|name| name == part.name)
        }
    };
    let parts: Vec<_> = PARTS.iter().filter(chosen).collect();
    if parts.is_empty() || wanted.len() > parts.len() {
        return Err(crate::USAGE.to_owned());
    }
    let mut table = Vec::new();
    let mut failed = 0;
    for part in parts {
        println!("== {}", part.name);
        let outcome = (part.run)();
        failed += usize::from(outcome.is_err());
        let verdict = match &outcome {
            Ok(()) => "ok".to_owned(),
            Err(reason) => format!("FAILS: {reason}"),
        };
        println!("{verdict}");
        let verdict = verdict.lines().next().unwrap_or_default();
        table.push(format!("{:<18} {verdict}", part.name));
    }
    println!("\n{}", table.join("\n"));
    println!("{} passed, {failed} failed", table.len() - failed);
    if failed == 0 {
        Ok(())
    } else {
        Err(format!("{failed} compatibility jobs failed"))
    }
}
