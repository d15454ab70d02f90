//! PersistentVolumeClaimResize: a claim grows only where its class lets it.

use super::{Plugin, find, refuse};
use crate::admission::{Attributes, Operation};
use optik_builtin::Quantity;
use optik_object::{Object, Status, Value};

pub(super) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == Operation::Update
            && attributes.subresource.is_empty()
            && attributes.is("", "persistentvolumeclaims")
    }

    fn check(&self, attributes: &Attributes<'_>, claim: &Object) -> Result<(), Status> {
        let Some(old) = attributes.old else {
            return Ok(());
        };
        if size(claim) <= size(old) {
            return Ok(());
        }
        let status = old.get("status").unwrap_or(&Value::Null);
        if status["phase"] != "Bound" {
            let why = "Only bound persistent volume claims can be expanded";
            return Err(refuse(attributes, why));
        }
        if !may_grow(attributes, claim, old) {
            let why = "only dynamically provisioned pvc can be resized and the storageclass that \
                       provisions the pvc must support resize";
            return Err(refuse(attributes, why));
        }
        Ok(())
    }
}

fn spec(claim: &Object) -> &Value {
    claim.get("spec").unwrap_or(&Value::Null)
}

fn size(claim: &Object) -> Quantity {
    let asked = &spec(claim)["resources"]["requests"]["storage"];
    Quantity::of(asked).unwrap_or(Quantity::ZERO)
}

fn class(claim: &Object) -> &str {
    let named = spec(claim)["storageClassName"].as_str();
    let noted = claim.annotation("volume.beta.kubernetes.io/storage-class");
    noted.or(named).unwrap_or_default()
}

fn may_grow(attributes: &Attributes<'_>, claim: &Object, old: &Object) -> bool {
    let name = class(claim);
    if name.is_empty() || name != class(old) {
        return false;
    }
    let key = format!("/registry/storageclasses/{name}");
    let class = find(attributes.store, &key);
    class.is_some_and(|class| class.get("allowVolumeExpansion") == Some(&Value::Bool(true)))
}
