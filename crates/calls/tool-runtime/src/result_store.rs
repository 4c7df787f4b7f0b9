use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use haft_paths::{Durability, ModeOnReplace};
use haft_types::{Block, Content, text};

use crate::excerpt::preview;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct StoreLimits {
    /// Characters of a stored result that the model still sees.
    pub preview_chars: usize,
    /// Bytes of all results of a session together; the oldest make room.
    pub total_bytes: u64,
    /// Results older than this are removed when a store is opened.
    pub max_age: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self { preview_chars: 8_000, total_bytes: 512 << 20, max_age: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

/// Keeps large results out of the context window: the full text goes to the
/// session's directory, the model gets its size, its path and a preview.
///
/// **Invariant:** a result that cannot be stored is cut, with a note. It never
/// goes to the model whole, and it never fails the call.
#[derive(Clone, Debug)]
pub struct ResultStore {
    dir: PathBuf,
    limits: StoreLimits,
    /// Bytes in the directory, or more: counted once, then added up, and counted
    /// again only when they seem to be too many. A session stores thousands.
    used: Arc<Mutex<Option<u64>>>,
}

impl ResultStore {
    /// Results of one session go to `dir`, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>, limits: StoreLimits) -> Self {
        Self { dir: dir.into(), limits, used: Arc::default() }
    }

    /// Where the results are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Removes results that are older than the age limit. Errors are left for
    /// the next time: nothing depends on this. Blocks.
    pub fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.dir) else { return };
        for entry in entries.flatten() {
            let age = entry.metadata().and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
            if age.is_some_and(|age| self.limits.max_age < age) {
                std::fs::remove_file(entry.path()).ok();
            }
        }
    }

    /// The same for every session below `sessions`: a store whose session is
    /// never opened again is nobody else's to sweep. `name` is what the stores
    /// are called in the directories of their sessions; what becomes empty goes.
    pub fn sweep_all(sessions: &Path, name: &str, limits: StoreLimits) {
        let Ok(entries) = std::fs::read_dir(sessions) else { return };
        for session in entries.flatten().map(|entry| entry.path()) {
            let store = Self::new(session.join(name), limits);
            store.sweep();
            // Only what is empty is removed.
            if std::fs::remove_dir(store.dir()).is_ok() {
                std::fs::remove_dir(session).ok();
            }
        }
    }

    /// Returns the content as it is if it fits, else stores it and returns a
    /// preview with the path. Pictures and documents do not count.
    pub async fn fit(&self, call_id: &str, content: Content, limit: Option<usize>) -> Content {
        let Some(limit) = limit else { return content };
        // Bytes bound characters: the usual small result is not even counted.
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
        // The preview's own notes may take a little more than its budget.
        format!("{note}\n{}", text::head(&shown, budget + 400))
    }

    /// Writes beside and renames, so that a full disk leaves no half result.
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

    /// Makes room for so many bytes, and says how many there are then.
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

/// A call id is the provider's text: it names a file only after a look at it.
fn file_name(call_id: &str) -> String {
    format!("{}.txt", crate::wire_name(call_id))
}

#[cfg(unix)]
fn create_private_dir(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}
