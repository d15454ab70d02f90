//! One object.

use crate::calling::Outside;
use crate::conversion::read_one;
use crate::freshness::{Patience, reached};
use crate::kinds::{Kind, Shown};
use crate::scale;
use crate::trouble::{damaged, read_failed};
use bytes::Bytes;
use optik_object::{Asked, ParseUintError, Status, in_query};
use optik_store::{Revision, Snapshot};

/// Which object of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectName<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

/// §3.1
pub(crate) async fn get(
    outside: &Outside,
    kind: &Kind,
    object: ObjectName<'_>,
    shape: Shape,
    revision: &str,
) -> Result<Bytes, Status> {
    let store = &outside.store;
    let malformed = |error: ParseUintError| {
        if kind.resource.behaviour.cached {
            Status::revision_malformed_internally(&error)
        } else {
            Status::revision_malformed(&error)
        }
    };
    let snapshot = match in_query(revision).map_err(malformed)? {
        Asked::Unset => store.latest().await.map_err(read_failed)?,
        Asked::Any => store.snapshot(),
        Asked::At(number) => {
            reached(store, Revision::new(number.get()), Patience::of(kind)).await?
        }
    };
    show(outside, &snapshot, kind, object, shape).await
}

/// What is shown of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    /// The view of its replicas.
    Scale,
}

async fn show(
    outside: &Outside,
    snapshot: &Snapshot,
    kind: &Kind,
    object: ObjectName<'_>,
    shape: Shape,
) -> Result<Bytes, Status> {
    let key = kind.key(object.namespace, object.name);
    let version = snapshot
        .get(key.as_bytes())
        .ok_or_else(|| Status::not_found(kind.resource.name(), object.name))?;
    let converted = match kind.converter() {
        None => None,
        Some(_) => Some(Box::pin(read_one(outside, kind, version)).await?),
    };
    let version = converted.as_ref().unwrap_or(version);
    if shape == Shape::Scale {
        return scale::shown(kind, version.value(), version.mod_revision());
    }
    let mut out = Vec::with_capacity(version.value().len() + SPLICE_BYTES);
    let written = kind.write(Shown::whole(version), &mut out);
    written.map_err(|error| damaged(&key, error))?;
    out.push(b'\n');
    Ok(out.into())
}

/// What the revision and the final newline add, so that one allocation is enough.
pub(crate) const SPLICE_BYTES: usize = 64;
