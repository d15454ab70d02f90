//! What the client can read.

use crate::form::{Encoding, Form, Look, MetaVersion, RowObject};
use crate::query::Query;
use http::HeaderMap;
use http::header::ACCEPT;
use optik_object::Status;

/// What objects can be written in; clients are told so when they ask for something
/// else.
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

    pub(crate) fn encoding(&self) -> Option<Encoding> {
        match self.media_type {
            "application/json" | "application/*" | "*/*" => Some(Encoding::Json),
            "application/yaml" => Some(Encoding::Yaml),
            "application/vnd.kubernetes.protobuf" => Some(Encoding::Protobuf),
            _ => None,
        }
    }

    /// The look that it asks for; `None` if there is no such thing.
    fn look(&self, encoding: Encoding, rows: RowObject) -> Option<Look> {
        match self.parameter("stream") {
            None => {}
            Some("watch") if encoding != Encoding::Yaml => {}
            Some(_) => return None,
        }
        let wanted = ["as", "g", "v"].map(|name| self.parameter(name));
        let [Some(name), Some("meta.k8s.io"), Some(version)] = wanted else {
            return (wanted == [None; 3]).then_some(Look::Whole);
        };
        let version = match version {
            "v1" => MetaVersion::V1,
            "v1beta1" => MetaVersion::V1Beta1,
            _ => return None,
        };
        match name {
            "Table" if encoding != Encoding::Protobuf => Some(Look::Table { version, rows }),
            "PartialObjectMetadata" | "PartialObjectMetadataList" => Some(Look::Metadata {
                version,
                of_list: name.ends_with("List"),
            }),
            _ => None,
        }
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

/// The header, unless anything will do.
pub(crate) fn accept(headers: &HeaderMap) -> Option<&str> {
    let accept = headers.get(ACCEPT)?;
    // What nearly everybody sends.
    if accept == "application/json" || accept == "*/*" || accept.is_empty() {
        return None;
    }
    Some(accept.to_str().unwrap_or_default())
}

/// What a kind can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Offer {
    Everything,
    /// Nobody knows the numbers of its fields; its metadata is like everybody's.
    NoWholeProtobuf,
}

/// The form for an answer about objects.
pub(crate) fn form(headers: &HeaderMap, query: &Query<'_>, offer: Offer) -> Result<Form, Status> {
    let Some(accept) = accept(headers) else {
        return Ok(Form::default());
    };
    let clauses = clauses(accept);
    if offer == Offer::Everything {
        check_known(&clauses, TYPES)?;
    }
    for clause in &clauses {
        let Some(encoding) = clause.encoding() else {
            continue;
        };
        if let Some(mut look) = clause.look(encoding, RowObject::Metadata) {
            let whole = encoding == Encoding::Protobuf && look == Look::Whole;
            if whole && offer == Offer::NoWholeProtobuf {
                continue;
            }
            if let Look::Table { rows, .. } = &mut look {
                *rows = row_object(query)?;
            }
            return Ok(Form { encoding, look });
        }
    }
    Err(Status::not_acceptable(TYPES))
}

/// Routes are chosen by the plain types before anybody looks at parameters.
fn check_known(clauses: &[Clause<'_>], available: &[&str]) -> Result<(), Status> {
    let known = |clause: &Clause<'_>| TYPES.contains(&clause.media_type) || clause.is_wildcard();
    if clauses.iter().any(known) {
        return Ok(());
    }
    Err(Status::not_representable(available))
}

fn row_object(query: &Query<'_>) -> Result<RowObject, Status> {
    match query.text("includeObject") {
        "" | "Metadata" => Ok(RowObject::Metadata),
        "Object" => Ok(RowObject::Whole),
        "None" => Ok(RowObject::None),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be \
             'Metadata', 'Object', 'None', or empty",
            optik_object::quote(other)
        ))),
    }
}

/// The form for a list, whose route is that of watches, too.
pub(crate) fn list_form(
    headers: &HeaderMap,
    query: &Query<'_>,
    offer: Offer,
) -> Result<Form, Status> {
    // Custom kinds have no routes of their own.
    if offer == Offer::Everything
        && let Some(accept) = accept(headers)
    {
        check_known(&clauses(accept), REPRESENTATIONS)?;
    }
    form(headers, query, offer)
}

/// The form for a watch, which YAML has none of.
pub(crate) fn stream_form(
    headers: &HeaderMap,
    query: &Query<'_>,
    offer: Offer,
) -> Result<Form, Status> {
    let form = list_form(headers, query, offer)?;
    if form.encoding == Encoding::Yaml {
        return Err(Status::not_acceptable(STREAM_TYPES));
    }
    Ok(form)
}

/// The encoding for a document about the server.
pub(crate) fn encoding(headers: &HeaderMap) -> Result<Encoding, Status> {
    let Some(accept) = accept(headers) else {
        return Ok(Encoding::Json);
    };
    let clauses = clauses(accept);
    check_known(&clauses, TYPES)?;
    plain(&clauses).ok_or_else(|| Status::not_acceptable(TYPES))
}

/// The encoding for a refusal: JSON, if nothing else will do either.
pub(crate) fn encoding_of_refusal(headers: &HeaderMap) -> Encoding {
    let accept = accept(headers);
    accept
        .and_then(|accept| plain(&clauses(accept)))
        .unwrap_or_default()
}

fn plain(clauses: &[Clause<'_>]) -> Option<Encoding> {
    clauses.iter().find_map(|clause| {
        let encoding = clause.encoding()?;
        let look = clause.look(encoding, RowObject::None)?;
        (look == Look::Whole).then_some(encoding)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(accept: &str, query: &str) -> Result<Form, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        let query = Query::parse(query).unwrap();
        form(&headers, &query, Offer::Everything).map_err(|status| status.code())
    }

    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

    #[test]
    fn wire_3_2() {
        let plain = |encoding| {
            Ok(Form {
                encoding,
                look: Look::Whole,
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

    #[test]
    fn wire_3_4() {
        let table = |rows| {
            Ok(Form {
                encoding: Encoding::Json,
                look: Look::Table {
                    version: MetaVersion::V1,
                    rows,
                },
            })
        };
        assert_eq!(ask(TABLE, ""), table(RowObject::Metadata));
        assert_eq!(ask(TABLE, "includeObject=None"), table(RowObject::None));
        assert_eq!(ask(TABLE, "includeObject=Object"), table(RowObject::Whole));
        assert_eq!(ask(TABLE, "includeObject=Bad"), Err(400));
        assert!(ask("application/json", "includeObject=Bad").is_ok());
        let protobuf = TABLE.replace("json", "vnd.kubernetes.protobuf");
        assert_eq!(ask(&protobuf, ""), Err(406));
        let both = format!("{protobuf},application/json");
        assert_eq!(ask(&both, ""), Ok(Form::default()));
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
