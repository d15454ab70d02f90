//! Clients in other languages, each against a freshly started server.

use super::process::output;
use super::server::CompatServer;
use super::tools;
use crate::{Outcome, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// client-go: informers, protobuf, leader election.
pub(crate) fn client_go() -> Outcome {
    CompatServer::start()?.run(&mut go_test("./clientgo"))
}

/// An operator as people write them.
pub(crate) fn controller_runtime() -> Outcome {
    CompatServer::start()?.run(&mut go_test("./backup"))
}

/// A test suite that starts its own server: us, under the names it looks for.
pub(crate) fn envtest() -> Outcome {
    let assets = tools::place().join("envtest");
    let mut optik = Command::new(tools::optik()?);
    let made = output(optik.args(["envtest-assets", "--dir"]).arg(&assets))?;
    let kubectl = tools::kubectl()?;
    let mut suite = go_test("./envtest");
    suite
        .env("KUBEBUILDER_ASSETS", made.trim_end())
        .env("TEST_ASSET_KUBECTL", kubectl);
    succeeds(&mut suite)
}

fn go_test(package: &str) -> Command {
    let mut command = Command::new("go");
    command
        .args(["test", "-count=1", package])
        .current_dir(root().join("compat/go"));
    command
}

/// kube-rs is a crate: its tests are ours.
pub(crate) fn kube_rs() -> Outcome {
    let mut tests = Command::new(env!("CARGO"));
    tests
        .args(["test", "--locked", "--workspace", "--test", "kube"])
        .current_dir(root());
    succeeds(&mut tests)
}

/// An operator on our own runtime, over TLS.
pub(crate) fn operator() -> Outcome {
    let mut shell = Command::new("sh");
    let run = format!("OPTIK_TEST_KUBECONFIG=$KUBECONFIG exec {}", env!("CARGO"));
    shell.args(["-c", &format!("{run} {OPERATOR_TEST}")]);
    CompatServer::start()?.run(shell.current_dir(root()))
}

/// The operator on an external server.
pub(crate) fn operator_on(kubeconfig: &Path) -> Outcome {
    let mut tests = Command::new(env!("CARGO"));
    tests
        .args(OPERATOR_TEST.split(' '))
        .env("OPTIK_TEST_KUBECONFIG", kubeconfig)
        .current_dir(root());
    succeeds(&mut tests)
}

const OPERATOR_TEST: &str = "test --locked --workspace --test end_to_end";

pub(crate) fn python() -> Outcome {
    CompatServer::start()?.run(&mut python_script("client.py")?)
}

pub(crate) fn kopf() -> Outcome {
    CompatServer::start()?.run(&mut python_script("kopf_operator.py")?)
}

fn python_script(name: &str) -> Result<Command, String> {
    let mut command = Command::new(tools::python()?);
    command
        .arg("-B")
        .arg(root().join("compat/python").join(name));
    Ok(command)
}

pub(crate) fn client_node() -> Outcome {
    let script = tools::client_node()?;
    CompatServer::start()?.run(Command::new("node").arg(script))
}

/// It watches by WebSocket.
pub(crate) fn fabric8() -> Outcome {
    let classpath = tools::fabric8()?;
    let mut java = Command::new("java");
    java.arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .args(["-cp", &classpath])
        .arg(root().join("compat/java/Client.java"));
    CompatServer::start()?.run(&mut java)
}

pub(crate) fn helm() -> Outcome {
    let helm: PathBuf = tools::helm()?;
    let mut script = Command::new("bash");
    script
        .arg(root().join("compat/helm/run.sh"))
        .env("HELM", helm);
    CompatServer::start()?.run(&mut script)
}

/// CRDs of other projects, and their samples.
pub(crate) fn definitions() -> Outcome {
    let mut script = Command::new("bash");
    script.arg(root().join("compat/crds/run.sh"));
    CompatServer::start()?.run(&mut script)
}

fn succeeds(command: &mut Command) -> Outcome {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} ended with {status}")),
        Err(cause) => Err(format!("cannot run {program}: {cause}")),
    }
}
