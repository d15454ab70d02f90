//! Requests without a wire.

use http::{HeaderMap, Method};
use optik_apiserver::{ApiServer, Body, Request, Response, User};
use serde_json::Value;
use std::sync::Arc;

/// The API, as seen by a part of the server.
#[derive(Clone)]
pub(crate) struct Client {
    api: ApiServer,
    user: Arc<User>,
}

/// A status, and a document if there was one.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Client {
    pub(crate) fn new(api: ApiServer, name: &str) -> Self {
        let user = User {
            name: format!("system:serviceaccount:kube-system:{name}"),
            groups: vec!["system:masters".into()],
            ..User::default()
        };
        let user = Arc::new(user);
        Self { api, user }
    }

    pub(crate) fn api(&self) -> &ApiServer {
        &self.api
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let response = self.api.handle(self.request(method, path, body)).await;
        answer(response)
    }

    /// The same for what is nobody else's concern.
    pub(crate) async fn send_unadmitted(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let request = self.request(method, path, body);
        answer(self.api.handle_unadmitted(request).await)
    }

    fn request(&self, method: Method, path: &str, body: Option<&Value>) -> Request {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Request {
            method,
            path: path.into(),
            query: query.into(),
            headers: HeaderMap::new(),
            user: self.user.clone(),
            body: body.map(|body| body.to_string().into()).unwrap_or_default(),
        }
    }
}

fn answer(response: Response) -> Answer {
    let body = match response.body {
        Body::Whole(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        // Long lists are for those who ask for them; nobody here does.
        Body::Stream(_) => Value::Null,
    };
    Answer {
        code: response.status.as_u16(),
        body,
    }
}
