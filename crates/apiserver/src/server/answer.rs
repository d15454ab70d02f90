//! Who answers a request: documents about the server, or objects.

use super::endpoint::{Endpoint, NoEndpoint};
use super::{Asked, Shared};
use crate::admission::{Admission, Told};
use crate::discovery::{self, Part as DiscoveryPart};
use crate::documents::{document, root, versions};
use crate::exchange::{Request, Response};
use crate::kinds::Kinds;
use crate::openapi;
use crate::query::Query;
use crate::reach;
use crate::route::Route;
use crate::write::PatchType;
use http::{HeaderValue, StatusCode};
use optik_access::{Leads, NonResourceRequest, PathScope, RequestInfo, ResourceRequest, Target};
use optik_catalog::{Hook, Verb};
use optik_object::Status;
use std::borrow::Cow;

/// A request about objects, and what is around it.
#[derive(Clone, Copy)]
struct About<'a> {
    request: &'a Request,
    of: &'a ResourceRequest,
    kinds: &'a Kinds,
    admission: Option<&'a Admission>,
    told: &'a Told,
}

fn not_found() -> Response {
    Response::text(StatusCode::NOT_FOUND, "404 page not found\n").with_header(
        http::header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    )
}

impl Shared {
    pub(super) async fn answer(
        &self,
        request: &Request,
        admission: Option<&Admission>,
    ) -> Result<Response, Status> {
        let of = match &*request.info {
            RequestInfo::Resource(of) => of,
            RequestInfo::NonResource(of) => return self.document(request, of).await,
        };
        let kinds = self.kinds.for_target(&self.store, &of.target).await?;
        let told = Told::default();
        let about = About {
            request,
            of,
            kinds: &kinds,
            admission,
            told: &told,
        };
        let answered = self.objects(about).await;
        told.with(answered, request)
    }

    async fn document(
        &self,
        request: &Request,
        of: &NonResourceRequest,
    ) -> Result<Response, Status> {
        let route = Route::of(of);
        if of.verb != Verb::Get.name() && !route.is_for_any_method() {
            return Err(Status::method_not_allowed());
        }
        let kinds = &*self.kinds.current();
        Ok(match &route {
            Route::Root => root(kinds),
            Route::CoreVersions => versions(kinds, request, DiscoveryPart::Core)?,
            Route::Groups => versions(kinds, request, DiscoveryPart::Named)?,
            Route::Group(name) => match discovery::group(kinds, name) {
                Some(group) => document(request, &group)?,
                None => not_found(),
            },
            Route::GroupVersion { group, version } => {
                if !kinds.has_version(group, version) {
                    return unknown(kinds, group);
                }
                let list = discovery::resource_list(kinds, group, version);
                document(request, &list)?
            }
            Route::OpenApiV2 => openapi::v2(kinds, request).await?,
            Route::OpenApiV3(path) if path.is_empty() => openapi::index(kinds),
            Route::OpenApiV3(path) => openapi::v3(kinds, request, path, &*self.clock).await?,
            Route::OpenIdConfiguration | Route::OpenIdKeys => self.open_id(&route),
            Route::UnknownOfCore => return Err(Status::resource_not_found()),
            Route::Unknown => not_found(),
        })
    }

    async fn objects(&self, about: About<'_>) -> Result<Response, Status> {
        let About {
            request, of, kinds, ..
        } = about;
        let target = &of.target;
        match target.leads {
            Leads::Somewhere => {}
            Leads::NowhereOfCore => return Err(Status::resource_not_found()),
            Leads::Nowhere => return Ok(not_found()),
        }
        let Some(kind) = kinds.find(&target.group, &target.version, &target.plural) else {
            return unknown(kinds, &target.group);
        };
        let endpoint = Endpoint::find(kind, of);
        if endpoint.as_ref().err() == Some(&NoEndpoint::Path) {
            return Ok(not_found());
        }
        if let Some(custom) = &kind.custom {
            about.told.warn(custom.deprecation.clone());
        }
        let deprecation = kind.resource.behaviour.deprecation;
        about.told.warn(deprecation.map(str::to_owned));
        let endpoint = match endpoint {
            Ok(endpoint) => endpoint,
            Err(why) => return why.status(kind, of).map_or_else(|| Ok(not_found()), Err),
        };
        let target = across_if_empty(target);
        let asked = Asked {
            request,
            kinds,
            kind,
            target: &target,
            query: Query::parse(&request.query)?,
            admission: about.admission,
            told: about.told,
        };
        let answered = self.carry_out(endpoint, asked).await;
        let hook = kind.resource.behaviour.hook;
        if hook != Hook::None && !request.info.is_read() {
            self.take_effect(hook);
        }
        answered
    }

    /// What was written about access and about writes is in force before the writer hears
    /// of it. What defines kinds, whoever needs it waits for.
    fn take_effect(&self, hook: Hook) {
        match hook {
            Hook::Role | Hook::Binding => self.gate.catch_up(&self.store.snapshot()),
            Hook::Webhooks => self.hooks.refresh(&self.store.snapshot()),
            Hook::Policies => self.policies.refresh(&self.store.snapshot()),
            Hook::None | Hook::Definition | Hook::ApiService => {}
        }
    }

    /// Writes are boxed: they need much room, which reads would carry around, too.
    async fn carry_out(&self, endpoint: Endpoint, asked: Asked<'_>) -> Result<Response, Status> {
        let target = asked.target;
        let name = target.name.as_deref().unwrap_or_default();
        match endpoint {
            Endpoint::List => self.list(asked).await,
            Endpoint::Watch => self.watch(asked).await,
            Endpoint::WatchObject => self.watch_one(&asked, name).await,
            Endpoint::Get(part) => self.get(asked, name, part).await,
            Endpoint::Create => Box::pin(self.create(asked)).await,
            Endpoint::Update(part) => Box::pin(self.update(asked, name, part)).await,
            Endpoint::Patch(part) => Box::pin(self.patch(asked, name, part)).await,
            Endpoint::Delete => Box::pin(self.delete(asked, name)).await,
            Endpoint::DeleteCollection => Box::pin(self.delete_collection(asked)).await,
            Endpoint::Evict => Box::pin(self.evict(asked, name)).await,
            Endpoint::Bind => Box::pin(self.bind(asked, Some(name))).await,
            Endpoint::BindByBody => Box::pin(self.bind_by_body(asked)).await,
            Endpoint::IssueToken => Box::pin(self.issue_token(&asked, name)).await,
            Endpoint::Review(review) => self.review(review, &asked),
            Endpoint::ListComponents => self.list_components(&asked).await,
            Endpoint::GetComponent => self.get_component(&asked, name).await,
            Endpoint::Connect(what) => {
                let object = asked.object_name(name);
                reach::reach(&self.outside, asked.kind, object, what, &asked.query).await
            }
            Endpoint::NameMissing { patch } => {
                if patch {
                    PatchType::of(asked.kind, &asked.request.headers)?;
                }
                Err(Status::bad_request("name must be provided"))
            }
        }
    }
}

/// What is said of a path that leads nowhere depends on how far it got.
fn unknown(kinds: &Kinds, group: &str) -> Result<Response, Status> {
    if group.is_empty() || kinds.is_built_in(group) {
        return Err(Status::resource_not_found());
    }
    Ok(not_found())
}

/// A place for a namespace with nothing in it means all of them. Only lists and watches
/// get this far with one.
fn across_if_empty(target: &Target) -> Cow<'_, Target> {
    match target.shape().scope {
        PathScope::EmptyNamespace => Cow::Owned(Target {
            namespace: None,
            ..target.clone()
        }),
        PathScope::Cluster | PathScope::Namespaced => Cow::Borrowed(target),
    }
}
