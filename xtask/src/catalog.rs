//! Generates the catalog's table of names from an aggregated discovery document
//! (`apidiscovery.k8s.io/v2`), as `kubectl get --raw` fetches it from any server: `{"api": …,
//! "apis": …}`.

use crate::{Outcome, root};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

const TABLE: &str = "crates/catalog/src/generated.rs";

pub(crate) fn run(words: &[String]) -> Outcome {
    let [source] = words else {
        return Err("usage: cargo xtask catalog DISCOVERY.json".into());
    };
    let text = std::fs::read(Path::new(source)).map_err(|cause| format!("{source}: {cause}"))?;
    let documents: Value =
        serde_json::from_slice(&text).map_err(|cause| format!("{source}: {cause}"))?;
    let target = root().join(TABLE);
    std::fs::write(&target, table(&documents))
        .map_err(|cause| format!("{}: {cause}", target.display()))?;
    format_file(&target)
}

fn format_file(file: &Path) -> Outcome {
    let done = std::process::Command::new("rustfmt")
        .args(["--edition", "2024"])
        .arg(file)
        .status();
    match done {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("rustfmt failed: {other:?}")),
    }
}

fn table(documents: &Value) -> String {
    let mut out = String::from(
        "//! Made by `cargo xtask catalog`; do not edit.\n\n\
         use crate::builtin::{Row, SubresourceRow};\n\
         use crate::resource::Scope::{Cluster, Namespaced};\n\
         use crate::resource::Verb::*;\n\n\
         pub(crate) const ROWS: &[Row] = &[\n",
    );
    for group in items(&documents["api"]["items"]).chain(items(&documents["apis"]["items"])) {
        for version in items(&group["versions"]) {
            for resource in items(&version["resources"]) {
                row(&mut out, group, version, resource);
            }
        }
    }
    out.push_str("];\n");
    out
}

fn row(out: &mut String, group: &Value, version: &Value, resource: &Value) {
    let subresources: Vec<String> = items(&resource["subresources"]).map(subresource).collect();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "Row {{ group: {:?}, version: {:?}, plural: {:?}, singular: {:?}, kind: {:?}, \
         scope: {}, key_prefix: {:?}, verbs: {}, short_names: {}, categories: {}, \
         subresources: &[{}] }},",
        text(&group["metadata"]["name"]),
        text(&version["version"]),
        text(&resource["resource"]),
        text(&resource["singularResource"]),
        text(&resource["responseKind"]["kind"]),
        text(&resource["scope"]),
        key_prefix(text(&group["metadata"]["name"]), resource),
        verbs(&resource["verbs"]),
        strings(&resource["shortNames"]),
        strings(&resource["categories"]),
        subresources.join(", "),
    );
}

/// The key prefix of its objects in kube-apiserver's etcd. Only readable resources are stored.
fn key_prefix(group: &str, resource: &Value) -> Option<String> {
    let plural = text(&resource["resource"]);
    let is_readable = items(&resource["verbs"]).any(|verb| verb == "get");
    if !is_readable || plural == "componentstatuses" {
        return None;
    }
    let directory = match (group, plural) {
        ("", "replicationcontrollers") => "controllers".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("", "nodes") => "minions".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", plural) => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    Some(format!("/registry/{directory}/"))
}

fn subresource(value: &Value) -> String {
    let kind = &value["responseKind"];
    format!(
        "SubresourceRow {{ name: {:?}, verbs: {}, kind: [{:?}, {:?}, {:?}] }}",
        text(&value["subresource"]),
        verbs(&value["verbs"]),
        text(&kind["group"]),
        text(&kind["version"]),
        text(&kind["kind"]),
    )
}

fn verbs(list: &Value) -> String {
    let names: Vec<&str> = items(list)
        .map(|verb| match text(verb) {
            "create" => "Create",
            "delete" => "Delete",
            "deletecollection" => "DeleteCollection",
            "get" => "Get",
            "list" => "List",
            "patch" => "Patch",
            "update" => "Update",
            "watch" => "Watch",
            other => panic!("unknown verb {other}"),
        })
        .collect();
    format!("&[{}]", names.join(", "))
}

fn strings(list: &Value) -> String {
    let quoted: Vec<String> = items(list)
        .map(|item| format!("{:?}", text(item)))
        .collect();
    format!("&[{}]", quoted.join(", "))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
