//! The diagrams of ARCHITECTURE.md name modules, types and functions that exist.

use crate::{root, words::contains_word};

const DOCUMENT: &str = "ARCHITECTURE.md";
/// Begins the headings of the sections with diagrams.
const HEADING: &str = "The path of ";

/// A source file below `crates/*/src`: its path and its text.
struct Source {
    path: String,
    text: String,
}

/// Reports files that do not exist, and names in the sections "The path of …" that lead
/// nowhere.
pub(crate) fn check(files: &[String], complaints: &mut Vec<String>) {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).unwrap_or_default();
    let is_source = |file: &&String| {
        let mut parts = file.split('/');
        parts.next() == Some("crates") && parts.nth(1) == Some("src") && file.ends_with(".rs")
    };
    let sources = files.iter().filter(is_source).map(|path| Source {
        path: path.clone(),
        text: read(path),
    });
    check_document(&read(DOCUMENT), &sources.collect::<Vec<_>>(), complaints);
}

fn check_document(document: &str, sources: &[Source], complaints: &mut Vec<String>) {
    let mut in_section = false;
    for (index, line) in document.lines().enumerate() {
        if line.starts_with('#') {
            in_section = line.trim_start_matches(['#', ' ']).starts_with(HEADING);
        }
        // Files are named everywhere; outside of diagrams `::` may belong to other things.
        let checked = names(line).filter(|name| in_section || name.ends_with(".rs"));
        for name in checked.filter(|name| !resolves(name, sources)) {
            let complaint = format!("{DOCUMENT}:{}: {name} is not in crates/*/src", index + 1);
            complaints.push(complaint);
        }
    }
}

/// The words of a line with `::`, and those that end in `.rs`.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:/.-".contains(letter);
    let words = line.split(move |letter| !is_part(letter));
    let words = words.map(|word| word.trim_matches([':', '.', '-', '/']));
    words.filter(|word| word.contains("::") || word.ends_with(".rs"))
}

/// A file is the end of a path. `a::b` is a crate, module or type `a`, in which the word `b`
/// occurs.
fn resolves(name: &str, sources: &[Source]) -> bool {
    if name.ends_with(".rs") {
        let end = format!("/{name}");
        return sources
            .iter()
            .any(|source| source.path == name || source.path.ends_with(&end));
    }
    let Some((path, item)) = name.rsplit_once("::") else {
        return false;
    };
    let is_inside = |source: &&Source| {
        path.split("::")
            .all(|part| is_part_of(part, source, sources))
    };
    let mut inside = sources.iter().filter(is_inside);
    inside.any(|source| contains_word(&source.text, item) || is_module(item, &source.path))
}

fn is_part_of(part: &str, source: &Source, sources: &[Source]) -> bool {
    if part.starts_with(|letter: char| letter.is_ascii_uppercase()) {
        // The functions of a type may be in other files than the type.
        let kinds = ["struct", "enum", "trait"].map(|kind| format!("{kind} {part}"));
        let defines = |source: &Source| kinds.iter().any(|kind| source.text.contains(kind));
        return contains_word(&source.text, part) && sources.iter().any(defines);
    }
    is_module(part, &source.path)
}

/// Whether a file is in the crate or the module of that name.
fn is_module(name: &str, path: &str) -> bool {
    let crate_name = name.replace('_', "-");
    let crate_name = crate_name.strip_prefix("optik-").unwrap_or(&crate_name);
    let mut parts = path.trim_end_matches(".rs").split('/').skip(1);
    parts.next() == Some(crate_name) || parts.any(|part| part == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_diagrams_must_resolve() {
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let sources = [
            source("crates/store/src/store.rs", "pub struct Store;"),
            source(
                "crates/store/src/commit.rs",
                "impl Store { fn commit() {} }",
            ),
            source("crates/store/src/disk/mod.rs", "fn write_batch() {}"),
            source("crates/store/src/disk/cleaner.rs", "struct Cleaner;"),
            source("crates/etcd-facade/src/watch.rs", "fn encode() {}"),
        ];
        for (line, expected) in [
            ("Store::commit        nothing; check", None),
            ("Store::write         nothing", Some("Store::write")),
            ("Shop::commit", Some("Shop::commit")),
            ("disk::write_batch    all in one", None),
            ("disk::write          all in one", Some("disk::write")),
            ("store::disk          the module", None),
            ("store::disk::Cleaner", None),
            ("etcd_facade::watch::encode", None),
            (
                "watch::stream        (`disk/cleaner.rs`)",
                Some("watch::stream"),
            ),
            ("its own task (interest.rs)", Some("interest.rs")),
            ("crates/store/src/disk/cleaner.rs, a sentence.", None),
            ("etcd-facade          whole revisions", None),
        ] {
            let document = format!("# Other\nno::thing\n### The path of a write\n{line}\n");
            let mut complaints = Vec::new();
            check_document(&document, &sources, &mut complaints);
            let expected =
                expected.map(|name| format!("{DOCUMENT}:4: {name} is not in crates/*/src"));
            assert_eq!(complaints, Vec::from_iter(expected), "{line}");
        }
    }
}
