use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use optik_controller::{CacheReader, ObjectKey, ReconcileContext, ReconcileError};

fn read(cx: &ReconcileContext<ConfigMap>) -> Result<bool, ReconcileError> {
    let secrets: CacheReader<Secret> = CacheReader::new();
    Ok(cx
        .get(&secrets, &ObjectKey::new("default", "password"))?
        .is_some())
}

fn main() {}
