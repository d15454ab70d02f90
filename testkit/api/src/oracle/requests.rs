//! Requests of every shape that a router could confuse.

use super::permissions::Permission;
use super::resources::{OracleResource, merge};
use super::{NAMES, NAMESPACE, OTHER_NAMESPACE};
use crate::Request;
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

/// The methods of HTTP, and some that are none.
pub const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "WATCH",
];

/// Headers and parameters by which some servers accept another method or path.
const OVERRIDES: [(&str, &str); 6] = [
    ("x-http-method-override", ""),
    ("x-http-method", ""),
    ("x-method-override", ""),
    ("x-original-url", "/api/v1/secrets"),
    ("x-rewrite-url", "/api/v1/secrets"),
    ("x-forwarded-prefix", "/api/v1/secrets"),
];

const DRY_RUN: &str = "dryRun=All";

/// A request without its user.
#[derive(Clone, Debug)]
pub struct OracleRequest {
    pub method: &'static str,
    pub url: String,
    header: Option<(&'static str, &'static str)>,
    body: Option<Value>,
}

impl OracleRequest {
    fn new(method: &'static str, url: impl Into<String>) -> Self {
        Self {
            method,
            url: url.into(),
            header: None,
            body: None,
        }
    }

    fn with(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    /// The path without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.url.split('?').next().unwrap_or_default()
    }

    /// The same, without an effect.
    #[must_use]
    pub fn as_dry_run(&self) -> Self {
        Self {
            url: format!("{}?{DRY_RUN}", self.url),
            // Options in the body take precedence over those in the query.
            body: self.body.clone().filter(|_| self.method != "DELETE"),
            ..self.clone()
        }
    }

    /// The same, with its effect; `None` if it is no dry run.
    #[must_use]
    pub fn without_dry_run(&self) -> Option<Self> {
        let (path, query) = self.url.split_once('?')?;
        let kept: Vec<_> = query.split('&').filter(|it| *it != DRY_RUN).collect();
        (kept.join("&") != query).then(|| Self {
            url: format!("{path}?{}", kept.join("&")),
            ..self.clone()
        })
    }

    /// The request based on the current object, if its body is such an object: an update sends the
    /// whole object, and for many kinds its resourceVersion.
    #[must_use]
    pub fn based_on(&self, stored: &Value, revision: u64) -> Self {
        let mut sent = self.clone();
        let Some(body) = &mut sent.body else {
            return sent;
        };
        if body["kind"] == stored["kind"] {
            let change = std::mem::replace(body, stored.clone());
            merge(body, change);
        }
        body["metadata"]["resourceVersion"] = revision.to_string().into();
        sent
    }

    /// The object that it puts: namespace and name.
    #[must_use]
    pub fn put_target(&self) -> Option<(&str, &str)> {
        let metadata = &self.body.as_ref().filter(|_| self.method == "PUT")?["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or_default();
        Some((namespace, metadata["name"].as_str()?))
    }

    /// The request, sent in the name of a user.
    ///
    /// # Panics
    /// If a method of the table is none.
    #[must_use]
    pub fn request(&self, user: &str) -> Request {
        let method = Method::from_bytes(self.method.as_bytes()).expect("letters make a method");
        let mut request = Request::new(method, &*self.url).header("impersonate-user", user);
        if let Some((name, value)) = self.header {
            request = request.header(name, value);
        }
        let media_type = match self.method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = self.body.as_ref().map(Value::to_string);
        request.body(media_type, body.map_or_else(Bytes::new, Bytes::from))
    }
}

/// The requests of the user with this permission.
#[must_use]
pub fn requests(right: &Permission) -> Vec<OracleRequest> {
    let mut all = path_shapes(right);
    all.extend(queries_and_headers(right));
    all.extend(odd_paths(right.resource));
    all
}

/// Every path shape with every method: with and without `/watch/`; no namespace, the right one,
/// another one, or none where one is required; for collection, object and subresource.
fn path_shapes(right: &Permission) -> Vec<OracleRequest> {
    let resource = right.resource;
    let (root, plural) = (resource.kind().root(), resource.plural);
    let part = right.subresource.map_or("status", |part| part.name);
    let mut all = Vec::new();
    for watch in ["", "/watch"] {
        for namespace in ["", NAMESPACE, OTHER_NAMESPACE, "-"] {
            let below = match namespace {
                "" => String::new(),
                "-" => "/namespaces/".to_owned(),
                namespace => format!("/namespaces/{namespace}"),
            };
            for name in resource.names.existing {
                for rest in ["", "/", "//", "///"] {
                    let rest = match rest {
                        "" => String::new(),
                        "/" => format!("/{name}"),
                        "//" => format!("/{name}/{part}"),
                        _ => format!("/{name}/{part}/a/b"),
                    };
                    // Collections have no name.
                    if rest.is_empty() && name != resource.names.existing[0] {
                        continue;
                    }
                    let path = format!("{root}{watch}{below}/{plural}{rest}");
                    let depth = rest.split('/').count() - 1;
                    for method in METHODS {
                        let body = body(resource, part, method, depth, namespace, name);
                        let sent = OracleRequest::new(method, &*path);
                        all.push(match body {
                            Some(body) => sent.with(body),
                            None => sent,
                        });
                    }
                }
            }
        }
    }
    all
}

/// A valid body for the method at this path.
fn body(
    resource: &OracleResource,
    part: &str,
    method: &str,
    depth: usize,
    namespace: &str,
    name: &str,
) -> Option<Value> {
    let namespace = match namespace {
        "" | "-" => NAMESPACE,
        namespace => namespace,
    };
    Some(match (method, depth) {
        ("POST", 0) => resource.new_object(namespace),
        ("POST" | "PUT" | "WATCH" | "PROPFIND", 2..) => {
            resource.subresource_body(part, namespace, name)
        }
        ("POST" | "PUT" | "WATCH" | "PROPFIND", _) => resource.changed_object(namespace, name),
        ("PATCH", _) => {
            let mut patch = json!({
                "metadata": {"labels": {"changed": "yes"}}, "spec": {"replicas": 5},
                "status": resource.status(),
            });
            if depth > 1 {
                merge(&mut patch, resource.subresource_change(part));
            }
            patch
        }
        ("DELETE", _) => json!({"apiVersion": "v1", "kind": "DeleteOptions"}),
        _ => return None,
    })
}

fn object_path(resource: &OracleResource, namespace: &str, name: &str) -> String {
    let (root, plural) = (resource.kind().root(), resource.plural);
    match resource.kind().namespaced {
        true => format!("{root}/namespaces/{namespace}/{plural}/{name}"),
        false => format!("{root}/{plural}/{name}"),
    }
}

/// Variants of the requests, with queries and headers that ask for another operation.
fn queries_and_headers(right: &Permission) -> Vec<OracleRequest> {
    let resource = right.resource;
    let [one, two] = resource.names.existing;
    let object = object_path(resource, NAMESPACE, one);
    let other = object_path(resource, NAMESPACE, two);
    let collection = object.trim_end_matches(one).trim_end_matches('/');
    let mut all = Vec::new();
    for query in [
        "watch=1",
        "watch=true&watch=false",
        "watch=0&watch=1",
        "w%61tch=1",
        "fieldSelector=metadata.name%3Doracle-a",
        "fieldSelector=metadata.name%3Doracle-b",
        "fieldSelector=metadata.name%3Doracle-a&fieldSelector=metadata.name%3Doracle-b",
        "fieldSelector=metadata.name%3Doracle-a,metadata.name%3Doracle-b",
        "fieldSelector=metadata.name!%3Doracle-a",
        "watch=1&fieldSelector=metadata.name%3Doracle-b",
        "_method=DELETE",
        "method=DELETE&verb=delete",
        "dryRun=All",
        "force=true&fieldManager=x",
        "namespace=oracle-other",
    ] {
        for path in [collection, &object, &other] {
            for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
                let depth = usize::from(path != collection);
                let name = path.rsplit('/').next().unwrap_or_default();
                let body = body(resource, "", method, depth, NAMESPACE, name);
                let query = query.replace(NAMES[0], one).replace(NAMES[1], two);
                let mut sent = OracleRequest::new(method, format!("{path}?{query}"));
                sent.body = body;
                all.push(sent);
            }
        }
    }
    for (name, value) in OVERRIDES {
        for wanted in ["PUT", "PATCH", "DELETE", "POST"] {
            for method in ["GET", "POST"] {
                let value = if value.is_empty() { wanted } else { value };
                let mut sent = OracleRequest::new(method, &*object);
                sent.header = Some((name, value));
                all.push(sent.with(resource.changed_object(NAMESPACE, one)));
            }
        }
    }
    all
}

/// Paths that two parsers may split differently, where one reading leads to a secret or to the
/// object itself.
fn odd_paths(resource: &OracleResource) -> Vec<OracleRequest> {
    let (root, plural) = (resource.kind().root(), resource.plural);
    let at = resource.names.existing[0];
    let coded = format!("%{:02X}{}", at.as_bytes()[0], &at[1..]);
    let theirs = NAMES[0];
    let secret = format!("namespaces/{NAMESPACE}/secrets/{theirs}");
    let mut all = Vec::new();
    for path in [
        format!("{root}/namespaces/{NAMESPACE}/{plural}/{at}/"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}//{at}"),
        format!("{root}//namespaces/{NAMESPACE}/{plural}/{at}"),
        format!("/{root}/namespaces/{NAMESPACE}/{plural}/{at}"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/{coded}"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}%2F{at}"),
        format!("{root}/namespaces/{NAMESPACE}%2F{plural}/{at}"),
        format!("{root}/namespaces%2F{NAMESPACE}%2F{plural}%2F{at}"),
        format!("{root}%2Fnamespaces/{NAMESPACE}/{plural}/{at}"),
        format!("{root}/namespaces/{OTHER_NAMESPACE}/../{NAMESPACE}/{plural}/{at}"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/../secrets/{theirs}"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/..%2Fsecrets%2F{theirs}"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/{at}%2F..%2F..%2Fsecrets%2F{theirs}"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/{at}%00"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/{at};a=b"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/{at}/./"),
        format!("{root}/namespaces/{NAMESPACE}/{plural}/./{at}"),
        format!("{root}/./namespaces/{NAMESPACE}/{plural}/{at}"),
        format!("/healthz/..{root}/{secret}"),
        format!("/healthz/%2e%2e{root}/{secret}"),
        format!("/version/../api/v1/{secret}"),
        format!("/api/v1/watch/watch/namespaces/{NAMESPACE}/secrets"),
        format!("/api/v1/proxy/{secret}"),
        format!("/api/v1/redirect/{secret}"),
        format!("/api/v1/{secret}/proxy"),
        format!("/api/v1/{secret}/exec"),
        format!("/api/v1/{secret}/log"),
        format!("/api/v1/{secret}/status"),
        format!("/api/v1/{secret}/{plural}"),
        format!("/api/v1/namespaces/{NAMESPACE}/{plural}/{at}/secrets/{theirs}"),
        format!("/api/v1/WATCH/{secret}"),
        format!("/API/V1/{secret}"),
        format!("/api/v2/{secret}"),
        format!("/apis//v1/{secret}"),
        format!("/apis/v1/{secret}"),
        format!("/api/v1/namespaces/{NAMESPACE}/status/{at}"),
        format!("/api/v1/namespaces/{NAMESPACE}/finalize/{at}"),
        format!("/api/v1/namespaces/status/secrets/{theirs}"),
        format!("/api/v1/watch/namespaces/{NAMESPACE}/status"),
        "/api/v1/namespaces//status".to_owned(),
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let body = body(resource, "status", method, 1, NAMESPACE, at);
            let mut sent = OracleRequest::new(method, &*path);
            sent.body = body;
            all.push(sent);
        }
    }
    all
}

/// Documents about the server, by a path of each sort.
pub fn non_resource_requests() -> impl Iterator<Item = OracleRequest> {
    const PATHS: [&str; 22] = [
        "/",
        "/api",
        "/api/v1",
        "/api/v1/",
        "/api//",
        "/apis",
        "/apis/apps",
        "/apis/apps/v1",
        "/apis/none",
        "/apis/none/v1",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/api/v1",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
        "/version",
        "/metrics",
        "/healthz",
        "/livez/ping",
        "/readyz",
        "/debug/pprof/profile",
        "/none",
    ];
    PATHS
        .into_iter()
        .flat_map(|path| METHODS.map(|method| OracleRequest::new(method, path)))
}
