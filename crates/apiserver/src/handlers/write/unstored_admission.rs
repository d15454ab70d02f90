//! Admission of request bodies that are not stored, such as those of some subresources.

use crate::handlers::write::WriteContext;
use crate::handlers::write::write_admission::{self, AdmissionTarget};
use crate::registry::served_resource::ServedResource;
use optik_object::{Object, Status};
use std::sync::Arc;

/// Runs the admission chain for a body posted to a subresource.
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
    write_admission::mutate(writing, subject, None, object).await?;
    write_admission::validate(writing, subject, None, object).await
}
