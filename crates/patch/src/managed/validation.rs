//! What a request may say about managers.

use super::MANAGED_FIELDS;
use optik_object::{FieldError, Object, Value};

const MANAGER_NAME_BYTES_MAX: usize = 128;

/// Names that are too long. Anything else that is wrong with a list makes it ignored.
#[must_use]
pub fn validate_managed_fields(object: &Object) -> Vec<FieldError> {
    let list = object.metadata().and_then(|it| it.get(MANAGED_FIELDS));
    let entries = list.and_then(Value::as_array).into_iter().flatten();
    let names = entries.map(|entry| entry.get("manager").and_then(Value::as_str));
    let long = names
        .enumerate()
        .filter(|(_, name)| name.is_some_and(|name| name.len() > MANAGER_NAME_BYTES_MAX));
    long.map(|(at, _)| {
        FieldError::too_long(
            format!("metadata.managedFields[{at}].manager"),
            MANAGER_NAME_BYTES_MAX,
        )
    })
    .collect()
}
