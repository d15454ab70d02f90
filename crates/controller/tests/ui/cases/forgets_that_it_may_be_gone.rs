use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use optik_controller::{CacheReader, ObjectKey, ReconcileContext, ReconcileError};

fn read(
    cx: &ReconcileContext<ConfigMap>,
    secrets: &CacheReader<Secret>,
) -> Result<Option<String>, ReconcileError> {
    let secret = cx.get(secrets, &ObjectKey::new("default", "password"))?;
    Ok(secret.type_.clone())
}

fn main() {}
