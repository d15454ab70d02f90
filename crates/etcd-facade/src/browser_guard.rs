//! Routing of requests, which keeps web browsers away from the gRPC services.
//!
//! The port has no passwords, so a web page in a browser on this machine must not reach the store.
//! A browser uses HTTP/1.1 here, sends no gRPC media type without a preflight request, and names
//! the host and the origin in its headers: each of these alone keeps pages away from the services.

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use optik_listener::is_cross_origin;
use tonic::Status;

/// The route of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestRoute {
    /// The gRPC services.
    Grpc,
    /// The HTTP endpoints, which change nothing.
    Http,
    Forbidden,
}

pub(crate) fn classify<B>(request: &Request<B>) -> RequestRoute {
    if is_cross_origin(request.uri(), request.headers()) {
        return RequestRoute::Forbidden;
    }
    match speaks_grpc(request) {
        true => RequestRoute::Grpc,
        false => RequestRoute::Http,
    }
}

fn speaks_grpc<B>(request: &Request<B>) -> bool {
    request.version() == Version::HTTP_2 && is_grpc(request.headers())
}

/// Whether the content type is `application/grpc`, with any format or parameters; not
/// `application/grpc-web`, which is for browsers.
fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], |kind| kind.as_bytes());
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// The rejection, as a gRPC status or as plain HTTP.
pub(crate) fn forbidden_response<B>(request: &Request<B>) -> Response<Body> {
    let text = "requests from web browsers are not allowed on this port";
    if speaks_grpc(request) {
        return Status::permission_denied(text).into_http();
    }
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::FORBIDDEN;
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::{HOST, ORIGIN};

    #[test]
    fn browser_requests_never_reach_grpc_services() {
        let grpc = "application/grpc";
        for (version, kind, host, origin, door) in [
            (
                Version::HTTP_2,
                grpc,
                "127.0.0.1:2379",
                "",
                RequestRoute::Grpc,
            ),
            (
                Version::HTTP_2,
                "application/grpc+proto",
                "localhost",
                "",
                RequestRoute::Grpc,
            ),
            (
                Version::HTTP_2,
                "application/grpc; x",
                "[::1]:2379",
                "",
                RequestRoute::Grpc,
            ),
            (Version::HTTP_2, grpc, "", "", RequestRoute::Grpc),
            (
                Version::HTTP_2,
                "application/grpc-web",
                "localhost",
                "",
                RequestRoute::Http,
            ),
            (
                Version::HTTP_2,
                "application/grpc-web+proto",
                "localhost",
                "",
                RequestRoute::Http,
            ),
            (
                Version::HTTP_2,
                "text/plain",
                "localhost",
                "",
                RequestRoute::Http,
            ),
            (Version::HTTP_2, "", "localhost", "", RequestRoute::Http),
            (Version::HTTP_11, grpc, "localhost", "", RequestRoute::Http),
            (Version::HTTP_11, "", "localhost", "", RequestRoute::Http),
            (
                Version::HTTP_2,
                grpc,
                "evil.example:2379",
                "",
                RequestRoute::Forbidden,
            ),
            (
                Version::HTTP_2,
                grpc,
                "localhost",
                "https://evil.example",
                RequestRoute::Forbidden,
            ),
            (
                Version::HTTP_11,
                "",
                "evil.example",
                "",
                RequestRoute::Forbidden,
            ),
            (
                Version::HTTP_11,
                "",
                "localhost",
                "null",
                RequestRoute::Forbidden,
            ),
        ] {
            let mut request = Request::builder().version(version);
            for (name, value) in [(CONTENT_TYPE, kind), (HOST, host), (ORIGIN, origin)] {
                if !value.is_empty() {
                    request = request.header(name, value);
                }
            }
            let request = request.body(()).unwrap();
            assert_eq!(
                classify(&request),
                door,
                "{version:?} {kind} {host} {origin}"
            );
        }
    }
}
