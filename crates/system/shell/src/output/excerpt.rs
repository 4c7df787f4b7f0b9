//! Excerpts of large outputs: the beginning, the end, and lines in between that look like errors.

use std::{ops::Range, sync::LazyLock};

use regex::bytes::Regex;

use crate::output::{AnsiStripper, PlainPiece, Spool, clean};

/// Which part of an output to show.
#[derive(Clone, Copy, Debug)]
pub struct OutputView {
    /// Maximum characters.
    pub limit: usize,
    /// Start position.
    pub from: Mark,
}

/// A position in an output.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mark {
    /// Bytes before it.
    pub bytes: u64,
    /// Line breaks before it.
    pub lines: u64,
}

/// An excerpt of an output.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Excerpt {
    pub text: String,
    /// Whether anything was left out.
    pub is_cut: bool,
}

/// Bytes searched for errors at each end.
const SEARCHED: u64 = 4 << 20;
/// Bytes read to find the first lines of an output that mostly redraws.
const HEAD_READ: u64 = 8 << 20;
/// Bytes read to find the last lines of an output that mostly redraws.
const TAIL_READ: u64 = 8 << 20;
/// Maximum characters of an error line.
const ERROR_LINE: usize = 300;

/// Words that mark errors in a log, with their usual capitalisation spelled out: the regex engine can
/// then skip many bytes at a time, which it cannot with `(?i)`.
const WORDS: [&[&str]; 2] = [
    &[
        "error",
        "errors",
        "failed",
        "failure",
        "failures",
        "panicked",
        "exception",
        "traceback",
        "fatal",
        "segmentation fault",
        "undefined reference",
    ],
    &["fail", "panic", "assertion", "denied", "not found", "cannot", "unresolved", "killed", "warning"],
];
static SERIOUS: LazyLock<Option<Regex>> = LazyLock::new(|| words(&WORDS[..1]));
static SUSPICIOUS: LazyLock<Option<Regex>> = LazyLock::new(|| words(&WORDS));
/// Lines that report the absence of errors.
static NONE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i-u)\b(?:0|no) (?:errors?|failures?|failed)\b").ok());

fn words(lists: &[&[&str]]) -> Option<Regex> {
    let mut forms: Vec<String> = Vec::new();
    for word in lists.iter().copied().flatten() {
        let (first, rest) = word.split_at(1);
        forms.extend([(*word).to_owned(), first.to_uppercase() + rest, word.to_uppercase()]);
    }
    // Also matches `IOException`, `TypeError` and `ERR_FAILED`: only the end of the word is anchored.
    Regex::new(&format!(r"(?-u)(?:{})(?:[^a-z]|$)", forms.join("|"))).ok()
}

/// The excerpt of a spool that fits the view.
pub fn excerpt(spool: &Spool, view: OutputView) -> Excerpt {
    let end = spool.end();
    let mut from = view.from.bytes.min(end);
    let mut text = String::new();
    if let Some(hole) = spool.hole()
        && hole.contains(&from)
    {
        text = format!("[… {} bytes are gone …]\n", hole.end - from);
        from = hole.end;
    }
    let whole = first_lines(spool, from..end, view.limit);
    if whole.reaches_end && spool.total() == end {
        let is_cut = !text.is_empty();
        text.push_str(&whole.text);
        return Excerpt { text, is_cut };
    }
    let head = if whole.reaches_end { whole } else { first_lines(spool, from..end, view.limit / 5) };
    let tail = last_lines(spool, head.end..end, view.limit * 9 / 20);
    let head_lines = view.from.lines + head.newlines;
    let middle = middle(spool, head.end..tail.start, head_lines, view.limit * 7 / 20);
    let lines_at_tail = spool.newlines().saturating_sub(tail.newlines);
    let missing = (tail.start - head.end) + (spool.total() - end);
    text.push_str(&head.text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let (first, last) = (head_lines + 1, lines_at_tail.max(head_lines + 1));
    text.push_str(&format!("[… {missing} bytes left out, lines {first} to {last} …]\n"));
    text.push_str(&middle);
    text.push_str(&tail.text);
    Excerpt { text, is_cut: true }
}

struct ExcerptHead {
    text: String,
    /// End of the text in the stream.
    end: u64,
    newlines: u64,
    /// Whether the text extends to the end of the output.
    reaches_end: bool,
}

/// As many whole lines from the beginning as fit; a first line that does not fit is truncated.
fn first_lines(spool: &Spool, range: Range<u64>, limit: usize) -> ExcerptHead {
    let end = range.end.min(range.start + HEAD_READ);
    let mut cleaner = AnsiStripper::default();
    let mut taken = TakenText { limit, ..TakenText::default() };
    let mut at = range.start;
    let mut buf = vec![0; 64 << 10];
    while at < end && !taken.full {
        let want = buf.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
        let got = spool.read_at(at, &mut buf[..want]).unwrap_or(0);
        if got == 0 {
            break;
        }
        // Line by line, to know the position after each.
        for line in buf[..got].split_inclusive(|it| *it == b'\n') {
            cleaner.feed(line, |piece| taken.push(piece));
            at += line.len() as u64;
            if taken.full {
                break;
            }
            if line.ends_with(b"\n") {
                taken.settle(at);
            }
        }
    }
    if !taken.full && at == range.end {
        cleaner.finish(|piece| taken.push(piece));
        if !taken.full {
            return ExcerptHead { text: taken.text, end: at, newlines: taken.newlines, reaches_end: true };
        }
    }
    taken.text.truncate(taken.settled_len);
    if taken.text.is_empty() {
        return cut_first_line(spool, range, limit);
    }
    ExcerptHead { text: taken.text, end: taken.settled_at, newlines: taken.newlines, reaches_end: false }
}

#[derive(Default)]
struct TakenText {
    limit: usize,
    text: String,
    chars: usize,
    newlines: u64,
    full: bool,
    settled_len: usize,
    settled_at: u64,
}

impl TakenText {
    fn push(&mut self, piece: PlainPiece<'_>) {
        self.chars += piece.text.chars().count() + usize::from(piece.ends_line);
        self.full |= self.limit < self.chars;
        if !self.full {
            self.text.push_str(piece.text);
            if piece.ends_line {
                self.text.push('\n');
            }
        }
    }

    fn settle(&mut self, at: u64) {
        self.newlines += 1;
        self.settled_len = self.text.len();
        self.settled_at = at;
    }
}

fn cut_first_line(spool: &Spool, range: Range<u64>, limit: usize) -> ExcerptHead {
    let end = range.end.min(range.start + limit as u64);
    let raw = spool.read_range(range.start..end).unwrap_or_default();
    let cut = raw.iter().position(|it| *it == b'\n').unwrap_or(raw.len());
    let text = haft_types::text::head(&clean(&raw[..cut]), limit).to_owned();
    ExcerptHead { text, end: range.start + cut as u64, newlines: 0, reaches_end: false }
}

struct ExcerptTail {
    text: String,
    start: u64,
    newlines: u64,
}

/// As many whole lines from the end as fit; a last line that does not fit is truncated.
fn last_lines(spool: &Spool, range: Range<u64>, limit: usize) -> ExcerptTail {
    let floor = spool.hole().map_or(range.start, |hole| range.start.max(hole.end.min(range.end)));
    let mut window = (limit as u64 * 2).max(16 << 10);
    loop {
        let start = floor.max(range.end.saturating_sub(window));
        let raw = spool.read_range(start..range.end).unwrap_or_default();
        let last = tail_of(&raw, start, range.end, start == floor && floor == range.start, limit);
        let poor = last.text.chars().count() < limit / 2;
        if start == floor || !poor || TAIL_READ <= window {
            return last;
        }
        window *= 4;
    }
}

/// The last lines of `raw`, which starts at `start`, possibly inside a line.
fn tail_of(raw: &[u8], start: u64, end: u64, at_line_start: bool, limit: usize) -> ExcerptTail {
    let body = match raw.iter().position(|it| *it == b'\n') {
        Some(first) if !at_line_start && first + 1 < raw.len() => &raw[first + 1..],
        _ => raw,
    };
    // Walk back line by line, so that each is cleaned only once.
    let mut kept: Vec<String> = Vec::new();
    let (mut chars, mut at) = (0, body.len());
    while 0 < at {
        let line_start = memchr::memrchr(b'\n', &body[..at - 1]).map_or(0, |found| found + 1);
        let line = clean(&body[line_start..at]);
        chars += line.chars().count();
        if limit < chars {
            break;
        }
        kept.push(line);
        at = line_start;
    }
    if kept.is_empty() && !body.is_empty() {
        let text =
            haft_types::text::tail(&clean(&body[body.len().saturating_sub(limit * 4)..]), limit).to_owned();
        let start = end.saturating_sub(text.len() as u64).max(start);
        let newlines = text.matches('\n').count() as u64;
        return ExcerptTail { text, start, newlines };
    }
    let text: String = kept.iter().rev().map(String::as_str).collect();
    let newlines = memchr::memchr_iter(b'\n', &body[at..]).count() as u64;
    ExcerptTail { text, start: end - (body.len() - at) as u64, newlines }
}

#[derive(Default)]
struct NotableLines {
    lines: Vec<(u64, String)>,
    chars: usize,
    unseen: usize,
}

impl NotableLines {
    fn push(&mut self, number: u64, line: &[u8], budget: usize) {
        if budget < self.chars {
            self.unseen += 1;
            return;
        }
        let shown = clean(&line[..line.len().min(ERROR_LINE * 4)]);
        let shown = haft_types::text::head(shown.trim_end(), ERROR_LINE).to_owned();
        self.chars += shown.chars().count() + 10;
        if budget < self.chars {
            self.unseen += 1;
        } else {
            self.lines.push((number, shown));
        }
    }
}

/// Lines between beginning and end that look like errors, with their line numbers.
fn middle(spool: &Spool, range: Range<u64>, lines_before: u64, budget: usize) -> String {
    let hole = spool.hole().unwrap_or(range.end..range.start);
    let first = range.start..range.end.min(range.start + SEARCHED).min(hole.start.max(range.start));
    let last_start = range.end.saturating_sub(SEARCHED).max(first.end).max(hole.end.min(range.end));
    let last = last_start..range.end;
    let unsearched = last.start - first.end;
    let mut serious = NotableLines::default();
    let mut suspicious = NotableLines::default();
    let raw = spool.read_range(first).unwrap_or_default();
    search(&raw, lines_before, budget, &mut serious, &mut suspicious);
    let raw = spool.read_range(last.clone()).unwrap_or_default();
    if !raw.is_empty() {
        let after = spool.read_range(last.end..spool.end()).unwrap_or_default();
        let newlines = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count() as u64;
        let before = spool.newlines().saturating_sub(newlines(&raw) + newlines(&after));
        search(&raw, before, budget, &mut serious, &mut suspicious);
    }
    let room = budget.saturating_sub(serious.chars);
    let mut lines = serious.lines;
    let mut used = 0;
    for (number, line) in suspicious.lines {
        used += line.chars().count() + 10;
        if used <= room {
            lines.push((number, line));
        }
    }
    lines.sort();
    render_middle(&lines, serious.unseen, unsearched)
}

fn render_middle(lines: &[(u64, String)], unseen: usize, unsearched: u64) -> String {
    let mut out = String::new();
    if !lines.is_empty() {
        out.push_str("[lines in between that look like errors, with their line numbers:]\n");
        for (number, line) in lines {
            out.push_str(&format!("{number}: {line}\n"));
        }
    }
    if 0 < unseen {
        out.push_str(&format!("[and {unseen} more such lines]\n"));
    }
    if 0 < unsearched {
        out.push_str(&format!("[{unsearched} bytes in between were not searched for errors]\n"));
    }
    if !out.is_empty() {
        out.push_str("[…]\n");
    }
    out
}

fn search(
    raw: &[u8],
    lines_before: u64,
    budget: usize,
    serious: &mut NotableLines,
    suspicious: &mut NotableLines,
) {
    let (Some(error), Some(any), Some(none)) = (&*SERIOUS, &*SUSPICIOUS, &*NONE) else { return };
    let (mut at, mut number) = (0, lines_before);
    while at < raw.len()
        && let Some(hit) = any.find_at(raw, at)
    {
        let start = memchr::memrchr(b'\n', &raw[at..hit.start()]).map_or(at, |it| at + it + 1);
        let end = memchr::memchr(b'\n', &raw[hit.start()..]).map_or(raw.len(), |it| hit.start() + it);
        number += memchr::memchr_iter(b'\n', &raw[at..start]).count() as u64;
        let line = &raw[start..end];
        if !none.is_match(line) {
            let found = if error.is_match(line) { &mut *serious } else { &mut *suspicious };
            found.push(number + 1, line, budget);
        }
        at = (end + 1).min(raw.len());
        number += 1;
    }
}
