//! Errors of requests that do not depend on a stored object (WIRE §3.6).

use super::conflicts::details_of;
use super::{Cause, Details, Reason, Status};
use crate::go::quote;
use crate::json::SyntaxError;
use crate::resource::ResourceName;

/// The maximum size of a request body, in bytes.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The attributes of a forbidden request.
#[derive(Clone, Copy, Debug)]
pub struct ForbiddenRequest<'a> {
    pub user: &'a str,
    pub verb: &'a str,
    pub resource: ResourceName<'a>,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty at the cluster scope.
    pub namespace: &'a str,
    /// Empty for a collection.
    pub name: &'a str,
    /// The reason given by the authorizer; may be empty.
    pub reason: &'a str,
}

/// The type in a body.
#[derive(Clone, Copy, Debug)]
pub struct SentType<'a> {
    pub kind: &'a str,
    /// Without the group.
    pub version: &'a str,
}

impl Status {
    /// 400 with any text.
    #[must_use]
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(Reason::BadRequest, message)
    }

    /// `CONC-B4`
    #[must_use]
    pub fn name_mismatch(in_body: &str, in_url: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({in_body}) does not match the name on the URL ({in_url})"
        ))
    }

    /// 400: the body of an update has no name.
    #[must_use]
    pub fn name_required(in_url: &str) -> Self {
        Self::bad_request(format!(
            "the name of the object ({in_url} based on URL) was undeterminable: name must be provided"
        ))
    }

    /// `CONC-B4`
    #[must_use]
    pub fn namespace_mismatch() -> Self {
        Self::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    /// 400: the body is not JSON. `kind` is the kind of the endpoint; the message quotes the
    /// beginning of the body.
    #[must_use]
    pub fn body_malformed(kind: &str, error: &SyntaxError, body: &[u8]) -> Self {
        Self::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): couldn't get \
             version/kind; json parse error: {error} ({})",
            body_excerpt(body)
        ))
    }

    /// 400: the body has no kind or apiVersion.
    #[must_use]
    pub fn unrecognized(kind: &str, text: &str, body: &[u8]) -> Self {
        Self::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {text} ({})",
            body_excerpt(body)
        ))
    }

    /// 405: the resource exists but does not support the verb.
    #[must_use]
    pub fn method_not_supported(resource: ResourceName<'_>, action: &str) -> Self {
        let full = match resource.group {
            "" => resource.plural.to_owned(),
            group => format!("{}.{group}", resource.plural),
        };
        let message = format!(
            "{action} is not supported on resources of kind {}",
            quote(&full)
        );
        Self::failure(Reason::MethodNotAllowed, message).with_details(Details {
            group: resource.group.into(),
            kind: resource.plural.into(),
            ..Details::default()
        })
    }

    /// 400: the body has a type, but cannot be converted to the type of the endpoint. For a strict
    /// decoding error, `text` is the message of [`Self::strict_decoding`].
    #[must_use]
    pub fn cannot_be_handled(sent: SentType<'_>, wanted_kind: &str, text: &str) -> Self {
        let SentType { kind, version } = sent;
        Self::bad_request(format!(
            "{kind} in version {} cannot be handled as a {wanted_kind}: {text}",
            quote(version)
        ))
    }

    /// 400: strict field validation. Each complaint is `unknown field "a"` or `duplicate field
    /// "a.b"`.
    #[must_use]
    pub fn strict_decoding(complaints: &[String]) -> Self {
        Self::bad_request(format!("strict decoding error: {}", complaints.join(", ")))
    }

    /// 401
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::failure(Reason::Unauthorized, "Unauthorized")
    }

    /// 403 on a resource.
    #[must_use]
    pub fn forbidden_request(attempt: ForbiddenRequest<'_>) -> Self {
        let ForbiddenRequest {
            user,
            verb,
            resource,
            ..
        } = attempt;
        let slash = if attempt.subresource.is_empty() {
            ""
        } else {
            "/"
        };
        let path = format!("{}{slash}{}", resource.plural, attempt.subresource);
        let place = if attempt.namespace.is_empty() {
            String::from("at the cluster scope")
        } else {
            format!("in the namespace {}", quote(attempt.namespace))
        };
        let text = format!(
            "User {} cannot {verb} resource {} in API group {} {place}",
            quote(user),
            quote(&path),
            quote(resource.group),
        );
        Self::forbidden(resource, attempt.name, &explain(&text, attempt.reason))
    }

    /// 403 on a non-resource path.
    #[must_use]
    pub fn forbidden_path(user: &str, verb: &str, path: &str, reason: &str) -> Self {
        let text = format!("User {} cannot {verb} path {}", quote(user), quote(path));
        let message = format!("forbidden: {}", explain(&text, reason));
        Self::failure(Reason::Forbidden, message).with_details(Details::default())
    }

    /// 403 for any other reason, such as admission.
    #[must_use]
    pub fn forbidden(resource: ResourceName<'_>, name: &str, text: &str) -> Self {
        let which = if name.is_empty() {
            String::new()
        } else {
            format!(" {}", quote(name))
        };
        let message = format!("{}{which} is forbidden: {text}", resource.qualified());
        Self::failure(Reason::Forbidden, message).with_details(details_of(resource, name))
    }

    /// 403 (CONC §2.5): the namespace is terminating, so nothing can be created in it.
    #[must_use]
    pub fn namespace_terminating(resource: ResourceName<'_>, name: &str, namespace: &str) -> Self {
        let text = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        Self::forbidden(resource, name, &text).with_cause(Cause {
            reason: "NamespaceTerminating".into(),
            message: format!("namespace {namespace} is being terminated"),
            field: "metadata.namespace".into(),
        })
    }

    /// 404: no such resource in a built-in group.
    #[must_use]
    pub fn resource_not_found() -> Self {
        let message = "the server could not find the requested resource";
        Self::failure(Reason::NotFound, message).with_details(Details::default())
    }

    /// 405
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::failure(Reason::MethodNotAllowed, message).with_details(Details::default())
    }

    /// 406
    #[must_use]
    pub fn not_acceptable(accepted: &[&str]) -> Self {
        Self::failure(
            Reason::NotAcceptable,
            format!(
                "only the following media types are accepted: {}",
                accepted.join(", ")
            ),
        )
    }

    /// 406: the requested transform (`as=Table`, for example) does not fit the response.
    #[must_use]
    pub fn not_acceptable_because(message: impl Into<String>) -> Self {
        Self::failure(Reason::NotAcceptable, message)
    }

    /// 406 on built-in resources: no clause of Accept is a known media type.
    #[must_use]
    pub fn not_representable(available: &[&str]) -> Self {
        let message = format!(
            "406: Not Acceptable\n\nAvailable representations: {}",
            available.join(", ")
        );
        Self::failure(Reason::NotAcceptable, message).with_details(Details::default())
    }

    /// 415 on a patch of a built-in resource.
    #[must_use]
    pub fn unsupported_patch_type() -> Self {
        let message = "415: Unsupported Media Type";
        Self::failure(Reason::UnsupportedMediaType, message).with_details(Details::default())
    }

    /// 415
    #[must_use]
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        Self::failure(
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types \
                 include: {}",
                accepted.join(", ")
            ),
        )
    }

    /// 413
    #[must_use]
    pub fn body_too_large() -> Self {
        Self::too_large(&format!("limit is {BODY_BYTES_MAX}"))
    }

    /// 413 for a limit other than the size of the body.
    #[must_use]
    pub fn too_large(text: &str) -> Self {
        let message = format!("Request entity too large: {text}");
        Self::failure(Reason::RequestEntityTooLarge, message)
    }

    /// 429
    #[must_use]
    pub fn too_many_requests(message: &str, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::TooManyRequests, message).with_retry_after(retry_after_seconds)
    }

    /// 429: evicting the pod would violate its disruption budget.
    #[must_use]
    pub fn disruption_budget_violation(why: String, retry_after_seconds: u32) -> Self {
        let text = "Cannot evict pod as it would violate the pod's disruption budget.";
        Self::too_many_requests(text, retry_after_seconds).with_cause(Cause {
            reason: "DisruptionBudget".into(),
            message: why,
            field: String::new(),
        })
    }

    /// 500
    #[must_use]
    pub fn internal(text: &str) -> Self {
        let message = format!("Internal error occurred: {text}");
        Self::failure(Reason::InternalError, message).with_cause(Cause {
            message: text.into(),
            ..Cause::default()
        })
    }

    /// 500 with a reason and the bare text.
    #[must_use]
    pub fn internal_bare(message: &str) -> Self {
        Self::failure(Reason::InternalError, message)
    }

    /// 500 without a reason, as bare storage errors are.
    #[must_use]
    pub fn storage_failure(message: impl Into<String>) -> Self {
        Self::without_reason(message)
    }

    /// 503
    #[must_use]
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::failure(Reason::ServiceUnavailable, message)
    }

    /// 503 while the server starts.
    #[must_use]
    pub fn not_yet_installed() -> Self {
        Self::unavailable(
            "the request has been made before all known HTTP paths have been installed, please \
             try again",
        )
        .with_retry_after(5)
    }

    /// 504
    #[must_use]
    pub fn timeout(message: &str, retry_after_seconds: u32) -> Self {
        Self::failure(Reason::Timeout, format!("Timeout: {message}"))
            .with_retry_after(retry_after_seconds)
    }

    /// 504 at the deadline of a request. The only `Status` without kind and apiVersion; it is sent
    /// as text/plain.
    #[must_use]
    pub fn deadline_exceeded() -> Self {
        let mut status = Self::timeout("request did not complete within the allotted timeout", 0);
        status.0.kind = "";
        status.0.api_version = "";
        status
    }
}

/// Escapes HTML in the text, because a browser may show it and the client chose parts of it.
fn explain(text: &str, reason: &str) -> String {
    let safe = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    if reason.is_empty() {
        safe
    } else {
        format!("{safe}: {reason}")
    }
}

/// The beginning of a body: text if it may be JSON, otherwise hexadecimal.
fn body_excerpt(body: &[u8]) -> String {
    const BYTES_MAX: usize = 30;
    let cut = &body[..body.len().min(BYTES_MAX)];
    let dots = if cut.len() < body.len() { " ..." } else { "" };
    match cut.first() {
        None => "<empty>".into(),
        Some(b'{') => format!("{}{dots}", String::from_utf8_lossy(cut)),
        Some(_) => {
            let hex: String = cut.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{dots}")
        }
    }
}
