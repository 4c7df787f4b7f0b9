//! Lists, names and searches the sessions of a directory.
//!
//! There is no index that could become stale: a listing reads the beginning and the end of every log.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use haft_types::{MessageBlock, Role, text};
use memchr::memmem;

use super::{LogEntry, file::append_beside, read};

/// A stored session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionInfo {
    pub id: String,
    /// Path of its log.
    pub path: PathBuf,
    /// Its title: the name it was given, or its first prompt.
    pub title: String,
    /// Size of its log in bytes.
    pub size: u64,
    /// Time of the last write.
    pub modified: SystemTime,
}

/// Number of bytes at the beginning and the end that are searched for a title.
const LOOKED_AT: usize = 16 << 10;

impl SessionInfo {
    /// Reads the title from the log.
    pub fn read_title(&mut self) {
        self.title = title(&self.path, self.size).unwrap_or_default();
    }
}

/// The sessions with logs in a directory, newest first. Unreadable logs are listed too.
pub fn list(dir: &Path) -> io::Result<Vec<SessionInfo>> {
    let mut found = untitled(dir)?;
    found.iter_mut().for_each(SessionInfo::read_title);
    Ok(found)
}

/// Like [`list`], without titles: opens no log, so it is fast for thousands of sessions.
pub fn untitled(dir: &Path) -> io::Result<Vec<SessionInfo>> {
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(found),
        Err(err) => return Err(err),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) else { continue };
        let Ok(metadata) = entry.metadata() else { continue };
        if !metadata.is_file() {
            continue;
        }
        found.push(SessionInfo {
            id: id.to_owned(),
            title: String::new(),
            size: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            path,
        });
    }
    found.sort_by(|a, b| b.modified.cmp(&a.modified).then_with(|| a.id.cmp(&b.id)));
    Ok(found)
}

/// Names a session, also while another process writes its log.
pub fn rename(path: &Path, id: &str, title: &str) -> io::Result<()> {
    if !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let title = LogEntry::CustomTitle { custom_title: title.to_owned(), session_id: id.to_owned() };
    append_beside(path, &title)
}

/// A match of a search.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogMatch {
    /// Author of the message.
    pub role: Role,
    /// The line around the match.
    pub excerpt: String,
}

/// Searches messages and calls for a text, ignoring case. Returns at most `most` matches.
pub fn search(path: &Path, wanted: &str, most: usize) -> io::Result<Vec<LogMatch>> {
    let wanted = wanted.to_lowercase();
    let mut found = Vec::new();
    // Only plain text can be found in the raw bytes, which are JSON-escaped.
    let plain = wanted.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b' ' | b'_' | b'-'));
    if plain && !holds_raw(path, &wanted)? {
        return Ok(found);
    }
    read(path, |entry| {
        let (LogEntry::User(line) | LogEntry::Assistant(line)) = entry else { return };
        if most <= found.len() {
            return;
        }
        let message = &line.message.message;
        for words in message.content.iter().filter_map(words_of) {
            if let Some(excerpt) = around(&words, &wanted)
                && found.len() < most
            {
                found.push(LogMatch { role: message.role, excerpt });
            }
        }
    })?;
    Ok(found)
}

/// Whether a file contains a text, ignoring case, without parsing it.
fn holds_raw(path: &Path, wanted: &str) -> io::Result<bool> {
    let finder = memmem::Finder::new(wanted.as_bytes());
    let mut reader = BufReader::with_capacity(256 << 10, File::open(path)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if (&mut reader).take(64 << 20).read_until(b'\n', &mut line)? == 0 {
            return Ok(false);
        }
        line.make_ascii_lowercase();
        if finder.find(&line).is_some() {
            return Ok(true);
        }
    }
}

fn words_of(block: &MessageBlock) -> Option<String> {
    match block {
        MessageBlock::Text { text } => Some(text.clone()),
        MessageBlock::ToolUse(call) => Some(format!("{} {}", call.name, call.input)),
        MessageBlock::ToolResult { content, .. } => Some(content.to_text()),
        _ => None,
    }
}

fn around(words: &str, wanted: &str) -> Option<String> {
    let line = words.lines().find(|line| line.to_lowercase().contains(wanted))?;
    let at = line.to_lowercase().find(wanted)?;
    let start = line.floor_char_boundary(at.min(line.len()).saturating_sub(40));
    let dots = if 0 < start { "…" } else { "" };
    Some(format!("{dots}{}", text::one_line(&line[start..], 120)))
}

/// The last name at the end, else the first prompt at the beginning.
fn title(path: &Path, size: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let tail_start = size.saturating_sub(LOOKED_AT as u64);
    let tail = if LOOKED_AT as u64 * 2 < size { read_part(&mut file, tail_start)? } else { Vec::new() };
    let head = read_part(&mut file, 0)?;
    named(&tail).or_else(|| named(&head)).or_else(|| first_words(&head))
}

fn read_part(file: &mut File, start: u64) -> Option<Vec<u8>> {
    let mut part = Vec::with_capacity(LOOKED_AT);
    file.seek(SeekFrom::Start(start)).ok()?;
    file.take(LOOKED_AT as u64 * 2).read_to_end(&mut part).ok()?;
    Some(part)
}

fn named(part: &[u8]) -> Option<String> {
    let lines = part.rsplit(|it| *it == b'\n');
    let mut titles = lines.filter(|line| memmem::find(line, b"custom-title").is_some());
    titles.find_map(|line| match serde_json::from_slice(line) {
        Ok(LogEntry::CustomTitle { custom_title, .. }) => Some(custom_title),
        _ => None,
    })
}

fn first_words(part: &[u8]) -> Option<String> {
    let mut lines = part.split(|it| *it == b'\n').filter(|line| memmem::find(line, b"\"user\"").is_some());
    lines.find_map(|line| {
        let Ok(LogEntry::User(line)) = serde_json::from_slice(line) else { return cut_words(line) };
        let mut blocks = line.message.message.content.into_iter();
        blocks.find_map(|block| match block {
            MessageBlock::Text { text } if !line.is_meta => Some(text::one_line(text.trim(), 80)),
            _ => None,
        })
    })
}

/// The text of a line that is longer than what was read.
fn cut_words(line: &[u8]) -> Option<String> {
    let start = memmem::find(line, b"\"text\":\"")? + 8;
    let words: Vec<u8> = line[start..].iter().copied().take(200).take_while(|it| *it != b'"').collect();
    let words = String::from_utf8_lossy(&words).replace("\\n", " ");
    (!words.trim().is_empty()).then(|| text::one_line(words.trim(), 80))
}
