//! Concurrent writers of the collection.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use kube::{Error, ResourceExt};
use optik_platform::SeededEntropy;
use optik_store_testkit::timeout::within;
use std::collections::BTreeMap;
use tokio::task::JoinSet;

const NAMES: u64 = 12;

pub(crate) fn config_map(name: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("value".to_owned(), value.to_owned())])),
        ..ConfigMap::default()
    }
}

/// The number of tasks, and of operations in each.
#[derive(Clone, Copy)]
pub(crate) struct Churn {
    pub(crate) seed: u64,
    pub(crate) tasks: u64,
    pub(crate) deeds: u32,
}

/// Changes config maps until all tasks are done.
pub(crate) async fn churn(url: &str, plan: Churn) {
    let mut tasks = JoinSet::new();
    for number in 0..plan.tasks {
        let api = Api::default_namespaced(crate::client(url));
        let dice = SeededEntropy::new(plan.seed * 100 + number);
        tasks.spawn(async move {
            for deed in 0..plan.deeds {
                let name = format!("o-{}", dice.below(NAMES));
                let value = format!("{number} {deed}");
                let deletes = dice.below(5) == 0;
                match random_operation(&api, &name, &value, deletes).await {
                    Ok(()) => {}
                    // Another client was faster.
                    Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                    Err(error) => panic!("{name}: {error}"),
                }
            }
        });
    }
    while let Some(task) = within("the churn", tasks.join_next()).await {
        task.expect("churns");
    }
}

async fn random_operation(
    api: &Api<ConfigMap>,
    name: &str,
    value: &str,
    deletes: bool,
) -> Result<(), Error> {
    let post = PostParams::default();
    match api.get_opt(name).await? {
        Some(_) if deletes => drop(api.delete(name, &DeleteParams::default()).await?),
        Some(mut found) => {
            found.data = config_map(name, value).data;
            api.replace(name, &post, &found).await?;
        }
        None => drop(api.create(&post, &config_map(name, value)).await?),
    }
    Ok(())
}

/// Creates an object, and returns its revision.
pub(crate) async fn create_marker(url: &str, name: &str) -> u64 {
    let api: Api<ConfigMap> = Api::default_namespaced(crate::client(url));
    let object = config_map(name, "a mark");
    let made = api.create(&PostParams::default(), &object).await;
    let made = made.expect("nobody else makes this");
    let revision = made.resource_version().and_then(|text| text.parse().ok());
    revision.expect("it has a revision")
}
