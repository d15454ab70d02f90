//! What the server writes for itself.

use super::{ApiServer, Shared};
use crate::admission::Told;
use crate::definitions::DIRECTORY as DEFINITIONS;
use crate::exchange::User;
use crate::kinds::{Kind, Kinds};
use crate::write::{self, Ownership, Part, WriteOptions, Writing};
use optik_object::{Object, Status};
use optik_store::Origin;
use std::sync::Arc;

/// Namespaces that exist from the beginning.
const SYSTEM_NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// A kind of which the server writes objects, and in whose name.
#[derive(Clone, Copy)]
pub(crate) struct Own<'a> {
    pub(crate) kinds: &'a Kinds,
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) manager: &'a str,
}

impl ApiServer {
    /// Makes what every cluster has. Those that exist are left alone.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub async fn bootstrap(&self) -> Result<(), Status> {
        crate::write::move_ports(&self.shared.store).await?;
        let state = self.shared.store.latest().await;
        let state = state.map_err(crate::trouble::read_failed)?;
        self.open_definitions(&state);
        self.refresh_admission(&state);
        let kinds = self.shared.kinds.current();
        let kind = kinds.find("", "v1", "namespaces");
        let kind = kind.ok_or_else(Status::resource_not_found)?;
        let own = Own {
            kinds: &kinds,
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
            match self.shared.make_own(own, object).await {
                Ok(()) => {}
                // Another server on the same store.
                Err(status) if status.code() == 409 => {}
                Err(status) => return Err(status),
            }
        }
        drop(state);
        self.bootstrap_roles().await
    }

    /// Grants definitions their names. False if something is left to do.
    pub(crate) async fn settle_definitions(&self) -> bool {
        let kinds = self.shared.kinds.current();
        let Some(kind) = kinds.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        else {
            return true;
        };
        let own = Own {
            kinds: &kinds,
            kind,
            manager: "kube-apiserver",
        };
        let mut after = String::new();
        let mut settled = true;
        while let Some((name, object)) = self.shared.kinds.unsettled(&after, self.shared.now()) {
            settled &= self.shared.settle(own, object).await;
            // What was granted counts before the next one is looked at.
            let key = format!("{DEFINITIONS}{name}");
            let state = self.shared.store.snapshot();
            if let Some(version) = state.get(key.as_bytes()) {
                self.shared.kinds.note(&[Arc::clone(version)]);
            }
            after = name;
        }
        self.shared.kinds.publish_refusals(self.shared.now());
        settled
    }
}

impl Shared {
    pub(crate) async fn make_own(&self, own: Own<'_>, object: Object) -> Result<(), Status> {
        let namespace = object.namespace().to_owned();
        let nobody = (&User::default(), &Told::default());
        let writing = self.own_writing(own, &namespace, "create", nobody);
        write::create(&writing, object).await.map(drop)
    }

    pub(crate) async fn change_own(
        &self,
        own: Own<'_>,
        part: Part,
        object: Object,
    ) -> Result<(), Status> {
        let (name, namespace) = (object.name().to_owned(), object.namespace().to_owned());
        let nobody = (&User::default(), &Told::default());
        let writing = self.own_writing(own, &namespace, "update", nobody);
        write::update(&writing, &name, part, object).await.map(drop)
    }

    /// Writes what the server says of an object in its status. False if that is left to do.
    pub(crate) async fn settle(&self, own: Own<'_>, object: Object) -> bool {
        let name = object.name().to_owned();
        match self.change_own(own, Part::Status, object).await {
            Ok(()) => true,
            // Somebody else wrote or deleted it: it comes again through the watch.
            Err(status) if matches!(status.code(), 404 | 409) => true,
            Err(status) => {
                let kind = &own.kind.resource.kind;
                tracing::warn!("cannot settle the {kind} {name}: {}", status.message());
                false
            }
        }
    }

    fn own_writing<'a>(
        &'a self,
        own: Own<'a>,
        namespace: &'a str,
        verb: &str,
        nobody: (&'a User, &'a Told),
    ) -> Writing<'a> {
        let mut origin = Origin::system(verb);
        origin.manager = own.manager.into();
        Writing {
            namespace: Some(namespace).filter(|namespace| !namespace.is_empty()),
            ..self.writing((own.kinds, own.kind), origin, nobody)
        }
    }

    /// A write in which nobody else has a say.
    pub(super) fn writing<'a>(
        &'a self,
        (kinds, kind): (&'a Kinds, &'a Arc<Kind>),
        origin: Origin,
        (user, told): (&'a User, &'a Told),
    ) -> Writing<'a> {
        Writing {
            store: &self.store,
            outside: &self.outside,
            clock: &*self.clock,
            entropy: &*self.around_watches.entropy,
            lifetimes: &self.lifetimes,
            services: &self.services,
            kinds,
            kind,
            namespace: None,
            user,
            admission: None,
            options: WriteOptions::default(),
            ownership: Ownership::default(),
            origin,
            told,
            creation: Ok(()),
        }
    }
}
