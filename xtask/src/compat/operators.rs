//! The Backup operator on three runtimes: each passes one lifecycle test of a Backup, and their
//! requests are compared.

use super::process::{ChildServer, free_port, output};
use super::server::CompatServer;
use super::tools;
use crate::{Outcome, root};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How the Rust programs are built.
#[derive(Clone, Copy)]
enum Profile {
    Debug,
    Release,
}

/// The programs, and the arguments that start the operator.
struct Programs {
    optik: PathBuf,
    /// On our runtime.
    ours: PathBuf,
    /// The operator on kube-rs, and the lifecycle test for all.
    compat: PathBuf,
    /// The measurement of all.
    bench: PathBuf,
    /// On controller-runtime.
    go: PathBuf,
    /// Only read, on controller-runtime.
    go_bench: PathBuf,
}

impl Programs {
    fn build(profile: Profile) -> Result<Self, String> {
        let packages = [
            "optik-cli",
            "backup-operator",
            "optik-controller-compat",
            "optik-bench",
        ];
        let mut build = Command::new(env!("CARGO"));
        build
            .args(["build", "--quiet", "--locked"])
            .current_dir(root());
        for package in packages {
            build.args(["--package", package]);
        }
        if let Profile::Release = profile {
            build.arg("--release");
        }
        if !build.status().is_ok_and(|status| status.success()) {
            return Err("the operators do not build".to_owned());
        }
        let directory = tools::target().join(match profile {
            Profile::Debug => "debug",
            Profile::Release => "release",
        });
        Ok(Self {
            optik: directory.join("optik"),
            ours: directory.join("backup-operator"),
            compat: directory.join("optik-controller-compat"),
            bench: directory.join("optik-controller-bench"),
            go: go_build("./backup/operator", "backup-operator")?,
            go_bench: go_build("./bench", "controller-bench")?,
        })
    }

    /// Each as a program with its words.
    fn operators(&self) -> [Vec<PathBuf>; 3] {
        [
            vec![self.ours.clone()],
            vec![self.compat.clone(), "operator".into()],
            vec![self.go.clone()],
        ]
    }
}

fn go_build(package: &str, name: &str) -> Result<PathBuf, String> {
    let program = tools::place().join("go").join(name);
    let mut build = Command::new("go");
    let build = build.arg("build").arg("-o").arg(&program).arg(package);
    output(build.current_dir(root().join("compat/go")))?;
    Ok(program)
}

/// The life of a Backup with each operator, on a server of ours just started.
pub(crate) fn operator_lifecycles() -> Outcome {
    let programs = Programs::build(Profile::Debug)?;
    for operator in programs.operators() {
        println!("-- {}", tail_of_output(&operator));
        let mut life = Command::new(&programs.compat);
        CompatServer::start()?.run(life.arg("life").args(&operator))?;
    }
    Ok(())
}

/// The lifecycle test on an external server.
pub(crate) fn operator_lifecycle_on(kubeconfig: &Path) -> Outcome {
    let programs = Programs::build(Profile::Debug)?;
    for operator in programs.operators() {
        println!("-- {}", tail_of_output(&operator));
        let mut life = Command::new(&programs.compat);
        life.arg("life")
            .args(&operator)
            .env("KUBECONFIG", kubeconfig);
        if !life.status().is_ok_and(|status| status.success()) {
            return Err(format!(
                "{} did not live through it",
                tail_of_output(&operator)
            ));
        }
    }
    Ok(())
}

/// The fault tests of `optik-controller` on an external server. They use no TLS, so kubectl proxies
/// for them.
pub(crate) fn operator_faults_on(kubeconfig: &Path) -> Outcome {
    let port = free_port()?;
    let mut proxy = Command::new(tools::kubectl()?);
    proxy
        .args(["proxy", "--port", &port.to_string(), "--kubeconfig"])
        .arg(kubeconfig);
    let log = kubeconfig.with_file_name("proxy.log");
    let mut proxy = ChildServer::start("kubectl proxy", &mut proxy, &log)?;
    let address = format!("127.0.0.1:{port}");
    proxy.wait_ready(&address, "/readyz")?;
    let mut tests = Command::new(env!("CARGO"));
    tests
        .args(["test", "--locked", "--workspace", "--test", "runtime", "--"])
        .args(["faults::", "leading::", "mistakes::"])
        // It is not ours to restart.
        .args(["--skip", "a_server_that_comes_back"])
        .env("OPTIK_TEST_SERVER", format!("http://{address}"))
        .current_dir(root());
    if tests.status().is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        Err("optik-controller failed against this server".to_owned())
    }
}

/// All three runtimes, measured on one server: `cargo xtask controllers [--short]`.
pub(crate) fn measure(words: &[String]) -> Outcome {
    let programs = Programs::build(Profile::Release)?;
    let around = CompatServer::start_with_program(&programs.optik, &["--ephemeral"])?;
    let mut drive = Command::new(&programs.bench);
    drive.args(["drive", "--server", &around.url()]);
    drive.arg("--go").arg(&programs.go_bench);
    for operator in programs.operators() {
        drive.arg("--operator").arg(tail_of_output(&operator));
    }
    around.run(drive.args(words))
}

fn tail_of_output(operator: &[PathBuf]) -> String {
    let words: Vec<_> = operator.iter().map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}
