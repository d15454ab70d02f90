//! Objects of one version in another.

use crate::calling::Outside;
use crate::kinds::Kind;
use optik_object::{Object, Status};
use std::sync::Arc;

/// An object of one kind, as another kind that shows the same objects shows it.
pub(crate) async fn shown_as(
    _outside: &Outside,
    from: &Arc<Kind>,
    to: &Arc<Kind>,
    object: &Object,
) -> Result<Object, Status> {
    let mut object = object.clone();
    if Arc::ptr_eq(from, to) || from.api_version == to.api_version {
        return Ok(object);
    }
    from.face.to_stored(&mut object);
    to.face.to_client(&mut object);
    object.set_type(&to.resource.kind, &to.api_version);
    Ok(object)
}
