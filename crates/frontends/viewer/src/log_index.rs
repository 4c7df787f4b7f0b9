//! Index of a log.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_agent::log::{LogEntry, LogState};
use haft_model::{Catalog, Speed};

use crate::{
    row::{IndexedCall, IndexedRequest, IndexedRow, LogRange, RowKind},
    skim_line::{SkimmedBlock, SkimmedLine, skim},
    timestamps::millis,
};

/// Maximum bytes of a line; longer ones are skipped.
const LONGEST_LINE: u64 = 64 << 20;

/// Maximum bytes of a Haft-specific line that is parsed.
const LONGEST_STATE: usize = 4 << 20;

/// Bytes at both ends of an open log that are compared to detect its replacement.
const TOLD_BY: usize = 512;

/// Reads up to `most` bytes at an offset; fewer at the end of the file.
fn bytes_at(file: &File, offset: u64, most: usize) -> Vec<u8> {
    let mut bytes = vec![0; most];
    let read = file.read_at(&mut bytes, offset).unwrap_or(0);
    bytes.truncate(read);
    bytes
}

/// Index of a log. Contains positions and metadata, but not the conversation's content.
#[derive(Debug)]
pub struct LogIndex {
    pub(crate) path: PathBuf,
    /// Offset up to which the log was read, and the file's identity.
    pub(crate) end: u64,
    pub(crate) inode: u64,
    /// First bytes of the log, and the last bytes that were read.
    pub(crate) ends: (Vec<u8>, Vec<u8>),
    /// Path of the stored index, and the offset up to which it covers the log.
    pub(crate) kept: Option<PathBuf>,
    pub(crate) kept_end: u64,
    /// Bytes read to build the index.
    pub(crate) bytes_read: u64,
    pub(crate) title: Option<String>,
    pub(crate) cwd: String,
    pub(crate) began: Option<i64>,
    pub(crate) last: Option<i64>,
    pub(crate) rows: Vec<IndexedRow>,
    pub(crate) calls: Vec<IndexedCall>,
    pub(crate) requests: Vec<IndexedRequest>,
    /// Number of unreadable lines.
    pub(crate) unread: usize,
    pub(crate) by_id: HashMap<String, u32>,
    /// Whether the log contains lines for requests, as Haft's own logs do.
    pub(crate) tells_requests: bool,
    pub(crate) catalog: Arc<Catalog>,
    /// Number of times everything was read again because the log was replaced.
    pub(crate) reading: u64,
    /// Rows that changed after they were added, in order of change. A follower stores its position in
    /// this list, because several share an index.
    pub(crate) changed: Vec<usize>,
}

/// How much of an index a follower has seen.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct IndexCursor {
    pub(crate) reading: u64,
    pub(crate) changes: usize,
    pub(crate) rows: usize,
}

impl LogIndex {
    /// Reads a log. Unreadable lines are counted and skipped; an incomplete last line is left for
    /// later.
    pub fn read(path: &Path, catalog: Arc<Catalog>) -> io::Result<Self> {
        let mut index = Self::empty(path, catalog);
        index.extend()?;
        Ok(index)
    }

    /// Creates an index without rows.
    pub(crate) fn empty(path: &Path, catalog: Arc<Catalog>) -> Self {
        Self {
            path: path.to_owned(),
            end: 0,
            inode: 0,
            ends: Default::default(),
            kept: None,
            kept_end: 0,
            bytes_read: 0,
            title: None,
            cwd: String::new(),
            began: None,
            last: None,
            rows: Vec::new(),
            calls: Vec::new(),
            requests: Vec::new(),
            unread: 0,
            by_id: HashMap::new(),
            tells_requests: false,
            catalog,
            reading: 0,
            changed: Vec::new(),
        }
    }

    /// Returns the cursor of a follower that has seen everything.
    pub(crate) fn mark(&self) -> IndexCursor {
        IndexCursor { reading: self.reading, changes: self.changed.len(), rows: self.rows.len() }
    }

    /// Returns the rows that changed since a cursor.
    pub(crate) fn changed_since(&self, known: IndexCursor) -> &[usize] {
        let since = self.changed.get(known.changes..).unwrap_or_default();
        if known.reading == self.reading { since } else { &[] }
    }

    /// Returns the path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the session's name, or the id of its log.
    pub(crate) fn id(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns the model catalog used for prices and windows.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Reads appended lines. A log that was replaced or truncated is read again from the start.
    pub(crate) fn extend(&mut self) -> io::Result<()> {
        let file = File::open(&self.path)?;
        let about = file.metadata()?;
        if self.end != 0 && (about.ino() != self.inode || about.len() < self.end || !self.is_same_log(&file))
        {
            let (kept, reading) = (self.kept.take(), self.reading + 1);
            *self = Self { kept, reading, ..Self::read(&self.path, Arc::clone(&self.catalog))? };
            self.keep();
            return Ok(());
        }
        self.inode = about.ino();
        if about.len() <= self.end {
            return Ok(());
        }
        let mut reader = BufReader::with_capacity(1 << 20, file);
        reader.seek(SeekFrom::Start(self.end))?;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
            self.bytes_read += read as u64;
            // A line without a line break is being written, or its writer crashed.
            if read == 0 || !line.ends_with(b"\n") && (read as u64) < LONGEST_LINE {
                break;
            }
            self.take(&line);
            self.end += read as u64;
        }
        let told_by = TOLD_BY.min(usize::try_from(self.end).unwrap_or(TOLD_BY));
        let file = reader.get_ref();
        self.ends = (bytes_at(file, 0, told_by), bytes_at(file, self.end - told_by as u64, told_by));
        self.save_if_grown();
        Ok(())
    }

    /// Whether the file is still the one that was indexed; a rewritten file may have the same length.
    fn is_same_log(&self, file: &File) -> bool {
        let (first, last) = &self.ends;
        let before = self.end.saturating_sub(last.len() as u64);
        bytes_at(file, 0, first.len()) == *first && bytes_at(file, before, last.len()) == *last
    }

    /// Reads an incomplete last line as if it were complete.
    pub fn read_cut_line(&mut self) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.end))?;
        let mut line = Vec::new();
        file.take(LONGEST_LINE).read_to_end(&mut line)?;
        self.take(&line);
        Ok(())
    }

    fn take(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let Some(skimmed) = skim(line) else {
            self.unread += 1;
            return;
        };
        let time = skimmed.timestamp.as_deref().and_then(millis);
        if let Some(time) = time {
            self.began.get_or_insert(time);
            self.last = Some(self.last.map_or(time, |last| last.max(time)));
        }
        if self.cwd.is_empty() {
            self.cwd = skimmed.cwd.as_deref().unwrap_or_default().to_owned();
        }
        match &*skimmed.kind {
            "user" | "assistant" => self.message(&skimmed, line, time),
            "attachment" => {
                self.push(LogRange::default(), RowKind::Attachment, time, line, line.len(), false)
            }
            "system" if skimmed.subtype.as_deref() == Some("compact_boundary") => {
                self.push(LogRange::default(), RowKind::Compacted, time, line, 0, false);
            }
            "custom-title" => {
                if let Some(title) = skimmed.custom_title {
                    self.title = Some(title.into_owned());
                }
            }
            "haft" if matches!(skimmed.state.as_deref(), Some("call" | "asked")) => self.state(line),
            _ => (),
        }
    }

    fn push(
        &mut self,
        spot: LogRange,
        kind: RowKind,
        time: Option<i64>,
        line: &[u8],
        weight: usize,
        of_child: bool,
    ) {
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let spot = LogRange { offset: self.end, length, ..spot };
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        self.rows.push(IndexedRow { spot, kind, time, weight, of_child });
    }

    fn message(&mut self, line: &SkimmedLine<'_>, bytes: &[u8], time: Option<i64>) {
        let Some(message) = &line.message else { return };
        let (of_child, by_model) = (line.is_sidechain == Some(true), line.kind == "assistant");
        for (at, block) in message.content.0.iter().enumerate() {
            let spot = LogRange { block: u16::try_from(at).unwrap_or(u16::MAX), ..LogRange::default() };
            let weight = block.weight();
            let kind = match (&*block.kind, by_model) {
                ("text", true) => RowKind::Model,
                ("text" | "image" | "document", false) if line.is_meta == Some(true) || block.is_note() => {
                    RowKind::Ours
                }
                ("text" | "image" | "document", false) => RowKind::Person,
                ("thinking", _) if !block.is_silent() => RowKind::Thought,
                ("tool_use", true) => {
                    let call = self.begin_call(block, time, of_child);
                    RowKind::Call(call)
                }
                ("tool_result", false) => {
                    self.end_call(block, spot, time, bytes.len());
                    continue;
                }
                _ => continue,
            };
            self.push(spot, kind, time, bytes, weight, of_child);
        }
        if by_model && !self.tells_requests {
            self.guess_request(line, time);
        }
    }

    fn begin_call(&mut self, block: &SkimmedBlock<'_>, time: Option<i64>, of_child: bool) -> u32 {
        let at = u32::try_from(self.calls.len()).unwrap_or(u32::MAX);
        let id = block.id.as_deref().unwrap_or_default().to_owned();
        self.by_id.insert(id.clone(), at);
        self.calls.push(IndexedCall {
            id,
            tool: block.name.as_deref().unwrap_or_default().to_owned(),
            row: self.rows.len(),
            began: time,
            of_child,
            ..IndexedCall::default()
        });
        at
    }

    fn end_call(&mut self, block: &SkimmedBlock<'_>, spot: LogRange, time: Option<i64>, length: usize) {
        let id = block.tool_use_id.as_deref().unwrap_or_default();
        let Some(call) = self.by_id.get(id).and_then(|at| self.calls.get_mut(*at as usize)) else { return };
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        call.result = Some(LogRange { offset: self.end, length, ..spot });
        call.result_weight = u32::try_from(block.weight()).unwrap_or(u32::MAX);
        call.failed = block.is_error == Some(true);
        call.ended = time;
        self.changed.push(call.row);
    }

    /// Processes a Haft-specific line.
    fn state(&mut self, line: &[u8]) {
        if LONGEST_STATE < line.len() {
            return;
        }
        match serde_json::from_slice(line.trim_ascii()) {
            Ok(LogEntry::Haft(LogState::Call(it))) => {
                let at = self.by_id.get(it.call.as_str()).copied();
                if let Some(call) = at.and_then(|at| self.calls.get_mut(at as usize)) {
                    self.changed.push(call.row);
                    call.line = Some(it);
                }
            }
            Ok(LogEntry::Haft(LogState::Asked(asked))) => {
                if !self.tells_requests {
                    self.tells_requests = true;
                    self.requests.clear();
                }
                self.requests.push(IndexedRequest {
                    number: asked.request,
                    time: millis(&asked.timestamp),
                    model: asked.model,
                    purpose: asked.purpose,
                    usage: asked.usage,
                    usd: asked.usd,
                    bust: asked.bust,
                    rows: self.rows.len(),
                    answer: None,
                });
            }
            Ok(_) => (),
            Err(_) => self.unread += 1,
        }
    }

    /// Derives a request from a message. Logs of other programs have no request lines, but usage in
    /// every answer, which may span several lines.
    fn guess_request(&mut self, line: &SkimmedLine<'_>, time: Option<i64>) {
        let Some(message) = &line.message else { return };
        let Some(usage) = message.used() else { return };
        let (answer, model) = (message.id.as_deref().map(str::to_owned), message.model.as_deref());
        let model = model.unwrap_or_default().to_owned();
        let price = self.catalog.get(&model).price;
        let usd = price.map(|it| it.of(&usage, Speed::Normal));
        let is_same = |it: &IndexedRequest| it.answer.is_some() && it.answer == answer;
        if let Some(known) = self.requests.last_mut().filter(|it| is_same(it)) {
            (known.usage, known.usd, known.rows) = (usage, usd, self.rows.len());
            return;
        }
        self.requests.push(IndexedRequest {
            number: self.requests.len() as u64 + 1,
            model,
            time,
            usage,
            usd,
            rows: self.rows.len(),
            answer,
            ..IndexedRequest::default()
        });
    }

    /// Reads the line at a position.
    pub(crate) fn line_at(&self, spot: LogRange) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; spot.length as usize];
        let mut read = 0;
        let file = File::open(&self.path)?;
        while read < bytes.len() {
            match file.read_at(&mut bytes[read..], spot.offset + read as u64)? {
                0 => break,
                more => read += more,
            }
        }
        bytes.truncate(read);
        Ok(bytes)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn log() -> String {
        let line = |kind: &str, content: serde_json::Value| {
            json!({"type": kind, "uuid": "u", "sessionId": "s", "timestamp": "2026-11-16T23:10:53.109Z", "cwd": "/x",
                "message": {"role": kind, "id": "m", "model": "claude-opus-4-5", "content": content,
                "usage": {"input_tokens": 10, "output_tokens": 5}}})
        };
        let lines = [
            line("user", json!("begin")),
            line(
                "assistant",
                json!([{"type": "text", "text": "é"}, {"type": "tool_use", "id": "c", "name": "T", "input": {}}]),
            ),
            json!({"type": 7, "message": []}),
            line(
                "user",
                json!([{"type": "tool_result", "tool_use_id": "c", "content": "out", "is_error": true}]),
            ),
            json!({"type": "custom-title", "customTitle": "named", "sessionId": "s"}),
            json!({"type": "user", "message": {"content": {"odd": 1}}}),
        ];
        lines.iter().map(|it| format!("{it}\n")).collect()
    }

    fn state(index: &LogIndex) -> String {
        format!("{:?} {:?} {:?} {:?} {}", index.title, index.rows, index.calls, index.requests, index.unread)
    }

    #[test]
    fn reminder_in_user_message_is_not_a_user_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let texts = [
            "/odd x",
            "<system-reminder>\n/odd is no command here\n</system-reminder>",
            "go on <system-reminder>",
        ];
        let blocks = texts.map(|it| json!({"type": "text", "text": it}));
        let line = json!({"type": "user", "uuid": "u", "sessionId": "s", "timestamp": "2026-11-16T23:10:53.109Z", "cwd": "/x",
            "message": {"role": "user", "content": blocks}});
        fs::write(&path, format!("{line}\n")).unwrap();
        let index = LogIndex::read(&path, Catalog::built_in()).unwrap();
        let kinds: Vec<RowKind> = index.rows.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, [RowKind::Person, RowKind::Ours, RowKind::Person]);
        let page = crate::render::page(&index, None);
        assert!(page.contains("<span class=\"what\">/odd is no command here"), "{page}");
    }

    #[test]
    fn changes_of_several_files_show_file_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let file = |name: &str| json!({"filePath": name, "structuredPatch": [{"lines": ["-old", "+new"]}]});
        let page = |files: serde_json::Value| {
            let head = |kind: &str, content: serde_json::Value| {
                json!({"type": kind, "uuid": "u", "sessionId": "s", "timestamp": "2026-11-16T23:10:53.109Z", "cwd": "/x",
                    "message": {"role": kind, "content": content}})
            };
            let call =
                head("assistant", json!([{"type": "tool_use", "id": "c", "name": "MultiEdit", "input": {}}]));
            let mut done =
                head("user", json!([{"type": "tool_result", "tool_use_id": "c", "content": "done"}]));
            done["toolUseResult"] = json!({ "files": files });
            fs::write(&path, format!("{call}\n{done}\n")).unwrap();
            crate::render::page(&LogIndex::read(&path, Catalog::built_in()).unwrap(), None)
        };
        let both = page(json!([file("/x/<a>"), file("/x/b")]));
        assert!(
            both.contains(">Change in /x/&lt;a&gt;</p>") && both.contains(">Change in /x/b</p>"),
            "{both}"
        );
        let one = page(json!([file("/x/b")]));
        assert!(one.contains(">Change</p>"), "{one}");
    }

    #[test]
    fn growing_log_indexes_like_complete_log() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let whole = log();
        fs::write(&path, &whole).unwrap();
        let want = LogIndex::read(&path, Catalog::built_in()).unwrap();
        assert_eq!((want.rows.len(), want.calls.len(), want.requests.len(), want.unread), (3, 1, 1, 1));
        assert!(want.calls[0].failed && want.title.as_deref() == Some("named"));
        for cut in 0..whole.len() {
            fs::write(&path, &whole.as_bytes()[..cut]).unwrap();
            let mut index = LogIndex::read(&path, Catalog::built_in()).unwrap();
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            std::io::Write::write_all(&mut file, &whole.as_bytes()[cut..]).unwrap();
            index.extend().unwrap();
            assert_eq!(index.reading, 0, "{cut}");
            assert_eq!(state(&index), state(&want), "{cut}");
        }
        // A log that was replaced is read again.
        let mut index = LogIndex::read(&path, Catalog::built_in()).unwrap();
        fs::write(&path, &whole[..whole.find('\n').unwrap() + 1]).unwrap();
        let before = index.mark();
        index.extend().unwrap();
        assert_eq!((index.reading, index.rows.len(), index.changed_since(before)), (1, 1, &[][..]));
        // Rewritten in place and longer than before.
        let other = whole.replace("begin", "another beginning").repeat(3);
        fs::write(&path, &other).unwrap();
        index.extend().unwrap();
        assert_eq!(index.reading, 2);
        assert_eq!(state(&index), state(&LogIndex::read(&path, Catalog::built_in()).unwrap()));
        // A log that only grew is not read again.
        fs::write(&path, other.repeat(2)).unwrap();
        index.extend().unwrap();
        assert_eq!(index.reading, 2);
    }

    #[test]
    fn follower_sees_every_change_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let whole = log();
        let end_of_call = whole.find("tool_result").unwrap();
        let cut = whole[..end_of_call].rfind('\n').unwrap() + 1;
        fs::write(&path, &whole[..cut]).unwrap();
        let mut index = LogIndex::read(&path, Catalog::built_in()).unwrap();
        let (one, other) = (index.mark(), index.mark());
        fs::write(&path, &whole).unwrap();
        // Another follower was first.
        index.extend().unwrap();
        index.extend().unwrap();
        assert!(!index.changed_since(one).is_empty());
        assert_eq!(index.changed_since(one), index.changed_since(other));
        assert!(index.changed_since(index.mark()).is_empty());
    }
}
