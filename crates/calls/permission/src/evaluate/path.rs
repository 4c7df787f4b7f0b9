use std::path::Path;

use haft_paths::{PathError, ResolvedPath};
use haft_types::PermissionMode;

use super::{DecisionStrength, Level, LevelRole, NeededAllowance, PartialDecision, SubjectPath, by_rule};
use crate::{
    Behavior, OutsideWorkspace, display_text,
    path_matcher::PathUse,
    policy_dirs::PathForm,
    protected_paths::{is_kernel, protection},
    reason::{CallAction, ReasonDetail, RuleLink},
    rule::{Rule, RuleSubject},
    ruleset::RuleSet,
};

/// Which rules apply to a path besides path rules.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PathRuleSource {
    /// Rules about the tool, which declared the path.
    Tool,
    /// None: a command names the path, and rules about commands do not cover files.
    Nobody,
}

impl Level<'_> {
    /// Decides about a path. A deny rule must match one of its forms, an allow rule both.
    pub(super) fn path(
        &self,
        using: PathUse,
        spotted: &Result<SubjectPath, PathError>,
        speaker: PathRuleSource,
    ) -> PartialDecision {
        let spotted = match spotted {
            Ok(spotted) => spotted,
            Err(problem) => {
                return PartialDecision::denied(ReasonDetail::Path(*problem)).about(verb(using).to_owned());
            }
        };
        let located = &spotted.located;
        let allowed = self.path_allowed(using, located, speaker);
        let stricter = [self.path_forbidden(using, spotted, speaker), self.path_guarded(using, located)];
        let ruling = stricter.into_iter().flatten().fold(allowed, PartialDecision::stricter);
        ruling.about(subject(using, located))
    }

    /// Deny and ask rules, and plan mode.
    pub(super) fn path_forbidden(
        &self,
        using: PathUse,
        spotted: &SubjectPath,
        speaker: PathRuleSource,
    ) -> Option<PartialDecision> {
        let located = &spotted.located;
        let by_tool = speaker == PathRuleSource::Tool && self.shielded();
        let shielded = by_tool || self.policy.is_agent() && self.handed_path(using, located).is_some();
        if let LevelRole::Acting = self.role
            && let Some(held) = self.policy.delegated_rules()
            && let Some((rule, _)) = self.path_hit(held, using, spotted, Behavior::Deny)
        {
            return Some(PartialDecision::denied(self.policy.delegate_only(rule)));
        }
        let hit = |behavior| {
            let hit = self.path_hit(self.policy.rules(), using, spotted, behavior);
            hit.filter(|_| !shielded).map(|(rule, via)| path_rule(rule, using, located, via))
        };
        if let Some(why) = hit(Behavior::Deny) {
            return Some(PartialDecision::denied(why));
        }
        if using == PathUse::Write && self.policy.mode == PermissionMode::Plan {
            return Some(PartialDecision::denied(ReasonDetail::Plan(action(using, located))));
        }
        let kept_out = |path: &Path| self.policy.exclusion_reason(path).filter(|_| using == PathUse::Write);
        if let Some(why) = kept_out(&located.lexical).or_else(|| kept_out(&located.real)) {
            return Some(PartialDecision::denied(ReasonDetail::Tool(why)));
        }
        hit(Behavior::Ask).map(PartialDecision::firm)
    }

    /// Restrictions that no rule can lift.
    pub(super) fn path_guarded(&self, using: PathUse, located: &ResolvedPath) -> Option<PartialDecision> {
        if using == PathUse::Read {
            return None;
        }
        let own = &self.anchors().own;
        let path = located.lexical.clone();
        if let Some(reason) = protection(&located.lexical, own) {
            let why = ReasonDetail::Protected { path, real: None, inside: None, reason };
            return Some(PartialDecision::new(DecisionStrength::Guarded, why));
        }
        if let Some(reason) = protection(&located.real, own) {
            let why =
                ReasonDetail::Protected { path, real: Some(located.real.clone()), inside: None, reason };
            return Some(PartialDecision::new(DecisionStrength::Guarded, why));
        }
        let outside = |path: &Path, form| is_kernel(path) && !self.anchors().in_workspace(path, form);
        let kernel = outside(&located.lexical, PathForm::Lexical) || outside(&located.real, PathForm::Real);
        kernel.then(|| {
            PartialDecision::new(DecisionStrength::Guarded, ReasonDetail::Kernel(located.lexical.clone()))
        })
    }

    /// Otherwise the workspace, allow rules, or a prompt decide.
    fn path_allowed(
        &self,
        using: PathUse,
        located: &ResolvedPath,
        speaker: PathRuleSource,
    ) -> PartialDecision {
        let lexical = self.form_allowed(using, located, PathForm::Lexical);
        let real = if located.lexical == located.real {
            lexical.clone()
        } else {
            self.form_allowed(using, located, PathForm::Real)
        };
        match (lexical, real) {
            (Some(lexical), Some(ReasonDetail::Inside { .. })) => PartialDecision::allowed(lexical),
            (Some(_), Some(real)) => PartialDecision::allowed(real),
            (Some(_), None) | (None, _) => {
                match self.tool_allow().filter(|_| speaker == PathRuleSource::Tool) {
                    Some(rule) => PartialDecision::allowed(by_rule(rule, action(using, located))),
                    None => self.path_open(using, located),
                }
            }
        }
    }

    fn path_open(&self, using: PathUse, located: &ResolvedPath) -> PartialDecision {
        let anchors = self.anchors();
        let lexical_in = anchors.in_workspace(&located.lexical, PathForm::Lexical);
        let real_in = anchors.in_workspace(&located.real, PathForm::Real);
        let inside = lexical_in && real_in;
        let forms = || {
            let mut forms = vec![located.lexical.clone(), located.real.clone()];
            forms.dedup();
            forms
        };
        let boundary = self.policy.boundary(using);
        let why = if inside {
            ReasonDetail::NoRule(action(using, located))
        } else {
            ReasonDetail::Outside {
                path: located.lexical.clone(),
                real: lexical_in.then(|| located.real.clone()),
                blocked: boundary == OutsideWorkspace::Deny,
            }
        };
        if !inside && boundary == OutsideWorkspace::Deny {
            return PartialDecision::denied(why);
        }
        let wish = || match using {
            PathUse::Read => NeededAllowance::Read { forms: forms() },
            PathUse::Write => NeededAllowance::Edit { forms: forms(), inside },
        };
        PartialDecision::new(DecisionStrength::Open, why).with_needed_allowance(wish)
    }

    /// What allows one form of a path.
    fn form_allowed(&self, using: PathUse, located: &ResolvedPath, form: PathForm) -> Option<ReasonDetail> {
        let path = match form {
            PathForm::Lexical => &*located.lexical,
            PathForm::Real => &*located.real,
        };
        let anchors = self.anchors();
        let free = match using {
            PathUse::Read => anchors.is_readable(path, form),
            PathUse::Write => self.policy.accepts_edits() && anchors.in_workspace(path, form),
        };
        if free {
            return Some(ReasonDetail::Inside { path: located.lexical.clone(), using });
        }
        let find = |rules: &RuleSet| {
            let rule = rules.paths(anchors).find(path, using, Behavior::Allow)?;
            self.policy.counts(rule).then(|| by_rule(rule, action(using, located)))
        };
        find(self.policy.rules()).or_else(|| match self.role {
            LevelRole::Acting => None,
            LevelRole::Above(received) => find(received),
        })
    }

    /// The rule that matches a path in either form or through another hard link.
    fn path_hit<'s>(
        &self,
        rules: &'s RuleSet,
        using: PathUse,
        spotted: &SubjectPath,
        behavior: Behavior,
    ) -> Option<(&'s Rule, RuleLink)> {
        let located = &spotted.located;
        let paths = rules.paths(self.anchors());
        if let Some(rule) = paths.find(&located.lexical, using, behavior) {
            return Some((rule, RuleLink::Name));
        }
        if located.real != located.lexical
            && let Some(rule) = paths.find(&located.real, using, behavior)
        {
            return Some((rule, RuleLink::Link(located.real.clone())));
        }
        let (rule, named) = paths.find_same_file(|| spotted.linked_id(), using, behavior)?;
        Some((rule, RuleLink::SameFile(named)))
    }

    /// Whether a parent delegated the right to both forms.
    pub(super) fn handed_path(&self, using: PathUse, located: &ResolvedPath) -> Option<()> {
        let LevelRole::Above(received) = self.role else { return None };
        let paths = received.paths(self.anchors());
        paths.find(&located.lexical, using, Behavior::Allow)?;
        paths.find(&located.real, using, Behavior::Allow).map(|_| ())
    }
}

fn path_rule(rule: &Rule, using: PathUse, located: &ResolvedPath, via: RuleLink) -> ReasonDetail {
    match rule.about {
        RuleSubject::Broken(problem) => ReasonDetail::BrokenRule { rule: rule.entry.clone(), problem },
        _ => ReasonDetail::Rule { rule: rule.entry.clone(), action: action(using, located), via },
    }
}

fn action(using: PathUse, located: &ResolvedPath) -> CallAction {
    CallAction::Path { path: located.lexical.clone(), using }
}

fn verb(using: PathUse) -> &'static str {
    match using {
        PathUse::Read => "read",
        PathUse::Write => "write",
    }
}

fn subject(using: PathUse, located: &ResolvedPath) -> String {
    let path = display_text::path(&located.lexical);
    if located.lexical == located.real {
        format!("{} {path}", verb(using))
    } else {
        format!("{} {path} -> {}", verb(using), display_text::path(&located.real))
    }
}
