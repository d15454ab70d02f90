//! What would take too long where connections are served.

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, spawn_blocking};

/// Shorter documents are understood and written in well under a millisecond.
const INLINE_BYTES_MAX: usize = 32 * 1024;

/// Few at a time: each takes a processor, and several times the memory of its document.
static OFFLOAD_PERMITS: Semaphore = Semaphore::const_new(2);

/// Something that is worked on, perhaps by another thread. It comes back also if whoever
/// waited for it has been dropped.
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
    /// Unless it is away.
    pub(crate) fn ready_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Ready(content) => Some(content),
            Self::Running(_) | Self::Empty => None,
        }
    }

    /// When nobody works on it any more. If the work panicked, that was its end.
    pub(crate) async fn take(&mut self) -> Option<Box<T>> {
        if let Self::Running(working) = self {
            *self = working.await.ok().flatten().into();
        }
        match std::mem::take(self) {
            Self::Ready(content) => Some(content),
            Self::Running(_) | Self::Empty => None,
        }
    }

    /// Does something with a document of so many bytes, on another thread if that is long.
    pub(super) async fn run(&mut self, bytes: usize, work: impl FnOnce(&mut T) + Send + 'static) {
        let Some(mut content) = self.take().await else {
            return;
        };
        if bytes <= INLINE_BYTES_MAX {
            work(&mut content);
            *self = Self::Ready(content);
            return;
        }
        // Spawned here: one document, until its turn has come.
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

/// Does it, on another thread if it is long, and lets nobody wait for it.
pub(super) fn run_detached(bytes: usize, work: impl FnOnce() + Send + 'static) {
    match Handle::try_current() {
        Ok(runtime) if bytes > INLINE_BYTES_MAX => drop(runtime.spawn_blocking(work)),
        _ => work(),
    }
}
