//! Interprets webhook responses and describes invalid ones.

use crate::server::webhook_client::WebhookResponse;
use optik_object::{Value, quote};

/// The document in a response. Content-Type is ignored: many webhooks leave it to their libraries,
/// which label JSON as text.
pub(super) fn response_document(reply: &WebhookResponse) -> Result<Value, String> {
    if !matches!(reply.status.as_u16(), 200..=206) {
        return Err(error_message(reply));
    }
    if reply.body.is_empty() {
        return Err(format!(
            "0-length response with status code: {} and content type: {}",
            reply.status.as_u16(),
            reply.content_type
        ));
    }
    let value = read(&reply.body)
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    match go_type(&value) {
        None => Ok(value),
        Some(found) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go \
             value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
             Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )),
    }
}

/// Parses JSON, or YAML as upstream does: a page of text is a YAML scalar.
fn read(body: &[u8]) -> Result<Value, String> {
    match optik_object::parse(body) {
        Ok(parsed) => Ok(parsed.value),
        Err(error) if body.first() == Some(&b'{') => Err(error.to_string()),
        Err(_) => match optik_object::yaml::parse(body) {
            Ok(parsed) => Ok(parsed.value),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Go's name for the type of a document that is not an object.
fn go_type(value: &Value) -> Option<&'static str> {
    match value {
        Value::Object(_) => None,
        Value::Null => Some("null"),
        Value::Bool(_) => Some("bool"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
    }
}

/// The message of an error response: that of its `Status`, if it is one.
fn error_message(reply: &WebhookResponse) -> String {
    let parsed = optik_object::parse(&reply.body).map(|parsed| parsed.value);
    if let Ok(status) = parsed
        && status["kind"] == "Status"
        && let Some(message) = status["message"].as_str()
    {
        return message.to_owned();
    }
    let is_text = reply.content_type.is_empty() || reply.content_type.starts_with("text/");
    let text = String::from_utf8_lossy(&reply.body);
    let said = if is_text { text.trim() } else { "unknown" };
    let general = match reply.status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 => return said.to_owned(),
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request"
        }
        code if code >= 500 => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                quote(said)
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more \
                 information"
            );
        }
    };
    general.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn reply(code: u16, content_type: &str, body: &'static str) -> WebhookResponse {
        WebhookResponse {
            status: StatusCode::from_u16(code).unwrap(),
            content_type: content_type.into(),
            body: body.into(),
        }
    }

    #[test]
    fn unusable_webhook_responses_are_described_as_upstream() {
        let json = "application/json";
        for (code, content_type, body, expected) in [
            (
                200,
                json,
                "",
                "0-length response with status code: 200 and content type: application/json",
            ),
            (
                500,
                json,
                "oh",
                "an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
            (
                500,
                "text/plain",
                " oh\n",
                "an error on the server (\"oh\") has prevented the request from succeeding",
            ),
            (
                404,
                "text/plain",
                "x",
                "the server could not find the requested resource",
            ),
            (403, json, r#"{"kind":"Status","message":"no"}"#, "no"),
            (
                302,
                "",
                "",
                "the server responded with the status code 302 but did not return more information",
            ),
        ] {
            let reply = reply(code, content_type, body);
            assert_eq!(response_document(&reply).unwrap_err(), expected);
        }
        for content_type in [
            "",
            "application/json; charset=utf-8",
            "text/plain; charset=utf-8",
        ] {
            let good = reply(200, content_type, r#"{"a":1}"#);
            assert_eq!(response_document(&good).unwrap()["a"], 1);
        }
    }
}
