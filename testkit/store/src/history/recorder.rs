use super::{History, Operation, Outcome, Request, Session, Start};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes down what concurrent clients do.
#[derive(Debug, Default)]
pub struct Recorder {
    /// Moves on with every beginning and every end. An operation that is seen to end
    /// before another begins has the smaller numbers; that is all that it says.
    clock: AtomicU64,
    history: Mutex<History>,
}

/// When an operation began.
#[derive(Clone, Copy, Debug)]
pub struct Begun(u64);

impl Recorder {
    #[must_use]
    pub fn new(start: Start) -> Self {
        Self {
            clock: AtomicU64::default(),
            history: Mutex::new(History {
                start,
                ..History::default()
            }),
        }
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    /// Call this before the request is sent.
    pub fn begin(&self) -> Begun {
        Begun(self.now())
    }

    /// Call this after the answer has come.
    ///
    /// # Panics
    /// If another recording panicked.
    pub fn end(&self, client: u32, begun: Begun, request: Request, outcome: Outcome) {
        let operation = Operation {
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
    pub fn watched(&self, session: Session) {
        let mut history = self.history.lock().expect("no recording panics");
        history.sessions.push(session);
    }

    /// What has been recorded so far.
    ///
    /// # Panics
    /// If a recording panicked.
    #[must_use]
    pub fn history(&self) -> History {
        self.history.lock().expect("no recording panics").clone()
    }
}
