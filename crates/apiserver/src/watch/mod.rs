//! What happens to a collection, as it happens.

mod encoded;
mod schedule;
mod stream;
mod teller;

pub(crate) use encoded::EncodedEvents;

use crate::calling::Outside;
use crate::form::Form;
use crate::freshness::{Patience, snapshot};
use crate::kinds::Kind;
use crate::options::{WatchAt, WatchPlan};
use crate::piece::Piece;
use crate::selection::Selection;
use crate::trouble::stopping;
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, once};
use optik_object::Status;
use optik_platform::{Clock, Entropy};
use optik_store::{Revision, Snapshot, Store, Watch, WatchError, WatchFrom, WatchSpec};
use schedule::Schedule;
use std::sync::Arc;
use stream::Stream;

/// What to watch.
pub(crate) struct Watching {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: Option<String>,
    pub(crate) selection: Selection,
    pub(crate) plan: WatchPlan,
    pub(crate) form: Form,
}

/// What a watch needs of the server.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) store: Store,
    /// Who converts objects, if somebody else does.
    pub(crate) outside: Outside,
    pub(crate) encoded: Arc<EncodedEvents>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
}

/// Events, each on a line (or in a frame) of its own. What goes wrong from here on is an event too.
///
/// Where the watch begins is settled before this returns: whoever sees the answer
/// begin may count on it.
pub(crate) async fn watch(around: &Surroundings, watching: Watching) -> BoxStream<'static, Piece> {
    let form = watching.form;
    let life = watching.kind.custom.as_ref();
    let life = life.map(|custom| custom.life.clone());
    match begin(around, watching).await {
        Ok(stream) => match life {
            Some(life) => until_over(stream.boxed(), life).map(Piece::from).boxed(),
            None => stream.map(Piece::from).boxed(),
        },
        Err(status) => {
            let last = teller::failure(form, &status);
            once(std::future::ready(last.into())).boxed()
        }
    }
}

async fn begin(around: &Surroundings, watching: Watching) -> Result<Stream, Status> {
    let plan = watching.plan;
    let schedule = Schedule::new(plan.timeout_seconds, &*around.entropy);
    if schedule.is_over() && matches!(plan.at, WatchAt::Initial(_)) {
        return Err(Status::internal_bare("context deadline exceeded"));
    }
    let patience = match Patience::of(&watching.kind) {
        Patience::Waits => Patience::Waits,
        _ => Patience::NoneForNow,
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
    let watch = open(&around.store, &watching, start)?;
    Ok(Stream::new(
        around,
        watching,
        Begin {
            start,
            initial,
            watch,
        },
        schedule,
    ))
}

/// Where a stream begins.
struct Begin {
    start: Revision,
    initial: Option<Snapshot>,
    watch: Watch,
}

fn open(store: &Store, watching: &Watching, start: Revision) -> Result<Watch, Status> {
    let range = watching.kind.range(watching.namespace.as_deref());
    let from = WatchFrom::Revision(start.next());
    store
        .watch(WatchSpec { range, from })
        .map_err(|error| match error {
            WatchError::Compacted { oldest } if watching.kind.resource.behaviour.cached => {
                Status::watch_too_old(start.get(), oldest.previous().get())
            }
            WatchError::Compacted { .. } => Status::watch_expired(),
            _ => stopping(),
        })
}

/// Ends with the life of the kind, once what has come by then is told.
fn until_over(
    pieces: BoxStream<'static, Bytes>,
    life: tokio::sync::watch::Receiver<()>,
) -> impl futures::Stream<Item = Bytes> + Send {
    futures::stream::unfold((pieces, life), |(mut pieces, mut life)| async move {
        let piece = tokio::select! {
            // The events first: the last ones are the deletions of the objects.
            biased;
            piece = pieces.next() => piece?,
            // Nothing is ever sent; what comes is the end of the sender.
            _ = life.changed() => return None,
        };
        Some((piece, (pieces, life)))
    })
}
