use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use optik_controller::{Cx, Fault, ObjectKey, Reader};

fn read(cx: &Cx<ConfigMap>) -> Result<bool, Fault> {
    let secrets: Reader<Secret> = Reader::new();
    Ok(cx.get(&secrets, &ObjectKey::new("default", "password"))?.is_some())
}

fn main() {}
