use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use optik_controller::{Cx, Fault, ObjectKey, Reader};

fn read(cx: &Cx<ConfigMap>, secrets: &Reader<Secret>) -> Result<Option<String>, Fault> {
    let secret = cx.get(secrets, &ObjectKey::new("default", "password"))?;
    Ok(secret.type_.clone())
}

fn main() {}
