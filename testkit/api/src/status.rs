//! The failures (`Status` objects) of the specification, word for word (CONC §2.7).

use crate::Kind;
use crate::kinds::qualified;
use serde_json::{Value, json};

/// Any failure. An empty reason and absent details are left out.
pub(crate) fn failure(code: u16, reason: &str, message: &str, details: Option<Value>) -> Value {
    let mut status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "code": code,
    });
    if !reason.is_empty() {
        status["reason"] = reason.into();
    }
    if let Some(details) = details {
        status["details"] = details;
    }
    status
}

fn named_details(word: &str, group: &str, name: &str) -> Value {
    let mut details = json!({"kind": word});
    if !name.is_empty() {
        details["name"] = name.into();
    }
    if !group.is_empty() {
        details["group"] = group.into();
    }
    details
}

fn object_details(kind: &Kind, name: &str) -> Option<Value> {
    Some(named_details(kind.plural, kind.group, name))
}

/// `CONC-A1`
pub(crate) fn already_exists(kind: &Kind, name: &str) -> Value {
    let message = format!("{} \"{name}\" already exists", kind.resource());
    failure(409, "AlreadyExists", &message, object_details(kind, name))
}

/// `CONC-A1` while the object in the way terminates
pub(crate) fn already_exists_terminating(kind: &Kind, name: &str) -> Value {
    let mut status = already_exists(kind, name);
    let message = status["message"].as_str().unwrap_or_default();
    status["message"] = format!("object is being deleted: {message}").into();
    status
}

/// `CONC-A2`
pub(crate) fn generated_name_taken(kind: &Kind, name: &str) -> Value {
    let mut status = already_exists(kind, name);
    let message = status["message"].as_str().unwrap_or_default();
    status["message"] =
        format!("{message}, the server was not able to generate a unique name for the object")
            .into();
    status["details"]["retryAfterSeconds"] = 1.into();
    status
}

fn conflict(word: &str, group: &str, name: &str, text: &str) -> Value {
    let message = format!(
        "Operation cannot be fulfilled on {} \"{name}\": {text}",
        qualified(word, group)
    );
    failure(
        409,
        "Conflict",
        &message,
        Some(named_details(word, group, name)),
    )
}

/// `CONC-C1`
pub(crate) fn conflict_modified(kind: &Kind, name: &str) -> Value {
    let text = "the object has been modified; please apply your changes to the latest version \
                and try again";
    conflict(kind.plural, kind.group, name, text)
}

/// `CONC-C2`; the stored uid is empty if there is no object.
pub(crate) fn uid_changed(kind: &Kind, (namespace, name): (&str, &str), uids: [&str; 2]) -> Value {
    let [sent, stored] = uids;
    let text = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{namespace}/{name}, \
         ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: \
         {sent}, UID in object meta: {stored}",
        kind.plural
    );
    conflict(kind.plural, kind.group, name, &text)
}

/// `CONC-C3`
pub(crate) fn uid_without_object(kind: &Kind, name: &str, uid: &str) -> Value {
    let text = format!(
        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    );
    conflict(kind.plural, kind.group, name, &text)
}

/// `CONC-C5`
pub(crate) fn delete_uid_differs(kind: &Kind, name: &str, uids: [&str; 2]) -> Value {
    let [sent, stored] = uids;
    let text = format!(
        "the UID in the precondition ({sent}) does not match the UID in record ({stored}). The \
         object might have been deleted and then recreated"
    );
    conflict(kind.kind, kind.group, name, &text)
}

/// `CONC-C6`
pub(crate) fn delete_revision_differs(kind: &Kind, name: &str, revisions: [&str; 2]) -> Value {
    let [sent, stored] = revisions;
    let text = format!(
        "the ResourceVersion in the precondition ({sent}) does not match the ResourceVersion in \
         record ({stored}). The object might have been modified"
    );
    conflict(kind.kind, kind.group, name, &text)
}

/// `CONC-N1`
pub(crate) fn not_found(kind: &Kind, name: &str) -> Value {
    let message = format!("{} \"{name}\" not found", kind.resource());
    failure(404, "NotFound", &message, object_details(kind, name))
}

/// One complaint about a field: reason, field, text.
pub(crate) type Cause<'a> = (&'a str, &'a str, &'a str);

/// 422 with the causes in the message: one without brackets, several in brackets. A duplicate cause
/// is written once in the message, but listed twice in the causes.
pub(crate) fn invalid(word: &str, group: &str, name: &str, causes: &[Cause<'_>]) -> Value {
    let mut texts: Vec<String> = Vec::new();
    for (_, field, text) in causes {
        let text = format!("{field}: {text}");
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = match texts.as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    let causes = causes
        .iter()
        .map(|(reason, field, text)| json!({"reason": reason, "message": text, "field": field}));
    let mut details = named_details(word, group, name);
    details["causes"] = causes.collect();
    let message = format!("{} \"{name}\" is invalid: {text}", qualified(word, group));
    failure(422, "Invalid", &message, Some(details))
}

/// `CONC-F1` to `CONC-F5`, CONC §5.2
pub(crate) fn list_options(causes: &[Cause<'_>]) -> Value {
    invalid("ListOptions", "meta.k8s.io", "", causes)
}

/// `CONC-I1`
pub(crate) fn revision_required(kind: &Kind, name: &str) -> Value {
    let text = "Invalid value: 0: must be specified for an update";
    let cause = ("FieldValueInvalid", "metadata.resourceVersion", text);
    invalid(kind.plural, kind.group, name, &[cause])
}

/// `CONC-I2`
pub(crate) fn finalizer_added(kind: &Kind, name: &str, added: &str) -> Value {
    let text = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{{\"{added}\"}}"
    );
    let cause = ("FieldValueForbidden", "metadata.finalizers", text.as_str());
    invalid(kind.kind, kind.group, name, &[cause, cause])
}

/// `CONC-I3`
pub(crate) fn patch_rejected() -> Value {
    let message = "the server rejected our request due to an error in our request";
    failure(422, "Invalid", message, Some(json!({})))
}

/// 400
pub(crate) fn bad_request(message: &str) -> Value {
    failure(400, "BadRequest", message, None)
}

/// The text of a number that is none, as `CONC-B1`, `CONC-X2` and `CONC-X3` have it.
pub(crate) fn malformed_number(text: &str) -> String {
    let why = if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
        "value out of range"
    } else {
        "invalid syntax"
    };
    format!("strconv.ParseUint: parsing \"{text}\": {why}")
}

fn malformed_revision(text: &str) -> String {
    let number = malformed_number(text);
    format!("resourceVersion: Invalid value: \"{text}\": {number}")
}

/// `CONC-B1`
pub(crate) fn revision_malformed(text: &str) -> Value {
    bad_request(&format!(
        "invalid resource version: {}",
        malformed_revision(text)
    ))
}

/// `CONC-B2`
pub(crate) fn revision_with_continue() -> Value {
    bad_request("specifying resource version is not allowed when using continue")
}

/// `CONC-G1`
pub(crate) fn list_expired() -> Value {
    let message = "The resourceVersion for the provided list is too old.";
    failure(410, "Expired", message, None)
}

/// `CONC-G2`, with the continue token of the response.
pub(crate) fn continue_expired(token: &str) -> Value {
    let message = "The provided continue parameter is too old to display a consistent list \
                   result. You can start a new list without the continue parameter, or use the \
                   continue token in this response to retrieve the remainder of the results. \
                   Continuing with the provided token results in an inconsistent list - objects \
                   that were created, modified, or deleted between the time the first chunk was \
                   returned and now may show up in the list.";
    let mut status = failure(410, "Expired", message, None);
    status["metadata"] = json!({"continue": token});
    status
}

/// `CONC-G3`
pub(crate) fn watch_too_old(asked: u64, oldest: u64) -> Value {
    let message = format!("too old resource version: {asked} ({oldest})");
    failure(410, "Expired", &message, None)
}

/// `CONC-G4`
pub(crate) fn watch_expired() -> Value {
    let message = "The resourceVersion for the provided watch is too old.";
    failure(410, "Expired", message, None)
}

/// `CONC-T1`; `retry` is absent from a store
pub(crate) fn too_large(asked: u64, current: u64, retry: Option<u64>) -> Value {
    let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
    let mut details = json!({"causes": [{
        "reason": "ResourceVersionTooLarge", "message": "Too large resource version",
    }]});
    if let Some(seconds) = retry {
        details["retryAfterSeconds"] = seconds.into();
    }
    failure(504, "Timeout", &message, Some(details))
}

/// `CONC-Q1`
pub(crate) fn initializing(retry: u64) -> Value {
    let details = json!({"retryAfterSeconds": retry});
    let message = "storage is (re)initializing";
    failure(429, "TooManyRequests", message, Some(details))
}

/// `CONC-X1`
pub(crate) fn revision_on_create() -> Value {
    let message = "resourceVersion should not be set on objects to be created";
    failure(500, "", message, None)
}

/// `CONC-X2`
pub(crate) fn revision_malformed_internally(text: &str) -> Value {
    failure(500, "", &malformed_revision(text), None)
}

/// `CONC-X3`
pub(crate) fn revision_malformed_in_body(text: &str) -> Value {
    failure(500, "", &malformed_number(text), None)
}

/// 404 within a built-in group
pub(crate) fn no_such_resource() -> Value {
    let message = "the server could not find the requested resource";
    failure(404, "NotFound", message, Some(json!({})))
}

/// 405
pub(crate) fn method_not_allowed() -> Value {
    let message = "the server does not allow this method on the requested resource";
    failure(405, "MethodNotAllowed", message, Some(json!({})))
}

/// CONC §2.5: the `Status` of a completed delete.
pub(crate) fn delete_success(kind: &Kind, name: &str, uid: &str) -> Value {
    let mut details = named_details(kind.plural, kind.group, name);
    details["uid"] = uid.into();
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": details,
    })
}
