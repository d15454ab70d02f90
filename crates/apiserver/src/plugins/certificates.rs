//! Who asks for a certificate is written into the request by the server.

use super::{Plugin, makes};
use crate::admission::Attributes;
use optik_object::{Object, Status, Value};

pub(super) struct Certificates;

impl Plugin for Certificates {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        makes(
            attributes,
            "certificates.k8s.io",
            "certificatesigningrequests",
        )
    }

    fn change(&self, attributes: &Attributes<'_>, request: &mut Object) -> Result<(), Status> {
        if let Some(Value::Object(spec)) = request.members_mut().get_mut("spec") {
            let user = attributes.user;
            for member in ["username", "uid", "groups", "extra"] {
                spec.remove(member);
            }
            if !user.name.is_empty() {
                spec.insert("username".into(), user.name.as_str().into());
            }
            if !user.uid.is_empty() {
                spec.insert("uid".into(), user.uid.as_str().into());
            }
            if !user.groups.is_empty() {
                let groups: Vec<Value> = user.groups.iter().map(|g| g.as_str().into()).collect();
                spec.insert("groups".into(), groups.into());
            }
        }
        Ok(())
    }
}
