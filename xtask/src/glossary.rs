//! The paths and names in docs/glossary.md exist.

use crate::{root, words::contains_word};

const DOCUMENT: &str = "docs/glossary.md";
/// The last column of terms without a counterpart in the code.
const ABSENT: &str = "—";

/// Reports rows whose paths do not exist or do not contain the names of the row.
pub(crate) fn check(files: &[String], complaints: &mut Vec<String>) {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap_or_default();
    check_document(&read(DOCUMENT), files, read, complaints);
}

fn check_document(
    document: &str,
    files: &[String],
    read: impl Fn(&str) -> String,
    complaints: &mut Vec<String>,
) {
    for (index, line) in document.lines().enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, _, here, place, _] = cells[..] else {
            continue;
        };
        let is_header = place == "Path" || place.starts_with("---");
        if is_header || place == ABSENT {
            continue;
        }
        let mut complain = |what: &str| {
            complaints.push(format!("{DOCUMENT}:{}: {what}", index + 1));
        };
        let paths: Vec<&str> = quoted(place).collect();
        if paths.is_empty() {
            complain("a row without a path");
        }
        let mut inside = Vec::new();
        for path in paths {
            let below = format!("{}/", path.trim_end_matches('/'));
            let found = files
                .iter()
                .filter(|file| *file == path || file.starts_with(&below));
            let before = inside.len();
            inside.extend(found);
            if inside.len() == before {
                complain(&format!("{path} does not exist"));
            }
        }
        let texts: Vec<String> = inside.iter().map(|file| read(file)).collect();
        for name in quoted(here).flat_map(|name| name.split("::")) {
            if !texts.iter().any(|text| contains_word(text, name)) {
                complain(&format!("{name} does not occur in {place}"));
            }
        }
    }
}

/// The text in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glossary_rows_must_name_existing_paths_and_words() {
        let files = ["crates/a/src/lease.rs", "crates/a/src/disk/log.rs"].map(str::to_owned);
        let read = |name: &str| match name {
            "crates/a/src/lease.rs" => "pub struct Lease;\nimpl Lease { fn grant() {} }".to_owned(),
            _ => "pub struct Segment;".to_owned(),
        };
        for (row, expected) in [
            ("| lease | `Lease` | `crates/a/src/lease.rs` |", None),
            (
                "| lease | `Lease::grant`, in words | `crates/a/src/lease.rs` |",
                None,
            ),
            ("| WAL | `Segment` | `crates/a/src/disk` |", None),
            (
                "| both | `Segment` of a `Lease` | `crates/a/src/disk`, `crates/a/src/lease.rs` |",
                None,
            ),
            ("| watch cache | absent | — |", None),
            ("| Upstream | Here | Path |", None),
            ("|---|---|---|", None),
            (
                "| lease | `Leases` | `crates/a/src/lease.rs` |",
                Some("Leases does not occur in `crates/a/src/lease.rs`"),
            ),
            (
                "| lease | a lease | `crates/b` |",
                Some("crates/b does not exist"),
            ),
            (
                "| lease | a lease | somewhere |",
                Some("a row without a path"),
            ),
        ] {
            let mut complaints = Vec::new();
            check_document(row, &files, read, &mut complaints);
            let expected = expected.map(|what| format!("{DOCUMENT}:1: {what}"));
            assert_eq!(complaints, Vec::from_iter(expected), "{row}");
        }
    }
}
