//! Real peers: etcd, etcdctl, kubectl, kube-apiserver, against a freshly built `optik`.

mod etcd;
mod etcdctl;
mod process;
mod scripts;
mod tools;

use crate::Outcome;

/// One thing that is tried, and what came of it.
struct Part {
    name: &'static str,
    run: fn() -> Outcome,
    /// Too slow for every change; only when it is named.
    on_request: bool,
}

const PARTS: &[Part] = &[
    Part {
        name: "etcd-1",
        run: etcd::one_node,
        on_request: false,
    },
    Part {
        name: "etcd-3",
        run: etcd::three_nodes,
        on_request: false,
    },
    Part {
        name: "etcd-faults",
        run: etcd::faults,
        on_request: false,
    },
    Part {
        name: "etcdctl",
        run: etcdctl::newest,
        on_request: false,
    },
    Part {
        name: "etcdctl-3.4",
        run: etcdctl::debian,
        on_request: false,
    },
    Part {
        name: "seeds",
        run: scripts::seeds,
        on_request: false,
    },
    Part {
        name: "kubectl",
        run: scripts::kubectl,
        on_request: false,
    },
    Part {
        name: "kube-apiserver",
        run: etcd::kube_apiserver,
        on_request: true,
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
        table.push(format!("{:<16} {verdict}", part.name));
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
