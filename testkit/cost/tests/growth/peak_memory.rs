//! The peak memory of one request of any content.
//!
//! Bodies have the maximum length, or the maximum number of values. Long requests run on few
//! threads, and each user has at most one such request in progress: this bounds the memory that one
//! user can cause.

use crate::case::{ApiRequest, InProcessServer, patch, post, request, typed};
use http::Method;
use serde_json::{Map, Value, json};

/// The limit for the peak memory of one request.
const PEAK_BYTES_MAX: u64 = 80 << 20;
/// The maximum body length, less room for the text around the items.
const BODY_BYTES: usize = 3 * 1024 * 1024 - 4096;
/// The maximum length of an object that the store keeps, likewise.
const STORED_BYTES: usize = 1_400_000;
/// The number of sizes that are tried: the longest is often rejected early.
const STEPS: usize = 4;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";

/// A request by how many items it has.
type Make = Box<dyn Fn(usize) -> ApiRequest>;

fn list(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn members(count: usize, value: &str) -> Value {
    let all = (0..count).map(|at| (format!("k{at}"), value.into()));
    Value::Object(all.collect::<Map<_, _>>())
}

fn configmap(metadata: Value) -> Value {
    let mut object = json!({"metadata": metadata});
    object["metadata"]["name"] = "a".into();
    object
}

fn pod(container: Value) -> Value {
    let mut container = container;
    container["name"] = "c".into();
    container["image"] = "i".into();
    json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}})
}

fn dry(place: &str, body: &Value) -> ApiRequest {
    post(&format!("{place}?dryRun=All"), body)
}

fn owner(at: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "P", "name": format!("o{at}"), "uid": "u"})
}

/// Objects in lists and maps of all kinds, made by a POST.
fn creations() -> Vec<(&'static str, Make)> {
    fn maps(make: impl Fn(usize) -> Value + 'static) -> Make {
        Box::new(move |n| dry(MAPS, &make(n)))
    }
    fn pods(make: impl Fn(usize) -> Value + 'static) -> Make {
        Box::new(move |n| dry(PODS, &make(n)))
    }
    vec![
        (
            "members",
            maps(|n| json!({"metadata": {"name": "a"}, "data": members(n, "")})),
        ),
        (
            "labels",
            maps(|n| configmap(json!({"labels": members(n, "")}))),
        ),
        (
            "owners",
            maps(|n| configmap(json!({"ownerReferences": list(n, owner)}))),
        ),
        (
            "finalizers",
            maps(|n| configmap(json!({"finalizers": list(n, |at| format!("a.io/{at}").into())}))),
        ),
        (
            "unknown lists",
            maps(|n| json!({"metadata": {"name": "a"}, "x": list(n, |_| json!([]))})),
        ),
        (
            "unknown maps",
            maps(|n| json!({"metadata": {"name": "a"}, "x": list(n, |_| json!({"a": 0}))})),
        ),
        (
            "managers",
            maps(|n| {
                configmap(
                    json!({"managedFields": list(n, |at| json!({"manager": format!("m{at}"), "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}))}),
                )
            }),
        ),
        (
            "managed fields",
            maps(|n| {
                configmap(
                    json!({"managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": (0..n).map(|at| (format!("f:{at}"), json!({}))).collect::<Map<_, _>>()}}]}),
                )
            }),
        ),
        (
            "env",
            pods(|n| pod(json!({"env": list(n, |at| json!({"name": format!("E{at}")}))}))),
        ),
        (
            "args",
            pods(|n| pod(json!({"args": list(n, |_| "".into())}))),
        ),
        (
            "empty containers",
            pods(
                |n| json!({"metadata": {"name": "a"}, "spec": {"containers": list(n, |_| json!({}))}}),
            ),
        ),
        (
            "named containers",
            pods(
                |n| json!({"metadata": {"name": "a"}, "spec": {"containers": list(n, |at| json!({"name": format!("c{at}"), "image": "i"}))}}),
            ),
        ),
        (
            "ports",
            pods(|n| {
                pod(json!({"ports": list(n, |at| json!({"containerPort": at % 65_000 + 1}))}))
            }),
        ),
        (
            "volumes",
            pods(
                |n| json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": list(n, |at| json!({"name": format!("v{at}")}))}}),
            ),
        ),
        (
            "tolerations",
            pods(
                |n| json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], "tolerations": list(n, |_| json!({}))}}),
            ),
        ),
        (
            "rules",
            Box::new(|n| {
                dry(
                    ROLES,
                    &json!({"metadata": {"name": "a"}, "rules": list(n, |at| json!({"verbs": ["get"], "apiGroups": [""], "resources": [format!("r{at}")]}))}),
                )
            }),
        ),
        (
            "empty rules",
            Box::new(|n| {
                dry(
                    ROLES,
                    &json!({"metadata": {"name": "a"}, "rules": list(n, |_| json!({}))}),
                )
            }),
        ),
        (
            "access of labels",
            Box::new(|n| {
                post(
                    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    &json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"requirements": list(n, |at| json!({"key": format!("k{at}"), "operator": "Exists"}))}}}}),
                )
            }),
        ),
        (
            "yaml",
            Box::new(|n| {
                let lines = (0..n).map(|at| format!("  k{at}: v\n")).collect::<String>();
                let body = format!("metadata: {{name: a}}\ndata:\n{lines}");
                typed(
                    request(&Method::POST, &format!("{MAPS}?dryRun=All"), body),
                    "content-type",
                    "application/yaml",
                )
            }),
        ),
        (
            "yaml maps",
            Box::new(|n| {
                let body = format!("metadata: {{name: a}}\nx: [{}]", "{a: b},".repeat(n));
                typed(
                    request(&Method::POST, &format!("{MAPS}?dryRun=All"), body),
                    "content-type",
                    "application/yaml",
                )
            }),
        ),
    ]
}

/// Changes of `wide`, which has many members, and of `listed`, which has many finalizers.
fn changes() -> Vec<(&'static str, Make)> {
    fn wide(how: &'static str) -> Make {
        Box::new(move |n| {
            let mut body =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wide"}});
            body["data"] = members(n, "w");
            patch(how, &format!("{MAPS}/wide"), &body)
        })
    }
    fn front(op: &'static str) -> Make {
        Box::new(move |n| {
            let op = |_| json!({"op": op, "path": "/metadata/finalizers/0", "value": "a.io/x"});
            patch("json", &format!("{MAPS}/listed"), &list(n.min(9_999), op))
        })
    }
    vec![
        ("merge", wide("merge")),
        ("strategic merge", wide("strategic-merge")),
        ("apply", wide("apply")),
        ("items at the front", front("add")),
        ("items off the front", front("remove")),
        (
            "copies of copies",
            Box::new(|n| {
                let first = json!({"op": "add", "path": "/data", "value": {"a": "x".repeat(1000)}});
                let copy =
                    |at| json!({"op": "copy", "from": "/data", "path": format!("/data/{at}")});
                let all = std::iter::once(first).chain((0..n.min(14)).map(copy));
                patch("json", &format!("{MAPS}/listed"), &all.collect())
            }),
        ),
        (
            "an order",
            Box::new(|n| {
                let order = list(n, |at| format!("a.io/{at}").into());
                patch(
                    "strategic-merge",
                    &format!("{MAPS}/listed"),
                    &json!({"metadata": {"$setElementOrder/finalizers": order}}),
                )
            }),
        ),
    ]
}

/// Reads that every client may do.
fn reads() -> Vec<(&'static str, Make)> {
    let get = |path: String, accept: &'static str| -> Make {
        Box::new(move |_| typed(request(&Method::GET, &path, ""), "accept", accept))
    };
    let (table, protobuf) = (
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
    );
    vec![
        (
            "get as yaml",
            get(format!("{MAPS}/wide"), "application/yaml"),
        ),
        ("get as protobuf", get(format!("{MAPS}/wide"), protobuf)),
        ("get as a table", get(format!("{MAPS}/wide"), table)),
        ("list as yaml", get(MAPS.to_owned(), "application/yaml")),
        ("list as protobuf", get(MAPS.to_owned(), protobuf)),
        (
            "the API described",
            get("/openapi/v2".to_owned(), "application/json"),
        ),
        (
            "the API described, compactly",
            get(
                "/openapi/v2".to_owned(),
                "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            ),
        ),
    ]
}

/// The most that the request holds, with as many items as fit and with fewer: what is refused
/// for its length or its number of values holds less than what is just not.
fn peak(world: &InProcessServer, make: &Make) -> (u64, u16, usize) {
    let longest = items_that_fit(make);
    let mut most = (0, 0, 0);
    for step in 1..=STEPS {
        let items = longest * step / STEPS;
        let asked = make(items);
        let (bytes, status) = world.peak(asked);
        most = most.max((bytes, status, items));
    }
    most
}

fn items_that_fit(make: &Make) -> usize {
    let length = |items: usize| make(items).body.len();
    let (one, many) = (length(1_000), length(11_000));
    match (many - one) / 10_000 {
        0 => 10_000,
        each => BODY_BYTES / (each + 1),
    }
}

fn world() -> InProcessServer {
    let world = InProcessServer::new();
    let finalizers = list(STORED_BYTES / 2 / 14, |at| format!("a.io/{at}").into());
    for object in [
        json!({"metadata": {"name": "listed", "finalizers": finalizers}}),
        json!({"metadata": {"name": "wide"}, "data": members(40_000, "")}),
    ] {
        let (status, answer) = world.handle(post(MAPS, &object));
        let told = String::from_utf8_lossy(&answer[..answer.len().min(500)]).into_owned();
        assert_eq!(status, 201, "{told}");
    }
    world
}

#[expect(clippy::print_stderr, reason = "numbers are for people")]
pub(crate) fn check() {
    let world = world();
    let all = creations().into_iter().chain(changes()).chain(reads());
    let mut complaints = Vec::new();
    for (name, make) in all {
        let (bytes, status, items) = peak(&world, &make);
        let told = format!("{name}: {} MiB with {items} items, {status}", bytes >> 20);
        if std::env::var_os("COSTS").is_some() {
            eprintln!("{told}");
        }
        if bytes > PEAK_BYTES_MAX {
            complaints.push(told);
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}
