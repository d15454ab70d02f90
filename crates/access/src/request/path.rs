//! Paths of URLs, decoded once.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Longer paths name nothing.
const PATH_BYTES_MAX: usize = 8 * 1024;

/// A path, decoded once.
#[derive(Clone, Debug)]
pub struct Path<'a> {
    text: Cow<'a, str>,
    /// Whether objects can be found by it at all.
    well_formed: bool,
}

impl<'a> Path<'a> {
    /// Never fails: what makes no sense is a path like any other.
    #[must_use]
    pub fn decode(sent: &'a str) -> Self {
        match percent_decode_str(sent).decode_utf8() {
            Ok(text) => Self {
                well_formed: sent.len() <= PATH_BYTES_MAX && !sent.starts_with("//"),
                text,
            },
            Err(_) => Self {
                text: sent.into(),
                well_formed: false,
            },
        }
    }

    #[must_use]
    pub fn into_owned(self) -> Path<'static> {
        Path {
            text: Cow::Owned(self.text.into_owned()),
            well_formed: self.well_formed,
        }
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it can be read, and is not too long.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.well_formed
    }

    /// The segments, one slash at the end forgiven; none of `/`. `None` if a segment is
    /// empty, except for that of the namespace, which then means all namespaces.
    #[must_use]
    pub fn segments(&self) -> Option<Vec<&str>> {
        let path = self.text.strip_prefix('/').filter(|_| self.well_formed)?;
        if path.is_empty() {
            return Some(Vec::new());
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let parts: Vec<&str> = path.split('/').collect();
        let whole = !parts.iter().any(|part| part.is_empty());
        (whole || lacks_only_namespace(&parts)).then_some(parts)
    }
}

fn lacks_only_namespace(parts: &[&str]) -> bool {
    let (["api", _, below @ ..] | ["apis", _, _, below @ ..]) = parts else {
        return false;
    };
    let below = below.strip_prefix(&["watch"]).unwrap_or(below);
    let empty = parts.iter().filter(|part| part.is_empty()).count();
    matches!(below, ["namespaces", "", _, ..]) && empty == 1
}
