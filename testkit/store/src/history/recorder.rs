use super::{
    InitialState, OperationHistory, OperationOutcome, OperationRequest, RecordedOperation,
    WatchRecording,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes down what concurrent clients do.
#[derive(Debug, Default)]
pub struct HistoryRecorder {
    /// Moves on with every beginning and every end. An operation that is seen to end
    /// before another begins has the smaller numbers; that is all that it says.
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
