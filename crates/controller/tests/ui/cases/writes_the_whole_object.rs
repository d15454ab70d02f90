use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use optik_controller::{Cached, ReconcileContext, ReconcileError};

async fn write(
    cx: &mut ReconcileContext<Secret>,
    map: &Cached<ConfigMap>,
) -> Result<(), ReconcileError> {
    let mut map: ConfigMap = (**map).clone();
    map.data = None;
    cx.update(map).await
}

fn main() {}
