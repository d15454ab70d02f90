//! PersistentVolumeClaimResize: a claim can grow only if its storage class allows expansion.

use crate::admission::plugins::{SyncPlugin, forbidden, get_object};
use crate::admission::{AdmissionAttributes, AdmissionOperation};
use optik_builtin::Quantity;
use optik_catalog::key_prefix;
use optik_object::{Object, Status, Value};

const CLASSES_PREFIX: &str = key_prefix("storage.k8s.io", "storageclasses");

pub(super) struct PersistentVolumeClaimResize;

impl SyncPlugin for PersistentVolumeClaimResize {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        attributes.operation == AdmissionOperation::Update
            && attributes.subresource.is_empty()
            && attributes.is_resource("", "persistentvolumeclaims")
    }

    fn validate(&self, attributes: &AdmissionAttributes<'_>, claim: &Object) -> Result<(), Status> {
        let Some(old) = attributes.old else {
            return Ok(());
        };
        if size(claim) <= size(old) {
            return Ok(());
        }
        let status = old.get("status").unwrap_or(&Value::Null);
        if status["phase"] != "Bound" {
            let why = "Only bound persistent volume claims can be expanded";
            return Err(forbidden(attributes, why));
        }
        if !class_allows_expansion(attributes, claim, old) {
            let why = "only dynamically provisioned pvc can be resized and the storageclass that \
                       provisions the pvc must support resize";
            return Err(forbidden(attributes, why));
        }
        Ok(())
    }
}

fn spec(claim: &Object) -> &Value {
    claim.get("spec").unwrap_or(&Value::Null)
}

fn size(claim: &Object) -> Quantity {
    let asked = &spec(claim)["resources"]["requests"]["storage"];
    Quantity::from_value(asked).unwrap_or(Quantity::ZERO)
}

fn storage_class(claim: &Object) -> &str {
    let named = spec(claim)["storageClassName"].as_str();
    let noted = claim.annotation("volume.beta.kubernetes.io/storage-class");
    noted.or(named).unwrap_or_default()
}

fn class_allows_expansion(
    attributes: &AdmissionAttributes<'_>,
    claim: &Object,
    old: &Object,
) -> bool {
    let name = storage_class(claim);
    if name.is_empty() || name != storage_class(old) {
        return false;
    }
    let key = format!("{CLASSES_PREFIX}{name}");
    let class = get_object(attributes.store, &key);
    class.is_some_and(|class| class.get("allowVolumeExpansion") == Some(&Value::Bool(true)))
}
