//! Which requests are long: how much there is to decode, to change, to check and to encode.

use super::Shared;
use crate::exchange::Request;
use crate::route::Route;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use memchr::memmem;
use optik_access::{RequestInfo, Target};
use optik_catalog::Verb;

/// What is longer takes about a millisecond.
const LONG_BYTES: usize = 32 * 1024;
/// What a JSON patch may add by copying. See `optik_patch`.
const COPIES_BYTES: usize = 3 << 20;
/// What a document about the API is made from.
const API_DOCUMENT_BYTES: usize = 1 << 20;

impl Shared {
    /// How long a request is with what it is about; `None` if that is not long.
    pub(super) fn long(&self, request: &Request) -> Option<usize> {
        let bytes = request.body.len() + copies(request) + self.subject_bytes(request);
        (bytes > LONG_BYTES).then_some(bytes)
    }

    fn subject_bytes(&self, request: &Request) -> usize {
        match &*request.info {
            RequestInfo::NonResource(of) => match Route::of(of) {
                Route::OpenApiV2 | Route::OpenApiV3(_) => API_DOCUMENT_BYTES,
                _ => 0,
            },
            // Stored bytes are sent as they are.
            RequestInfo::Resource(of) if of.is(Verb::Get) && is_plain(&request.headers) => 0,
            RequestInfo::Resource(of) => self.stored_bytes(&of.target),
        }
    }

    fn stored_bytes(&self, target: &Target) -> usize {
        let Some(name) = &target.name else {
            return 0;
        };
        let kinds = self.kinds.current();
        let kind = kinds.find(&target.group, &target.version, &target.plural);
        let Some(kind) = kind.filter(|kind| kind.is_kept()) else {
            return 0;
        };
        let key = kind.key(target.namespace.as_deref(), name);
        let state = self.store.snapshot();
        let stored = state.get(key.as_bytes());
        stored.map_or(0, |stored| stored.value().len())
    }
}

/// Whether the client takes what is stored as it is.
fn is_plain(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).map(http::HeaderValue::as_bytes);
    matches!(accept, None | Some(b"" | b"*/*" | b"application/json"))
}

/// A short patch makes much of little by copying what it has copied.
fn copies(request: &Request) -> usize {
    match &*request.info {
        RequestInfo::Resource(of) if of.is(Verb::Patch) => {}
        _ => return 0,
    }
    let media_type = request.headers.get(CONTENT_TYPE);
    let is_json = media_type.is_some_and(|it| it.as_bytes().starts_with(b"application/json-patch"));
    // The word may be written with escapes.
    let may_copy = |word: &[u8]| memmem::find(&request.body, word).is_some();
    match is_json && (may_copy(b"copy") || may_copy(b"\\u")) {
        true => COPIES_BYTES,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServer;
    use http::{HeaderValue, Method};
    use optik_store::{Options, Store};

    fn request(method: Method, path: &str, body: String) -> Request {
        Request {
            user: optik_access::User::admin().into(),
            body: body.into(),
            ..Request::new(&method, path)
        }
    }

    fn with(mut request: Request, name: http::HeaderName, value: &'static str) -> Request {
        request
            .headers
            .insert(name, HeaderValue::from_static(value));
        request
    }

    /// Short requests are not handed over; what is about something long is.
    #[tokio::test]
    async fn what_is_long() {
        let api = ApiServer::new(Store::open(Options::ephemeral()).unwrap());
        api.bootstrap().await.unwrap();
        let place = "/api/v1/namespaces/default/configmaps";
        let object = |name: &str, bytes: usize| {
            let data = "x".repeat(bytes);
            format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"{data}"}}}}"#)
        };
        for (name, bytes) in [("short", 1), ("long", LONG_BYTES)] {
            let made = api.handle(request(Method::POST, place, object(name, bytes)));
            assert_eq!(made.await.status, 201);
        }
        let patch = |body: &str| {
            let request = request(Method::PATCH, &format!("{place}/short"), body.into());
            with(request, CONTENT_TYPE, "application/json-patch+json")
        };
        let one =
            |method: Method, name: &str| request(method, &format!("{place}/{name}"), String::new());
        let yaml = |request| with(request, ACCEPT, "application/yaml");
        for (request, expected) in [
            (request(Method::POST, place, object("a", 100)), false),
            (request(Method::POST, place, object("a", LONG_BYTES)), true),
            (one(Method::PATCH, "short"), false),
            (one(Method::PATCH, "long"), true),
            (one(Method::PUT, "long"), true),
            (one(Method::DELETE, "long"), true),
            (one(Method::DELETE, "nobody"), false),
            (one(Method::GET, "long"), false),
            (yaml(one(Method::GET, "short")), false),
            (yaml(one(Method::GET, "long")), true),
            (request(Method::GET, "/openapi/v2", String::new()), true),
            (patch(r#"[{"op":"test"}]"#), false),
            (patch(r#"[{"op":"copy"}]"#), true),
            (patch(r#"[{"op":"c\u006fpy"}]"#), true),
        ] {
            let told = format!("{:?}", request.info);
            assert_eq!(api.shared.long(&request).is_some(), expected, "{told}");
        }
    }
}
