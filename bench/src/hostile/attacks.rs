//! The most expensive known requests, each with a body of maximum length, built once.

use super::world::{HostileBenchUser, custom_place};
use crate::error::BenchError;
use bytes::Bytes;
use http::{Method, Uri};
use serde_json::{Map, Value, json};

/// The maximum body length, less room for the text around the items.
const BODY_BYTES: usize = 3 * 1024 * 1024 - 4096;
/// The total length of an object's finalizers: managedFields repeat them, so there is no room for
/// more.
const LISTED_BYTES: usize = 500_000;

/// Members of an object of which each has an owner: more would be too many values.
const WIDE_BYTES: usize = 400_000;
/// As many items with a member of their own as a body may have.
const ITEMS_MAX: usize = 35_000;

/// Of the list by key that is stored.
const BY_KEY_ITEMS: usize = 8_000;

const JSON: &str = "application/json";

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) media_type: &'static str,
    pub(super) accept: Option<&'static str>,
    pub(super) body: Bytes,
}

/// Objects that some attacks need.
pub(super) fn objects() -> [Value; 2] {
    let finalizers = items(LISTED_BYTES, |at| format!("a.io/{at}").into());
    [
        json!({"metadata": {"name": "listed", "finalizers": finalizers}}),
        json!({"metadata": {"name": "wide"}, "data": members(WIDE_BYTES, |at| (format!("k{at}"), "".into()))}),
    ]
}

/// As many items as fit.
fn items(bytes: usize, item: impl Fn(usize) -> Value) -> Value {
    let mut left = bytes;
    let all = (0..).map(item).take_while(|item| {
        let length = item.to_string().len() + 1;
        left = left.saturating_sub(length);
        left > 0
    });
    all.collect()
}

fn first(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

fn members(bytes: usize, member: impl Fn(usize) -> (String, Value)) -> Value {
    let mut left = bytes;
    let all = (0..).map(member).take_while(|(key, value)| {
        let length = key.len() + value.to_string().len() + 4;
        left = left.saturating_sub(length);
        left > 0
    });
    Value::Object(all.collect::<Map<_, _>>())
}

fn object(mut metadata: Value) -> Value {
    metadata["name"] = "a".into();
    let mut object = json!({});
    object["metadata"] = metadata;
    object
}

fn pod(container: Value) -> Value {
    let mut container = container;
    container["name"] = "c".into();
    container["image"] = "i".into();
    json!({"metadata": {"name": "a"}, "spec": {"containers": [container]}})
}

fn texts(what: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{what}{at}")).collect()
}

pub(super) fn all(user: &HostileBenchUser) -> Result<Vec<Attack>, BenchError> {
    let mut attacks = creations(user);
    attacks.extend(patches(user));
    attacks.extend(reads(user));
    attacks.extend(customs(user));
    if attacks.iter().any(|attack| attack.body.len() > 3 << 20) {
        return Err(BenchError::from_message("a body is too long"));
    }
    Ok(attacks)
}

/// The object of the custom kind that some attacks need.
pub(super) fn custom_object() -> Value {
    custom(json!({"byKey": by_key(0..BY_KEY_ITEMS)}))
}

fn custom(spec: Value) -> Value {
    let mut object = json!({"apiVersion": "hostile.optik.dev/v1", "kind": "List"});
    object["metadata"] = json!({"name": "listed"});
    object["spec"] = spec;
    object
}

fn by_key(items: impl Iterator<Item = usize>) -> Value {
    items
        .map(|at| json!({"type": format!("t{at}"), "value": "v"}))
        .collect()
}

/// Of objects whose lists are compared by key, and whose rules compare all with all.
fn customs(user: &HostileBenchUser) -> Vec<Attack> {
    let place = custom_place();
    let attack = |name, (method, media_type), path: String, body: Value| Attack {
        name,
        method,
        uri: user
            .connector
            .uri(&format!("{path}?dryRun=All&timeout=20s")),
        media_type,
        accept: None,
        body: body.to_string().into(),
    };
    let reversed = custom(json!({"byKey": by_key((0..BY_KEY_ITEMS).rev())}));
    let compared: Value = (0..1000).map(Value::from).collect();
    let mut costly = custom(json!({"compared": compared}));
    costly["metadata"]["name"] = "costly".into();
    let listed = format!("{place}/listed");
    vec![
        attack(
            "a list by key, turned round",
            (Method::PATCH, MERGE),
            listed,
            reversed,
        ),
        attack(
            "a rule that compares all with all",
            (Method::POST, JSON),
            place,
            costly,
        ),
    ]
}

fn creations(user: &HostileBenchUser) -> Vec<Attack> {
    let core = format!("/api/v1/namespaces/{}", user.namespace);
    let rbac = format!(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{}",
        user.namespace
    );
    let post = |name, place: String, body: String, media_type| Attack {
        name,
        method: Method::POST,
        uri: user
            .connector
            .uri(&format!("{place}?dryRun=All&timeout=20s")),
        media_type,
        accept: None,
        body: body.into(),
    };
    let maps = |name, body: Value| post(name, format!("{core}/configmaps"), body.to_string(), JSON);
    let pods = |name, body: Value| post(name, format!("{core}/pods"), body.to_string(), JSON);
    let product = json!({"verbs": texts("v", 100), "apiGroups": texts("g", 100), "resources": texts("r", 100), "resourceNames": texts("n", 100)});
    let owner =
        |at: usize| json!({"apiVersion": "v1", "kind": "P", "name": format!("o{at}"), "uid": "u"});
    let mut wide = json!({"metadata": {"name": "a"}});
    wide["data"] = members(BODY_BYTES, |at| (format!("k{at}"), "".into()));
    let yaml = (0..BODY_BYTES / 14)
        .map(|at| format!("  k{at}: v\n"))
        .collect::<String>();
    vec![
        maps("members", wide),
        maps("owners", object(json!({"ownerReferences": items(BODY_BYTES, owner)}))),
        maps("bad labels", object(json!({"labels": members(BODY_BYTES, |at| (format!("-{at}"), "-".into()))}))),
        maps("finalizers", object(json!({"finalizers": items(BODY_BYTES, |at| format!("a.io/{at}").into())}))),
        maps("unknown lists", json!({"metadata": {"name": "a"}, "x": items(BODY_BYTES, |_| json!([]))})),
        pods("env", pod(json!({"env": items(BODY_BYTES, |at| json!({"name": format!("E{at}")}))}))),
        pods("args", pod(json!({"args": items(BODY_BYTES, |_| "".into())}))),
        pods("empty containers", json!({"metadata": {"name": "a"}, "spec": {"containers": items(BODY_BYTES, |_| json!({}))}})),
        pods("volumes", json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": items(BODY_BYTES, |at| json!({"name": format!("v{at}")}))}})),
        pods("env that fits", pod(json!({"env": first(ITEMS_MAX, |at| json!({"name": format!("E{at}")}))}))),
        pods("args that fit", pod(json!({"args": first(12 * ITEMS_MAX, |_| "".into())}))),
        pods("empty containers that fit", json!({"metadata": {"name": "a"}, "spec": {"containers": first(2 * ITEMS_MAX, |_| json!({}))}})),
        pods("volumes that fit", json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": first(ITEMS_MAX, |at| json!({"name": format!("v{at}")}))}})),
        maps("owners that fit", object(json!({"ownerReferences": first(ITEMS_MAX * 4 / 5, owner)}))),
        post("a role of 100^4", format!("{rbac}/roles"), json!({"metadata": {"name": "a"}, "rules": [product]}).to_string(), JSON),
        post("many rules", format!("{rbac}/roles"), json!({"metadata": {"name": "a"}, "rules": items(BODY_BYTES, |at| json!({"verbs": ["get"], "apiGroups": [""], "resources": [format!("r{at}")]}))}).to_string(), JSON),
        post("yaml", format!("{core}/configmaps"), format!("metadata: {{name: a}}\ndata:\n{yaml}"), "application/yaml"),
        post("not a document", format!("{core}/configmaps"), "[".repeat(BODY_BYTES), JSON),
        post("access of labels", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned(), json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "labelSelector": {"requirements": items(BODY_BYTES, |at| json!({"key": format!("k{at}"), "operator": "Exists"}))}}}}).to_string(), JSON),
    ]
}

fn patches(user: &HostileBenchUser) -> Vec<Attack> {
    let maps = format!("/api/v1/namespaces/{}/configmaps", user.namespace);
    let patch = |name, object: &str, media_type, body: Value| Attack {
        name,
        method: Method::PATCH,
        uri: user.connector.uri(&format!(
            "{maps}/{object}?dryRun=All&timeout=20s&fieldManager=attacker{}",
            if media_type == APPLY {
                "&force=true"
            } else {
                ""
            }
        )),
        media_type,
        accept: None,
        body: body.to_string().into(),
    };
    let front = |op: &str| {
        (0..9_999)
            .map(|_| json!({"op": op, "path": "/metadata/finalizers/0", "value": "a.io/x"}))
            .collect::<Value>()
    };
    let copied: Value =
        std::iter::once(json!({"op": "add", "path": "/data", "value": {"a": "x".repeat(1000)}}))
            .chain(
                (0..11).map(
                    |at| json!({"op": "copy", "from": "/data", "path": format!("/data/{at}")}),
                ),
            )
            .collect();
    let mut wide = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "wide"}});
    wide["data"] = members(WIDE_BYTES, |at| (format!("k{at}"), "w".into()));
    let order = items(LISTED_BYTES, |at| format!("a.io/{at}").into());
    vec![
        patch(
            "items put in at the front",
            "listed",
            JSON_PATCH,
            front("add"),
        ),
        patch(
            "items taken out at the front",
            "listed",
            JSON_PATCH,
            front("remove"),
        ),
        patch("copies of copies", "small", JSON_PATCH, copied),
        patch("a merge of many members", "wide", MERGE, wide.clone()),
        patch(
            "a strategic merge of many members",
            "wide",
            "application/strategic-merge-patch+json",
            wide.clone(),
        ),
        patch("an apply of many members", "wide", APPLY, wide),
        patch(
            "an order of many items",
            "listed",
            "application/strategic-merge-patch+json",
            json!({"metadata": {"$setElementOrder/finalizers": order}}),
        ),
        patch(
            "a short patch of a long object",
            "wide",
            MERGE,
            json!({"metadata": {"labels": {"a": "b"}}}),
        ),
    ]
}

const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn reads(user: &HostileBenchUser) -> Vec<Attack> {
    let maps = format!("/api/v1/namespaces/{}/configmaps", user.namespace);
    let get = |name, path: String, accept| Attack {
        name,
        method: Method::GET,
        uri: user.connector.uri(&path),
        media_type: JSON,
        accept: Some(accept),
        body: Bytes::new(),
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    vec![
        get("get as yaml", format!("{maps}/wide"), "application/yaml"),
        get(
            "get as protobuf",
            format!("{maps}/wide"),
            "application/vnd.kubernetes.protobuf",
        ),
        get("get as a table", format!("{maps}/wide"), table),
        get("list as yaml", maps.clone(), "application/yaml"),
        get(
            "list as protobuf",
            maps.clone(),
            "application/vnd.kubernetes.protobuf",
        ),
        get("list as json", maps, JSON),
        get("the api described", "/openapi/v2".to_owned(), JSON),
    ]
}
