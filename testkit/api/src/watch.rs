//! A watch, event by event.

use crate::failure::ensure;
use crate::object::revision;
use crate::{Failure, Outcome};
use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use std::time::Duration;

/// Timeout for an event, longer than any event takes on a busy machine.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(20);

/// One change.
#[derive(Clone, Debug)]
pub struct Event {
    /// `ADDED` and so on.
    pub kind: String,
    pub object: Value,
}

impl Event {
    #[must_use]
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// # Errors
    /// If there is none.
    pub fn revision(&self) -> Outcome<u64> {
        revision(&self.object)
    }

    /// `ADDED name`, to compare sequences.
    #[must_use]
    pub fn summary(&self) -> String {
        format!("{} {}", self.kind, self.name())
    }

    /// The bookmark that ends a streaming list.
    #[must_use]
    pub fn ends_initial_events(&self) -> bool {
        let annotations = &self.object["metadata"]["annotations"];
        self.kind == "BOOKMARK" && annotations["k8s.io/initial-events-end"] == "true"
    }
}

/// The next item of a watch.
#[derive(Clone, Debug)]
pub enum NextEvent {
    Event(Event),
    /// The body ended regularly.
    End,
    /// The connection broke.
    Broken(String),
    /// Nothing in the time given.
    Silence,
}

/// A watch in JSON. It also returns raw bytes, for other framings.
#[derive(Debug)]
pub struct WatchStream {
    asked: String,
    headers: HeaderMap,
    body: Incoming,
    buffer: BytesMut,
}

impl WatchStream {
    pub(crate) fn new(asked: String, headers: HeaderMap, body: Incoming) -> Self {
        Self {
            asked,
            headers,
            body,
            buffer: BytesMut::new(),
        }
    }

    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(http::HeaderValue::to_str);
        value.and_then(Result::ok).unwrap_or_default()
    }

    /// The next item, if it arrives within `patience`.
    pub async fn next(&mut self, patience: Duration) -> NextEvent {
        match tokio::time::timeout(patience, self.line()).await {
            Err(_) => NextEvent::Silence,
            Ok(Err(cause)) => NextEvent::Broken(cause),
            Ok(Ok(None)) => NextEvent::End,
            Ok(Ok(Some(line))) => match decode(&line) {
                Some(event) => NextEvent::Event(event),
                None => NextEvent::Broken(format!("no event: {}", String::from_utf8_lossy(&line))),
            },
        }
    }

    /// The next line, or the end.
    async fn line(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(end);
                self.buffer.advance(1);
                return Ok(Some(line.freeze()));
            }
            match self.chunk().await? {
                Some(chunk) => self.buffer.extend_from_slice(&chunk),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err("the body ended within a line".into()),
            }
        }
    }

    /// The next bytes as they come. Mixes badly with [`Self::next`].
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(cause)) => return Err(cause.to_string()),
                Some(Ok(frame)) => {
                    if let Ok(chunk) = frame.into_data() {
                        return Ok(Some(chunk));
                    }
                }
            }
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// If there is none.
    pub async fn event(&mut self) -> Outcome<Event> {
        match self.next(EVENT_TIMEOUT).await {
            NextEvent::Event(event) => Ok(event),
            other => Err(self.instead_of("an event", &other)),
        }
    }

    /// The next event, which must be of this type.
    pub(crate) async fn expect(&mut self, kind: &str) -> Outcome<Event> {
        let event = self.event().await?;
        if event.kind == kind {
            return Ok(event);
        }
        Err(self.instead_of(kind, &NextEvent::Event(event)))
    }

    /// The next event, which must be `ADDED name`.
    pub(crate) async fn expect_summary(&mut self, brief: &str) -> Outcome<Event> {
        let event = self.event().await?;
        if event.summary() == brief {
            return Ok(event);
        }
        Err(self.instead_of(brief, &NextEvent::Event(event)))
    }

    /// The next event must be the bookmark that ends the initial events.
    pub(crate) async fn expect_end_of_initial(&mut self) -> Outcome<Event> {
        let event = self.expect("BOOKMARK").await?;
        ensure!(
            event.ends_initial_events(),
            "{}\n  a bookmark without the annotation: {}",
            self.asked,
            event.object
        );
        Ok(event)
    }

    /// Everything up to and with the first event that `last` accepts.
    pub(crate) async fn read_until(
        &mut self,
        last: impl Fn(&Event) -> bool,
    ) -> Outcome<Vec<Event>> {
        let mut events = Vec::new();
        loop {
            let event = self.event().await.map_err(|failure| {
                let so_far: Vec<String> = events.iter().map(Event::summary).collect();
                failure.with_step(format!("after {so_far:?}"))
            })?;
            let done = last(&event);
            events.push(event);
            if done {
                return Ok(events);
            }
        }
    }

    /// The stream must end now, without an event.
    pub(crate) async fn expect_end(&mut self) -> Outcome {
        match self.next(EVENT_TIMEOUT).await {
            NextEvent::End => Ok(()),
            other => Err(self.instead_of("the end", &other)),
        }
    }

    pub(crate) fn instead_of(&self, expected: &str, got: &NextEvent) -> Failure {
        let got = match got {
            NextEvent::Event(event) => format!("{} {}", event.kind, event.object),
            other => format!("{other:?}"),
        };
        Failure::new(format!(
            "{}\n  expected {expected}\n  got      {got}",
            self.asked
        ))
    }
}

fn decode(line: &[u8]) -> Option<Event> {
    let mut value: Value = serde_json::from_slice(line).ok()?;
    Some(Event {
        kind: value["type"].as_str()?.to_owned(),
        object: value["object"].take(),
    })
}
