//! Maintenance commands of this repository: `cargo xtask …`.
#![expect(
    clippy::print_stdout,
    reason = "a chore talks to the person who runs it"
)]

mod architecture;
mod bootstrap;
mod catalog;
mod columns;
mod compat;
mod contract;
mod flags;
mod glossary;
mod long_checks;
mod openapi;
mod protobuf;
mod record;
mod roles;
mod schemas;
mod threat_model;
mod tidy;
mod upstream;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask tidy
       cargo xtask msrv               checks with the oldest compiler that is promised
       cargo xtask deny               licences, versions and sources of dependencies
       cargo xtask fuzz [SECONDS]     runs each fuzz target so long
       cargo xtask upstream VERSION   the steps to another Kubernetes version
       cargo xtask catalog FILE       makes the table of built-in kinds from discovery
       cargo xtask protobuf FILE      makes the table of messages from Go's struct tags
       cargo xtask bootstrap FILE     makes the table of objects a cluster begins with
       cargo xtask columns FILE       makes the table of columns from what a server says
       cargo xtask roles FILE         makes the table of the roles of a new cluster
       cargo xtask schemas FILE       makes the table of their fields from OpenAPI v3
       cargo xtask openapi FILE DIR   makes the table of schemas for clients, with the
                                      descriptions of the k8s-openapi crate
       cargo xtask flags PROGRAM…     makes the tables of flags of kube-apiserver and etcd
       cargo xtask compat [PART…]     parts: etcd-1 etcd-3 etcd-faults etcdctl
                                      etcdctl-3.4 seeds kubectl kubectl-1.36
                                      client-go controller-runtime envtest kube-rs
                                      operator operators python kopf client-node fabric8 helm
                                      definitions (all of them if none is named),
                                      kube-apiserver and controller-manager (slow),
                                      --live (compare a real server with the recording)
       cargo xtask record [PART…]     makes recordings again, or says how that is done by hand;
                                      parts: the directories of recordings/. server starts
                                      the server to ask, layout breaks JSON into lines
       cargo xtask controllers [--short]
                                      measures three runtimes for controllers";

/// The result of a command: an error message if it fails.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let outcome = match words.next().as_deref() {
        Some("tidy") => tidy::run(),
        Some("upstream") => upstream::run(&words.collect::<Vec<_>>()),
        Some("msrv") => long_checks::msrv(),
        Some("deny") => long_checks::deny(),
        Some("fuzz") => long_checks::fuzz(&words.collect::<Vec<_>>()),
        Some("catalog") => catalog::run(&words.collect::<Vec<_>>()),
        Some("openapi") => openapi::run(&words.collect::<Vec<_>>()),
        Some("bootstrap") => bootstrap::run(&words.collect::<Vec<_>>()),
        Some("columns") => columns::run(&words.collect::<Vec<_>>()),
        Some("protobuf") => protobuf::run(&words.collect::<Vec<_>>()),
        Some("roles") => roles::run(&words.collect::<Vec<_>>()),
        Some("schemas") => schemas::run(&words.collect::<Vec<_>>()),
        Some("flags") => flags::run(&words.collect::<Vec<_>>()),
        Some("record") => record::run(&words.collect::<Vec<_>>()),
        Some("controllers") => compat::measure(&words.collect::<Vec<_>>()),
        Some("compat") => compat::run(&words.collect::<Vec<_>>()),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            println!("{text}");
            ExitCode::FAILURE
        }
    }
}

/// The repository this was built from.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("xtask lies in the repository")
        .to_owned()
}
