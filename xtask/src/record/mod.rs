//! Records the responses of real servers again: `cargo xtask record [PART]`. `recordings/README.md`
//! lists the files and the tests that read them.

pub(crate) mod json_layout;
mod steps;

use crate::compat::{EtcdServer, KubeApiserver, TOKEN};
use crate::{Outcome, root};
use std::process::Command;

/// One directory of `recordings`.
struct Recording {
    name: &'static str,
    made: Made,
}

enum Made {
    /// By a program.
    By(fn() -> Outcome),
    /// By hand: these are the steps.
    ByHand(&'static str),
}

const PARTS: &[Recording] = &[
    part("differential", Made::By(differential)),
    part("authorization", Made::By(authorization)),
    part("etcd", Made::By(etcd)),
    part("objects", Made::ByHand(steps::OBJECTS)),
    part("pod-security", Made::ByHand(steps::POD_SECURITY)),
    part("tables", Made::ByHand(steps::TABLES)),
    part("cel", Made::ByHand(steps::CEL)),
    part("patch", Made::ByHand(steps::PATCH)),
    part("protobuf", Made::ByHand(steps::PROTOBUF)),
];

const fn part(name: &'static str, made: Made) -> Recording {
    Recording { name, made }
}

pub(crate) fn run(wanted: &[String]) -> Outcome {
    match wanted {
        [name] if name == "server" => return serve(),
        [name] if name == "layout" => return json_layout::rewrite(),
        _ => {}
    }
    let is_wanted = |part: &&Recording| wanted.is_empty() || wanted.iter().any(|w| w == part.name);
    let parts: Vec<_> = PARTS.iter().filter(is_wanted).collect();
    if parts.is_empty() || parts.len() < wanted.len() {
        let names: Vec<_> = PARTS.iter().map(|part| part.name).collect();
        return Err(format!(
            "usage: cargo xtask record [PART…], cargo xtask record server|layout; parts: {}",
            names.join(" ")
        ));
    }
    for part in parts {
        println!("== recordings/{}", part.name);
        match part.made {
            Made::By(make) => {
                make()?;
                println!("made again; review the diff");
            }
            Made::ByHand(steps) => println!("made by hand:\n{}", steps.trim()),
        }
    }
    Ok(())
}

/// A real kube-apiserver, until a line is read.
fn serve() -> Outcome {
    let server = KubeApiserver::start()?;
    println!("export SERVER={} TOKEN={TOKEN}", server.url());
    println!("Press Enter to stop it.");
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|cause| format!("cannot read a line: {cause}"))?;
    Ok(())
}

fn differential() -> Outcome {
    KubeApiserver::start()?.run_differential(&["--write"])
}

/// Authorization decisions, one line for each review.
fn authorization() -> Outcome {
    let server = KubeApiserver::start()?;
    let mut ask = example("optik-api-testkit", "decisions");
    ask.args(["--server", &server.url(), "--token", TOKEN]);
    write("authorization/decisions.txt", &mut ask)
}

fn etcd() -> Outcome {
    let server = EtcdServer::start()?;
    let mut ask = example("optik-etcd-facade", "record");
    write("etcd/etcd-3.6.8.txt", ask.arg(server.url()))
}

fn example(package: &str, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["run", "--quiet", "--locked", "--package", package])
        .args(["--example", name, "--"])
        .current_dir(root());
    command
}

/// Writes the output of a program as the recording.
fn write(file: &str, program: &mut Command) -> Outcome {
    let text = crate::compat::output(program)?;
    let path = root().join("recordings").join(file);
    std::fs::write(&path, text).map_err(|cause| format!("{}: {cause}", path.display()))
}
