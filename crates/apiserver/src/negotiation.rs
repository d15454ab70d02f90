//! What the client can read.

use http::HeaderMap;
use http::header::ACCEPT;
use optik_object::Status;

/// What objects can be written in; clients are told so when they ask for something
/// else.
const TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const REPRESENTATIONS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// One alternative of an Accept header.
#[derive(Debug, PartialEq)]
pub(crate) struct Clause<'a> {
    pub(crate) media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: u16,
}

impl Clause<'_> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| *value)
    }

    fn is_wildcard(&self) -> bool {
        self.media_type == "*/*"
    }
}

/// The alternatives, best first.
pub(crate) fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = accept.split(',').filter_map(clause).collect();
    clauses.sort_by_key(|clause| (std::cmp::Reverse(clause.quality), clause.is_wildcard()));
    clauses
}

fn clause(text: &str) -> Option<Clause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().filter(|name| !name.is_empty())?;
    let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
    let quality = parameters.iter().find(|(name, _)| *name == "q");
    let quality = quality.and_then(|(_, value)| value.parse::<f32>().ok());
    Some(Clause {
        media_type,
        quality: (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u16,
        parameters,
    })
}

/// Whether plain JSON will do.
pub(crate) fn accepts_json(headers: &HeaderMap) -> Result<(), Status> {
    let Some(accept) = headers.get(ACCEPT) else {
        return Ok(());
    };
    // What nearly everybody sends.
    if accept == "application/json" || accept == "*/*" || accept.is_empty() {
        return Ok(());
    }
    let accept = accept.to_str().unwrap_or_default();
    let clauses = clauses(accept);
    let plain = clauses.iter().any(|clause| {
        let json = matches!(clause.media_type, "application/json" | "*/*");
        json && clause.parameter("as").is_none()
    });
    if plain {
        return Ok(());
    }
    let known = clauses
        .iter()
        .any(|clause| TYPES.contains(&clause.media_type));
    Err(if known {
        Status::not_acceptable(TYPES)
    } else {
        Status::not_representable(REPRESENTATIONS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(accept: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, http::HeaderValue::from_static(accept));
        accepts_json(&headers).is_ok()
    }

    #[test]
    fn wire_3_2() {
        for accept in [
            "application/json",
            "*/*",
            "application/json;stream=watch",
            "application/vnd.kubernetes.protobuf,application/json",
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
            "text/html, */*;q=0.1",
        ] {
            assert!(accepts(accept), "{accept}");
        }
        for accept in [
            "text/html",
            "application/*",
            "application/vnd.kubernetes.protobuf",
            "application/json;as=Table;v=v1;g=meta.k8s.io",
        ] {
            assert!(!accepts(accept), "{accept}");
        }
    }

    #[test]
    fn the_best_comes_first() {
        let order: Vec<_> = clauses("*/*, b/b;q=0.5, a/a, c/c;q=0.9")
            .iter()
            .map(|clause| clause.media_type)
            .collect();
        assert_eq!(order, ["a/a", "*/*", "c/c", "b/b"]);
    }
}
