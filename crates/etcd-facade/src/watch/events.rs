//! Conversion of commits to watch responses. The events of a revision stay in one response, unless
//! the client asked for fragments.

use crate::convert::key_value;
use optik_etcd_api::etcdserverpb::watch_create_request::FilterType;
use optik_etcd_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use optik_etcd_api::mvccpb::{self, event::EventType};
use optik_store::{Event, Revision, WatchBatch};
use prost::Message;

/// Whole revisions are gathered into one response up to this size.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// The events that a watch asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct EventFilter {
    puts: bool,
    deletes: bool,
    prev_kv: bool,
}

impl EventFilter {
    pub(super) fn from_request(request: &WatchCreateRequest) -> Self {
        let filtered = |filter| request.filters().any(|one| one == filter);
        Self {
            puts: !filtered(FilterType::Noput),
            deletes: !filtered(FilterType::Nodelete),
            prev_kv: request.prev_kv,
        }
    }

    fn to_message(self, event: &Event) -> Option<mvccpb::Event> {
        let deletion = event.version().is_deletion();
        let wanted = if deletion { self.deletes } else { self.puts };
        let kind = if deletion {
            EventType::Delete
        } else {
            EventType::Put
        };
        let prior = event.prior().filter(|_| self.prev_kv);
        wanted.then(|| mvccpb::Event {
            r#type: kind.into(),
            kv: Some(key_value(event.version())),
            prev_kv: prior.map(|prior| key_value(prior)),
        })
    }
}

/// Events of whole revisions, the last of which is `through`.
#[derive(Debug, Default)]
pub(super) struct EventChunk {
    pub(super) through: Revision,
    pub(super) events: Vec<mvccpb::Event>,
    bytes: usize,
}

/// The events of a batch that pass the filter, in chunks of about [`RESPONSE_BYTES_MAX`].
pub(super) fn chunks(batch: &WatchBatch, wanted: EventFilter) -> Vec<EventChunk> {
    let mut chunks: Vec<EventChunk> = Vec::new();
    for commit in batch.commits() {
        let events = batch.events_of(commit);
        let events: Vec<_> = events
            .filter_map(|event| wanted.to_message(event))
            .collect();
        if events.is_empty() {
            continue;
        }
        let bytes: usize = events.iter().map(Message::encoded_len).sum();
        let room = |chunk: &&mut EventChunk| chunk.bytes + bytes <= RESPONSE_BYTES_MAX;
        if chunks.last_mut().filter(room).is_none() {
            chunks.push(EventChunk::default());
        }
        let chunk = chunks.last_mut().expect("one has room or was pushed");
        chunk.through = commit.revision();
        chunk.events.extend(events);
        chunk.bytes += bytes;
    }
    chunks
}

/// Splits a response that is larger than `bytes_max` into fragments of whole events.
pub(super) fn fragments(mut response: WatchResponse, bytes_max: usize) -> Vec<WatchResponse> {
    if response.encoded_len() < bytes_max {
        return vec![response];
    }
    let events = std::mem::take(&mut response.events);
    let empty = WatchResponse {
        fragment: true,
        ..response
    };
    let mut pieces = vec![empty.clone()];
    let mut bytes = 0;
    for event in events {
        let size = event.encoded_len();
        if bytes > 0 && bytes + size >= bytes_max {
            pieces.push(empty.clone());
            bytes = 0;
        }
        bytes += size;
        let piece = pieces.last_mut().expect("there is always one");
        piece.events.push(event);
    }
    // Only the last fragment is not marked as one.
    pieces.last_mut().expect("there is always one").fragment = false;
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn response(sizes: &[usize]) -> WatchResponse {
        let event = |size: &usize| mvccpb::Event {
            kv: Some(mvccpb::KeyValue {
                value: Bytes::from(vec![0; *size]),
                ..mvccpb::KeyValue::default()
            }),
            ..mvccpb::Event::default()
        };
        WatchResponse {
            watch_id: 7,
            events: sizes.iter().map(event).collect(),
            ..WatchResponse::default()
        }
    }

    #[test]
    fn watch_fragments_hold_whole_events_and_mark_the_last() {
        let cases: &[(&[usize], &[usize])] = &[
            (&[10], &[1]),
            (&[500], &[1]),
            (&[60, 60], &[1, 1]),
            (&[10, 10, 10, 90, 10], &[3, 1, 1]),
        ];
        for (sizes, expected) in cases {
            let pieces = fragments(response(sizes), 100);
            let counts: Vec<_> = pieces.iter().map(|piece| piece.events.len()).collect();
            assert_eq!(counts, *expected, "{sizes:?}");
            let (last, others) = pieces.split_last().expect("one at least");
            assert!(!last.fragment && others.iter().all(|piece| piece.fragment));
            assert!(pieces.iter().all(|piece| piece.watch_id == 7));
        }
    }
}
