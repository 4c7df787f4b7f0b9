//! Reads the end of a log that is too long to be read completely.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::Path,
};

use memchr::{memchr, memmem};

use super::{LogEntry, LogState};

/// Number of bytes at the end that are read completely. A context of a million tokens is about 4 MB of
/// text, which a log contains about twice.
const RECENT: u64 = 24 << 20;

/// Number of bytes at the beginning of a line that determine its type.
const HEAD: usize = 1 << 10;

/// Maximum length of a state line in bytes; longer ones are skipped.
const LONGEST_STATE: usize = 4 << 20;

/// Where reading starts, and what is still relevant of the lines before.
#[derive(Debug, Default)]
pub(crate) struct RecentEntries {
    /// Byte offset of the first line to read.
    pub(crate) start: u64,
    /// State from earlier lines, in order.
    pub(crate) states: Vec<LogState>,
    /// The first prompt of the user.
    pub(crate) first: Option<LogEntry>,
    /// Number of conversation lines skipped since the last summary.
    pub(crate) left_out: usize,
}

/// Finds the part of a log that a request can contain: from the last summary on, limited to [`RECENT`]
/// bytes. Earlier lines are scanned, but only state lines are parsed.
pub(crate) fn recent(path: &Path) -> io::Result<RecentEntries> {
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    if length <= RECENT {
        return Ok(RecentEntries::default());
    }
    let mut scan = Scan { tail: length - RECENT, ..Scan::default() };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut held = Vec::new();
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            scan.line(&held, false);
            break;
        }
        let mut rest = buffer;
        while let Some(end) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            if held.is_empty() {
                scan.line(line, true);
            } else {
                scan.lost += hold(&mut held, line);
                scan.line(&held, true);
                scan.lost = 0;
                held.clear();
            }
            rest = after;
        }
        scan.lost += hold(&mut held, rest);
        let read = buffer.len();
        reader.consume(read);
    }
    Ok(scan.finish())
}

/// Keeps the beginning of a line. Returns the number of bytes that were dropped.
fn hold(held: &mut Vec<u8>, piece: &[u8]) -> u64 {
    let room = LONGEST_STATE.saturating_sub(held.len()).min(piece.len());
    held.extend_from_slice(&piece[..room]);
    (piece.len() - room) as u64
}

#[derive(Default)]
struct Scan {
    /// Byte offset of the line.
    offset: u64,
    /// Number of dropped bytes of the line.
    lost: u64,
    /// Byte offset from which lines are recent.
    tail: u64,
    /// Byte offset of the first recent line.
    tail_start: Option<u64>,
    last_start: u64,
    boundary: Option<u64>,
    states: Vec<(u64, LogState)>,
    first: Option<LogEntry>,
    lines: usize,
    lines_at: (usize, usize),
}

impl Scan {
    fn line(&mut self, line: &[u8], ended: bool) {
        let start = self.offset;
        self.offset += line.len() as u64 + self.lost;
        if line.is_empty() {
            return;
        }
        self.lines += 1;
        self.last_start = start;
        if self.tail <= start && self.tail_start.is_none() {
            self.tail_start = Some(start);
            self.lines_at.0 = self.lines;
        }
        let head = &line[..line.len().min(HEAD)];
        if head.starts_with(b"{\"type\":\"haft\"") {
            // Lines about single calls are only relevant if recent.
            if ended
                && let Ok(LogEntry::Haft(state)) = serde_json::from_slice(line)
                && !matches!(state, LogState::Call(_) | LogState::Started(_))
            {
                self.states.push((start, state));
            }
        } else if head.starts_with(b"{\"type\":\"user\"") || head.starts_with(b"{\"type\":\"assistant\"") {
            self.look_for_first(line);
        } else if memmem::find(head, b"compact_boundary").is_some()
            && matches!(serde_json::from_slice(line), Ok(LogEntry::System(_)))
        {
            self.boundary = Some(start);
            self.lines_at.1 = self.lines;
        } else {
            self.look_for_first(line);
        }
    }

    /// The first prompt is near the beginning, or does not exist.
    fn look_for_first(&mut self, line: &[u8]) {
        const NEAR: usize = 50;
        if self.first.is_none()
            && self.lines <= NEAR
            && let Ok(entry @ LogEntry::User(_)) = serde_json::from_slice::<LogEntry>(line)
        {
            self.first = Some(entry);
        }
    }

    fn finish(self) -> RecentEntries {
        let tail = self.tail_start.unwrap_or(self.last_start);
        let (start, left_out) = match self.boundary {
            Some(boundary) if tail <= boundary => (boundary, 0),
            Some(_) => (tail, self.lines_at.0.saturating_sub(self.lines_at.1 + 1)),
            None => (tail, self.lines_at.0.saturating_sub(1)),
        };
        let states = self.states.into_iter().filter(|(at, _)| *at < start).map(|(_, state)| state);
        RecentEntries {
            start,
            states: states.collect(),
            first: self.first.filter(|_| 0 < left_out),
            left_out,
        }
    }
}
