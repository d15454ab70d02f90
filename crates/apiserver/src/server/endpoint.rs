//! Chooses the handler (endpoint) of a request.
//!
//! A [`ResourceEndpoint`] is chosen from the attributes that the authorizer checked. The handlers
//! behind it get no method and no path.

use crate::handlers::write::SubresourceTarget;
use crate::registry::served_resource::ServedResource;
use optik_auth::{PathDepth, PathScope, RequestVerb, ResourcePath, ResourceRequestInfo};
use optik_builtin::pod_subresource::PodSubresource;
use optik_catalog::{
    ConnectTarget, ReviewKind, Subresource, SubresourceAction, Verb, VirtualResource,
};
use optik_object::Status;

/// Every operation on objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceEndpoint {
    List,
    Watch,
    /// The deprecated `/watch/…/{name}`.
    WatchObject,
    Get(SubresourceTarget),
    Create,
    Update(SubresourceTarget),
    Patch(SubresourceTarget),
    Delete,
    DeleteCollection,
    Evict,
    Bind,
    /// `POST bindings`, where the body names the pod.
    BindByBody,
    IssueToken,
    Review(ReviewKind),
    ListComponents,
    GetComponent,
    /// A connection (exec, proxy, ...) to a node, or to something that runs there.
    Connect(ConnectTarget),
    /// Custom resources have no routes by method: a missing name is found when the object is looked
    /// up.
    NameMissing {
        patch: bool,
    },
}

/// Why a request has no handler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EndpointError {
    /// The resource exists, but does not support the method.
    Method,
    /// No such resource in a served group.
    Resource,
    /// No such path.
    Path,
    /// A custom resource without this subresource: the path is taken for an object.
    Object,
    /// A collection that can be listed but not watched.
    Watch,
    /// The namespace in the path is empty.
    NamespaceMissing,
    /// `.` and `..`
    BadName(String),
}

impl EndpointError {
    /// The `Status` that kube-apiserver sends; `None` where it sends a plain page.
    pub(super) fn status(
        &self,
        kind: &ServedResource,
        request: &ResourceRequestInfo,
    ) -> Option<Status> {
        Some(match self {
            Self::Path => return None,
            Self::Resource => Status::resource_not_found(),
            Self::Method => method_not_supported(kind, request.verb),
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

/// For custom resources the error names the unsupported verb.
fn method_not_supported(kind: &ServedResource, verb: RequestVerb) -> Status {
    if kind.custom.is_none() {
        return Status::method_not_allowed();
    }
    let verb = match verb {
        RequestVerb::Api(Verb::DeleteCollection) => Verb::Delete.as_str(),
        RequestVerb::Api(Verb::List | Verb::Watch) => Verb::Get.as_str(),
        verb => verb.name(),
    };
    Status::method_not_supported(kind.resource.name(), verb)
}

impl ResourceEndpoint {
    /// The endpoint for a request about a kind.
    pub(super) fn find(
        kind: &ServedResource,
        request: &ResourceRequestInfo,
    ) -> Result<Self, EndpointError> {
        let target = &request.target;
        check_path(kind, request)?;
        // Only custom resources support HEAD.
        let verb = match request.verb {
            RequestVerb::Api(_) if request.head && kind.custom.is_none() => None,
            RequestVerb::Api(verb) => Some(verb),
            RequestVerb::Unsupported(_) => None,
        };
        let behaviour = &kind.resource.strategy_options;
        let found = if let Some(deputy) = behaviour.virtual_resource {
            virtual_endpoint(deputy, target, verb)
        } else if let Some(review) = behaviour.review_kind {
            review_endpoint(kind, review, target, verb)
        } else if target.name.is_none() {
            collection_endpoint(kind, target, verb)
        } else {
            object_endpoint(kind, target, verb)
        }?;
        debug_assert!(
            verb.is_none_or(|verb| found.verb(verb) == verb),
            "{target:?} is {found:?}"
        );
        Ok(found)
    }

    /// The verb of the endpoint. For an endpoint with several verbs it is that of the request.
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

/// Validates a path, independent of the verb.
fn check_path(kind: &ServedResource, request: &ResourceRequestInfo) -> Result<(), EndpointError> {
    let target = &request.target;
    let (scope, named) = (target.shape().scope, target.name.is_some());
    let looks = !named
        && matches!(request.verb, RequestVerb::Api(Verb::List | Verb::Watch))
        && (!request.head || kind.custom.is_some());
    let behaviour = &kind.resource.strategy_options;
    if scope == PathScope::EmptyNamespace && kind.is_namespaced() && kind.custom.is_none() && !looks
    {
        return Err(EndpointError::NamespaceMissing);
    }
    if !kind.is_stored() && behaviour.review_kind.is_none() && behaviour.virtual_resource.is_none()
    {
        return Err(EndpointError::Resource);
    }
    // An invalid path of a custom resource is an unknown path.
    let leads_somewhere = match (scope, kind.is_namespaced()) {
        (PathScope::Namespaced, namespaced) => namespaced,
        (PathScope::Cluster, false) => true,
        (PathScope::EmptyNamespace, false) => false,
        (_, true) => looks,
    };
    if kind.custom.is_some() && !leads_somewhere {
        return Err(EndpointError::Path);
    }
    if scope != PathScope::Cluster && !kind.is_namespaced() {
        return Err(EndpointError::Resource);
    }
    let mut names = [&target.name, &target.namespace].into_iter().flatten();
    match names.find(|name| matches!(name.as_str(), "." | "..")) {
        Some(bad) => Err(EndpointError::BadName(bad.clone())),
        None => Ok(()),
    }
}

fn collection_endpoint(
    kind: &ServedResource,
    target: &ResourcePath,
    verb: Option<Verb>,
) -> Result<ResourceEndpoint, EndpointError> {
    let across = kind.is_namespaced() && target.shape().scope != PathScope::Namespaced;
    let verb = verb.ok_or(EndpointError::Method)?;
    let served = kind.resource.verbs.contains(verb);
    match verb {
        Verb::List if served => Ok(ResourceEndpoint::List),
        Verb::Watch if served => Ok(ResourceEndpoint::Watch),
        Verb::Create if served && !across => Ok(ResourceEndpoint::Create),
        Verb::DeleteCollection if served && !across => Ok(ResourceEndpoint::DeleteCollection),
        Verb::Update | Verb::Patch if kind.custom.is_some() => Ok(ResourceEndpoint::NameMissing {
            patch: verb == Verb::Patch,
        }),
        _ => Err(EndpointError::Method),
    }
}

fn object_endpoint(
    kind: &ServedResource,
    target: &ResourcePath,
    verb: Option<Verb>,
) -> Result<ResourceEndpoint, EndpointError> {
    // A name without a namespace identifies no object.
    if kind.is_namespaced() && target.shape().scope != PathScope::Namespaced {
        return Err(EndpointError::Resource);
    }
    let Some(name) = target.subresource.as_deref() else {
        return main_endpoint(kind, target, verb);
    };
    let Some(subresource) = kind.resource.subresource(name) else {
        return Err(match kind.custom {
            Some(_) => EndpointError::Object,
            None => EndpointError::Resource,
        });
    };
    // Custom resources ignore path segments after the subresource.
    let deeper = target.shape().depth == PathDepth::Subpath && kind.custom.is_none();
    let goes_deeper = subresource.action == SubresourceAction::Connect(ConnectTarget::Proxy);
    // Subresources are not watched, and most have no subpaths.
    if target.watch || deeper && !goes_deeper {
        return Err(EndpointError::Resource);
    }
    subresource_endpoint(subresource, verb)
}

fn main_endpoint(
    kind: &ServedResource,
    target: &ResourcePath,
    verb: Option<Verb>,
) -> Result<ResourceEndpoint, EndpointError> {
    let verb = verb.ok_or(EndpointError::Method)?;
    if !kind.resource.verbs.contains(verb) {
        return Err(EndpointError::Method);
    }
    match verb {
        Verb::Watch if target.watch => Ok(ResourceEndpoint::WatchObject),
        Verb::Get => Ok(ResourceEndpoint::Get(SubresourceTarget::Main)),
        Verb::Update => Ok(ResourceEndpoint::Update(SubresourceTarget::Main)),
        Verb::Patch => Ok(ResourceEndpoint::Patch(SubresourceTarget::Main)),
        Verb::Delete => Ok(ResourceEndpoint::Delete),
        _ => Err(EndpointError::Method),
    }
}

fn subresource_endpoint(
    of: &Subresource,
    verb: Option<Verb>,
) -> Result<ResourceEndpoint, EndpointError> {
    if of.action == SubresourceAction::Connect(ConnectTarget::Proxy) {
        return Ok(ResourceEndpoint::Connect(ConnectTarget::Proxy));
    }
    let verb = verb.ok_or(EndpointError::Method)?;
    let part = match (of.action, verb) {
        (SubresourceAction::Evict, Verb::Create) => return Ok(ResourceEndpoint::Evict),
        (SubresourceAction::Token, Verb::Create) => return Ok(ResourceEndpoint::IssueToken),
        (SubresourceAction::Bind, Verb::Create) => return Ok(ResourceEndpoint::Bind),
        (SubresourceAction::Connect(ConnectTarget::Log), Verb::Get) => {
            return Ok(ResourceEndpoint::Connect(ConnectTarget::Log));
        }
        (
            SubresourceAction::Connect(
                what @ (ConnectTarget::ExecOrAttach | ConnectTarget::PortForward),
            ),
            Verb::Get | Verb::Create,
        ) => {
            return Ok(ResourceEndpoint::Connect(what));
        }
        (SubresourceAction::ReadOnly, Verb::Get) => SubresourceTarget::Main,
        (SubresourceAction::Status, _) => SubresourceTarget::Status,
        (SubresourceAction::Approve, _) => SubresourceTarget::Approval,
        (SubresourceAction::Finalize, _) => SubresourceTarget::Finalize,
        (SubresourceAction::EphemeralContainers, _) => {
            SubresourceTarget::PodSubresource(PodSubresource::EphemeralContainers)
        }
        (SubresourceAction::Resize, _) => SubresourceTarget::PodSubresource(PodSubresource::Resize),
        (SubresourceAction::Scale, _) => SubresourceTarget::Scale,
        _ => return Err(EndpointError::Method),
    };
    match verb {
        _ if !of.verbs.contains(verb) => Err(EndpointError::Method),
        Verb::Get => Ok(ResourceEndpoint::Get(part)),
        Verb::Update => Ok(ResourceEndpoint::Update(part)),
        Verb::Patch => Ok(ResourceEndpoint::Patch(part)),
        _ => Err(EndpointError::Method),
    }
}

fn review_endpoint(
    kind: &ServedResource,
    review: ReviewKind,
    target: &ResourcePath,
    verb: Option<Verb>,
) -> Result<ResourceEndpoint, EndpointError> {
    if target.name.is_some() {
        return Err(EndpointError::Resource);
    }
    if verb != Some(Verb::Create) {
        return Err(EndpointError::Method);
    }
    match kind.is_namespaced() && target.shape().scope != PathScope::Namespaced {
        true => Err(EndpointError::Resource),
        false => Ok(ResourceEndpoint::Review(review)),
    }
}

fn virtual_endpoint(
    deputy: VirtualResource,
    target: &ResourcePath,
    verb: Option<Verb>,
) -> Result<ResourceEndpoint, EndpointError> {
    match deputy {
        VirtualResource::Binding => match (target.name.is_some(), target.shape().scope, verb) {
            (false, PathScope::Namespaced, Some(Verb::Create)) => Ok(ResourceEndpoint::BindByBody),
            (false, PathScope::Namespaced, _) => Err(EndpointError::Method),
            _ => Err(EndpointError::Resource),
        },
        VirtualResource::ComponentStatus if target.subresource.is_some() || target.watch => {
            Err(EndpointError::Resource)
        }
        VirtualResource::ComponentStatus => match verb {
            Some(Verb::Get) => Ok(ResourceEndpoint::GetComponent),
            Some(Verb::List) => Ok(ResourceEndpoint::ListComponents),
            Some(Verb::Watch) => Err(EndpointError::Watch),
            _ => Err(EndpointError::Method),
        },
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::registry::served_resource::ResourceRegistry;
    use optik_auth::{PathShape, RequestInfo};
    use std::collections::{BTreeMap, BTreeSet};

    const METHODS: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "WATCH",
    ];

    fn path(kind: &ServedResource, shape: PathShape, subresource: &str) -> String {
        let resource = &kind.resource;
        let watch = if shape.watch { "/watch" } else { "" };
        let namespace = match shape.scope {
            PathScope::Cluster => "",
            PathScope::Namespaced => "/namespaces/n",
            PathScope::EmptyNamespace => "/namespaces/",
        };
        let rest = match shape.depth {
            PathDepth::Collection => String::new(),
            PathDepth::Object => "/o".to_owned(),
            PathDepth::Subresource => format!("/o/{subresource}"),
            PathDepth::Subpath => format!("/o/{subresource}/a/b"),
        };
        let group = match &*resource.group {
            "" => "api".to_owned(),
            group => format!("apis/{group}"),
        };
        let (version, plural) = (&resource.version, &resource.plural);
        format!("/{group}/{version}{watch}{namespace}/{plural}{rest}")
    }

    fn requested(method: &str, path: &str, query: &str) -> ResourceRequestInfo {
        match RequestInfo::new(method, path, query) {
            RequestInfo::Resource(request) => request,
            RequestInfo::NonResource(_) => panic!("{path} is about objects"),
        }
    }

    fn built_in() -> ResourceRegistry {
        ResourceRegistry::from_resources(optik_catalog::builtin())
    }

    /// Every kind, path shape, subresource and method.
    pub(in crate::server) fn every_request(
        kinds: &ResourceRegistry,
        mut check: impl FnMut(&ServedResource, PathShape, &str, &str, &ResourceRequestInfo),
    ) {
        for kind in &kinds.all {
            for shape in PathShape::all() {
                let parts = kind.resource.subresources.iter();
                let parts = parts.map(|part| &*part.name).chain(["nonsense"]);
                let deep = matches!(shape.depth, PathDepth::Subresource | PathDepth::Subpath);
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

    fn name(endpoint: ResourceEndpoint) -> String {
        let name = format!("{endpoint:?}");
        name.split(['(', ' ']).next().unwrap_or_default().to_owned()
    }

    #[test]
    fn endpoint_runs_the_verb_that_was_authorized() {
        let mut reached = BTreeMap::<String, BTreeSet<&str>>::new();
        every_request(&built_in(), |kind, _, _, method, request| {
            let Ok(endpoint) = ResourceEndpoint::find(kind, request) else {
                return;
            };
            let RequestVerb::Api(verb) = request.verb else {
                assert_eq!(
                    endpoint,
                    ResourceEndpoint::Connect(ConnectTarget::Proxy),
                    "{method}"
                );
                return;
            };
            assert_eq!(endpoint.verb(verb), verb, "{method} {request:?}");
            reached
                .entry(name(endpoint))
                .or_default()
                .insert(verb.as_str());
        });
        let reached: Vec<String> = reached
            .into_iter()
            .map(|(endpoint, verbs)| {
                let verbs: Vec<_> = verbs.into_iter().collect();
                format!("{endpoint}: {}", verbs.join(" "))
            })
            .collect();
        // All but the variant of custom resources (`NameMissing`).
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

    /// The verbs in discovery are those that have endpoints.
    #[test]
    fn discovery_verbs_and_endpoints_agree() {
        for kind in &built_in().all {
            let scope = match kind.is_namespaced() {
                true => PathScope::Namespaced,
                false => PathScope::Cluster,
            };
            let mut served = BTreeSet::new();
            for depth in [PathDepth::Collection, PathDepth::Object] {
                let shape = PathShape {
                    scope,
                    depth,
                    watch: false,
                };
                for (method, query) in METHODS.iter().flat_map(|it| [(*it, ""), (*it, "watch=1")]) {
                    let request = requested(method, &path(kind, shape, ""), query);
                    if ResourceEndpoint::find(kind, &request).is_ok() {
                        served.insert(request.verb.name());
                    }
                }
            }
            let listed: BTreeSet<_> = kind.resource.verbs.iter().map(Verb::as_str).collect();
            assert_eq!(served, listed, "{}", kind.resource.plural);
        }
    }

    /// The deprecated paths only watch objects and collections.
    #[test]
    fn deprecated_watch_paths_only_watch() {
        let mut watches = 0;
        every_request(&built_in(), |kind, shape, part, method, request| {
            if !shape.watch {
                return;
            }
            match ResourceEndpoint::find(kind, request) {
                Err(_) => {}
                Ok(ResourceEndpoint::Watch | ResourceEndpoint::WatchObject) => {
                    assert_eq!(method, "GET", "{request:?}");
                    watches += 1;
                }
                Ok(other) => panic!("{method} {shape:?} {part}: {other:?}"),
            }
        });
        assert!(watches > 200, "{watches}");
    }
}
