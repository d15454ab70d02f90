//! An HTTP client that records its operations in a history.

use crate::collection::{Collection, item_of, revision_of};
use crate::connection::{Connection, HttpRequestError, JsonResponse};
use http::{Method, StatusCode};
use optik_store_testkit::history::{
    Expectation, HistoryRecorder, KeyChange, KeySpan, KeyState, OperationOutcome, OperationRequest,
    ReadFreshness,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// One client, with one operation at a time.
#[derive(Debug)]
pub struct RecordingHttpClient {
    pub collection: Collection,
    pub recorder: Arc<HistoryRecorder>,
    pub number: u32,
    pub connection: Connection,
}

/// A read got no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadInterrupted;

impl RecordingHttpClient {
    /// Reads one object.
    ///
    /// # Errors
    /// If the connection breaks.
    ///
    /// # Panics
    /// If the server answers what makes no sense.
    pub async fn get(&mut self, name: &str) -> Result<Option<KeyState>, ReadInterrupted> {
        let path = self.collection.path_of(name);
        let begun = self.recorder.begin();
        let answer = self.connection.request(Method::GET, &path, None).await;
        let found = answer.map(|answer| match answer.status {
            StatusCode::OK => Some(item_of(&answer.body)),
            StatusCode::NOT_FOUND => None,
            _ => panic!("{path}: {answer:?}"),
        });
        let outcome = match &found {
            Ok(found) => OperationOutcome::Glimpsed {
                items: found.iter().cloned().collect(),
            },
            Err(_) => OperationOutcome::Failed,
        };
        let request = OperationRequest::Read {
            span: KeySpan::single(&self.collection.key(name)),
            state: ReadFreshness::Latest,
        };
        self.recorder.end(self.number, begun, request, outcome);
        found.map_err(|_| ReadInterrupted)
    }

    /// Reads all objects, in pages of `limit` if it is not zero. Returns the revision.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn list(
        &mut self,
        wanted: ReadFreshness,
        limit: u32,
    ) -> Result<u64, ReadInterrupted> {
        let begun = self.recorder.begin();
        let listed = self.pages(wanted, limit).await;
        let outcome = match &listed {
            Ok((revision, items)) => OperationOutcome::Found {
                revision: *revision,
                items: items.clone(),
            },
            Err(_) => OperationOutcome::Failed,
        };
        let request = OperationRequest::Read {
            span: self.collection.span(),
            state: wanted,
        };
        self.recorder.end(self.number, begun, request, outcome);
        listed
            .map(|(revision, _)| revision)
            .map_err(|_| ReadInterrupted)
    }

    async fn pages(
        &mut self,
        wanted: ReadFreshness,
        limit: u32,
    ) -> Result<(u64, Vec<KeyState>), HttpRequestError> {
        let path = self.collection.path();
        let mut query = match wanted {
            ReadFreshness::Latest => format!("limit={limit}"),
            ReadFreshness::Any => "resourceVersion=0".to_owned(),
            ReadFreshness::At(revision) => {
                format!("resourceVersion={revision}&resourceVersionMatch=Exact&limit={limit}")
            }
        };
        let mut items = Vec::new();
        loop {
            let path = format!("{path}?{query}");
            let page = self.connection.request(Method::GET, &path, None).await?;
            assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
            let objects = page.body["items"].as_array().expect("a list has items");
            items.extend(objects.iter().map(item_of));
            match page.body["metadata"]["continue"].as_str() {
                None | Some("") => return Ok((revision_of(&page.body), items)),
                Some(token) => query = format!("limit={limit}&continue={token}"),
            }
        }
    }

    /// Writes an object that is not there.
    pub async fn create(&mut self, name: &str, value: &str) -> OperationOutcome {
        let object = self.collection.object(name, value, None);
        let path = self.collection.path();
        let change = KeyChange::Put {
            key: self.collection.key(name),
            value: value.to_owned(),
        };
        self.write(Method::POST, &path, &object, (0, change)).await
    }

    /// Updates an object with the seen revision as precondition.
    pub async fn update(&mut self, seen: &KeyState, value: &str) -> OperationOutcome {
        let name = self.collection.name_of(&seen.key);
        let object = self.collection.object(name, value, Some(seen.mod_revision));
        let path = self.collection.path_of(name);
        let change = KeyChange::Put {
            key: seen.key.clone(),
            value: value.to_owned(),
        };
        let write = (seen.mod_revision, change);
        self.write(Method::PUT, &path, &object, write).await
    }

    /// Deletes an object with the seen revision as precondition.
    pub async fn delete(&mut self, seen: &KeyState) -> OperationOutcome {
        let path = self.collection.path_of(self.collection.name_of(&seen.key));
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"resourceVersion": seen.mod_revision.to_string()},
        });
        let change = KeyChange::Delete {
            key: seen.key.clone(),
        };
        let write = (seen.mod_revision, change);
        self.write(Method::DELETE, &path, &options, write).await
    }

    /// Makes a change if the key is at this revision.
    async fn write(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
        (mod_revision, change): (u64, KeyChange),
    ) -> OperationOutcome {
        let begun = self.recorder.begin();
        let answer = self.connection.request(method, path, Some(body)).await;
        let outcome = match answer {
            Ok(answer) => written(&answer, &change),
            Err(HttpRequestError::NotSent) => OperationOutcome::Failed,
            Err(HttpRequestError::Cut) => OperationOutcome::Unknown,
        };
        let expected = Expectation {
            key: change.key().to_owned(),
            mod_revision,
        };
        let request = OperationRequest::Write {
            expects: vec![expected],
            changes: vec![change],
        };
        self.recorder
            .end(self.number, begun, request, outcome.clone());
        outcome
    }
}

fn written(answer: &JsonResponse, change: &KeyChange) -> OperationOutcome {
    match (answer.status, change) {
        (StatusCode::OK | StatusCode::CREATED, KeyChange::Put { .. }) => {
            OperationOutcome::Written {
                revision: revision_of(&answer.body),
            }
        }
        // The response to a delete does not contain its revision.
        (StatusCode::OK, KeyChange::Delete { .. }) => OperationOutcome::Done,
        (StatusCode::CONFLICT | StatusCode::NOT_FOUND, _) => OperationOutcome::Denied,
        _ => panic!("{change:?}: {answer:?}"),
    }
}
