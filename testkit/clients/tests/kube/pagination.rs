//! A paginated list is one consistent state, whatever is written between the pages.

use crate::churn::config_map;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use optik_server_testkit::{TestEngine, TestServer};

async fn consistent(engine: TestEngine) {
    let server = TestServer::start(engine).await;
    let api: Api<ConfigMap> = Api::default_namespaced(crate::client(&server.url));
    let names: Vec<String> = (0..7).map(|number| format!("o-{number}")).collect();
    for name in &names {
        let object = config_map(name, "x");
        let made = api.create(&PostParams::default(), &object).await;
        made.expect("can be made");
    }
    let mut page = ListParams::default().limit(3);
    let mut listed = Vec::new();
    let mut sizes = Vec::new();
    let mut revisions = Vec::new();
    loop {
        let part = api.list(&page).await.expect("can be listed");
        sizes.push((part.items.len(), part.metadata.remaining_item_count));
        listed.extend(part.items.iter().map(ResourceExt::name_any));
        revisions.push(part.metadata.resource_version);
        match part.metadata.continue_ {
            Some(token) if !token.is_empty() => page = page.continue_token(&token),
            _ => break,
        }
        disturb(&api, sizes.len()).await;
    }
    assert_eq!(listed, names);
    assert_eq!(sizes, [(3, Some(4)), (3, Some(1)), (1, None)]);
    revisions.dedup();
    assert_eq!(revisions.len(), 1, "all pages are of one revision");
    server.stop().await;
}

/// Changes objects before and after the current page.
async fn disturb(api: &Api<ConfigMap>, round: usize) {
    let gone = format!("o-{}", 7 - round);
    let deleted = api.delete(&gone, &DeleteParams::default()).await;
    deleted.expect("is there");
    let added = config_map(&format!("o-{round}-new"), "x");
    let added = api.create(&PostParams::default(), &added).await;
    added.expect("is not there");
}

mod engines {
    crate::on_every_engine!(consistent);
}
