//! RequestInfo: the verb and target of a request, decided once from its method and URL (upstream:
//! `RequestInfoFactory`).
//!
//! The authorizer decides about a [`RequestInfo`], and the API selects its handler from the same
//! value. Neither looks at the method or the path again, so the authorized operation is the
//! executed one.

mod path;
mod resource_path;

pub use path::RequestPath;
pub use resource_path::{PathDepth, PathScope, PathShape, ResourcePath, RouteMatch};

use crate::attributes::{AccessTarget, AuthorizationAttributes, ResourceAttributes};
use optik_object::selector::FieldSelector;
use optik_object::{Verb, path_segment};
use std::borrow::Cow;

/// The attributes of a request, derived from its request line.
#[derive(Clone, Debug)]
pub enum RequestInfo {
    Resource(ResourceRequestInfo),
    NonResource(NonResourceRequestInfo),
}

/// A request about API resources.
#[derive(Clone, Debug)]
pub struct ResourceRequestInfo {
    pub verb: RequestVerb,
    pub target: ResourcePath,
    /// Sent as HEAD and authorized like GET. Only custom resources serve HEAD.
    pub head: bool,
    /// The name in a `metadata.name` field selector.
    selected_name: Option<String>,
}

/// The verb of a resource request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerb {
    Api(Verb),
    /// No resource endpoint supports the method. The request is authorized with this verb, like
    /// upstream, and then rejected.
    Unsupported(&'static str),
}

/// A request about a non-resource path, or an unknown path.
#[derive(Clone, Debug)]
pub struct NonResourceRequestInfo {
    /// The method in lower case.
    pub verb: Cow<'static, str>,
    pub path: RequestPath<'static>,
}

impl RequestVerb {
    fn from_method(method: &str, target: &ResourcePath, query: &str) -> Self {
        let collection = target.name.as_deref().unwrap_or_default().is_empty();
        let verb = match (method, target.watch) {
            // The path can turn a read into a watch, never a write.
            ("GET" | "HEAD", true) => Verb::Watch,
            (_, true) => return Self::Unsupported(Verb::Watch.as_str()),
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", _) if collection => Verb::DeleteCollection,
            ("DELETE", _) => Verb::Delete,
            ("GET" | "HEAD", _) if !collection => Verb::Get,
            ("GET" | "HEAD", _) if asks_for_watch(query) => Verb::Watch,
            ("GET" | "HEAD", _) => Verb::List,
            _ => return Self::Unsupported(""),
        };
        Self::Api(verb)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Api(verb) => verb.as_str(),
            Self::Unsupported(name) => name,
        }
    }
}

impl ResourceRequestInfo {
    #[must_use]
    pub fn has_verb(&self, verb: Verb) -> bool {
        self.verb == RequestVerb::Api(verb)
    }

    fn attributes(&self) -> AuthorizationAttributes<'_> {
        let target = &self.target;
        let name = target.name.as_deref();
        let namespace = match target.namespace.as_deref() {
            // A Namespace object is inside the namespace of its name.
            None if target.plural == "namespaces" => name,
            namespace => namespace,
        };
        let resource = ResourceAttributes {
            group: &target.group,
            version: &target.version,
            resource: &target.plural,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            name: name.or(self.selected_name.as_deref()).unwrap_or_default(),
        };
        AuthorizationAttributes::for_resource(self.verb.name(), resource)
    }
}

impl RequestInfo {
    /// The only function that derives a request from its method and URL. `path` and `query` are in
    /// their encoded form.
    #[must_use]
    pub fn new(method: &str, path: &str, query: &str) -> Self {
        let path = RequestPath::decode(path);
        let parts = path.authorizer_segments();
        let target = parts.and_then(|(parts, whole)| {
            ResourcePath::parse(&parts).map(|target| ResourcePath {
                route: match path.as_str().starts_with("/api/") {
                    _ if whole => RouteMatch::Matched,
                    true => RouteMatch::UnmatchedCore,
                    false => RouteMatch::Unmatched,
                },
                ..target
            })
        });
        let Some(target) = target else {
            return Self::NonResource(NonResourceRequestInfo {
                verb: lower_case(method),
                path: path.into_owned(),
            });
        };
        let verb = RequestVerb::from_method(method, &target, query);
        let selects = target.name.is_none()
            && !target.watch
            && matches!(verb, RequestVerb::Api(Verb::List | Verb::Watch));
        Self::Resource(ResourceRequestInfo {
            verb,
            target,
            head: method == "HEAD",
            selected_name: if selects {
                name_from_field_selector(query)
            } else {
                None
            },
        })
    }

    #[must_use]
    pub fn attributes(&self) -> AuthorizationAttributes<'_> {
        match self {
            Self::Resource(request) => request.attributes(),
            Self::NonResource(request) => AuthorizationAttributes {
                verb: &request.verb,
                target: AccessTarget::NonResource(request.path.as_str()),
            },
        }
    }

    /// The resource attributes that the path names; `None` for non-resource paths.
    #[must_use]
    pub fn resource(&self) -> Option<ResourceAttributes<'_>> {
        let Self::Resource(request) = self else {
            return None;
        };
        let AccessTarget::Resource(of) = request.attributes().target else {
            return None;
        };
        let name = request.target.name.as_deref().unwrap_or_default();
        Some(ResourceAttributes { name, ..of })
    }

    /// The verb for the authorizer.
    #[must_use]
    pub fn verb(&self) -> &str {
        match self {
            Self::Resource(request) => request.verb.name(),
            Self::NonResource(request) => &request.verb,
        }
    }

    /// The decoded path of a non-resource request.
    #[must_use]
    pub fn non_resource_path(&self) -> Option<&str> {
        match self {
            Self::Resource(_) => None,
            Self::NonResource(request) => Some(request.path.as_str()),
        }
    }

    #[must_use]
    pub fn is_watch(&self) -> bool {
        matches!(self, Self::Resource(request) if request.has_verb(Verb::Watch))
    }

    /// Whether the request is read-only.
    #[must_use]
    pub fn is_read(&self) -> bool {
        match self {
            Self::Resource(request) => matches!(
                request.verb,
                RequestVerb::Api(Verb::Get | Verb::List | Verb::Watch)
                    | RequestVerb::Unsupported(_)
            ),
            Self::NonResource(request) => {
                matches!(&*request.verb, "get" | "head" | "options")
            }
        }
    }
}

fn asks_for_watch(query: &str) -> bool {
    let value = query_value(query, "watch");
    value.is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
}

fn lower_case(method: &str) -> Cow<'static, str> {
    match method {
        "GET" => "get".into(),
        "POST" => "post".into(),
        "PUT" => "put".into(),
        "PATCH" => "patch".into(),
        "DELETE" => "delete".into(),
        "HEAD" => "head".into(),
        "OPTIONS" => "options".into(),
        other => other.to_ascii_lowercase().into(),
    }
}

fn query_value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    // Fast path: almost no query has the parameter. A percent-encoded name is found by the slow
    // path.
    if !query.contains(name) && !query.contains('%') {
        return None;
    }
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value)
}

fn name_from_field_selector(query: &str) -> Option<String> {
    let selector = query_value(query, "fieldSelector")?;
    let selector = FieldSelector::parse(&selector).ok()?;
    let name = selector.requires_exact_match("metadata.name")?;
    (!name.is_empty() && path_segment(name).is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(method: &str, url: &str) -> String {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::new(method, path, query);
        let AuthorizationAttributes { verb, target: what } = info.attributes();
        match what {
            AccessTarget::NonResource(path) => format!("{verb} {path}"),
            AccessTarget::Resource(of) => format!(
                "{verb}|{}|{}|{}|{}|{}|{}",
                of.group, of.version, of.namespace, of.resource, of.name, of.subresource
            ),
        }
    }

    #[test]
    fn request_info_is_parsed_from_method_and_url() {
        for (method, url, expected) in [
            ("GET", "/api", "get /api"),
            ("GET", "/api/v1", "get /api/v1"),
            ("GET", "/apis/apps/v1/", "get /apis/apps/v1/"),
            ("POST", "/version", "post /version"),
            ("PROPFIND", "/x", "propfind /x"),
            ("GET", "/api/v1/pods", "list||v1||pods||"),
            ("HEAD", "/api/v1/pods", "list||v1||pods||"),
            ("PROPFIND", "/api/v1/pods", "||v1||pods||"),
            ("GET", "/api/v1/pods?watch=1", "watch||v1||pods||"),
            ("GET", "/api/v1/pods?watch=False", "list||v1||pods||"),
            ("GET", "/api/v1/watch/pods", "watch||v1||pods||"),
            ("HEAD", "/api/v1/watch/pods", "watch||v1||pods||"),
            // Authorized as upstream does; no handler is chosen for it.
            ("POST", "/api/v1/watch/pods", "watch||v1||pods||"),
            (
                "DELETE",
                "/api/v1/watch/namespaces/n/pods/p",
                "watch||v1|n|pods|p|",
            ),
            ("GET", "/api/v1/watch", "list||v1||watch||"),
            ("POST", "/api/v1/watch", "create||v1||watch||"),
            (
                "GET",
                "/api/v1/watch/namespaces/n/pods/p",
                "watch||v1|n|pods|p|",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/pods/p?watch=1",
                "get||v1|n|pods|p|",
            ),
            (
                "DELETE",
                "/apis/apps/v1/namespaces/n/deployments/",
                "deletecollection|apps|v1|n|deployments||",
            ),
            (
                "PATCH",
                "/apis/apps/v1/namespaces/n/deployments/d/scale",
                "patch|apps|v1|n|deployments|d|scale",
            ),
            (
                "PUT",
                "/api/v1/namespaces/n/finalize",
                "update||v1|n|namespaces|n|finalize",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/status",
                "get||v1|n|namespaces|n|status",
            ),
            (
                "GET",
                "/api/v1/namespaces/n/status/x",
                "get||v1|n|namespaces|n|status",
            ),
            ("GET", "/api/v1/namespaces/n", "get||v1|n|namespaces|n|"),
            (
                "GET",
                "/api/v1/namespaces/n/pods/p/proxy/a/b",
                "get||v1|n|pods|p|proxy",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name%3Dx",
                "list||v1||pods|x|",
            ),
            (
                "GET",
                "/api/v1/pods?watch&fieldSelector=a=b,metadata.name=x",
                "watch||v1||pods|x|",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name!=x",
                "list||v1||pods||",
            ),
            (
                "GET",
                "/api/v1/pods?fieldSelector=metadata.name=a/b",
                "list||v1||pods||",
            ),
            (
                "DELETE",
                "/api/v1/pods?fieldSelector=metadata.name=x",
                "deletecollection||v1||pods||",
            ),
            // Percent-encoded characters are decoded, slashes included.
            (
                "GET",
                "/api/v1/namespaces/n%2Fsecrets/s",
                "get||v1|n|secrets|s|",
            ),
            ("GET", "/api/v1/%73ecrets", "list||v1||secrets||"),
            // Not served. The authorizer reads the path as upstream's does.
            ("GET", "//api/v1/pods", "list||v1||pods||"),
            ("GET", "/api//v1/pods", "get||||v1|pods|"),
            ("GET", "/api/v1/pods//", "list||v1||pods||"),
            ("GET", "/api/v1/namespaces/n/pods//p", "list||v1|n|pods||p"),
            // A list across all namespaces, not a non-resource path.
            ("GET", "/api/v1/namespaces//pods", "list||v1||pods||"),
            ("GET", "/api/v1/namespaces//pods/p", "get||v1||pods|p|"),
            (
                "DELETE",
                "/apis/apps/v1/namespaces//deployments",
                "deletecollection|apps|v1||deployments||",
            ),
            ("GET", "/api/v1/watch/namespaces//pods", "watch||v1||pods||"),
            (
                "GET",
                "/api/v1/namespaces//status",
                "list||v1||namespaces||status",
            ),
            ("GET", "/api/v1/namespaces//pods//x", "list||v1||pods||x"),
            ("GET", "/API/v1/pods", "get /API/v1/pods"),
            (
                "GET",
                "/healthz/../api/v1/pods",
                "get /healthz/../api/v1/pods",
            ),
            ("GET", "/api/v1/%ff", "get /api/v1/%ff"),
        ] {
            assert_eq!(describe(method, url), expected, "{method} {url}");
        }
    }

    /// A method that changes state is never classified as a read, whatever the path.
    #[test]
    fn request_info_never_classifies_a_write_as_read() {
        let below = |scope: PathScope| match scope {
            PathScope::Cluster => "",
            PathScope::Namespaced => "/namespaces/n",
            PathScope::EmptyNamespace => "/namespaces/",
        };
        let rest = |depth: PathDepth| match depth {
            PathDepth::Collection => "pods",
            PathDepth::Object => "pods/p",
            PathDepth::Subresource => "pods/p/proxy",
            PathDepth::Subpath => "pods/p/proxy/a/b",
        };
        let mut shapes = 0;
        for shape in PathShape::all() {
            shapes += 1;
            let watch = if shape.watch { "/watch" } else { "" };
            let path = format!("/api/v1{watch}{}/{}", below(shape.scope), rest(shape.depth));
            for method in [
                "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "get",
            ] {
                for query in ["", "watch=1", "watch=1&method=GET", "_method=GET"] {
                    let RequestInfo::Resource(of) = RequestInfo::new(method, &path, query) else {
                        panic!("{path} is about objects");
                    };
                    assert_eq!(of.target.shape(), shape, "{path}");
                    let reads = matches!(
                        of.verb,
                        RequestVerb::Api(Verb::Get | Verb::List | Verb::Watch)
                    );
                    assert_eq!(reads, matches!(method, "GET" | "HEAD"), "{method} {path}");
                }
            }
        }
        assert_eq!(shapes, 24);
    }
}
