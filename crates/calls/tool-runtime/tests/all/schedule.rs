//! The scheduling rule, without tasks or clocks.
#![allow(missing_docs, reason = "test code")]

use haft_tool_runtime::{Batch, Schedule, ScheduleKind, partition};
use proptest::prelude::*;

fn kinds(text: &str) -> Vec<ScheduleKind> {
    let kind = |it| match it {
        'r' => ScheduleKind::Early,
        's' => ScheduleKind::Shared,
        _ => ScheduleKind::Exclusive,
    };
    text.chars().map(kind).collect()
}

#[test]
fn partition_groups_neighbours() {
    for (text, want) in [
        ("rrxr", "c0..2 a2..3 c3..4"),
        ("", ""),
        ("xx", "a0..1 a1..2"),
        ("rsr", "c0..3"),
        ("xrs", "a0..1 c1..3"),
    ] {
        let show = |batch: &Batch| format!("{}{:?}", if batch.concurrent { 'c' } else { 'a' }, batch.calls);
        let got: Vec<String> = partition(&kinds(text)).iter().map(show).collect();
        assert_eq!(got.join(" "), want, "{text}");
    }
}

/// One simulated run: `choices` decides which calls finish between two arrivals; the rest finish at the
/// end.
struct Run<'a> {
    kinds: &'a [ScheduleKind],
    limit: usize,
    schedule: Schedule,
    running: Vec<usize>,
    started: Vec<usize>,
    committed: Vec<Batch>,
}

impl<'a> Run<'a> {
    fn drive(kinds: &'a [ScheduleKind], limit: usize, choices: &[u8]) -> Self {
        let mut run = Self {
            kinds,
            limit,
            schedule: Schedule::new(limit),
            running: Vec::new(),
            started: Vec::new(),
            committed: Vec::new(),
        };
        let mut choices = choices.iter().copied().cycle();
        let mut choice = move || usize::from(choices.next().unwrap_or(0));
        for &kind in kinds {
            run.schedule.push(kind);
            run.advance(/*closed*/ false);
            for _ in 0..(choice() % 3).min(run.running.len()) {
                run.finish_one(choice());
                run.advance(/*closed*/ false);
            }
        }
        run.schedule.close();
        run.advance(/*closed*/ true);
        while !run.running.is_empty() {
            run.finish_one(choice());
            run.advance(/*closed*/ true);
        }
        run
    }

    fn finish_one(&mut self, choice: usize) {
        if !self.running.is_empty() {
            let idx = self.running.remove(choice % self.running.len());
            self.schedule.finish(idx);
        }
    }

    fn advance(&mut self, closed: bool) {
        loop {
            while let Some(idx) = self.schedule.start_next() {
                assert!(
                    closed || self.kinds[idx] == ScheduleKind::Early,
                    "only reads start while the message streams"
                );
                self.running.push(idx);
                self.started.push(idx);
                let alone = self.running.iter().any(|&idx| self.kinds[idx] == ScheduleKind::Exclusive);
                assert!(self.running.len() <= if alone { 1 } else { self.limit });
            }
            match self.schedule.commit_next() {
                Some(calls) => {
                    let concurrent = self.kinds[calls.start] != ScheduleKind::Exclusive;
                    self.committed.push(Batch { concurrent, calls });
                }
                None => return,
            }
        }
    }
}

proptest! {
    /// Whatever the order of completion: the same batches in the same order, and every call once.
    #[test]
    fn batches_do_not_depend_on_timing(text in "[rsx]{0,12}", limit in 1_usize..4, choices in prop::collection::vec(any::<u8>(), 1..20)) {
        let kinds = kinds(&text);
        let run = Run::drive(&kinds, limit, &choices);
        prop_assert_eq!(run.committed, partition(&kinds));
        prop_assert_eq!(run.started, (0..kinds.len()).collect::<Vec<_>>());
    }
}

#[test]
fn abandon_returns_calls_that_have_not_started() {
    let mut schedule = Schedule::new(10);
    for kind in kinds("rxr") {
        schedule.push(kind);
    }
    assert_eq!(schedule.start_next(), Some(0));
    assert_eq!(schedule.abandon(), [1, 2]);
    assert_eq!(schedule.start_next(), None);
}
