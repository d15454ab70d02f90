//! What a request is about, read off its method and URL: enough to say who may not do
//! what, and whether it may take for ever.

use crate::query;
use http::Method;
use optik_object::{Attempt, ResourceName};

/// A request as far as its URL says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
}

/// Subresources that are streams.
const STREAMING: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];
const PROFILES: &str = "/debug/pprof/";

/// Requests without a deadline: watches and other streams.
pub(crate) fn is_long_running(asked: Asked<'_>) -> bool {
    let Asked { path, query, .. } = asked;
    // Nearly every request is settled here, without taking its path apart.
    let streams = || STREAMING.iter().any(|word| path.contains(word));
    if !query.contains("watch") && !path.contains("/watch/") && !streams() {
        return path.starts_with(PROFILES);
    }
    attempt(asked, "")
        .is_some_and(|attempt| attempt.verb == "watch" || STREAMING.contains(&attempt.subresource))
}

/// What a request for resources does; `None` for any other path.
pub(crate) fn attempt<'a>(asked: Asked<'a>, user: &'a str) -> Option<Attempt<'a>> {
    let mut parts = asked.path.trim_matches('/').split('/');
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let _version = parts.next()?;
    let mut parts = parts.peekable();
    let forced = parts.next_if_eq(&"watch").is_some();
    let place = Place::read(&mut parts)?;
    let verb = if forced {
        "watch"
    } else {
        verb(asked, place.name.is_empty())
    };
    Some(Attempt {
        user,
        verb,
        resource: ResourceName {
            group,
            plural: place.plural,
            kind: "",
        },
        subresource: place.subresource,
        namespace: place.namespace,
        name: place.name,
        reason: "",
    })
}

struct Place<'a> {
    namespace: &'a str,
    plural: &'a str,
    name: &'a str,
    subresource: &'a str,
}

impl<'a> Place<'a> {
    /// `namespaces/{ns}/{resource}/…`, or `{resource}/…`. A namespace itself counts as
    /// being inside itself.
    fn read(parts: &mut impl Iterator<Item = &'a str>) -> Option<Self> {
        let plural = parts.next().filter(|word| !word.is_empty())?;
        let first = parts.next().unwrap_or_default();
        let second = parts.next().unwrap_or_default();
        if plural != "namespaces" {
            return Some(Self {
                namespace: "",
                plural,
                name: first,
                subresource: second,
            });
        }
        if matches!(second, "" | "status" | "finalize") {
            return Some(Self {
                namespace: first,
                plural,
                name: first,
                subresource: second,
            });
        }
        Some(Self {
            namespace: first,
            plural: second,
            name: parts.next().unwrap_or_default(),
            subresource: parts.next().unwrap_or_default(),
        })
    }
}

fn verb(asked: Asked<'_>, whole_collection: bool) -> &'static str {
    match (asked.method.as_str(), whole_collection) {
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "deletecollection",
        ("DELETE", false) => "delete",
        ("GET" | "HEAD", false) => "get",
        ("GET" | "HEAD", true) if wants_watch(asked.query) => "watch",
        ("GET" | "HEAD", true) => "list",
        _ => "",
    }
}

/// `watch` is on unless it says no.
fn wants_watch(query: &str) -> bool {
    query::value(query, "watch")
        .is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked<'a>(method: &'a Method, url: &'a str) -> Asked<'a> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        Asked {
            method,
            path,
            query,
        }
    }

    #[test]
    fn long_running() {
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
            assert_eq!(is_long_running(asked(&Method::GET, url)), expected, "{url}");
        }
    }

    #[test]
    fn attempts() {
        for (method, url, expected) in [
            (Method::GET, "/api", None),
            (Method::GET, "/api/v1", None),
            (Method::GET, "/api/v1/", None),
            (Method::GET, "/apis/apps/v1", None),
            (Method::GET, "/version", None),
            (Method::GET, "/api/v1/pods", Some("list|pods|||")),
            (Method::GET, "/api/v1/pods?watch=1", Some("watch|pods|||")),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/n/deployments/",
                Some("deletecollection|deployments.apps||n|"),
            ),
            (
                Method::PATCH,
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                Some("patch|deployments.apps|scale|n|d"),
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/n/finalize",
                Some("update|namespaces|finalize|n|n"),
            ),
            (
                Method::GET,
                "/api/v1/namespaces/n",
                Some("get|namespaces||n|n"),
            ),
            (Method::POST, "/api/v1/nodes", Some("create|nodes|||")),
        ] {
            let found = attempt(asked(&method, url), "").map(|attempt| {
                let resource = attempt.resource.qualified();
                let Attempt {
                    verb,
                    subresource,
                    namespace,
                    name,
                    ..
                } = attempt;
                format!("{verb}|{resource}|{subresource}|{namespace}|{name}")
            });
            assert_eq!(found.as_deref(), expected, "{method} {url}");
        }
    }
}
