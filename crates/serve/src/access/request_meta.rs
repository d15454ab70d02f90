//! The path, query and [`RequestInfo`] of a request.

use http::Method;
use optik_auth::RequestInfo;
use std::sync::Arc;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestMeta<'a> {
    pub(crate) method: &'a Method,
    /// The path as sent.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    /// The parsed path: all decisions are made from it.
    pub(crate) info: &'a Arc<RequestInfo>,
}

/// Subresources whose responses are streams.
const STREAMING_SUBRESOURCES: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
const PPROF_PREFIX: &str = "/debug/pprof/";

/// Whether a request has no deadline: watches and other streams.
pub(crate) fn is_long_running(asked: RequestMeta<'_>) -> bool {
    let info = asked.info;
    match (info.non_resource_path(), info.resource()) {
        (Some(path), _) => path.starts_with(PPROF_PREFIX),
        (_, of) => {
            let streams = of.is_some_and(|of| STREAMING_SUBRESOURCES.contains(&of.subresource));
            info.is_watch() || streams
        }
    }
}

/// Parses a URL for a test.
#[cfg(test)]
pub(crate) fn with_request_meta<T>(
    method: &Method,
    url: &str,
    then: impl FnOnce(RequestMeta<'_>) -> T,
) -> T {
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let info = &Arc::new(RequestInfo::new(method.as_str(), path, query));
    then(RequestMeta {
        method,
        path,
        query,
        info,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_and_streaming_requests_are_long_running() {
        for (url, expected) in [
            ("/api/v1/pods?watch=true", true),
            ("/api/v1/pods?watch", true),
            ("/api/v1/pods?watch=", true),
            ("/api/v1/pods?watch=yes", true),
            ("/api/v1/pods?watch=1&limit=3", true),
            ("/api/v1/pods?watch=0", false),
            ("/api/v1/pods?watch=False", false),
            ("/api/v1/pods?unwatched=1", false),
            ("/api/v1/pods", false),
            ("/api/v1/watch/pods", true),
            ("/api/v1/w%61tch/pods", true),
            ("/apis/example.com/v1/watch/namespaces/a/widgets/b", true),
            ("/api/v1/namespaces/watch/pods", false),
            ("/api/v1/namespaces/a/pods/b?watch=1", false),
            ("/api/v1/namespaces/a/pods/b/log?follow=true", true),
            ("/api/v1/namespaces/a/pods/log", false),
            ("/api/v1/namespaces/a/pods/b/exec", true),
            ("/debug/pprof/profile", true),
            ("/healthz?watch=1", false),
            ("/apis?watch=1", false),
        ] {
            let found = with_request_meta(&Method::GET, url, is_long_running);
            assert_eq!(found, expected, "{url}");
        }
    }
}
