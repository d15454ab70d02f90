//! Every assertion of the specification and every guarantee has a test that cites it, and every
//! cited id exists.

use crate::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The prefixes of the ids in [`SPECIFICATIONS`].
const PREFIXES: &[&str] = &[
    "CONC", "PATCH", "EXT", "IDENT", "NODE", "WIRE", "INSIGHT", "KIT", "SWEEP", "CONSOLE",
];
const SPECIFICATIONS: &str = "docs/spec/";
const GUARANTEES: &str = "GUARANTEES.md";
/// The table of assertions without a test: ids or ranges, and the reason.
const UNPROVEN: &str = "docs/spec/unproven.md";
/// Its own tests cite ids that do not exist.
const SELF: &str = "xtask/src/contract.rs";
/// Names of files that may cite ids.
const EXTENSIONS: &[&str] = &[
    "rs", "md", "sh", "go", "py", "js", "mjs", "ts", "java", "http", "txt", "toml",
];

/// The ids that are defined and cited in the repository.
#[derive(Default)]
struct Contract {
    /// Every defined id, including withdrawn assertions.
    defined: BTreeSet<String>,
    /// The ids of withdrawn assertions.
    withdrawn: BTreeSet<String>,
    /// Where each id is cited: `path:line`, and whether a test cites it there.
    cited: BTreeMap<String, Vec<Citation>>,
    /// The ids that [`UNPROVEN`] lists, with the lines.
    unproven: BTreeMap<String, usize>,
    complaints: Vec<String>,
}

struct Citation {
    place: String,
    in_test: bool,
}

/// Reports ids that are cited but not defined, and defined but not cited by a test.
pub(crate) fn check(files: &[String], complaints: &mut Vec<String>) {
    let mut contract = Contract::default();
    for file in files.iter().filter(|file| may_cite(file)) {
        if let Ok(text) = std::fs::read_to_string(root().join(file)) {
            contract.read(file, &text);
        }
    }
    complaints.extend(contract.judge());
}

fn may_cite(file: &str) -> bool {
    let extension = Path::new(file).extension().and_then(|it| it.to_str());
    extension.is_some_and(|it| EXTENSIONS.contains(&it)) && file != SELF
}

impl Contract {
    fn read(&mut self, file: &str, text: &str) {
        if file == UNPROVEN {
            return self.read_unproven(text);
        }
        let first_test_line = if is_test_file(file) {
            Some(0)
        } else {
            test_module(text)
        };
        for (index, line) in text.lines().enumerate() {
            let in_test = first_test_line.is_some_and(|first| index >= first);
            if let Some(id) = definition(file, line) {
                self.define(id, file, index + 1, line);
            }
            for id in ids(line) {
                let place = format!("{file}:{}", index + 1);
                let citation = Citation { place, in_test };
                self.cited.entry(id.to_owned()).or_default().push(citation);
            }
        }
    }

    fn define(&mut self, id: &str, file: &str, number: usize, line: &str) {
        if !self.defined.insert(id.to_owned()) {
            let complaint = format!("{file}:{number}: {id} is defined twice");
            self.complaints.push(complaint);
        }
        if line.starts_with(&format!("- **{id}** withdrawn:")) {
            self.withdrawn.insert(id.to_owned());
        }
    }

    /// Rows of `| ids | reason |`; ids are one, or a range of one prefix.
    fn read_unproven(&mut self, text: &str) {
        for (index, line) in text.lines().enumerate() {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, listed, reason, _] = cells[..] else {
                continue;
            };
            if ids(listed).is_empty() {
                continue;
            }
            let mut complain = |what: &str| {
                let complaint = format!("{UNPROVEN}:{}: {what}", index + 1);
                self.complaints.push(complaint);
            };
            if reason.is_empty() {
                complain("no reason");
            }
            let Some(all) = range(listed) else {
                complain("neither an id nor a range \"A-1 to A-9\"");
                continue;
            };
            for id in all {
                if self.unproven.insert(id.clone(), index + 1).is_some() {
                    complain(&format!("{id} is listed twice"));
                }
            }
        }
    }

    fn judge(mut self) -> Vec<String> {
        for (id, places) in &self.cited {
            if !self.defined.contains(id) {
                let places = places.iter().map(|citation| {
                    format!("{}: {id} is not defined in docs/spec", citation.place)
                });
                self.complaints.extend(places);
            }
        }
        let tested = |id: &str| {
            let places = self.cited.get(id).into_iter().flatten();
            places
                .filter(|citation| citation.in_test)
                .map(|citation| citation.place.as_str())
                .next()
        };
        for (id, line) in &self.unproven {
            let mut complain = |what: String| {
                let complaint = format!("{UNPROVEN}:{line}: {what}");
                self.complaints.push(complaint);
            };
            if !self.defined.contains(id) {
                complain(format!("{id} is not defined in docs/spec"));
            }
            if let Some(place) = tested(id) {
                complain(format!("{id} has a test: {place}; remove the entry"));
            }
        }
        let assertions = self.defined.difference(&self.withdrawn);
        for id in assertions.filter(|id| needs_test(id)) {
            if tested(id).is_none() && !self.unproven.contains_key(id) {
                let complaint =
                    format!("no test cites {id}: cite it, or add it to {UNPROVEN} with a reason");
                self.complaints.push(complaint);
            }
        }
        self.complaints
    }
}

/// Facts such as `WIRE-A` are about clients. They explain assertions.
fn needs_test(id: &str) -> bool {
    id.ends_with(|last: char| last.is_ascii_digit())
}

/// Tests, test kits, and the programs that `cargo xtask compat` runs.
fn is_test_file(file: &str) -> bool {
    let (directories, name) = file.rsplit_once('/').unwrap_or(("", file));
    let is_test_directory = |part: &str| matches!(part, "tests" | "testkit" | "compat");
    directories.split('/').any(is_test_directory)
        || name == "tests.rs"
        || name.ends_with("_tests.rs")
}

/// The line at which the module of tests of a source file begins. It is the last module.
fn test_module(text: &str) -> Option<usize> {
    let mut is_for_tests = false;
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let is_attribute = line.starts_with("#[");
        if is_for_tests && line.starts_with("mod ") && line.ends_with('{') {
            return Some(index);
        }
        is_for_tests = line == "#[cfg(test)]" || (is_for_tests && is_attribute);
    }
    None
}

/// `CONC-17` of `- **CONC-17** …`, `CONC-A1` of `| CONC-A1 | …`, `G1` of `- **G1** …`.
fn definition<'a>(file: &str, line: &'a str) -> Option<&'a str> {
    let in_specification = file.starts_with(SPECIFICATIONS) && file.ends_with(".md");
    if !in_specification && file != GUARANTEES {
        return None;
    }
    let listed = || line.strip_prefix("- **")?.split_once("**");
    let tabulated = || line.strip_prefix("| ")?.split_once(" |");
    let (id, _) = listed().or_else(tabulated)?;
    let is_guarantee = !id.contains('-');
    (ids(id) == [id] && is_guarantee == (file == GUARANTEES)).then_some(id)
}

/// The ids of a line: `CONC-17`, `CONC-A1`, `WIRE-A`, `G17`.
fn ids(line: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let words = line.split(|letter: char| !is_part(letter));
    words.filter(|word| is_id(word)).collect()
}

fn is_id(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let Some((prefix, tail)) = word.split_once('-') else {
        return word.strip_prefix('G').is_some_and(is_number);
    };
    let number = tail.strip_prefix(|letter: char| letter.is_ascii_uppercase());
    let is_tail = number.map_or(is_number(tail), |rest| rest.is_empty() || is_number(rest));
    PREFIXES.contains(&prefix) && is_tail
}

/// The ids of `CONC-17`, or of `CONC-17 to CONC-19`.
fn range(text: &str) -> Option<Vec<String>> {
    let Some((first, last)) = text.split_once(" to ") else {
        return is_id(text).then(|| vec![text.to_owned()]);
    };
    let split = |id| is_id(id).then(|| id.trim_end_matches(|it: char| it.is_ascii_digit()));
    let prefix = split(first).filter(|prefix| split(last) == Some(*prefix))?;
    let number = |id: &str| id[prefix.len()..].parse::<u16>().ok();
    let all = number(first)?..=number(last)?;
    Some(all.map(|number| format!("{prefix}{number}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: (&str, &str) = (
        "docs/spec/a.md",
        "| Id | Code |\n| CONC-A1 | 409 |\n- **CONC-1** W a T b.\n- **CONC-2** as CONC-1.\n",
    );

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let mut contract = Contract::default();
        for (file, text) in files {
            contract.read(file, text);
        }
        contract.judge()
    }

    #[test]
    fn ids_are_found_in_text() {
        for (line, expected) in [
            (
                "/// CONC-17, `WIRE-A` and (CONC-C1).",
                vec!["CONC-17", "WIRE-A", "CONC-C1"],
            ),
            ("WIRE-96 to WIRE-108", vec!["WIRE-96", "WIRE-108"]),
            ("[\"EXT-3\", \"EXT-4\"] name", vec!["EXT-3", "EXT-4"]),
            ("//! G17, G19: a store", vec!["G17", "G19"]),
            (
                "CONC-G1 is no guarantee, CONC_F1 a constant",
                vec!["CONC-G1"],
            ),
            (
                "SHA-256, EXT-n, NODE-PORT, my-CONC-1, G, G1x, CONC-",
                vec![],
            ),
        ] {
            assert_eq!(ids(line), expected, "{line}");
        }
    }

    #[test]
    fn cited_ids_must_be_defined() {
        let tests = "// CONC-1, CONC-2, CONC-A1\n// CONC-3, G1\n";
        let expected = [
            "a/tests/a.rs:2: CONC-3 is not defined in docs/spec",
            "a/tests/a.rs:2: G1 is not defined in docs/spec",
        ];
        assert_eq!(complaints(&[SPEC, ("a/tests/a.rs", tests)]), expected);
    }

    #[test]
    fn defined_ids_must_be_cited_by_a_test() {
        let uncited = |id: &str| {
            format!("no test cites {id}: cite it, or add it to {UNPROVEN} with a reason")
        };
        for (file, text, missing) in [
            ("a/tests/a.rs", "// CONC-1 CONC-2 CONC-A1", vec![]),
            ("testkit/a/src/a.rs", "// CONC-1 CONC-2 CONC-A1", vec![]),
            ("compat/a.sh", "# CONC-1 CONC-2 CONC-A1", vec![]),
            ("a/src/b/tests.rs", "// CONC-1 CONC-2 CONC-A1", vec![]),
            (
                "a/src/a.rs",
                "// CONC-1\n#[cfg(test)]\nmod tests {\n// CONC-2 CONC-A1",
                vec!["CONC-1"],
            ),
            (
                "a/src/a.rs",
                "#[cfg(test)]\nmod tests;\n// CONC-1 CONC-2 CONC-A1",
                vec!["CONC-1", "CONC-2", "CONC-A1"],
            ),
            (
                "a.md",
                "CONC-1 CONC-2 CONC-A1",
                vec!["CONC-1", "CONC-2", "CONC-A1"],
            ),
        ] {
            let expected: Vec<String> = missing.into_iter().map(uncited).collect();
            assert_eq!(complaints(&[SPEC, (file, text)]), expected, "{file}");
        }
    }

    #[test]
    fn guarantees_are_ids_too() {
        let guarantees = (GUARANTEES, "- **G1** a\n- **G2** as CONC-1\n");
        let found = complaints(&[
            guarantees,
            SPEC,
            ("a/tests/a.rs", "/// G1.\n// CONC-1 CONC-2 CONC-A1"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("no test cites G2: "), "{found:?}");
    }

    #[test]
    fn withdrawn_assertions_need_no_test() {
        let withdrawn = ("docs/spec/a.md", "- **CONC-1** withdrawn: as CONC-2 was.\n");
        let found = complaints(&[withdrawn]);
        assert_eq!(
            found,
            ["docs/spec/a.md:1: CONC-2 is not defined in docs/spec"]
        );
    }

    #[test]
    fn facts_need_no_test() {
        let facts = ("docs/spec/wire.md", "| WIRE-A | a |\n");
        assert!(complaints(&[facts]).is_empty());
    }

    #[test]
    fn unproven_table_lists_ids_without_tests() {
        let cited = ("a/tests/a.rs", "// CONC-A1");
        for (row, expected) in [
            ("| CONC-1 to CONC-2 | not built |", ""),
            (
                "| CONC-1 to CONC-3 | not built |",
                ":1: CONC-3 is not defined in docs/spec",
            ),
            ("| CONC-1 to CONC-2 | |", ":1: no reason"),
            (
                "| CONC-1, CONC-2 | x |\n| CONC-1 to CONC-2 | x |",
                ":1: neither an id nor a range \"A-1 to A-9\"",
            ),
            (
                "| CONC-1 to CONC-2 | x |\n| CONC-2 | x |",
                ":2: CONC-2 is listed twice",
            ),
            (
                "| CONC-1 to CONC-2 | x |\n| CONC-A1 | x |",
                ":2: CONC-A1 has a test: a/tests/a.rs:1; remove the entry",
            ),
        ] {
            let found = complaints(&[SPEC, cited, (UNPROVEN, row)]);
            let expected = match expected {
                "" => vec![],
                text => vec![format!("{UNPROVEN}{text}")],
            };
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn ids_are_defined_once() {
        let again = ("docs/spec/b.md", "- **CONC-1** again\n");
        let tests = ("a/tests/a.rs", "// CONC-1 CONC-2 CONC-A1");
        let expected = ["docs/spec/b.md:1: CONC-1 is defined twice"];
        assert_eq!(complaints(&[SPEC, again, tests]), expected);
    }
}
