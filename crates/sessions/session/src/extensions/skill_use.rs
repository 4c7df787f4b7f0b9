//! Counts uses of skills, to order shortened lists.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    time::{SystemTime, UNIX_EPOCH},
};

use haft_paths::{Durability, ModeOnReplace, replace_file};
use serde::{Deserialize, Serialize};

/// Half-life of a use in seconds: one week.
const HALF_LIFE: f64 = 7.0 * 86_400.0;
/// Counts below this are dropped.
const LEAST: f64 = 0.01;

/// Use counts, stored below a state directory.
#[derive(Clone, Debug)]
pub(super) struct SkillUses {
    file: PathBuf,
}

/// Decayed count of one skill at its last use.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
struct SkillUse {
    uses: f64,
    /// Time of the last use, in seconds since the Unix epoch.
    at: f64,
}

impl SkillUse {
    fn now(self, now: f64) -> f64 {
        self.uses * 0.5_f64.powf((now - self.at).max(0.0) / HALF_LIFE)
    }
}

impl SkillUses {
    pub(super) fn at(state: &std::path::Path) -> Self {
        Self { file: state.join("skill-uses.json") }
    }

    fn read(&self) -> BTreeMap<String, SkillUse> {
        let bytes = std::fs::read(&self.file).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// The current decayed counts by skill.
    pub(super) fn counts(&self) -> HashMap<String, f64> {
        let now = seconds();
        let counted = self.read().into_iter().map(|(name, it)| (name, it.now(now)));
        counted.filter(|(_, count)| LEAST < *count).collect()
    }

    /// Records a use. Write errors are ignored: the counts only affect the order of a list.
    pub(super) fn note(&self, name: &str) {
        let now = seconds();
        let mut all = self.read();
        all.retain(|_, it| LEAST < it.now(now));
        let uses = all.get(name).map_or(0.0, |it| it.now(now)) + 1.0;
        all.insert(name.to_owned(), SkillUse { uses, at: now });
        if let Ok(bytes) = serde_json::to_vec(&all) {
            replace_file(&self.file, &bytes, ModeOnReplace::KeptOr(0o600), Durability::Whenever).ok();
        }
    }
}

fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_counted_and_fade() {
        let dir = tempfile::tempdir().expect("a directory");
        let uses = SkillUses::at(dir.path());
        assert!(uses.counts().is_empty());
        uses.note("a");
        uses.note("a");
        uses.note("b");
        let counts = uses.counts();
        assert!(1.9 < counts["a"] && counts["b"] <= 1.0, "{counts:?}");
        let week_ago = SkillUse { uses: 4.0, at: seconds() - HALF_LIFE };
        assert!((week_ago.now(seconds()) - 2.0).abs() < 0.01);
        std::fs::write(dir.path().join("skill-uses.json"), "{torn").expect("it can be written");
        assert!(uses.counts().is_empty());
        uses.note("c");
        assert_eq!(uses.counts().len(), 1);
    }
}
