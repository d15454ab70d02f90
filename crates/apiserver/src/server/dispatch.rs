//! Dispatches a request: non-resource documents, or objects.

use crate::admission::{AdmissionChain, WarningRecorder};
use crate::handlers::connect;
use crate::handlers::discovery::{self, DiscoveryRoot as DiscoveryPart};
use crate::handlers::discovery_handler::{discovery_root, negotiated_document, root_paths};
use crate::handlers::openapi;
use crate::handlers::write::PatchType;
use crate::registry::served_resource::ResourceRegistry;
use crate::request::http_types::{ApiRequest, ApiResponse};
use crate::request::query::Query;
use crate::request::route::Route;
use crate::server::endpoint::{EndpointError, ResourceEndpoint};
use crate::server::{ApiServerInner, RequestScope};
use http::{HeaderValue, StatusCode};
use optik_auth::{
    NonResourceRequestInfo, PathScope, RequestInfo, ResourcePath, ResourceRequestInfo, RouteMatch,
};
use optik_catalog::{SpecialKind, Verb};
use optik_object::Status;
use std::borrow::Cow;

/// A request about objects, with its context.
#[derive(Clone, Copy)]
struct RequestContext<'a> {
    request: &'a ApiRequest,
    resource_request: &'a ResourceRequestInfo,
    registry: &'a ResourceRegistry,
    admission: Option<&'a AdmissionChain>,
    recorder: &'a WarningRecorder,
}

fn not_found() -> ApiResponse {
    ApiResponse::text(StatusCode::NOT_FOUND, "404 page not found\n").with_header(
        http::header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    )
}

impl ApiServerInner {
    pub(super) async fn dispatch(
        &self,
        request: &ApiRequest,
        admission: Option<&AdmissionChain>,
    ) -> Result<ApiResponse, Status> {
        let of = match &*request.info {
            RequestInfo::Resource(of) => of,
            RequestInfo::NonResource(of) => return self.dispatch_non_resource(request, of).await,
        };
        let kinds = self.registry.for_target(&self.store, &of.target).await?;
        let told = WarningRecorder::default();
        let about = RequestContext {
            request,
            resource_request: of,
            registry: &kinds,
            admission,
            recorder: &told,
        };
        let answered = self.dispatch_resource(about).await;
        told.attach_to(answered, request)
    }

    async fn dispatch_non_resource(
        &self,
        request: &ApiRequest,
        of: &NonResourceRequestInfo,
    ) -> Result<ApiResponse, Status> {
        let route = Route::from_request(of);
        if of.verb != Verb::Get.as_str() && !route.allows_any_method() {
            return Err(Status::method_not_allowed());
        }
        let kinds = &*self.registry.current();
        Ok(match &route {
            Route::Root => root_paths(kinds),
            Route::CoreVersions => discovery_root(kinds, request, DiscoveryPart::Api)?,
            Route::Groups => discovery_root(kinds, request, DiscoveryPart::Apis)?,
            Route::Group(name) => match discovery::group(kinds, name) {
                Some(group) => negotiated_document(request, &group)?,
                None => not_found(),
            },
            Route::GroupVersion { group, version } => {
                if !kinds.has_version(group, version) {
                    return unknown_resource(kinds, group);
                }
                let list = discovery::resource_list(kinds, group, version);
                negotiated_document(request, &list)?
            }
            Route::OpenApiV2 => openapi::v2(kinds, request).await?,
            Route::OpenApiV3(path) if path.is_empty() => openapi::v3_index(kinds),
            Route::OpenApiV3(path) => openapi::v3(kinds, request, path, &*self.clock).await?,
            Route::OpenIdConfiguration | Route::OpenIdKeys => self.openid_document(&route),
            Route::UnknownOfCore => return Err(Status::resource_not_found()),
            Route::Unknown => not_found(),
        })
    }

    async fn dispatch_resource(&self, about: RequestContext<'_>) -> Result<ApiResponse, Status> {
        let RequestContext {
            request,
            resource_request: of,
            registry: kinds,
            ..
        } = about;
        let target = &of.target;
        match target.route {
            RouteMatch::Matched => {}
            RouteMatch::UnmatchedCore => return Err(Status::resource_not_found()),
            RouteMatch::Unmatched => return Ok(not_found()),
        }
        let Some(kind) = kinds.find(&target.group, &target.version, &target.plural) else {
            return unknown_resource(kinds, &target.group);
        };
        let endpoint = ResourceEndpoint::find(kind, of);
        if endpoint.as_ref().err() == Some(&EndpointError::Path) {
            return Ok(not_found());
        }
        if let Some(custom) = &kind.custom {
            about.recorder.warn(custom.deprecation.clone());
        }
        let deprecation = kind.resource.strategy_options.deprecation_warning;
        about.recorder.warn(deprecation.map(str::to_owned));
        let endpoint = match endpoint {
            Ok(endpoint) => endpoint,
            Err(why) => return why.status(kind, of).map_or_else(|| Ok(not_found()), Err),
        };
        let target = all_namespaces_if_empty(target);
        let asked = RequestScope {
            request,
            registry: kinds,
            kind,
            target: &target,
            query: Query::parse(&request.query)?,
            admission: about.admission,
            recorder: about.recorder,
        };
        let answered = self.run_endpoint(endpoint, asked).await;
        let hook = kind.resource.strategy_options.special_kind;
        if hook != SpecialKind::None && !request.info.is_read() {
            self.refresh_compiled(hook);
        }
        answered
    }

    /// Refreshes the compiled RBAC and admission configuration after a write to it, so that it is
    /// in force before the response is sent. CRDs are compiled by the controller; requests that
    /// need one wait.
    fn refresh_compiled(&self, hook: SpecialKind) {
        match hook {
            SpecialKind::Role | SpecialKind::Binding => {
                self.authorizer.refresh(&self.store.snapshot());
            }
            SpecialKind::Webhooks => self.webhooks.refresh(&self.store.snapshot()),
            SpecialKind::Policies => self.policies.refresh(&self.store.snapshot()),
            SpecialKind::None | SpecialKind::CustomResourceDefinition | SpecialKind::ApiService => {
            }
        }
    }

    /// Writes are boxed: their futures are large, and reads would carry that size, too.
    async fn run_endpoint(
        &self,
        endpoint: ResourceEndpoint,
        asked: RequestScope<'_>,
    ) -> Result<ApiResponse, Status> {
        let target = asked.target;
        let name = target.name.as_deref().unwrap_or_default();
        match endpoint {
            ResourceEndpoint::List => self.list(asked).await,
            ResourceEndpoint::Watch => self.watch(asked).await,
            ResourceEndpoint::WatchObject => self.watch_object(&asked, name).await,
            ResourceEndpoint::Get(part) => self.get(asked, name, part).await,
            ResourceEndpoint::Create => Box::pin(self.create(asked)).await,
            ResourceEndpoint::Update(part) => Box::pin(self.update(asked, name, part)).await,
            ResourceEndpoint::Patch(part) => Box::pin(self.patch(asked, name, part)).await,
            ResourceEndpoint::Delete => Box::pin(self.delete(asked, name)).await,
            ResourceEndpoint::DeleteCollection => Box::pin(self.delete_collection(asked)).await,
            ResourceEndpoint::Evict => Box::pin(self.evict(asked, name)).await,
            ResourceEndpoint::Bind => Box::pin(self.bind(asked, Some(name))).await,
            ResourceEndpoint::BindByBody => Box::pin(self.bind_by_body(asked)).await,
            ResourceEndpoint::IssueToken => Box::pin(self.issue_token(&asked, name)).await,
            ResourceEndpoint::Review(review) => self.review(review, &asked),
            ResourceEndpoint::ListComponents => self.list_components(&asked).await,
            ResourceEndpoint::GetComponent => self.get_component(&asked, name).await,
            ResourceEndpoint::Connect(what) => {
                let object = asked.object_name(name);
                connect::connect(&self.webhook_client, asked.kind, object, what, &asked.query).await
            }
            ResourceEndpoint::NameMissing { patch } => {
                if patch {
                    PatchType::from_headers(asked.kind, &asked.request.headers)?;
                }
                Err(Status::bad_request("name must be provided"))
            }
        }
    }
}

/// The error for an unknown path depends on whether its group is served.
fn unknown_resource(kinds: &ResourceRegistry, group: &str) -> Result<ApiResponse, Status> {
    if group.is_empty() || kinds.is_built_in(group) {
        return Err(Status::resource_not_found());
    }
    Ok(not_found())
}

/// An empty namespace in the path means all namespaces. Only lists and watches reach this with one.
fn all_namespaces_if_empty(target: &ResourcePath) -> Cow<'_, ResourcePath> {
    match target.shape().scope {
        PathScope::EmptyNamespace => Cow::Owned(ResourcePath {
            namespace: None,
            ..target.clone()
        }),
        PathScope::Cluster | PathScope::Namespaced => Cow::Borrowed(target),
    }
}
