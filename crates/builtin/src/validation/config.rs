//! Validation of ConfigMaps and Secrets.

use super::accessors::{entries, flag, text};
use super::errors::Errors;
use super::field_path::FieldPath;
use super::name_formats::config_key;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use optik_object::{Object, Value};

const DATA_BYTES_MAX: usize = 1024 * 1024;
const DATA: FieldPath<'static> = FieldPath::root("data");
const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";

fn member<'a>(object: &'a Object, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

pub(crate) fn validate_config_map(object: &Object, errors: &mut Errors) {
    let mut size = 0;
    let binary = member(object, "binaryData");
    for (key, value) in entries(member(object, "data")) {
        errors.problems(DATA.key(key), key, config_key(key));
        if binary.get(key).is_some() {
            let message = "duplicate of key present in binaryData";
            errors.invalid(DATA.key(key), key.as_str(), message);
        }
        size += text(value).len();
    }
    let path = FieldPath::root("binaryData");
    for (key, value) in entries(binary) {
        errors.problems(path.key(key), key, config_key(key));
        size += decoded_bytes(text(value));
    }
    if size > DATA_BYTES_MAX {
        errors.too_long(FieldPath::root("[]"), DATA_BYTES_MAX);
    }
}

/// The decoded size of a base64 string.
fn decoded_bytes(text: &str) -> usize {
    let padding = text.len() - text.trim_end_matches('=').len();
    (text.len() / 4 * 3).saturating_sub(padding)
}

pub(crate) fn validate_config_map_update(new: &Object, old: &Object, errors: &mut Errors) {
    validate_members_unchanged(new, old, &["data", "binaryData"], errors);
}

fn validate_members_unchanged(new: &Object, old: &Object, members: &[&str], errors: &mut Errors) {
    if !flag(member(old, "immutable")) {
        return;
    }
    if !flag(member(new, "immutable")) {
        errors.forbidden(FieldPath::root("immutable"), IMMUTABLE_MESSAGE);
    }
    for name in members {
        if member(new, name) != member(old, name) {
            errors.forbidden(FieldPath::root(name), IMMUTABLE_MESSAGE);
        }
    }
}

pub(crate) fn validate_secret(object: &Object, errors: &mut Errors) {
    let data = member(object, "data");
    let mut size = 0;
    for (key, value) in entries(data) {
        errors.problems(DATA.key(key), key, config_key(key));
        size += decoded_bytes(text(value));
    }
    if size > DATA_BYTES_MAX {
        errors.too_long(DATA, DATA_BYTES_MAX);
    }
    let has = |key: &str| data.get(key).is_some();
    let mut need = |key: &str| {
        if !has(key) {
            errors.required(DATA.key(key), "");
        }
    };
    match text(member(object, "type")) {
        "kubernetes.io/service-account-token" => {
            let account = "kubernetes.io/service-account.name";
            if object.annotation(account).is_none_or(str::is_empty) {
                let metadata = FieldPath::root("metadata");
                let annotations = metadata.child("annotations");
                errors.required(annotations.key(account), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json_key(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => validate_json_key(data, ".dockerconfigjson", errors),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if text(&data["ssh-privatekey"]).is_empty() => {
            errors.required(DATA.key("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        _ => {}
    }
}

fn validate_json_key(data: &Value, key: &str, errors: &mut Errors) {
    let Some(value) = data.get(key) else {
        return errors.required(DATA.key(key), "");
    };
    let bytes = STANDARD.decode(text(value)).unwrap_or_default();
    let problem = match optik_object::parse(&bytes) {
        Ok(parsed) if parsed.value.is_object() || parsed.value.is_null() => return,
        Ok(_) => "json: cannot unmarshal into Go value of type map[string]interface {}".to_owned(),
        Err(error) => error.to_string(),
    };
    errors.invalid(DATA.key(key), "<secret contents redacted>", problem);
}

pub(crate) fn validate_secret_update(new: &Object, old: &Object, errors: &mut Errors) {
    errors.is_fixed(
        FieldPath::root("type"),
        member(new, "type"),
        member(old, "type"),
    );
    validate_members_unchanged(new, old, &["data"], errors);
}
