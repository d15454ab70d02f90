//! Who answers a path: documents about the server, or objects.

use super::{Asked, Shared};
use crate::admission::{Admission, Told};
use crate::discovery::{self, Part as DiscoveryPart};
use crate::documents::{document, root, versions};
use crate::exchange::{Request, Response};
use crate::kinds::{Kind, Kinds};
use crate::openapi;
use crate::query::Query;
use crate::reach;
use crate::route::{Route, Target, route};
use crate::write::{Part, PatchType};
use http::{HeaderValue, Method, StatusCode};
use optik_builtin::aspects::Aspect;
use optik_catalog::{Action, Hook, Verb};
use optik_object::Status;

/// A request about objects, and what is around it.
#[derive(Clone, Copy)]
struct About<'a> {
    request: &'a Request,
    target: &'a Target,
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
        let route = route(&request.path);
        if let Route::Objects(target) = &route {
            let kinds = self.kinds.for_target(&self.store, target).await?;
            let told = Told::default();
            let about = About {
                request,
                target,
                kinds: &kinds,
                admission,
                told: &told,
            };
            let answered = self.objects(about).await;
            return told.with(answered, request);
        }
        if request.method != Method::GET && !is_for_any_method(&route) {
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
            Route::Objects(_) | Route::Unknown => not_found(),
        })
    }

    async fn objects(&self, about: About<'_>) -> Result<Response, Status> {
        let About {
            request,
            target,
            kinds,
            ..
        } = about;
        let Some(kind) = kinds.find(&target.group, &target.version, &target.plural) else {
            return unknown(kinds, &target.group);
        };
        let as_get;
        let request = match request.method {
            // Custom kinds have no routes that would tell the two apart.
            Method::HEAD if kind.custom.is_some() => {
                as_get = Box::new(Request {
                    method: Method::GET,
                    ..request.clone()
                });
                &*as_get
            }
            _ => request,
        };
        let everywhere;
        let target = match target.namespace.as_deref() {
            Some("") if kind.is_namespaced() => {
                everywhere = Box::new(everywhere_of(kind, request, target)?);
                &*everywhere
            }
            _ => target,
        };
        let behaviour = &kind.resource.behaviour;
        if !kind.is_kept() && behaviour.review.is_none() && behaviour.deputy.is_none() {
            return Err(Status::resource_not_found());
        }
        if let Some(custom) = &kind.custom {
            // A path that makes no sense for a custom kind is nobody's.
            if !leads_somewhere(kind, request, target) {
                return Ok(not_found());
            }
            about.told.warn(custom.deprecation.clone());
        }
        let deprecation = kind.resource.behaviour.deprecation;
        about.told.warn(deprecation.map(str::to_owned));
        if target.namespace.is_some() && !kind.is_namespaced() {
            return Err(Status::resource_not_found());
        }
        if let Some(bad) = [&target.name, &target.namespace]
            .into_iter()
            .flatten()
            .find(|name| matches!(name.as_str(), "." | ".."))
        {
            return Err(Status::bad_request(format!(
                "Name parameter invalid: \"{bad}\": may not be '{bad}'"
            )));
        }
        let asked = Asked {
            request,
            kinds,
            kind,
            target,
            query: Query::parse(&request.query)?,
            admission: about.admission,
            told: about.told,
        };
        let hook = kind.resource.behaviour.hook;
        let answered = match (&target.name, behaviour.deputy) {
            (_, Some(deputy)) => self.stand_in(deputy, asked).await,
            _ if !kind.is_kept() => self.review(&asked),
            (None, None) => self.collection(asked).await,
            (Some(name), None) => self.object(asked, name).await,
        };
        if hook != Hook::None && request.method != Method::GET {
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
    async fn collection(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let across = asked.kind.is_namespaced() && asked.target.namespace.is_none();
        match asked.request.method {
            Method::GET => self.list_or_watch(asked).await,
            Method::POST if !across && asked.serves(Verb::Create) => {
                Box::pin(self.create(asked)).await
            }
            Method::DELETE if !across && asked.serves(Verb::DeleteCollection) => {
                Box::pin(self.delete_collection(asked)).await
            }
            // Custom kinds have no routes: what is missing is the name.
            Method::PUT | Method::PATCH if asked.kind.custom.is_some() => {
                if asked.request.method == Method::PATCH {
                    PatchType::of(asked.kind, &asked.request.headers)?;
                }
                Err(Status::bad_request("name must be provided"))
            }
            _ => Err(asked.refuse_method()),
        }
    }

    async fn object(&self, asked: Asked<'_>, name: &str) -> Result<Response, Status> {
        // Across namespaces a name says nothing.
        if asked.kind.is_namespaced() && asked.target.namespace.is_none() {
            return Err(Status::resource_not_found());
        }
        let part = match asked.target.subresource.as_deref() {
            None => Part::Main,
            Some(sub) => {
                let known = asked.kind.resource.subresource(sub);
                let known = known.ok_or_else(|| unknown_subresource(asked.kind, name))?;
                match (known.action, &asked.request.method) {
                    (Action::Status, _) => Part::Status,
                    (Action::Approve, _) => Part::Approval,
                    (Action::Finalize, _) => Part::Finalize,
                    (Action::Ephemeral, _) => Part::Aspect(Aspect::Ephemeral),
                    (Action::Resize, _) => Part::Aspect(Aspect::Resources),
                    (Action::Evict, &Method::POST) => {
                        return Box::pin(self.evict(asked, name)).await;
                    }
                    (Action::Scale, _) => Part::Scale,
                    (Action::Show, &Method::GET) => Part::Main,
                    (Action::Token, &Method::POST) => return self.issue_token(&asked, name).await,
                    (Action::Bind, &Method::POST) => {
                        return Box::pin(self.bind(asked, Some(name))).await;
                    }
                    (Action::Reach(what), method) if reach::serves(what, method) => {
                        let object = asked.object_name(name);
                        return reach::reach(&self.outside, asked.kind, object, what, &asked.query)
                            .await;
                    }
                    _ => return Err(asked.refuse_method()),
                }
            }
        };
        match asked.request.method {
            Method::GET if asked.target.watch => self.watch_one(&asked, name).await,
            Method::GET if asked.serves(Verb::Get) => self.get(asked, name, part).await,
            Method::PUT if asked.serves(Verb::Update) => {
                Box::pin(self.update(asked, name, part)).await
            }
            Method::PATCH if asked.serves(Verb::Patch) => {
                Box::pin(self.patch(asked, name, part)).await
            }
            Method::DELETE if part == Part::Main && asked.serves(Verb::Delete) => {
                Box::pin(self.delete(asked, name)).await
            }
            _ => Err(asked.refuse_method()),
        }
    }
}

/// Some documents are handed out whatever was to be done with them.
fn is_for_any_method(route: &Route) -> bool {
    matches!(
        route,
        Route::Groups | Route::Group(_) | Route::OpenApiV2 | Route::OpenApiV3(_)
    )
}

/// What is said of a path that leads nowhere depends on how far it got.
fn unknown(kinds: &Kinds, group: &str) -> Result<Response, Status> {
    if group.is_empty() || kinds.is_built_in(group) {
        return Err(Status::resource_not_found());
    }
    Ok(not_found())
}

/// A custom kind has no path for it, so it looks for an object.
fn unknown_subresource(kind: &Kind, name: &str) -> Status {
    match kind.custom {
        Some(_) => Status::not_found(kind.resource.name(), name),
        None => Status::resource_not_found(),
    }
}

/// A path with an empty namespace is about all of them, for who only looks.
fn everywhere_of(kind: &Kind, request: &Request, target: &Target) -> Result<Target, Status> {
    let looks = target.name.is_none() && request.method == Method::GET;
    // Custom kinds have an answer of their own to that.
    if !looks && kind.custom.is_none() {
        return Err(Status::bad_request("Namespace parameter required."));
    }
    Ok(Target {
        namespace: None,
        ..target.clone()
    })
}

/// Namespaces are for kinds that have them; across namespaces there is only reading.
fn leads_somewhere(kind: &Kind, request: &Request, target: &Target) -> bool {
    match (&target.namespace, kind.is_namespaced()) {
        (Some(_), namespaced) => namespaced,
        (None, false) => true,
        (None, true) => target.name.is_none() && request.method == Method::GET,
    }
}
