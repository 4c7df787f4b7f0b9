//! Counts memory allocations: a measure that does not depend on the machine's speed or load.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static ASKED: Cell<Allocated> = const { Cell::new(Allocated { times: 0, bytes: 0 }) };
}

/// Allocations of one thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Allocated {
    /// Number of allocations.
    pub times: u64,
    /// Bytes allocated, including those freed again.
    pub bytes: u64,
}

impl Allocated {
    /// Runs `work` and returns the allocations of this thread. Counts only if the global allocator is
    /// [`CountingAllocator`].
    pub fn during<T>(work: impl FnOnce() -> T) -> (Self, T) {
        let before = ASKED.get();
        let result = work();
        let after = ASKED.get();
        (Self { times: after.times - before.times, bytes: after.bytes - before.bytes }, result)
    }

    /// Panics if the counts exceed these expected ones by more than a tenth.
    #[track_caller]
    pub fn check(self, what: &str, times: u64, bytes: u64) {
        for (unit, found, was) in [("allocations", self.times, times), ("bytes", self.bytes, bytes)] {
            assert!(found <= was + was / 10, "{what}: {found} {unit}, it was {was}");
        }
    }
}

/// The system allocator with counters per thread.
#[derive(Debug)]
pub struct CountingAllocator;

fn count(bytes: usize) {
    // Thread-local storage is not accessible while a thread exits.
    let _ = ASKED.try_with(|asked| {
        let Allocated { times, bytes: before } = asked.get();
        asked.set(Allocated { times: times + 1, bytes: before + bytes as u64 });
    });
}

#[expect(unsafe_code, reason = "an allocator is unsafe by nature; this one only counts")]
// SAFETY: forwards everything to the system allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(at, layout, size) }
    }
}
