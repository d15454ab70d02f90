//! Requests about access itself.

use super::bootstrap::{Planned, plan};
use super::flows::FlowMarks;
use super::reviews::{Reviewer, Verdict};
use super::token_request_kind;
use crate::body;
use crate::exchange::{Response, User};
use crate::kinds::Kinds;
use crate::route::Route;
use crate::server::{ApiServer, Asked, Own, Shared};
use crate::trouble::{read_failed, unconfirmed};
use crate::write::{OptionsKind, Part, WriteOptions, consult, record_ownership};
use futures::StreamExt;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use optik_access::{Attributes, Resource, What, impersonation};
use optik_catalog::Review;
use optik_object::{Object, Status};
use optik_store::{Revision, Snapshot};
use std::sync::Arc;

/// How many roles are written at a time; the store makes them durable together.
const TOGETHER: usize = 64;

impl ApiServer {
    /// Lets a request pass or says why not.
    ///
    /// # Errors
    /// 403; 503 if what is known of roles may be out of date. Health and the like are told
    /// all the same.
    pub fn authorize(&self, user: &User, asked: &Attributes<'_>) -> Result<(), Status> {
        if matches!(asked.what, What::Resource(_)) {
            self.confirmed()?;
        }
        self.shared.gate.check(user, asked)
    }

    /// Whether what this server knows may be acted upon.
    ///
    /// # Errors
    /// 503 if it is cut off from a store that others may have changed.
    pub fn confirmed(&self) -> Result<(), Status> {
        self.shared.store.confirmed().map_err(unconfirmed)
    }

    /// Why a request is decided as it is, for those who keep a record.
    #[must_use]
    pub fn reason(&self, user: &User, asked: &Attributes<'_>) -> String {
        self.shared.gate.decide(user, asked).reason
    }

    /// The user that a caller may act as.
    ///
    /// # Errors
    /// 403
    pub fn impersonate(
        &self,
        caller: &User,
        wanted: &User,
        asked: &Attributes<'_>,
    ) -> Result<User, Status> {
        impersonation::impersonate(caller, wanted, asked, &*self.shared.gate)
    }

    /// Whose token this is, if it is of a service account and for us.
    #[must_use]
    pub fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        let accounts = self.shared.accounts.as_ref()?;
        let found = accounts.authenticate(token, accounts.audiences());
        if let Err(reason) = &found {
            tracing::debug!(reason, "a token is refused");
        }
        found.ok().map(|(user, _)| user)
    }

    /// Answers, as often as it is asked, whether a token that was good still is.
    #[must_use]
    pub fn while_good(&self, token: &[u8]) -> Box<dyn Fn() -> bool + Send + Sync> {
        let accounts = self.shared.accounts.as_ref();
        let Some(Ok(known)) = accounts.map(|accounts| accounts.known(token)) else {
            return Box::new(|| false);
        };
        let shared = Arc::clone(&self.shared);
        Box::new(move || {
            let accounts = shared.accounts.as_ref();
            accounts.is_some_and(|accounts| accounts.check(&known).is_ok())
        })
    }

    /// Completes with the next change of what users may do, from this call on.
    pub fn access_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut changes = self.shared.gate.subscribe();
        async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What a request is to be marked with, for the flow that it belongs to.
    #[must_use]
    pub fn flow(&self, user: &User, asked: &Attributes<'_>) -> Option<FlowMarks> {
        self.shared.flows.find(user, asked)
    }

    pub(crate) fn catch_up_with_roles(&self, state: &Snapshot) {
        self.shared.gate.catch_up(state);
    }

    pub(crate) fn catch_up_with_flows(&self, state: &Snapshot) {
        self.shared.flows.refresh(state);
    }

    /// Makes the roles that every cluster has, gives back what was taken from them, and
    /// compiles what is there.
    pub(crate) async fn bootstrap_roles(&self) -> Result<(), Status> {
        if !self.shared.gate.has_roles() {
            return Ok(());
        }
        let kinds = self.shared.kinds.current();
        let state = self.shared.store.latest().await.map_err(read_failed)?;
        let writes = plan(&kinds, &state).into_iter();
        let writes = writes.map(|planned| self.write_planned(&kinds, planned));
        let mut done = stream::iter(writes).buffer_unordered(TOGETHER);
        while let Some(written) = done.next().await {
            match written {
                Ok(()) => {}
                // Another server on the same store.
                Err(status) if matches!(status.code(), 404 | 409) => {}
                Err(status) => return Err(status),
            }
        }
        let state = self.shared.store.latest().await.map_err(read_failed)?;
        self.catch_up_with_roles(&state);
        Ok(())
    }

    async fn write_planned(&self, kinds: &Kinds, planned: Planned) -> Result<(), Status> {
        let own = Own {
            kinds,
            kind: &planned.kind,
            manager: "kube-apiserver",
        };
        if planned.based_on == Revision::ZERO {
            return self.shared.make_own(own, planned.object).await;
        }
        let (part, object) = (Part::Main, planned.object);
        self.shared.change_own(own, part, object).await
    }
}

impl Shared {
    /// A question, posted as an object.
    pub(crate) fn review(&self, review: Review, asked: &Asked<'_>) -> Result<Response, Status> {
        let namespace = asked.target.namespace.as_deref().unwrap_or_default();
        let form = asked.form()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let mut object = asked.decode(Part::Main, &options)?;
        if asked.kind.is_namespaced() {
            check_namespace(&object, namespace)?;
        }
        object.set_namespace(namespace);
        let reviewer = Reviewer {
            gate: &self.gate,
            tokens: &self.tokens,
            accounts: self.accounts.as_ref(),
            user: &asked.request.user,
            namespace,
            now: self.now(),
        };
        let Verdict {
            mut object,
            managed,
        } = reviewer.answer(review, object)?;
        if managed {
            let status = object.members_mut().remove("status");
            let writing = asked.writing(self, options, "create");
            record_ownership(&writing, Part::Main, None, &mut object);
            object
                .members_mut()
                .extend(status.map(|status| ("status".into(), status)));
        }
        self.formed(form, asked.kind, StatusCode::CREATED, encoded(&object)?)
    }

    /// `POST serviceaccounts/{name}/token`
    pub(crate) async fn issue_token(
        &self,
        asked: &Asked<'_>,
        name: &str,
    ) -> Result<Response, Status> {
        let Some(accounts) = &self.accounts else {
            return Err(Status::resource_not_found());
        };
        let form = asked.form()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let kind = token_request_kind();
        let decoded = body::decode(asked.kinds, kind, asked.request, options.validation)?;
        asked.told.warn(decoded.warnings);
        let mut request = decoded.object;
        let namespace = asked.target.namespace.as_deref().unwrap_or_default();
        check_namespace(&request, namespace)?;
        let writing = asked.writing(self, options, "create");
        consult(&writing, "token", kind, name, &mut request).await?;
        let (answer, warnings) = accounts.issue(namespace, name, request).await?;
        asked.told.warn(warnings);
        self.formed(form, kind, StatusCode::CREATED, encoded(&answer)?)
    }

    /// Documents by which others can verify tokens.
    pub(crate) fn open_id(&self, route: &Route) -> Response {
        let Some(accounts) = &self.accounts else {
            return Response::text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let (document, kind) = match route {
            Route::OpenIdKeys => (accounts.key_set(), "application/jwk-set+json"),
            _ => (accounts.configuration(), "application/json"),
        };
        let body = optik_object::to_bytes(&document);
        Response::json(StatusCode::OK, body)
            .with_header(CONTENT_TYPE, HeaderValue::from_static(kind))
            .with_header(
                CACHE_CONTROL,
                HeaderValue::from_static("public, max-age=3600"),
            )
    }

    /// A write that makes what is not there needs the right to create it.
    pub(crate) fn may_create(&self, asked: &Asked<'_>, name: &str) -> Result<(), Status> {
        let of = &asked.kind.resource;
        let create = Resource {
            group: &of.group,
            version: &of.version,
            resource: &of.plural,
            subresource: asked.target.subresource.as_deref().unwrap_or_default(),
            namespace: asked.target.namespace.as_deref().unwrap_or_default(),
            name,
        };
        self.gate
            .check(&asked.request.user, &Attributes::on("create", create))
    }
}

/// What says where it belongs must belong where it is sent.
fn check_namespace(object: &Object, namespace: &str) -> Result<(), Status> {
    match object.namespace().is_empty() || object.namespace() == namespace {
        true => Ok(()),
        false => Err(Status::namespace_differs()),
    }
}

fn encoded(object: &Object) -> Result<bytes::Bytes, Status> {
    let mut bytes = object
        .encode()
        .map_err(|error| Status::internal(&error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes.into())
}
