//! The interface between the HTTP server and the API server behind it.

use optik_apiserver::{ApiRequest, ApiResponse, ApiServer, FlowHeaders};
use optik_auth::{AuthorizationAttributes, ResourceAttributes, User, authorize_without_rbac};
use optik_object::Status;
use std::sync::Arc;

/// The API behind the HTTP server. In production it is [`ApiServer`].
pub trait Handler: Send + Sync + 'static {
    /// Handles a request. Dropping the future of a read cancels it. Writes are never dropped
    /// half-way.
    fn handle(&self, request: ApiRequest) -> impl Future<Output = ApiResponse> + Send;

    /// The handler's metrics, in the text format of Prometheus.
    fn metrics(&self) -> impl Future<Output = String> + Send {
        std::future::ready(String::new())
    }

    /// Whether this resource, and subresource, is served.
    fn serves(&self, of: &ResourceAttributes<'_>) -> bool {
        let _ = of;
        false
    }

    /// The user of a bearer token that only the handler can verify.
    fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        let _ = token;
        None
    }

    /// Whether the handler's token authenticator is up to date.
    ///
    /// # Errors
    /// 503 if it may be out of date.
    fn ensure_tokens_current(&self) -> Result<(), Status> {
        Ok(())
    }

    /// Authorizes a request.
    ///
    /// # Errors
    /// 403
    fn authorize(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> Result<(), Status> {
        match authorize_without_rbac(user, asked) {
            true => Ok(()),
            false => Err(asked.forbidden(user, "")),
        }
    }

    /// The reason of the authorization decision, for the audit log.
    fn authorization_reason(&self, user: &User, asked: &AuthorizationAttributes<'_>) -> String {
        let _ = (user, asked);
        String::new()
    }

    /// The user that `caller` may impersonate.
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

    /// Returns a check whether a token that [`Handler::authenticate`] accepted is still valid; the
    /// check can be called repeatedly.
    fn token_validity(&self, token: &[u8]) -> TokenValidity {
        let _ = token;
        Box::new(|| true)
    }

    /// Completes with the next change of permissions after this call.
    fn access_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    /// The flow headers of the response: the FlowSchema that matches the request.
    fn classify_flow(
        &self,
        user: &User,
        asked: &AuthorizationAttributes<'_>,
    ) -> Option<FlowHeaders> {
        let _ = (user, asked);
        None
    }
}

/// Returns whether a token is still valid.
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
