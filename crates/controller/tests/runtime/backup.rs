//! The `Backup` CRD of the tests, and controllers for it that count their reconciles.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, ResourceExt};
use optik_controller::{
    Cached, Cleanup, EventRecord, ObjectKey, ObjectStatus, Outcome, Owned, ReconcileContext,
    ReconcileError, Reconciler, Watches, new_condition, set_condition,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1alpha1",
    kind = "Backup",
    namespaced,
    status = "BackupStatus"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackupSpec {
    pub(crate) retention_days: u32,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackupStatus {
    pub(crate) phase: Option<String>,
    pub(crate) observed_generation: Option<i64>,
    #[serde(default)]
    pub(crate) conditions: Vec<Condition>,
}

impl ObjectStatus for BackupStatus {
    fn observed_generation(&mut self) -> Option<&mut Option<i64>> {
        Some(&mut self.observed_generation)
    }

    fn conditions(&mut self) -> Option<&mut Vec<Condition>> {
        Some(&mut self.conditions)
    }
}

/// Counts the reconciles and cleanups of a controller.
#[derive(Debug, Default)]
pub(crate) struct ReconcileCounter {
    /// Distinguishes the processes of a test.
    salt: u64,
    reconciles: AtomicU64,
    cleanups: Mutex<BTreeMap<String, u64>>,
}

impl ReconcileCounter {
    pub(crate) fn for_process(salt: u64) -> Self {
        Self {
            salt,
            ..Self::default()
        }
    }

    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    pub(crate) fn reconciles(&self) -> u64 {
        self.reconciles.load(Ordering::SeqCst)
    }

    pub(crate) fn count(&self) -> u64 {
        self.reconciles.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn cleanups(&self) -> BTreeMap<String, u64> {
        self.cleanups.lock().expect("nobody panics with it").clone()
    }
}

/// A controller that keeps a ConfigMap for each Backup.
pub(crate) struct Backups {
    pub(crate) maps: Owned<ConfigMap>,
    pub(crate) tally: Arc<ReconcileCounter>,
}

impl Backups {
    pub(crate) fn build(
        tally: &Arc<ReconcileCounter>,
    ) -> impl FnOnce(&mut Watches<'_, Backup>) -> Self + use<> {
        let tally = Arc::clone(tally);
        move |watches| Self {
            maps: watches.owns(),
            tally,
        }
    }
}

pub(crate) fn desired_map(backup: &Backup) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(format!("{}-settings", backup.name_any()));
    let days = backup.spec.retention_days.to_string();
    map.data = Some([("retention".to_owned(), days)].into());
    map
}

impl Reconciler for Backups {
    type Primary = Backup;
    const NAME: &'static str = "backups";
    const FINALIZER: Option<&'static str> = Some("example.com/backups");

    async fn reconcile(
        &self,
        backup: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        self.tally.count();
        let applied = cx.apply(&self.maps, desired_map(&backup)).await?;
        let key =
            ObjectKey::from_object(&*applied).ok_or_else(|| ReconcileError::terminal("no name"))?;
        let read = cx.get(&self.maps, &key)?;
        let read = read.ok_or_else(|| ReconcileError::terminal("what was written is not there"))?;
        assert_eq!(read.data, desired_map(&backup).data, "reads see writes");
        cx.update_status(|status| {
            status.phase = Some("Ready".into());
            let ready = new_condition("Ready", true, "Applied", "the settings are there");
            set_condition(&mut status.conditions, ready);
        });
        cx.record_event(EventRecord::normal(
            "Applied",
            "Backup",
            "the settings are there",
        ));
        Ok(Outcome::Done)
    }

    async fn cleanup(
        &self,
        backup: Cached<Backup>,
        _: &mut ReconcileContext<Backup>,
    ) -> Result<Cleanup, ReconcileError> {
        let uid = backup.uid().unwrap_or_default();
        let mut cleanups = self.tally.cleanups.lock().expect("nobody panics with it");
        *cleanups.entry(uid).or_default() += 1;
        Ok(Cleanup::Finished)
    }
}

/// Creates a child with a new name whenever it finds none. With a stale cache this creates two
/// children, which is a classic mistake.
pub(crate) struct ChildCreator {
    maps: Owned<ConfigMap>,
    tally: Arc<ReconcileCounter>,
}

impl ChildCreator {
    pub(crate) fn build(
        tally: &Arc<ReconcileCounter>,
    ) -> impl FnOnce(&mut Watches<'_, Backup>) -> Self + use<> {
        let tally = Arc::clone(tally);
        move |watches| Self {
            maps: watches.owns(),
            tally,
        }
    }
}

impl Reconciler for ChildCreator {
    type Primary = Backup;
    const NAME: &'static str = "careless";

    async fn reconcile(
        &self,
        _: Cached<Backup>,
        cx: &mut ReconcileContext<Backup>,
    ) -> Result<Outcome, ReconcileError> {
        let number = self.tally.count();
        let is_child = |map: &Cached<ConfigMap>| map.name_any().starts_with("child-");
        if !cx.list_owned(&self.maps)?.iter().any(is_child) {
            let mut map = ConfigMap::default();
            map.metadata.name = Some(format!("child-{number}-{:x}", self.tally.salt()));
            cx.apply(&self.maps, map).await?;
            assert!(
                cx.list_owned(&self.maps)?.iter().any(is_child),
                "reads see writes"
            );
        }
        Ok(Outcome::Done)
    }
}
