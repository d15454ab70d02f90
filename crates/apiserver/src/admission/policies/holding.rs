//! What policies are held against writes with, and what they see of them.

use super::book::Policies;
use super::context::Surroundings;
use super::matched::Matched;
use crate::access::Gate;
use crate::admission::Attributes;
use crate::calling::Outside;
use crate::conversion::shown_as;
use crate::kinds::Kind;
use optik_object::{Object, Status, Value as Json};
use std::sync::Arc;

/// What all policies need, whether they change objects or refuse them.
#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) policies: Arc<Policies>,
    pub(crate) outside: Outside,
    pub(crate) gate: Arc<Gate>,
}

/// A write as a policy sees it.
pub(super) struct Seen<'a> {
    /// What the object is to it.
    pub(super) of: &'a Arc<Kind>,
    pub(super) old: Option<Object>,
    pub(super) surroundings: Surroundings,
}

impl Holding {
    pub(super) async fn seen<'a>(
        &self,
        one: &'a Matched,
        attributes: &'a Attributes<'_>,
        namespace: Option<&Json>,
    ) -> Result<Seen<'a>, Status> {
        // What a subresource is about is the same for everybody.
        let of = match attributes.subresource {
            "" => &one.kind,
            _ => attributes.of,
        };
        let kinds = (&*one.kind, &**of);
        Ok(Seen {
            of,
            old: self.shown(attributes, of, attributes.old).await?,
            surroundings: Surroundings::new(attributes, kinds, namespace.cloned(), &self.gate),
        })
    }

    /// An object of the write, as a kind.
    pub(super) async fn shown(
        &self,
        attributes: &Attributes<'_>,
        of: &Arc<Kind>,
        object: Option<&Object>,
    ) -> Result<Option<Object>, Status> {
        match object {
            Some(object) => shown_as(&self.outside, attributes.of, of, object)
                .await
                .map(Some),
            None => Ok(None),
        }
    }
}
