//! DefaultStorageClass and DefaultIngressClass: set the default class on objects that name none.

use crate::admission::AdmissionAttributes;
use crate::admission::plugins::{SyncPlugin, is_create_of, list_objects};
use optik_catalog::key_prefix;
use optik_object::{Object, Status, Value};

pub(super) struct DefaultClasses;

/// API group and resource, directory of its classes, annotation of the default class, and the field
/// that names the class.
const CLASSES: &[(&str, &str, &str, &str, &str)] = &[
    (
        "",
        "persistentvolumeclaims",
        key_prefix("storage.k8s.io", "storageclasses"),
        "storageclass.kubernetes.io/is-default-class",
        "storageClassName",
    ),
    (
        "networking.k8s.io",
        "ingresses",
        key_prefix("networking.k8s.io", "ingressclasses"),
        "ingressclass.kubernetes.io/is-default-class",
        "ingressClassName",
    ),
];

impl SyncPlugin for DefaultClasses {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        let mut kinds = CLASSES.iter();
        kinds.any(|(group, plural, ..)| is_create_of(attributes, group, plural))
    }

    fn admit(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        set_default_class(attributes, object);
        Ok(())
    }
}

fn set_default_class(attributes: &AdmissionAttributes<'_>, object: &mut Object) {
    let mut kinds = CLASSES.iter();
    let found = kinds.find(|(group, plural, ..)| attributes.is_resource(group, plural));
    let Some((_, _, directory, mark, member)) = found else {
        return;
    };
    let annotations = [
        "volume.beta.kubernetes.io/storage-class",
        "kubernetes.io/ingress.class",
    ];
    if annotations
        .iter()
        .any(|name| object.annotation(name).is_some())
    {
        return;
    }
    let Some(Value::Object(spec)) = object.members_mut().get_mut("spec") else {
        return;
    };
    if spec.get(*member).is_some_and(|class| !class.is_null()) {
        return;
    }
    let classes = list_objects(attributes.store, directory).into_iter();
    let defaults = classes.filter(|class| class.annotation(mark) == Some("true"));
    // The newest default class is used; of several from one second, the first by name.
    let newest = defaults.min_by_key(|class| {
        let made = class.creation_timestamp().map_or(0, |time| time.seconds());
        (-made, class.name().to_owned())
    });
    if let Some(class) = newest {
        spec.insert((*member).into(), class.name().into());
    }
}
