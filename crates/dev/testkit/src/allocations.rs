//! How much memory a piece of code asks for, counted: the same number on a fast
//! and on a busy machine.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

thread_local! {
    static ASKED: Cell<Allocated> = const { Cell::new(Allocated { times: 0, bytes: 0 }) };
}

/// What one thread asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Allocated {
    /// How often.
    pub times: u64,
    /// How many bytes, also those that were given back.
    pub bytes: u64,
}

impl Allocated {
    /// What this thread asks for while `work` runs. Nothing is counted unless
    /// the program's allocator is [`CountingAllocator`].
    pub fn during<T>(work: impl FnOnce() -> T) -> (Self, T) {
        let before = ASKED.get();
        let result = work();
        let after = ASKED.get();
        (Self { times: after.times - before.times, bytes: after.bytes - before.bytes }, result)
    }

    /// Panics if it is more than a tenth above what it was.
    #[track_caller]
    pub fn check(self, what: &str, times: u64, bytes: u64) {
        for (unit, found, was) in [("allocations", self.times, times), ("bytes", self.bytes, bytes)] {
            assert!(found <= was + was / 10, "{what}: {found} {unit}, it was {was}");
        }
    }
}

/// The system's allocator, with a count for each thread.
#[derive(Debug)]
pub struct CountingAllocator;

fn count(bytes: usize) {
    // A thread that is ending has no count any more.
    let _ = ASKED.try_with(|asked| {
        let Allocated { times, bytes: before } = asked.get();
        asked.set(Allocated { times: times + 1, bytes: before + bytes as u64 });
    });
}

#[expect(unsafe_code, reason = "an allocator is unsafe by nature; this one only counts")]
// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }
}
