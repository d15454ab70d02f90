//! A response, and assertions about it.

use crate::failure::{ensure, same_json};
use crate::{Failure, Outcome};
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

/// A completely received response.
#[derive(Clone, Debug)]
pub struct ApiResponse {
    /// The request line and the beginning of its body, for failures.
    pub asked: String,
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ApiResponse {
    /// # Errors
    /// If the body is not JSON.
    pub fn json(&self) -> Outcome<Value> {
        serde_json::from_slice(&self.body).map_err(|cause| {
            let Self { asked, status, .. } = self;
            let text = self.text();
            Failure::new(format!("{asked}\n  no JSON ({cause}): {status} {text}"))
        })
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header, or the empty string.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(http::HeaderValue::to_str);
        value.and_then(Result::ok).unwrap_or_default()
    }

    /// # Errors
    /// If the status is another.
    pub fn has_status(&self, expected: u16) -> Outcome {
        let Self { asked, status, .. } = self;
        ensure!(
            *status == expected,
            "{asked}\n  expected {expected}\n  got      {status} {}",
            shorten(&self.text())
        );
        Ok(())
    }

    /// The JSON of a response with this status.
    ///
    /// # Errors
    /// If the status differs, or the body is not JSON.
    pub fn expect_json(&self, expected: u16) -> Outcome<Value> {
        self.has_status(expected)?;
        self.json()
    }

    /// Compares the whole `Status` object, the HTTP status code, and `Retry-After`.
    pub(crate) fn expect_failure(&self, expected: &Value) -> Outcome {
        let code = expected["code"].as_u64().unwrap_or(200);
        same_json(&self.asked, expected, &self.json()?)?;
        ensure!(
            u64::from(self.status) == code,
            "{}\n  expected {code}\n  got      {} with a body that says {code}",
            self.asked,
            self.status
        );
        let retry = expected["details"]["retryAfterSeconds"].as_u64();
        let retry = retry.map(|seconds| seconds.to_string()).unwrap_or_default();
        ensure!(
            self.header("retry-after") == retry,
            "{}\n  expected Retry-After {retry:?}\n  got      {:?}",
            self.asked,
            self.header("retry-after")
        );
        Ok(())
    }

    /// A failure of which only code, reason and message are certain.
    pub(crate) fn expect_message(&self, code: u16, reason: &str, message: &str) -> Outcome {
        let body = self.expect_json(code)?;
        let expected = (Value::from(reason), Value::from(message));
        let got = (body["reason"].clone(), body["message"].clone());
        ensure!(
            expected == got,
            "{}\n  expected {reason}: {message}\n  got      {body}",
            self.asked
        );
        Ok(())
    }
}

fn shorten(text: &str) -> String {
    const CHARS_MAX: usize = 600;
    let text = text.trim_end();
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    let cut: String = text.chars().take(CHARS_MAX).collect();
    format!("{cut}…")
}
