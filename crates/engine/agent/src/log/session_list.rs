//! All sessions of a directory: found, named, searched.
//!
//! There is no index that could be wrong: a listing looks at the beginning and
//! the end of every log.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
    time::SystemTime,
};

use haft_types::{MessageBlock, Role, text};
use memchr::memmem;

use super::{LogEntry, file::append_beside, read};

/// One session.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// Its log.
    pub path: PathBuf,
    /// What it is called: the name somebody gave it, or its first words.
    pub title: String,
    /// Bytes of its log.
    pub size: u64,
    /// When something was last written.
    pub modified: SystemTime,
}

/// So much of the beginning and the end is looked at for a title.
const LOOKED_AT: usize = 16 << 10;

impl SessionInfo {
    /// Looks for its title in the log.
    pub fn read_title(&mut self) {
        self.title = title(&self.path, self.size).unwrap_or_default();
    }
}

/// The sessions of a directory of logs, the newest first. What cannot be read
/// is listed all the same: its bytes are there.
pub fn list(dir: &Path) -> io::Result<Vec<SessionInfo>> {
    let mut found = untitled(dir)?;
    found.iter_mut().for_each(SessionInfo::read_title);
    Ok(found)
}

/// The same without titles: no log is opened, so that thousands are listed at
/// once.
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

/// Gives a session a name, also while it is being written.
pub fn rename(path: &Path, id: &str, title: &str) -> io::Result<()> {
    if !path.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    let title = LogEntry::CustomTitle { custom_title: title.to_owned(), session_id: id.to_owned() };
    append_beside(path, &title)
}

/// A place where a text was said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LogMatch {
    /// Who said it.
    pub role: Role,
    /// The line around it.
    pub excerpt: String,
}

/// Looks for a text, whatever its case, in what was said and done.
pub fn search(path: &Path, wanted: &str, most: usize) -> io::Result<Vec<LogMatch>> {
    let wanted = wanted.to_lowercase();
    let mut found = Vec::new();
    // Only plain words can be told from the raw bytes.
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

/// Whether a file holds a text, case aside, without parsing it.
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

/// The newest name at the end, else the first words at the beginning.
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

/// The words of a line that goes on beyond what was read.
fn cut_words(line: &[u8]) -> Option<String> {
    let start = memmem::find(line, b"\"text\":\"")? + 8;
    let words: Vec<u8> = line[start..].iter().copied().take(200).take_while(|it| *it != b'"').collect();
    let words = String::from_utf8_lossy(&words).replace("\\n", " ");
    (!words.trim().is_empty()).then(|| text::one_line(words.trim(), 80))
}
