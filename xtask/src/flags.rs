//! Generates the tables of flags of kube-apiserver and etcd from the output of `--help`.

use crate::{Outcome, root};
use std::path::Path;
use std::process::Command;

pub(crate) fn run(words: &[String]) -> Outcome {
    let programs = words.iter().map(Path::new);
    if words.is_empty() {
        return Err("usage: cargo xtask flags PROGRAM…".to_owned());
    }
    for program in programs {
        let name = program.file_name().ok_or("a program has a name")?;
        let output = Command::new(program).arg("--help").output();
        let output = output.map_err(|cause| format!("{}: {cause}", program.display()))?;
        let help = [output.stdout, output.stderr].concat();
        let mut flags: Vec<_> = String::from_utf8_lossy(&help)
            .lines()
            .filter_map(flag)
            .collect();
        flags.sort();
        flags.dedup();
        let target = root().join("crates/cli/src/envtest").join(name);
        let target = target.with_extension("txt");
        std::fs::write(&target, flags.join("\n") + "\n")
            .map_err(|cause| format!("{}: {cause}", target.display()))?;
        println!("{}: {} flags", target.display(), flags.len());
    }
    Ok(())
}

/// A line of the table: the name, `=` if a value follows it, `?` if it may.
///
/// Help names the type of a value behind the flag (`--port int   The port`) or its default
/// in quotes (`--name 'default'`); etcd leaves out some defaults.
fn flag(line: &str) -> Option<String> {
    let line = line.trim_start();
    let long = match line.strip_prefix("--") {
        Some(long) => long,
        None => line.strip_prefix('-')?.split_once(", --")?.1,
    };
    let end = long
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .unwrap_or(long.len());
    let (name, rest) = long.split_at(end);
    let sort = match rest.strip_prefix(' ') {
        None => "?",
        Some(described) if described.starts_with(' ') => "",
        Some("'true'" | "'false'") => "",
        Some(_) => "=",
    };
    (!name.is_empty()).then(|| format!("{name}{sort}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_help_lines_are_parsed() {
        for (line, expected) in [
            ("      --secure-port int    The port.", Some("secure-port=")),
            (
                "      --allow-privileged   If true.",
                Some("allow-privileged"),
            ),
            ("  -v, --v Level            number", Some("v=")),
            ("  -h, --help               help for it", Some("help")),
            ("  --data-dir '${name}.etcd'", Some("data-dir=")),
            ("  --pre-vote 'true'", Some("pre-vote")),
            ("  --memory-mlock", Some("memory-mlock?")),
            ("    Path to the data directory.", None),
        ] {
            assert_eq!(flag(line).as_deref(), expected, "{line}");
        }
    }
}
