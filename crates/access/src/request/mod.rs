//! What a request asks for, decided once, from its method and URL.
//!
//! The authorizer judges a [`RequestInfo`], and the API chooses its handler from the same
//! value. Neither looks at the method or at the path again, so what is authorized is what
//! is carried out.

mod path;
mod target;

pub use path::Path;
pub use target::{Depth, Leads, PathScope, Shape, Target};

use crate::attributes::{Attributes, Resource, What};
use optik_object::selector::FieldSelector;
use optik_object::{Verb, path_segment};
use std::borrow::Cow;

/// A request as far as its head says.
#[derive(Clone, Debug)]
pub enum RequestInfo {
    Resource(ResourceRequest),
    NonResource(NonResourceRequest),
}

/// A request about objects.
#[derive(Clone, Debug)]
pub struct ResourceRequest {
    pub verb: RequestVerb,
    pub target: Target,
    /// It came as HEAD, and reads like GET. Only custom resources serve that.
    pub head: bool,
    /// The one name that a field selector lets pass.
    selected_name: Option<String>,
}

/// What is done to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestVerb {
    Api(Verb),
    /// No endpoint of resources has the method. The authorizer is asked about this verb,
    /// as upstream does, and then nothing is done.
    Unsupported(&'static str),
}

/// A request about the server itself, or about nothing.
#[derive(Clone, Debug)]
pub struct NonResourceRequest {
    /// The method in lower case.
    pub verb: Cow<'static, str>,
    pub path: Path<'static>,
}

impl RequestVerb {
    fn of(method: &str, target: &Target, query: &str) -> Self {
        let collection = target.name.as_deref().unwrap_or_default().is_empty();
        let verb = match (method, target.watch) {
            // A path can ask for a watch. It cannot turn a write into one.
            ("GET" | "HEAD", true) => Verb::Watch,
            (_, true) => return Self::Unsupported(Verb::Watch.name()),
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
            Self::Api(verb) => verb.name(),
            Self::Unsupported(name) => name,
        }
    }
}

impl ResourceRequest {
    #[must_use]
    pub fn is(&self, verb: Verb) -> bool {
        self.verb == RequestVerb::Api(verb)
    }

    fn attributes(&self) -> Attributes<'_> {
        let target = &self.target;
        let name = target.name.as_deref();
        let namespace = match target.namespace.as_deref() {
            // A namespace counts as being inside itself.
            None if target.plural == "namespaces" => name,
            namespace => namespace,
        };
        let resource = Resource {
            group: &target.group,
            version: &target.version,
            resource: &target.plural,
            subresource: target.subresource.as_deref().unwrap_or_default(),
            namespace: namespace.unwrap_or_default(),
            name: name.or(self.selected_name.as_deref()).unwrap_or_default(),
        };
        Attributes::on(self.verb.name(), resource)
    }
}

impl RequestInfo {
    /// The one place in which a method and a URL become a request. `path` and `query` are
    /// as they were sent.
    #[must_use]
    pub fn new(method: &str, path: &str, query: &str) -> Self {
        let path = Path::decode(path);
        let parts = path.parts();
        let target = parts.and_then(|(parts, whole)| {
            Target::parse(&parts).map(|target| Target {
                leads: match path.text().starts_with("/api/") {
                    _ if whole => Leads::Somewhere,
                    true => Leads::NowhereOfCore,
                    false => Leads::Nowhere,
                },
                ..target
            })
        });
        let Some(target) = target else {
            return Self::NonResource(NonResourceRequest {
                verb: lower_case(method),
                path: path.into_owned(),
            });
        };
        let verb = RequestVerb::of(method, &target, query);
        let selects = target.name.is_none()
            && !target.watch
            && matches!(verb, RequestVerb::Api(Verb::List | Verb::Watch));
        Self::Resource(ResourceRequest {
            verb,
            target,
            head: method == "HEAD",
            selected_name: if selects { selected_name(query) } else { None },
        })
    }

    #[must_use]
    pub fn attributes(&self) -> Attributes<'_> {
        match self {
            Self::Resource(request) => request.attributes(),
            Self::NonResource(request) => Attributes {
                verb: &request.verb,
                what: What::Path(request.path.text()),
            },
        }
    }

    /// The objects it is about, as the path names them; `None` for any other path.
    #[must_use]
    pub fn resource(&self) -> Option<Resource<'_>> {
        let Self::Resource(request) = self else {
            return None;
        };
        let What::Resource(of) = request.attributes().what else {
            return None;
        };
        let name = request.target.name.as_deref().unwrap_or_default();
        Some(Resource { name, ..of })
    }

    /// What the authorizer calls what is done.
    #[must_use]
    pub fn verb(&self) -> &str {
        match self {
            Self::Resource(request) => request.verb.name(),
            Self::NonResource(request) => &request.verb,
        }
    }

    /// The path of a request that is not about resources, decoded.
    #[must_use]
    pub fn non_resource_path(&self) -> Option<&str> {
        match self {
            Self::Resource(_) => None,
            Self::NonResource(request) => Some(request.path.text()),
        }
    }

    #[must_use]
    pub fn is_watch(&self) -> bool {
        matches!(self, Self::Resource(request) if request.is(Verb::Watch))
    }

    /// Whether it can change nothing.
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
    let value = value(query, "watch");
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

fn value<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    // Almost every query lacks the name asked for. A name in percent signs is still found,
    // by the slow way.
    if !query.contains(name) && !query.contains('%') {
        return None;
    }
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value)
}

fn selected_name(query: &str) -> Option<String> {
    let selector = value(query, "fieldSelector")?;
    let selector = FieldSelector::parse(&selector).ok()?;
    let name = selector.exact("metadata.name")?;
    (!name.is_empty() && path_segment(name).is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(method: &str, url: &str) -> String {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let info = RequestInfo::new(method, path, query);
        let Attributes { verb, what } = info.attributes();
        match what {
            What::Path(path) => format!("{verb} {path}"),
            What::Resource(of) => format!(
                "{verb}|{}|{}|{}|{}|{}|{}",
                of.group, of.version, of.namespace, of.resource, of.name, of.subresource
            ),
        }
    }

    #[test]
    fn requests_are_taken_apart() {
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
            // What is encoded is what it stands for, slashes included.
            (
                "GET",
                "/api/v1/namespaces/n%2Fsecrets/s",
                "get||v1|n|secrets|s|",
            ),
            ("GET", "/api/v1/%73ecrets", "list||v1||secrets||"),
            // Nothing is served there. The authorizer reads it as upstream's does.
            ("GET", "//api/v1/pods", "list||v1||pods||"),
            ("GET", "/api//v1/pods", "get||||v1|pods|"),
            ("GET", "/api/v1/pods//", "list||v1||pods||"),
            ("GET", "/api/v1/namespaces/n/pods//p", "list||v1|n|pods||p"),
            // Of all namespaces, not of a document about the server.
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
            assert_eq!(told(method, url), expected, "{method} {url}");
        }
    }

    /// A method that changes something is never taken for a read, whatever the path says.
    #[test]
    fn paths_turn_no_write_into_a_read() {
        let below = |scope: PathScope| match scope {
            PathScope::Cluster => "",
            PathScope::Namespaced => "/namespaces/n",
            PathScope::EmptyNamespace => "/namespaces/",
        };
        let rest = |depth: Depth| match depth {
            Depth::Collection => "pods",
            Depth::Object => "pods/p",
            Depth::Subresource => "pods/p/proxy",
            Depth::Subpath => "pods/p/proxy/a/b",
        };
        let mut shapes = 0;
        for shape in Shape::all() {
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
