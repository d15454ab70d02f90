use k8s_openapi::api::core::v1::ConfigMap;
use optik_controller::{Cx, Fault, Outcome, Reconciler, Snap};

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
        _: Snap<ConfigMap>,
        event: Event,
        _: &mut Cx<ConfigMap>,
    ) -> Result<Outcome, Fault> {
        match event {
            Event::Created | Event::Updated => Ok(Outcome::Done),
        }
    }
}

fn main() {}
