use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use optik_controller::{Cx, Fault, Snap};

async fn write(cx: &mut Cx<Secret>, map: &Snap<ConfigMap>) -> Result<(), Fault> {
    let mut map: ConfigMap = (**map).clone();
    map.data = None;
    cx.update(map).await
}

fn main() {}
