use std::path::Path;

use haft_paths::ResolvedPath;

use super::{
    DecisionStrength, FileKnowledge, Level, PartialDecision, SubjectFile, by_rule, path::PathRuleSource,
};
use crate::{
    Behavior, FileMention, FileUseScope,
    glob_expansion::PathShape,
    path_matcher::PathUse,
    protected_paths::protection,
    reason::{CallAction, ReasonDetail},
};

/// Maximum directory entries examined.
const MAX_ENTRIES: usize = 4096;

impl Level<'_> {
    /// Decides whether a command may use a file it names.
    pub(super) fn file(&self, file: &SubjectFile) -> PartialDecision {
        let ruling = match &file.what {
            FileKnowledge::Spotted(spotted) => self.path(file.using, spotted, PathRuleSource::Nobody),
            FileKnowledge::Shape(shape) => {
                let fine = || PartialDecision::allowed(ReasonDetail::CommandReads);
                self.shape_forbidden(shape, file.using).unwrap_or_else(fine)
            }
            FileKnowledge::Unknown(text) => self.unknown(text),
        };
        self.below(file).into_iter().fold(ruling, PartialDecision::stricter)
    }

    /// Restrictions on the use that apply regardless of who allows the command.
    pub(super) fn file_forbidden(&self, file: &SubjectFile) -> Option<PartialDecision> {
        match &file.what {
            FileKnowledge::Spotted(Ok(spotted)) => {
                self.path_forbidden(file.using, spotted, PathRuleSource::Nobody)
            }
            FileKnowledge::Spotted(Err(_)) if file.through == FileMention::Mention => None,
            FileKnowledge::Spotted(Err(problem)) => {
                Some(PartialDecision::denied(ReasonDetail::Path(*problem)))
            }
            FileKnowledge::Shape(shape) => self.shape_forbidden(shape, file.using),
            FileKnowledge::Unknown(_) => None,
        }
    }

    /// Forbidden or protected paths below a directory that is used as a whole. No prompt is needed if a
    /// sandbox enforces the rule.
    pub(super) fn below(&self, file: &SubjectFile) -> Option<PartialDecision> {
        let FileKnowledge::Spotted(Ok(spotted)) = &file.what else { return None };
        let ResolvedPath { lexical, real } = &spotted.located;
        let asks = match file.reach {
            FileUseScope::Itself => return None,
            FileUseScope::Tree => !self.policy.is_enforced(),
            FileUseScope::History => true,
        };
        if asks {
            let paths = self.policy.rules().paths(self.anchors());
            let found = [lexical, real].into_iter().find_map(|dir| paths.find_below(dir, file.using));
            if let Some(rule) = found {
                let why = ReasonDetail::Below { rule: rule.entry.clone(), path: lexical.clone() };
                return Some(PartialDecision::new(DecisionStrength::Guarded, why));
            }
        }
        match file.using {
            PathUse::Read => None,
            PathUse::Write => self.protected_inside(lexical, real),
        }
    }

    /// Protected paths directly in a directory, or the directory itself if it is protected. The message
    /// uses the path as named in the command.
    fn protected_inside(&self, named: &Path, dir: &Path) -> Option<PartialDecision> {
        let own = &self.anchors().own;
        let guarded = |path: &Path, reason, inside| {
            let why = ReasonDetail::Protected { path: path.to_owned(), real: None, inside, reason };
            Some(PartialDecision::new(DecisionStrength::Guarded, why))
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

    /// A rule that forbids a file which the glob would match once it exists.
    fn shape_forbidden(&self, shape: &PathShape, using: PathUse) -> Option<PartialDecision> {
        let paths = self.policy.rules().paths(self.anchors());
        let (rule, path) = paths.find_named(shape, using)?;
        let why = by_rule(rule, CallAction::Path { path, using });
        Some(match rule.slot() {
            Behavior::Deny => PartialDecision::denied(why),
            Behavior::Allow | Behavior::Ask => PartialDecision::firm(why),
        })
    }

    /// A file known only at run time may be a forbidden one, so rules about the command do not cover it.
    fn unknown(&self, text: &str) -> PartialDecision {
        let risky = self.policy.rules().forbids_paths() && !self.policy.is_enforced();
        let standing = if risky { DecisionStrength::Guarded } else { DecisionStrength::Open };
        PartialDecision::new(standing, ReasonDetail::UnknownFile(text.to_owned()))
    }
}
