//! Field validation: duplicate and unknown fields in documents, and the order in which they are
//! reported.

use optik_object::{Map, Object, Value, occurrences, to_bytes};
use std::collections::BTreeSet;

/// Maximum number of fields reported for one document.
const REPORTED_FIELDS_MAX: usize = 100;

/// The duplicate fields of a document.
pub(crate) enum DuplicateFields {
    /// JSON paths.
    JsonPaths(Vec<String>),
    /// Messages with the line numbers of YAML.
    YamlMessages(Vec<String>),
}

impl DuplicateFields {
    pub(crate) fn is_empty(&self) -> bool {
        let (Self::JsonPaths(list) | Self::YamlMessages(list)) = self;
        list.is_empty()
    }

    /// Duplicate and unknown fields as warnings, one for each.
    pub(crate) fn warnings(self, unknown: Vec<String>, body: &[u8]) -> Vec<String> {
        match self {
            Self::JsonPaths(twice) => in_document_order(twice, unknown, body),
            Self::YamlMessages(lines) => lines
                .into_iter()
                .chain(unknown.iter().map(duplicate_field_message))
                .collect(),
        }
    }

    /// Duplicate and unknown fields as parts of one error.
    pub(crate) fn errors(self, unknown: Vec<String>, body: &[u8]) -> Vec<String> {
        match self {
            Self::JsonPaths(_) => self.warnings(unknown, body),
            Self::YamlMessages(lines) => {
                let lines = (!lines.is_empty()).then(|| unmarshal_errors(&lines));
                lines
                    .into_iter()
                    .chain(unknown.iter().map(duplicate_field_message))
                    .collect()
            }
        }
    }
}

/// All YAML errors, in Go's words.
pub(crate) fn unmarshal_errors(lines: &[String]) -> String {
    format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))
}

fn duplicate_field_message(path: &String) -> String {
    format!("unknown field \"{path}\"")
}

/// An unknown field is reported where it first occurs, a duplicate where it is repeated. The
/// members of an unknown field are not reported.
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
            complaints.push(duplicate_field_message(&path));
        } else if !is_first && twice.contains(&path) {
            complaints.push(format!("duplicate field \"{path}\""));
        }
    }
    // A body that is not JSON has no document order.
    for path in unknown.difference(&seen) {
        complaints.push(duplicate_field_message(path));
    }
    complaints.truncate(REPORTED_FIELDS_MAX);
    complaints
}

/// Where duplicate owner references are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplicateOwnersIn {
    RequestBody,
    /// In the result of a patch.
    PatchResult,
}

/// Removes duplicate owner references and returns a warning with their UIDs.
pub(crate) fn deduplicate_owner_references(
    object: &mut Object,
    found: DuplicateOwnersIn,
) -> Option<String> {
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
        DuplicateOwnersIn::RequestBody => "",
        DuplicateOwnersIn::PatchResult => " after mutating admission happens",
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

/// The warnings that fit into the response headers: each text once. If they are too long together,
/// each is truncated, and those beyond the limit are dropped.
pub(crate) fn truncate_warnings(warnings: &[String]) -> Vec<String> {
    const TOTAL_CHARS_MAX: usize = 4096;
    const TRUNCATED_CHARS_MAX: usize = 256;
    let mut seen = BTreeSet::new();
    let texts: Vec<&String> = warnings.iter().filter(|text| seen.insert(*text)).collect();
    let together: usize = texts.iter().map(|text| text.chars().count()).sum();
    if together <= TOTAL_CHARS_MAX {
        return texts.into_iter().cloned().collect();
    }
    // The texts before the one that exceeded the limit were all added; they stay, truncated.
    let mut whole = 0;
    let fitting = texts.iter().take_while(|text| {
        whole += text.chars().count();
        whole <= TOTAL_CHARS_MAX
    });
    let replayed = fitting.count() + 1;
    let mut written = 0;
    let mut bounded = Vec::new();
    for (at, text) in texts.into_iter().enumerate() {
        if at >= replayed && written >= TOTAL_CHARS_MAX {
            break;
        }
        let cut: String = text.chars().take(TRUNCATED_CHARS_MAX).collect();
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
    fn unknown_and_duplicate_fields_are_reported_in_document_order() {
        let body = br#"{"z":{"a":1,"a":1},"k":1,"b":2,"k":3,"z":4}"#;
        let twice = DuplicateFields::JsonPaths(["z.a", "k", "z"].map(str::to_owned).to_vec());
        let unknown = ["b", "z"].map(str::to_owned).to_vec();
        let expected = [
            "unknown field \"z\"",
            "unknown field \"b\"",
            "duplicate field \"k\"",
        ];
        assert_eq!(twice.warnings(unknown, body), expected);
    }

    #[test]
    fn owner_references_are_deduplicated_by_full_equality() {
        let owner = |uid: &str, name: &str| json!({"uid": uid, "name": name});
        let owners = json!([
            owner("1", "a"),
            owner("1", "b"),
            owner("1", "a"),
            owner("2", "a")
        ]);
        let object = json!({"metadata": {"ownerReferences": owners}});
        let mut object = Object::try_from(object).unwrap();
        let told =
            deduplicate_owner_references(&mut object, DuplicateOwnersIn::RequestBody).unwrap();
        assert!(told.ends_with("duplicate UID(s) observed: 1"), "{told}");
        let kept = &object.metadata().unwrap()["ownerReferences"];
        let expected = json!([owner("1", "a"), owner("1", "b"), owner("2", "a")]);
        assert_eq!(kept, &expected);
        assert_eq!(
            deduplicate_owner_references(&mut object, DuplicateOwnersIn::PatchResult),
            None
        );
    }

    #[test]
    fn warnings_are_deduplicated_and_truncated_to_the_header_limit() {
        let few = vec!["a".to_owned(), "b".to_owned(), "a".to_owned()];
        assert_eq!(truncate_warnings(&few), ["a", "b"]);
        let many: Vec<String> = (0..40)
            .map(|at| format!("{at:02}{}", "x".repeat(300)))
            .collect();
        let lengths: Vec<usize> = truncate_warnings(&many).iter().map(String::len).collect();
        assert_eq!(lengths, [256; 16]);
    }
}
