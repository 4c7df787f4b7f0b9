use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::atomic::Ordering,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::{EntryAttachments, Journal, JournalEntry, content_store::read_dir};
use crate::ContentHash;

/// Limits of a journal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct JournalLimits {
    /// Maximum bytes of stored content; the oldest entries are removed first.
    pub quota: u64,
    /// Maximum age of entries.
    pub lifetime: Duration,
}

impl Default for JournalLimits {
    fn default() -> Self {
        Self { quota: 1024 * 1024 * 1024, lifetime: Duration::from_secs(30 * 24 * 60 * 60) }
    }
}

/// Interval of automatic pruning.
const INTERVAL: Duration = Duration::from_secs(6 * 60 * 60);

/// Content this recent may belong to a change that is not in the log yet.
const YOUNG: Duration = Duration::from_secs(60);

impl Journal {
    /// Prunes if the interval has passed.
    pub(super) fn prune_if_due(&self) {
        let mark = self.dir.join("pruned");
        let age = fs::metadata(&mark).and_then(|it| it.modified()).ok().and_then(|it| it.elapsed().ok());
        match age {
            Some(age) if age < INTERVAL => (),
            // A new journal has nothing to prune.
            None => touch(&mark),
            Some(_) => {
                touch(&mark);
                self.prune();
            }
        }
    }

    /// Prunes when an eighth of the quota has been added.
    pub(super) fn prune_if_grown(&self, added: u64) {
        let total = self.added.fetch_add(added, Ordering::Relaxed) + added;
        if self.limits.quota / 8 < total {
            self.added.store(0, Ordering::Relaxed);
            self.prune();
        }
    }

    /// Removes entries beyond the age or size limit, and content that nothing refers to.
    pub fn prune(&self) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let Ok(entries) = self.entries() else { return };
        let objects = self.store.objects();
        let sizes: HashMap<ContentHash, u64> =
            objects.iter().filter_map(|it| it.hash.map(|hash| (hash, it.len))).collect();
        let oldest_time = millis(now.saturating_sub(self.limits.lifetime));
        let mut seen = HashSet::new();
        let mut size = 0_u64;
        let mut kept = HashSet::new();
        for entry in entries.iter().rev() {
            let new: Vec<ContentHash> = hashes(entry).filter(|hash| seen.insert(*hash)).collect();
            size += new.iter().filter_map(|hash| sizes.get(hash)).sum::<u64>();
            if entry.time <= oldest_time || self.limits.quota < size {
                break;
            }
            kept.insert(entry.id.clone());
        }
        // Entries added meanwhile are kept.
        let looked_at: HashSet<_> = entries.iter().map(|entry| entry.id.clone()).collect();
        let keep = |entry: &JournalEntry| kept.contains(&entry.id) || !looked_at.contains(&entry.id);
        let Ok(remaining) = self.log.retain(keep) else { return };
        let mut referenced: HashSet<ContentHash> = remaining.iter().flat_map(hashes).collect();
        referenced.extend(held(&self.dir.join("commands")));
        self.prune_attributes(&remaining.iter().map(|entry| entry.id.as_str()).collect());
        let young = i64::try_from(now.saturating_sub(YOUNG).as_secs()).unwrap_or(0);
        let besides: Vec<EntryAttachments> = remaining.iter().map(|entry| self.beside(&entry.id)).collect();
        self.prune_kept_names(&besides, young);
        for object in objects {
            let wanted = object.hash.is_some_and(|hash| referenced.contains(&hash));
            if !wanted && object.since < young {
                fs::remove_file(object.path).ok();
            }
        }
    }
}

/// Content referenced by commands in progress, which may run for hours: every hash found in files below
/// `dir`.
fn held(dir: &Path) -> HashSet<ContentHash> {
    const KEY: &str = "\"hash\":\"";
    let mut found = HashSet::new();
    for path in read_dir(dir).flat_map(|dir| read_dir(&dir).collect::<Vec<_>>()) {
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let named =
            text.split(KEY).skip(1).filter_map(|rest| rest.split('"').next()?.parse::<ContentHash>().ok());
        found.extend(named);
    }
    found
}

fn touch(mark: &Path) {
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(mark);
    file.and_then(|file| file.set_modified(SystemTime::now())).ok();
}

fn hashes(entry: &JournalEntry) -> impl Iterator<Item = ContentHash> {
    entry.changes.iter().flat_map(|change| [change.before.hash(), change.after.hash()]).flatten()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prune_keeps_content_of_running_commands() {
        let dir = tempfile::tempdir().unwrap();
        let hash = ContentHash::hash(b"before");
        let state = crate::FileState::File { hash, len: 6, mode: 0o644 };
        let session = dir.path().join("session");
        fs::create_dir(&session).unwrap();
        fs::write(session.join("tree-1"), serde_json::to_vec(&vec![("path", state)]).unwrap()).unwrap();
        fs::write(session.join("lock"), "").unwrap();
        assert_eq!(held(dir.path()), HashSet::from([hash]));
    }
}
