//! Sandbox of commands that run without a prompt because they only read.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use haft_sandbox::{ReadOnlyNetwork, ReadOnlyPolicy, ReadOnlySandbox, WITHOUT, installed_programs};
use haft_tool::{PathRestrictions, Permit, ReadNetworkUse};

/// Lifetime of the cached paths that patterns in deny rules match.
const FENCE_AGE: Duration = Duration::from_secs(3);
/// A search faster than this is not cached.
const QUICK: Duration = Duration::from_micros(500);

/// Directories with keys and trust data, hidden from read-only commands.
const KEYS: &[&str] = &[".ssh", ".gnupg"];

/// Builds these sandboxes and caches one per key.
#[derive(Default)]
pub(super) struct ReadOnlyGuard {
    programs: OnceLock<Vec<PathBuf>>,
    offline: Mutex<Option<Arc<ReadOnlySandbox>>>,
    online: Mutex<Option<Arc<ReadOnlySandbox>>>,
    fence: Mutex<Option<(Instant, Vec<PathBuf>)>>,
}

/// The inputs a read-only sandbox depends on.
pub(super) struct ReadOnlyKey<'a> {
    pub(super) roots: &'a [PathBuf],
    pub(super) home: Option<&'a Path>,
    pub(super) scratch: &'a Path,
    /// Files with Haft's own credentials.
    pub(super) keys: Vec<PathBuf>,
}

/// Whether this machine can enforce the sandbox, or why not. Tries it once per process.
pub(super) fn is_supported() -> Result<(), String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    let tried = TRIED.get_or_init(|| {
        let without = std::env::var(WITHOUT).unwrap_or_default();
        let lacks = |name: &str| without.split(',').any(|it| it.trim() == name);
        if lacks("landlock") || lacks("seccomp") {
            Err(String::from("switched off"))
        } else {
            ReadOnlySandbox::build(ReadOnlyPolicy::default()).map(drop)
        }
    });
    tried.clone()
}

impl ReadOnlyGuard {
    /// The sandbox of a call.
    pub(super) fn walls(
        &self,
        talks: ReadNetworkUse,
        permit: &Permit,
        place: &ReadOnlyKey<'_>,
    ) -> Result<Arc<ReadOnlySandbox>, String> {
        let (kept, network) = match talks {
            ReadNetworkUse::No => (&self.offline, ReadOnlyNetwork::Off),
            ReadNetworkUse::Yes => (&self.online, ReadOnlyNetwork::Open),
        };
        let mut hide = self.fenced(permit);
        hide.extend(place.home.iter().flat_map(|home| KEYS.iter().map(|name| home.join(name))));
        hide.extend(place.keys.iter().cloned());
        hide.retain(|path| path.symlink_metadata().is_ok() && !permit.is_shown(path));
        hide.sort();
        hide.dedup();
        let policy = ReadOnlyPolicy {
            scratch: Some(place.scratch.to_owned()),
            hide,
            programs: self.programs.get_or_init(|| installed_programs(place.roots, place.home)).clone(),
            network,
        };
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(walls) = kept.as_ref().filter(|walls| walls.hold(&policy)) {
            return Ok(Arc::clone(walls));
        }
        let walls = ReadOnlySandbox::build(policy)?;
        *kept = Some(Arc::clone(&walls));
        Ok(walls)
    }

    /// Paths that deny rules make unreadable. Matching patterns searches the whole workspace, so the
    /// result is cached for [`FENCE_AGE`].
    fn fenced(&self, permit: &Permit) -> Vec<PathBuf> {
        let mut kept = self.fence.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, paths)) = kept.as_ref().filter(|it| it.0.elapsed() < FENCE_AGE) {
            return paths.clone();
        }
        let started = Instant::now();
        let PathRestrictions { unreadable, .. } = permit.fence();
        let paths: Vec<PathBuf> = unreadable.into_iter().map(|it| it.path).collect();
        *kept = (QUICK < started.elapsed()).then(|| (Instant::now(), paths.clone()));
        paths
    }
}
