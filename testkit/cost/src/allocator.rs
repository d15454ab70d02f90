//! A counting allocator: the system's allocator with counters for each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the allocations of the current thread.
pub struct CountingAllocator;

#[derive(Clone, Copy)]
struct AllocationCounters {
    allocated: u64,
    /// Negative if the thread freed memory that other threads, or earlier measurements, had
    /// allocated.
    live: i64,
    peak: i64,
}

const NOTHING: AllocationCounters = AllocationCounters {
    allocated: 0,
    live: 0,
    peak: 0,
};

thread_local! {
    // Without a destructor, so that it is there as long as anything is allocated.
    static TALLY: Cell<AllocationCounters> = const { Cell::new(NOTHING) };
}

pub(crate) fn begin() {
    TALLY.set(NOTHING);
}

/// Bytes allocated since the start, and the peak.
pub(crate) fn counted() -> (u64, u64) {
    let tally = TALLY.get();
    (tally.allocated, u64::try_from(tally.peak).unwrap_or(0))
}

fn count(allocated: usize, freed: usize) {
    let mut tally = TALLY.get();
    tally.allocated += allocated as u64;
    tally.live += allocated as i64 - freed as i64;
    tally.peak = tally.peak.max(tally.live);
    TALLY.set(tally);
}

// SAFETY: everything is done by the allocator of the system, with the arguments that came.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller keeps the promises of `GlobalAlloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }
}
