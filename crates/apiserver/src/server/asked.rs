//! A request about objects of a kind, and what it asks for.

use super::Shared;
use crate::admission::{Admission, Told};
use crate::body::{self, Decoded};
use crate::complaints::{Found, name_owners_once};
use crate::exchange::{Request, User};
use crate::form::Form;
use crate::kinds::{Kind, Kinds};
use crate::negotiation::{self, Offer};
use crate::options::{ListOptions, WatchForm};
use crate::query::Query;
use crate::read::ObjectName;
use crate::selection::Selection;
use crate::write::{DeleteOptions, Part, WriteOptions, Writing};
use http::header::USER_AGENT;
use optik_access::Target;
use optik_object::{Object, Status};
use optik_store::Origin;
use std::sync::Arc;

/// The request, and what is known of it before anything is done.
pub(crate) struct Asked<'a> {
    pub(crate) request: &'a Request,
    pub(crate) kinds: &'a Kinds,
    pub(crate) kind: &'a Arc<Kind>,
    pub(crate) target: &'a Target,
    pub(crate) query: Query<'a>,
    pub(super) admission: Option<&'a Admission>,
    pub(crate) told: &'a Told,
}

impl<'a> Asked<'a> {
    pub(super) fn object_name<'n>(&'n self, name: &'n str) -> ObjectName<'n> {
        ObjectName {
            namespace: self.target.namespace.as_deref(),
            name,
        }
    }

    /// The form its answer is wanted in.
    pub(crate) fn form(&self) -> Result<Form, Status> {
        negotiation::form(&self.request.headers, &self.query, self.offer())
    }

    pub(super) fn list_form(&self) -> Result<Form, Status> {
        negotiation::list_form(&self.request.headers, &self.query, self.offer())
    }

    pub(super) fn stream_form(&self) -> Result<Form, Status> {
        negotiation::stream_form(&self.request.headers, &self.query, self.offer())
    }

    fn offer(&self) -> Offer {
        match self.kind.custom {
            Some(_) => Offer::NoWholeProtobuf,
            None => Offer::Everything,
        }
    }

    /// The object of the body. What is odd about it the client is told.
    pub(crate) fn decode(&self, part: Part, options: &WriteOptions) -> Result<Object, Status> {
        let kind = part.kind(self.kind);
        let Decoded {
            mut object,
            warnings,
        } = body::decode(self.kinds, kind, self.request, options.validation)?;
        self.told.warn(warnings);
        self.told
            .warn(name_owners_once(&mut object, Found::InTheBody));
        Ok(object)
    }

    pub(super) fn delete_options(&self) -> Result<DeleteOptions, Status> {
        let request = self.request;
        DeleteOptions::read(&self.query, &request.headers, &request.body)
    }

    /// Which objects are meant, and in which state. Judged in upstream's order: what cannot
    /// be read, what does not go together, what the kind does not know.
    pub(super) fn meant(
        &self,
        watch: Option<WatchForm>,
    ) -> Result<(ListOptions, Selection), Status> {
        let options = ListOptions::read(&self.query)?;
        let selection = Selection::parse(&self.query)?;
        options.check(watch)?;
        Ok((options, selection.of(self.kind)?))
    }

    /// Some kinds leave their dependents behind, which not everybody expects.
    pub(super) fn warn_of_orphans(&self, options: &DeleteOptions) {
        if options.dependents.is_none() {
            let told = self.kind.resource.behaviour.orphaning;
            self.told.warn(told.map(str::to_owned));
        }
    }

    pub(crate) fn writing(
        &self,
        shared: &'a Shared,
        options: WriteOptions,
        verb: &str,
    ) -> Writing<'a> {
        let origin = origin(&self.request.user, self.request, &options, verb);
        let user = (&*self.request.user, self.told);
        Writing {
            namespace: self.target.namespace.as_deref(),
            admission: self.admission,
            options,
            ..shared.writing((self.kinds, self.kind), origin, user)
        }
    }
}

/// Who writes, for those who ask later.
fn origin(user: &User, request: &Request, options: &WriteOptions, verb: &str) -> Origin {
    let agent = request.headers.get(USER_AGENT);
    let agent = agent.and_then(|agent| agent.to_str().ok()).unwrap_or("");
    // Without a name of its own, a manager is called by its program.
    let manager = match options.manager.as_str() {
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
