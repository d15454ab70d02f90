//! Offloads the processing of large audit documents to blocking threads.

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};

/// Documents up to this size are processed inline; they take well under a millisecond.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// Few at a time: each takes a processor, and several times the memory of its document.
static OFFLOAD_PERMITS: Semaphore = Semaphore::const_new(2);

/// A value that may be in use by a blocking thread. It is processed to the end even if the task
/// that awaits it is dropped.
#[derive(Debug, Default)]
pub(crate) enum Offload<T> {
    Ready(Box<T>),
    Running(JoinHandle<Option<Box<T>>>),
    #[default]
    Empty,
}

impl<T> From<Option<Box<T>>> for Offload<T> {
    fn from(content: Option<Box<T>>) -> Self {
        content.map_or(Self::Empty, Self::Ready)
    }
}

impl<T: Send + 'static> Offload<T> {
    /// The value, unless a thread is processing it.
    pub(crate) fn ready_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Ready(content) => Some(content),
            Self::Running(_) | Self::Empty => None,
        }
    }

    /// Takes the value out when no thread is processing it any more; `None` if the processing
    /// panicked.
    pub(crate) async fn take(&mut self) -> Option<Box<T>> {
        if let Self::Running(working) = self {
            *self = working.await.ok().flatten().into();
        }
        match std::mem::take(self) {
            Self::Ready(content) => Some(content),
            Self::Running(_) | Self::Empty => None,
        }
    }

    /// Processes a document of `bytes` bytes; on a blocking thread if it is long.
    pub(super) async fn run(&mut self, bytes: usize, work: impl FnOnce(&mut T) + Send + 'static) {
        let Some(mut content) = self.take().await else {
            return;
        };
        if bytes <= INLINE_BYTES_MAX {
            work(&mut content);
            *self = Self::Ready(content);
            return;
        }
        // Spawned here: one document, until a permit is free.
        *self = Self::Running(tokio::spawn(async move {
            let turn = OFFLOAD_PERMITS.acquire().await;
            let worked = spawn_blocking(move || {
                let _turn = turn;
                work(&mut content);
                content
            });
            let worked = worked.await.inspect_err(|error| {
                tracing::error!(%error, "cannot record audit event");
            });
            worked.ok()
        }));
        *self = self.take().await.into();
    }
}

/// Runs `work`: inline if the document is short, else on a blocking thread without waiting for it.
pub(super) fn run_detached(bytes: usize, work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) if bytes > INLINE_BYTES_MAX => drop(runtime.spawn_blocking(work)),
        _ => work(),
    }
}
