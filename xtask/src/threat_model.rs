//! The tests that THREAT_MODEL.md names exist.

use crate::root;
use std::collections::BTreeSet;
use std::path::Path;

const DOCUMENT: &str = "THREAT_MODEL.md";
/// The head of the table whose second column names tests.
const TABLE: &str = "| attack | test |";
/// The directory whose functions are checks of the suite.
const SUITE: &str = "testkit/api/src/suite/";
const SCOPE: &str = ": Scope) -> Outcome";

/// Complains of rows without tests, and of tests and files that are none.
pub(crate) fn check(files: &[String], complaints: &mut Vec<String>) {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap_or_default();
    let sources = files
        .iter()
        .filter(|name| Path::new(name).extension().is_some_and(|it| it == "rs"));
    let tests: BTreeSet<String> = sources
        .flat_map(|name| test_names(name, &read(name)))
        .collect();
    check_table(&read(DOCUMENT), &tests, complaints);
}

fn check_table(document: &str, tests: &BTreeSet<String>, complaints: &mut Vec<String>) {
    let lines = document.lines().enumerate();
    let mut rows = lines
        .skip_while(|(_, line)| *line != TABLE)
        .skip(2)
        .take_while(|(_, line)| line.starts_with('|'))
        .peekable();
    if rows.peek().is_none() {
        complaints.push(format!("{DOCUMENT}: attack table not found"));
    }
    for (number, row) in rows {
        let mut complain = |what: &str| {
            complaints.push(format!("{DOCUMENT}:{}: {what}", number + 1));
        };
        let named = named_tests(row);
        if named.is_empty() {
            complain("a row without the name of a test");
        }
        for name in named.iter().filter(|name| !tests.contains(**name)) {
            complain(&format!("no test is called {name}"));
        }
    }
}

/// The tests that a row names: words in backticks in its last column, those of the suite
/// with their file. What has a slash, a dot or a space is a path or a command.
fn named_tests(row: &str) -> Vec<&str> {
    let column = row.trim_end_matches([' ', '|']).rsplit(" | ").next();
    let quoted = column.unwrap_or_default().split('`').skip(1).step_by(2);
    let is_word = |text: &&str| {
        let mut letters = text.chars();
        letters.all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || "_:".contains(it))
    };
    quoted.filter(is_word).collect()
}

/// The tests of a file by name, the checks of the suite with the name of their file.
fn test_names(path: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[") || line.starts_with("//") {
            is_test |= line.contains("test]") || line.contains("test(");
            continue;
        }
        let Some(name) = function(line) else {
            // Attributes may take several lines.
            is_test &= !line.is_empty() && !line.starts_with('}');
            continue;
        };
        if is_test {
            found.push(name.to_owned());
        } else if path.starts_with(SUITE) && line.contains(SCOPE) {
            let module = Path::new(path).file_stem().and_then(|it| it.to_str());
            found.push(format!("{}::{name}", module.unwrap_or_default()));
        }
        is_test = false;
    }
    found
}

fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix("async ").unwrap_or(line);
    let name = line.strip_prefix("fn ")?;
    name.split('(').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threat_model_rows_must_name_existing_tests() {
        let source = "#[tokio::test(flavor = \"multi_thread\")]\nasync fn a_flood() {\n}\n\
                      fn helper() {\n}\n#[test]\n#[expect(x)]\nfn other() {}\n";
        let mut tests: BTreeSet<String> = test_names("crates/a/tests/a.rs", source)
            .into_iter()
            .collect();
        let check = "async fn an_eviction(scope: Scope) -> Outcome {\nfn no_check() {\n";
        tests.extend(test_names(
            "testkit/api/src/suite/admission_plugins.rs",
            check,
        ));
        let known: Vec<_> = tests.iter().map(String::as_str).collect();
        assert_eq!(
            known,
            ["a_flood", "admission_plugins::an_eviction", "other"]
        );
        for (row, complaint) in [
            ("| `x` (1) | `a/b.rs`: `a_flood`, `other` |", ""),
            (
                "| a | suite: `admission_plugins::an_eviction`; `cargo xtask` |",
                "",
            ),
            ("| a | `a/b.rs` |", "a row without the name of a test"),
            ("| `other` | none |", "a row without the name of a test"),
            ("| a | `helper` |", "no test is called helper"),
            (
                "| a | suite `admission_plugins::` |",
                "no test is called admission_plugins::",
            ),
        ] {
            let mut complaints = Vec::new();
            let document = format!("{TABLE}\n|---|---|\n{row}\n");
            check_table(&document, &tests, &mut complaints);
            let expected = match complaint {
                "" => vec![],
                complaint => vec![format!("{DOCUMENT}:3: {complaint}")],
            };
            assert_eq!(complaints, expected, "{row}");
        }
    }

    #[test]
    fn threat_model_without_table_is_reported() {
        let mut complaints = Vec::new();
        check_table("# Threat model\n", &BTreeSet::new(), &mut complaints);
        assert_eq!(complaints.len(), 1);
    }
}
