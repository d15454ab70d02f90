//! Whatever is repeated in a request, four times as much of it costs no more than eight times
//! as much memory, and what is held at once is bounded by the length of the request.
#![no_main]

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use libfuzzer_sys::fuzz_target;
use optik_apiserver::{ApiServer, Request, User};
use optik_cost::{Cost, CountingAllocator, measured};
use optik_store::{Options, Store};
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Quadratic work allocates sixteen times as much.
const GROWTH_MAX: u64 = 8;
const HELD_BYTES_PER_BYTE_MAX: u64 = 1024;
/// What a request may cost whatever its length.
const FREE_BYTES: u64 = 16 << 20;
const REPEATED: usize = 200;

struct World {
    runtime: Runtime,
    api: ApiServer,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let api = ApiServer::new(Store::open(Options::ephemeral()).unwrap());
        runtime.block_on(api.bootstrap()).unwrap();
        World { runtime, api }
    })
}

const PLACES: &[&str] = &[
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/services",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
];

const TYPES: &[(Method, &str, &str)] = &[
    (Method::POST, "", "application/json"),
    (Method::POST, "", "application/yaml"),
    (Method::POST, "", "application/vnd.kubernetes.protobuf"),
    (Method::PATCH, "/a", "application/json-patch+json"),
    (Method::PATCH, "/a", "application/merge-patch+json"),
    (Method::PATCH, "/a", "application/strategic-merge-patch+json"),
    (Method::PATCH, "/a", "application/apply-patch+yaml"),
];

struct Parts<'a> {
    place: u8,
    how: u8,
    head: &'a str,
    item: &'a str,
    tail: &'a str,
}

impl Parts<'_> {
    /// With `#` standing for the number of the item.
    fn request(&self, count: usize) -> Request {
        let items = (0..count).map(|at| self.item.replace('#', &at.to_string()));
        let items: Vec<String> = items.collect();
        let (method, name, media_type) = &TYPES[usize::from(self.how) % TYPES.len()];
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(media_type));
        let body = format!("{}{}{}", self.head, items.concat(), self.tail);
        Request {
            method: method.clone(),
            path: format!("{}{name}", PLACES[usize::from(self.place) % PLACES.len()]),
            query: "dryRun=All&fieldManager=fuzz".into(),
            headers,
            user: User::admin().into(),
            body: Bytes::from(body),
        }
    }

    fn cost(&self, count: usize) -> (usize, Cost) {
        let World { runtime, api } = world();
        let request = self.request(count);
        let bytes = request.body.len();
        let (_, cost) = measured(|| runtime.block_on(api.handle(request)));
        (bytes, cost)
    }
}

fuzz_target!(|input: (u8, u8, &str, &str, &str)| {
    let (place, how, head, item, tail) = input;
    let parts = Parts {
        place,
        how,
        head,
        item,
        tail,
    };
    let (_, small) = parts.cost(REPEATED);
    let (bytes, large) = parts.cost(4 * REPEATED);
    let allowed = FREE_BYTES + GROWTH_MAX * small.allocated_bytes;
    assert!(large.allocated_bytes <= allowed, "{small:?} -> {large:?}");
    let held_max = FREE_BYTES + HELD_BYTES_PER_BYTE_MAX * bytes as u64;
    assert!(large.peak_bytes <= held_max, "{large:?} of {bytes} bytes");
});
