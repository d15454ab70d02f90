//! Writes by the server itself: bootstrap objects, CRD statuses, statuses of other system objects.

use crate::admission::WarningRecorder;
use crate::handlers::write::{
    self, ManagedFieldsState, SubresourceTarget, WriteContext, WriteOptions,
};
use crate::registry::crd::CRD_DIRECTORY as DEFINITIONS;
use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use crate::request::http_types::User;
use crate::server::{ApiServer, ApiServerInner};
use optik_object::{Object, Status};
use optik_store::Origin;
use std::sync::Arc;

/// Namespaces created at start.
const SYSTEM_NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// A kind that the server writes, and the identity it uses.
#[derive(Clone, Copy)]
pub(crate) struct SystemWriter<'a> {
    pub(crate) registry: &'a ResourceRegistry,
    pub(crate) kind: &'a Arc<ServedResource>,
    pub(crate) manager: &'a str,
}

impl ApiServer {
    /// Creates the objects that every cluster has. Existing ones are left alone.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn bootstrap(&self) -> Result<(), Status> {
        crate::handlers::write::migrate_node_ports(&self.shared.store).await?;
        let state = self.shared.store.latest().await;
        let state = state.map_err(crate::server::store_errors::read_failed)?;
        self.load_crds(&state);
        self.refresh_admission(&state);
        let kinds = self.shared.registry.current();
        let kind = kinds.find("", "v1", "namespaces");
        let kind = kind.ok_or_else(Status::resource_not_found)?;
        let own = SystemWriter {
            registry: &kinds,
            kind,
            manager: "",
        };
        for name in SYSTEM_NAMESPACES {
            if state.get(kind.key(None, name).as_bytes()).is_some() {
                continue;
            }
            let mut object = Object::default();
            object.set_type(&kind.resource.kind, &kind.api_version);
            object.set_name(name);
            match self.shared.system_create(own, object).await {
                Ok(()) => {}
                // Another server on the same store created it.
                Err(status) if status.code() == 409 => {}
                Err(status) => return Err(status),
            }
        }
        drop(state);
        self.bootstrap_roles().await
    }

    /// Updates CRD statuses, which accepts names. Returns false if work is left.
    pub(crate) async fn update_crd_statuses(&self) -> bool {
        let kinds = self.shared.registry.current();
        let Some(kind) = kinds.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return true;
        };
        let own = SystemWriter {
            registry: &kinds,
            kind,
            manager: "kube-apiserver",
        };
        let mut after = String::new();
        let mut settled = true;
        while let Some((name, object)) = self
            .shared
            .registry
            .next_status_update(&after, self.shared.now())
        {
            settled &= self.shared.system_update_status(own, object).await;
            // An accepted name must be visible before the next CRD is looked at.
            let key = format!("{DEFINITIONS}{name}");
            let state = self.shared.store.snapshot();
            if let Some(version) = state.get(key.as_bytes()) {
                self.shared.registry.update_crds(&[Arc::clone(version)]);
            }
            after = name;
        }
        self.shared
            .registry
            .publish_rejected_names(self.shared.now());
        settled
    }
}

impl ApiServerInner {
    pub(crate) async fn system_create(
        &self,
        own: SystemWriter<'_>,
        object: Object,
    ) -> Result<(), Status> {
        let namespace = object.namespace().to_owned();
        let nobody = (&User::default(), &WarningRecorder::default());
        let writing = self.system_write_context(own, &namespace, "create", nobody);
        write::create(&writing, object).await.map(drop)
    }

    pub(crate) async fn system_update(
        &self,
        own: SystemWriter<'_>,
        part: SubresourceTarget,
        object: Object,
    ) -> Result<(), Status> {
        let (name, namespace) = (object.name().to_owned(), object.namespace().to_owned());
        let nobody = (&User::default(), &WarningRecorder::default());
        let writing = self.system_write_context(own, &namespace, "update", nobody);
        write::update(&writing, &name, part, object).await.map(drop)
    }

    /// Writes an object's status. Returns false if the write must be retried.
    pub(crate) async fn system_update_status(&self, own: SystemWriter<'_>, object: Object) -> bool {
        let name = object.name().to_owned();
        match self
            .system_update(own, SubresourceTarget::Status, object)
            .await
        {
            Ok(()) => true,
            // The object was written or deleted concurrently: the watch reports it again.
            Err(status) if matches!(status.code(), 404 | 409) => true,
            Err(status) => {
                let kind = &own.kind.resource.kind;
                tracing::warn!(
                    "cannot update status of {kind} {name}: {}",
                    status.message()
                );
                false
            }
        }
    }

    fn system_write_context<'a>(
        &'a self,
        own: SystemWriter<'a>,
        namespace: &'a str,
        verb: &str,
        nobody: (&'a User, &'a WarningRecorder),
    ) -> WriteContext<'a> {
        let mut origin = Origin::system(verb);
        origin.manager = own.manager.into();
        WriteContext {
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            ..self.write_context((own.registry, own.kind), origin, nobody)
        }
    }

    /// The context of a write without admission.
    pub(super) fn write_context<'a>(
        &'a self,
        (kinds, kind): (&'a ResourceRegistry, &'a Arc<ServedResource>),
        origin: Origin,
        (user, told): (&'a User, &'a WarningRecorder),
    ) -> WriteContext<'a> {
        WriteContext {
            store: &self.store,
            webhook_client: &self.webhook_client,
            clock: &*self.clock,
            entropy: &*self.watch_deps.entropy,
            lease_manager: &self.lease_manager,
            service_ranges: &self.service_ranges,
            registry: kinds,
            kind,
            namespace: None,
            user,
            admission: None,
            options: WriteOptions::default(),
            managed_fields: ManagedFieldsState::default(),
            origin,
            recorder: told,
            create_permission: Ok(()),
        }
    }
}
