//! The loop of the server's own controllers.
//!
//! A controller lists some key ranges of the store and watches them, turns what it sees
//! into keys of a queue, and reconciles the keys. What cannot be reconciled is retried
//! after a back-off of its own.
//!
//! ```text
//! Store ── ListWatch ──► Step::Resync, Step::Changes ──► controller ──► WorkQueue
//!                                                            ▲              │
//!                                                            └─ Step::Work ◄┘
//! ```
//!
//! [`ControlLoop`] is that loop, [`WorkQueue`] its queue, [`reconcile_on_change`] the
//! whole of a controller that reconciles everything at once.

mod backoff;
mod control_loop;
mod reconcile_on_change;
mod work_queue;

pub use backoff::BackoffOptions;
pub use control_loop::{ControlLoop, Step};
pub use reconcile_on_change::reconcile_on_change;
pub use work_queue::{Outcome, WorkQueue};
