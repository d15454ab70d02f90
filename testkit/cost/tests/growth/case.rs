//! A request of variable size, and its cost.

use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderValue, Method};
pub(crate) use optik_apiserver::ApiRequest;
use optik_apiserver::{ApiServer, ResponseBody};
use optik_auth::User;
use optik_cost::{Cost, CostAllowance, measured};
use optik_store::{Options, Store};
use serde_json::Value;
use std::fmt::Write as _;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// How often a cost is looked at before it counts as too much.
const MEASUREMENTS: usize = 5;
/// How often it is looked whether a kind is served.
const CRD_POLLS_MAX: usize = 1_000_000;
/// The memory allowance of a request and of the objects it concerns.
const ALLOWANCE: CostAllowance = CostAllowance {
    held_bytes_per_byte: 256,
    free_bytes: 4 << 20,
};

/// Placeholder in a body: the resourceVersion of the last response before it.
pub(crate) const LAST_REVISION: &str = "<last revision>";

type Make<T> = Box<dyn Fn(usize) -> T>;

/// One kind of request.
pub(crate) struct CostCase {
    name: String,
    /// How many items the smaller one has.
    items: usize,
    /// Requests that must precede it, in a server of its own.
    before: Option<Make<Vec<ApiRequest>>>,
    /// Whether the schema of the CRD is compiled during the request.
    at_once: bool,
    request: Make<ApiRequest>,
}

impl CostCase {
    pub(crate) fn new(
        name: impl Into<String>,
        items: usize,
        request: impl Fn(usize) -> ApiRequest + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            items,
            before: None,
            at_once: false,
            request: Box::new(request),
        }
    }

    pub(crate) fn with_setup(
        mut self,
        before: impl Fn(usize) -> Vec<ApiRequest> + 'static,
    ) -> Self {
        self.before = Some(Box::new(before));
        self
    }

    pub(crate) fn during_setup(mut self) -> Self {
        self.at_once = true;
        self
    }
}

pub(crate) fn request(method: &Method, path: &str, body: impl Into<Bytes>) -> ApiRequest {
    let mut request = ApiRequest::new(method, path);
    let json = HeaderValue::from_static("application/json");
    request.headers.insert("content-type", json);
    request.user = Arc::new(User::admin());
    request.body = body.into();
    request
}

pub(crate) fn post(path: &str, body: &Value) -> ApiRequest {
    request(&Method::POST, path, body.to_string())
}

pub(crate) fn put(path: &str, body: &Value) -> ApiRequest {
    request(&Method::PUT, path, body.to_string())
}

pub(crate) fn get(path: &str) -> ApiRequest {
    request(&Method::GET, path, "")
}

/// `json`, `merge`, `strategic-merge`, or `apply` by a manager of its own.
pub(crate) fn patch(how: &'static str, path: &str, body: &Value) -> ApiRequest {
    let (path, media_type) = match how {
        "apply" => (
            format!("{path}?fieldManager=applier&dryRun=All"),
            "application/apply-patch+yaml".to_owned(),
        ),
        _ => (
            format!("{path}?dryRun=All"),
            format!("application/{how}-patch+json"),
        ),
    };
    typed(
        request(&Method::PATCH, &path, body.to_string()),
        "content-type",
        &media_type,
    )
}

pub(crate) fn typed(mut request: ApiRequest, header: &'static str, media_type: &str) -> ApiRequest {
    let value = HeaderValue::from_str(media_type).unwrap();
    request.headers.insert(header, value);
    request
}

/// Texts that differ.
pub(crate) fn string_items(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{what}{at}")).collect()
}

/// A server without sockets. The store has threads of its own; all other work is done by the
/// calling thread, and counted.
pub(crate) struct InProcessServer {
    runtime: Runtime,
    api: ApiServer,
}

impl InProcessServer {
    pub(crate) fn new() -> Self {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let store = Store::open(Options::ephemeral()).unwrap();
        let api = ApiServer::new(store.clone());
        runtime.block_on(api.bootstrap()).unwrap();
        runtime.spawn(optik_apiserver::run_crd_controller(api.clone(), store));
        Self { runtime, api }
    }

    /// Handles the request and reads the whole response.
    pub(crate) fn handle(&self, request: ApiRequest) -> (u16, Vec<u8>) {
        self.runtime.block_on(async {
            let response = self.api.handle(request).await;
            let status = response.status.as_u16();
            let mut whole = Vec::new();
            match response.body {
                ResponseBody::Whole(bytes) => whole.extend_from_slice(&bytes),
                ResponseBody::Stream(mut pieces) => {
                    while let Some(piece) = pieces.next().await {
                        whole.extend_from_slice(&piece.into_bytes());
                    }
                }
            }
            (status, whole)
        })
    }
}

impl InProcessServer {
    /// The peak memory of a request beside its own bytes, and the response.
    pub(crate) fn peak(&self, request: ApiRequest) -> (u64, u16) {
        let ((status, _), cost) = measured(|| self.handle(request));
        (cost.peak_bytes, status)
    }

    /// Waits until the new CRD is served.
    fn wait_for_kind(&self, case: &CostCase, answer: &[u8]) {
        if !answer.starts_with(b"{\"kind\":\"CustomResourceDefinition\"") {
            return;
        }
        for _ in 0..CRD_POLLS_MAX {
            if self.handle(get("/apis/example.com/v1/things")).0 == 200 {
                return;
            }
            self.runtime.block_on(tokio::task::yield_now());
        }
        panic!("{}: the kind is not served", case.name);
    }
}

struct CaseMeasurement {
    cost: Cost,
    status: u16,
    sent_bytes: usize,
    answer: Vec<u8>,
}

fn measure(shared: &InProcessServer, case: &CostCase, items: usize) -> CaseMeasurement {
    let own = case
        .before
        .as_ref()
        .map(|before| (InProcessServer::new(), before(items)));
    let world = own.as_ref().map_or(shared, |(world, _)| world);
    let mut sent_bytes = 0;
    let mut last = Vec::new();
    for mut request in own.iter().flat_map(|(_, before)| before.clone()) {
        request.body = with_revision(&request.body, &last);
        sent_bytes += request.body.len();
        let (status, answer) = world.handle(request);
        let told = String::from_utf8_lossy(&answer[..answer.len().min(500)]).into_owned();
        if !case.at_once {
            world.wait_for_kind(case, &answer);
        }
        // What is refused is not there, then.
        let well = status < 300 || status == 422;
        assert!(well, "{}: before: {status} {told}", case.name);
        last = answer;
    }
    let mut request = (case.request)(items);
    request.body = with_revision(&request.body, &last);
    sent_bytes += request.body.len() + request.query.len();
    let ((status, answer), cost) = measured(|| world.handle(request));
    CaseMeasurement {
        cost,
        status,
        sent_bytes,
        answer,
    }
}

fn with_revision(body: &Bytes, answer: &[u8]) -> Bytes {
    if answer.is_empty() {
        return body.clone();
    }
    let (answer, body) = (
        String::from_utf8_lossy(answer),
        String::from_utf8_lossy(body),
    );
    let told = answer.split_once("\"resourceVersion\":\"");
    let told = told.and_then(|(_, after)| after.split_once('"'));
    let revision = told.map_or("", |(revision, _)| revision);
    body.replace(LAST_REVISION, revision).into()
}

fn least(shared: &InProcessServer, case: &CostCase, items: usize, looks: usize) -> CaseMeasurement {
    let mut first = measure(shared, case, items);
    for _ in 1..looks {
        first.cost = first.cost.least(measure(shared, case, items).cost);
    }
    first
}

/// Complains about every case that grows too fast, not only the first.
pub(crate) fn check(mut cases: Vec<CostCase>) {
    // `CASE=` selects cases by a part of their names.
    if let Ok(part) = std::env::var("CASE") {
        cases.retain(|case| case.name.contains(&part));
    }
    let mut complaints = String::new();
    let all = cases.len();
    let shared = InProcessServer::new();
    for case in cases {
        if let Some(complaint) = growth_violation(&shared, &case) {
            let _ = writeln!(complaints, "{}: {complaint}", case.name);
        }
    }
    let wrong = complaints.lines().count();
    assert!(complaints.is_empty(), "{wrong} of {all}:\n{complaints}");
}

fn growth_violation(shared: &InProcessServer, case: &CostCase) -> Option<String> {
    // Most cases are far below the limit, and are measured once.
    for looks in [1, MEASUREMENTS] {
        let small = least(shared, case, case.items, looks);
        let large = least(shared, case, 4 * case.items, looks);
        note(case, &small, &large);
        let wrong = check_growth(&small, &large);
        if wrong.is_none() || looks == MEASUREMENTS {
            return wrong;
        }
    }
    None
}

fn check_growth(small: &CaseMeasurement, large: &CaseMeasurement) -> Option<String> {
    let bytes = large.sent_bytes as u64;
    let wrong = optik_cost::growth_violation(small.cost, large.cost, bytes, ALLOWANCE)?;
    let told = String::from_utf8_lossy(&large.answer[..large.answer.len().min(200)]);
    Some(format!("{wrong}; {bytes} bytes, {} {told}", large.status))
}

/// Prints costs with `--nocapture` and `COSTS=1`.
#[expect(clippy::print_stderr, reason = "numbers are for people")]
fn note(case: &CostCase, small: &CaseMeasurement, large: &CaseMeasurement) {
    if std::env::var_os("COSTS").is_some() {
        let (time, peak) = (large.cost.time, large.cost.peak_bytes);
        eprintln!(
            "{:>9.1?} {:>9.1?} x{:<5.1} mem x{:<5.1} peak {:>4} B/B {} {}",
            small.cost.time,
            time,
            time.as_secs_f64() / small.cost.time.as_secs_f64(),
            large.cost.allocated_bytes as f64 / small.cost.allocated_bytes as f64,
            peak / large.sent_bytes.max(1) as u64,
            large.status,
            case.name
        );
    }
}
