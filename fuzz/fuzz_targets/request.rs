//! Fuzz target: any method, path, query and body gets a response.
#![no_main]

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use optik_apiserver::{ApiRequest, ApiServer, ResponseBody};
use optik_store::{Options, Store};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

struct World {
    runtime: Runtime,
    api: ApiServer,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let builder = &mut Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let api = ApiServer::new(Store::open(Options::ephemeral()).unwrap());
        runtime.block_on(api.bootstrap()).unwrap();
        World { runtime, api }
    })
}

const METHODS: &[Method] = &[
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::PATCH,
];
const TYPES: &[&str] = &[
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

// Two bytes choose method and type; path, query and body follow on lines of their own.
fuzz_target!(|input: (u8, u8, &str, &str, &[u8])| {
    let (method, content_type, path, query, body) = input;
    let mut headers = HeaderMap::new();
    let content_type = TYPES[usize::from(content_type) % TYPES.len()];
    headers.insert("content-type", HeaderValue::from_static(content_type));
    let method = &METHODS[usize::from(method) % METHODS.len()];
    let request = ApiRequest {
        headers,
        body: Bytes::copy_from_slice(body),
        ..ApiRequest::new(method, &format!("/{path}?timeoutSeconds=1&{query}"))
    };
    let World { runtime, api } = world();
    runtime.block_on(async {
        let response = api.handle(request).await;
        assert!(response.status.as_u16() >= 200);
        if let ResponseBody::Stream(stream) = response.body {
            let _ = stream.take(100).collect::<Vec<_>>().await;
        }
    });
});
