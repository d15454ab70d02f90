//! `cargo xtask roles FILE`: the roles and bindings of a new cluster, from the lists of
//! a real server, as the compact table of `crates/auth`.

use crate::{Outcome, root};
use serde_json::Value;
use std::fmt::Write;

const LISTS: [(&str, &str); 4] = [
    ("clusterroles", "ClusterRole"),
    ("roles", "Role"),
    ("clusterrolebindings", "ClusterRoleBinding"),
    ("rolebindings", "RoleBinding"),
];
const AGGREGATE: &str = "rbac.authorization.k8s.io/";

pub(crate) fn run(words: &[String]) -> Outcome {
    let [file] = words else {
        return Err("usage: cargo xtask roles FILE".into());
    };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let lists: Value = serde_json::from_str(&text).map_err(|error| format!("{file}: {error}"))?;
    let mut table = String::new();
    for (plural, kind) in LISTS {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{plural}");
        for object in lists[&path]
            .as_array()
            .ok_or(format!("{file}: no {path}"))?
        {
            write_object(kind, object, &mut table);
        }
    }
    let target = root().join("crates/auth/src/bootstrap.txt");
    std::fs::write(&target, table).map_err(|error| format!("{}: {error}", target.display()))
}

fn write_object(kind: &str, object: &Value, table: &mut String) {
    let metadata = &object["metadata"];
    let slash = if metadata["namespace"].is_string() {
        "/"
    } else {
        ""
    };
    let place = format!(
        "{}{slash}{}",
        text(&metadata["namespace"]),
        text(&metadata["name"])
    );
    let role = &object["roleRef"];
    let role = match role.is_object() {
        true => format!(" {} {}", text(&role["kind"]), text(&role["name"])),
        false => String::new(),
    };
    line(table, &format!("{kind} {place}{role}"));
    for (key, _) in metadata["labels"].as_object().into_iter().flatten() {
        if let Some(label) = key.strip_prefix(AGGREGATE) {
            line(table, &format!("+ {label}"));
        }
    }
    for selector in items(&object["aggregationRule"]["clusterRoleSelectors"]) {
        for (key, _) in selector["matchLabels"].as_object().into_iter().flatten() {
            let label = key.strip_prefix(AGGREGATE).unwrap_or(key);
            line(table, &format!("< {label}"));
        }
    }
    for rule in items(&object["rules"]) {
        let of = |member: &str| words(&rule[member]);
        let names = match items(&rule["resourceNames"]).is_empty() {
            true => ".".to_owned(),
            false => of("resourceNames"),
        };
        let text = match items(&rule["nonResourceURLs"]).is_empty() {
            true => format!(
                "r {} {} {names} {}",
                of("apiGroups"),
                of("resources"),
                of("verbs")
            ),
            false => format!("u {} {}", of("nonResourceURLs"), of("verbs")),
        };
        line(table, &text);
    }
    for subject in items(&object["subjects"]) {
        let slash = if subject["namespace"].is_string() {
            "/"
        } else {
            ""
        };
        let name = format!(
            "{}{slash}{}",
            text(&subject["namespace"]),
            text(&subject["name"])
        );
        line(table, &format!("s {} {name}", text(&subject["kind"])));
    }
}

fn line(table: &mut String, text: &str) {
    writeln!(table, "{text}").expect("writing to a String cannot fail");
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The core group has no name, which cannot stand in a list of words.
fn words(list: &Value) -> String {
    let words = items(list).iter().map(text);
    let words: Vec<_> = words
        .map(|word| if word.is_empty() { "-" } else { word })
        .collect();
    words.join(",")
}
