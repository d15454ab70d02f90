//! What clients are told about odd documents, and in which order.

use optik_object::{Map, Object, Value, occurrences, to_bytes};
use std::collections::BTreeSet;

/// Of what is wrong with one document, no more is told.
const TOLD_MAX: usize = 100;

/// What a document gives more than once.
pub(crate) enum Twice {
    /// Paths of JSON.
    Members(Vec<String>),
    /// Sentences about the lines of YAML.
    Lines(Vec<String>),
}

impl Twice {
    pub(crate) fn is_none(&self) -> bool {
        let (Self::Members(list) | Self::Lines(list)) = self;
        list.is_empty()
    }

    /// With the unknown fields, each a warning of its own.
    pub(crate) fn warnings(self, unknown: Vec<String>, body: &[u8]) -> Vec<String> {
        match self {
            Self::Members(twice) => in_document_order(twice, unknown, body),
            Self::Lines(lines) => lines.into_iter().chain(unknown.iter().map(told)).collect(),
        }
    }

    /// With the unknown fields, each a part of one refusal.
    pub(crate) fn refusals(self, unknown: Vec<String>, body: &[u8]) -> Vec<String> {
        match self {
            Self::Members(_) => self.warnings(unknown, body),
            Self::Lines(lines) => {
                let lines = (!lines.is_empty()).then(|| unmarshal_errors(&lines));
                lines.into_iter().chain(unknown.iter().map(told)).collect()
            }
        }
    }
}

/// All that is wrong with YAML, in the words of Go.
pub(crate) fn unmarshal_errors(lines: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))
}

fn told(path: &String) -> String {
    format!("unknown field \"{path}\"")
}

/// What is unknown is told where it is first given, what is given twice where it is
/// given again. An unknown member is not looked into, and only unknown.
fn in_document_order(twice: Vec<String>, unknown: Vec<String>, body: &[u8]) -> Vec<String> {
    if unknown.is_empty() {
        let all = twice
            .iter()
            .map(|path| format!("duplicate field \"{path}\""));
        return all.collect();
    }
    let unknown: BTreeSet<String> = unknown.into_iter().collect();
    let is_within = |path: &String| {
        let mut starts = path.match_indices(['.', '[']);
        unknown.contains(path) || starts.any(|(at, _)| unknown.contains(&path[..at]))
    };
    let twice: BTreeSet<String> = twice.into_iter().filter(|path| !is_within(path)).collect();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut complaints = Vec::new();
    for path in occurrences(body, &unknown.union(&twice).cloned().collect()) {
        let is_first = seen.insert(path.clone());
        if is_first && unknown.contains(&path) {
            complaints.push(told(&path));
        } else if !is_first && twice.contains(&path) {
            complaints.push(format!("duplicate field \"{path}\""));
        }
    }
    // A body that is no JSON has no order to keep.
    for path in unknown.difference(&seen) {
        complaints.push(told(path));
    }
    complaints.truncate(TOLD_MAX);
    complaints
}

/// When owners named twice are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    InTheBody,
    /// In what became of a patch.
    Afterwards,
}

/// Names every owner once, and says whom it dropped.
pub(crate) fn name_owners_once(object: &mut Object, found: Found) -> Option<String> {
    let has_owners = |meta: &Map| meta.contains_key("ownerReferences");
    if !object.metadata().is_some_and(has_owners) {
        return None;
    }
    let Some(Value::Array(owners)) = object.metadata_mut().get_mut("ownerReferences") else {
        return None;
    };
    if owners.len() < 2 {
        return None;
    }
    let mut known = BTreeSet::new();
    let mut dropped = Vec::new();
    owners.retain(|owner| {
        let is_new = known.insert(to_bytes(owner));
        if !is_new {
            dropped.push(owner["uid"].as_str().unwrap_or_default().to_owned());
        }
        is_new
    });
    let when = match found {
        Found::InTheBody => "",
        Found::Afterwards => " after mutating admission happens",
    };
    (!dropped.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {}",
            dropped.join(", ")
        )
    })
}

/// What fits into the headers of an answer: each text once; if they are too long
/// together, each is cut, and those beyond the limit are left out.
pub(crate) fn bounded(warnings: &[String]) -> Vec<String> {
    const TOGETHER_CHARS_MAX: usize = 4096;
    const ONE_CHARS_MAX: usize = 256;
    let mut seen = BTreeSet::new();
    let texts: Vec<&String> = warnings.iter().filter(|text| seen.insert(*text)).collect();
    let together: usize = texts.iter().map(|text| text.chars().count()).sum();
    if together <= TOGETHER_CHARS_MAX {
        return texts.into_iter().cloned().collect();
    }
    // The texts before the one that was too much had all been told; they stay, cut.
    let mut whole = 0;
    let fitting = texts.iter().take_while(|text| {
        whole += text.chars().count();
        whole <= TOGETHER_CHARS_MAX
    });
    let replayed = fitting.count() + 1;
    let mut written = 0;
    let mut bounded = Vec::new();
    for (at, text) in texts.into_iter().enumerate() {
        if at >= replayed && written >= TOGETHER_CHARS_MAX {
            break;
        }
        let cut: String = text.chars().take(ONE_CHARS_MAX).collect();
        written += cut.chars().count();
        bounded.push(cut);
    }
    bounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn complaints_follow_the_document() {
        let body = br#"{"z":{"a":1,"a":1},"k":1,"b":2,"k":3,"z":4}"#;
        let twice = Twice::Members(["z.a", "k", "z"].map(str::to_owned).to_vec());
        let unknown = ["b", "z"].map(str::to_owned).to_vec();
        let expected = [
            "unknown field \"z\"",
            "unknown field \"b\"",
            "duplicate field \"k\"",
        ];
        assert_eq!(twice.warnings(unknown, body), expected);
    }

    #[test]
    fn owners_are_equal_as_a_whole() {
        let owner = |uid: &str, name: &str| json!({"uid": uid, "name": name});
        let owners = json!([
            owner("1", "a"),
            owner("1", "b"),
            owner("1", "a"),
            owner("2", "a")
        ]);
        let object = json!({"metadata": {"ownerReferences": owners}});
        let mut object = Object::try_from(object).unwrap();
        let told = name_owners_once(&mut object, Found::InTheBody).unwrap();
        assert!(told.ends_with("duplicate UID(s) observed: 1"), "{told}");
        let kept = &object.metadata().unwrap()["ownerReferences"];
        let expected = json!([owner("1", "a"), owner("1", "b"), owner("2", "a")]);
        assert_eq!(kept, &expected);
        assert_eq!(name_owners_once(&mut object, Found::Afterwards), None);
    }

    #[test]
    fn long_warnings_are_cut_all_of_them() {
        let few = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()];
        assert_eq!(bounded(&few), ["a", "b"]);
        let many: Vec<String> = (0..40)
            .map(|at| format!("{at:02}{}", "x".repeat(300)))
            .collect();
        let lengths: Vec<usize> = bounded(&many).iter().map(String::len).collect();
        assert_eq!(lengths, [256; 16]);
    }
}
