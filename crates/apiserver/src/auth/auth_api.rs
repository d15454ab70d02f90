//! Methods of the API server for authorization, impersonation, service account tokens and reviews.

use crate::auth::flow_schemas::FlowHeaders;
use crate::auth::rbac_bootstrap::{PlannedRoleWrite, plan_bootstrap_roles};
use crate::auth::reviews::{ReviewResponse, Reviewer};
use crate::auth::token_request_kind;
use crate::handlers::write::{
    OptionsKind, SubresourceTarget, WriteOptions, admit_unstored, record_ownership,
};
use crate::registry::served_resource::ResourceRegistry;
use crate::request::body;
use crate::request::http_types::{ApiResponse, User};
use crate::request::route::Route;
use crate::server::store_errors::{not_confirmed, read_failed};
use crate::server::{ApiServer, ApiServerInner, RequestScope, SystemWriter};
use futures::StreamExt;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, StatusCode};
use optik_auth::{AccessTarget, AuthorizationAttributes, ResourceAttributes, impersonation};
use optik_catalog::ReviewKind;
use optik_object::{Object, Status};
use optik_store::{Revision, Snapshot};
use std::sync::Arc;

/// How many roles are written concurrently; the store syncs them together (group commit).
const CONCURRENT_ROLE_WRITES_MAX: usize = 64;

impl ApiServer {
    /// Authorizes a request.
    ///
    /// # Errors
    /// 403; 503 if the RBAC policy may be out of date. Non-resource requests, such as
    /// health checks, are authorized even then.
    pub fn authorize(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Result<(), Status> {
        if matches!(asked.target, AccessTarget::Resource(_)) {
            self.check_store_confirmed()?;
        }
        self.shared.authorizer.check(user, asked)
    }

    /// Checks that this server's state is current enough to decide on.
    ///
    /// # Errors
    /// 503 if the server is cut off from a store that other servers may have changed.
    pub fn check_store_confirmed(&self) -> Result<(), Status> {
        self.shared.store.check_staleness().map_err(not_confirmed)
    }

    /// The reason of an authorization decision, for the audit log.
    #[must_use]
    pub fn authorization_reason(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> String {
        self.shared.authorizer.authorize(user, asked).reason
    }

    /// The user that a caller impersonates.
    ///
    /// # Errors
    /// 403
    pub fn impersonate(
        &self,
        caller: &User,
        wanted: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Result<User, Status> {
        impersonation::impersonate(caller, wanted, asked, &*self.shared.authorizer)
    }

    /// The user of a service account token; `None` if the token is invalid or for other audiences.
    #[must_use]
    pub fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        let accounts = self.shared.service_accounts.as_ref()?;
        let found = accounts.authenticate(token, accounts.audiences());
        if let Err(reason) = &found {
            tracing::debug!(reason, "service account token rejected");
        }
        found.ok().map(|(user, _)| user)
    }

    /// Returns a function that checks whether a token that was valid still is; it can be called
    /// repeatedly.
    #[must_use]
    pub fn token_validator(&self, token: &[u8]) -> Box<dyn Fn() -> bool + Send + Sync> {
        let accounts = self.shared.service_accounts.as_ref();
        let Some(Ok(known)) = accounts.map(|accounts| accounts.verify_signature(token)) else {
            return Box::new(|| false);
        };
        let shared = Arc::clone(&self.shared);
        Box::new(move || {
            let accounts = shared.service_accounts.as_ref();
            accounts.is_some_and(|accounts| accounts.check_still_valid(&known).is_ok())
        })
    }

    /// Completes with the next change of the RBAC policy after this call.
    pub fn authorization_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut changes = self.shared.authorizer.subscribe();
        async move {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The FlowSchema and priority level headers of a request.
    #[must_use]
    pub fn match_flow_schema(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Option<FlowHeaders> {
        self.shared.flow_schemas.match_request(user, asked)
    }

    pub(crate) fn refresh_rbac(&self, state: &Snapshot) {
        self.shared.authorizer.refresh(state);
    }

    pub(crate) fn refresh_flow_schemas(&self, state: &Snapshot) {
        self.shared.flow_schemas.refresh(state);
    }

    /// Creates the bootstrap roles, restores permissions that were removed from them, and compiles
    /// the RBAC policy.
    pub(crate) async fn bootstrap_roles(&self) -> Result<(), Status> {
        if !self.shared.authorizer.uses_rbac() {
            return Ok(());
        }
        let kinds = self.shared.registry.current();
        let state = self.shared.store.latest().await.map_err(read_failed)?;
        let writes = plan_bootstrap_roles(&kinds, &state).into_iter();
        let writes = writes.map(|planned| self.write_bootstrap_role(&kinds, planned));
        let mut done = stream::iter(writes).buffer_unordered(CONCURRENT_ROLE_WRITES_MAX);
        while let Some(written) = done.next().await {
            match written {
                Ok(()) => {}
                // A second server on the store wrote the role.
                Err(status) if matches!(status.code(), 404 | 409) => {}
                Err(status) => return Err(status),
            }
        }
        let state = self.shared.store.latest().await.map_err(read_failed)?;
        self.refresh_rbac(&state);
        Ok(())
    }

    async fn write_bootstrap_role(
        &self,
        kinds: &ResourceRegistry,
        planned: PlannedRoleWrite,
    ) -> Result<(), Status> {
        let own = SystemWriter {
            registry: kinds,
            kind: &planned.kind,
            manager: "kube-apiserver",
        };
        if planned.based_on == Revision::ZERO {
            return self.shared.system_create(own, planned.object).await;
        }
        let (part, object) = (SubresourceTarget::Main, planned.object);
        self.shared.system_update(own, part, object).await
    }
}

impl ApiServerInner {
    /// Answers a posted review, such as a SubjectAccessReview.
    pub(crate) fn review(
        &self,
        review: ReviewKind,
        asked: &RequestScope<'_>,
    ) -> Result<ApiResponse, Status> {
        let namespace = asked.target.namespace.as_deref().unwrap_or_default();
        let form = asked.representation()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let mut object = asked.decode(SubresourceTarget::Main, &options)?;
        if asked.kind.is_namespaced() {
            check_namespace(&object, namespace)?;
        }
        object.set_namespace(namespace);
        let reviewer = Reviewer {
            authorizer: &self.authorizer,
            tokens: &self.tokens,
            service_accounts: self.service_accounts.as_ref(),
            user: &asked.request.user,
            namespace,
            now: self.now(),
        };
        let ReviewResponse {
            mut object,
            records_manager: managed,
        } = reviewer.evaluate(review, object)?;
        if managed {
            let status = object.members_mut().remove("status");
            let writing = asked.write_context(self, options, "create");
            record_ownership(&writing, SubresourceTarget::Main, None, &mut object);
            object
                .members_mut()
                .extend(status.map(|status| ("status".into(), status)));
        }
        self.serialize_response(form, asked.kind, StatusCode::CREATED, encode(&object)?)
    }

    /// `POST serviceaccounts/{name}/token`: issues a service account token.
    pub(crate) async fn issue_token(
        &self,
        asked: &RequestScope<'_>,
        name: &str,
    ) -> Result<ApiResponse, Status> {
        let Some(accounts) = &self.service_accounts else {
            return Err(Status::resource_not_found());
        };
        let form = asked.representation()?;
        let options = WriteOptions::read(&asked.query, OptionsKind::Create)?;
        let kind = token_request_kind();
        let decoded = body::decode(
            asked.registry,
            kind,
            asked.request,
            options.field_validation,
        )?;
        asked.recorder.warn(decoded.warnings);
        let mut request = decoded.object;
        let namespace = asked.target.namespace.as_deref().unwrap_or_default();
        check_namespace(&request, namespace)?;
        let writing = asked.write_context(self, options, "create");
        admit_unstored(&writing, "token", kind, name, &mut request).await?;
        let (answer, warnings) = accounts.issue(namespace, name, request).await?;
        asked.recorder.warn(warnings);
        self.serialize_response(form, kind, StatusCode::CREATED, encode(&answer)?)
    }

    /// The OpenID discovery document and the JWKS, with which other parties verify service account
    /// tokens.
    pub(crate) fn openid_document(&self, route: &Route) -> ApiResponse {
        let Some(accounts) = &self.service_accounts else {
            return ApiResponse::text(StatusCode::NOT_FOUND, "404 page not found\n");
        };
        let (document, kind) = match route {
            Route::OpenIdKeys => (accounts.jwks(), "application/jwk-set+json"),
            _ => (accounts.openid_configuration(), "application/json"),
        };
        let body = optik_object::to_bytes(&document);
        ApiResponse::json(StatusCode::OK, body)
            .with_header(CONTENT_TYPE, HeaderValue::from_static(kind))
            .with_header(
                CACHE_CONTROL,
                HeaderValue::from_static("public, max-age=3600"),
            )
    }

    /// Authorizes the create that an update or apply of a missing object performs.
    pub(crate) fn authorize_create(
        &self,
        asked: &RequestScope<'_>,
        name: &str,
    ) -> Result<(), Status> {
        let of = &asked.kind.resource;
        let create = ResourceAttributes {
            group: &of.group,
            version: &of.version,
            resource: &of.plural,
            subresource: asked.target.subresource.as_deref().unwrap_or_default(),
            namespace: asked.target.namespace.as_deref().unwrap_or_default(),
            name,
        };
        self.authorizer.check(
            &asked.request.user,
            &AuthorizationAttributes::for_resource("create", create),
        )
    }
}

/// Checks that the namespace of a body, if set, is that of the path.
fn check_namespace(object: &Object, namespace: &str) -> Result<(), Status> {
    match object.namespace().is_empty() || object.namespace() == namespace {
        true => Ok(()),
        false => Err(Status::namespace_mismatch()),
    }
}

fn encode(object: &Object) -> Result<bytes::Bytes, Status> {
    let mut bytes = object
        .encode()
        .map_err(|error| Status::internal(&error.to_string()))?;
    bytes.push(b'\n');
    Ok(bytes.into())
}
