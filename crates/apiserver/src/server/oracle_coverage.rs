//! Checks that the authorization oracle (`optik_api_testkit::oracle`) covers every endpoint,
//! subresource and document the router knows. A new one needs a row there.

use crate::registry::served_resource::ResourceRegistry;
use crate::request::http_types::{ApiRequest, User};
use crate::request::route::Route;
use crate::server::ApiServer;
use crate::server::endpoint::tests::every_request;
use crate::server::endpoint::{EndpointError, ResourceEndpoint};
use http::Method;
use optik_api_testkit::oracle::{self, OracleRequest, Permission};
use optik_auth::{RequestInfo, ResourceRequestInfo};
use optik_catalog::SubresourceAction;
use optik_store::{Options, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A list of all variants, which does not compile if one is missing.
macro_rules! variants {
    ($all:ident, $name:ident($of:ident): $($variant:ident)*) => {
        const $all: &[&str] = &[$(stringify!($variant)),*];

        fn $name(value: &$of) -> &'static str {
            match value {
                $($of::$variant { .. } => stringify!($variant)),*
            }
        }
    };
}

variants!(ENDPOINTS, endpoint_name(ResourceEndpoint):
    List Watch WatchObject Get Create Update Patch Delete DeleteCollection Evict Bind BindByBody
    IssueToken Review ListComponents GetComponent Connect NameMissing);
variants!(REFUSALS, refusal_name(EndpointError):
    Method Resource Path Object Watch NamespaceMissing BadName);
variants!(ROUTES, route_name(Route):
    Root CoreVersions Groups Group GroupVersion OpenApiV2 OpenApiV3 OpenIdConfiguration
    OpenIdKeys UnknownOfCore Unknown);
variants!(ACTIONS, action_name(SubresourceAction):
    Status Approve Finalize Scale Bind Evict EphemeralContainers Resize Token Connect ReadOnly Unserved);

/// Variants that no subresource in the catalog has.
const ACTIONS_OF_NOTHING: [&str; 2] = ["ReadOnly", "Unserved"];

fn name_set<'a>(names: &[&'a str]) -> BTreeSet<&'a str> {
    names.iter().copied().collect()
}

/// The built-in kinds, and the oracle's custom resource.
async fn kinds() -> Arc<ResourceRegistry> {
    let store = Store::open(Options::ephemeral()).unwrap();
    let api = ApiServer::new(store.clone());
    api.bootstrap().await.unwrap();
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut request = ApiRequest::new(&Method::POST, path);
    request.user = User::admin().into();
    request.body = oracle::definition().to_string().into();
    assert_eq!(api.handle(request).await.status, 201);
    api.load_crds(&store.snapshot());
    assert!(api.update_crd_statuses().await);
    let kinds = api.current_registry();
    assert!(kinds.all.iter().any(|kind| kind.custom.is_some()));
    kinds
}

/// The oracle's requests of users with a right on one resource: these cover all verbs.
fn oracle_requests() -> Vec<ResourceRequestInfo> {
    let of_each: BTreeMap<String, Permission> = oracle::permissions()
        .map(|right| (right.rule_resource(), right))
        .collect();
    let mut all = Vec::new();
    for right in of_each.values() {
        let sent = oracle::requests(right);
        let requests = sent.iter().filter_map(|sent| match request_info(sent) {
            RequestInfo::Resource(request) => Some(request),
            RequestInfo::NonResource(_) => None,
        });
        all.extend(requests.filter(|request| is_about(right, request)));
    }
    all
}

fn request_info(sent: &OracleRequest) -> RequestInfo {
    let (path, query) = sent.url.split_once('?').unwrap_or((&sent.url, ""));
    RequestInfo::new(sent.method, path, query)
}

fn is_about(right: &Permission, request: &ResourceRequestInfo) -> bool {
    let (target, kind) = (&request.target, right.resource.kind());
    (target.group == kind.group && target.plural == kind.plural)
        && target.subresource.as_deref() == right.subresource.map(|part| part.name)
}

#[tokio::test]
async fn authorization_oracle_covers_every_endpoint() {
    let kinds = kinds().await;
    let mut possible = BTreeMap::new();
    every_request(&kinds, |kind, _, _, _, request| {
        if let Ok(endpoint) = ResourceEndpoint::find(kind, request) {
            possible.insert(format!("{endpoint:?}"), endpoint_name(&endpoint));
        }
    });
    let names: BTreeSet<_> = possible.values().copied().collect();
    assert_eq!(
        names,
        name_set(ENDPOINTS),
        "endpoints that no path leads to"
    );
    for request in oracle_requests() {
        let target = &request.target;
        let Some(kind) = kinds.find(&target.group, &target.version, &target.plural) else {
            continue;
        };
        if let Ok(endpoint) = ResourceEndpoint::find(kind, &request) {
            possible.remove(&format!("{endpoint:?}"));
        }
    }
    assert!(possible.is_empty(), "nobody asks for {:?}", possible.keys());
}

#[tokio::test]
async fn authorization_oracle_covers_every_endpoint_error() {
    let kinds = kinds().await;
    let mut met = BTreeSet::new();
    for right in oracle::permissions() {
        // One verb is enough: the requests depend on the resource.
        if right.verb != "get" {
            continue;
        }
        for sent in oracle::requests(&right) {
            let RequestInfo::Resource(request) = request_info(&sent) else {
                continue;
            };
            let target = &request.target;
            let kind = kinds.find(&target.group, &target.version, &target.plural);
            let refused = kind.and_then(|kind| ResourceEndpoint::find(kind, &request).err());
            met.extend(refused.as_ref().map(refusal_name));
        }
    }
    assert_eq!(met, name_set(REFUSALS));
}

#[tokio::test]
async fn authorization_oracle_covers_every_subresource() {
    let kinds = kinds().await;
    let mut asked_for = BTreeSet::new();
    for request in oracle_requests() {
        let target = &request.target;
        let kind = kinds.find(&target.group, &target.version, &target.plural);
        let name = target.subresource.as_deref();
        if let (Some(kind), Some(name)) = (kind, name)
            && ResourceEndpoint::find(kind, &request).is_ok()
            && let Some(subresource) = kind.resource.subresource(name)
        {
            asked_for.insert((name.to_owned(), format!("{:?}", subresource.action)));
        }
    }
    let catalog = optik_catalog::builtin();
    let all: Vec<_> = catalog.iter().flat_map(|it| &it.subresources).collect();
    let missing: BTreeSet<_> = all
        .iter()
        .map(|it| (it.name.to_string(), format!("{:?}", it.action)))
        .filter(|pair| !asked_for.contains(pair))
        .collect();
    assert!(missing.is_empty(), "nobody asks for {missing:?}");
    let mut actions: BTreeSet<_> = all.iter().map(|it| action_name(&it.action)).collect();
    actions.extend(ACTIONS_OF_NOTHING);
    assert_eq!(actions, name_set(ACTIONS));
}

#[test]
fn authorization_oracle_covers_every_non_resource_route() {
    let routes: BTreeSet<_> = oracle::non_resource_requests()
        .filter_map(|sent| match request_info(&sent) {
            RequestInfo::NonResource(request) => Some(route_name(&Route::from_request(&request))),
            RequestInfo::Resource(_) => None,
        })
        .collect();
    assert_eq!(routes, name_set(ROUTES));
}
