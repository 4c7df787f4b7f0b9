//! History of sent prompts.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

/// Bytes at the end of the file that are read.
const LOOKED_AT: u64 = 2 << 20;
/// Maximum prompts in memory.
const MOST: usize = 2000;
/// Maximum bytes of a prompt in the file; a longer one is truncated, so that it does not displace all
/// others.
const LONGEST_KEPT: usize = 64 << 10;

/// Sent prompts, oldest first, with those of the current project last.
#[derive(Clone, Debug, Default)]
pub struct PromptHistory {
    file: Option<PathBuf>,
    project: String,
    prompts: Vec<String>,
    /// Shown prompt, counted from the end, and the draft it replaced.
    shown: Option<(usize, String)>,
}

impl PromptHistory {
    /// Creates an empty history that is not stored.
    pub fn none() -> Self {
        Self::default()
    }

    /// Loads a history file. Prompts of `project` come first when going back. An unreadable file counts
    /// as empty.
    pub fn of_file(file: &Path, project: &str) -> Self {
        let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
        for line in newest_lines(file).unwrap_or_default().lines() {
            let Ok(entry) = serde_json::from_str::<Value>(line) else { continue };
            let Some(text) = entry["display"].as_str() else { continue };
            let list = if entry["project"] == project { &mut here } else { &mut elsewhere };
            list.push(text.to_owned());
        }
        let mut prompts = elsewhere;
        prompts.append(&mut here);
        let cut = prompts.len().saturating_sub(MOST);
        prompts.drain(..cut);
        Self { file: Some(file.to_owned()), project: project.to_owned(), prompts, shown: None }
    }

    /// Adds a prompt and writes it to the file at once.
    pub fn add(&mut self, prompt: &str, now_ms: u64) {
        self.shown = None;
        if prompt.trim().is_empty() || self.prompts.last().is_some_and(|it| it == prompt) {
            return;
        }
        self.prompts.push(prompt.to_owned());
        if let Some(file) = &self.file {
            let kept = shortened(prompt);
            let line = json!({"display": kept, "timestamp": now_ms, "project": self.project});
            append(file, &format!("{line}\n")).ok();
        }
    }

    /// Returns the previous prompt; `draft` is restored by [`forward`](Self::forward) at the end.
    pub fn back(&mut self, draft: &str) -> Option<String> {
        let (steps, draft) = match self.shown.take() {
            Some((steps, kept)) => (steps + 1, kept),
            None => (1, draft.to_owned()),
        };
        let Some(at) = self.prompts.len().checked_sub(steps) else {
            self.shown = (1 < steps).then_some((steps - 1, draft));
            return None;
        };
        self.shown = Some((steps, draft));
        self.prompts.get(at).cloned()
    }

    /// Returns the next prompt, or the draft.
    pub fn forward(&mut self) -> Option<String> {
        let (steps, draft) = self.shown.take()?;
        if steps == 1 {
            return Some(draft);
        }
        self.shown = Some((steps - 1, draft));
        self.prompts.get(self.prompts.len() - (steps - 1)).cloned()
    }

    /// Whether an old prompt is shown.
    pub fn is_walking(&self) -> bool {
        self.shown.is_some()
    }

    /// Ends walking through the history, because the shown prompt was edited.
    pub fn reset_cursor(&mut self) {
        self.shown = None;
    }

    /// Returns the newest prompt that contains `text`, skipping the first `skip` matches.
    pub fn search(&self, text: &str, skip: usize) -> Option<&str> {
        let wanted = text.to_lowercase();
        let mut seen: Vec<&str> = Vec::new();
        let found = self.prompts.iter().rev().filter(|it| it.to_lowercase().contains(&wanted));
        for prompt in found {
            if seen.contains(&prompt.as_str()) {
                continue;
            }
            if seen.len() == skip {
                return Some(prompt);
            }
            seen.push(prompt);
        }
        None
    }
}

/// Returns the prompt as stored in the file, with a note about the omitted part.
fn shortened(prompt: &str) -> std::borrow::Cow<'_, str> {
    if prompt.len() <= LONGEST_KEPT {
        return prompt.into();
    }
    let head = &prompt[..prompt.floor_char_boundary(LONGEST_KEPT)];
    format!("{head}\n… ({} bytes more were sent)", prompt.len() - head.len()).into()
}

fn newest_lines(file: &Path) -> std::io::Result<String> {
    let mut file = File::open(file)?;
    let length = file.metadata()?.len();
    let from = length.saturating_sub(LOOKED_AT);
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(LOOKED_AT).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    // The first line may be partial.
    let whole = if from == 0 { 0 } else { text.find('\n').map_or(text.len(), |at| at + 1) };
    Ok(text[whole..].to_owned())
}

/// Appends a line with a single write, so that lines of several processes do not mix.
fn append(file: &Path, line: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)?;
    }
    OpenOptions::new().create(true).append(true).mode(0o600).open(file)?.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn prompt_history_can_be_walked_searched_and_reloaded() {
        let dir = std::env::temp_dir().join(format!("haft-history-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("history.jsonl");
        let mut other = PromptHistory::of_file(&file, "/other");
        other.add("elsewhere", 1);
        let mut history = PromptHistory::of_file(&file, "/here");
        for prompt in ["first", "second", "second", "third one"] {
            history.add(prompt, 2);
        }
        // Another process, later.
        other.add("elsewhere again", 3);
        let mut again = PromptHistory::of_file(&file, "/here");
        assert_eq!(again.back("draft").as_deref(), Some("third one"));
        assert_eq!(again.back("").as_deref(), Some("second"));
        assert_eq!(again.back("").as_deref(), Some("first"));
        assert_eq!(again.back("").as_deref(), Some("elsewhere again"));
        assert_eq!(again.back("").as_deref(), Some("elsewhere"));
        assert_eq!(again.back(""), None);
        assert_eq!(again.forward().as_deref(), Some("elsewhere again"));
        for _ in 0..3 {
            again.forward();
        }
        assert_eq!(again.forward().as_deref(), Some("draft"));
        assert_eq!(again.forward(), None);
        assert_eq!(again.search("SECOND", 0), Some("second"));
        assert_eq!(again.search("e", 1), Some("second"));
        assert_eq!(again.search("nothing", 0), None);
        // A prompt of several megabytes is complete in memory and truncated in the file, without hiding
        // the others.
        let long = format!("long one {}", "ä".repeat(5 << 20));
        again.add(&long, 4);
        assert_eq!(again.back("").as_deref(), Some(long.as_str()));
        let mut later = PromptHistory::of_file(&file, "/here");
        let kept = later.back("").unwrap();
        assert!(kept.starts_with("long one ä") && kept.ends_with("bytes more were sent)"));
        assert_eq!(later.back("").as_deref(), Some("third one"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
