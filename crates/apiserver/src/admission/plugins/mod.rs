//! Built-in admission plugins, those with an effect that clients notice.

mod certificates;
mod default_class;
mod default_toleration_seconds;
mod limit_ranger;
mod mountable_secrets;
mod persistent_volume_claim_resize;
mod pod_security;
mod priority;
mod resource_quota;
mod service_account;

pub use crate::admission::plugins::resource_quota::quota_usage;

use crate::admission::{AdmissionAttributes, AdmissionOperation, AdmissionPlugin, MutationState};
use crate::auth::RbacAuthorizer;
use crate::registry::served_resource::parse_stored;
use futures::future::{BoxFuture, FutureExt, ready};
use optik_object::{Object, Status};
use optik_store::{KeyRange, Store};
use std::sync::Arc;

/// A plugin that decides synchronously on an existing object.
trait SyncPlugin: Send + Sync {
    /// See [`AdmissionPlugin::handles`].
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool;

    fn admit(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Object,
    ) -> Result<(), Status> {
        let _ = (attributes, object);
        Ok(())
    }

    fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Object,
    ) -> Result<(), Status> {
        let _ = (attributes, object);
        Ok(())
    }
}

struct SyncPluginAdapter<P>(P);

impl<P: SyncPlugin> AdmissionPlugin for SyncPluginAdapter<P> {
    fn handles(&self, attributes: &AdmissionAttributes<'_>) -> bool {
        self.0.handles(attributes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        draft: &'a mut MutationState,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let object = draft.object.as_mut();
        let done = object.map_or(Ok(()), |object| self.0.admit(attributes, object));
        ready(done).boxed()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a AdmissionAttributes<'a>,
        object: Option<&'a Object>,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let done = object.map_or(Ok(()), |object| self.0.validate(attributes, object));
        ready(done).boxed()
    }
}

/// The plugins that run before policies and webhooks, in order.
pub(crate) fn plugins_before_policies(gate: &Arc<RbacAuthorizer>) -> Vec<Arc<dyn AdmissionPlugin>> {
    vec![
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::limit_ranger::LimitRanger,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::service_account::ServiceAccountAdmission,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::pod_security::PodSecurity,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::priority::PriorityAdmission,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::default_toleration_seconds::DefaultTolerationSeconds,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::default_class::DefaultClasses,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::persistent_volume_claim_resize::PersistentVolumeClaimResize,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::default_toleration_seconds::RuntimeClassAdmission,
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::certificates::CertificateApproval(Arc::clone(gate)),
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::certificates::CertificateSigning(Arc::clone(gate)),
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::certificates::ClusterTrustBundleAttest(Arc::clone(gate)),
        )),
        Arc::new(SyncPluginAdapter(
            crate::admission::plugins::certificates::CertificateSubjectRestriction,
        )),
    ]
}

/// The plugins that run last: ResourceQuota.
pub(crate) fn plugins_after_webhooks() -> Vec<Arc<dyn AdmissionPlugin>> {
    vec![Arc::new(
        crate::admission::plugins::resource_quota::ResourceQuotaAdmission,
    )]
}

/// Whether a write creates an object of a resource.
fn is_create_of(attributes: &AdmissionAttributes<'_>, group: &str, plural: &str) -> bool {
    attributes.operation == AdmissionOperation::Create
        && attributes.subresource.is_empty()
        && attributes.is_resource(group, plural)
}

fn get_object(store: &Store, key: &str) -> Option<Object> {
    let state = store.snapshot();
    let found = state.get(key.as_bytes())?;
    parse_stored(found.value()).ok()
}

/// All objects of a directory, or of one namespace in it.
fn list_objects(store: &Store, directory: &str) -> Vec<Object> {
    let state = store.snapshot();
    let range = KeyRange::prefix(directory);
    let entries = state.entries(&range);
    entries
        .filter_map(|version| parse_stored(version.value()).ok())
        .collect()
}

fn has_objects(store: &Store, directory: &str) -> bool {
    let state = store.snapshot();
    let range = KeyRange::prefix(directory);
    state.entries(&range).next().is_some()
}

fn forbidden(attributes: &AdmissionAttributes<'_>, why: &str) -> Status {
    Status::forbidden(attributes.resource.resource.name(), attributes.name, why)
}

/// Joins several error messages: `a`, or `[a, b]`.
fn aggregate_message(problems: &[String]) -> String {
    match problems {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
