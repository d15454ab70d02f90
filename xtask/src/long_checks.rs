//! Checks that take longer than CI has: the oldest compiler, licences and advisories of
//! dependencies, fuzz targets.

use crate::{Outcome, root};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Coverage for libFuzzer, without a nightly compiler.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";
/// Of each fuzz target, if no other number is given.
const FUZZ_SECONDS: &str = "5";

/// Checks the workspace with the oldest compiler that `rust-version` promises.
pub(crate) fn msrv() -> Outcome {
    let version = metadata(&root().join("Cargo.toml"))?["packages"][0]["rust_version"]
        .as_str()
        .map(str::to_owned)
        .ok_or("Cargo.toml has no rust-version")?;
    let toolchain = ["toolchain", "install", &version, "--profile", "minimal"];
    run(Command::new("rustup").args(toolchain))?;
    let check = ["run", &version, "cargo", "check", "--workspace", "--locked"];
    run(Command::new("rustup")
        .args(check)
        .args(["--target-dir", "target/msrv"]))
}

/// Checks licences, versions and sources of dependencies. Installs cargo-deny below `target`.
pub(crate) fn deny() -> Outcome {
    let tools = root().join("target/tools");
    let program = tools.join("bin/cargo-deny");
    if !program.exists() {
        let mut install = Command::new(env!("CARGO"));
        install.args(["install", "cargo-deny", "--locked", "--root"]);
        run(install.arg(&tools))?;
    }
    run(Command::new(program).args(["check", "licenses", "bans", "sources"]))
}

/// Runs each fuzz target for some seconds. The argument is their number.
pub(crate) fn fuzz(words: &[String]) -> Outcome {
    let seconds = words.first().map_or(FUZZ_SECONDS, String::as_str);
    let manifest = root().join("fuzz/Cargo.toml");
    let target = root().join("target/fuzz");
    let mut build = Command::new(env!("CARGO"));
    build
        .args(["build", "--release", "--locked", "--manifest-path"])
        .arg(&manifest)
        .arg("--target-dir")
        .arg(&target);
    // With a target triple, build scripts and macros are built without coverage.
    build
        .args(["--target", &host()?])
        .env("RUSTFLAGS", COVERAGE);
    run(&mut build)?;
    let programs = target.join(host()?).join("release");
    for name in fuzz_targets(&manifest)? {
        println!("{name}: {seconds} s");
        let limit = format!("-max_total_time={seconds}");
        let found = target.join("artifacts").join(&name);
        std::fs::create_dir_all(&found)
            .map_err(|cause| format!("cannot create {}: {cause}", found.display()))?;
        let mut fuzzer = Command::new(programs.join(&name));
        fuzzer.arg(limit).arg("-verbosity=0");
        run(fuzzer.arg(format!("-artifact_prefix={}/", found.display())))?;
    }
    Ok(())
}

fn fuzz_targets(manifest: &Path) -> Result<Vec<String>, String> {
    let metadata = metadata(manifest)?;
    let targets = metadata["packages"][0]["targets"].as_array();
    let names = targets.into_iter().flatten();
    Ok(names
        .filter_map(|target| Some(target["name"].as_str()?.to_owned()))
        .collect())
}

/// The triple of this machine.
fn host() -> Result<String, String> {
    let output = Command::new("rustc").arg("-vV").output();
    let output = output.map_err(|cause| format!("cannot run rustc: {cause}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or("rustc names no host".into())
}

fn metadata(manifest: &Path) -> Result<Value, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps"])
        .arg("--manifest-path")
        .arg(manifest)
        .output()
        .map_err(|cause| format!("cannot run cargo metadata: {cause}"))?;
    serde_json::from_slice(&output.stdout)
        .map_err(|cause| format!("cargo metadata printed no JSON: {cause}"))
}

fn run(command: &mut Command) -> Outcome {
    let status = command.current_dir(root()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?} failed: {status}")),
        Err(cause) => Err(format!("cannot run {command:?}: {cause}")),
    }
}
