//! Installs the tools and peers of the compatibility tests, once, below `target/compat`.

use super::process::output;
use crate::root;
use std::path::{Path, PathBuf};
use std::process::Command;

const ETCD_VERSION: &str = "v3.6.8";
const KUBERNETES_VERSION: &str = "v1.36.4";
const KUBERNETES_STAGING_VERSION: &str = "v0.36.4";

/// Where everything is installed.
pub(crate) fn place() -> PathBuf {
    root().join("target/compat")
}

/// etcd's server, built from its Go module.
pub(crate) fn etcd() -> Result<PathBuf, String> {
    etcd_program("etcd", "go.etcd.io/etcd/server/v3")
}

/// etcd's command line client, of the same version.
pub(crate) fn etcdctl() -> Result<PathBuf, String> {
    etcd_program("etcdctl", "go.etcd.io/etcd/etcdctl/v3")
}

fn etcd_program(name: &str, package: &str) -> Result<PathBuf, String> {
    let manifest = format!(
        "module compat\n\ngo 1.24\n\nrequire (\n\tgo.etcd.io/etcd/server/v3 {ETCD_VERSION}\n\
         \tgo.etcd.io/etcd/etcdctl/v3 {ETCD_VERSION}\n)\n"
    );
    let imports = ["go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/etcdctl/v3"];
    go_program(
        &format!("etcd-{ETCD_VERSION}/{name}"),
        "etcd",
        &manifest,
        &imports,
        package,
    )
}

/// Kubernetes' API server, built from its Go module. Takes many minutes.
pub(crate) fn kube_apiserver() -> Result<PathBuf, String> {
    let package = "k8s.io/kubernetes/cmd/kube-apiserver";
    let name = format!("kube-apiserver-{KUBERNETES_VERSION}");
    if place().join(&name).exists() {
        return Ok(place().join(name));
    }
    let manifest = kubernetes_manifest()?;
    go_program(&name, "kubernetes", &manifest, &[package], package)
}

/// Kubernetes' controller manager, built from its Go module. Takes many minutes.
pub(crate) fn kube_controller_manager() -> Result<PathBuf, String> {
    let package = "k8s.io/kubernetes/cmd/kube-controller-manager";
    let name = format!("kube-controller-manager-{KUBERNETES_VERSION}");
    if place().join(&name).exists() {
        return Ok(place().join(name));
    }
    let manifest = kubernetes_manifest()?;
    go_program(&name, "controller-manager", &manifest, &[package], package)
}

/// The oldest kubectl we promise to work with, by its minor version.
const KUBECTL_MINOR_MIN: u32 = 32;

/// The kubectl of this machine if it is new enough, otherwise one built from its Go
/// module.
pub(crate) fn kubectl() -> Result<PathBuf, String> {
    let mut version = Command::new("kubectl");
    version.args(["version", "--client", "--output=json"]);
    if let Ok(text) = output(&mut version)
        && minor_version(&text).is_some_and(|minor| minor >= KUBECTL_MINOR_MIN)
    {
        return Ok("kubectl".into());
    }
    newest_kubectl()
}

/// kubectl of the version we are compared with, built from its Go module.
pub(crate) fn newest_kubectl() -> Result<PathBuf, String> {
    let package = "k8s.io/kubernetes/cmd/kubectl";
    // Called as people call it: some of what it writes is signed with its own name.
    let name = format!("kubectl-{KUBERNETES_VERSION}/kubectl");
    if place().join(&name).exists() {
        return Ok(place().join(name));
    }
    let manifest = kubernetes_manifest()?;
    go_program(&name, "kubernetes", &manifest, &[package], package)
}

fn minor_version(text: &str) -> Option<u32> {
    let version: serde_json::Value = serde_json::from_str(text).ok()?;
    let minor = version["clientVersion"]["minor"].as_str()?;
    minor.trim_end_matches('+').parse().ok()
}

/// Its own manifest points at directories beside it; ours names the published modules.
fn kubernetes_manifest() -> Result<String, String> {
    let module = format!("k8s.io/kubernetes@{KUBERNETES_VERSION}");
    let found = output(Command::new("go").args(["mod", "download", "-json", &module]))?;
    let found: serde_json::Value =
        serde_json::from_str(&found).map_err(|c| format!("unexpected output of go: {c}"))?;
    let path = found["GoMod"].as_str().ok_or("go names no manifest")?;
    let theirs = std::fs::read_to_string(path).map_err(|c| format!("{path}: {c}"))?;
    let staged = theirs
        .lines()
        .filter_map(|line| line.trim().split_once(" => ./staging/"));
    let replaced: String = staged
        .map(|(name, _)| format!("\t{name} => {name} {KUBERNETES_STAGING_VERSION}\n"))
        .collect();
    Ok(format!(
        "module compat\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes {KUBERNETES_VERSION}\n\n\
         replace (\n{replaced})\n"
    ))
}

fn go_program(
    name: &str,
    module: &str,
    manifest: &str,
    imports: &[&str],
    package: &str,
) -> Result<PathBuf, String> {
    let program = place().join(name);
    if program.exists() {
        return Ok(program);
    }
    println!("building {name} (once; this takes minutes)");
    let beside = program.parent().unwrap_or(&program);
    std::fs::create_dir_all(beside).map_err(|c| format!("{}: {c}", beside.display()))?;
    let directory = place().join(module);
    write_module(&directory, manifest, imports)
        .map_err(|cause| format!("{}: {cause}", directory.display()))?;
    let go = |words: &[&str]| {
        let mut command = Command::new("go");
        output(command.args(words).current_dir(&directory))
            .map_err(|reason| format!("{name} cannot be built (is Go installed?): {reason}"))
    };
    go(&["mod", "tidy"])?;
    let fresh = program.with_extension("new");
    go(&["build", "-o", &fresh.to_string_lossy(), package])?;
    std::fs::rename(&fresh, &program).map_err(|c| format!("{}: {c}", program.display()))?;
    Ok(program)
}

fn write_module(directory: &Path, manifest: &str, imports: &[&str]) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("go.mod"), manifest)?;
    let imports: String = imports
        .iter()
        .map(|name| format!("import _ {name:?}\n"))
        .collect();
    let source = format!("//go:build tools\n\npackage compat\n\n{imports}");
    std::fs::write(directory.join("tools.go"), source)
}

/// Debian's etcdctl, as an older client; its package is unpacked, not installed.
pub(crate) fn debian_etcdctl() -> Result<PathBuf, String> {
    let directory = place().join("debian");
    let program = directory.join("usr/bin/etcdctl");
    if program.exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(&directory).map_err(|c| format!("{}: {c}", directory.display()))?;
    let run = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        output(command.args(words).current_dir(&directory))
            .map_err(|reason| format!("cannot download Debian's etcd-client: {reason}"))
    };
    if run("apt-get", &["download", "etcd-client"]).is_err() {
        run("apt-get", &["update"])?;
        run("apt-get", &["download", "etcd-client"])?;
    }
    run("sh", &["-c", "dpkg-deb -x etcd-client_*.deb ."])?;
    Ok(program)
}

const HELM_VERSION: &str = "v4.2.4";

/// Helm, built from its Go module.
pub(crate) fn helm() -> Result<PathBuf, String> {
    let package = "helm.sh/helm/v4/cmd/helm";
    let manifest =
        format!("module compat\n\ngo 1.26.0\n\nrequire helm.sh/helm/v4 {HELM_VERSION}\n");
    let name = format!("helm-{HELM_VERSION}");
    go_program(&name, "helm", &manifest, &[package], package)
}

/// A Python with the client and kopf.
pub(crate) fn python() -> Result<PathBuf, String> {
    let (directory, wanted) = (place().join("python"), root().join("compat/python"));
    let program = directory.join("bin/python");
    installed("python", &wanted.join("requirements.txt"), |list| {
        let venv = ["-m", "venv", "--clear"];
        output(Command::new("python3").args(venv).arg(&directory))?;
        let pip = ["-m", "pip", "install", "--quiet", "--requirement"];
        output(Command::new(&program).args(pip).arg(list))
    })?;
    Ok(program)
}

/// The script that uses the JavaScript client, beside its modules.
pub(crate) fn client_node() -> Result<PathBuf, String> {
    let (directory, wanted) = (place().join("js"), root().join("compat/js"));
    let copy = |name: &str| {
        let copied = std::fs::copy(wanted.join(name), directory.join(name));
        copied.map_err(|cause| format!("{}: {cause}", directory.display()))
    };
    installed("js", &wanted.join("package.json"), |_| {
        copy("package.json")?;
        let words = ["install", "--no-package-lock", "--no-audit", "--no-fund"];
        output(Command::new("npm").args(words).current_dir(&directory))
    })?;
    copy("client.js")?;
    Ok(directory.join("client.js"))
}

/// The classpath of fabric8's client.
pub(crate) fn fabric8() -> Result<String, String> {
    let file = place().join("java/classpath");
    installed("java", &root().join("compat/java/pom.xml"), |pom| {
        let mut maven = Command::new("mvn");
        maven
            .args([
                "--quiet",
                "--batch-mode",
                "dependency:build-classpath",
                "--file",
            ])
            .arg(pom)
            .arg(format!("-Dmdep.outputFile={}", file.display()));
        output(&mut maven)
    })?;
    std::fs::read_to_string(&file).map_err(|cause| format!("{}: {cause}", file.display()))
}

/// Installs the items of a list into a directory, unless this very list was installed before.
fn installed(
    name: &str,
    list: &Path,
    install: impl FnOnce(&Path) -> Result<String, String>,
) -> Result<(), String> {
    let failed = |cause| format!("{}: {cause}", list.display());
    let (directory, wanted) = (place().join(name), std::fs::read(list).map_err(failed)?);
    let mark = directory.join("installed");
    if std::fs::read(&mark).is_ok_and(|found| found == wanted) {
        return Ok(());
    }
    println!("installing what {} names (once)", list.display());
    std::fs::create_dir_all(&directory).map_err(failed)?;
    install(list).map_err(|reason| format!("{name} cannot be installed: {reason}"))?;
    std::fs::write(&mark, wanted).map_err(failed)
}

/// Our own binary, as users run it.
pub(crate) fn optik() -> Result<PathBuf, String> {
    let mut build = Command::new(env!("CARGO"));
    // A test brings its package's binary along. So, and only so, the features of all
    // dependencies are those of `cargo test`, and nothing is compiled twice.
    let build = build
        .args([
            "build",
            "--quiet",
            "--locked",
            "--workspace",
            "--test",
            "commands",
        ])
        .current_dir(root());
    if !build.status().is_ok_and(|status| status.success()) {
        return Err("optik does not build".to_owned());
    }
    Ok(target().join("debug/optik"))
}

/// The target directory of cargo.
pub(crate) fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| root().join("target"))
}
