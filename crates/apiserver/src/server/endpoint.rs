//! Which handler carries a request out.
//!
//! An [`Endpoint`] is chosen from the same value that the authorizer judged. The handlers
//! behind it are given no method and no path.

use crate::kinds::Kind;
use crate::write::Part;
use optik_access::{Depth, PathScope, RequestVerb, ResourceRequest, Target};
use optik_builtin::aspects::Aspect;
use optik_catalog::{Action, Deputy, Reach, Review, Subresource, Verb};
use optik_object::Status;

/// Everything that can be done to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    List,
    Watch,
    /// The deprecated `/watch/…/{name}`.
    WatchObject,
    Get(Part),
    Create,
    Update(Part),
    Patch(Part),
    Delete,
    DeleteCollection,
    Evict,
    Bind,
    /// `POST bindings`, where the body names the pod.
    BindByBody,
    IssueToken,
    Review(Review),
    ListComponents,
    GetComponent,
    /// What would be a connection to a node, or to something that runs there.
    Connect(Reach),
    /// Custom resources have no routes by method: a name is missed when it is looked for.
    NameMissing {
        patch: bool,
    },
}

/// Why a request has no handler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoEndpoint {
    /// The resource, but not the method.
    Method,
    /// No such resource below a group that is served.
    Resource,
    /// No such path at all.
    Path,
    /// A custom resource has no such subresource, so it is taken for an object.
    Object,
    /// A collection that can be listed, and not watched.
    Watch,
    /// The path has a place for a namespace, and nothing is there.
    NamespaceMissing,
    /// `.` and `..`
    BadName(String),
}

impl NoEndpoint {
    /// As kube-apiserver says it; `None` where it has no `Status` but a plain page.
    pub(super) fn status(&self, kind: &Kind, request: &ResourceRequest) -> Option<Status> {
        Some(match self {
            Self::Path => return None,
            Self::Resource => Status::resource_not_found(),
            Self::Method => method_refused(kind, request.verb),
            Self::Watch => Status::method_not_supported(kind.resource.name(), "watch"),
            Self::Object => {
                let name = request.target.name.as_deref().unwrap_or_default();
                Status::not_found(kind.resource.name(), name)
            }
            Self::NamespaceMissing => Status::bad_request("Namespace parameter required."),
            Self::BadName(name) => Status::bad_request(format!(
                "Name parameter invalid: \"{name}\": may not be '{name}'"
            )),
        })
    }
}

/// Custom resources say which verb it is that they do not have.
fn method_refused(kind: &Kind, verb: RequestVerb) -> Status {
    if kind.custom.is_none() {
        return Status::method_not_allowed();
    }
    let verb = match verb {
        RequestVerb::Api(Verb::DeleteCollection) => Verb::Delete.name(),
        RequestVerb::Api(Verb::List | Verb::Watch) => Verb::Get.name(),
        verb => verb.name(),
    };
    Status::method_not_supported(kind.resource.name(), verb)
}

impl Endpoint {
    /// The endpoint that a request is for, of a kind that its path names.
    pub(super) fn find(kind: &Kind, request: &ResourceRequest) -> Result<Self, NoEndpoint> {
        let target = &request.target;
        check_path(kind, request)?;
        // Only custom resources answer HEAD.
        let verb = match request.verb {
            RequestVerb::Api(_) if request.head && kind.custom.is_none() => None,
            RequestVerb::Api(verb) => Some(verb),
            RequestVerb::Unsupported(_) => None,
        };
        let behaviour = &kind.resource.behaviour;
        let found = if let Some(deputy) = behaviour.deputy {
            of_deputy(deputy, target, verb)
        } else if let Some(review) = behaviour.review {
            of_review(kind, review, target, verb)
        } else if target.name.is_none() {
            of_collection(kind, target, verb)
        } else {
            of_object(kind, target, verb)
        }?;
        debug_assert!(
            verb.is_none_or(|verb| found.verb(verb) == verb),
            "{target:?} is {found:?}"
        );
        Ok(found)
    }

    /// The verb that it carries out. What serves several is given the one of the request.
    fn verb(self, requested: Verb) -> Verb {
        match self {
            Self::List | Self::ListComponents => Verb::List,
            Self::Watch | Self::WatchObject => Verb::Watch,
            Self::Get(_) | Self::GetComponent => Verb::Get,
            Self::Create | Self::Evict | Self::Bind | Self::BindByBody => Verb::Create,
            Self::IssueToken | Self::Review(_) => Verb::Create,
            Self::Update(_) => Verb::Update,
            Self::Patch(_) => Verb::Patch,
            Self::Delete => Verb::Delete,
            Self::DeleteCollection => Verb::DeleteCollection,
            // These change nothing.
            Self::Connect(_) | Self::NameMissing { .. } => requested,
        }
    }
}

/// What is wrong with a path, whatever is to be done with it.
fn check_path(kind: &Kind, request: &ResourceRequest) -> Result<(), NoEndpoint> {
    let target = &request.target;
    let (scope, named) = (target.shape().scope, target.name.is_some());
    let looks = !named
        && matches!(request.verb, RequestVerb::Api(Verb::List | Verb::Watch))
        && (!request.head || kind.custom.is_some());
    let behaviour = &kind.resource.behaviour;
    if scope == PathScope::EmptyNamespace && kind.is_namespaced() && kind.custom.is_none() && !looks
    {
        return Err(NoEndpoint::NamespaceMissing);
    }
    if !kind.is_kept() && behaviour.review.is_none() && behaviour.deputy.is_none() {
        return Err(NoEndpoint::Resource);
    }
    // A path that makes no sense for a custom kind is no path at all.
    let leads_somewhere = match (scope, kind.is_namespaced()) {
        (PathScope::Namespaced, namespaced) => namespaced,
        (PathScope::Cluster, false) => true,
        (PathScope::EmptyNamespace, false) => false,
        (_, true) => looks,
    };
    if kind.custom.is_some() && !leads_somewhere {
        return Err(NoEndpoint::Path);
    }
    if scope != PathScope::Cluster && !kind.is_namespaced() {
        return Err(NoEndpoint::Resource);
    }
    let mut names = [&target.name, &target.namespace].into_iter().flatten();
    match names.find(|name| matches!(name.as_str(), "." | "..")) {
        Some(bad) => Err(NoEndpoint::BadName(bad.clone())),
        None => Ok(()),
    }
}

fn of_collection(kind: &Kind, target: &Target, verb: Option<Verb>) -> Result<Endpoint, NoEndpoint> {
    let across = kind.is_namespaced() && target.shape().scope != PathScope::Namespaced;
    let verb = verb.ok_or(NoEndpoint::Method)?;
    let served = kind.resource.verbs.contains(verb);
    match verb {
        Verb::List if served => Ok(Endpoint::List),
        Verb::Watch if served => Ok(Endpoint::Watch),
        Verb::Create if served && !across => Ok(Endpoint::Create),
        Verb::DeleteCollection if served && !across => Ok(Endpoint::DeleteCollection),
        Verb::Update | Verb::Patch if kind.custom.is_some() => Ok(Endpoint::NameMissing {
            patch: verb == Verb::Patch,
        }),
        _ => Err(NoEndpoint::Method),
    }
}

fn of_object(kind: &Kind, target: &Target, verb: Option<Verb>) -> Result<Endpoint, NoEndpoint> {
    // Across namespaces a name says nothing.
    if kind.is_namespaced() && target.shape().scope != PathScope::Namespaced {
        return Err(NoEndpoint::Resource);
    }
    let Some(name) = target.subresource.as_deref() else {
        return of_main(kind, target, verb);
    };
    let Some(subresource) = kind.resource.subresource(name) else {
        return Err(match kind.custom {
            Some(_) => NoEndpoint::Object,
            None => NoEndpoint::Resource,
        });
    };
    // Custom resources have no routes that end: what follows is passed over.
    let deeper = target.shape().depth == Depth::Subpath && kind.custom.is_none();
    let goes_deeper = subresource.action == Action::Reach(Reach::Proxy);
    // Parts of an object are not watched, and most have nothing below them.
    if target.watch || deeper && !goes_deeper {
        return Err(NoEndpoint::Resource);
    }
    of_subresource(subresource, verb)
}

fn of_main(kind: &Kind, target: &Target, verb: Option<Verb>) -> Result<Endpoint, NoEndpoint> {
    let verb = verb.ok_or(NoEndpoint::Method)?;
    if !kind.resource.verbs.contains(verb) {
        return Err(NoEndpoint::Method);
    }
    match verb {
        Verb::Watch if target.watch => Ok(Endpoint::WatchObject),
        Verb::Get => Ok(Endpoint::Get(Part::Main)),
        Verb::Update => Ok(Endpoint::Update(Part::Main)),
        Verb::Patch => Ok(Endpoint::Patch(Part::Main)),
        Verb::Delete => Ok(Endpoint::Delete),
        _ => Err(NoEndpoint::Method),
    }
}

fn of_subresource(of: &Subresource, verb: Option<Verb>) -> Result<Endpoint, NoEndpoint> {
    if of.action == Action::Reach(Reach::Proxy) {
        return Ok(Endpoint::Connect(Reach::Proxy));
    }
    let verb = verb.ok_or(NoEndpoint::Method)?;
    let part = match (of.action, verb) {
        (Action::Evict, Verb::Create) => return Ok(Endpoint::Evict),
        (Action::Token, Verb::Create) => return Ok(Endpoint::IssueToken),
        (Action::Bind, Verb::Create) => return Ok(Endpoint::Bind),
        (Action::Reach(Reach::Log), Verb::Get) => return Ok(Endpoint::Connect(Reach::Log)),
        (Action::Reach(what @ (Reach::Container | Reach::Pod)), Verb::Get | Verb::Create) => {
            return Ok(Endpoint::Connect(what));
        }
        (Action::Show, Verb::Get) => Part::Main,
        (Action::Status, _) => Part::Status,
        (Action::Approve, _) => Part::Approval,
        (Action::Finalize, _) => Part::Finalize,
        (Action::Ephemeral, _) => Part::Aspect(Aspect::Ephemeral),
        (Action::Resize, _) => Part::Aspect(Aspect::Resources),
        (Action::Scale, _) => Part::Scale,
        _ => return Err(NoEndpoint::Method),
    };
    match verb {
        _ if !of.verbs.contains(verb) => Err(NoEndpoint::Method),
        Verb::Get => Ok(Endpoint::Get(part)),
        Verb::Update => Ok(Endpoint::Update(part)),
        Verb::Patch => Ok(Endpoint::Patch(part)),
        _ => Err(NoEndpoint::Method),
    }
}

fn of_review(
    kind: &Kind,
    review: Review,
    target: &Target,
    verb: Option<Verb>,
) -> Result<Endpoint, NoEndpoint> {
    if target.name.is_some() {
        return Err(NoEndpoint::Resource);
    }
    if verb != Some(Verb::Create) {
        return Err(NoEndpoint::Method);
    }
    match kind.is_namespaced() && target.shape().scope != PathScope::Namespaced {
        true => Err(NoEndpoint::Resource),
        false => Ok(Endpoint::Review(review)),
    }
}

fn of_deputy(deputy: Deputy, target: &Target, verb: Option<Verb>) -> Result<Endpoint, NoEndpoint> {
    match deputy {
        Deputy::Binding => match (target.name.is_some(), target.shape().scope, verb) {
            (false, PathScope::Namespaced, Some(Verb::Create)) => Ok(Endpoint::BindByBody),
            (false, PathScope::Namespaced, _) => Err(NoEndpoint::Method),
            _ => Err(NoEndpoint::Resource),
        },
        Deputy::Component if target.subresource.is_some() || target.watch => {
            Err(NoEndpoint::Resource)
        }
        Deputy::Component => match verb {
            Some(Verb::Get) => Ok(Endpoint::GetComponent),
            Some(Verb::List) => Ok(Endpoint::ListComponents),
            Some(Verb::Watch) => Err(NoEndpoint::Watch),
            _ => Err(NoEndpoint::Method),
        },
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::kinds::Kinds;
    use optik_access::{RequestInfo, Shape};
    use std::collections::{BTreeMap, BTreeSet};

    const METHODS: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "WATCH",
    ];

    fn path(kind: &Kind, shape: Shape, subresource: &str) -> String {
        let resource = &kind.resource;
        let watch = if shape.watch { "/watch" } else { "" };
        let namespace = match shape.scope {
            PathScope::Cluster => "",
            PathScope::Namespaced => "/namespaces/n",
            PathScope::EmptyNamespace => "/namespaces/",
        };
        let rest = match shape.depth {
            Depth::Collection => String::new(),
            Depth::Object => "/o".to_owned(),
            Depth::Subresource => format!("/o/{subresource}"),
            Depth::Subpath => format!("/o/{subresource}/a/b"),
        };
        let group = match &*resource.group {
            "" => "api".to_owned(),
            group => format!("apis/{group}"),
        };
        let (version, plural) = (&resource.version, &resource.plural);
        format!("/{group}/{version}{watch}{namespace}/{plural}{rest}")
    }

    fn requested(method: &str, path: &str, query: &str) -> ResourceRequest {
        match RequestInfo::new(method, path, query) {
            RequestInfo::Resource(request) => request,
            RequestInfo::NonResource(_) => panic!("{path} is about objects"),
        }
    }

    fn built_in() -> Kinds {
        Kinds::of(optik_catalog::builtin())
    }

    /// Every kind, every shape of a path, every part, every method.
    pub(in crate::server) fn every_request(
        kinds: &Kinds,
        mut check: impl FnMut(&Kind, Shape, &str, &str, &ResourceRequest),
    ) {
        for kind in &kinds.all {
            for shape in Shape::all() {
                let parts = kind.resource.subresources.iter();
                let parts = parts.map(|part| &*part.name).chain(["nonsense"]);
                let deep = matches!(shape.depth, Depth::Subresource | Depth::Subpath);
                for part in parts.take(if deep { usize::MAX } else { 1 }) {
                    for method in METHODS {
                        for query in ["", "watch=1"] {
                            let path = path(kind, shape, part);
                            let request = requested(method, &path, query);
                            check(kind, shape, part, method, &request);
                        }
                    }
                }
            }
        }
    }

    fn name(endpoint: Endpoint) -> String {
        let name = format!("{endpoint:?}");
        name.split(['(', ' ']).next().unwrap_or_default().to_owned()
    }

    #[test]
    fn an_endpoint_carries_out_the_verb_that_was_authorized() {
        let mut reached = BTreeMap::<String, BTreeSet<&str>>::new();
        every_request(&built_in(), |kind, _, _, method, request| {
            let Ok(endpoint) = Endpoint::find(kind, request) else {
                return;
            };
            let RequestVerb::Api(verb) = request.verb else {
                assert_eq!(endpoint, Endpoint::Connect(Reach::Proxy), "{method}");
                return;
            };
            assert_eq!(endpoint.verb(verb), verb, "{method} {request:?}");
            reached
                .entry(name(endpoint))
                .or_default()
                .insert(verb.name());
        });
        let reached: Vec<String> = reached
            .into_iter()
            .map(|(endpoint, verbs)| {
                let verbs: Vec<_> = verbs.into_iter().collect();
                format!("{endpoint}: {}", verbs.join(" "))
            })
            .collect();
        // All but the one of custom resources (`NameMissing`).
        assert_eq!(
            reached,
            [
                "Bind: create",
                "BindByBody: create",
                "Connect: create delete get patch update",
                "Create: create",
                "Delete: delete",
                "DeleteCollection: deletecollection",
                "Evict: create",
                "Get: get",
                "GetComponent: get",
                "IssueToken: create",
                "List: list",
                "ListComponents: list",
                "Patch: patch",
                "Review: create",
                "Update: update",
                "Watch: watch",
                "WatchObject: watch",
            ]
        );
    }

    /// Discovery and the endpoints agree about what can be done with each resource.
    #[test]
    fn every_verb_of_discovery_has_an_endpoint_and_no_other() {
        for kind in &built_in().all {
            let scope = match kind.is_namespaced() {
                true => PathScope::Namespaced,
                false => PathScope::Cluster,
            };
            let mut served = BTreeSet::new();
            for depth in [Depth::Collection, Depth::Object] {
                let shape = Shape {
                    scope,
                    depth,
                    watch: false,
                };
                for (method, query) in METHODS.iter().flat_map(|it| [(*it, ""), (*it, "watch=1")]) {
                    let request = requested(method, &path(kind, shape, ""), query);
                    if Endpoint::find(kind, &request).is_ok() {
                        served.insert(request.verb.name());
                    }
                }
            }
            let listed: BTreeSet<_> = kind.resource.verbs.iter().map(Verb::name).collect();
            assert_eq!(served, listed, "{}", kind.resource.plural);
        }
    }

    /// The deprecated paths ask for watches of objects and collections, and for nothing else.
    #[test]
    fn watch_paths_only_watch() {
        let mut watches = 0;
        every_request(&built_in(), |kind, shape, part, method, request| {
            if !shape.watch {
                return;
            }
            match Endpoint::find(kind, request) {
                Err(_) => {}
                Ok(Endpoint::Watch | Endpoint::WatchObject) => {
                    assert_eq!(method, "GET", "{request:?}");
                    watches += 1;
                }
                Ok(other) => panic!("{method} {shape:?} {part}: {other:?}"),
            }
        });
        assert!(watches > 200, "{watches}");
    }
}
