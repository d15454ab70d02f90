//! OpenAPI v2 and v3 documents, with the headers that let clients cache them (WIRE §2).

use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use crate::request::http_types::{ApiRequest, ApiResponse};
use crate::request::negotiation::{accept_header, clauses};
use crate::request::query::Query;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use optik_catalog::ApiResource;
use optik_object::{Status, Timestamp, Value};
use optik_openapi::OpenApiKind;
use optik_platform::Clock;
use std::sync::Arc;
use tokio::task::spawn_blocking;

const JSON: &str = "application/json";
/// The media type as clients send it, followed by the media type in the response.
const V2_ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const YEAR_SECONDS: i64 = 365 * 86_400;

impl OpenApiKind for ServedResource {
    fn resource(&self) -> &ApiResource {
        &self.resource
    }

    fn definition(&self) -> Option<Value> {
        let custom = self.custom.as_ref()?;
        Some(custom.source.schema(&self.resource.version))
    }

    fn identity(&self) -> &str {
        let custom = self.custom.as_ref();
        custom.map_or("", |custom| &custom.source.identity)
    }
}

fn each(kinds: &[Arc<ServedResource>]) -> impl Iterator<Item = &ServedResource> + Clone {
    kinds.iter().map(|kind| &**kind)
}

/// `/openapi/v3`
pub(crate) fn v3_index(kinds: &ResourceRegistry) -> ApiResponse {
    let index = optik_openapi::index(each(&kinds.all));
    let mut body = optik_object::to_bytes(&index);
    body.push(b'\n');
    ApiResponse::json(StatusCode::OK, body)
}

/// `/openapi/v3/…`
pub(crate) async fn v3(
    kinds: &ResourceRegistry,
    request: &ApiRequest,
    path: &str,
    clock: &dyn Clock,
) -> Result<ApiResponse, Status> {
    let own = kinds.all.iter().filter(|kind| {
        let resource = &kind.resource;
        optik_openapi::path_of(&resource.group, &resource.version) == path
    });
    let own: Vec<Arc<ServedResource>> = own.map(Arc::clone).collect();
    if own.is_empty() {
        return Ok(ApiResponse::empty(StatusCode::NOT_FOUND));
    }
    if preferred_media_type(&request.headers, &[JSON]).is_none() {
        return Ok(ApiResponse::empty(StatusCode::NOT_ACCEPTABLE));
    }
    let hash = optik_openapi::hash(each(&own));
    let query = Query::parse(&request.query)?;
    let asked = query.get_or_empty("hash");
    if !asked.is_empty() && asked != hash {
        let right = format!("/openapi/v3/{path}?hash={hash}");
        let moved = ApiResponse::empty(StatusCode::MOVED_PERMANENTLY);
        return Ok(with(moved, LOCATION, &right));
    }
    let tag = format!("\"{hash}\"");
    let mut response = if etag_matches(request, &tag) {
        ApiResponse::empty(StatusCode::NOT_MODIFIED)
    } else {
        let path = path.to_owned();
        let text = blocking(move || optik_openapi::v3(each(&own), &path)).await?;
        ApiResponse::json(StatusCode::OK, text.unwrap_or_default())
    };
    response = with(response, ETAG, &tag);
    response = with(response, VARY, "Accept");
    if asked.is_empty() {
        return Ok(response);
    }
    // A URL with the hash may be cached: a changed document has another hash.
    let now = i64::try_from(clock.wall().0 / 1000).unwrap_or(0);
    let expires = http_date(Timestamp::from_seconds(now + YEAR_SECONDS));
    response = with(response, EXPIRES, &expires);
    Ok(with(response, CACHE_CONTROL, "public, immutable"))
}

/// `/openapi/v2`
pub(crate) async fn v2(
    kinds: &ResourceRegistry,
    request: &ApiRequest,
) -> Result<ApiResponse, Status> {
    let Some(form) = preferred_media_type(&request.headers, &[JSON, V2_ASKED, V2_PROTOBUF]) else {
        return Ok(ApiResponse::empty(StatusCode::NOT_ACCEPTABLE));
    };
    let kinds = kinds.all.clone();
    let tag = format!("\"{}\"", optik_openapi::hash(each(&kinds)));
    if etag_matches(request, &tag) {
        let response = ApiResponse::empty(StatusCode::NOT_MODIFIED);
        return Ok(with(response, ETAG, &tag));
    }
    let protobuf = form != JSON;
    let body = blocking(move || {
        let document = optik_openapi::v2(each(&kinds));
        match protobuf {
            true => optik_openapi::to_gnostic(&document),
            false => optik_object::to_bytes(&document),
        }
    })
    .await?;
    let response = ApiResponse::json(StatusCode::OK, body);
    let response = with(
        response,
        CONTENT_TYPE,
        if protobuf { V2_PROTOBUF } else { JSON },
    );
    let response = with(response, ETAG, &tag);
    Ok(with(response, VARY, "Accept"))
}

/// The preferred media type of those offered; the first one if the client accepts any.
fn preferred_media_type<'o>(headers: &HeaderMap, offered: &[&'o str]) -> Option<&'o str> {
    let Some(accept) = accept_header(headers) else {
        return offered.first().copied();
    };
    clauses(accept).iter().find_map(|clause| {
        let any = matches!(clause.media_type, "*/*" | "application/*");
        let found = offered.iter().find(|own| any || **own == clause.media_type);
        found.copied()
    })
}

fn etag_matches(request: &ApiRequest, tag: &str) -> bool {
    let known = request.headers.get(IF_NONE_MATCH);
    known.is_some_and(|known| known.as_bytes() == tag.as_bytes())
}

fn with(response: ApiResponse, name: HeaderName, value: &str) -> ApiResponse {
    match HeaderValue::from_str(value) {
        Ok(value) => response.with_header(name, value),
        Err(_) => response,
    }
}

/// Runs `work` on a blocking thread: documents take milliseconds, which would delay other tasks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let done = spawn_blocking(work).await;
    done.map_err(|_| Status::internal("generating the OpenAPI document failed"))
}

/// Formats an HTTP date: `Sun, 15 Nov 2026 13:56:21 GMT`
fn http_date(time: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let text = time.to_string();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    let day = time.seconds().div_euclid(86_400).rem_euclid(7);
    let day = DAYS[usize::try_from(day).unwrap_or(0)];
    let month = part(5..7).parse::<usize>().unwrap_or(1);
    let month = MONTHS[(month - 1).min(11)];
    let (date, year, clock) = (part(8..10), part(0..4), part(11..19));
    format!("{day}, {date} {month} {year} {clock} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_date_is_imf_fixdate() {
        let time: Timestamp = "2026-11-15T13:56:21Z".parse().unwrap();
        assert_eq!(http_date(time), "Sun, 15 Nov 2026 13:56:21 GMT");
        assert_eq!(
            http_date(Timestamp::default()),
            "Thu, 01 Jan 1970 00:00:00 GMT"
        );
    }
}
