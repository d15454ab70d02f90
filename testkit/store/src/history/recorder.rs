use super::{
    InitialState, OperationHistory, OperationOutcome, OperationRequest, RecordedOperation,
    WatchRecording,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Records the operations of concurrent clients.
#[derive(Debug, Default)]
pub struct HistoryRecorder {
    /// A logical clock that advances with every start and every end of an operation. An operation
    /// that ended before another began has smaller numbers; the clock says nothing else.
    clock: AtomicU64,
    history: Mutex<OperationHistory>,
}

/// When an operation began.
#[derive(Clone, Copy, Debug)]
pub struct OperationStart(u64);

impl HistoryRecorder {
    #[must_use]
    pub fn new(start: InitialState) -> Self {
        Self {
            clock: AtomicU64::default(),
            history: Mutex::new(OperationHistory {
                start,
                ..OperationHistory::default()
            }),
        }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Call this before the request is sent.
    pub fn begin(&self) -> OperationStart {
        OperationStart(self.now())
    }

    /// Call this after the answer has come.
    ///
    /// # Panics
    /// If another recording panicked.
    pub fn end(
        &self,
        client: u32,
        begun: OperationStart,
        request: OperationRequest,
        outcome: OperationOutcome,
    ) {
        let operation = RecordedOperation {
            client,
            begun: begun.0,
            ended: self.now(),
            request,
            outcome,
        };
        let mut history = self.history.lock().expect("no recording panics");
        history.operations.push(operation);
    }

    /// # Panics
    /// If another recording panicked.
    pub fn add_watch(&self, session: WatchRecording) {
        let mut history = self.history.lock().expect("no recording panics");
        history.sessions.push(session);
    }

    /// What has been recorded so far.
    ///
    /// # Panics
    /// If a recording panicked.
    #[must_use]
    pub fn history(&self) -> OperationHistory {
        self.history.lock().expect("no recording panics").clone()
    }
}
