//! The `get` verb: reads one object.

use crate::handlers::freshness::{WaitPolicy, wait_until_fresh};
use crate::registry::crd::webhook_conversion::read_stored_one_as;
use crate::registry::scale;
use crate::registry::served_resource::{ObjectView, ServedResource};
use crate::server::store_errors::{damaged_object, read_failed};
use crate::server::webhook_client::WebhookClient;
use bytes::Bytes;
use optik_object::{
    ParseUintError, RequestedResourceVersion, Status, parse_query_resource_version,
};
use optik_store::{Revision, Snapshot};

/// Namespace and name of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectName<'a> {
    pub(crate) namespace: Option<&'a str>,
    pub(crate) name: &'a str,
}

/// Reads one object (CONC §3.1).
pub(crate) async fn get(
    outside: &WebhookClient,
    kind: &ServedResource,
    object: ObjectName<'_>,
    shape: GetView,
    revision: &str,
) -> Result<Bytes, Status> {
    let store = &outside.store;
    let malformed = |error: ParseUintError| {
        if kind.resource.strategy_options.cached {
            Status::invalid_resource_version_internal(&error)
        } else {
            Status::invalid_resource_version(&error)
        }
    };
    let snapshot = match parse_query_resource_version(revision).map_err(malformed)? {
        RequestedResourceVersion::Unset => store.latest().await.map_err(read_failed)?,
        RequestedResourceVersion::Any => store.snapshot(),
        RequestedResourceVersion::At(number) => {
            wait_until_fresh(
                store,
                Revision::new(number.get()),
                WaitPolicy::for_kind(kind),
            )
            .await?
        }
    };
    render(outside, &snapshot, kind, object, shape).await
}

/// Which representation of an object is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GetView {
    Object,
    /// The `Scale` subresource.
    Scale,
}

async fn render(
    outside: &WebhookClient,
    snapshot: &Snapshot,
    kind: &ServedResource,
    object: ObjectName<'_>,
    shape: GetView,
) -> Result<Bytes, Status> {
    let key = kind.key(object.namespace, object.name);
    let version = snapshot
        .get(key.as_bytes())
        .ok_or_else(|| Status::not_found(kind.resource.name(), object.name))?;
    let converted = match kind.converter() {
        None => None,
        Some(_) => Some(Box::pin(read_stored_one_as(outside, kind, version)).await?),
    };
    let version = converted.as_ref().unwrap_or(version);
    if shape == GetView::Scale {
        return scale::render_view(kind, version.value(), version.mod_revision());
    }
    let mut out = Vec::with_capacity(version.value().len() + SPLICE_BYTES);
    let written = kind.write(ObjectView::from_version(version), &mut out);
    written.map_err(|error| damaged_object(&key, error))?;
    out.push(b'\n');
    Ok(out.into())
}

/// Bytes added by the resourceVersion and the final newline; with them one allocation is enough.
pub(crate) const SPLICE_BYTES: usize = 64;
