use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use haft_paths::{Durability, ModeOnReplace};
use haft_types::{Block, Content, text};

use crate::excerpt::preview;

/// Limits of a [`ResultStore`].
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    /// Maximum characters of the preview that replaces a stored result. Default 8,000.
    pub preview_chars: usize,
    /// Maximum bytes of all stored results of a session. Default 512 MiB. Beyond it the oldest are
    /// deleted; a single larger result is not stored.
    pub total_bytes: u64,
    /// Age at which [`ResultStore::sweep`] removes a result. Default 30 days.
    pub max_age: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { preview_chars: 8_000, total_bytes: 512 << 20, max_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

/// Keeps large results out of the context window: writes the full text to the session's directory and
/// gives the model its size, its path and a preview.
///
/// **Invariant:** a result that cannot be stored is truncated, with a note. It never reaches the model in full,
/// and it never fails the call.
#[derive(Clone, Debug)]
pub struct ResultStore {
    dir: PathBuf,
    limits: StoreLimits,
    /// Upper bound of the bytes in the directory. Counted at the first write, then added up, and
    /// recounted only when the sum exceeds the quota, because a session may store thousands of results.
    used: Arc<Mutex<Option<u64>>>,
}

impl ResultStore {
    /// Creates the store of one session. `dir` need not exist; the first stored result creates it.
    pub fn new(dir: impl Into<PathBuf>, limits: StoreLimits) -> Self {
        Self { dir: dir.into(), limits, used: Arc::default() }
    }

    /// The directory of the stored results.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes results older than [`StoreLimits::max_age`]. Errors are ignored. Blocks on the file
    /// system.
    pub fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let age = entry.metadata().and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
            if age.is_some_and(|age| self.limits.max_age < age) {
                std::fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// Sweeps the stores of all sessions in `sessions`, since a session that is never opened again does
    /// not sweep its own. `name` is the name of the store's directory within each session's directory.
    /// Directories that become empty are removed. Blocks on the file system.
    pub fn sweep_all(sessions: &Path, name: &str, limits: StoreLimits) {
        let Ok(entries) = std::fs::read_dir(sessions) else { return };
        for session in entries.flatten().map(|entry| entry.path()) {
            let store = Self::new(session.join(name), limits);
            store.sweep();
            // `remove_dir` fails unless the directory is empty.
            if std::fs::remove_dir(store.dir()).is_ok() {
                std::fs::remove_dir(session).ok();
            }
        }
    }

    /// Returns `content` unchanged if its text has at most `limit` characters or there is no limit.
    /// Otherwise stores the text and returns a preview with the path. Images and documents are kept and
    /// do not count.
    pub async fn fit(&self, call_id: &str, content: Content, limit: Option<usize>) -> Content {
        let Some(limit) = limit else { return content };
        // Bytes bound characters from above, so most results are not counted.
        let bytes: usize = content.0.iter().filter_map(Block::as_text).map(str::len).sum();
        if bytes <= limit || content.chars() <= limit {
            return content;
        }
        let full = content.to_text();
        let rest: Vec<Block> = content.0.into_iter().filter(|block| block.as_text().is_none()).collect();
        let store = self.clone();
        let file_name = file_name(call_id);
        let fitted = tokio::task::spawn_blocking(move || store.fit_text(&file_name, &full, limit)).await;
        let text =
            fitted.unwrap_or_else(|_| String::from("[the result was too large and could not be stored]"));
        let mut blocks = vec![Block::text(text)];
        blocks.extend(rest);
        Content(blocks)
    }

    fn fit_text(&self, file_name: &str, full: &str, limit: usize) -> String {
        let (chars, lines) = (full.chars().count(), full.lines().count());
        let note = match self.store(file_name, full.as_bytes()) {
            Ok(path) => format!(
                "[This result has {chars} characters in {lines} lines, more than fit here. All of it is in {}: \
                 read parts of it with Read (offset, limit) or search it with Grep. A preview:]",
                path.display()
            ),
            Err(err) => format!(
                "[This result had {chars} characters in {lines} lines, more than fit here, and could not be \
                 stored ({err}). What is not shown is lost; narrow the call to see it. A preview:]"
            ),
        };
        let budget = self.limits.preview_chars.min(limit);
        let shown = preview(full, budget);
        // The notes in the preview may exceed its budget a little.
        format!("{note}\n{}", text::head(&shown, budget + 400))
    }

    /// Writes to a temporary file and renames it, so that a full disk leaves no partial result.
    fn store(&self, file_name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        create_private_dir(&self.dir)?;
        if self.limits.total_bytes < bytes.len() as u64 {
            let message = format!("over the quota of {} bytes", self.limits.total_bytes);
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        self.make_room(bytes.len() as u64)?;
        let path = self.dir.join(file_name);
        haft_paths::replace_file(&path, bytes, ModeOnReplace::Private, Durability::Whenever)?;
        Ok(path)
    }

    fn make_room(&self, wanted: u64) -> io::Result<()> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let after = match *used {
            Some(before) if before + wanted <= self.limits.total_bytes => before,
            _ => self.remove_oldest(wanted)?,
        };
        *used = Some(after + wanted);
        Ok(())
    }

    /// Deletes the oldest results until `wanted` more bytes fit into the quota. Returns the bytes that
    /// remain.
    fn remove_oldest(&self, wanted: u64) -> io::Result<u64> {
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(&self.dir)?.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_file() {
                kept.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len(), entry.path()));
            }
        }
        let mut total: u64 = kept.iter().map(|it| it.1).sum();
        kept.sort();
        for (_, size, path) in kept {
            if total + wanted <= self.limits.total_bytes {
                break;
            }
            std::fs::remove_file(path)?;
            total -= size;
        }
        Ok(total)
    }
}

/// Returns a safe file name for a call id. The id is chosen by the provider and could contain path
/// separators.
fn file_name(call_id: &str) -> String {
    format!("{}.txt", crate::wire_name(call_id))
}

#[cfg(unix)]
fn create_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
