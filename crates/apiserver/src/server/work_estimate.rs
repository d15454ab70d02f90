//! Work estimate: decides which requests are large enough for the compute pool, by what is to be
//! decoded, changed, validated and encoded.
//!
//! The weight is in bytes of text: a parsed tree takes about ten times as much. Text with many
//! short values weighs more than its length.

use crate::admission::policies::PolicySet;
use crate::registry::served_resource::ServedResource;
use crate::request::http_types::ApiRequest;
use crate::request::route::Route;
use crate::server::ApiServerInner;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use memchr::{memchr_iter, memmem};
use optik_auth::{RequestInfo, ResourcePath};
use optik_catalog::{SpecialKind, Verb};

/// Requests of a higher weight take more than about a millisecond.
const OFFLOAD_WEIGHT_MIN: usize = 64 * 1024;
/// Memory of a map, in bytes of text, however few members it has.
const MAP_WEIGHT: usize = 64;
/// The weight of a byte of protobuf or YAML: their maps cannot be counted.
const PROTOBUF_WEIGHT: usize = 4;
const YAML_WEIGHT: usize = 8;
/// Evaluating CEL expressions may take long, however short they are.
const EXPRESSIONS_WEIGHT: usize = OFFLOAD_WEIGHT_MIN + 1;
/// What a JSON patch may add by copying. See `optik_patch`.
const COPIES_WEIGHT: usize = 3 << 20;
/// The weight of an API document's source: one document at a time is built for a user.
const API_DOCUMENT_WEIGHT: usize = 4 << 20;

impl ApiServerInner {
    /// The weight of a request with the objects it is about; `None` if it is not offloaded.
    pub(super) fn offload_weight(&self, request: &ApiRequest) -> Option<usize> {
        let weight =
            body_weight(request) + json_patch_copies_weight(request) + self.request_weight(request);
        (weight > OFFLOAD_WEIGHT_MIN).then_some(weight)
    }

    fn request_weight(&self, request: &ApiRequest) -> usize {
        match &*request.info {
            RequestInfo::NonResource(of) => match Route::from_request(of) {
                Route::OpenApiV2 | Route::OpenApiV3(_) => API_DOCUMENT_WEIGHT,
                _ => 0,
            },
            // Stored bytes are sent as they are.
            RequestInfo::Resource(of)
                if of.has_verb(Verb::Get) && accepts_stored_form(&request.headers) =>
            {
                0
            }
            RequestInfo::Resource(of) => {
                let kinds = self.registry.current();
                let ResourcePath {
                    group,
                    version,
                    plural,
                    ..
                } = &of.target;
                let kind = kinds.find(group, version, plural);
                let Some(kind) = kind.filter(|kind| kind.is_stored()) else {
                    return 0;
                };
                let expressions = match request.info.is_read() {
                    true => 0,
                    false => self.expressions_weight(kind),
                };
                expressions + self.stored_weight(kind, &of.target)
            }
        }
    }

    /// The weight of CEL expressions: those of CRDs and policies are compiled, those of the kind
    /// and of policies are evaluated on objects.
    fn expressions_weight(&self, kind: &ServedResource) -> usize {
        let own = kind
            .custom
            .as_ref()
            .is_some_and(|custom| custom.version().has_costly_rules());
        let hook = kind.resource.strategy_options.special_kind;
        let compiles = matches!(
            hook,
            SpecialKind::CustomResourceDefinition | SpecialKind::Policies | SpecialKind::Webhooks
        );
        let concerns = |set: &PolicySet| set.may_match(kind).then_some(());
        match own || compiles || self.policies.with(concerns).is_some() {
            true => EXPRESSIONS_WEIGHT,
            false => 0,
        }
    }

    fn stored_weight(&self, kind: &ServedResource, target: &ResourcePath) -> usize {
        let Some(name) = &target.name else {
            return 0;
        };
        let key = kind.key(target.namespace.as_deref(), name);
        let state = self.store.snapshot();
        let stored = state.get(key.as_bytes());
        stored.map_or(0, |stored| json_weight(stored.value()))
    }
}

fn body_weight(request: &ApiRequest) -> usize {
    let media_type = request.headers.get(CONTENT_TYPE);
    let media_type = media_type.map_or(&b""[..], http::HeaderValue::as_bytes);
    let is = |part: &str| memmem::find(media_type, part.as_bytes()).is_some();
    if is("protobuf") {
        return request.body.len() * PROTOBUF_WEIGHT;
    }
    // An apply is YAML by its media type, but most clients send JSON.
    if is("yaml") && !request.body.trim_ascii_start().starts_with(b"{") {
        return request.body.len() * YAML_WEIGHT;
    }
    json_weight(&request.body)
}

fn json_weight(text: &[u8]) -> usize {
    text.len() + memchr_iter(b'{', text).count() * MAP_WEIGHT
}

/// Whether the client accepts the stored form.
fn accepts_stored_form(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).map(http::HeaderValue::as_bytes);
    matches!(accept, None | Some(b"" | b"*/*" | b"application/json"))
}

/// A short JSON patch can grow a document by repeated copies.
fn json_patch_copies_weight(request: &ApiRequest) -> usize {
    match &*request.info {
        RequestInfo::Resource(of) if of.has_verb(Verb::Patch) => {}
        _ => return 0,
    }
    let media_type = request.headers.get(CONTENT_TYPE);
    let is_json = media_type.is_some_and(|it| it.as_bytes().starts_with(b"application/json-patch"));
    // The word may be written with escapes.
    let may_copy = |word: &[u8]| memmem::find(&request.body, word).is_some();
    match is_json && (may_copy(b"copy") || may_copy(b"\\u")) {
        true => COPIES_WEIGHT,
        false => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ApiServer;
    use http::{HeaderValue, Method};
    use optik_store::{Options, Store};

    fn request(method: &Method, path: &str, body: String) -> ApiRequest {
        ApiRequest {
            user: optik_auth::User::admin().into(),
            body: body.into(),
            ..ApiRequest::new(method, path)
        }
    }

    fn with(mut request: ApiRequest, name: http::HeaderName, value: &'static str) -> ApiRequest {
        request
            .headers
            .insert(name, HeaderValue::from_static(value));
        request
    }

    /// Small requests are not offloaded unless they are about large objects.
    #[tokio::test]
    async fn large_requests_and_objects_are_offloaded() {
        let api = ApiServer::new(Store::open(Options::ephemeral()).unwrap());
        api.bootstrap().await.unwrap();
        let place = "/api/v1/namespaces/default/configmaps";
        let object = |name: &str, bytes: usize| {
            let data = "x".repeat(bytes);
            format!(r#"{{"metadata":{{"name":"{name}"}},"data":{{"k":"{data}"}}}}"#)
        };
        for (name, bytes) in [("short", 1), ("long", OFFLOAD_WEIGHT_MIN)] {
            let made = api.handle(request(&Method::POST, place, object(name, bytes)));
            assert_eq!(made.await.status, 201);
        }
        let patch = |body: &str| {
            let request = request(&Method::PATCH, &format!("{place}/short"), body.into());
            with(request, CONTENT_TYPE, "application/json-patch+json")
        };
        let one = |method: Method, name: &str| {
            request(&method, &format!("{place}/{name}"), String::new())
        };
        let many_maps = |count: usize| format!(r#"{{"x":[{}{{}}]}}"#, "{},".repeat(count));
        let protobuf = |request| with(request, CONTENT_TYPE, "application/vnd.kubernetes.protobuf");
        let yaml_body = |request| with(request, CONTENT_TYPE, "application/yaml");
        let yaml = |request| with(request, ACCEPT, "application/yaml");
        for (request, expected) in [
            (request(&Method::POST, place, object("a", 100)), false),
            (
                request(&Method::POST, place, object("a", OFFLOAD_WEIGHT_MIN)),
                true,
            ),
            (
                request(&Method::POST, place, object("a", OFFLOAD_WEIGHT_MIN / 2)),
                false,
            ),
            (
                request(
                    &Method::POST,
                    place,
                    many_maps(OFFLOAD_WEIGHT_MIN / MAP_WEIGHT),
                ),
                true,
            ),
            (
                protobuf(request(
                    &Method::POST,
                    place,
                    "x".repeat(OFFLOAD_WEIGHT_MIN / 2),
                )),
                true,
            ),
            (
                yaml_body(request(
                    &Method::POST,
                    place,
                    "x".repeat(OFFLOAD_WEIGHT_MIN / 4),
                )),
                true,
            ),
            (one(Method::PATCH, "short"), false),
            (one(Method::PATCH, "long"), true),
            (one(Method::PUT, "long"), true),
            (one(Method::DELETE, "long"), true),
            (one(Method::DELETE, "nobody"), false),
            (one(Method::GET, "long"), false),
            (yaml(one(Method::GET, "short")), false),
            (yaml(one(Method::GET, "long")), true),
            (request(&Method::GET, "/openapi/v2", String::new()), true),
            (patch(r#"[{"op":"test"}]"#), false),
            (patch(r#"[{"op":"copy"}]"#), true),
            (patch(r#"[{"op":"c\u006fpy"}]"#), true),
        ] {
            let told = format!("{:?}", request.info);
            assert_eq!(
                api.shared.offload_weight(&request).is_some(),
                expected,
                "{told}"
            );
        }
    }

    /// CEL expressions may take long however short they and the objects are.
    #[tokio::test]
    async fn requests_that_evaluate_cel_are_offloaded() {
        let api = ApiServer::new(Store::open(Options::ephemeral()).unwrap());
        api.bootstrap().await.unwrap();
        let place = "/api/v1/namespaces/default/configmaps";
        let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let bindings = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let post = |path: &str, body: &str| request(&Method::POST, path, body.to_owned());
        let is_long = |request: &ApiRequest| api.shared.offload_weight(request).is_some();
        assert!(!is_long(&post(place, "{}")));
        for path in [policies, definitions] {
            assert!(is_long(&post(path, "{}")), "{path}");
            assert!(
                !is_long(&request(&Method::GET, path, String::new())),
                "{path}"
            );
        }
        let policy = r#"{"metadata":{"name":"p"},"spec":{"validations":[{"expression":"true"}],
            "matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],
            "operations":["*"],"resources":["configmaps"]}]}}}"#;
        let binding = r#"{"metadata":{"name":"b"},
            "spec":{"policyName":"p","validationActions":["Deny"]}}"#;
        for made in [post(policies, policy), post(bindings, binding)] {
            assert_eq!(api.handle(made).await.status, 201);
        }
        assert!(is_long(&post(place, "{}")));
        assert!(!is_long(&post("/api/v1/namespaces/default/secrets", "{}")));
        assert!(!is_long(&request(&Method::GET, place, String::new())));
    }
}
