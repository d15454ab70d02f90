//! Detection of cross-origin requests, for ports without authentication: web pages in a browser on
//! this machine can send requests to loopback ports too, and must be told apart from the user's own
//! tools.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};
use std::net::IpAddr;

/// Whether a request comes from a page of another origin, or through a foreign host name that
/// resolves to this machine (DNS rebinding).
#[must_use]
pub fn is_cross_origin(uri: &Uri, headers: &HeaderMap) -> bool {
    let named = uri.authority().map(http::uri::Authority::as_str);
    let header = |name| headers.get(name).map(|value| value.to_str());
    let host = match (named, header(HOST)) {
        (Some(host), _) | (None, Some(Ok(host))) => Some(host),
        (None, Some(Err(_))) => return true,
        // Old and simple clients omit it; browsers never do.
        (None, None) => None,
    };
    if host.is_some_and(|host| !is_loopback_host(host)) {
        return true;
    }
    match header(ORIGIN) {
        None => false,
        Some(origin) => {
            origin
                .ok()
                .and_then(|origin| origin.strip_prefix("http://"))
                != host
        }
    }
}

/// Whether the host of a header is a loopback address or `localhost`. Strict: an unusual spelling
/// is rejected, because it is meant to be misread.
fn is_loopback_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
        return false;
    }
    let loopback = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cross_origin_and_rebound_hosts_are_foreign() {
        for (host, origin, foreign) in [
            ("", "", false),
            ("127.0.0.1:8001", "", false),
            ("localhost", "", false),
            ("[::1]:8001", "", false),
            ("127.0.0.1:8001", "http://127.0.0.1:8001", false),
            ("127.0.0.1:8001", "http://127.0.0.1:9", true),
            ("127.0.0.1:8001", "http://example.com", true),
            ("127.0.0.1:8001", "null", true),
            ("example.com:8001", "", true),
            ("example.com", "http://example.com", true),
            ("127.0.0.1.example.com", "", true),
            ("127.0.0.1:80@example.com", "", true),
            ("[::1]example.com", "", true),
            ("[::1", "", true),
            ("localhost:", "", false),
        ] {
            let mut request = http::Request::builder();
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                if !value.is_empty() {
                    request = request.header(name, value);
                }
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(
                is_cross_origin(&head.uri, &head.headers),
                foreign,
                "{host} {origin}"
            );
        }
    }
}
