//! Handler of discovery requests and of the root path; includes content negotiation.

use crate::encoding::representation::{self, Encoding};
use crate::handlers::discovery::{self, DiscoveryRoot as DiscoveryPart};
use crate::registry::served_resource::ResourceRegistry;
use crate::request::http_types::{ApiRequest, ApiResponse};
use crate::request::negotiation::{self, clauses};
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderValue, StatusCode};
use optik_object::{Status, Value};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const AGGREGATED_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A document as one line of JSON.
pub(crate) fn json_line(value: &Value) -> Vec<u8> {
    let mut line = optik_object::to_bytes(value);
    line.push(b'\n');
    line
}

fn json_document(value: &Value) -> ApiResponse {
    ApiResponse::json(StatusCode::OK, json_line(value))
}

/// A discovery document in the media type that the client accepts.
pub(crate) fn negotiated_document(
    request: &ApiRequest,
    value: &Value,
) -> Result<ApiResponse, Status> {
    representation::document_response(value, negotiation::negotiate_document(&request.headers)?)
}

/// `/`: the list of served paths.
pub(crate) fn root_paths(kinds: &ResourceRegistry) -> ApiResponse {
    let mut paths: Vec<String> = [
        "/.well-known/openid-configuration",
        "/api",
        "/apis",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ]
    .map(str::to_owned)
    .to_vec();
    for kind in &kinds.all {
        let (group, version) = (&kind.resource.group, &kind.resource.version);
        if group.is_empty() {
            paths.push(format!("/api/{version}"));
        } else {
            paths.push(format!("/apis/{group}"));
            paths.push(format!("/apis/{group}/{version}"));
        }
    }
    paths.sort();
    paths.dedup();
    json_document(&serde_json::json!({"paths": paths}))
}

pub(crate) fn discovery_root(
    kinds: &ResourceRegistry,
    request: &ApiRequest,
    part: DiscoveryPart,
) -> Result<ApiResponse, Status> {
    let accept = negotiation::accept_header(&request.headers).unwrap_or("*/*");
    for clause in clauses(accept) {
        let Some(encoding) = clause.encoding() else {
            continue;
        };
        match (clause.parameter("as"), clause.parameter("v")) {
            (None, _) => {
                let value = match part {
                    DiscoveryPart::Api => discovery::core_versions(""),
                    DiscoveryPart::Apis => discovery::group_list(kinds),
                };
                return representation::document_response(&value, encoding);
            }
            (Some("APIGroupDiscoveryList"), Some("v2")) if encoding != Encoding::Yaml => {
                let value = discovery::aggregated(kinds, part);
                return aggregated_discovery(request, &value, encoding);
            }
            _ => {}
        }
    }
    Err(Status::not_acceptable(negotiation::TYPES))
}

/// Aggregated discovery with an entity tag, by which clients revalidate.
fn aggregated_discovery(
    request: &ApiRequest,
    value: &Value,
    encoding: Encoding,
) -> Result<ApiResponse, Status> {
    let tag = entity_tag(value);
    let known = request.headers.get(IF_NONE_MATCH);
    let mut response = if known.is_some_and(|known| *known == tag) {
        ApiResponse::empty(StatusCode::NOT_MODIFIED)
    } else {
        let name = HeaderValue::from_static(match encoding {
            Encoding::Protobuf => AGGREGATED_PROTOBUF,
            _ => AGGREGATED,
        });
        representation::document_response(value, encoding)?.with_header(CONTENT_TYPE, name)
    };
    response.headers.insert(ETAG, tag);
    response
        .headers
        .insert(VARY, HeaderValue::from_static("Accept"));
    let public = HeaderValue::from_static("public");
    response.headers.insert(http::header::CACHE_CONTROL, public);
    Ok(response)
}

fn entity_tag(value: &Value) -> HeaderValue {
    use sha2::{Digest, Sha512};
    let digest = Sha512::digest(optik_object::to_bytes(value));
    let hex: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
    HeaderValue::from_str(&format!("\"{hex}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}
