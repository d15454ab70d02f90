//! A client that sends requests to the API server of this process without a connection.

use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method};
use optik_apiserver::{ApiRequest, ApiResponse, ApiServer, ResponseBody, User};
use serde_json::Value;
use std::sync::Arc;

/// The API server and the identity of a controller.
#[derive(Clone)]
pub(crate) struct LoopbackClient {
    api: ApiServer,
    user: Arc<User>,
}

/// The status code and body of a response.
pub(crate) struct LoopbackResponse {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

/// Logs a rejected request. While the server stops, every request fails and nothing is logged.
pub(crate) fn log_failure(what: std::fmt::Arguments<'_>, code: u16, body: &Value) {
    let message = body["message"].as_str().unwrap_or_default();
    if code == 503 {
        tracing::debug!("{what}: {message}");
    } else {
        tracing::warn!(code, "{what}: {message}");
    }
}

impl LoopbackClient {
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

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> LoopbackResponse {
        let request = self.request(&method, path, body, "application/json");
        into_loopback_response(self.api.handle(request).await)
    }

    /// Sends a merge patch.
    pub(crate) async fn merge_patch(&self, path: &str, patch: &Value) -> LoopbackResponse {
        let media_type = "application/merge-patch+json";
        let request = self.request(&Method::PATCH, path, Some(patch), media_type);
        into_loopback_response(self.api.handle(request).await)
    }

    /// Sends a server-side apply; the query names the field manager.
    pub(crate) async fn apply(&self, path: &str, configuration: &Value) -> LoopbackResponse {
        let media_type = "application/apply-patch+yaml";
        let request = self.request(&Method::PATCH, path, Some(configuration), media_type);
        into_loopback_response(self.api.handle(request).await)
    }

    /// Sends a request that skips admission.
    pub(crate) async fn send_unadmitted(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> LoopbackResponse {
        let request = self.request(&method, path, body, "application/json");
        into_loopback_response(self.api.handle_without_admission(request).await)
    }

    fn request(
        &self,
        method: &Method,
        path: &str,
        body: Option<&Value>,
        media_type: &'static str,
    ) -> ApiRequest {
        let mut request = ApiRequest::new(method, path);
        let media_type = HeaderValue::from_static(media_type);
        request.headers.insert(CONTENT_TYPE, media_type);
        // The user agent, from which the field manager is derived.
        let agent = HeaderValue::from_static("kube-controller-manager");
        request.headers.insert(USER_AGENT, agent);
        request.user = self.user.clone();
        request.body = body.map(|body| body.to_string().into()).unwrap_or_default();
        request
    }
}

fn into_loopback_response(response: ApiResponse) -> LoopbackResponse {
    let body = match response.body {
        ResponseBody::Whole(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
        // Long lists are streamed; no controller requests one.
        ResponseBody::Stream(_) => Value::Null,
    };
    LoopbackResponse {
        code: response.status.as_u16(),
        body,
    }
}

/// Percent-encodes a name for a path: names of roles may contain reserved characters.
pub(crate) fn path_segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}
