//! Objects, and changes of them.

use super::measure::{SENT, STOP, micros, object_name};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::json;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// The maximum number of concurrent requests.
const CONCURRENCY_MAX: usize = 16;

#[derive(Clone)]
pub(crate) struct LoadGenerator {
    pub(crate) namespace: String,
    objects: usize,
    namespaces: Api<Namespace>,
    maps: Api<ConfigMap>,
}

/// Counts changes, so that consecutive changes are of different objects.
static CHANGES: AtomicUsize = AtomicUsize::new(0);

impl LoadGenerator {
    pub(crate) fn new(server: &str, objects: usize) -> Result<Self, Box<dyn Error>> {
        let client = Client::try_from(Config::new(server.parse()?))?;
        let namespace = format!("bench-{objects}");
        Ok(Self {
            objects,
            maps: Api::namespaced(client.clone(), &namespace),
            namespaces: Api::all(client),
            namespace,
        })
    }

    /// Makes all objects, unless an earlier run has.
    pub(crate) async fn prepare(&self) -> Result<(), kube::Error> {
        if self.namespaces.get_opt(&self.namespace).await?.is_some() {
            return Ok(());
        }
        let mut new = Namespace::default();
        new.metadata.name = Some(self.namespace.clone());
        self.namespaces.create(&PostParams::default(), &new).await?;
        let make = |number| async move {
            let made = object(number);
            self.maps.create(&PostParams::default(), &made).await?;
            Ok(())
        };
        let making = stream::iter(0..self.objects).map(make);
        making.buffer_unordered(CONCURRENCY_MAX).try_collect().await
    }

    /// Changes at a rate, whether the last was answered or not.
    pub(crate) async fn change_at_rate(
        &self,
        load: &str,
        rate: u32,
        changes: usize,
    ) -> Result<(), Box<dyn Error>> {
        let mut pace = tokio::time::interval(Duration::from_secs(1) / rate.max(1));
        let mut sent = JoinSet::new();
        for _ in 0..changes {
            pace.tick().await;
            let (all, load) = (self.clone(), load.to_owned());
            sent.spawn(async move { all.change_next(&load).await });
            while let Some(done) = sent.try_join_next() {
                done??;
            }
        }
        while let Some(done) = sent.join_next().await {
            done??;
        }
        Ok(())
    }

    /// Sends changes as fast as the server accepts them.
    pub(crate) async fn change_at_full_speed(
        &self,
        load: &str,
        changes: usize,
    ) -> Result<(), kube::Error> {
        let touching = stream::iter(0..changes).map(|_| self.change_next(load));
        touching
            .buffer_unordered(CONCURRENCY_MAX)
            .try_collect()
            .await
    }

    async fn change_next(&self, load: &str) -> Result<(), kube::Error> {
        let change = CHANGES.fetch_add(1, Ordering::Relaxed);
        // A prime: all objects have a turn before one has a second.
        let name = object_name(change.wrapping_mul(7919) % self.objects);
        let sent = format!("{load}:{}", micros());
        let patch = Patch::Merge(json!({"metadata": {"annotations": {SENT: sent}}}));
        self.maps
            .patch(&name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Creates the object that ends a measurement.
    pub(crate) async fn create_stop_marker(&self) -> Result<(), kube::Error> {
        let mut stop = ConfigMap::default();
        stop.metadata.name = Some(STOP.to_owned());
        self.maps.create(&PostParams::default(), &stop).await?;
        Ok(())
    }

    pub(crate) async fn delete_stop_marker(&self) -> Result<(), kube::Error> {
        if self.maps.get_opt(STOP).await?.is_some() {
            self.maps.delete(STOP, &DeleteParams::default()).await?;
        }
        Ok(())
    }
}

fn object(number: usize) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(object_name(number));
    let label = |key: &str, value: String| (key.to_owned(), value);
    let labels = [
        label("app", "bench".into()),
        label("shard", (number % 16).to_string()),
    ];
    map.metadata.labels = Some(labels.into());
    let data = (0..8).map(|part| (format!("key-{part}"), "x".repeat(100)));
    map.data = Some(data.collect());
    map
}
