//! Encodes responses that are not objects: errors (`Status`) and non-resource documents.

use crate::encoding::representation::Encoding;
use crate::encoding::serializer::{encode_document, encode_status};
use crate::request::http_types::ApiResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use optik_object::{Status, Tape, Value};

/// An error response in an encoding that the client accepts.
pub(crate) fn error_response(status: &Status, encoding: Encoding) -> ApiResponse {
    let code = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = ApiResponse::json(code, encode_status(encoding, status));
    let media_type = encoding.media_type();
    response.headers.insert(CONTENT_TYPE, media_type);
    if let Some(seconds) = status.retry_after_seconds() {
        let headers = &mut response.headers;
        headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A non-resource document in the given encoding.
pub(crate) fn document_response(value: &Value, encoding: Encoding) -> Result<ApiResponse, Status> {
    let json = optik_object::to_bytes(value);
    let mut tape = Tape::default();
    let view = tape.read(&json);
    let view = view.map_err(|error| Status::internal(&error.to_string()))?;
    let of = |name: &str| value[name].as_str().unwrap_or_default();
    let body = encode_document(encoding, view, of("apiVersion"), of("kind"))?;
    let mut response = ApiResponse::json(StatusCode::OK, body);
    response.headers.insert(CONTENT_TYPE, encoding.media_type());
    Ok(response)
}
