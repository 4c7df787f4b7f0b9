//! What was found out about a repository holds as long as nothing it came from
//! has changed.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

use haft_git::RepositoryConfig;

/// Seconds after which a file that changed again shows another time.
const SETTLED: i64 = 2;
/// Directories that are remembered.
const MOST: usize = 64;

/// What is known, by the directory that was asked about.
#[derive(Default)]
pub(super) struct RepositoryCache(Mutex<HashMap<PathBuf, Known>>);

#[derive(Clone)]
struct Known {
    facts: RepositoryConfig,
    stamps: Vec<(PathBuf, CacheStamp)>,
}

/// How a file was: nothing where there was none. Who writes to it or replaces it
/// changes this, and cannot change it back.
type CacheStamp = Option<(u64, u64, u64, i64, i64)>;

fn stamp(path: &Path) -> CacheStamp {
    let about = fs::symlink_metadata(path).ok()?;
    Some((about.dev(), about.ino(), about.size(), about.ctime(), about.ctime_nsec()))
}

impl RepositoryCache {
    /// What is known of a directory and still holds. Looks at the disk.
    pub(super) fn get(&self, dir: &Path) -> Option<RepositoryConfig> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(dir).cloned()?;
        known.stamps.iter().all(|(path, was)| stamp(path) == *was).then_some(known.facts)
    }

    /// Remembers what was found out from `began` on, where everything it came from
    /// can be looked at again: not where the repository includes other files, not
    /// where there are no files, and not what changed meanwhile or just before.
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

/// Everything that decides which repository it is and how it is configured.
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
    // A repository that comes nearer is another one.
    for between in dir.ancestors().take_while(|it| it.starts_with(top)) {
        paths.extend([between.join(".git"), between.join("HEAD")]);
    }
    if paths.iter().any(|it| !it.is_absolute()) {
        return None;
    }
    // The directory of git's changes all the time; that it is the same one is enough.
    let mut stamps: Vec<(PathBuf, CacheStamp)> = Vec::new();
    for path in paths.into_iter().filter(|it| !it.is_dir()) {
        let stamp = stamp(&path);
        stamps.push((path, stamp));
    }
    Some(stamps)
}
