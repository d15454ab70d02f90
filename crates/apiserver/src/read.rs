//! One object.

use crate::freshness::{Patience, reached};
use crate::kinds::{Kind, Shown};
use crate::scale;
use crate::trouble::{damaged, read_failed};
use bytes::Bytes;
use optik_object::{Asked, ParseUintError, Status, in_query};
use optik_store::{Revision, Snapshot, Store};

/// Which object of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectName<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

/// §3.1
pub(crate) async fn get(
    store: &Store,
    kind: &Kind,
    object: ObjectName<'_>,
    shape: Shape,
    revision: &str,
) -> Result<Bytes, Status> {
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
    show(&snapshot, kind, object, shape)
}

/// What is shown of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Whole,
    /// The view of its replicas.
    Scale,
}

fn show(
    snapshot: &Snapshot,
    kind: &Kind,
    object: ObjectName<'_>,
    shape: Shape,
) -> Result<Bytes, Status> {
    let key = kind.key(object.namespace, object.name);
    let version = snapshot
        .get(key.as_bytes())
        .ok_or_else(|| Status::not_found(kind.resource.name(), object.name))?;
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
