use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Work queue for threads whose jobs create more jobs.
///
/// Last in, first out: recently listed directories are still in the kernel's cache, and the queue stays
/// as small as the tree is deep.
#[derive(Debug)]
pub(crate) struct WorkQueue<T> {
    state: Mutex<QueueState<T>>,
    wake: Condvar,
}

#[derive(Debug)]
struct QueueState<T> {
    jobs: Vec<T>,
    /// Workers that may still add jobs.
    busy: usize,
    waiting: usize,
    /// A worker panicked; the others must not wait for it.
    broken: bool,
}

impl<T> WorkQueue<T> {
    pub(crate) fn new(jobs: Vec<T>) -> Self {
        let state = QueueState { jobs, busy: 0, waiting: 0, broken: false };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds jobs and wakes waiting workers. Leaves `jobs` empty.
    pub(crate) fn push(&self, jobs: &mut Vec<T>) {
        if jobs.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.jobs.append(jobs);
        if 0 < state.waiting {
            self.wake.notify_all();
        }
    }

    /// Runs jobs until the queue is empty and no worker can add more.
    pub(crate) fn work(&self, mut run: impl FnMut(T)) {
        while let Some(job) = self.next() {
            let held = JobInHand(self);
            run(job);
            drop(held);
        }
    }

    /// Drops all queued jobs.
    pub(crate) fn clear(&self) {
        self.lock().jobs.clear();
    }

    fn next(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.broken {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                self.wake.notify_all();
                return None;
            }
            state.waiting += 1;
            state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }
}

/// Counts a running job, also if it panics.
struct JobInHand<'a, T>(&'a WorkQueue<T>);

impl<T> Drop for JobInHand<'_, T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        state.broken |= std::thread::panicking();
        if state.broken || (state.busy == 0 && state.jobs.is_empty()) {
            self.0.wake.notify_all();
        }
    }
}
