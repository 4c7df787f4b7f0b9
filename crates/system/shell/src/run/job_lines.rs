use crate::{
    output::{AnsiStripper, PlainPiece},
    run::job::Job,
};

/// The lines a job prints, as a stream.
pub(crate) struct JobLines {
    job: Job,
    at: u64,
    cleaner: AnsiStripper,
    /// Beginning of an incomplete line.
    begun: String,
}

impl JobLines {
    /// Maximum bytes of a line; the rest is dropped.
    const LONGEST: usize = 64 << 10;

    pub(crate) fn new(job: Job) -> Self {
        Self { job, at: 0, cleaner: AnsiStripper::default(), begun: String::new() }
    }

    /// The next complete lines; at the end also an incomplete one.
    pub(crate) async fn next(&mut self) -> Option<Vec<String>> {
        loop {
            self.job.printed_more_than(self.at).await;
            // Check for the end first, so that output before the end is not missed.
            let ended = self.job.end().is_some();
            let total = self.job.printed().bytes;
            let (start, raw) = self.job.raw_from(self.at, 1 << 20);
            self.at = if raw.is_empty() { total } else { start + raw.len() as u64 };
            let mut lines = Vec::new();
            let begun = &mut self.begun;
            let mut take = |piece: PlainPiece<'_>| {
                if begun.len() < Self::LONGEST {
                    begun.push_str(piece.text);
                }
                if piece.ends_line {
                    lines.push(std::mem::take(begun));
                }
            };
            self.cleaner.feed(&raw, &mut take);
            if ended && self.at == total {
                self.cleaner.finish(&mut take);
                lines.extend((!self.begun.is_empty()).then(|| std::mem::take(&mut self.begun)));
                return (!lines.is_empty()).then_some(lines);
            }
            if !lines.is_empty() {
                return Some(lines);
            }
        }
    }
}
