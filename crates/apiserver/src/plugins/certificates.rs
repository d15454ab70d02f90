//! Who asks for a certificate is written into the request by the server.

use super::makes;
use crate::admission::{Attributes, Draft, Step};
use futures::future::{BoxFuture, FutureExt, ready};
use optik_object::{Status, Value};

pub(super) struct Certificates;

impl Step for Certificates {
    fn concerns(&self, attributes: &Attributes<'_>) -> bool {
        makes(
            attributes,
            "certificates.k8s.io",
            "certificatesigningrequests",
        )
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        draft: &'a mut Draft,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let request = draft.object.as_mut();
        let spec = request.and_then(|object| object.members_mut().get_mut("spec"));
        if let Some(Value::Object(spec)) = spec {
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
        ready(Ok(())).boxed()
    }
}
