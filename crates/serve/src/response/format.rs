//! The response format: indentation, compression and streaming, as negotiated with the request
//! headers and query.

use super::body::BodyContent;
use super::body_stream::BodyStream;
use super::indent::Indenter;
use crate::access::{RequestMeta, is_long_running};
use crate::query;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, USER_AGENT, VARY,
};
use http::{HeaderMap, HeaderValue};
use optik_apiserver::ApiResponse;

/// Smaller bodies are not worth compressing.
const GZIP_THRESHOLD_BYTES: usize = 128 * 1024;
/// A whole body is indented and compressed in steps of this size, so that other tasks get a turn.
const STEP_BYTES: usize = 64 * 1024;
/// User agents of interactive programs, which get indented JSON.
const INTERACTIVE_USER_AGENTS: [&[u8]; 3] = [b"curl", b"Wget", b"Mozilla/5.0"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseFormat {
    /// A watch or another long-running response: sent as it is produced, until the server stops.
    pub(crate) long_running: bool,
    pretty: bool,
    gzip: bool,
}

impl ResponseFormat {
    pub(crate) fn from_request(asked: RequestMeta<'_>, headers: &HeaderMap) -> Self {
        let long_running = is_long_running(asked);
        // The OpenAPI documents are megabytes, and read by programs.
        let pretty = !long_running
            && !asked.path.starts_with("/openapi/")
            && wants_pretty(asked.query, headers);
        Self {
            long_running,
            pretty,
            gzip: !long_running && accepts_gzip(headers),
        }
    }

    /// Formats a response. A long-running response ends when `end` completes. Waits for the
    /// beginning of a streamed body if necessary, because its length decides about headers.
    pub(crate) async fn apply(
        self,
        response: ApiResponse,
        end: impl FnOnce() -> BoxFuture<'static, ()>,
    ) -> http::Response<BodyContent> {
        let mut headers = response.headers;
        let pretty = self.pretty && is_json(&headers);
        let gzip = self.gzip && !headers.contains_key(CONTENT_ENCODING);
        let content = match response.body {
            optik_apiserver::ResponseBody::Whole(bytes) => encode_whole(bytes, pretty, gzip),
            optik_apiserver::ResponseBody::Stream(source) => {
                let pieces = BodyStream::new(source);
                if self.long_running {
                    let pieces = pieces.until(end());
                    EncodedBody::Plain(BodyContent::Stream(Box::new(pieces)))
                } else {
                    encode_stream(pieces, pretty, gzip).await
                }
            }
        };
        let content = match content {
            EncodedBody::Plain(content) => content,
            EncodedBody::Gzip(pieces) => {
                headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
                BodyContent::Stream(Box::new(pieces.compressed()))
            }
        };
        if !headers.contains_key(CACHE_CONTROL) {
            let value = HeaderValue::from_static("no-cache, private");
            headers.insert(CACHE_CONTROL, value);
        }
        let mut formed = http::Response::new(content);
        *formed.status_mut() = response.status;
        *formed.headers_mut() = headers;
        formed
    }
}

enum EncodedBody {
    Plain(BodyContent),
    Gzip(BodyStream),
}

fn encode_whole(bytes: Bytes, pretty: bool, gzip: bool) -> EncodedBody {
    if pretty && bytes.len() > STEP_BYTES {
        let pieces = split_into_steps(bytes).indented();
        return match gzip {
            true => EncodedBody::Gzip(pieces),
            false => EncodedBody::Plain(BodyContent::Stream(Box::new(pieces))),
        };
    }
    let bytes = if pretty {
        let mut out = Vec::with_capacity(bytes.len() * 2);
        Indenter::default().push(&bytes, &mut out);
        out.into()
    } else {
        bytes
    };
    match gzip && bytes.len() > GZIP_THRESHOLD_BYTES {
        true => EncodedBody::Gzip(split_into_steps(bytes)),
        false => EncodedBody::Plain(BodyContent::Whole(bytes)),
    }
}

fn split_into_steps(bytes: Bytes) -> BodyStream {
    let steps = (0..bytes.len()).step_by(STEP_BYTES);
    let steps = steps.map(move |at| bytes.slice(at..bytes.len().min(at + STEP_BYTES)).into());
    BodyStream::new(stream::iter(steps).boxed())
}

async fn encode_stream(pieces: BodyStream, pretty: bool, gzip: bool) -> EncodedBody {
    let pieces = if pretty { pieces.indented() } else { pieces };
    if !gzip {
        return EncodedBody::Plain(BodyContent::Stream(Box::new(pieces)));
    }
    match pieces.buffer_more_than(GZIP_THRESHOLD_BYTES).await {
        Ok(pieces) => EncodedBody::Gzip(pieces),
        Err(whole) => EncodedBody::Plain(BodyContent::Whole(whole)),
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    headers
        .get(CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"))
}

fn wants_pretty(query: &str, headers: &HeaderMap) -> bool {
    let asked = query::value(query, "pretty").filter(|value| !value.is_empty());
    if let Some(value) = asked {
        return matches!(&*value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers
        .get(USER_AGENT)
        .map_or(&b""[..], HeaderValue::as_bytes);
    if INTERACTIVE_USER_AGENTS
        .iter()
        .any(|program| agent.starts_with(program))
    {
        return true;
    }
    let accept = headers.get(ACCEPT).map_or(&b""[..], HeaderValue::as_bytes);
    let mut parameters = accept.split(|byte| matches!(byte, b';' | b','));
    parameters.any(|parameter| parameter.trim_ascii() == b"pretty=1")
}

fn accepts_gzip(headers: &HeaderMap) -> bool {
    headers.get(ACCEPT_ENCODING).is_some_and(|value| {
        let mut listed = value.as_bytes().split(|byte| *byte == b',');
        listed.any(|encoding| encoding.trim_ascii() == b"gzip")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn form(url: &str, header: &[(http::HeaderName, &'static str)]) -> ResponseFormat {
        let fixed = |(name, value): &(http::HeaderName, &'static str)| {
            (name.clone(), HeaderValue::from_static(value))
        };
        let headers = header.iter().map(fixed).collect();
        crate::access::with_request_meta(&Method::GET, url, |asked| {
            ResponseFormat::from_request(asked, &headers)
        })
    }

    #[test]
    fn json_is_indented_for_interactive_clients() {
        for (url, agent, accept, pretty) in [
            ("/api", "kubectl/v1.36", "application/json", false),
            ("/api", "curl/8.5.0", "*/*", true),
            ("/api", "Wget/1.21", "*/*", true),
            ("/api", "Mozilla/5.0 (X11)", "*/*", true),
            ("/api", "Mozilla/4.0", "*/*", false),
            ("/api?pretty=false", "curl/8.5.0", "*/*", false),
            ("/api?pretty=no", "curl/8.5.0", "*/*", false),
            ("/api?pretty=", "curl/8.5.0", "*/*", true),
            ("/api?pretty=true", "x", "*/*", true),
            ("/api?pretty=1", "x", "*/*", true),
            ("/api", "x", "application/json; pretty=1", true),
            ("/openapi/v2", "curl/8.5.0", "*/*", false),
            ("/api/v1/pods?watch=1&pretty=1", "curl/8.5.0", "*/*", false),
        ] {
            let form = form(url, &[(USER_AGENT, agent), (ACCEPT, accept)]);
            assert_eq!(form.pretty, pretty, "{url} {agent} {accept}");
        }
    }

    #[test]
    fn gzip_needs_a_plain_entry_in_accept_encoding() {
        for (url, value, gzip) in [
            ("/api", "gzip", true),
            ("/api", "deflate, gzip , br", true),
            ("/api", "gzip;q=0", false),
            ("/api", "identity", false),
            ("/api/v1/pods?watch", "gzip", false),
        ] {
            let form = form(url, &[(ACCEPT_ENCODING, value)]);
            assert_eq!(form.gzip, gzip, "{url} {value}");
        }
        assert!(!form("/api", &[]).gzip);
    }
}
