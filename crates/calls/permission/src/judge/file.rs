use std::path::Path;

use haft_paths::Located;

use super::{FileSpot, FileWhat, Level, Ruling, RulingStanding, by_rule, path::PathSpeaker};
use crate::{
    Behavior, FileReach, Through,
    expansion::PathShape,
    matcher::PathUse,
    protected::protection,
    reason::{CallAction, Why},
};

/// As many entries of a directory as are looked at.
const MAX_ENTRIES: usize = 4096;

impl Level<'_> {
    /// Whether a command may use a file it names.
    pub(super) fn file(&self, file: &FileSpot) -> Ruling {
        let ruling = match &file.what {
            FileWhat::Spotted(spotted) => self.path(file.using, spotted, PathSpeaker::Nobody),
            FileWhat::Shape(shape) => {
                let fine = || Ruling::allowed(Why::CommandReads);
                self.shape_forbidden(shape, file.using).unwrap_or_else(fine)
            }
            FileWhat::Unknown(text) => self.unknown(text),
        };
        self.below(file).into_iter().fold(ruling, Ruling::stricter)
    }

    /// What forbids the use, or insists on asking about it, whoever speaks for
    /// the command.
    pub(super) fn file_forbidden(&self, file: &FileSpot) -> Option<Ruling> {
        match &file.what {
            FileWhat::Spotted(Ok(spotted)) => self.path_forbidden(file.using, spotted, PathSpeaker::Nobody),
            FileWhat::Spotted(Err(_)) if file.through == Through::Mention => None,
            FileWhat::Spotted(Err(problem)) => Some(Ruling::denied(Why::Path(*problem))),
            FileWhat::Shape(shape) => self.shape_forbidden(shape, file.using),
            FileWhat::Unknown(_) => None,
        }
    }

    /// What a rule forbids below a directory that is used as a whole, or what
    /// is protected there. A sandbox needs no question: it keeps the rule.
    pub(super) fn below(&self, file: &FileSpot) -> Option<Ruling> {
        let FileWhat::Spotted(Ok(spotted)) = &file.what else { return None };
        let Located { lexical, real } = &spotted.located;
        let asks = match file.reach {
            FileReach::Itself => return None,
            FileReach::Tree => !self.policy.is_enforced(),
            FileReach::History => true,
        };
        if asks {
            let paths = self.policy.rules().paths(self.anchors());
            let found = [lexical, real].into_iter().find_map(|dir| paths.find_below(dir, file.using));
            if let Some(rule) = found {
                let why = Why::Below { rule: rule.entry.clone(), path: lexical.clone() };
                return Some(Ruling::new(RulingStanding::Guarded, why));
            }
        }
        match file.using {
            PathUse::Read => None,
            PathUse::Write => self.protected_inside(lexical, real),
        }
    }

    /// What is protected in a directory, or the directory itself where it is: a
    /// reader looks for the name in the command.
    fn protected_inside(&self, named: &Path, dir: &Path) -> Option<Ruling> {
        let own = &self.anchors().own;
        let guarded = |path: &Path, reason, inside| {
            let why = Why::Protected { path: path.to_owned(), real: None, inside, reason };
            Some(Ruling::new(RulingStanding::Guarded, why))
        };
        if let Some(reason) = protection(dir, own) {
            return dir.is_dir().then(|| guarded(named, reason, None)).flatten();
        }
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().take(MAX_ENTRIES);
        let mut found: Vec<_> =
            entries.filter_map(|entry| Some((entry.path(), protection(&entry.path(), own)?))).collect();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let (path, reason) = found.into_iter().next()?;
        guarded(named, reason, Some(path))
    }

    /// A file that a pattern would find once it exists.
    fn shape_forbidden(&self, shape: &PathShape, using: PathUse) -> Option<Ruling> {
        let paths = self.policy.rules().paths(self.anchors());
        let (rule, path) = paths.find_named(shape, using)?;
        let why = by_rule(rule, CallAction::Path { path, using });
        Some(match rule.slot() {
            Behavior::Deny => Ruling::denied(why),
            Behavior::Allow | Behavior::Ask => Ruling::firm(why),
        })
    }

    /// A file that is known only when the command runs: it may be one that a
    /// rule forbids, and then no rule about the command speaks for it.
    fn unknown(&self, text: &str) -> Ruling {
        let risky = self.policy.rules().forbids_paths() && !self.policy.is_enforced();
        let standing = if risky { RulingStanding::Guarded } else { RulingStanding::Open };
        Ruling::new(standing, Why::UnknownFile(text.to_owned()))
    }
}
