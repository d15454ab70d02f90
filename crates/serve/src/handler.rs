//! What answers requests.

use http::{Method, Uri};
use optik_access::{Attributes, Path, RequestInfo, User, without_roles};
use optik_apiserver::{ApiServer, Request, Response};
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

    /// Whose bearer token this is, if it is one that only the handler knows.
    fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        let _ = token;
        None
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

    /// Completes when a user may no longer do what they have begun.
    fn revoked(
        &self,
        user: Arc<User>,
        method: Method,
        uri: Uri,
    ) -> impl Future<Output = ()> + Send + 'static {
        drop((user, method, uri));
        std::future::pending()
    }
}

impl Handler for ApiServer {
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send {
        ApiServer::handle(self, request)
    }

    fn metrics(&self) -> impl Future<Output = String> + Send {
        ApiServer::metrics(self)
    }

    fn authenticate(&self, token: &[u8]) -> Option<Arc<User>> {
        ApiServer::authenticate(self, token)
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

    fn revoked(
        &self,
        user: Arc<User>,
        method: Method,
        uri: Uri,
    ) -> impl Future<Output = ()> + Send + 'static {
        let api = self.clone();
        let may = move |api: &Self, user: &User| {
            let path = Path::decode(uri.path());
            let query = uri.query().unwrap_or_default();
            let info = RequestInfo::read(method.as_str(), &path, query);
            ApiServer::authorize(api, user, &info.attributes()).is_ok()
        };
        async move { ApiServer::revoked(&api, user, may).await }
    }
}
