use k8s_openapi::api::core::v1::ConfigMap;
use optik_controller::{Cached, Outcome, ReconcileContext, ReconcileError, Reconciler};

enum Event {
    Created,
    Updated,
}

struct Branching;

impl Reconciler for Branching {
    type Primary = ConfigMap;
    const NAME: &'static str = "branching";

    async fn reconcile(
        &self,
        _: Cached<ConfigMap>,
        event: Event,
        _: &mut ReconcileContext<ConfigMap>,
    ) -> Result<Outcome, ReconcileError> {
        match event {
            Event::Created | Event::Updated => Ok(Outcome::Done),
        }
    }
}

fn main() {}
