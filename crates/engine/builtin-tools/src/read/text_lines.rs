//! Reads lines of text files.

use std::path::Path;

use haft_workspace::{
    FileError, FileSnapshot, LineEnd, LineQuery, LinesView, OpenFile, ReadBy, SeenRecord, SessionFiles,
    lines_before, read_bytes, read_lines, skip_characters, tail_start,
    text::{Charset, Encoding, SampleExtent, Text, detect},
};

use super::{
    line_page::{NextPage, Page, PageRequest, PartialLine, ReadLimits, fill},
    output::{Output, TextFile, Unchanged},
};
use crate::edit_common::{PARTIAL_MARK, line_anchors, thousands};

/// The requested lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Range {
    /// First line, counted from 1; negative counts from the end.
    pub(super) offset: i64,
    /// Maximum number of lines.
    pub(super) limit: Option<u64>,
    /// First column of the first line, counted from 1.
    pub(super) column: Option<u64>,
}

/// The prefix of each line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum LineNumbering {
    /// The line number.
    Plain,
    /// The mark: line number and content hash.
    Marks,
}

/// The parameters of reading a text file.
pub(super) struct TextJob<'a> {
    pub(super) files: &'a SessionFiles,
    pub(super) viewer: &'a ReadBy,
    pub(super) asked: &'a Path,
    pub(super) range: Range,
    pub(super) limits: ReadLimits,
    pub(super) numbers: LineNumbering,
    pub(super) cancelled: &'a dyn Fn() -> bool,
}

/// Maximum bytes of a file that is loaded as a whole. Only then its version is known, and its encoding
/// is detected from all of its content.
const LOADED: u64 = 8 * 1024 * 1024;

/// Bytes examined to detect the encoding of a larger file.
const SAMPLE: usize = 256 * 1024;

/// The result, and what to record as seen.
pub(super) struct TextReadResult {
    pub(super) output: Output,
    pub(super) record: Option<SeenRecord>,
}

/// Splits text into lines. Faster than `str::lines`, which dominates the time for a small file.
fn lines(text: &Text) -> Vec<&str> {
    let view = text.view();
    let mut lines = Vec::with_capacity(usize::try_from(text.line_count()).unwrap_or(0));
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', view.as_bytes()) {
        lines.push(without_return(&view[start..end]));
        start = end + 1;
    }
    if start < view.len() {
        lines.push(&view[start..]);
    }
    lines
}

/// Removes a carriage return before the line end, like `str::lines`.
fn without_return(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

impl TextJob<'_> {
    /// Reads a page; `None` if the file is not text.
    pub(super) fn run(&self, file: OpenFile) -> Result<Option<TextReadResult>, FileError> {
        if file.stamp().len <= LOADED {
            let loaded = self.files.workspace().load(file)?;
            let Ok(text) = Text::decode(loaded.bytes) else { return Ok(None) };
            let mut reading = self.whole(&loaded.snapshot, &text);
            if let Output::Text(shown) = &mut reading.output {
                shown.notices.extend(loaded.notice);
            }
            Ok(Some(reading))
        } else {
            self.streamed(&file)
        }
    }

    /// Returns a page of a loaded text.
    pub(super) fn whole(&self, snapshot: &FileSnapshot, text: &Text) -> TextReadResult {
        let all = lines(text);
        let total = all.len() as u64;
        let first = self.first_line(total);
        let skip = usize::try_from(first - 1).unwrap_or(usize::MAX).min(all.len());
        let mut page = fill(all[skip..].iter().copied(), &self.ask(first, total, u64::MAX));
        // Only a file that fits is shown without a limit of lines.
        if page.next.is_some() && self.range.limit.is_none() {
            page = fill(all[skip..].iter().copied(), &self.ask(first, total, self.limits.max_lines));
        }
        let shown = &all[skip..skip + page.lines.len()];
        let view = LinesView {
            path: snapshot.file().path(),
            version: Some(snapshot.hash()),
            first,
            lines: shown.to_vec(),
            total,
            clipped: !page.cuts.is_empty() || self.range.column.is_some(),
            text: Some(text.view()),
        };
        let breaks = text.line_breaks();
        let plain = text.encoding() == Encoding::UTF_8 && breaks.crlf + breaks.cr == 0;
        let mut encoding = (!plain).then(|| format!("{}, {breaks}", text.encoding()));
        if text.strays() != 0 {
            let strays = format!("{} invalid bytes shown as \u{fffd}", text.strays());
            encoding = Some(encoding.map_or(strays.clone(), |it| format!("{it}, {strays}")));
        }
        self.finish(page, &view, encoding)
    }

    /// Reads a page of a file that is too large to load; only the page is in memory.
    fn streamed(&self, file: &OpenFile) -> Result<Option<TextReadResult>, FileError> {
        let head = file.head(SAMPLE)?;
        let Some(mut encoding) = detect(&head, SampleExtent::Head) else { return Ok(None) };
        let line_end = LineEnd::detect(encoding, &head);
        let first = match u64::try_from(self.range.offset) {
            Ok(first) => first.max(1),
            Err(_) => {
                let start = tail_start(file, self.range.offset.unsigned_abs(), line_end)?;
                lines_before(file, start, line_end, self.cancelled)? + 1
            }
        };
        let count = self.range.limit.unwrap_or(self.limits.max_lines);
        let query =
            LineQuery { first, count: count.saturating_add(1), max_bytes: self.limits.max_bytes(), line_end };
        let mut lines = read_lines(file, &query, self.cancelled)?;
        let column = self.range.column.unwrap_or(1);
        if 1 < column {
            let skipped = skip_characters(file, lines.start, column - 1, encoding.charset)?;
            lines.bytes = read_bytes(file, lines.start + skipped, self.limits.max_bytes())?;
            lines.cut = lines.bytes.len() == self.limits.max_bytes();
        }
        if encoding.charset == Charset::Utf8 && std::str::from_utf8(&lines.bytes).is_err() {
            encoding = detect(&lines.bytes, SampleExtent::Head).unwrap_or(encoding);
        }
        let bom = encoding.bom && lines.start == 0;
        let text = Text::decode_as(lines.bytes, Encoding { bom, ..encoding });
        let ask = PageRequest {
            column: 1,
            alone: 1 < column || count == 1 || lines.total == 1,
            ..self.ask(first, lines.total, self.limits.max_lines)
        };
        let view = if lines.cut { text.view().trim_end_matches('\u{fffd}') } else { text.view() };
        let mut page = fill(view.lines(), &ask);
        self.mend(&mut page, first, column, lines.cut);
        let shown: Vec<&str> = view.lines().take(page.lines.len()).collect();
        let view = LinesView {
            path: file.path(),
            version: None,
            first,
            lines: shown,
            total: lines.total,
            clipped: !page.cuts.is_empty() || 1 < column,
            text: None,
        };
        let plain = encoding == Encoding::UTF_8 && text.line_breaks().crlf == 0;
        let described = (!plain).then(|| format!("{encoding}, {}", text.line_breaks()));
        Ok(Some(self.finish(page, &view, described)))
    }

    /// Corrects the positions of a page that was built from a part of its first or last line.
    fn mend(&self, page: &mut Page<'_>, first: u64, column: u64, cut: bool) {
        for cut in page.cuts.iter_mut().filter(|cut| cut.line == first) {
            cut.next_column += column - 1;
            cut.more = None;
        }
        if let Some(next) = &mut page.next
            && next.line == first
        {
            next.column = next.column.map(|it| it + column - 1);
        }
        if cut && page.next.is_none() {
            let last = first + (page.lines.len() as u64).saturating_sub(1);
            let shown = page.lines.last().map_or(0, |line| line.chars().count() as u64);
            let next_column = shown + if last == first { column } else { 1 };
            page.cuts.push(PartialLine { line: last, next_column, more: None });
            page.next = Some(NextPage { line: last, column: Some(next_column) });
            page.over_budget = true;
        }
    }

    fn first_line(&self, total: u64) -> u64 {
        match u64::try_from(self.range.offset) {
            Ok(first) => first.max(1),
            Err(_) => total.saturating_sub(self.range.offset.unsigned_abs()) + 1,
        }
    }

    /// Builds the request for a page. `most` is the maximum number of lines if the call gives none.
    fn ask(&self, first: u64, total: u64, most: u64) -> PageRequest {
        let count = self.range.limit.unwrap_or(most);
        PageRequest {
            first,
            count,
            column: self.range.column.unwrap_or(1),
            alone: self.range.column.is_some() || count == 1 || total == 1,
            max_tokens: self.limits.max_tokens,
            widest: self.limits.widest,
        }
    }

    fn finish(&self, page: Page<'_>, view: &LinesView<'_>, encoding: Option<String>) -> TextReadResult {
        let reads = self.files.reads();
        // An earlier result may not have contained marks.
        if self.numbers == LineNumbering::Plain
            && !view.clipped
            && !view.lines.is_empty()
            && let Some(call) = reads.still_shown(&self.viewer.agent, view)
        {
            reads.knows(self.viewer, view);
            let file_path = self.asked.to_owned();
            let output = Output::FileUnchanged(Unchanged { file_path, shown_by: call.to_string() });
            return TextReadResult { output, record: None };
        }
        let record = Some(reads.saw(self.viewer, view));
        let notices = self.notices(&page, view, encoding.as_deref());
        let output = Output::Text(TextFile {
            file_path: self.asked.to_owned(),
            num_lines: page.lines.len() as u64,
            start_line: view.first,
            total_lines: view.total,
            truncated_by_token_cap: page.over_budget,
            content: page.lines.join("\n"),
            marks: self.marks(&page, view),
            encoding,
            notices,
        });
        TextReadResult { output, record }
    }

    /// Returns the marks of the lines that are shown in full.
    fn marks(&self, page: &Page<'_>, view: &LinesView<'_>) -> Vec<Option<String>> {
        if self.numbers == LineNumbering::Plain {
            return Vec::new();
        }
        let is_whole = |number: u64| {
            page.cuts.iter().all(|cut| cut.line != number)
                && (self.range.column.is_none() || number != view.first)
        };
        let lines = page.lines.iter().zip(view.first..);
        lines.map(|(line, number)| is_whole(number).then(|| line_anchors::letters(line))).collect()
    }

    /// Returns the notices for the model.
    fn notices(&self, page: &Page<'_>, view: &LinesView<'_>, encoding: Option<&str>) -> Vec<String> {
        let mut notices = Vec::new();
        let total = view.total;
        if total == 0 {
            notices.push("[The file is empty.]".to_owned());
        } else if page.lines.is_empty() {
            notices
                .push(format!("[The file has only {total} lines; offset {} is past its end.]", view.first));
        }
        let next_line = page.next.map(|it| it.line);
        for cut in page
            .cuts
            .iter()
            .filter(|cut| Some(cut.line) != next_line || page.next.is_some_and(|it| it.column.is_none()))
        {
            let more =
                cut.more.map(|more| format!("{} more characters; ", thousands(more))).unwrap_or_default();
            notices.push(format!(
                "[Line {} is cut: {more}continue with offset={} column={}]",
                cut.line, cut.line, cut.next_column
            ));
        }
        match page.next {
            Some(NextPage { line, column: Some(column) }) => notices.push(format!(
                "{PARTIAL_MARK}line {line} of {total} goes on. Continue with offset={line} column={column}]"
            )),
            Some(NextPage { line, column: None }) => {
                // A page is not partial if the call asked for exactly these lines.
                let asked = self.range.limit.is_some_and(|limit| limit <= page.lines.len() as u64);
                let mark = if asked { "[" } else { PARTIAL_MARK };
                notices.push(format!(
                    "{mark}lines {}-{} of {total}. Continue with offset={line}]",
                    view.first,
                    line - 1
                ));
            }
            None => (),
        }
        if let Some(kind) = haft_media::claimed(self.asked) {
            notices.push(format!("[The name says {kind}, but this is text.]"));
        }
        if let Some(encoding) = encoding {
            notices.push(format!("[Encoding: {encoding}. Edit and Write keep it.]"));
        }
        notices
    }
}
