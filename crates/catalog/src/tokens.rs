//! What the subresource `token` of a service account speaks.

use crate::resource::Resource;
use crate::scaling::scale;

/// The kind of a request for a token. There are no such objects: each is an answer.
#[must_use]
pub fn token_request() -> Resource {
    Resource {
        group: "authentication.k8s.io".into(),
        plural: "tokenrequests".into(),
        singular: "tokenrequest".into(),
        kind: "TokenRequest".into(),
        list_kind: "TokenRequestList".into(),
        ..scale()
    }
}
