//! What answers requests.

use optik_apiserver::{ApiServer, Request, Response};

/// Whatever stands behind the wire. In production that is [`ApiServer`].
pub trait Handler: Send + Sync + 'static {
    /// Dropping the future of a read cancels it. Writes are never dropped half-way.
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send;

    /// What it counts, as Prometheus reads it.
    fn metrics(&self) -> impl Future<Output = String> + Send {
        std::future::ready(String::new())
    }
}

impl Handler for ApiServer {
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send {
        ApiServer::handle(self, request)
    }

    fn metrics(&self) -> impl Future<Output = String> + Send {
        ApiServer::metrics(self)
    }
}
