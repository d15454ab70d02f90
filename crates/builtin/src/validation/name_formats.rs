//! Formats of names in fields, other than object names.

use optik_object::Problems;

pub(crate) const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

pub(crate) fn port_name(name: &str) -> Problems {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push("must be no more than 15 characters".to_owned());
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || !name.chars().all(fits) {
        let text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        problems.push(text.into());
    }
    if !name.contains(|c: char| c.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)".into());
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens".into());
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen".into());
    }
    problems
}

pub(crate) fn environment_name(name: &str) -> Problems {
    let mut problems = Vec::new();
    if name.is_empty() {
        problems.push("environment variable name must be non-empty".to_owned());
    }
    if name.chars().any(|c| !(' '..='~').contains(&c) || c == '=') {
        let text = "a valid environment variable name must consist only of printable ASCII \
                    characters other than '='";
        problems.push(text.into());
    }
    problems
}

/// Validates a key of a ConfigMap or a Secret.
pub(crate) fn config_key(key: &str) -> Problems {
    let mut problems = Vec::new();
    if key.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    if key.is_empty() || !key.chars().all(fits) {
        let text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                    (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation \
                    is '[-._a-zA-Z0-9]+')";
        problems.push(text.into());
    }
    match key {
        "." => problems.push("must not be '.'".into()),
        ".." => problems.push("must not be '..'".into()),
        _ if key.starts_with("..") => problems.push("must not start with '..'".into()),
        _ => {}
    }
    problems
}

pub(crate) fn c_identifier(name: &str) -> Problems {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if begins && name.chars().all(fits) {
        return Vec::new();
    }
    vec![
        "a valid C identifier must start with alphabetic character or '_', followed by a string \
         of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex \
         used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
            .into(),
    ]
}

pub(crate) fn header_name(name: &str) -> Problems {
    if !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Vec::new();
    }
    vec![
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. \
         'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
            .into(),
    ]
}

pub(crate) fn wildcard_subdomain(name: &str) -> Problems {
    let rest = name.strip_prefix("*.");
    let good = rest.is_some_and(|rest| optik_object::dns1123_subdomain(rest).is_empty());
    if good && name.len() <= 253 {
        return Vec::new();
    }
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    problems.push(
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
         which must consist of lower case alphanumeric characters, '-' or '.' and end with an \
         alphanumeric character (e.g. '*.example.com', regex used for validation is \
         '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .into(),
    );
    problems
}

/// Whether the text is an integer percentage.
pub(crate) fn is_percent(text: &str) -> bool {
    let digits = text.strip_suffix('%').unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}
