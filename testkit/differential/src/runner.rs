//! Runs a script against a server.

use crate::normalize::Normalizer;
use crate::recording::ResponseRecording;
use crate::script::{RequestScript, ScriptStep};
use http::Method;
use optik_api_testkit::{ApiResponse, Client, Failure, Request};
use serde_json::Value;
use std::time::Duration;

/// How long to retry until the expected status.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// Request headers that a script may set. The others are set by the client.
const HEADERS: &[&str] = &[
    "accept",
    "accept-encoding",
    "content-type",
    "if-none-match",
    "impersonate-group",
    "impersonate-uid",
    "impersonate-user",
    "user-agent",
];

#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    #[error("{title}: {cause}")]
    Send { title: String, cause: Failure },
    #[error("{title}: invalid header name {name}")]
    Header { title: String, name: String },
    #[error("{title}: {method} is no method")]
    Method { title: String, method: String },
    #[error("{title}: the answer has no {pointer}: {text}")]
    Keep {
        title: String,
        pointer: String,
        text: String,
    },
    #[error("{title}: still {status} after the timeout: {text}")]
    Until {
        title: String,
        status: u16,
        text: String,
    },
}

/// Sends the requests one after the other and takes down the answers.
///
/// # Errors
/// If a request cannot be sent, or what a later one needs does not come.
pub async fn run_script(
    client: &Client,
    script: &RequestScript,
) -> Result<ResponseRecording, PlayError> {
    let mut kept: Vec<(String, String)> = Vec::new();
    let mut plain = Normalizer::default();
    let mut record = ResponseRecording::default();
    for step in &script.steps {
        let put = |step: ScriptStep, (name, word): &(String, String)| step.with(name, word);
        let step = kept.iter().fold(step.clone(), put);
        let answer = until_expected_status(client, &step).await?;
        for (name, pointer) in &step.keep {
            let word = extract(&answer, pointer).ok_or_else(|| PlayError::Keep {
                title: step.title.clone(),
                pointer: pointer.clone(),
                text: answer.text(),
            })?;
            kept.retain(|(other, _)| other != name);
            kept.push((name.clone(), word));
        }
        if !step.quiet {
            let answer = plain.answer(&step.title, &answer, &step.only);
            record.push(step.title.clone(), answer);
        }
    }
    Ok(record)
}

async fn until_expected_status(
    client: &Client,
    step: &ScriptStep,
) -> Result<ApiResponse, PlayError> {
    let request = request(step)?;
    let mut pulse = tokio::time::interval(Duration::from_millis(50));
    let end = tokio::time::Instant::now() + REQUEST_TIMEOUT;
    loop {
        pulse.tick().await;
        let answer = client.execute(request.clone()).await;
        let answer = answer.map_err(|cause| PlayError::Send {
            title: step.title.clone(),
            cause,
        })?;
        match step.until {
            Some(wanted) if answer.status != wanted => {}
            _ => return Ok(answer),
        }
        if tokio::time::Instant::now() > end {
            return Err(PlayError::Until {
                title: step.title.clone(),
                status: answer.status,
                text: answer.text(),
            });
        }
    }
}

fn request(step: &ScriptStep) -> Result<Request, PlayError> {
    let method = Method::from_bytes(step.method.as_bytes());
    let method = method.map_err(|_| PlayError::Method {
        title: step.title.clone(),
        method: step.method.clone(),
    })?;
    let mut request = Request::new(method, step.path.as_str());
    request.body = step.body.clone().into();
    for (name, value) in &step.headers {
        let known = HEADERS.iter().find(|known| *known == name);
        let known = known.ok_or_else(|| PlayError::Header {
            title: step.title.clone(),
            name: name.clone(),
        })?;
        request = request.header(known, value.as_str());
    }
    Ok(request)
}

fn extract(answer: &ApiResponse, pointer: &str) -> Option<String> {
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    match body.pointer(pointer)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
