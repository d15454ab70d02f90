//! Fuzz target: any path is parsed safely: no name reaches a store key as more than one segment,
//! and no writing method becomes a read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use optik_apiserver::Route;
use optik_auth::{RequestInfo, RequestVerb, ResourceRequestInfo, RouteMatch};

fuzz_target!(|path: &str| {
    for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        match RequestInfo::new(method, path, "") {
            RequestInfo::NonResource(request) => drop(Route::from_request(&request)),
            RequestInfo::Resource(request) => check(method, path, request),
        }
    }
});

fn check(method: &str, path: &str, request: ResourceRequestInfo) {
    let reads = matches!(method, "GET" | "HEAD");
    if let RequestVerb::Api(verb) = request.verb {
        assert_eq!(
            matches!(verb.as_str(), "get" | "list" | "watch"),
            reads,
            "{path:?}"
        );
    }
    let target = request.target;
    // A namespace may be left out; that is all of them, and no part of a key.
    let namespace = target.namespace.filter(|namespace| !namespace.is_empty());
    let parts = [
        Some(target.plural),
        namespace,
        target.name,
        target.subresource,
    ];
    // The authorizer also parses paths with empty names, which are not served.
    let is_served = target.route == RouteMatch::Matched;
    for part in parts.into_iter().flatten() {
        assert!(!part.contains('/'), "{path:?}");
        assert!(!(is_served && part.is_empty()), "{path:?}");
    }
}
