//! Findings of a health check, as text.

use std::path::Path;

use crate::EngineFinding;

/// A finding under construction.
pub(crate) struct HealthFinding(EngineFinding);

pub(crate) fn finding(what: &'static str, is_good: bool, said: String) -> HealthFinding {
    HealthFinding(EngineFinding { what, is_good, said, advice: None })
}

impl HealthFinding {
    /// Adds advice, unless the finding is good.
    pub(crate) fn advice(mut self, advice: &str) -> Self {
        self.0.advice = (!self.0.is_good).then(|| advice.to_owned());
        self
    }

    pub(crate) fn done(self) -> EngineFinding {
        self.0
    }
}

/// Bytes of free space below which a warning is given.
const LITTLE: u64 = 512 * 1_024 * 1_024;

/// Checks the free space of a directory.
pub(crate) fn room(path: &Path) -> EngineFinding {
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
    match rustix::fs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.f_bavail * stat.f_frsize;
            let said = format!("{} MB free in {}", free / 1_048_576, dir.display());
            finding("room", free >= LITTLE, said).advice("make room: writing stops when there is none").done()
        }
        Err(err) => finding("room", false, format!("{}: {err}", dir.display())).done(),
    }
}
