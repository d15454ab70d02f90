//! Generates the table of printer columns from the responses of kube-apiserver.
//!
//! The file is an object: for each list path, the column definitions of the server.

use crate::{Outcome, root};
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) fn run(words: &[String]) -> Outcome {
    let [file] = words else {
        return Err("usage: cargo xtask columns FILE".to_owned());
    };
    let text = std::fs::read_to_string(file).map_err(|cause| format!("{file}: {cause}"))?;
    let kinds: BTreeMap<String, Vec<Value>> =
        serde_json::from_str(&text).map_err(|cause| format!("{file}: {cause}"))?;
    let mut out = String::new();
    for (path, columns) in &kinds {
        let path = path
            .strip_prefix("/apis")
            .map(str::to_owned)
            .or_else(|| path.strip_prefix("/api").map(|rest| format!("/{rest}")))
            .ok_or_else(|| format!("{path} is no path of a list"))?;
        out.push_str(&format!("{path}\n"));
        for column in columns {
            let line = line(column).ok_or_else(|| format!("{path}: {column} is no column"))?;
            out.push_str(&line);
        }
    }
    let target = root().join("crates/table/src/columns.txt");
    std::fs::write(&target, out).map_err(|cause| format!("{}: {cause}", target.display()))
}

fn line(column: &Value) -> Option<String> {
    let (kind, name) = (column["type"].as_str()?, column["name"].as_str()?);
    let format = match column["format"].as_str()? {
        "" => "-",
        format => format,
    };
    Some(format!("{kind} {format} {} {name}\n", column["priority"]))
}
