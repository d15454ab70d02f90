//! One request, one answer.

use crate::access::{AccessOptions, Accounts, Gate};
use crate::admission::hooks::{Asking, Hooks};
use crate::admission::policies::{CelJudge, Policies};
use crate::admission::{Admission, HookMetrics, Told, everybody};
use crate::body::{self, Decoded};
use crate::calling::{Caller, Nobody, Outside};
use crate::complaints::{Found, name_owners_once};
use crate::counted::counted;
use crate::definitions::DIRECTORY as DEFINITIONS;
use crate::discovery::{self, Part as DiscoveryPart};
use crate::documents::{document, root, versions};
use crate::exchange::{Request, Response, User};
use crate::form::{self, Form, Ink, Painter};
use crate::kinds::{Kind, Kinds};
use crate::lifetimes::Lifetimes;
use crate::list::{Listed, Listing, list};
use crate::live::LiveKinds;
use crate::negotiation::{self, Offer};
use crate::openapi;
use crate::options::{ListOptions, WatchForm};
use crate::press::Press;
use crate::query::Query;
use crate::reach;
use crate::read::{ObjectName, Shape, get};
use crate::route::{Route, Target, route};
use crate::selection::Selection;
use crate::watch::{self as watches, EncodedEvents, Surroundings, Watching};
use crate::write::{
    self, Change, Configuration, DeleteOptions, FieldValidation, OptionsKind, Ownership, Part,
    PatchType, WriteOptions, Writing, Written,
};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, StatusCode};
use optik_access::Tokens;
use optik_builtin::aspects::Aspect;
use optik_catalog::{Action, Hook, Verb};
use optik_object::{Object, Status, Tape, Timestamp};
use optik_platform::{Clock, Entropy, SystemClock, SystemEntropy};
use optik_store::{Origin, Snapshot, Store, Version};
use std::sync::Arc;
use tokio::sync::watch;

/// The API on a store.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) kinds: LiveKinds,
    pub(crate) clock: Arc<dyn Clock>,
    around_watches: Surroundings,
    press: Arc<Press>,
    outside: Outside,
    admission: Admission,
    lifetimes: Lifetimes,
    pub(crate) gate: Arc<Gate>,
    /// Tokens that reviews find good.
    pub(crate) tokens: Tokens,
    pub(crate) accounts: Option<Accounts>,
    hooks: Arc<Hooks>,
    policies: Arc<Policies>,
    hook_metrics: Arc<HookMetrics>,
}

/// Namespaces that exist from the beginning.
const SYSTEM_NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

impl ApiServer {
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self::reaching(store, Arc::new(Nobody))
    }

    /// With somebody who can reach the webhooks that are configured.
    #[must_use]
    pub fn reaching(store: Store, caller: Arc<dyn Caller>) -> Self {
        let (clock, entropy) = (SystemClock::default(), SystemEntropy);
        Self::with(store, Arc::new(clock), Arc::new(entropy), caller)
    }

    /// With time and chance of one's own.
    #[must_use]
    pub fn with(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        caller: Arc<dyn Caller>,
    ) -> Self {
        Self::with_access(store, clock, entropy, caller, AccessOptions::default())
    }

    /// And with a say in who may do what.
    #[must_use]
    pub fn with_access(
        store: Store,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        caller: Arc<dyn Caller>,
        access: AccessOptions,
    ) -> Self {
        let gate = Arc::new(Gate::new(access.authorization));
        let accounts = access.accounts.map(|options| {
            let (clock, entropy) = (Arc::clone(&clock), Arc::clone(&entropy));
            Accounts::new(options, store.clone(), clock, entropy)
        });
        let outside = Outside {
            caller,
            store: store.clone(),
            entropy: Arc::clone(&entropy),
        };
        let (hooks, hook_metrics) = (Arc::default(), Arc::default());
        let policies = Arc::default();
        let admission = everybody(
            &hooks,
            &policies,
            &gate,
            Asking {
                outside: outside.clone(),
                metrics: Arc::clone(&hook_metrics),
                judge: Some(Arc::new(CelJudge::new(&gate))),
            },
        );
        let around_watches = Surroundings {
            outside: outside.clone(),
            store: store.clone(),
            encoded: Arc::new(EncodedEvents::default()),
            entropy,
            clock: Arc::clone(&clock),
        };
        Self {
            shared: Arc::new(Shared {
                store,
                kinds: LiveKinds::new(Kinds::of(optik_catalog::builtin())),
                clock,
                around_watches,
                lifetimes: Lifetimes::default(),
                press: Arc::new(Press::new()),
                outside,
                admission,
                hooks,
                policies,
                hook_metrics,
                gate,
                tokens: access.tokens,
                accounts,
            }),
        }
    }

    /// Makes what every cluster has. Those that exist are left alone.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn bootstrap(&self) -> Result<(), Status> {
        let state = self.shared.store.latest().await;
        let state = state.map_err(crate::trouble::read_failed)?;
        self.open_definitions(&state);
        self.refresh_admission(&state);
        drop(state);
        let kinds = self.shared.kinds.current();
        for name in SYSTEM_NAMESPACES {
            let kind = kinds.find("", "v1", "namespaces");
            let kind = kind.ok_or_else(Status::resource_not_found)?;
            let there = self.shared.store.latest().await;
            let there = there.map_err(crate::trouble::read_failed)?;
            if there.get(kind.key(None, name).as_bytes()).is_some() {
                continue;
            }
            let mut object = Object::default();
            object.set_type(&kind.resource.kind, &kind.api_version);
            object.set_name(name);
            let nobody = (&User::default(), &Told::default());
            let origin = Origin::system("create");
            let writing = self.shared.own_writing(&kinds, kind, origin, nobody);
            match write::create(&writing, object).await {
                Ok(_) => {}
                // Another server on the same store.
                Err(status) if status.code() == 409 => {}
                Err(status) => return Err(status),
            }
        }
        self.bootstrap_roles().await
    }

    pub(crate) fn watch_kinds(&self) -> watch::Receiver<Arc<Kinds>> {
        self.shared.kinds.subscribe()
    }

    /// Compiles the definitions of a snapshot, and serves what they define.
    pub(crate) fn open_definitions(&self, state: &Snapshot) {
        self.shared.kinds.open(state);
    }

    /// Has those asked about writes that the configurations of a snapshot name.
    pub(crate) fn refresh_admission(&self, state: &Snapshot) {
        self.shared.hooks.refresh(state);
        self.shared.policies.refresh(state);
    }

    pub(crate) fn note_definitions(&self, versions: &[Arc<Version>]) {
        self.shared.kinds.note(versions);
    }

    /// Grants definitions their names. False if something is left to do.
    pub(crate) async fn settle_definitions(&self) -> bool {
        let kinds = self.shared.kinds.current();
        let Some(kind) = kinds.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return true;
        };
        let mut after = String::new();
        let mut settled = true;
        while let Some((name, object)) = self.shared.kinds.unsettled(&after, self.shared.now()) {
            let mut origin = Origin::system("update");
            origin.manager = "kube-apiserver".into();
            let nobody = (&User::default(), &Told::default());
            let writing = self.shared.own_writing(&kinds, kind, origin, nobody);
            match write::update(&writing, &name, Part::Status, object).await {
                Ok(_) => {}
                // Somebody else wrote or deleted it: it comes again through the watch.
                Err(status) if matches!(status.code(), 404 | 409) => {}
                Err(status) => {
                    tracing::warn!("cannot settle the definition {name}: {}", status.message());
                    settled = false;
                }
            }
            // What was granted counts before the next one is looked at.
            let key = format!("{DEFINITIONS}{name}");
            let state = self.shared.store.snapshot();
            if let Some(version) = state.get(key.as_bytes()) {
                self.shared.kinds.note(&[Arc::clone(version)]);
            }
            after = name;
        }
        settled
    }

    /// The kinds of this moment.
    pub(crate) fn current_kinds(&self) -> Arc<Kinds> {
        self.shared.kinds.current()
    }

    /// How many objects there are of each kind, as Prometheus reads it.
    pub async fn metrics(&self) -> String {
        let (kinds, state) = (self.shared.kinds.current(), self.shared.store.snapshot());
        let counted = tokio::task::spawn_blocking(move || counted(&kinds, &state)).await;
        counted.unwrap_or_default() + &self.shared.hook_metrics.page()
    }

    /// Answers one request. Never panics, never waits longer than the request asks for.
    pub async fn handle(&self, request: Request) -> Response {
        let admission = Some(&self.shared.admission);
        let answered = self.shared.answer(&request, admission).await;
        answered.unwrap_or_else(|status| Response::refused(&status, &request.headers))
    }

    /// The same for a part of the server whose writes are nobody else's concern.
    pub async fn handle_unadmitted(&self, request: Request) -> Response {
        let answered = self.shared.answer(&request, None).await;
        answered.unwrap_or_else(|status| Response::refused(&status, &request.headers))
    }
}

fn not_found() -> Response {
    Response::text(StatusCode::NOT_FOUND, "404 page not found\n").with_header(
        http::header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    )
}

impl Shared {
    async fn answer(
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
            // What decides about writes counts from the next one on.
            if target.group == "admissionregistration.k8s.io" && request.method != Method::GET {
                let state = self.store.snapshot();
                self.hooks.refresh(&state);
                self.policies.refresh(&state);
            }
            return told.with(answered, request);
        }
        if request.method != Method::GET {
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

    pub(crate) fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.clock.wall().0).unwrap_or(i64::MAX);
        Timestamp::from_seconds(millis / 1000)
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
        if !kind.is_kept() && kind.resource.behaviour.review.is_none() {
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
        let answered = match &target.name {
            _ if !kind.is_kept() => self.review(&asked),
            None => self.collection(asked).await,
            Some(name) => self.object(asked, name).await,
        };
        // What was written about access is in force before the writer hears of it.
        if matches!(hook, Hook::Role | Hook::Binding) && request.method != Method::GET {
            self.gate.catch_up(&self.store.snapshot());
        }
        answered
    }

    async fn collection(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let across = asked.kind.is_namespaced() && asked.target.namespace.is_none();
        match asked.request.method {
            Method::GET => self.list_or_watch(asked).await,
            Method::POST if !across && asked.serves(Verb::Create) => self.create(asked).await,
            Method::DELETE if !across && asked.serves(Verb::DeleteCollection) => {
                self.delete_collection(asked).await
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    async fn list_or_watch(&self, asked: Asked<'_>) -> Result<Response, Status> {
        if !asked.serves(Verb::List) {
            return Err(Status::method_not_allowed());
        }
        let form = match (asked.target.watch, asked.query.flag("watch")) {
            (true, _) => Some(WatchForm::Path),
            (false, Some(true)) => Some(WatchForm::Query),
            _ => None,
        };
        let wanted = match form {
            None => asked.list_form()?,
            Some(_) => asked.stream_form()?,
        };
        let options = ListOptions::read(&asked.query)?;
        let kind = Arc::clone(asked.kind);
        let namespace = asked.target.namespace.clone();
        let selection = Selection::read(&asked.query, &kind)?;
        let Some(form) = form else {
            let plan = options.list(&kind)?;
            form::check_list(wanted, &kind)?;
            let listing = Listing {
                kind,
                namespace,
                selection,
                plan,
                ink: Ink::of(wanted, &*self.clock),
            };
            let response = match list(&self.outside, &self.press, listing).await? {
                Listed::Whole(body) => Response::json(StatusCode::OK, body),
                Listed::Pieces(pieces) => Response::json_stream(pieces),
            };
            return Ok(response.with_header(CONTENT_TYPE, wanted.encoding.media_type()));
        };
        let plan = options.watch(form)?;
        let watching = Watching {
            kind,
            namespace,
            selection,
            plan,
            form: wanted,
        };
        Ok(self.watching(watching).await)
    }

    async fn watching(&self, watching: Watching) -> Response {
        let media_type = watching.form.encoding.stream_type();
        let pieces = watches::watch(&self.around_watches, watching).await;
        Response::json_stream(pieces).with_header(CONTENT_TYPE, media_type)
    }

    /// An answer in the form that was asked for.
    pub(crate) fn formed(
        &self,
        form: Form,
        kind: &Kind,
        status: StatusCode,
        body: Bytes,
    ) -> Result<Response, Status> {
        if form.is_plain() {
            return Ok(Response::json(status, body));
        }
        let mut tape = Tape::default();
        let body = Painter::new(form, kind, &*self.clock, &mut tape).answer(&body)?;
        let response = Response::json(status, body);
        Ok(response.with_header(CONTENT_TYPE, form.encoding.media_type()))
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
                    (Action::Finalize, _) => Part::Finalize,
                    (Action::Ephemeral, _) => Part::Aspect(Aspect::Ephemeral),
                    (Action::Resize, _) => Part::Aspect(Aspect::Resources),
                    (Action::Evict, &Method::POST) => return self.evict(asked, name).await,
                    (Action::Scale, _) => Part::Scale,
                    (Action::Show, &Method::GET) => Part::Main,
                    (Action::Token, &Method::POST) => return self.issue_token(&asked, name).await,
                    (Action::Bind, &Method::POST) => return self.bind(asked, name).await,
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
            Method::PUT if asked.serves(Verb::Update) => self.update(asked, name, part).await,
            Method::PATCH if asked.serves(Verb::Patch) => self.patch(asked, name, part).await,
            Method::DELETE if part == Part::Main && asked.serves(Verb::Delete) => {
                self.delete(asked, name).await
            }
            _ => Err(asked.refuse_method()),
        }
    }

    async fn get(&self, asked: Asked<'_>, name: &str, part: Part) -> Result<Response, Status> {
        let form = asked.form()?;
        let object = asked.object_name(name);
        let revision = asked.query.text("resourceVersion");
        let shape = match part {
            Part::Scale => Shape::Scale,
            Part::Main | Part::Status | Part::Finalize | Part::Aspect(_) => Shape::Whole,
        };
        let body = get(&self.outside, asked.kind, object, shape, revision).await?;
        self.formed(form, part.kind(asked.kind), StatusCode::OK, body)
    }

    /// The deprecated `/watch/…/{name}`.
    async fn watch_one(&self, asked: &Asked<'_>, name: &str) -> Result<Response, Status> {
        let form = asked.stream_form()?;
        let plan = ListOptions::read(&asked.query)?.watch(WatchForm::Path)?;
        let text = format!("fieldSelector=metadata.name%3D{name}");
        let selection = Selection::read(&Query::parse(&text)?, asked.kind)?;
        let watching = Watching {
            kind: Arc::clone(asked.kind),
            namespace: asked.target.namespace.clone(),
            selection,
            plan,
            form,
        };
        Ok(self.watching(watching).await)
    }

    async fn create(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let form = asked.form()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let object = asked.decode(Part::Main, &options)?;
        let writing = asked.writing(self, options, "create");
        let written = write::create(&writing, object).await?;
        self.respond(form, asked.kind, written)
    }

    async fn update(&self, asked: Asked<'_>, name: &str, part: Part) -> Result<Response, Status> {
        let form = asked.form()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Update)?;
        let object = asked.decode(part, &options)?;
        let mut writing = asked.writing(self, options, "update");
        writing.creation = self.may_create(&asked, name);
        let written = write::update(&writing, name, part, object).await?;
        self.respond(form, part.kind(asked.kind), written)
    }

    async fn patch(&self, asked: Asked<'_>, name: &str, part: Part) -> Result<Response, Status> {
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let patch_type = PatchType::of(asked.kind, headers)?;
        let form = asked.form()?;
        if patch_type == PatchType::Apply {
            return self.apply(asked, name, part, form).await;
        }
        let options = WriteOptions::read(&asked.query, OptionsKind::Patch)?;
        let validation = options.validation;
        let writing = asked.writing(self, options, "patch");
        writing.check_exists(name).await?;
        let change = Change::read(asked.kind, headers, body, validation)?;
        let written = write::patch(&writing, name, part, &change).await?;
        self.respond(form, part.kind(asked.kind), written)
    }

    async fn apply(
        &self,
        asked: Asked<'_>,
        name: &str,
        part: Part,
        form: Form,
    ) -> Result<Response, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Apply)?;
        let force = asked.query.flag("force").unwrap_or(false);
        let kind = part.kind(asked.kind);
        let config = Configuration::read(kind, &asked.request.body, force)?;
        if options.validation != FieldValidation::Ignore {
            asked.told.warn(config.duplicates.iter().cloned());
        }
        let mut writing = asked.writing(self, options, "apply");
        writing.ownership = Ownership::Recorded;
        writing.creation = self.may_create(&asked, name);
        let written = write::apply(&writing, name, part, &config).await?;
        self.respond(form, kind, written)
    }

    async fn bind(&self, asked: Asked<'_>, name: &str) -> Result<Response, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let binding =
            body::decode_as("v1", "Binding", &asked.request.headers, &asked.request.body)?;
        let writing = asked.writing(self, options, "create");
        write::bind(&writing, name, binding).await?;
        Ok(Response::from(Status::success(201)))
    }

    async fn evict(&self, asked: Asked<'_>, name: &str) -> Result<Response, Status> {
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let (headers, body) = (&asked.request.headers, &asked.request.body);
        let eviction = body::decode_as("policy/v1", "Eviction", headers, body)?;
        let how = DeleteOptions::of(eviction.get("deleteOptions"), options.dry_run)?;
        let writing = asked.writing(self, options, "create");
        write::evict(&writing, name, &eviction, &how).await?;
        Ok(Response::from(Status::success(201)))
    }

    async fn delete(&self, asked: Asked<'_>, name: &str) -> Result<Response, Status> {
        let form = asked.form()?;
        let options = asked.delete_options()?;
        let writing = asked.writing(self, WriteOptions::default(), "delete");
        let deleted = write::delete(&writing, name, &options).await?;
        let status = if deleted.pending && options.orphan == Some(false) {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        };
        self.formed(form, asked.kind, status, deleted.body)
    }

    async fn delete_collection(&self, asked: Asked<'_>) -> Result<Response, Status> {
        let form = asked.form()?;
        let options = asked.delete_options()?;
        let selection = Selection::read(&asked.query, asked.kind)?;
        let writing = asked.writing(self, WriteOptions::default(), "deletecollection");
        let body = write::delete_all(&writing, &selection, &options).await?;
        self.formed(form, asked.kind, StatusCode::OK, body)
    }

    fn respond(&self, form: Form, kind: &Kind, written: Written) -> Result<Response, Status> {
        let status = if written.created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        self.formed(form, kind, status, written.body)
    }

    /// What the server writes for itself. Nobody else has a say in it, and nobody is told.
    pub(crate) fn own_writing<'a>(
        &'a self,
        kinds: &'a Kinds,
        kind: &'a Arc<Kind>,
        origin: Origin,
        (user, told): (&'a User, &'a Told),
    ) -> Writing<'a> {
        Writing {
            store: &self.store,
            outside: &self.outside,
            clock: &*self.clock,
            entropy: &*self.around_watches.entropy,
            lifetimes: &self.lifetimes,
            kinds,
            kind,
            namespace: None,
            user,
            admission: None,
            options: WriteOptions::default(),
            ownership: Ownership::default(),
            origin,
            told,
            creation: Ok(()),
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

/// A custom kind has no path for it, so it looks for an object.
fn unknown_subresource(kind: &Kind, name: &str) -> Status {
    match kind.custom {
        Some(_) => Status::not_found(kind.resource.name(), name),
        None => Status::resource_not_found(),
    }
}

/// Namespaces are for kinds that have them; across namespaces there is only reading.
fn leads_somewhere(kind: &Kind, request: &Request, target: &Target) -> bool {
    match (&target.namespace, kind.is_namespaced()) {
        (Some(_), namespaced) => namespaced,
        (None, false) => true,
        (None, true) => target.name.is_none() && request.method == Method::GET,
    }
}

/// A request about objects, and what is around it.
#[derive(Clone, Copy)]
struct About<'a> {
    request: &'a Request,
    target: &'a Target,
    kinds: &'a Kinds,
    admission: Option<&'a Admission>,
    told: &'a Told,
}

/// A request about objects of a kind.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    pub(crate) kinds: &'a Kinds,
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) target: &'a Target,
    pub(crate) query: Query<'a>,
    admission: Option<&'a Admission>,
    pub(crate) told: &'a Told,
}

impl<'a> Asked<'a> {
    /// Whether the resource, or the subresource asked for, has this verb.
    fn serves(&self, verb: Verb) -> bool {
        let resource = &self.kind.resource;
        match self.target.subresource.as_deref() {
            None => resource.verbs.contains(verb),
            Some(sub) => resource
                .subresource(sub)
                .is_some_and(|sub| sub.verbs.contains(verb)),
        }
    }

    fn object_name<'n>(&'n self, name: &'n str) -> ObjectName<'n> {
        ObjectName {
            namespace: self.target.namespace.as_deref(),
            name,
        }
    }

    /// Custom kinds say which verb it is that they do not have.
    fn refuse_method(&self) -> Status {
        let verb = match self.request.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "get",
        };
        match self.kind.custom {
            Some(_) => Status::method_not_supported(self.kind.resource.name(), verb),
            None => Status::method_not_allowed(),
        }
    }

    /// The form its answer is wanted in.
    pub(crate) fn form(&self) -> Result<Form, Status> {
        negotiation::form(&self.request.headers, &self.query, self.offer())
    }

    fn list_form(&self) -> Result<Form, Status> {
        negotiation::list_form(&self.request.headers, &self.query, self.offer())
    }

    fn stream_form(&self) -> Result<Form, Status> {
        negotiation::stream_form(&self.request.headers, &self.query, self.offer())
    }

    fn offer(&self) -> Offer {
        match self.kind.custom {
            Some(_) => Offer::NoWholeProtobuf,
            None => Offer::Everything,
        }
    }

    /// The object of the body. What is odd about it the client is told.
    pub(crate) fn decode(&self, part: Part, options: &WriteOptions) -> Result<Object, Status> {
        let kind = part.kind(self.kind);
        let Decoded {
            mut object,
            warnings,
        } = body::decode(self.kinds, kind, self.request, options.validation)?;
        self.told.warn(warnings);
        self.told
            .warn(name_owners_once(&mut object, Found::InTheBody));
        Ok(object)
    }

    fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let request = self.request;
        DeleteOptions::read(&self.query, &request.headers, &request.body)
    }

    pub(crate) fn writing(
        &self,
        shared: &'a Shared,
        options: WriteOptions,
        verb: &str,
    ) -> Writing<'a> {
        let origin = origin(&self.request.user, self.request, &options, verb);
        Writing {
            store: &shared.store,
            outside: &shared.outside,
            clock: &*shared.clock,
            entropy: &*shared.around_watches.entropy,
            lifetimes: &shared.lifetimes,
            kinds: self.kinds,
            kind: self.kind,
            namespace: self.target.namespace.as_deref(),
            user: &self.request.user,
            admission: self.admission,
            options,
            ownership: Ownership::default(),
            origin,
            told: self.told,
            creation: Ok(()),
        }
    }
}

/// Who writes, for those who ask later.
fn origin(user: &User, request: &Request, options: &WriteOptions, verb: &str) -> Origin {
    let agent = request.headers.get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("");
    // Without a name of its own, a manager is called by its program.
    let manager = match options.manager.as_str() {
        "" => agent.split('/').next().unwrap_or(""),
        manager => manager,
    };
    Origin {
        user: user.name.clone(),
        agent: agent.into(),
        manager: manager.into(),
        verb: verb.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers answer on many threads.
    #[test]
    fn answers_can_move_between_threads() {
        fn check<T: Send>(_: impl FnOnce(ApiServer, Request) -> T) {}
        check(|server, request| async move { server.handle(request).await });
    }
}
