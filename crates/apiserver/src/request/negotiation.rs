//! Content negotiation: the Accept header and the representation it selects.

use crate::encoding::representation::{
    Encoding, IncludeObject, MetaVersion, Representation, Transform,
};
use crate::request::query::Query;
use http::HeaderMap;
use http::header::ACCEPT;
use optik_object::Status;

/// Media types of objects; a 406 response lists them.
pub(crate) const TYPES: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
];
const STREAM_TYPES: &[&str] = &[
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
const REPRESENTATIONS: &[&str] = &[
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];

/// One clause of an Accept header.
#[derive(Debug, PartialEq)]
pub(crate) struct AcceptClause<'a> {
    pub(crate) media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    quality: u16,
}

impl AcceptClause<'_> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| *value)
    }

    fn is_wildcard(&self) -> bool {
        self.media_type == "*/*"
    }

    pub(crate) fn encoding(&self) -> Option<Encoding> {
        match self.media_type {
            "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Encoding::Protobuf),
            _ => None,
        }
    }

    /// The transform of the clause; `None` if it names an unknown one.
    fn transform(&self, encoding: Encoding, rows: IncludeObject) -> Option<Transform> {
        match self.parameter("stream") {
            None => {}
            Some("watch") if encoding != Encoding::Yaml => {}
            Some(_) => return None,
        }
        let wanted = ["as", "g", "v"].map(|name| self.parameter(name));
        let [Some(name), Some("meta.k8s.io"), Some(version)] = wanted else {
            return (wanted == [None; 3]).then_some(Transform::Object);
        };
        let version = match version {
            "v1" => MetaVersion::V1,
            "v1beta1" => MetaVersion::V1Beta1,
            _ => return None,
        };
        match name {
            "Table" if encoding != Encoding::Protobuf => Some(Transform::Table {
                version,
                include_object: rows,
            }),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => {
                Some(Transform::PartialMetadata {
                    version,
                    of_list: name.ends_with("List"),
                })
            }
            _ => None,
        }
    }
}

/// The clauses, best first.
pub(crate) fn clauses(accept: &str) -> Vec<AcceptClause<'_>> {
    let mut clauses: Vec<AcceptClause<'_>> = accept.split(',').filter_map(clause).collect();
    clauses.sort_by_key(|clause| (std::cmp::Reverse(clause.quality), clause.is_wildcard()));
    clauses
}

fn clause(text: &str) -> Option<AcceptClause<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().filter(|name| !name.is_empty())?;
    let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
    let quality = parameters.iter().find(|(name, _)| *name == "q");
    let quality = quality.and_then(|(_, value)| value.parse::<f32>().ok());
    Some(AcceptClause {
        media_type,
        quality: (quality.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u16,
        parameters,
    })
}

/// The Accept header, `None` if it accepts anything.
pub(crate) fn accept_header(headers: &HeaderMap) -> Option<&str> {
    let accept = headers.get(ACCEPT)?;
    // Fast path: what most clients send.
    if accept == "application/json" || accept == "*/*" || accept.is_empty() {
        return None;
    }
    Some(accept.to_str().unwrap_or_default())
}

/// The encodings that a kind supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupportedEncodings {
    All,
    /// Custom resources have no protobuf encoding; their metadata has one.
    NoObjectProtobuf,
}

/// Negotiates the representation of objects.
pub(crate) fn negotiate(
    headers: &HeaderMap,
    query: &Query<'_>,
    offer: SupportedEncodings,
) -> Result<Representation, Status> {
    let Some(accept) = accept_header(headers) else {
        return Ok(Representation::default());
    };
    let clauses = clauses(accept);
    if offer == SupportedEncodings::All {
        check_acceptable(&clauses, TYPES)?;
    }
    for clause in &clauses {
        let Some(encoding) = clause.encoding() else {
            continue;
        };
        if let Some(mut look) = clause.transform(encoding, IncludeObject::Metadata) {
            let whole = encoding == Encoding::Protobuf && look == Transform::Object;
            if whole && offer == SupportedEncodings::NoObjectProtobuf {
                continue;
            }
            if let Transform::Table {
                include_object: rows,
                ..
            } = &mut look
            {
                *rows = include_object(query)?;
            }
            return Ok(Representation {
                encoding,
                transform: look,
            });
        }
    }
    Err(Status::not_acceptable(TYPES))
}

/// The media types without parameters are checked first, as upstream does when it chooses a route.
fn check_acceptable(clauses: &[AcceptClause<'_>], available: &[&str]) -> Result<(), Status> {
    let known =
        |clause: &AcceptClause<'_>| TYPES.contains(&clause.media_type) || clause.is_wildcard();
    if clauses.iter().any(known) {
        return Ok(());
    }
    Err(Status::not_representable(available))
}

fn include_object(query: &Query<'_>) -> Result<IncludeObject, Status> {
    match query.get_or_empty("includeObject") {
        "" | "Metadata" => Ok(IncludeObject::Metadata),
        "Object" => Ok(IncludeObject::Object),
        "None" => Ok(IncludeObject::None),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be \
             'Metadata', 'Object', 'None', or empty",
            optik_object::quote(other)
        ))),
    }
}

/// Negotiates the representation of a list, which shares its route with watches.
pub(crate) fn negotiate_list(
    headers: &HeaderMap,
    query: &Query<'_>,
    offer: SupportedEncodings,
) -> Result<Representation, Status> {
    // Custom resources have no routes of their own.
    if offer == SupportedEncodings::All
        && let Some(accept) = accept_header(headers)
    {
        check_acceptable(&clauses(accept), REPRESENTATIONS)?;
    }
    negotiate(headers, query, offer)
}

/// Negotiates the representation of a watch, which cannot be YAML.
pub(crate) fn negotiate_stream(
    headers: &HeaderMap,
    query: &Query<'_>,
    offer: SupportedEncodings,
) -> Result<Representation, Status> {
    let form = negotiate_list(headers, query, offer)?;
    if form.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable(STREAM_TYPES));
    }
    Ok(form)
}

/// Negotiates the encoding of a non-resource document.
pub(crate) fn negotiate_document(headers: &HeaderMap) -> Result<Encoding, Status> {
    let Some(accept) = accept_header(headers) else {
        return Ok(Encoding::Json);
    };
    let clauses = clauses(accept);
    check_acceptable(&clauses, TYPES)?;
    first_encoding(&clauses).ok_or_else(|| Status::not_acceptable(TYPES))
}

/// Negotiates the encoding of an error: JSON if no other is acceptable.
pub(crate) fn negotiate_error(headers: &HeaderMap) -> Encoding {
    let accept = accept_header(headers);
    accept
        .and_then(|accept| first_encoding(&clauses(accept)))
        .unwrap_or_default()
}

fn first_encoding(clauses: &[AcceptClause<'_>]) -> Option<Encoding> {
    clauses.iter().find_map(|clause| {
        let encoding = clause.encoding()?;
        let look = clause.transform(encoding, IncludeObject::None)?;
        (look == Transform::Object).then_some(encoding)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(accept: &str, query: &str) -> Result<Representation, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let query = Query::parse(query).unwrap();
        negotiate(&headers, &query, SupportedEncodings::All).map_err(|status| status.code())
    }

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    /// WIRE §3.2.
    #[test]
    fn accept_header_selects_encoding() {
        let plain = |encoding| {
            Ok(Representation {
                encoding,
                transform: Transform::Object,
            })
        };
        for (accept, expected) in [
            ("application/json", plain(Encoding::Json)),
            ("", plain(Encoding::Json)),
            ("*/*", plain(Encoding::Json)),
            ("application/json;stream=watch", plain(Encoding::Json)),
            ("application/json;stream=x", Err(406)),
            ("application/yaml", plain(Encoding::Yaml)),
            (
                "application/vnd.kubernetes.protobuf,application/json",
                plain(Encoding::Protobuf),
            ),
            (
                "application/vnd.kubernetes.protobuf;q=0.1,application/json",
                plain(Encoding::Json),
            ),
            ("*/*, application/yaml", plain(Encoding::Yaml)),
            ("text/html, */*;q=0.1", plain(Encoding::Json)),
            ("text/html", Err(406)),
            ("application/*", Err(406)),
            ("application/json;as=Foo;v=v1;g=meta.k8s.io", Err(406)),
            ("application/json;as=Table", Err(406)),
            (
                "application/json;as=Foo;v=v1;g=meta.k8s.io, application/json",
                plain(Encoding::Json),
            ),
        ] {
            assert_eq!(ask(accept, ""), expected, "{accept}");
        }
    }

    /// WIRE §3.4.
    #[test]
    fn table_include_object() {
        let table = |rows| {
            Ok(Representation {
                encoding: Encoding::Json,
                transform: Transform::Table {
                    version: MetaVersion::V1,
                    include_object: rows,
                },
            })
        };
        assert_eq!(ask(TABLE, ""), table(IncludeObject::Metadata));
        assert_eq!(ask(TABLE, "includeObject=None"), table(IncludeObject::None));
        assert_eq!(
            ask(TABLE, "includeObject=Object"),
            table(IncludeObject::Object)
        );
        assert_eq!(ask(TABLE, "includeObject=Bad"), Err(400));
        assert!(ask("application/json", "includeObject=Bad").is_ok());
        let protobuf = TABLE.replace("json", "vnd.kubernetes.protobuf");
        assert_eq!(ask(&protobuf, ""), Err(406));
        let both = format!("{protobuf},application/json");
        assert_eq!(ask(&both, ""), Ok(Representation::default()));
    }

    #[test]
    fn accept_clauses_are_ordered_by_quality_and_specificity() {
        let order: Vec<_> = clauses("*/*, b/b;q=0.5, a/a, c/c;q=0.9")
            .iter()
            .map(|clause| clause.media_type)
            .collect();
        assert_eq!(order, ["a/a", "*/*", "c/c", "b/b"]);
    }
}
