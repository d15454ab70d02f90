//! JSON Merge Patch (RFC 7386). Null members are dropped from values that do not merge with an
//! object, even inside lists; null items stay.

use crate::StrictDecoding;
use crate::go::strict_error;
use optik_object::{Map, Status, Value, drop_nulls, json_type, parse};

/// A decoded patch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MergePatch {
    pub members: Map,
    /// `duplicate field "data.a"`; empty if strict decoding is off.
    pub strict_errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergePatchError {
    #[error("error decoding patch: {0}")]
    Malformed(String),
    #[error("Invalid JSON Patch")]
    Invalid,
}

impl MergePatchError {
    /// The `Status` for the client.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::bad_request(self.to_string())
    }
}

impl MergePatch {
    /// Decodes a body.
    pub fn decode(body: &[u8], checks: StrictDecoding) -> Result<Self, MergePatchError> {
        let malformed = |text: String| match checks {
            StrictDecoding::On => MergePatchError::Malformed(text),
            StrictDecoding::Off => MergePatchError::Invalid,
        };
        let parsed = parse(body).map_err(|error| malformed(error.to_string()))?;
        match parsed.value {
            Value::Object(members) => {
                let duplicates = parsed.duplicates.iter();
                let complaints = duplicates.map(|path| strict_error("duplicate", path));
                Ok(Self {
                    members,
                    strict_errors: match checks {
                        StrictDecoding::On => complaints.collect(),
                        StrictDecoding::Off => Vec::new(),
                    },
                })
            }
            Value::Null => Err(MergePatchError::Invalid),
            other => Err(malformed(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                json_type(&other)
            ))),
        }
    }
}

/// Merges a patch into a document.
pub fn merge_patch(document: &mut Map, patch: Map) {
    for (name, mut change) in patch {
        if change.is_null() {
            document.remove(&name);
            continue;
        }
        match document.get_mut(&name) {
            Some(Value::Object(members)) => match change {
                Value::Object(patch) => merge_patch(members, patch),
                // Nulls are not dropped here, unlike in other values.
                other => drop(document.insert(name, other)),
            },
            _ => {
                drop_nulls(&mut change);
                document.insert(name, change);
            }
        }
    }
}
