//! One gRPC watch stream: reads requests, polls its watches in turn, sends responses.

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

/// The watch id of responses that are not about one watch: rejections, and progress of the whole
/// stream.
const NO_WATCH_ID: i64 = -1;
/// The watch id in a request that leaves the choice of the id to the server.
const AUTO_WATCH_ID: i64 = 0;
/// While this many responses wait to be sent, no more requests are read.
const REPLIES_QUEUED_MAX: usize = 64;

const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";

type Reply = Result<WatchResponse, Status>;

pub(super) struct WatchSession {
    context: FacadeContext,
    /// `None` once the client has closed its side of the stream.
    requests: Option<Streaming<WatchRequest>>,
    sender: mpsc::Sender<Reply>,
    /// Responses in order. Events in here count as delivered.
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
    /// The newest revision of which this watch got an event.
    delivered: Revision,
}

/// The state of a watch's periodic progress notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressNotify {
    Never,
    /// Send one at the next tick, unless an event comes first.
    AtNextTick,
    /// An event was sent: the next tick sends nothing.
    AfterNextTick,
}

/// The state of a client's progress request for the whole stream.
enum ProgressRequest {
    None,
    /// To be answered when every watch has reached this revision.
    Pending(Revision),
    /// The store has not published this revision to its watches; the future completes when it has.
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

    /// Runs until the client disconnects or the server stops.
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
                // Events are fetched only when they can be sent, so events that are not fetched use
                // no memory here.
                id = self.ready.next(), if flushed => {
                    self.poll_watch(id)?;
                    if self.outbox.is_empty() {
                        // A watch that reads a long history for its first event must not occupy a
                        // thread.
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
            // The watches continue until the client closes the stream altogether.
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

    /// The id of the new watch, or the reason to reject it.
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
        // It may have events already, and must be polled once to register its waker.
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

    /// Sends the cancellation of a watch that the store ended.
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

    /// Polls one watch and sends its events.
    fn poll_watch(&mut self, id: i64) -> Result<(), Status> {
        let Some(watcher) = self.watches.get_mut(&id) else {
            // The watch was cancelled after it was woken.
            return Ok(());
        };
        match watcher.poll() {
            Poll::Pending => {}
            Poll::Ready(Ok(batch)) => {
                // There may be more events; the other watches are polled first.
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
                // Not newer than the events: a client resumes after the revision of the header.
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
            // A watch that is behind reports its progress with its events.
            let told = watcher.through().map(|through| WatchResponse {
                header: self.context.header(through),
                watch_id: watcher.id,
                ..WatchResponse::default()
            });
            self.outbox.extend(told);
        }
    }

    fn request_progress(&mut self) {
        // Pending progress requests are answered together.
        self.progress = ProgressRequest::Pending(self.context.store.snapshot().revision());
    }

    /// Answers a progress request once every event up to the reported revision has been delivered
    /// on all watches of the stream.
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
        // Never older than a delivered event: clients resume from the reported revision.
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
            // A watch created at the newest revision looks like one on a future revision until the
            // store has published that revision to its watches, and it is not woken by that.
            None if self.is_ahead_of_store(needed) => self.wait_for_store(needed),
            // Either a watch has an event and is about to be woken, or a watch waits for a future
            // revision: then no progress can be reported.
            None => {}
        }
    }

    fn wait_for_store(&mut self, needed: Revision) {
        let store = self.context.store.clone();
        let told = async move { store.wait_dispatched(needed).await };
        self.progress = ProgressRequest::WaitingForStore(needed, told.boxed());
    }

    /// Whether the store has not yet published all revisions up to `needed` to its watches.
    fn is_ahead_of_store(&self, needed: Revision) -> bool {
        let mut through = self
            .watches
            .values()
            .filter_map(|it| it.watch.progress_revision());
        through.any(|through| through < needed)
    }

    /// The revision up to which all watches have delivered; `None` if a watch is behind.
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

    /// The revision up to which every event has been delivered; `None` if the watch is behind.
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

    /// Whether to send a progress notification at this tick.
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
    /// Completes when a pending progress request should be checked again.
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

/// The first revision of a watch; `None` if the request names a negative one.
///
/// "From now" means after the revision in the header of the created response.
fn start(request: &WatchCreateRequest, now: Revision) -> Option<Revision> {
    match request.start_revision {
        0 => Some(now.next()),
        number => revision(number),
    }
}

/// The first key of the range; an empty key means the smallest one.
fn first_key(request: &WatchCreateRequest) -> &[u8] {
    if request.key.is_empty() {
        &[0]
    } else {
        &request.key
    }
}

/// Sends the first response of the outbox. Cancellation-safe: a response leaves the outbox only
/// when the channel has room.
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
