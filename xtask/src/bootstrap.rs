//! Generates the table of bootstrap objects of a cluster from those of a kube-apiserver.
//!
//! The file is an object: for each list path, the objects in it. Roles and their bindings belong to
//! authorization and are left out.

use crate::{Outcome, root};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn run(words: &[String]) -> Outcome {
    let [file] = words else {
        return Err("usage: cargo xtask bootstrap FILE".to_owned());
    };
    let text = std::fs::read_to_string(file).map_err(|cause| format!("{file}: {cause}"))?;
    let lists: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&text).map_err(|cause| format!("{file}: {cause}"))?;
    let mut out = String::new();
    for (path, objects) in &lists {
        if path.starts_with("/apis/rbac.authorization.k8s.io/") {
            continue;
        }
        for object in objects {
            let mut object = object.clone();
            if let Some(members) = object.as_object_mut() {
                members.remove("status");
            }
            out.push_str(&format!("{path} {object}\n"));
        }
    }
    let target = root().join("crates/controllers/src/bootstrap.txt");
    std::fs::write(&target, out).map_err(|cause| format!("{}: {cause}", target.display()))
}
