//! One gRPC stream: takes requests, asks its watches in turn, sends responses.

use super::events::{EventFilter, chunks, fragments};
use super::ready_queue::{ReadyQueue, WatchWaker};
use crate::context::FacadeContext;
use crate::convert::{key_range, revision, signed};
use futures::FutureExt;
use futures::future::BoxFuture;
use optik_etcd_api::errors::{COMPACTED, STOPPED, TOO_MANY_REQUESTS};
use optik_etcd_api::etcdserverpb::watch_request::RequestUnion;
use optik_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use optik_store::{Revision, Watch, WatchBatch, WatchError, WatchFrom, WatchSpec};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{self, Poll, Waker};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::{Status, Streaming};

/// What no watch is called: refusals and progress of the whole stream carry it.
const NO_WATCH_ID: i64 = -1;
/// The client lets us choose.
const AUTO_WATCH_ID: i64 = 0;
/// While this many replies wait to be sent, no more requests are read.
const REPLIES_QUEUED_MAX: usize = 64;

const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";

type Reply = Result<WatchResponse, Status>;

pub(super) struct WatchSession {
    context: FacadeContext,
    /// `None` once the client has said that it has nothing more to ask.
    requests: Option<Streaming<WatchRequest>>,
    sender: mpsc::Sender<Reply>,
    /// In order. What is in here counts as delivered.
    outbox: VecDeque<WatchResponse>,
    watches: BTreeMap<i64, SessionWatch>,
    next_id: i64,
    ready: ReadyQueue,
    progress: ProgressRequest,
    /// The newest revision of which an event was delivered.
    delivered: Revision,
}

struct SessionWatch {
    id: i64,
    watch: Watch,
    waker: Arc<WatchWaker>,
    start: Revision,
    filter: EventFilter,
    fragment: bool,
    notify: ProgressNotify,
    /// The newest revision of which it got an event.
    delivered: Revision,
}

/// Whether a watch hears regularly how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressNotify {
    Never,
    /// Unless an event comes before the next tick.
    AtNextTick,
    /// An event went out: the next tick has nothing to add.
    AfterNextTick,
}

/// Whether the client waits to hear how far the whole stream is.
enum ProgressRequest {
    None,
    /// To be answered when every watch has got this far.
    Pending(Revision),
    /// The store has not told its watches yet; there is nothing to look at before.
    WaitingForStore(Revision, BoxFuture<'static, ()>),
}

impl WatchSession {
    pub(super) fn new(
        context: FacadeContext,
        requests: Streaming<WatchRequest>,
        sender: mpsc::Sender<Reply>,
    ) -> Self {
        Self {
            context,
            requests: Some(requests),
            sender,
            outbox: VecDeque::new(),
            watches: BTreeMap::new(),
            next_id: 0,
            ready: ReadyQueue::default(),
            progress: ProgressRequest::None,
            delivered: Revision::ZERO,
        }
    }

    /// Runs until the client has gone or the server stops.
    pub(super) async fn run(mut self) {
        if let Err(status) = self.serve_requests().await {
            // The client may be gone by now.
            let _ = self.sender.send(Err(status)).await;
        }
    }

    async fn serve_requests(&mut self) -> Result<(), Status> {
        let mut stopped = std::pin::pin!(self.context.stopped());
        let mut ticks = ticks(&self.context);
        loop {
            self.answer_progress();
            let flushed = self.outbox.is_empty();
            let has_room = self.outbox.len() < REPLIES_QUEUED_MAX;
            tokio::select! {
                () = &mut stopped => return Err(STOPPED.into()),
                () = self.sender.closed() => return Ok(()),
                () = flush_outbox_head(&mut self.outbox, &self.sender), if !flushed => {}
                request = next_request(&mut self.requests), if has_room => self.handle(request?),
                // Events are fetched only when they can be sent: what is not fetched
                // costs no memory here.
                id = self.ready.next(), if flushed => {
                    self.poll_watch(id)?;
                    if self.outbox.is_empty() {
                        // A watch that looks through a long history for its first
                        // event must not keep a thread to itself.
                        yield_now().await;
                    }
                }
                () = self.progress.store_progress() => {}
                _ = ticks.tick() => self.notify_idle_watches(),
            }
        }
    }

    fn handle(&mut self, request: Option<WatchRequest>) {
        match request.map(|request| request.request_union) {
            // The watches go on until the client closes the stream altogether.
            None => self.requests = None,
            Some(Some(RequestUnion::CreateRequest(create))) => self.create(&create),
            Some(Some(RequestUnion::CancelRequest(cancel))) => self.cancel(cancel.watch_id),
            Some(Some(RequestUnion::ProgressRequest(_))) => self.request_progress(),
            Some(None) => tracing::debug!("watch request has no known request type"),
        }
    }

    fn create(&mut self, request: &WatchCreateRequest) {
        let now = self.context.store.snapshot().revision();
        match self.validate_create(request, now) {
            Ok(id) => {
                self.outbox.push_back(WatchResponse {
                    header: self.context.header(now),
                    watch_id: id,
                    created: true,
                    ..WatchResponse::default()
                });
                self.open(id, request, now);
            }
            Err(reason) => self.outbox.push_back(WatchResponse {
                header: self.context.header(now),
                watch_id: NO_WATCH_ID,
                created: true,
                canceled: true,
                cancel_reason: reason.into(),
                ..WatchResponse::default()
            }),
        }
    }

    /// Which id the watch gets, or why there will be none.
    fn validate_create(
        &mut self,
        request: &WatchCreateRequest,
        now: Revision,
    ) -> Result<i64, &'static str> {
        if start(request, now).is_none() {
            return Err(COMPACTED.text);
        }
        let end = &request.range_end[..];
        let bounded = !end.is_empty() && end != [0];
        if bounded && first_key(request) >= end {
            return Err(EMPTY_RANGE);
        }
        if self.watches.len() >= self.context.options.limits.watches_per_stream_max {
            return Err(TOO_MANY_REQUESTS.text);
        }
        if request.watch_id != AUTO_WATCH_ID {
            let taken = self.watches.contains_key(&request.watch_id);
            return if taken {
                Err(DUPLICATE_ID)
            } else {
                Ok(request.watch_id)
            };
        }
        while self.watches.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        Ok(self.next_id - 1)
    }

    fn open(&mut self, id: i64, request: &WatchCreateRequest, now: Revision) {
        let start = start(request, now).expect("an admitted watch has a start");
        let spec = WatchSpec {
            range: key_range(first_key(request), &request.range_end),
            from: WatchFrom::Revision(start),
        };
        let watch = match self.context.store.watch(spec) {
            Ok(watch) => watch,
            Err(error) => return self.end(id, error),
        };
        let bell = self.ready.waker(id);
        // It may have something already, and must be asked once to ring by itself.
        bell.notify();
        let watcher = SessionWatch {
            id,
            watch,
            waker: bell,
            start,
            filter: EventFilter::from_request(request),
            fragment: request.fragment,
            notify: if request.progress_notify {
                ProgressNotify::AtNextTick
            } else {
                ProgressNotify::Never
            },
            delivered: Revision::ZERO,
        };
        self.watches.insert(id, watcher);
    }

    fn cancel(&mut self, id: i64) {
        if self.watches.remove(&id).is_some() {
            self.outbox.push_back(WatchResponse {
                header: self.context.header_now(),
                watch_id: id,
                canceled: true,
                ..WatchResponse::default()
            });
        }
    }

    /// Tells a client that the store ended its watch.
    fn end(&mut self, id: i64, error: WatchError) {
        let compact_revision = match error {
            WatchError::Compacted { oldest } => signed(oldest),
            _ => 0,
        };
        self.outbox.push_back(WatchResponse {
            header: self.context.header_without_revision(),
            watch_id: id,
            canceled: true,
            compact_revision,
            ..WatchResponse::default()
        });
    }

    /// Lets one watch deliver what it has.
    fn poll_watch(&mut self, id: i64) -> Result<(), Status> {
        let Some(watcher) = self.watches.get_mut(&id) else {
            // Cancelled after it rang.
            return Ok(());
        };
        match watcher.poll() {
            Poll::Pending => {}
            Poll::Ready(Ok(batch)) => {
                // There may be more; the others come first.
                watcher.waker.notify();
                self.deliver(id, &batch);
            }
            Poll::Ready(Err(WatchError::Stopped)) => return Err(STOPPED.into()),
            Poll::Ready(Err(error)) => {
                self.watches.remove(&id);
                self.end(id, error);
            }
        }
        Ok(())
    }

    fn deliver(&mut self, id: i64, batch: &WatchBatch) {
        let Some(watcher) = self.watches.get_mut(&id) else {
            return;
        };
        for chunk in chunks(batch, watcher.filter) {
            watcher.delivered = chunk.through;
            self.delivered = self.delivered.max(chunk.through);
            watcher.notify.event();
            let response = WatchResponse {
                // Not newer than its events: a client resumes behind it.
                header: self.context.header(chunk.through),
                watch_id: id,
                events: chunk.events,
                ..WatchResponse::default()
            };
            if watcher.fragment {
                let bytes_max = self.context.options.limits.fragment_bytes_max;
                self.outbox.extend(fragments(response, bytes_max));
            } else {
                self.outbox.push_back(response);
            }
        }
    }

    fn notify_idle_watches(&mut self) {
        for watcher in self.watches.values_mut() {
            if !watcher.notify.tick() {
                continue;
            }
            // A watch that is behind will say so by its events.
            let told = watcher.through().map(|through| WatchResponse {
                header: self.context.header(through),
                watch_id: watcher.id,
                ..WatchResponse::default()
            });
            self.outbox.extend(told);
        }
    }

    fn request_progress(&mut self) {
        // Requests that are not answered yet are answered together.
        self.progress = ProgressRequest::Pending(self.context.store.snapshot().revision());
    }

    /// Answers a request for progress as soon as that is true: everything up to the
    /// revision it names has been delivered, on all watches of the stream.
    fn answer_progress(&mut self) {
        let ProgressRequest::Pending(asked) = self.progress else {
            return;
        };
        if self.watches.is_empty() {
            self.progress = ProgressRequest::None;
            return;
        }
        if !self.ready.is_empty() {
            return;
        }
        // Never behind what was delivered: clients resume from what we say here.
        let needed = asked.max(self.delivered);
        match self.through() {
            Some(through) if through >= needed => {
                self.progress = ProgressRequest::None;
                self.outbox.push_back(WatchResponse {
                    header: self.context.header(through),
                    watch_id: NO_WATCH_ID,
                    ..WatchResponse::default()
                });
            }
            Some(_) => self.wait_for_store(needed),
            // A watch that began at the newest revision takes it for a future one until the
            // store has told its watches of it, and no bell rings for it.
            None if self.is_ahead_of_store(needed) => self.wait_for_store(needed),
            // A watch got something just now, and its bell is about to ring. Or it
            // waits for a future revision: then there is nothing true to say.
            None => {}
        }
    }

    fn wait_for_store(&mut self, needed: Revision) {
        let store = self.context.store.clone();
        let told = async move { store.wait_dispatched(needed).await };
        self.progress = ProgressRequest::WaitingForStore(needed, told.boxed());
    }

    /// Whether the store has yet to tell its watches of what was written up to `needed`.
    fn is_ahead_of_store(&self, needed: Revision) -> bool {
        let mut through = self
            .watches
            .values()
            .filter_map(|it| it.watch.progress_revision());
        through.any(|through| through < needed)
    }

    /// How far all watches are; `None` if one is behind.
    fn through(&self) -> Option<Revision> {
        let mut all = self.watches.values().map(SessionWatch::through);
        all.try_fold(Revision::new(u64::MAX), |least, through| {
            Some(least.min(through?))
        })
    }
}

impl SessionWatch {
    fn poll(&mut self) -> Poll<Result<WatchBatch, WatchError>> {
        self.waker.reset();
        let waker = Waker::from(Arc::clone(&self.waker));
        self.watch.poll_next(&mut task::Context::from_waker(&waker))
    }

    /// Everything up to here has been delivered.
    fn through(&self) -> Option<Revision> {
        let through = self.watch.progress_revision()?.max(self.delivered);
        // A client that waits for a future revision would resume too early.
        (self.start <= through.next()).then_some(through)
    }
}

impl ProgressNotify {
    fn event(&mut self) {
        if *self != Self::Never {
            *self = Self::AfterNextTick;
        }
    }

    /// Whether to say something now.
    fn tick(&mut self) -> bool {
        match self {
            Self::Never => false,
            Self::AtNextTick => true,
            Self::AfterNextTick => {
                *self = Self::AtNextTick;
                false
            }
        }
    }
}

impl ProgressRequest {
    /// Waits until it is worth looking again.
    async fn store_progress(&mut self) {
        match self {
            Self::WaitingForStore(needed, told) => {
                told.await;
                *self = Self::Pending(*needed);
            }
            _ => std::future::pending().await,
        }
    }
}

/// The first revision a watch gets; `None` if it asks for a negative one.
///
/// "From now" is what comes after the revision that the created reply names.
fn start(request: &WatchCreateRequest, now: Revision) -> Option<Revision> {
    match request.start_revision {
        0 => Some(now.next()),
        number => revision(number),
    }
}

/// No key means the smallest one.
fn first_key(request: &WatchCreateRequest) -> &[u8] {
    if request.key.is_empty() {
        &[0]
    } else {
        &request.key
    }
}

/// Dropping the future loses nothing: a response leaves the outbox when there is
/// room for it.
async fn flush_outbox_head(outbox: &mut VecDeque<WatchResponse>, sender: &mpsc::Sender<Reply>) {
    if let Ok(room) = sender.reserve().await
        && let Some(response) = outbox.pop_front()
    {
        room.send(Ok(response));
    }
}

async fn next_request(
    requests: &mut Option<Streaming<WatchRequest>>,
) -> Result<Option<WatchRequest>, Status> {
    match requests {
        Some(requests) => requests.message().await,
        None => std::future::pending().await,
    }
}

fn ticks(context: &FacadeContext) -> Interval {
    let period = context.options.progress_notify_interval;
    let mut ticks = interval_at(Instant::now() + period, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watch_event_suppresses_one_progress_notification() {
        let mut notify = ProgressNotify::AtNextTick;
        assert!(notify.tick());
        notify.event();
        notify.event();
        assert!(!notify.tick());
        assert!(notify.tick());

        let mut never = ProgressNotify::Never;
        never.event();
        assert!(!never.tick());
    }
}
