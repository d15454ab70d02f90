//! What answers requests.

use optik_apiserver::{ApiRequest, ApiResponse, ApiServer, FlowHeaders};
use optik_auth::{AuthorizationAttributes, ResourceAttributes, User, authorize_without_rbac};
use optik_object::Status;
use std::sync::Arc;

/// Whatever stands behind the wire. In production that is [`ApiServer`].
pub trait Handler: Send + Sync + 'static {
    /// Dropping the future of a read cancels it. Writes are never dropped half-way.
    fn handle(&self, request: ApiRequest) -> impl Future<Output = ApiResponse> + Send;

    /// What it counts, as Prometheus reads it.
    fn metrics(&self) -> impl Future<Output = String> + Send {
        std::future::ready(String::new())
    }

    /// Whether there is such a resource, and such a subresource of it.
    fn serves(&self, of: &ResourceAttributes<'_>) -> bool {
        let _ = of;
        false
    }

    /// Whose bearer token this is, if it is one that only the handler knows.
    fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        let _ = token;
        None
    }

    /// Whether what the handler knows of tokens may be acted upon.
    ///
    /// # Errors
    /// 503 if it may be out of date.
    fn ensure_tokens_current(&self) -> Result<(), Status> {
        Ok(())
    }

    /// Lets a request pass or says why not.
    ///
    /// # Errors
    /// 403
    fn authorize(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> Result<(), Status> {
        match authorize_without_rbac(user, asked) {
            true => Ok(()),
            false => Err(asked.forbidden(user, "")),
        }
    }

    /// Why it lets it pass, or not; for the audit.
    fn authorization_reason(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> String {
        let _ = (user, asked);
        String::new()
    }

    /// The user that a caller may act as.
    ///
    /// # Errors
    /// 403
    fn impersonate(
        &self,
        caller: &User,
        wanted: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Result<User, Status> {
        let _ = wanted;
        Err(asked.forbidden(caller, ""))
    }

    /// Answers, as often as it is asked, whether a token that [`Handler::authenticate`]
    /// accepted is still good.
    fn token_validity(&self, token: &[u8]) -> TokenValidity {
        let _ = token;
        Box::new(|| true)
    }

    /// Completes with the next change of what users may do, from this call on.
    fn access_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    /// What the answer to a request is marked with, for the flow that it belongs to.
    fn classify_flow(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Option<FlowHeaders> {
        let _ = (user, asked);
        None
    }
}

/// Whether something that was good still is.
pub type TokenValidity = Box<dyn Fn() -> bool + Send + Sync>;

impl Handler for ApiServer {
    fn handle(&self, request: ApiRequest) -> impl Future<Output = ApiResponse> + Send {
        ApiServer::handle(self, request)
    }

    fn metrics(&self) -> impl Future<Output = String> + Send {
        ApiServer::metrics(self)
    }

    fn serves(&self, of: &ResourceAttributes<'_>) -> bool {
        ApiServer::serves(self, of)
    }

    fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        ApiServer::authenticate(self, token)
    }

    fn ensure_tokens_current(&self) -> Result<(), Status> {
        ApiServer::check_store_confirmed(self)
    }

    fn authorize(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> Result<(), Status> {
        ApiServer::authorize(self, user, asked)
    }

    fn authorization_reason(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> String {
        ApiServer::authorization_reason(self, user, asked)
    }

    fn impersonate(
        &self,
        caller: &User,
        wanted: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Result<User, Status> {
        ApiServer::impersonate(self, caller, wanted, asked)
    }

    fn token_validity(&self, token: &[u8]) -> TokenValidity {
        ApiServer::token_validator(self, token)
    }

    fn access_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        ApiServer::authorization_changed(self)
    }

    fn classify_flow(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Option<FlowHeaders> {
        ApiServer::match_flow_schema(self, user, asked)
    }
}
