//! The scope of a request: kind, path, user, options and negotiated representation.

use crate::admission::{AdmissionChain, WarningRecorder};
use crate::encoding::representation::Representation;
use crate::handlers::get::ObjectName;
use crate::handlers::write::{DeleteOptions, SubresourceTarget, WriteContext, WriteOptions};
use crate::registry::served_resource::{ResourceRegistry, ServedResource};
use crate::request::body::{self, DecodedObject};
use crate::request::field_validation::{DuplicateOwnersIn, deduplicate_owner_references};
use crate::request::http_types::{ApiRequest, User};
use crate::request::list_options::{ListOptions, WatchForm};
use crate::request::negotiation::{self, SupportedEncodings};
use crate::request::query::Query;
use crate::request::selection_predicate::SelectionPredicate;
use crate::server::ApiServerInner;
use http::header::USER_AGENT;
use optik_auth::ResourcePath;
use optik_object::{Object, Status};
use optik_store::Origin;
use std::sync::Arc;

/// A request, with what is known about it before it is handled.
pub(crate) struct RequestScope<'a> {
    pub(crate) request: &'a ApiRequest,
    pub(crate) registry: &'a ResourceRegistry,
    pub(crate) kind: &'a Arc<ServedResource>,
    pub(crate) target: &'a ResourcePath,
    pub(crate) query: Query<'a>,
    pub(super) admission: Option<&'a AdmissionChain>,
    pub(crate) recorder: &'a WarningRecorder,
}

impl<'a> RequestScope<'a> {
    pub(super) fn object_name<'n>(&'n self, name: &'n str) -> ObjectName<'n> {
        ObjectName {
            namespace: self.target.namespace.as_deref(),
            name,
        }
    }

    /// The negotiated representation of the response.
    pub(crate) fn representation(&self) -> Result<Representation, Status> {
        negotiation::negotiate(
            &self.request.headers,
            &self.query,
            self.supported_encodings(),
        )
    }

    pub(super) fn list_representation(&self) -> Result<Representation, Status> {
        negotiation::negotiate_list(
            &self.request.headers,
            &self.query,
            self.supported_encodings(),
        )
    }

    pub(super) fn watch_representation(&self) -> Result<Representation, Status> {
        negotiation::negotiate_stream(
            &self.request.headers,
            &self.query,
            self.supported_encodings(),
        )
    }

    fn supported_encodings(&self) -> SupportedEncodings {
        match self.kind.custom {
            Some(_) => SupportedEncodings::NoObjectProtobuf,
            None => SupportedEncodings::All,
        }
    }

    /// Decodes the object in the body. Field validation issues become warnings.
    pub(crate) fn decode(
        &self,
        part: SubresourceTarget,
        options: &WriteOptions,
    ) -> Result<Object, Status> {
        let kind = part.kind(self.kind);
        let DecodedObject {
            mut object,
            warnings,
        } = body::decode(self.registry, kind, self.request, options.field_validation)?;
        self.recorder.warn(warnings);
        self.recorder.warn(deduplicate_owner_references(
            &mut object,
            DuplicateOwnersIn::RequestBody,
        ));
        Ok(object)
    }

    pub(super) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let request = self.request;
        DeleteOptions::read(&self.query, &request.headers, &request.body)
    }

    /// The predicate and state of the selected objects. Checked in upstream's order: parse errors,
    /// conflicting options, unsupported fields.
    pub(super) fn selected_objects(
        &self,
        watch: Option<WatchForm>,
    ) -> Result<(ListOptions, SelectionPredicate), Status> {
        let options = ListOptions::read(&self.query)?;
        let selection = SelectionPredicate::parse(&self.query)?;
        options.validate(watch)?;
        Ok((options, selection.for_kind(self.kind)?))
    }

    /// Warns about kinds whose default is to orphan dependents, which is unexpected.
    pub(super) fn warn_about_orphans(&self, options: &DeleteOptions) {
        if options.propagation.is_none() {
            let told = self.kind.resource.strategy_options.orphan_warning;
            self.recorder.warn(told.map(str::to_owned));
        }
    }

    pub(crate) fn write_context(
        &self,
        shared: &'a ApiServerInner,
        options: WriteOptions,
        verb: &str,
    ) -> WriteContext<'a> {
        let origin = origin(&self.request.user, self.request, &options, verb);
        let user = (&*self.request.user, self.recorder);
        WriteContext {
            namespace: self.target.namespace.as_deref(),
            admission: self.admission,
            options,
            ..shared.write_context((self.registry, self.kind), origin, user)
        }
    }
}

/// Who makes the write, as recorded for later readers such as managedFields.
fn origin(user: &User, request: &ApiRequest, options: &WriteOptions, verb: &str) -> Origin {
    let agent = request.headers.get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("");
    // Without a fieldManager, the manager is the program in the User-Agent.
    let manager = match options.field_manager.as_str() {
        "" => agent.split('/').next().unwrap_or(""),
        manager => manager,
    };
    Origin {
        user: user.name.clone(),
        agent: agent.into(),
        manager: manager.into(),
        verb: verb.into(),
    }
}
