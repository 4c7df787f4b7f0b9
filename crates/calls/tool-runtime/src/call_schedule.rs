//! Decides when each call may start and when its context changes take effect.
//!
//! Pure: no clock, no tasks, no I/O. The executor drives it.

use std::ops::Range;

/// How a call may overlap with others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ScheduleKind {
    /// May overlap with neighbouring non-exclusive calls, and starts while the message is still
    /// streaming. Only for read-only calls, which leave no trace if the stream breaks.
    Early,
    /// May overlap with neighbouring non-exclusive calls, but starts only once the message is complete.
    Shared,
    /// Runs alone once the message is complete.
    Exclusive,
}

impl ScheduleKind {
    fn overlaps(self) -> bool {
        self != Self::Exclusive
    }
}

/// A maximal run of calls that may overlap, or one call that runs alone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Batch {
    /// Whether the calls may overlap.
    pub concurrent: bool,
    /// Range of positions in emission order.
    pub calls: Range<usize>,
}

/// Splits the complete list of calls of a message into batches, in emission order.
pub fn partition(kinds: &[ScheduleKind]) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for (idx, kind) in kinds.iter().enumerate() {
        match batches.last_mut() {
            Some(last) if kind.overlaps() && last.concurrent => last.calls.end = idx + 1,
            _ => batches.push(Batch { concurrent: kind.overlaps(), calls: idx..idx + 1 }),
        }
    }
    batches
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ScheduledState {
    Waiting,
    Running,
    Finished,
}

/// Applies the rule of [`partition`] to calls that arrive one by one.
///
/// Calls start in emission order. Context changes take effect per batch, in order, once the whole batch
/// has finished. So what a call sees depends on what the model wrote, never on which neighbour finished
/// first.
#[derive(Debug)]
pub struct Schedule {
    calls: Vec<(ScheduleKind, ScheduledState)>,
    committed: usize,
    closed: bool,
    limit: usize,
}

impl Schedule {
    /// Creates an empty schedule. At most `limit` calls overlap; 0 counts as 1.
    pub fn new(limit: usize) -> Self {
        Self { calls: Vec::new(), committed: 0, closed: false, limit: limit.max(1) }
    }

    /// Adds the next call and returns its position.
    pub fn push(&mut self, kind: ScheduleKind) -> usize {
        self.calls.push((kind, ScheduledState::Waiting));
        self.calls.len() - 1
    }

    /// Declares the message complete; no call may be pushed afterwards.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Marks the next call that may start now as running and returns its position; `None` if every call
    /// that waits must wait longer.
    pub fn start_next(&mut self) -> Option<usize> {
        let idx =
            (self.committed..self.calls.len()).find(|&idx| self.calls[idx].1 == ScheduledState::Waiting)?;
        let open = &self.calls[self.committed..idx];
        let running = open.iter().filter(|(_, state)| *state == ScheduledState::Running).count();
        let neighbours_overlap = open.iter().all(|(kind, _)| kind.overlaps());
        let may_start = match self.calls[idx].0 {
            ScheduleKind::Early => neighbours_overlap && running < self.limit,
            ScheduleKind::Shared => self.closed && neighbours_overlap && running < self.limit,
            ScheduleKind::Exclusive => self.closed && open.is_empty(),
        };
        may_start.then(|| {
            self.calls[idx].1 = ScheduledState::Running;
            idx
        })
    }

    /// Marks the call at `idx` as finished.
    pub fn finish(&mut self, idx: usize) {
        self.calls[idx].1 = ScheduledState::Finished;
    }

    /// Marks every call that has not started as finished, closes the schedule, and returns the positions
    /// of these calls. Used when the turn is interrupted.
    pub fn abandon(&mut self) -> Vec<usize> {
        self.closed = true;
        let waiting: Vec<usize> =
            (0..self.calls.len()).filter(|&idx| self.calls[idx].1 == ScheduledState::Waiting).collect();
        for &idx in &waiting {
            self.calls[idx].1 = ScheduledState::Finished;
        }
        waiting
    }

    /// Returns the next batch if all its calls have finished and no call can join it any more; its
    /// context changes take effect now. Each batch is returned once.
    pub fn commit_next(&mut self) -> Option<Range<usize>> {
        let open = &self.calls[self.committed..];
        let overlaps = open.first()?.0.overlaps();
        let len = if overlaps { open.iter().take_while(|(kind, _)| kind.overlaps()).count() } else { 1 };
        let may_grow = overlaps && len == open.len() && !self.closed;
        let done = open[..len].iter().all(|(_, state)| *state == ScheduledState::Finished);
        if may_grow || !done {
            return None;
        }
        let range = self.committed..self.committed + len;
        self.committed = range.end;
        Some(range)
    }
}
