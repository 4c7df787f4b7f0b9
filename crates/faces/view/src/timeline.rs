//! When calls ran, and beside which others.

use haft_agent::log::StageMicros;

use crate::{
    clock::millis,
    session::{LoggedCall, LoggedSession},
};

/// A call in time. Microseconds since the first of them.
pub(crate) struct CallSpan<'a> {
    pub(crate) call: &'a LoggedCall,
    pub(crate) start: i64,
    pub(crate) length: i64,
    /// Calls in one lane do not overlap.
    pub(crate) lane: usize,
    pub(crate) stages: StageMicros,
}

/// The stages of a call, in order, with their names.
pub(crate) fn stages(micros: &StageMicros) -> [(&'static str, u64); 5] {
    [
        ("queue", micros.queue),
        ("hooks", micros.hooks),
        ("permission", micros.permission),
        ("run", micros.run),
        ("after", micros.after),
    ]
}

/// The calls whose times the log has, with lanes.
pub(crate) fn spans(session: &LoggedSession) -> Vec<CallSpan<'_>> {
    let mut spans: Vec<CallSpan<'_>> = session
        .calls()
        .filter_map(|call| {
            let line = call.line.as_ref()?;
            let length: u64 = stages(&line.micros).iter().fold(0_u64, |sum, (_, it)| sum.saturating_add(*it));
            let length = i64::try_from(length).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
            let end = millis(&line.timestamp)?.checked_mul(1000)?;
            Some(CallSpan { call, start: end - length, length, lane: 0, stages: line.micros })
        })
        .collect();
    spans.sort_by_key(|it| it.start);
    let first = spans.first().map_or(0, |it| it.start);
    let mut ends: Vec<i64> = Vec::new();
    for span in &mut spans {
        span.start -= first;
        let free = ends.iter().position(|end| *end <= span.start);
        span.lane = free.unwrap_or(ends.len());
        match ends.get_mut(span.lane) {
            Some(end) => *end = span.start + span.length,
            None => ends.push(span.start + span.length),
        }
    }
    spans
}
