//! What moving to another Kubernetes version takes, step by step.

use crate::{Outcome, root};

const DOCUMENT: &str = "CONTRIBUTING.md";
const HEADING: &str = "## Moving to the next Kubernetes version";

/// Prints the steps for a version such as `1.37`.
pub(crate) fn run(words: &[String]) -> Outcome {
    let [version] = words else {
        return Err("usage: cargo xtask upstream VERSION, for example 1.37".to_owned());
    };
    let text = std::fs::read_to_string(root().join(DOCUMENT))
        .map_err(|cause| format!("cannot read {DOCUMENT}: {cause}"))?;
    let section = steps(&text).ok_or(format!("{DOCUMENT} has no section \"{HEADING}\""))?;
    println!("Kubernetes {version}, from {DOCUMENT}:\n{}", section.trim());
    Ok(())
}

fn steps(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once(HEADING)?;
    Some(rest.split("\n## ").next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_at_the_next_heading() {
        let text = format!("# C\n{HEADING}\n1. a\n### b\n## Next\n2. c");
        assert_eq!(steps(&text), Some("\n1. a\n### b"));
        assert_eq!(steps("# C"), None);
    }
}
