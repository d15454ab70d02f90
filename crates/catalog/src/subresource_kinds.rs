//! Kinds of subresources that only accept POST: `TokenRequest` and `Eviction`.

use crate::resource::ApiResource;
use crate::scale::scale;

/// Returns the kind `TokenRequest`. It is never stored.
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

/// Returns the kind `Eviction`. It is never stored.
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
