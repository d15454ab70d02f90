//! What subresources speak that are only posted to.

use crate::resource::ApiResource;
use crate::scale::scale;

/// The kind of a request for a token. There are no such objects: each is an answer.
#[must_use]
pub fn token_request() -> ApiResource {
    ApiResource {
        group: "authentication.k8s.io".into(),
        plural: "tokenrequests".into(),
        singular: "tokenrequest".into(),
        kind: "TokenRequest".into(),
        list_kind: "TokenRequestList".into(),
        ..scale()
    }
}

/// The kind of a request to take a pod away. Nothing is kept of it, either.
#[must_use]
pub fn eviction() -> ApiResource {
    ApiResource {
        group: "policy".into(),
        plural: "evictions".into(),
        singular: "eviction".into(),
        kind: "Eviction".into(),
        list_kind: "EvictionList".into(),
        ..scale()
    }
}
