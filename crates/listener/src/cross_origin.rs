//! A port on this machine that asks for no credentials must still tell our user's
//! tools from web pages in our user's browser: those can send requests to it too.

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};
use std::net::IpAddr;

/// Whether a request comes from a page of another site, or through a foreign name
/// that was pointed at this machine.
#[must_use]
pub fn is_cross_origin(uri: &Uri, headers: &HeaderMap) -> bool {
    let named = uri.authority().map(http::uri::Authority::as_str);
    let header = |name| headers.get(name).map(|value| value.to_str());
    let host = match (named, header(HOST)) {
        (Some(host), _) | (None, Some(Ok(host))) => Some(host),
        (None, Some(Err(_))) => return true,
        // Old and simple clients leave it out; browsers never do.
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

/// Strict: whoever writes it in an unusual way wants us to misread it.
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
