//! The `watch` verb: streams the changes of a collection.

mod encoded_events;
mod event_encoder;
mod watch_stream;
mod watch_timer;

pub(crate) use crate::handlers::watch::encoded_events::EncodedEvents;

use crate::encoding::byte_rope::ByteRope;
use crate::encoding::representation::Representation;
use crate::handlers::freshness::{WaitPolicy, snapshot};
use crate::handlers::watch::watch_stream::WatcherStream;
use crate::handlers::watch::watch_timer::WatchTimer;
use crate::registry::served_resource::ServedResource;
use crate::request::list_options::{WatchAt, WatchPlan};
use crate::request::selection_predicate::SelectionPredicate;
use crate::server::store_errors::shutting_down;
use crate::server::webhook_client::WebhookClient;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, once};
use optik_object::Status;
use optik_platform::{Clock, Entropy};
use optik_store::{Revision, Snapshot, Store, Watch, WatchError, WatchFrom, WatchSpec};
use std::sync::Arc;

/// The parameters of a watch.
pub(crate) struct WatchRequest {
    pub(crate) kind: Arc<ServedResource>,
    pub(crate) namespace: Option<String>,
    pub(crate) selection: SelectionPredicate,
    pub(crate) plan: WatchPlan,
    pub(crate) representation: Representation,
}

/// The parts of the server that a watch uses.
#[derive(Clone)]
pub(crate) struct WatchDeps {
    pub(crate) store: Store,
    /// Calls the conversion webhook of a CRD.
    pub(crate) webhook_client: WebhookClient,
    pub(crate) encoded: Arc<EncodedEvents>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Starts a watch. Each event is a line or a frame; errors after this function returns are ERROR
/// events.
///
/// The start revision is fixed before this returns: once a client sees the response headers, it
/// receives every later change.
pub(crate) async fn watch(
    around: &WatchDeps,
    watching: WatchRequest,
) -> BoxStream<'static, ByteRope> {
    let form = watching.representation;
    let life = watching.kind.custom.as_ref();
    let life = life.map(|custom| custom.replaced.clone());
    match open_stream(around, watching).await {
        Ok(stream) => match life {
            Some(life) => until_kind_replaced(stream.boxed(), life)
                .map(ByteRope::from)
                .boxed(),
            None => stream.map(ByteRope::from).boxed(),
        },
        Err(status) => {
            let last = crate::handlers::watch::event_encoder::encode_error(form, &status);
            once(std::future::ready(last.into())).boxed()
        }
    }
}

async fn open_stream(around: &WatchDeps, watching: WatchRequest) -> Result<WatcherStream, Status> {
    let plan = watching.plan;
    let schedule = WatchTimer::new(plan.timeout_seconds, &*around.entropy);
    if schedule.is_over() && matches!(plan.at, WatchAt::Initial(_)) {
        return Err(Status::internal_bare("context deadline exceeded"));
    }
    let patience = match WaitPolicy::for_kind(&watching.kind) {
        WaitPolicy::Wait => WaitPolicy::Wait,
        _ => WaitPolicy::FailRetriable,
    };
    let (start, initial) = match plan.at {
        WatchAt::After(revision) => (revision, None),
        WatchAt::Following(fresh) => {
            let state = snapshot(&around.store, fresh, patience).await?;
            (state.revision(), None)
        }
        WatchAt::Initial(fresh) => {
            let state = snapshot(&around.store, fresh, patience).await?;
            (state.revision(), Some(state))
        }
    };
    let watch = open_store_watch(&around.store, &watching, start)?;
    Ok(WatcherStream::new(
        around,
        watching,
        WatchStart {
            start,
            initial,
            watch,
        },
        schedule,
    ))
}

/// The start of a watch stream.
struct WatchStart {
    start: Revision,
    initial: Option<Snapshot>,
    watch: Watch,
}

fn open_store_watch(
    store: &Store,
    watching: &WatchRequest,
    start: Revision,
) -> Result<Watch, Status> {
    let range = watching.kind.range(watching.namespace.as_deref());
    let from = WatchFrom::Revision(start.next());
    store
        .watch(WatchSpec { range, from })
        .map_err(|error| match error {
            WatchError::Compacted { oldest } if watching.kind.resource.strategy_options.cached => {
                Status::too_old_resource_version(start.get(), oldest.previous().get())
            }
            WatchError::Compacted { .. } => Status::watch_expired(),
            _ => shutting_down(),
        })
}

/// Ends the stream when the served kind is replaced or removed, after the pending events were sent.
fn until_kind_replaced(
    pieces: BoxStream<'static, Bytes>,
    life: tokio::sync::watch::Receiver<()>,
) -> impl futures::Stream<Item = Bytes> + Send {
    futures::stream::unfold((pieces, life), |(mut pieces, mut life)| async move {
        let piece = tokio::select! {
            // Events first: the last ones are the deletions of the objects.
            biased;
            piece = pieces.next() => piece?,
            // No value is ever sent; the receiver only resolves when the sender is dropped.
            _ = life.changed() => return None,
        };
        Some((piece, (pieces, life)))
    })
}
