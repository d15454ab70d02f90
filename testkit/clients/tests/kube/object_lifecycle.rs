//! Objects of several kinds, from creation to deletion.

use crate::errors::refused;
use crate::sample_objects;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus};
use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, NamespaceCondition, Pod, PodStatus, Secret,
};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Resource, ResourceExt};
use optik_server_testkit::{TestEngine, TestServer};
use optik_store_testkit::timeout::within;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

trait TestObject:
    Resource<DynamicType = ()>
    + Clone
    + Debug
    + PartialEq
    + Serialize
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
}

impl TestObject for ConfigMap {}
impl TestObject for Secret {}
impl TestObject for Pod {}
impl TestObject for Deployment {}
impl TestObject for Namespace {}

async fn live<K: TestObject>(api: &Api<K>, fresh: fn(&str) -> K) {
    let post = PostParams::default();
    let made = api.create(&post, &fresh("one")).await.expect("can be made");
    assert!(made.uid().is_some() && made.creation_timestamp().is_some());
    let again = api.create(&post, &fresh("one")).await;
    refused(again, 409, "AlreadyExists");
    assert_eq!(api.get("one").await.expect("is there"), made);
    let named = ListParams::default().fields("metadata.name=one");
    let listed = api.list(&named).await.expect("can be listed");
    assert_eq!(listed.items, std::slice::from_ref(&made));
    change(api, &made).await;
    end(api, &made).await;
}

async fn change<K: TestObject>(api: &Api<K>, made: &K) {
    let post = PostParams::default();
    let mut wanted = made.clone();
    let label = ("changed".to_owned(), "yes".to_owned());
    wanted.labels_mut().extend([label]);
    let changed = api.replace("one", &post, &wanted).await;
    let changed = changed.expect("can be changed");
    assert_eq!(changed.labels(), wanted.labels());
    assert_ne!(changed.resource_version(), made.resource_version());
    assert_eq!(api.get("one").await.expect("is there"), changed);
    // The resourceVersion is stale.
    let stale = api.replace("one", &post, &wanted).await;
    refused(stale, 409, "Conflict");
    assert_eq!(api.get("one").await.expect("is there"), changed);
}

async fn end<K: TestObject>(api: &Api<K>, made: &K) {
    let uid = made.uid().expect("it has one");
    let deleted = api.delete("one", &DeleteParams::default()).await;
    deleted.expect("can be deleted");
    let gone = await_condition(api.clone(), "one", conditions::is_deleted(&uid));
    within("the end", gone).await.expect("can be watched");
    refused(api.get("one").await, 404, "NotFound");
}

async fn every_kind(engine: TestEngine) {
    let server = TestServer::start(engine).await;
    let client = crate::client(&server.url);
    live(
        &Api::default_namespaced(client.clone()),
        sample_objects::config_map,
    )
    .await;
    live(
        &Api::default_namespaced(client.clone()),
        sample_objects::secret,
    )
    .await;
    live(
        &Api::default_namespaced(client.clone()),
        sample_objects::pod,
    )
    .await;
    live(
        &Api::default_namespaced(client.clone()),
        sample_objects::deployment,
    )
    .await;
    live(&Api::all(client), sample_objects::namespace).await;
    server.stop().await;
}

/// Deletes the objects that a selector matches.
async fn clear<K: TestObject>(api: &Api<K>, fresh: fn(&str) -> K) {
    for name in ["one", "two", "three"] {
        let mut object = fresh(name);
        let group = if name == "three" { "kept" } else { "meant" };
        let label = ("group".to_owned(), group.to_owned());
        object.labels_mut().extend([label]);
        let made = api.create(&PostParams::default(), &object).await;
        made.expect("can be made");
    }
    let meant = ListParams::default().labels("group=meant");
    let deleted = api
        .delete_collection(&DeleteParams::default(), &meant)
        .await;
    let deleted = deleted.expect("can be deleted");
    let deleted = deleted.left().expect("the objects are listed");
    assert_eq!(deleted.items.len(), 2);
    let left = api.list(&ListParams::default()).await;
    let left = left.expect("can be listed").items;
    let names: Vec<_> = left.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["three"]);
}

async fn whole_collections(engine: TestEngine) {
    let server = TestServer::start(engine).await;
    let client = crate::client(&server.url);
    clear(
        &Api::default_namespaced(client.clone()),
        sample_objects::config_map,
    )
    .await;
    clear(
        &Api::default_namespaced(client.clone()),
        sample_objects::secret,
    )
    .await;
    clear(
        &Api::default_namespaced(client.clone()),
        sample_objects::pod,
    )
    .await;
    clear(&Api::default_namespaced(client), sample_objects::deployment).await;
    server.stop().await;
}

/// Sets the status, and checks that only the status subresource changes it, and that it changes
/// nothing else.
async fn set_status<K: TestObject>(api: &Api<K>, fresh: fn(&str) -> K, set: fn(&mut K)) {
    let post = PostParams::default();
    let made = api.create(&post, &fresh("status")).await;
    let made = made.expect("can be made");
    let mut wanted = made.clone();
    set(&mut wanted);
    let ignored = api.replace("status", &post, &wanted).await;
    let ignored = ignored.expect("can be sent");
    assert_eq!(ignored, made, "only a status was sent, and not as such");
    let replaced = api.replace_status("status", &post, &wanted).await;
    let replaced = replaced.expect("can be changed");
    assert_ne!(replaced.resource_version(), made.resource_version());
    let mut expected = wanted.clone();
    expected.meta_mut().resource_version = replaced.resource_version();
    expected.meta_mut().managed_fields = replaced.meta().managed_fields.clone();
    assert_eq!(replaced, expected);
    let stale = api.replace_status("status", &post, &wanted).await;
    refused(stale, 409, "Conflict");
}

async fn statuses(engine: TestEngine) {
    let server = TestServer::start(engine).await;
    let client = crate::client(&server.url);
    let pods = Api::default_namespaced(client.clone());
    set_status(&pods, sample_objects::pod, |pod: &mut Pod| {
        let status = pod.status.get_or_insert_default();
        *status = PodStatus {
            phase: Some("Running".to_owned()),
            ..status.clone()
        };
    })
    .await;
    let deployments = Api::default_namespaced(client.clone());
    set_status(
        &deployments,
        sample_objects::deployment,
        |it: &mut Deployment| {
            it.status = Some(DeploymentStatus {
                replicas: Some(2),
                observed_generation: it.meta().generation,
                ..DeploymentStatus::default()
            });
        },
    )
    .await;
    let namespaces = Api::all(client);
    set_status(
        &namespaces,
        sample_objects::namespace,
        |it: &mut Namespace| {
            let status = it.status.get_or_insert_default();
            status.conditions = Some(vec![NamespaceCondition {
                type_: "Seen".to_owned(),
                status: "True".to_owned(),
                ..NamespaceCondition::default()
            }]);
        },
    )
    .await;
    server.stop().await;
}

mod engines {
    crate::on_every_engine!(every_kind, whole_collections, statuses);
}
