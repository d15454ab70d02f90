//! Bodies that become no object, but about which others have a say.

use super::WriteContext;
use super::admit::{self, AdmissionTarget};
use crate::kinds::ServedResource;
use optik_object::{Object, Status};
use std::sync::Arc;

/// Asks those who have a say about what is posted to a subresource.
pub(crate) async fn admit_unstored(
    writing: &WriteContext<'_>,
    subresource: &'static str,
    of: &Arc<ServedResource>,
    name: &str,
    object: &mut Object,
) -> Result<(), Status> {
    let subject = AdmissionTarget {
        subresource,
        object_kind: of,
        ..AdmissionTarget::for_create(writing, name)
    };
    admit::mutate(writing, subject, None, object).await?;
    admit::validate(writing, subject, None, object).await
}
