//! Write handlers: create, update, patch, apply, delete and the writable subresources.

mod apply;
mod binding;
mod create;
mod delete;
mod eviction;
mod field_manager;
mod object_meta;
mod patch;
mod scale_update;
mod service_allocation;
mod strategy;
mod unstored_admission;
mod update;
mod write_admission;

pub(crate) use crate::handlers::write::apply::{ApplyConfiguration, apply};
pub(crate) use crate::handlers::write::binding::{BindingEndpoint, bind};
pub(crate) use crate::handlers::write::create::create;
pub(crate) use crate::handlers::write::delete::{delete, delete_collection};
pub(crate) use crate::handlers::write::eviction::evict;
pub(crate) use crate::handlers::write::field_manager::ManagedFieldsState;
pub(crate) use crate::handlers::write::field_manager::update_managed_fields as record_ownership;
pub(crate) use crate::handlers::write::object_meta::new_uid;
pub(crate) use crate::handlers::write::patch::{PatchBody, PatchType, patch};
pub(crate) use crate::handlers::write::service_allocation::migrate_node_ports;
pub(crate) use crate::handlers::write::strategy::apply_defaults;
pub(crate) use crate::handlers::write::unstored_admission::admit_unstored;
pub(crate) use crate::handlers::write::update::{SubresourceTarget, update};
pub(crate) use crate::request::delete_options::DeleteOptions;
pub(crate) use crate::request::write_options::{FieldValidation, OptionsKind, WriteOptions};

use crate::admission::namespace_lifecycle::NamespacePrecondition;
use crate::admission::{AdmissionChain, WarningRecorder};
use crate::handlers::get::SPLICE_BYTES;
use crate::registry::crd::webhook_conversion::{read_stored_one_as, to_storage_version};
use crate::registry::lease_manager::LeaseManager;
use crate::registry::served_resource::{ObjectView, ResourceRegistry, ServedResource};
use crate::request::http_types::User;
use crate::server::store_errors::{commit_failed, damaged_object, read_failed};
use crate::server::webhook_client::WebhookClient;
use bytes::Bytes;
use optik_builtin::service_allocation::ServiceRanges;
use optik_object::{Object, Status, Timestamp};
use optik_platform::{Clock, Entropy};
use optik_store::{
    CommitError, LeaseId, Origin, Put, Revision, Snapshot, Store, Txn, TxnError, TxnResult, Version,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a write that conflicts is retried before it fails.
const WRITE_RETRY_MAX: Duration = Duration::from_secs(34);

/// Shorter objects are not checked for size: they cannot exceed the limit. Request bodies are
/// checked when they are read, but small patches can produce large objects.
const SIZE_UNCHECKED_BYTES_MAX: usize = 64 * 1024;

/// The inputs that all writes share.
pub(crate) struct WriteContext<'a> {
    pub(crate) store: &'a Store,
    /// Calls the conversion webhook of a CRD.
    pub(crate) webhook_client: &'a WebhookClient,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) entropy: &'a dyn Entropy,
    pub(crate) lease_manager: &'a LeaseManager,
    pub(crate) service_ranges: &'a ServiceRanges,
    pub(crate) registry: &'a ResourceRegistry,
    pub(crate) kind: &'a Arc<ServedResource>,
    pub(crate) namespace: Option<&'a str>,
    pub(crate) user: &'a User,
    /// The admission chain; `None` for the server's own writes.
    pub(crate) admission: Option<&'a AdmissionChain>,
    pub(crate) options: WriteOptions,
    pub(crate) managed_fields: ManagedFieldsState,
    pub(crate) origin: Origin,
    /// Collects the warnings for the client.
    pub(crate) recorder: &'a WarningRecorder,
    /// Whether the user may create the object, for requests that create a missing object without
    /// being a create.
    pub(crate) create_permission: Result<(), Status>,
}

/// The outcome of a write.
pub(crate) struct WriteOutcome {
    pub(crate) body: Bytes,
    pub(crate) created: bool,
}

/// The live object before a write.
struct ExistingObject {
    /// In the storage version.
    stored: Arc<Version>,
    /// In the version of the request.
    converted: Arc<Version>,
}

impl ExistingObject {
    fn revision(&self) -> Revision {
        self.stored.mod_revision()
    }

    /// The object in the version of the request.
    fn value(&self) -> &Bytes {
        self.converted.value()
    }
}

/// The outcome of a conditional write.
enum CommitOutcome {
    Committed(Revision),
    /// A concurrent write changed the key.
    Conflict,
}

impl WriteContext<'_> {
    /// A context for the server's own writes that follow from an admitted request: no second
    /// admission.
    fn without_admission(&self) -> Self {
        Self {
            admission: None,
            options: self.options.clone(),
            origin: self.origin.clone(),
            create_permission: self.create_permission.clone(),
            ..*self
        }
    }

    fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.clock.wall().0).unwrap_or(i64::MAX);
        Timestamp::from_seconds(millis / 1000)
    }

    fn key(&self, name: &str) -> String {
        self.kind.key(self.namespace, name)
    }

    async fn latest(&self) -> Result<Snapshot, Status> {
        self.store.latest().await.map_err(read_failed)
    }

    /// The live object under a key.
    async fn find(&self, state: &Snapshot, key: &str) -> Result<Option<ExistingObject>, Status> {
        let Some(stored) = state.get(key.as_bytes()) else {
            return Ok(None);
        };
        let stored = Arc::clone(stored);
        let read = match self.kind.converter() {
            None => Arc::clone(&stored),
            Some(_) => {
                Box::pin(read_stored_one_as(self.webhook_client, self.kind, &stored)).await?
            }
        };
        Ok(Some(ExistingObject {
            stored,
            converted: read,
        }))
    }

    /// Converts an object to its storage version.
    async fn to_storage_version(&self, object: &Object, bytes: &Bytes) -> Result<Bytes, Status> {
        match self.kind.converter() {
            None => Ok(bytes.clone()),
            Some(_) => {
                Box::pin(to_storage_version(
                    self.webhook_client,
                    self.kind,
                    object,
                    bytes,
                ))
                .await
            }
        }
    }

    /// The error for a change whose body cannot be read. A missing object is reported first; it is
    /// looked up only here, since every other change finds out by itself.
    pub(crate) async fn unreadable_error(&self, name: &str, why: Status) -> Status {
        let latest = match self.latest().await {
            Ok(latest) => latest,
            Err(failed) => return failed,
        };
        match latest.get(self.key(name).as_bytes()) {
            Some(_) => why,
            None => Status::not_found(self.kind.resource.name(), name),
        }
    }

    fn encode(&self, object: &Object) -> Result<Vec<u8>, Status> {
        let encoded = object.encode();
        let bytes = encoded.map_err(|error| Status::bad_request(error.to_string()))?;
        if bytes.len() > SIZE_UNCHECKED_BYTES_MAX {
            self.kind.check_size(object)?;
        }
        Ok(bytes)
    }

    /// Writes an object if the key is still at `expected` and the namespace precondition holds. If
    /// the object is too large with its managed fields, it is stored without them; an apply fails
    /// instead.
    async fn put_object(
        &self,
        key: &str,
        (expected, old): (Revision, Option<&Object>),
        (object, bytes, stored): (&mut Object, &mut Bytes, Bytes),
        ground: Option<&NamespacePrecondition>,
    ) -> Result<CommitOutcome, Status> {
        let mut stored = stored;
        let mut lease_is_new = false;
        loop {
            // A retry repeats the whole transaction: the object with its lease, its preconditions,
            // and the addresses and ports that it allocates and releases.
            let mut txn = Txn::put_if(expected, self.put_with_lease(key, &stored).await?);
            txn.compares
                .extend(ground.map(NamespacePrecondition::compare));
            crate::handlers::write::service_allocation::add_to_txn(
                self,
                (old, Some(object)),
                &mut txn,
            );
            match self.store.commit(txn, self.origin.clone()).await {
                Err(CommitError::Txn(TxnError::TooLarge { .. }))
                    if self.managed_fields == ManagedFieldsState::Pending
                        && object
                            .remove_metadata_member(
                                crate::handlers::write::field_manager::MANAGED_FIELDS,
                            )
                            .is_some() =>
                {
                    *bytes = Bytes::from(self.encode(object)?);
                    stored = self.to_storage_version(object, bytes).await?;
                }
                Err(CommitError::Txn(TxnError::LeaseNotFound)) if !lease_is_new => {
                    lease_is_new = true;
                    self.lease_manager.invalidate();
                }
                done => return commit_outcome(done),
            }
        }
    }

    /// The put of an object, with a lease if the object expires.
    async fn put_with_lease(&self, key: &str, bytes: &Bytes) -> Result<Put, Status> {
        let mut put = Put::new(key, bytes.clone());
        if let Some(seconds) = self.kind.resource.strategy_options.ttl_seconds {
            let lease = self
                .lease_manager
                .lease(self.store, self.clock, seconds)
                .await;
            // Without a lease the object stays too long, which is better than losing it.
            put.lease = Some(lease.unwrap_or(LeaseId::NONE));
        }
        Ok(put)
    }

    /// Updates an existing key if it is still at `expected`. Its lease is kept.
    async fn put(
        &self,
        key: &str,
        expected: Revision,
        bytes: &Bytes,
    ) -> Result<CommitOutcome, Status> {
        debug_assert!(expected != Revision::ZERO, "only what is there has a lease");
        let mut put = Put::new(key, bytes.clone());
        put.lease = None;
        self.commit(Txn::put_if(expected, put)).await
    }

    async fn remove(
        &self,
        key: &str,
        expected: Revision,
        old: &Object,
    ) -> Result<CommitOutcome, Status> {
        let mut txn = Txn::delete_if(expected, key);
        crate::handlers::write::service_allocation::add_to_txn(self, (Some(old), None), &mut txn);
        self.commit(txn).await
    }

    async fn commit(&self, txn: Txn) -> Result<CommitOutcome, Status> {
        commit_outcome(self.store.commit(txn, self.origin.clone()).await)
    }

    /// The object as clients of a subresource see it.
    fn render_subresource(
        &self,
        part: SubresourceTarget,
        bytes: &[u8],
        revision: Revision,
    ) -> Result<Bytes, Status> {
        match part {
            SubresourceTarget::Main
            | SubresourceTarget::Status
            | SubresourceTarget::Approval
            | SubresourceTarget::Finalize
            | SubresourceTarget::PodSubresource(_) => self.render(bytes, revision),
            SubresourceTarget::Scale => {
                crate::registry::scale::render_view(self.kind, bytes, revision)
            }
        }
    }

    /// The object as the client sees it; without a resourceVersion if the revision is zero.
    fn render(&self, bytes: &[u8], revision: Revision) -> Result<Bytes, Status> {
        let mut out = Vec::with_capacity(bytes.len() + SPLICE_BYTES);
        if revision == Revision::ZERO {
            self.render_unstored(bytes, &mut out)?;
        } else {
            let shown = ObjectView {
                bytes,
                revision: revision.get(),
                typed: true,
            };
            let written = self.kind.write(shown, &mut out);
            written.map_err(|error| damaged_object("object written by this request", error))?;
        }
        out.push(b'\n');
        Ok(out.into())
    }

    /// The object that a dry run would have stored.
    fn render_unstored(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Status> {
        let object = crate::registry::served_resource::parse_stored(bytes);
        let mut object = object.map_err(|error| damaged_object("a dry run", error))?;
        if self.kind.custom.is_some() {
            self.kind.write_custom(object, out);
            return Ok(());
        }
        self.kind.storage_conversion.to_client(&mut object);
        object.set_type(&self.kind.resource.kind, &self.kind.api_version);
        out.extend_from_slice(&self.encode(&object)?);
        Ok(())
    }
}

fn commit_outcome(done: Result<TxnResult, CommitError>) -> Result<CommitOutcome, Status> {
    let done = done.map_err(commit_failed)?;
    Ok(if done.succeeded {
        CommitOutcome::Committed(done.revision)
    } else {
        CommitOutcome::Conflict
    })
}

/// When a write that keeps conflicting gives up.
struct RetryDeadline(Instant);

impl RetryDeadline {
    fn start() -> Self {
        Self(Instant::now() + WRITE_RETRY_MAX)
    }

    fn check(&self) -> Result<(), Status> {
        if Instant::now() < self.0 {
            return Ok(());
        }
        Err(Status::timeout(
            "request did not complete within requested timeout",
            0,
        ))
    }
}
