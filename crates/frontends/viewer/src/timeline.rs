//! Timing and concurrency of calls.

use haft_agent::log::StageMicros;

use crate::{log_index::LogIndex, row::IndexedCall};

/// Time span of a call, in microseconds since the first call.
pub(crate) struct CallSpan<'a> {
    pub(crate) call: &'a IndexedCall,
    pub(crate) start: i64,
    pub(crate) length: i64,
    /// Lane; calls in one lane do not overlap.
    pub(crate) lane: usize,
    pub(crate) stages: StageMicros,
}

/// Returns the stages of a call in order, with their names and durations.
pub(crate) fn stages(micros: &StageMicros) -> [(&'static str, u64); 5] {
    [
        ("queue", micros.queue),
        ("hooks", micros.hooks),
        ("permission", micros.permission),
        ("run", micros.run),
        ("after", micros.after),
    ]
}

/// Returns the spans of all calls with known times, assigned to lanes.
pub(crate) fn spans(index: &LogIndex) -> Vec<CallSpan<'_>> {
    let mut spans: Vec<CallSpan<'_>> = index.calls.iter().filter_map(span).collect();
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

fn span(call: &IndexedCall) -> Option<CallSpan<'_>> {
    let Some(line) = &call.line else {
        // Logs of other programs only have the timestamps of call and result.
        let (began, ended) = (call.began?.checked_mul(1000)?, call.ended?.checked_mul(1000)?);
        let length = ended.checked_sub(began)?.max(0);
        let run = u64::try_from(length).unwrap_or(0);
        let stages = StageMicros { run, ..StageMicros::default() };
        return Some(CallSpan { call, start: began, length, lane: 0, stages });
    };
    let length: u64 = stages(&line.micros).iter().fold(0_u64, |sum, (_, it)| sum.saturating_add(*it));
    let length = i64::try_from(length).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
    let end = crate::timestamps::millis(&line.timestamp)?.checked_mul(1000)?;
    Some(CallSpan { call, start: end.checked_sub(length)?, length, lane: 0, stages: line.micros })
}

/// Maps times to positions from 0 to 1, with long pauses shortened.
pub(crate) struct CompressedTimeline {
    /// Breakpoints: time and position.
    points: Vec<(i64, f64)>,
    total: f64,
}

/// Maximum pause in microseconds; longer pauses are drawn with this length.
const LONGEST_PAUSE: i64 = 2_000_000;

impl CompressedTimeline {
    pub(crate) fn new(spans: &[CallSpan<'_>]) -> Self {
        let mut points = Vec::new();
        let (mut at, mut end) = (0.0, spans.first().map_or(0, |it| it.start));
        points.push((end, 0.0));
        for span in spans {
            if end < span.start {
                at += (span.start - end).min(LONGEST_PAUSE) as f64;
                points.push((span.start, at));
                end = span.start;
            }
            let until = span.start.saturating_add(span.length);
            if end < until {
                at += (until - end) as f64;
                points.push((until, at));
                end = until;
            }
        }
        Self { points, total: at.max(1.0) }
    }

    /// Returns the position of a time.
    pub(crate) fn place(&self, moment: i64) -> f64 {
        let after = self.points.partition_point(|(time, _)| *time <= moment);
        let Some((time, at)) = after.checked_sub(1).and_then(|it| self.points.get(it)) else { return 0.0 };
        let within = match self.points.get(after) {
            Some((next, next_at)) => {
                let part = (moment - time) as f64 / (next - time).max(1) as f64;
                part * (next_at - at)
            }
            None => 0.0,
        };
        ((at + within) / self.total).clamp(0.0, 1.0)
    }
}
