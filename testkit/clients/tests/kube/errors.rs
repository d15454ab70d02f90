//! kube-rs understands the error responses.

use crate::churn::config_map;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Error;
use kube::api::{Api, DeleteParams, ListParams, PostParams, VersionMatch};
use optik_server_testkit::{TestEngine, TestServer};
use std::fmt::Debug;

/// That a request was refused for this reason.
#[track_caller]
pub(crate) fn refused<T: Debug>(result: Result<T, Error>, code: u16, reason: &str) {
    match result {
        Err(Error::Api(status)) => {
            assert_eq!((status.code, &*status.reason), (code, reason), "{status:?}");
            assert!(status.is_failure(), "{status:?}");
        }
        other => panic!("not refused with {reason}: {other:?}"),
    }
}

async fn missing(engine: TestEngine) {
    let server = TestServer::start(engine).await;
    let client = crate::client(&server.url);
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let post = PostParams::default();
    let object = config_map("missing", "x");
    assert_eq!(api.get_opt("missing").await.expect("can be asked"), None);
    refused(api.get("missing").await, 404, "NotFound");
    refused(
        api.replace("missing", &post, &object).await,
        404,
        "NotFound",
    );
    let delete = DeleteParams::default();
    refused(api.delete("missing", &delete).await, 404, "NotFound");
    let nowhere: Api<ConfigMap> = Api::namespaced(client, "nowhere");
    refused(nowhere.create(&post, &object).await, 404, "NotFound");
    server.stop().await;
}

async fn invalid(engine: TestEngine) {
    let server = TestServer::start(engine).await;
    let api: Api<ConfigMap> = Api::default_namespaced(crate::client(&server.url));
    let post = PostParams::default();
    let object = config_map("No Name", "x");
    refused(api.create(&post, &object).await, 422, "Invalid");
    let ahead = ListParams::default().limit(1).continue_token("no token");
    refused(api.list(&ahead).await, 400, "BadRequest");
    server.stop().await;
}

/// A list at a revision, and the rest of a list, after that revision is forgotten.
async fn expired(engine: TestEngine) {
    let server = TestServer::start(engine).await;
    let api: Api<ConfigMap> = Api::default_namespaced(crate::client(&server.url));
    let post = PostParams::default();
    for name in ["a", "b", "c"] {
        let made = api.create(&post, &config_map(name, "x")).await;
        made.expect("can be made");
    }
    let page = ListParams::default().limit(2);
    let first = api.list(&page).await.expect("can be listed");
    let token = first.metadata.continue_.expect("there is more");
    let revision = first.metadata.resource_version.expect("is of a revision");
    let made = api.create(&post, &config_map("d", "x")).await;
    made.expect("can be made");
    let now = server.store.snapshot().revision();
    server.store.compact(now).await.expect("can be compacted");
    let then = ListParams::default()
        .at(&revision)
        .matching(VersionMatch::Exact);
    refused(api.list(&then).await, 410, "Expired");
    refused(api.list(&page.continue_token(&token)).await, 410, "Expired");
    let now = api.list(&ListParams::default()).await;
    assert_eq!(now.expect("can be listed").items.len(), 4);
    server.stop().await;
}

mod engines {
    crate::on_every_engine!(missing, invalid, expired);
}
