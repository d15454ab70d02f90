//! Validation of webhook client configurations.

use optik_object::{FieldError, Value, dns1123_subdomain};

/// Checks a webhook URL: https, a host and a path, nothing else.
pub(crate) fn check_url(url: &str, path: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let mut refuse = |value: &str, text: String| {
        errors.push(FieldError::invalid(path, value, text));
    };
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        refuse(
            scheme,
            format!("'https' is the only allowed URL scheme{FORM}"),
        );
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if host.is_empty() {
        refuse("", format!("host must be specified{FORM}"));
    }
    if let Some(user) = user {
        refuse(user, "user information is not permitted in the URL".into());
    }
    if !fragment.is_empty() {
        refuse(fragment, "fragments are not permitted in the URL".into());
    }
    if !query.is_empty() {
        refuse(
            query,
            "query parameters are not permitted in the URL".into(),
        );
    }
}

pub(crate) fn check_port(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let text = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(path, port, text));
    }
}

/// Checks the path of a service reference, whose segments are names.
pub(crate) fn check_service_path(given: &str, path: &str, errors: &mut Vec<FieldError>) {
    if matches!(given, "" | "/") {
        return;
    }
    let mut refuse = |text: String| errors.push(FieldError::invalid(path, given, text));
    if given == "//" {
        return refuse("segment[0] may not be empty".into());
    }
    if !given.starts_with('/') {
        refuse("must start with a '/'".into());
    }
    let mut characters = given.chars();
    characters.next();
    let rest = characters.as_str();
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    for (at, step) in rest.split('/').enumerate() {
        if step.is_empty() {
            refuse(format!("segment[{at}] may not be empty"));
            continue;
        }
        for problem in dns1123_subdomain(step) {
            refuse(format!("segment[{at}]: {problem}"));
        }
    }
}
