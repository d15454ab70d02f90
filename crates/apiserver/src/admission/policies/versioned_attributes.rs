//! The inputs of policy evaluation: shared dependencies, and a write in the version that a policy
//! matched.

use crate::admission::AdmissionAttributes;
use crate::admission::policies::evaluation_context::ExpressionInputs;
use crate::admission::policies::policy_matcher::PolicyInvocation;
use crate::admission::policies::policy_set::Policies;
use crate::auth::RbacAuthorizer;
use crate::registry::crd::webhook_conversion::convert_to_kind;
use crate::registry::served_resource::ServedResource;
use crate::server::webhook_client::WebhookClient;
use optik_object::{Object, Status, Value as Json};
use std::sync::Arc;

/// The dependencies that validating and mutating policies share.
#[derive(Clone)]
pub(crate) struct PolicyDeps {
    pub(crate) policies: Arc<Policies>,
    pub(crate) webhook_client: WebhookClient,
    pub(crate) authorizer: Arc<RbacAuthorizer>,
}

/// A write as a policy sees it.
pub(super) struct VersionedAttributes<'a> {
    /// The kind of the object in the version that the policy matched.
    pub(super) object_kind: &'a Arc<ServedResource>,
    pub(super) old: Option<Object>,
    pub(super) inputs: ExpressionInputs,
}

impl PolicyDeps {
    pub(super) async fn versioned_attributes<'a>(
        &self,
        one: &'a PolicyInvocation,
        attributes: &'a AdmissionAttributes<'_>,
        namespace: Option<&Json>,
    ) -> Result<VersionedAttributes<'a>, Status> {
        // The object of a subresource has the same kind in every version.
        let of = match attributes.subresource {
            "" => &one.kind,
            _ => attributes.object_kind,
        };
        let kinds = (&*one.kind, &**of);
        Ok(VersionedAttributes {
            object_kind: of,
            old: self
                .versioned_object(attributes, of, attributes.old)
                .await?,
            inputs: ExpressionInputs::new(attributes, kinds, namespace.cloned(), &self.authorizer),
        })
    }

    /// An object of the write, converted to a kind.
    pub(super) async fn versioned_object(
        &self,
        attributes: &AdmissionAttributes<'_>,
        of: &Arc<ServedResource>,
        object: Option<&Object>,
    ) -> Result<Option<Object>, Status> {
        match object {
            Some(object) => {
                convert_to_kind(&self.webhook_client, attributes.object_kind, of, object)
                    .await
                    .map(Some)
            }
            None => Ok(None),
        }
    }
}
