//! The tables of `docs/controllers.md` name a test for each mistake and for each fault,
//! and there is such a test.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of every file of a directory.
fn sources(directory: &str) -> String {
    let files = std::fs::read_dir(root().join(directory)).expect("it is there");
    let texts = files.map(|file| {
        let path = file.expect("it can be read").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        // A case is known by the name of its file.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        format!("fn {name}(\n{text}")
    });
    texts.collect()
}

/// What stands between backticks in the last column, without the dots of what is cut off.
fn test_names(row: &str) -> Vec<&str> {
    let last = row.trim_end_matches('|').rsplit('|').next();
    let parts = last.unwrap_or_default().split('`').skip(1).step_by(2);
    let names = parts.filter(|part| !part.contains('/'));
    names.map(|name| name.trim_end_matches('…')).collect()
}

#[test]
fn documented_mistakes_and_faults_have_tests() {
    let page = std::fs::read_to_string(root().join("docs/controllers.md")).expect("it is there");
    let tests =
        sources("crates/controller/tests/runtime") + &sources("crates/controller/tests/ui/cases");
    let mut rows = 0;
    for table in page
        .split("\n## ")
        .filter(|part| part.contains("| shown by |"))
    {
        for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
            let names = test_names(row);
            assert!(!names.is_empty(), "nothing shows {row}");
            for name in names {
                assert!(
                    tests.contains(&format!("fn {name}")),
                    "there is no test {name}"
                );
            }
            rows += 1;
        }
    }
    assert!(rows >= 20, "{rows} rows");
}
