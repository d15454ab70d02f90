//! URL paths, percent-decoded once.

use super::resource_path::NAMESPACE_SUBRESOURCES;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// Longer paths are not decoded and match no route.
const PATH_BYTES_MAX: usize = 8 * 1024;

/// A URL path, percent-decoded once.
#[derive(Clone, Debug)]
pub struct RequestPath<'a> {
    text: Cow<'a, str>,
    /// Whether the path can be decoded and is not too long.
    readable: bool,
    /// Whether the path can match any route.
    well_formed: bool,
}

impl<'a> RequestPath<'a> {
    /// Decodes a path. Never fails: a malformed path matches no route.
    #[must_use]
    pub fn decode(sent: &'a str) -> Self {
        match percent_decode_str(sent).decode_utf8() {
            Ok(text) => Self {
                readable: sent.len() <= PATH_BYTES_MAX,
                well_formed: sent.len() <= PATH_BYTES_MAX && !sent.starts_with("//"),
                text,
            },
            Err(_) => Self {
                text: sent.into(),
                readable: false,
                well_formed: false,
            },
        }
    }

    #[must_use]
    pub fn into_owned(self) -> RequestPath<'static> {
        RequestPath {
            text: Cow::Owned(self.text.into_owned()),
            readable: self.readable,
            well_formed: self.well_formed,
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the path can be decoded and is not too long.
    #[must_use]
    pub fn is_well_formed(&self) -> bool {
        self.well_formed
    }

    /// The segments; a single trailing slash is ignored, and `/` has none. `None` if a segment is
    /// empty.
    #[must_use]
    pub fn segments(&self) -> Option<Vec<&str>> {
        match self.text.as_ref() {
            "/" if self.well_formed => Some(Vec::new()),
            _ => self
                .authorizer_segments()
                .filter(|(_, whole)| *whole)
                .map(|(parts, _)| parts),
        }
    }

    /// The segments as the authorizer reads them: leading and trailing slashes are ignored, and
    /// empty segments count. The flag is whether the path can be routed: one leading slash, at most
    /// one trailing slash, and no empty segment except that of the namespace, which means all
    /// namespaces. `None` if the path cannot be decoded.
    pub(super) fn authorizer_segments(&self) -> Option<(Vec<&str>, bool)> {
        if !self.readable {
            return None;
        }
        let text = self.text.trim_matches('/');
        let parts: Vec<&str> = text.split('/').collect();
        let framed = self
            .text
            .strip_prefix('/')
            .map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let filled = !parts.iter().any(|part| part.is_empty()) || lacks_only_namespace(&parts);
        let whole = self.well_formed && framed == Some(text) && filled;
        Some((parts, whole))
    }
}

fn lacks_only_namespace(parts: &[&str]) -> bool {
    let (["api", _, below @ ..] | ["apis", _, _, below @ ..]) = parts else {
        return false;
    };
    let below = below.strip_prefix(&["watch"]).unwrap_or(below);
    let empty = parts.iter().filter(|part| part.is_empty()).count();
    let inside = |word: &str| !NAMESPACE_SUBRESOURCES.contains(&word);
    matches!(below, ["namespaces", "", word, ..] if inside(word)) && empty == 1
}
