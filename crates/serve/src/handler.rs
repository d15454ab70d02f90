//! What answers requests.

use optik_access::{Attributes, Resource, User, without_roles};
use optik_apiserver::{ApiServer, FlowMarks, Request, Response};
use optik_object::Status;
use std::sync::Arc;

/// Whatever stands behind the wire. In production that is [`ApiServer`].
pub trait Handler: Send + Sync + 'static {
    /// Dropping the future of a read cancels it. Writes are never dropped half-way.
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send;

    /// What it counts, as Prometheus reads it.
    fn metrics(&self) -> impl Future<Output = String> + Send {
        std::future::ready(String::new())
    }

    /// Whether there is such a resource, and such a subresource of it.
    fn serves(&self, of: &Resource<'_>) -> bool {
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
    fn confirmed(&self) -> Result<(), Status> {
        Ok(())
    }

    /// Lets a request pass or says why not.
    ///
    /// # Errors
    /// 403
    fn authorize(&self, user: &User, asked: &Attributes<'_>) -> Result<(), Status> {
        match without_roles(user, asked) {
            true => Ok(()),
            false => Err(asked.refuse(user, "")),
        }
    }

    /// Why it lets it pass, or not; for the audit.
    fn reason(&self, user: &User, asked: &Attributes<'_>) -> String {
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
        asked: &Attributes<'_>,
    ) -> Result<User, Status> {
        let _ = wanted;
        Err(asked.refuse(caller, ""))
    }

    /// Answers, as often as it is asked, whether a token that [`Handler::authenticate`]
    /// accepted is still good.
    fn while_good(&self, token: &[u8]) -> StillGood {
        let _ = token;
        Box::new(|| true)
    }

    /// Completes with the next change of what users may do, from this call on.
    fn access_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }

    /// What the answer to a request is marked with, for the flow that it belongs to.
    fn flow(&self, user: &User, asked: &Attributes<'_>) -> Option<FlowMarks> {
        let _ = (user, asked);
        None
    }
}

/// Whether something that was good still is.
pub type StillGood = Box<dyn Fn() -> bool + Send + Sync>;

impl Handler for ApiServer {
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send {
        ApiServer::handle(self, request)
    }

    fn metrics(&self) -> impl Future<Output = String> + Send {
        ApiServer::metrics(self)
    }

    fn serves(&self, of: &Resource<'_>) -> bool {
        ApiServer::serves(self, of)
    }

    fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        ApiServer::authenticate(self, token)
    }

    fn confirmed(&self) -> Result<(), Status> {
        ApiServer::confirmed(self)
    }

    fn authorize(&self, user: &User, asked: &Attributes<'_>) -> Result<(), Status> {
        ApiServer::authorize(self, user, asked)
    }

    fn reason(&self, user: &User, asked: &Attributes<'_>) -> String {
        ApiServer::reason(self, user, asked)
    }

    fn impersonate(
        &self,
        caller: &User,
        wanted: &User,
        asked: &Attributes<'_>,
    ) -> Result<User, Status> {
        ApiServer::impersonate(self, caller, wanted, asked)
    }

    fn while_good(&self, token: &[u8]) -> StillGood {
        ApiServer::while_good(self, token)
    }

    fn access_changed(&self) -> impl Future<Output = ()> + Send + 'static {
        ApiServer::access_changed(self)
    }

    fn flow(&self, user: &User, asked: &Attributes<'_>) -> Option<FlowMarks> {
        ApiServer::flow(self, user, asked)
    }
}
