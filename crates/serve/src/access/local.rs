//! The port on this machine that asks for no credentials must still tell our user's
//! tools from web pages in our user's browser: those can send requests to it too.

use http::header::{HOST, ORIGIN};
use http::request::Parts;
use std::net::IpAddr;

/// Whether a request comes from a page of another site, or through a foreign name
/// that was pointed at this machine.
pub(crate) fn is_foreign(head: &Parts) -> bool {
    let named = head.uri.authority().map(http::uri::Authority::as_str);
    let header = |name| head.headers.get(name).map(|value| value.to_str());
    let host = match (named, header(HOST)) {
        (Some(host), _) | (None, Some(Ok(host))) => Some(host),
        (None, Some(Err(_))) => return true,
        // Old and simple clients leave it out; browsers never do.
        (None, None) => None,
    };
    if host.is_some_and(|host| !is_here(host)) {
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

fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let loopback = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    loopback || name.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_of_other_sites_stay_out() {
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
        ] {
            let mut request = http::Request::builder();
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                if !value.is_empty() {
                    request = request.header(name, value);
                }
            }
            let (head, ()) = request.body(()).unwrap().into_parts();
            assert_eq!(is_foreign(&head), foreign, "{host} {origin}");
        }
    }
}
