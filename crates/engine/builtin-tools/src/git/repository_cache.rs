//! Caches the configuration of repositories until one of the files it came from changes.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use haft_git::RepositoryConfig;

/// Seconds after which a further change of a file certainly changes its timestamp.
const SETTLED: i64 = 2;
/// Maximum number of cached directories; beyond it the cache is cleared.
const MOST: usize = 64;

/// Cached configuration by the directory that was queried.
#[derive(Default)]
pub(super) struct RepositoryCache(Mutex<HashMap<PathBuf, Known>>);

#[derive(Clone)]
struct Known {
    facts: RepositoryConfig,
    stamps: Vec<(PathBuf, CacheStamp)>,
}

/// Identity, size and change time of a file; `None` if it does not exist. Programs cannot set the change
/// time, so any write or replacement shows.
type CacheStamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> CacheStamp {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.size(), about.ctime(), about.ctime_nsec()))
}

impl RepositoryCache {
    /// Returns the configuration if it is still valid. Reads the disk.
    pub(super) fn get(&self, dir: &Path) -> Option<RepositoryConfig> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(dir).cloned()?;
        known.stamps.iter().all(|(path, was)| stamp(path) == *was).then_some(known.facts)
    }

    /// Stores the configuration that was read from `began` on. Not stored: configuration with includes,
    /// bare repositories, and if a file changed since or shortly before.
    pub(super) fn put(&self, dir: &Path, home: Option<&Path>, facts: &RepositoryConfig, began: SystemTime) {
        let Some(stamps) = stamps(dir, home, facts) else { return };
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = i64::try_from(began.as_secs()).unwrap_or(0);
        if stamps.iter().any(|it| it.1.is_some_and(|it| began - it.3 < SETTLED)) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if MOST <= known.len() {
            known.clear();
        }
        known.insert(dir.to_owned(), Known { facts: facts.clone(), stamps });
    }
}

/// Returns the stamps of all files that determine the repository and its configuration. `None` if they
/// cannot all be listed.
fn stamps(dir: &Path, home: Option<&Path>, facts: &RepositoryConfig) -> Option<Vec<(PathBuf, CacheStamp)>> {
    let top = facts.top.as_deref().filter(|it| !facts.includes && dir.starts_with(it))?;
    let mut paths = vec![
        facts.common_dir.join("config"),
        facts.git_dir.join("config.worktree"),
        PathBuf::from("/etc/gitconfig"),
    ];
    if let Some(home) = home {
        paths.extend([home.join(".gitconfig"), home.join(".config/git/config")]);
    }
    paths.extend(facts.origins.iter().cloned());
    // A repository created nearer to the directory would take precedence.
    for between in dir.ancestors().take_while(|it| it.starts_with(top)) {
        paths.extend([between.join(".git"), between.join("HEAD")]);
    }
    if paths.iter().any(|it| !it.is_absolute()) {
        return None;
    }
    // A git directory itself changes all the time, so only files get stamps.
    let mut stamps: Vec<(PathBuf, CacheStamp)> = Vec::new();
    for path in paths.into_iter().filter(|it| !it.is_dir()) {
        let stamp = stamp(&path);
        stamps.push((path, stamp));
    }
    Some(stamps)
}
