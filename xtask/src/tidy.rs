//! Rules of the repository that the compiler does not check.

use crate::{Outcome, architecture, contract, glossary, root, threat_model};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "GUARANTEES.md",
    "COMPAT.md",
    "BENCHMARKS.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "THREAT_MODEL.md",
];

/// The allowed dependencies of each crate on other crates of the workspace.
const MAY_USE: &[(&str, &[&str])] = &[
    ("optik-platform", &[]),
    ("optik-supervisor", &["optik-platform"]),
    ("optik-object", &[]),
    ("optik-cel", &["optik-object"]),
    ("optik-schema", &["optik-object", "optik-cel"]),
    ("optik-patch", &["optik-object", "optik-schema"]),
    ("optik-catalog", &["optik-object", "optik-schema"]),
    ("optik-builtin", &["optik-catalog", "optik-object"]),
    ("optik-auth", &["optik-object"]),
    ("optik-openapi", &["optik-catalog"]),
    ("optik-table", &["optik-object"]),
    (
        "optik-apiserver",
        &[
            "optik-builtin",
            "optik-auth",
            "optik-catalog",
            "optik-control-loop",
            "optik-object",
            "optik-openapi",
            "optik-patch",
            "optik-platform",
            "optik-cel",
            "optik-schema",
            "optik-store",
            "optik-table",
        ],
    ),
    ("optik-webhook-client", &["optik-apiserver"]),
    (
        "optik-controllers",
        &[
            "optik-auth",
            "optik-apiserver",
            "optik-control-loop",
            "optik-object",
            "optik-platform",
            "optik-store",
            "optik-supervisor",
        ],
    ),
    (
        "optik-serve",
        &[
            "optik-auth",
            "optik-apiserver",
            "optik-listener",
            "optik-object",
            "optik-platform",
            "optik-supervisor",
        ],
    ),
    ("optik-controller", &["optik-object", "optik-platform"]),
    ("optik-etcd-api", &[]),
    ("optik-listener", &[]),
    (
        "optik-store",
        &["optik-platform", "optik-etcd-api", "optik-supervisor"],
    ),
    ("optik-control-loop", &["optik-platform", "optik-store"]),
    (
        "optik-etcd-facade",
        &[
            "optik-store",
            "optik-etcd-api",
            "optik-listener",
            "optik-platform",
            "optik-supervisor",
        ],
    ),
    (
        "optik",
        &[
            "optik-auth",
            "optik-apiserver",
            "optik-webhook-client",
            "optik-etcd-facade",
            "optik-controllers",
            "optik-listener",
            "optik-platform",
            "optik-serve",
            "optik-store",
            "optik-supervisor",
        ],
    ),
    (
        "optik-cli",
        &[
            "optik",
            "optik-auth",
            "optik-apiserver",
            "optik-platform",
            "optik-serve",
            "optik-store",
        ],
    ),
    (
        "optik-bench",
        &[
            "optik-api-testkit",
            "optik-apiserver",
            "optik-clients-testkit",
            "optik-controller",
            "optik-etcd-api",
            "optik-platform",
            "optik-serve",
            "optik-store",
        ],
    ),
];

/// The forbidden libraries of each crate.
const MUST_NOT_USE: &[(&str, &[&str])] = &[
    (
        "optik-store",
        &["serde_json", "hyper", "axum", "k8s-openapi", "kube"],
    ),
    (
        "optik-control-loop",
        &["serde_json", "http", "hyper", "k8s-openapi", "kube"],
    ),
    ("optik-etcd-facade", &["k8s-openapi", "kube"]),
    ("optik-auth", PURE),
    ("optik-object", PURE),
    ("optik-schema", PURE),
    ("optik-patch", PURE),
    ("optik-catalog", PURE),
    ("optik-builtin", PURE),
    ("optik-openapi", PURE),
    ("optik-table", PURE),
    (
        "optik-apiserver",
        &[
            "hyper",
            "hyper-util",
            "tokio-rustls",
            "rustls",
            "axum",
            "kube",
        ],
    ),
    ("optik-serve", &["optik-store", "k8s-openapi", "kube"]),
];

/// The forbidden libraries of a crate without async, I/O and HTTP.
const PURE: &[&str] = &["tokio", "futures", "http", "hyper", "axum"];

/// Calls that start a task or a thread.
const SPAWNS: &[&str] = &["spawn(", ".spawn_on(", ".spawn_local("];
/// Starts the comment that says why that is not left to the supervisor.
const EXCUSE: &str = "// Spawned here:";
/// The supervisor itself, and files that are no part of the server.
const NOT_SUPERVISED: &[&str] = &["supervisor", "controller"];

/// Key prefixes of objects are defined by the catalog alone.
const REGISTRY_LITERAL: &str = "\"/registry/";
/// The catalog itself.
const MAY_NAME_KEYS: &[&str] = &["catalog"];

/// Longer files are two ideas.
const FILE_LINES_MAX: usize = 900;

pub(crate) fn run() -> Outcome {
    let mut complaints = Vec::new();
    for document in DOCUMENTS {
        if !root().join(document).exists() {
            complaints.push(format!("{document} is missing"));
        }
    }
    check_dependencies(&mut complaints)?;
    let files = tracked_files()?;
    for file in &files {
        check_file(file, &mut complaints);
    }
    threat_model::check(&files, &mut complaints);
    contract::check(&files, &mut complaints);
    glossary::check(&files, &mut complaints);
    architecture::check(&files, &mut complaints);
    if complaints.is_empty() {
        println!("tidy");
        Ok(())
    } else {
        Err(complaints.join("\n"))
    }
}

/// Public items of the library have an example.
fn check_examples(path: &str, text: &str, complaints: &mut Vec<String>) {
    if !path.starts_with("crates/controller/src/") {
        return;
    }
    let mut example = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if line.starts_with("///") {
            example |= line.contains("```");
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let item = line
            .strip_prefix("pub ")
            .map(|item| item.trim_start_matches("async "));
        let kinds = ["fn ", "struct ", "enum ", "trait ", "type "];
        if item.is_some_and(|item| kinds.iter().any(|kind| item.starts_with(kind))) && !example {
            complaints.push(format!("{path}:{}: no example", number + 1));
        }
        example = false;
    }
}

/// Background tasks have a name and a supervisor.
fn check_unsupervised_tasks(path: &str, text: &str, complaints: &mut Vec<String>) {
    let Some(name) = product_crate(path) else {
        return;
    };
    if NOT_SUPERVISED.contains(&name) {
        return;
    }
    let mut excused = false;
    for (number, line) in text.lines().enumerate() {
        // The rest of the file is tests.
        if line.trim_start().starts_with("#[cfg(test)]") {
            return;
        }
        let spawns = SPAWNS.iter().any(|call| line.contains(call));
        if spawns && !excused && !line.contains("supervisor.spawn(") {
            complaints.push(format!(
                "{path}:{}: a task without a supervisor: use one, or say in a comment \
                 before it, which begins with \"{EXCUSE}\", why not",
                number + 1
            ));
        }
        let is_comment = line.trim_start().starts_with("//");
        excused = line.contains(EXCUSE) || (excused && is_comment);
    }
}

/// Keys of objects are built from the prefixes of the catalog.
fn check_registry_literals(path: &str, text: &str, complaints: &mut Vec<String>) {
    let Some(name) = product_crate(path) else {
        return;
    };
    if MAY_NAME_KEYS.contains(&name) || path.ends_with("/tests.rs") {
        return;
    }
    let product = text
        .lines()
        .take_while(|line| !line.trim_start().starts_with("#[cfg(test)]"));
    for (number, line) in product.enumerate() {
        if line.contains(REGISTRY_LITERAL) {
            complaints.push(format!(
                "{path}:{}: a key written out: use optik_catalog::key_prefix",
                number + 1
            ));
        }
    }
}

/// The crate of a file that is part of the product.
fn product_crate(path: &str) -> Option<&str> {
    let (name, file) = path.strip_prefix("crates/")?.split_once('/')?;
    file.starts_with("src/").then_some(name)
}

fn check_dependencies(complaints: &mut Vec<String>) -> Outcome {
    let used = direct_dependencies()?;
    for (package, allowed) in MAY_USE {
        let ours = used.get(*package).into_iter().flatten();
        for name in ours.filter(|name| name.starts_with("optik")) {
            if !allowed.contains(&name.as_str()) {
                complaints.push(format!("{package} must not depend on {name}"));
            }
        }
    }
    for (package, forbidden) in MUST_NOT_USE {
        for name in used.get(*package).into_iter().flatten() {
            if forbidden.contains(&name.as_str()) {
                complaints.push(format!(
                    "{package} must not depend on {name} (forbidden dependency)"
                ));
            }
        }
    }
    Ok(())
}

/// Direct dependencies by package, without dev-dependencies.
fn direct_dependencies() -> Result<BTreeMap<String, Vec<String>>, String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--locked"])
        .current_dir(root())
        .output()
        .map_err(|cause| format!("cannot run cargo metadata: {cause}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|cause| format!("cannot parse cargo metadata: {cause}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let by_name = packages.map(|package| {
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let used = package["dependencies"].as_array().into_iter().flatten();
        let used = used.filter(|used| used["kind"] != "dev");
        let names = used.filter_map(|used| Some(used["name"].as_str()?.to_owned()));
        (name, names.collect())
    });
    Ok(by_name.collect())
}

fn tracked_files() -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output()
        .map_err(|cause| format!("cannot run git: {cause}"))?;
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().map(str::to_owned).collect())
}

fn check_file(name: &str, complaints: &mut Vec<String>) {
    // This file names what it forbids.
    if name.ends_with("xtask/src/tidy.rs") || !is_text(name) {
        return;
    }
    let Ok(text) = std::fs::read_to_string(root().join(name)) else {
        return;
    };
    for (number, line) in text.lines().enumerate() {
        let mut complain = |what: &str| complaints.push(format!("{name}:{}: {what}", number + 1));
        if line.contains("/work/") || line.contains("/root/") {
            complain("absolute path of a developer machine");
        }
        if line.contains("#[ignore") {
            complain("an ignored test: assert today's behaviour instead");
        }
        if is_test(name) && (line.contains("thread::sleep") || line.contains("time::sleep(")) {
            complain("a sleep in a test: wait for a state instead");
        }
    }
    check_examples(name, &text, complaints);
    check_unsupervised_tasks(name, &text, complaints);
    check_registry_literals(name, &text, complaints);
    let generated = name.ends_with("generated.rs");
    if name.ends_with(".rs") && !generated && text.lines().count() > FILE_LINES_MAX {
        complaints.push(format!("{name}: more than {FILE_LINES_MAX} lines"));
    }
}

fn is_text(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|e| e.to_str());
    matches!(
        extension,
        Some("rs" | "md" | "toml" | "proto" | "sh" | "go" | "py" | "js" | "yaml" | "json") | None
    )
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.starts_with("testkit/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_written_out_are_reported() {
        for (path, text, found) in [
            (
                "crates/apiserver/src/a.rs",
                "let a = \"/registry/a\";",
                true,
            ),
            ("crates/catalog/src/a.rs", "let a = \"/registry/a\";", false),
            ("bench/src/a.rs", "let a = \"/registry/a\";", false),
            (
                "crates/object/src/status/tests.rs",
                "\"/registry/a\"",
                false,
            ),
            (
                "crates/store/src/a.rs",
                "#[cfg(test)]\nlet a = \"/registry/a\";",
                false,
            ),
        ] {
            let mut complaints = Vec::new();
            check_registry_literals(path, text, &mut complaints);
            assert_eq!(!complaints.is_empty(), found, "{path}: {complaints:?}");
        }
    }

    #[test]
    fn unsupervised_tasks_are_reported() {
        for (path, text, found) in [
            ("crates/store/src/a.rs", "tokio::spawn(a);", true),
            (
                "crates/store/src/a.rs",
                "tasks.spawn_on(a, &runtime);",
                true,
            ),
            ("crates/store/src/a.rs", "builder\n    .spawn(a);", true),
            (
                "crates/store/src/a.rs",
                "// Spawned here: it is\n// one.\ntokio::spawn(a);",
                false,
            ),
            (
                "crates/store/src/a.rs",
                "// Spawned here: one.\na();\ntokio::spawn(a);",
                true,
            ),
            ("crates/store/src/a.rs", "supervisor.spawn(TASK, a);", false),
            (
                "crates/store/src/a.rs",
                "#[cfg(test)]\ntokio::spawn(a);",
                false,
            ),
            ("crates/store/tests/a.rs", "tokio::spawn(a);", false),
            ("crates/controller/src/a.rs", "tokio::spawn(a);", false),
        ] {
            let mut complaints = Vec::new();
            check_unsupervised_tasks(path, text, &mut complaints);
            assert_eq!(!complaints.is_empty(), found, "{path}: {text}");
        }
    }
}
