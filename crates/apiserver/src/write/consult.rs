//! Bodies that become no object, but about which others have a say.

use super::Writing;
use super::admit::{self, Subject};
use crate::kinds::Kind;
use optik_object::{Object, Status};
use std::sync::Arc;

/// Asks those who have a say about what is posted to a subresource.
pub(crate) async fn consult(
    writing: &Writing<'_>,
    subresource: &'static str,
    of: &Arc<Kind>,
    name: &str,
    object: &mut Object,
) -> Result<(), Status> {
    let subject = Subject {
        subresource,
        of,
        ..Subject::created(writing, name)
    };
    admit::mutate(writing, subject, None, object).await?;
    admit::validate(writing, subject, None, object).await
}
