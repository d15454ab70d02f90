//! The benchmark controller on `optik-controller`.

use super::measure::Meter;
use super::runtime_args::RuntimeArgs;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Config;
use optik_controller::{
    Cached, ControllerOptions, Manager, ManagerOptions, ObjectSelector, Outcome, ReconcileContext,
    ReconcileError, Reconciler,
};
use std::error::Error;
use std::sync::Arc;

struct MeteredReconciler(Arc<Meter>);

impl Reconciler for MeteredReconciler {
    type Primary = ConfigMap;
    const NAME: &'static str = "bench";

    async fn reconcile(
        &self,
        map: Cached<ConfigMap>,
        _: &mut ReconcileContext<ConfigMap>,
    ) -> Result<Outcome, ReconcileError> {
        self.0.record_reconcile(&map);
        self.0.task.work().await;
        Ok(Outcome::Done)
    }
}

pub(crate) async fn run(task: RuntimeArgs) -> Result<(), Box<dyn Error>> {
    let mut options = ManagerOptions::default();
    options.streaming_lists = !task.pages;
    options.keep_managed_fields = task.managed_fields;
    let mut manager = Manager::with_options(Config::new(task.server.parse()?), options)?;
    let mut options = ControllerOptions::default();
    options.selection = ObjectSelector::namespace(&task.namespace);
    let meter = Arc::new(Meter::new(task));
    let shared = Arc::clone(&meter);
    manager.add_with(options, |_| MeteredReconciler(shared))?;
    manager.run(meter.over.notified()).await?;
    Ok(())
}
