//! Validation of the managedFields in a request.

use super::MANAGED_FIELDS;
use optik_object::{FieldError, Object, Value};

const MANAGER_NAME_BYTES_MAX: usize = 128;

/// Reports manager names that are too long. Any other error in the list causes it to be ignored.
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
