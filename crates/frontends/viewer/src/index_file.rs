//! Persistent index of a log, so that a log of any size is read only once; and reading just the end of a
//! log meanwhile.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_model::Catalog;
use haft_paths::{Durability, ModeOnReplace, replace_file};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{
    log_index::LogIndex,
    row::{IndexedCall, IndexedRequest, IndexedRow, LogRange, RowKind},
};

/// Format version of the index. Increment it when fields are added or change meaning; other versions are
/// ignored.
const FORM: u32 = 2;

/// Bytes at the start of a log, and before the indexed end, that are hashed to recognise it.
const TOLD_BY: u64 = 4 << 10;

/// Minimum bytes of a log for which an index is stored; shorter ones are read as quickly as an index.
const WORTH: u64 = 1 << 20;

/// Bytes read initially from the end of a log, and at most.
const FIRST_TAIL: u64 = 256 << 10;
const MAX_TAIL_BYTES: u64 = 16 << 20;

/// The stored form of an index.
#[derive(Deserialize, Serialize)]
struct SavedIndex {
    form: u32,
    path: PathBuf,
    inode: u64,
    end: u64,
    told_by: String,
    title: Option<String>,
    cwd: String,
    began: Option<i64>,
    last: Option<i64>,
    unread: usize,
    tells_requests: bool,
    rows: Vec<IndexedRow>,
    calls: Vec<IndexedCall>,
    requests: Vec<IndexedRequest>,
}

impl SavedIndex {
    /// Whether all offsets and references are within bounds.
    fn is_sound(&self) -> bool {
        let inside =
            |it: &LogRange| it.offset.checked_add(u64::from(it.length)).is_some_and(|it| it <= self.end);
        let row = |it: &IndexedRow| {
            let call = match it.kind {
                RowKind::Call(call) => (call as usize) < self.calls.len(),
                _ => true,
            };
            call && inside(&it.spot)
        };
        let call = |it: &IndexedCall| it.row < self.rows.len() && it.result.as_ref().is_none_or(inside);
        self.rows.iter().all(row) && self.calls.iter().all(call)
    }
}

/// Returns the index file of a log.
fn file_of(path: &Path, dir: &Path) -> PathBuf {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let name: String = digest.iter().take(16).map(|it| format!("{it:02x}")).collect();
    dir.join(format!("{name}.index"))
}

/// Hashes the parts of a log that identify it up to `end`. Also returns how many bytes were read.
fn told_by(file: &File, end: u64) -> io::Result<(String, u64)> {
    let mut digest = Sha256::new();
    let mut read = 0;
    for (from, until) in [(0, end.min(TOLD_BY)), (end.saturating_sub(TOLD_BY), end)] {
        let mut bytes = vec![0; usize::try_from(until - from).unwrap_or(0)];
        file.read_exact_at(&mut bytes, from)?;
        read += until - from;
        digest.update(&bytes);
    }
    Ok((digest.finalize().iter().map(|it| format!("{it:02x}")).collect(), read))
}

impl LogIndex {
    /// Opens the index of a log: loads the stored one from `dir`, if valid, and reads the rest of the
    /// log.
    pub(crate) fn open(path: &Path, catalog: Arc<Catalog>, dir: Option<&Path>) -> io::Result<Self> {
        let kept = dir.map(|dir| file_of(path, dir));
        let mut index = kept
            .as_ref()
            .and_then(|it| Self::kept(path, it, &catalog))
            .unwrap_or_else(|| Self::empty(path, catalog));
        index.kept = kept;
        index.extend()?;
        Ok(index)
    }

    /// Returns how many bytes of a log are not covered by its stored index.
    pub(crate) fn unindexed(path: &Path, dir: Option<&Path>) -> u64 {
        let size = path.metadata().map(|it| it.len()).unwrap_or(0);
        let end = dir.map(|dir| end_of(&file_of(path, dir))).unwrap_or(0);
        size.saturating_sub(end)
    }

    fn kept(path: &Path, file: &Path, catalog: &Arc<Catalog>) -> Option<Self> {
        let kept: SavedIndex = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
        let log = File::open(path).ok()?;
        let about = log.metadata().ok()?;
        let fits = kept.form == FORM
            && kept.path == path
            && kept.inode == about.ino()
            && kept.end <= about.len()
            && kept.is_sound();
        if !fits {
            return None;
        }
        let (told_by, read) = told_by(&log, kept.end).ok()?;
        if told_by != kept.told_by {
            return None;
        }
        let by_id = kept.calls.iter().enumerate();
        let by_id = by_id.filter_map(|(at, it)| Some((it.id.clone(), u32::try_from(at).ok()?))).collect();
        Some(Self {
            end: kept.end,
            inode: kept.inode,
            kept_end: kept.end,
            bytes_read: read,
            title: kept.title,
            cwd: kept.cwd,
            began: kept.began,
            last: kept.last,
            rows: kept.rows,
            calls: kept.calls,
            requests: kept.requests,
            unread: kept.unread,
            by_id,
            tells_requests: kept.tells_requests,
            ..Self::empty(path, Arc::clone(catalog))
        })
    }

    /// Stores the index if the log has grown considerably since the last time.
    pub(crate) fn save_if_grown(&mut self) {
        let new = self.end.saturating_sub(self.kept_end);
        if WORTH.max(self.kept_end / 16) <= new {
            self.keep();
        }
    }

    /// Stores the index. Errors are ignored.
    pub(crate) fn keep(&mut self) {
        let Some(file) = self.kept.clone() else { return };
        self.kept_end = self.end;
        let Ok((told_by, read)) = File::open(&self.path).and_then(|it| told_by(&it, self.end)) else {
            return;
        };
        self.bytes_read += read;
        let kept = SavedIndex {
            form: FORM,
            path: self.path.clone(),
            inode: self.inode,
            end: self.end,
            told_by,
            title: self.title.clone(),
            cwd: self.cwd.clone(),
            began: self.began,
            last: self.last,
            unread: self.unread,
            tells_requests: self.tells_requests,
            rows: std::mem::take(&mut self.rows),
            calls: std::mem::take(&mut self.calls),
            requests: std::mem::take(&mut self.requests),
        };
        if let Ok(bytes) = serde_json::to_vec(&kept) {
            replace_file(&file, &bytes, ModeOnReplace::KeptOr(0o600), Durability::Whenever).ok();
        }
        (self.rows, self.calls, self.requests) = (kept.rows, kept.calls, kept.requests);
    }

    /// Reads only the end of a log, as much as is needed for some rows. Row numbers differ from those of
    /// the whole log.
    pub(crate) fn tail(path: &Path, catalog: &Arc<Catalog>) -> io::Result<Self> {
        let (mut window, mut read) = (FIRST_TAIL, 0);
        loop {
            let mut index = Self::empty(path, Arc::clone(catalog));
            let file = File::open(path)?;
            let about = file.metadata()?;
            let from = about.len().saturating_sub(window);
            index.inode = about.ino();
            index.end = from;
            if from != 0 {
                // The first line is probably partial.
                let (skipped, looked) = first_line_end(&file, from)?;
                (index.end, read) = (skipped, read + looked);
            }
            index.extend()?;
            read += index.bytes_read;
            index.bytes_read = read;
            if !index.rows.is_empty() || from == 0 || MAX_TAIL_BYTES <= window {
                return Ok(index);
            }
            window *= 8;
        }
    }
}

/// Returns the end of the log covered by a stored index, from the start of the index file.
fn end_of(file: &Path) -> u64 {
    let mut head = [0; 4096];
    let Ok(read) = File::open(file).and_then(|it| it.read_at(&mut head, 0)) else { return 0 };
    let head = String::from_utf8_lossy(&head[..read]);
    let digits = head.split("\"end\":").nth(1).unwrap_or_default();
    digits.split(|it: char| !it.is_ascii_digit()).next().and_then(|it| it.parse().ok()).unwrap_or(0)
}

/// Returns the end of the line that contains an offset, and the bytes read to find it.
fn first_line_end(file: &File, from: u64) -> io::Result<(u64, u64)> {
    let (mut at, mut bytes) = (from, vec![0; 64 << 10]);
    loop {
        let read = file.read_at(&mut bytes, at)?;
        match memchr::memchr(b'\n', &bytes[..read]) {
            Some(end) => return Ok((at + end as u64 + 1, at - from + read as u64)),
            None if read == 0 => return Ok((at, at - from)),
            None => at += read as u64,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use std::{fmt::Write as _, fs};

    use serde_json::json;

    use super::*;

    const LINES: usize = 3_000;

    fn line(number: usize) -> String {
        let filler = "x".repeat(4_000);
        let message = match number % 3 {
            0 => json!({"role": "user", "content": format!("prompt {number} {filler}")}),
            1 => {
                json!({"role": "assistant", "id": format!("m{number}"), "model": "claude-opus-4-5", "content":
                [{"type": "tool_use", "id": format!("c{number}"), "name": "T", "input": {"a": filler}}],
                "usage": {"input_tokens": 10, "output_tokens": 5}})
            }
            _ => json!({"role": "user", "content":
                [{"type": "tool_result", "tool_use_id": format!("c{}", number - 1), "content": filler}]}),
        };
        let kind = if number % 3 == 1 { "assistant" } else { "user" };
        json!({"type": kind, "uuid": "u", "sessionId": "s", "timestamp": "2026-11-16T23:10:53.109Z", "cwd": "/x",
            "message": message})
        .to_string()
            + "\n"
    }

    struct LogOnDisk {
        dir: tempfile::TempDir,
        path: PathBuf,
    }

    impl LogOnDisk {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("s.jsonl");
            fs::write(&path, (0..LINES).map(line).collect::<String>()).unwrap();
            Self { dir, path }
        }

        fn open(&self) -> LogIndex {
            LogIndex::open(&self.path, Catalog::built_in(), Some(self.dir.path())).unwrap()
        }

        fn size(&self) -> u64 {
            self.path.metadata().unwrap().len()
        }

        fn append(&self, text: &str) {
            let mut file = fs::OpenOptions::new().append(true).open(&self.path).unwrap();
            io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        }
    }

    fn state(index: &LogIndex) -> String {
        let mut out = String::new();
        write!(out, "{:?} {:?} {:?} {:?}", index.title, index.rows, index.calls, index.requests).unwrap();
        write!(out, " {} {} {:?} {:?}", index.unread, index.cwd, index.began, index.last).unwrap();
        out
    }

    #[test]
    fn stored_index_avoids_rereading_log() {
        let log = LogOnDisk::new();
        let first = log.open();
        assert!(log.size() <= first.bytes_read && 10 << 20 < log.size());
        let again = log.open();
        assert!(again.bytes_read <= 2 * TOLD_BY, "{} bytes were read", again.bytes_read);
        assert_eq!(state(&again), state(&first));
        // Only the appended part is read; results find calls from before.
        log.append(&line(LINES));
        log.append(&line(LINES + 1));
        log.append(&line(LINES + 2));
        let grown = log.open();
        assert!(grown.bytes_read < 2 * TOLD_BY + (20 << 10), "{} bytes were read", grown.bytes_read);
        let whole = LogIndex::read(&log.path, Catalog::built_in()).unwrap();
        assert_eq!(state(&grown), state(&whole));
        assert!(whole.calls.last().unwrap().result.is_some());
        let kept = fs::metadata(file_of(&log.path, log.dir.path())).unwrap();
        assert!(kept.len() < log.size() / 10, "{} bytes are kept", kept.len());
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&kept.permissions()) & 0o777, 0o600);
    }

    #[test]
    fn foreign_or_broken_index_is_ignored() {
        let log = LogOnDisk::new();
        log.open();
        let file = file_of(&log.path, log.dir.path());
        let kept = fs::read_to_string(&file).unwrap();
        let whole = || state(&LogIndex::read(&log.path, Catalog::built_in()).unwrap());
        let text = fs::read_to_string(&log.path).unwrap();
        // A different log with the same path, inode and length: different start or end.
        for changed in [text.replacen("prompt 0", "PROMPT 0", 1), {
            let last = text.rfind("prompt").unwrap();
            format!("{}PROMPT{}", &text[..last], &text[last + 6..])
        }] {
            let file = fs::OpenOptions::new().write(true).open(&log.path).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, changed.as_bytes(), 0).unwrap();
            let index = log.open();
            assert!(log.size() <= index.bytes_read);
            assert_eq!(state(&index), whole());
        }
        for broken in [
            String::new(),
            kept[..kept.len() / 2].to_owned(),
            kept.replacen("\"form\":1", "\"form\":0", 1),
            kept.replacen("{\"Call\":0}", "{\"Call\":4000000000}", 1),
            kept.replacen("\"offset\":0,", "\"offset\":18446744073709551615,", 1),
            String::from("[]"),
        ] {
            fs::write(&file, &broken).unwrap();
            assert_eq!(state(&log.open()), whole(), "{}", &broken[..broken.len().min(60)]);
        }
        // A directory that is not writable is not needed.
        let index = LogIndex::open(&log.path, Catalog::built_in(), Some(Path::new("/nowhere"))).unwrap();
        assert_eq!(state(&index), whole());
        // A log that was truncated is a different one.
        fs::write(&log.path, line(0)).unwrap();
        assert_eq!(log.open().rows.len(), 1);
    }

    #[test]
    fn log_tail_is_available_before_indexing() {
        let log = LogOnDisk::new();
        let whole = LogIndex::read(&log.path, Catalog::built_in()).unwrap();
        let end = LogIndex::tail(&log.path, &Catalog::built_in()).unwrap();
        assert!(end.bytes_read <= FIRST_TAIL + (128 << 10), "{} bytes were read", end.bytes_read);
        assert!(30 < end.rows.len() && end.rows.len() < 60, "{} rows", end.rows.len());
        let last = |it: &LogIndex| it.rows.last().unwrap().spot;
        assert_eq!(last(&end), last(&whole));
        // A line longer than the first chunk.
        let huge = json!({"type": "user", "uuid": "u", "timestamp": "2026-11-16T23:10:53.109Z",
            "message": {"role": "user", "content": "y".repeat(1 << 20)}});
        log.append(&format!("{huge}\n"));
        let end = LogIndex::tail(&log.path, &Catalog::built_in()).unwrap();
        assert!(1 < end.rows.len() && end.bytes_read < 6 << 20, "{} bytes were read", end.bytes_read);
        // An incomplete line is skipped for now.
        log.append("{\"type\": \"us");
        let end = LogIndex::tail(&log.path, &Catalog::built_in()).unwrap();
        assert!(!end.rows.is_empty());
        for text in ["", "nonsense", "\n\n"] {
            fs::write(&log.path, text).unwrap();
            assert_eq!(LogIndex::tail(&log.path, &Catalog::built_in()).unwrap().rows.len(), 0);
        }
    }
}
