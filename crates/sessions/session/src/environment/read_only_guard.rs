//! Walls around commands that run without a question because they only read.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use haft_sandbox::{ReadOnlyNetwork, ReadOnlyPolicy, ReadOnlySandbox, WITHOUT, installed_programs};
use haft_tool::{PathRestrictions, Permit, ReadNetworkUse};

/// How long the paths that patterns of rules found are believed.
const FENCE_AGE: Duration = Duration::from_secs(3);
/// Finding them is not worth remembering if it took no longer.
const QUICK: Duration = Duration::from_micros(500);

/// Keys and what trusts them: no command that only reads needs them.
const KEYS: &[&str] = &[".ssh", ".gnupg"];

/// Builds these walls, one for each way a session needs them.
#[derive(Default)]
pub(super) struct ReadOnlyGuard {
    programs: OnceLock<Vec<PathBuf>>,
    offline: Mutex<Option<Arc<ReadOnlySandbox>>>,
    online: Mutex<Option<Arc<ReadOnlySandbox>>>,
    fence: Mutex<Option<(Instant, Vec<PathBuf>)>>,
}

/// What the walls depend on.
pub(super) struct ReadOnlyKey<'a> {
    pub(super) roots: &'a [PathBuf],
    pub(super) home: Option<&'a Path>,
    pub(super) scratch: &'a Path,
    /// Our own keys.
    pub(super) keys: Vec<PathBuf>,
}

/// Whether this machine can build them, or why not. Tries it once.
pub(super) fn stands() -> Result<(), String> {
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
    /// The walls for a call.
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

    /// What rules forbid to read. Patterns are looked for in all of the
    /// workspace, so what they found counts for a moment.
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
