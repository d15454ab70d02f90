//! Controller that maintains one `APIService` object per served group and version.
//!
//! Nothing in the server depends on these objects; they inform clients. Those of built-in groups
//! are created at start and left alone afterwards; those of CRD groups are created and deleted with
//! their CRDs.

use crate::registry::served_resource::{ResourceRegistry, parse_stored};
use crate::request::http_types::{ApiRequest, ResponseBody, User};
use crate::server::ApiServer;
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use http::Method;
use optik_catalog::key_prefix;
use optik_control_loop::{ControlLoop, Outcome, Step};
use optik_object::{Object, Timestamp, Value};
use optik_store::{KeyRange, Snapshot, Store};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const DIRECTORY: &str = key_prefix("apiregistration.k8s.io", "apiservices");
const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const AUTOMANAGED_LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The `apiregistration.k8s.io` group itself gets no `APIService`.
const APIREGISTRATION_GROUP: &str = "apiregistration.k8s.io";
/// Maximum number of concurrent writes: concurrent writes share the store's fsyncs.
const CONCURRENT_WRITES_MAX: usize = 32;

/// Minimum priority of built-in groups; a group not listed has the priority of a CRD group.
const GROUP_PRIORITIES: &[(&str, u32)] = &[
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("apiextensions.k8s.io", 16700),
    ("admissionregistration.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("internal.apiserver.k8s.io", 16000),
    ("storagemigration.k8s.io", 16000),
];

/// Versions whose priority differs from that of a first stable version.
const VERSION_PRIORITIES: &[(&str, &str, u32)] = &[
    ("", "v1", 1),
    ("autoscaling", "v2", 30),
    ("flowcontrol.apiserver.k8s.io", "v1", 21),
    ("resource.k8s.io", "v1", 21),
];

/// Prepares a new `APIService`. One that names no service is served locally and is marked
/// available.
pub(crate) fn prepare_for_create(object: &mut Object, now: Timestamp) {
    let spec = object.get("spec");
    let is_local = spec.is_none_or(|spec| spec["service"].is_null());
    let status = if is_local {
        json!({"conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": now.to_string(),
            "reason": "Local", "message": "Local APIServices are always available",
        }]})
    } else {
        json!({})
    };
    object.members_mut().insert("status".into(), status);
}

/// Creates the `APIService` objects of the kinds that are served now.
pub async fn create_api_services(api: &ApiServer, store: &Store) {
    let kinds = Arc::clone(&api.watch_registry().borrow());
    reconcile(api, store, &kinds, ReconcileScope::AllGroups).await;
}

/// Runs the `APIService` controller until it is dropped or the store stops.
pub async fn run_apiservice_controller(api: ApiServer, store: Store) {
    let mut kinds = api.watch_registry();
    kinds.mark_unchanged();
    create_api_services(&api, &store).await;
    let mut control = ControlLoop::new(&store, [KeyRange::prefix(DIRECTORY)]);
    loop {
        let step = tokio::select! {
            step = control.next() => step,
            changed = kinds.changed() => {
                if changed.is_err() {
                    return;
                }
                control.add(());
                continue;
            }
        };
        match step {
            None => return,
            Some(Step::Resync(_) | Step::Changes(_)) => control.add(()),
            Some(Step::Work(_)) => {
                let now = Arc::clone(&kinds.borrow_and_update());
                let settled = reconcile(&api, &store, &now, ReconcileScope::CustomGroups).await;
                control.finish((), Outcome::done_if(settled));
            }
        }
    }
}

/// When a reconciliation runs, and so which groups it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReconcileScope {
    /// At server start: built-in groups are included.
    AllGroups,
    CustomGroups,
}

/// Creates missing objects and deletes those no longer served. Returns false if work is left.
async fn reconcile(
    api: &ApiServer,
    store: &Store,
    kinds: &ResourceRegistry,
    pass: ReconcileScope,
) -> bool {
    let Ok(state) = store.latest().await else {
        return false;
    };
    let wanted = desired_api_services(kinds);
    let missing = wanted.iter().filter(|(name, object)| {
        let is_due = pass == ReconcileScope::AllGroups || automanaged_value(object) == Some("true");
        is_due && state.get(format!("{DIRECTORY}{name}").as_bytes()).is_none()
    });
    let made = missing.map(|(_, object)| {
        let body = optik_object::to_bytes(&Value::from(object.clone()));
        request(&Method::POST, PATH, body)
    });
    let gone = stale_api_services(&state, &wanted).into_iter();
    let gone = gone.map(|name| request(&Method::DELETE, &format!("{PATH}/{name}"), Vec::new()));
    let requests: Vec<ApiRequest> = made.chain(gone).collect();
    drop(state);
    let answers = stream::iter(requests).map(|request| send(api, request));
    let answers = answers.buffer_unordered(CONCURRENT_WRITES_MAX);
    answers.all(std::future::ready).await
}

/// The desired `APIService` objects, by name.
fn desired_api_services(kinds: &ResourceRegistry) -> BTreeMap<String, Object> {
    let mut wanted = BTreeMap::new();
    for kind in &kinds.all {
        let (group, version) = (&*kind.resource.group, &*kind.resource.version);
        let name = format!("{version}.{group}");
        if group == APIREGISTRATION_GROUP || wanted.contains_key(&name) {
            continue;
        }
        let object = api_service(&name, group, version, kind.custom.is_some());
        wanted.insert(name, object);
    }
    wanted
}

fn api_service(name: &str, group: &str, version: &str, custom: bool) -> Object {
    let known = GROUP_PRIORITIES.iter().find(|(known, _)| *known == group);
    let of_group = known.filter(|_| !custom).map_or(1000, |(_, known)| *known);
    let mut versions = VERSION_PRIORITIES.iter();
    let known = versions.find(|known| (known.0, known.1) == (group, version));
    let of_version = match (custom, known) {
        (true, _) => 100,
        (false, Some((_, _, known))) => *known,
        (false, None) => 15,
    };
    let mut spec = json!({
        "version": version, "groupPriorityMinimum": of_group, "versionPriority": of_version,
    });
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    let managed = if custom { "true" } else { "onstart" };
    let object = json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": name, "labels": {AUTOMANAGED_LABEL: managed}}, "spec": spec,
    });
    Object::try_from(object).unwrap_or_default()
}

fn automanaged_value(object: &Object) -> Option<&str> {
    object.label(AUTOMANAGED_LABEL)
}

/// `APIService` objects created by this controller for CRDs that no longer exist.
fn stale_api_services(state: &Snapshot, wanted: &BTreeMap<String, Object>) -> Vec<String> {
    let entries = state.entries(&KeyRange::prefix(DIRECTORY));
    let objects = entries.filter_map(|stored| parse_stored(stored.value()).ok());
    let ours = objects.filter(|object| {
        automanaged_value(object) == Some("true")
            && !wanted.contains_key(object.name())
            && !object.is_being_deleted()
    });
    ours.map(|object| object.name().to_owned()).collect()
}

fn request(method: &Method, path: &str, body: Vec<u8>) -> ApiRequest {
    let mut request = ApiRequest::new(method, path);
    let agent = http::HeaderValue::from_static("kube-apiserver");
    request.headers.insert(http::header::USER_AGENT, agent);
    request.user = Arc::new(User {
        name: "system:apiserver".into(),
        groups: vec!["system:masters".into()],
        ..User::default()
    });
    request.body = Bytes::from(body);
    request
}

async fn send(api: &ApiServer, request: ApiRequest) -> bool {
    let info = Arc::clone(&request.info);
    let response = api.handle_without_admission(request).await;
    match response.status.as_u16() {
        // 404 and 409: another server on the same store was faster.
        200..=299 | 404 | 409 => true,
        _ => {
            if let ResponseBody::Whole(text) = &response.body {
                let (verb, text) = (info.verb(), String::from_utf8_lossy(text));
                tracing::warn!(verb, "cannot write APIService: {text}");
            }
            false
        }
    }
}
