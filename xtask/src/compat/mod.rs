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

pub(crate) use operators::measure;

/// One thing that is tried, and what came of it.
struct Part {
    name: &'static str,
    run: fn() -> Outcome,
    /// Too slow for every change; only when it is named.
    on_request: bool,
}

const fn part(name: &'static str, run: fn() -> Outcome) -> Part {
    Part {
        name,
        run,
        on_request: false,
    }
}

const PARTS: &[Part] = &[
    part("etcd-1", etcd::one_node),
    part("etcd-3", etcd::three_nodes),
    part("etcd-faults", etcd::faults),
    part("etcdctl", etcdctl::newest),
    part("etcdctl-3.4", etcdctl::debian),
    part("seeds", scripts::seeds),
    part("kubectl", scripts::kubectl),
    part("kubectl-1.36", scripts::newest_kubectl),
    part("client-go", clients::client_go),
    part("controller-runtime", clients::controller_runtime),
    part("envtest", clients::envtest),
    part("kube-rs", clients::kube_rs),
    part("operator", clients::operator),
    part("operators", operators::lives),
    part("python", clients::python),
    part("kopf", clients::kopf),
    part("client-node", clients::client_node),
    part("fabric8", clients::fabric8),
    part("helm", clients::helm),
    part("definitions", clients::definitions),
    Part {
        on_request: true,
        ..part("kube-apiserver", etcd::kube_apiserver)
    },
    Part {
        on_request: true,
        ..part("controller-manager", scripts::controller_manager)
    },
    Part {
        on_request: true,
        ..part("--live", etcd::live)
    },
];

pub(crate) fn run(wanted: &[String]) -> Outcome {
    let chosen = |part: &&Part| {
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
            Ok(()) => "works".to_owned(),
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
        Err(format!(
            "{failed} of the real peers do not get along with us"
        ))
    }
}
