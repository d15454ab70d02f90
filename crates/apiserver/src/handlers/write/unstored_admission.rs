//! Bodies that become no object, but about which others have a say.

use crate::handlers::write::WriteContext;
use crate::handlers::write::write_admission::{self, AdmissionTarget};
use crate::registry::served_resource::ServedResource;
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
    write_admission::mutate(writing, subject, None, object).await?;
    write_admission::validate(writing, subject, None, object).await
}
