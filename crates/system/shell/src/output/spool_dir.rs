use std::{
    fs::{DirBuilder, File},
    io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use haft_process::{file_name_of_id, lock_session_file};
use rustix::fs::{FlockOperation, flock};

use crate::output::{Blank, Spool, SpoolLimits, SpoolQuota, redact::redact_outputs};

/// Lock file; locked while the directory's session runs.
const LOCK: &str = "owner.lock";

/// Output directory of one session: private, bounded, and locked so that others can tell whether the
/// session still runs.
#[derive(Debug)]
pub struct SpoolDir {
    dir: PathBuf,
    limits: SpoolLimits,
    quota: Arc<SpoolQuota>,
    /// `None` if nothing is stored on disk.
    _lock: Option<File>,
    /// Redacts secrets when the session ends.
    blank: Option<Arc<dyn Blank>>,
}

impl Drop for SpoolDir {
    fn drop(&mut self) {
        if let Some(blank) = &self.blank {
            redact_outputs(&self.dir, blank.as_ref());
        }
    }
}

impl SpoolDir {
    /// Creates the directory of `session` below `root`.
    pub fn create(
        root: &Path,
        session: &str,
        limits: SpoolLimits,
        quota: Arc<SpoolQuota>,
    ) -> io::Result<Self> {
        let dir = root.join(file_name_of_id(session));
        let lock = lock_session_file(session, || {
            DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            Ok((lock_file(&dir)?, dir.join(LOCK)))
        })?;
        Ok(Self { dir, limits, quota, _lock: Some(lock), blank: None })
    }

    /// Redact secrets in files that stay on disk when the session ends.
    #[must_use]
    pub fn with_redactor(mut self, blank: Option<Arc<dyn Blank>>) -> Self {
        self.blank = blank;
        self
    }

    /// For a disk that cannot be written: outputs stay in memory, limited to what fits there.
    pub fn without_disk(root: &Path, session: &str, limits: SpoolLimits, quota: Arc<SpoolQuota>) -> Self {
        Self { dir: root.join(file_name_of_id(session)), limits, quota, _lock: None, blank: None }
    }

    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The quota shared by all outputs of the session.
    pub fn quota(&self) -> &Arc<SpoolQuota> {
        &self.quota
    }

    /// An empty spool with this name.
    pub fn spool(&self, name: &str) -> Spool {
        let path = self.dir.join(format!("{}.out", file_name_of_id(name)));
        Spool::new(path, self.limits, Arc::clone(&self.quota))
    }

    /// The highest number at the end of the names of existing outputs.
    pub(crate) fn highest_number(&self) -> u64 {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let numbers = names.filter_map(|name| name.strip_suffix(".out")?.rsplit('_').next()?.parse().ok());
        numbers.max().unwrap_or(0)
    }

    /// Deletes directories below `root` of sessions that no longer run and that are older than `keep`.
    /// Ignores errors.
    pub fn sweep(root: &Path, keep: Duration) {
        let Ok(sessions) = std::fs::read_dir(root) else { return };
        for session in sessions.flatten() {
            let dir = session.path();
            let Ok(lock) = lock_file(&dir) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                sweep_session(&dir, keep);
            }
        }
    }
}

fn sweep_session(dir: &Path, keep: Duration) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    let mut left = false;
    for entry in entries.flatten().filter(|entry| entry.file_name() != LOCK) {
        let changed = entry.metadata().and_then(|meta| meta.modified());
        let age = changed.ok().and_then(|it| SystemTime::now().duration_since(it).ok());
        let is_old = age.is_some_and(|age| keep <= age);
        left |= !is_old || std::fs::remove_file(entry.path()).is_err();
    }
    if !left {
        std::fs::remove_file(dir.join(LOCK)).ok();
        std::fs::remove_dir(dir).ok();
    }
}

fn lock_file(dir: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(dir.join(LOCK))
}
