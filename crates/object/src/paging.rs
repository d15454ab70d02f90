//! Continue tokens of paged lists (CONC §3.4).
//!
//! A token is `{"v":"meta.k8s.io/v1","rv":N,"start":"ns/name\u0000"}` in base64. It is not signed:
//! whatever its content, it can only select a start key below the collection.

use crate::{base64, json};
use serde::{Deserialize, Serialize};

const VERSION: &str = "meta.k8s.io/v1";

/// A decoded continue token: the start of the next page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContinueToken {
    pub revision: ContinueRevision,
    /// The first key of the page, relative to the collection: the key of the last item of the
    /// previous page, and a zero byte.
    pub start: String,
}

/// The revision the rest of a list is read at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinueRevision {
    /// The revision of the first page.
    Exact(u64),
    /// The latest revision: the snapshot was compacted and the client chose to continue.
    Latest,
}

/// Why a continue token is rejected (`CONC-B3`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContinueTokenError {
    #[error("continue key is not valid: {0}")]
    Malformed(String),
    #[error("continue key is not valid: server does not recognize this encoded version {0}")]
    Version(String),
    #[error(
        "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"
    )]
    Revision,
    #[error("continue key is not valid: encoded start key empty (version meta.k8s.io/v1)")]
    NoStart,
}

#[derive(Deserialize, Serialize)]
struct EncodedContinueToken {
    #[serde(default)]
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl ContinueToken {
    /// The token of the page after the item with this key.
    #[must_use]
    pub fn after(at: ContinueRevision, last_key: &str) -> Self {
        Self {
            revision: at,
            start: format!("{last_key}\0"),
        }
    }

    #[must_use]
    pub fn encode(&self) -> String {
        let rv = match self.revision {
            ContinueRevision::Exact(revision) => i64::try_from(revision).unwrap_or(i64::MAX),
            ContinueRevision::Latest => -1,
        };
        base64::encode(&json::to_bytes(&EncodedContinueToken {
            v: VERSION.into(),
            rv,
            start: self.start.clone(),
        }))
    }

    pub fn decode(text: &str) -> Result<Self, ContinueTokenError> {
        let bytes = base64::decode(text).map_err(ContinueTokenError::Malformed)?;
        let parsed = json::parse(&bytes)
            .map_err(|error| ContinueTokenError::Malformed(error.to_string()))?;
        let token = EncodedContinueToken::deserialize(parsed.value)
            .map_err(|error| ContinueTokenError::Malformed(error.to_string()))?;
        if token.v != VERSION {
            return Err(ContinueTokenError::Version(token.v));
        }
        let at = match token.rv {
            0 => return Err(ContinueTokenError::Revision),
            rv => u64::try_from(rv).map_or(ContinueRevision::Latest, ContinueRevision::Exact),
        };
        if token.start.is_empty() {
            return Err(ContinueTokenError::NoStart);
        }
        if !is_clean(&token.start) {
            return Err(ContinueTokenError::Malformed(token.start));
        }
        let start = token.start.strip_prefix('/').unwrap_or(&token.start).into();
        Ok(Self {
            revision: at,
            start,
        })
    }
}

/// Whether the start key stays below the collection and is normalized.
fn is_clean(start: &str) -> bool {
    let start = start.strip_prefix('/').unwrap_or(start);
    start.is_empty() || !start.split('/').any(|part| matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;
    use proptest::prelude::*;

    /// CONC §3.4.
    #[test]
    fn continue_token_is_encoded_as_upstream() {
        let page = ContinueToken::after(ContinueRevision::Exact(17), "ns/a");
        let json = br#"{"v":"meta.k8s.io/v1","rv":17,"start":"ns/a\u0000"}"#;
        assert_eq!(page.encode(), base64::encode(json));
        assert_eq!(ContinueToken::decode(&page.encode()), Ok(page));
        let latest = base64::encode(br#"{"v":"meta.k8s.io/v1","rv":-1,"start":"a"}"#);
        assert_eq!(
            ContinueToken::decode(&latest).unwrap().revision,
            ContinueRevision::Latest
        );
        assert_eq!(ContinueToken::decode(&latest).unwrap().encode(), latest);
    }

    /// CONC-B3.
    #[test]
    fn malformed_continue_tokens_are_refused() {
        let prefix = "invalid continue token: continue key is not valid";
        for (json, expected) in [
            ("", ": unexpected end of JSON input"),
            ("{", ": unexpected end of JSON input"),
            (
                "garbage",
                ": invalid character 'g' looking for beginning of value",
            ),
            (
                "'",
                ": invalid character '\\'' looking for beginning of value",
            ),
            ("{}", ": server does not recognize this encoded version "),
            (
                r#"{"v":"v2","rv":1,"start":"a"}"#,
                ": server does not recognize this encoded version v2",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","start":"a"}"#,
                ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":1}"#,
                ": encoded start key empty (version meta.k8s.io/v1)",
            ),
            (
                r#"{"v":"meta.k8s.io/v1"}"#,
                ": incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../a"}"#, ": ../a"),
            (
                r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/./b"}"#,
                ": a/./b",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a//b"}"#, ": a//b"),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"a/"}"#, ": a/"),
        ] {
            let error = ContinueToken::decode(&base64::encode(json.as_bytes())).unwrap_err();
            let status = Status::invalid_continue_token(&error);
            assert_eq!(status.message(), format!("{prefix}{expected}"), "{json}");
            assert_eq!(status.code(), 400);
        }
        let error = ContinueToken::decode("!").unwrap_err();
        assert_eq!(
            error.to_string(),
            "continue key is not valid: illegal base64 data at input byte 0"
        );
    }

    proptest! {
        #[test]
        fn continue_tokens_round_trip(revision in 1..=i64::MAX as u64, namespace in "[a-z0-9-]{1,20}", name in "[a-z0-9-]{1,20}") {
            for at in [ContinueRevision::Exact(revision), ContinueRevision::Latest] {
                let page = ContinueToken::after(at, &format!("{namespace}/{name}"));
                prop_assert_eq!(ContinueToken::decode(&page.encode()), Ok(page));
            }
        }

        #[test]
        fn continue_token_decode_never_panics(text: String, bytes: Vec<u8>) {
            let _ = ContinueToken::decode(&text);
            let _ = ContinueToken::decode(&base64::encode(&bytes));
        }

        #[test]
        fn continue_token_start_stays_in_the_collection(start in "[a./]{0,8}") {
            let json = format!(r#"{{"v":"meta.k8s.io/v1","rv":1,"start":"{start}"}}"#);
            if let Ok(page) = ContinueToken::decode(&base64::encode(json.as_bytes())) {
                prop_assert!(!page.start.starts_with('/') && !page.start.split('/').any(|part| part == ".."));
            }
        }
    }
}
