//! A crash simulator for anything that keeps files in a directory.
//!
//! A [`Recorder`] notes what the process does to a directory: every write, every
//! fsync, every rename, in order, with [marks](Recorder::mark) that the program
//! under test sets in between ("transaction 7 is acknowledged"). From the
//! resulting [`Log`] follows, for every point at which power could have failed,
//! what the disk may then hold: an [`Image`], chosen by a [`Policy`] and a seed.
//! The test writes the image somewhere, opens the program on it, and checks that
//! everything marked is there and nothing is half there.
//!
//! ```
//! use std::io::Write;
//! use optik_crash::{Policy, Recorder, scratch_dir};
//!
//! # fn main() -> std::io::Result<()> {
//! let dir = scratch_dir()?;
//! let recorder = Recorder::start(dir.path())?;
//! let mut file = std::fs::File::create(dir.path().join("journal"))?;
//! file.write_all(b"transaction 1")?;
//! file.sync_all()?;
//! recorder.mark(1);
//! drop(file);
//! let log = recorder.finish();
//!
//! let image_dir = scratch_dir()?;
//! for point in log.points() {
//!     for policy in Policy::ALL {
//!         log.image(point, policy, 42).write_to(image_dir.path())?;
//!         let found = std::fs::read(image_dir.path().join("journal"));
//!         if log.marks(point).any(|mark| mark == 1) {
//!             assert_eq!(found?, b"transaction 1");
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Recorder::faults`] makes calls fail instead: a full disk, an fsync that
//! returns `EIO`.
//!
//! How this is done, and to which calls: see `interpose.rs`. What counts as
//! durable: see `replay.rs`. Linux with glibc only, and for tests only: linking
//! this crate replaces libc's file functions in the whole executable.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

mod content;
mod fault;
mod image;
mod interpose;
mod log;
mod recorder;
mod replay;
mod rng;
mod scratch;
mod session;
mod sys;

// Linked for its feature alone; see Cargo.toml.
use rustix as _;

pub use fault::{Call, Fault};
pub use image::{Image, Policy};
pub use log::{CrashPoint, Durability, Inode, Log, Op};
pub use recorder::{FaultInjector, Marker, Recorder};
pub use scratch::scratch_dir;
