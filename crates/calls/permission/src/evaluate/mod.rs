//! Evaluates a call for one agent of the chain.

mod command_file;
mod command_line;
mod facts;
mod path;
mod ruling;
mod url_and_name;

use std::{cell::OnceCell, sync::Arc};

use haft_tool::Verdict;
use haft_types::PermissionMode;

pub(crate) use facts::{CallSubject, FileKnowledge, SubjectAccess, SubjectFile, SubjectPath};
pub(crate) use ruling::{DecisionStrength, DecisionTally, NeededAllowance, PartialDecision};

use crate::{
    Behavior, HookOpinion, Policy,
    policy_dirs::ResolvedDirs,
    reason::{CallAction, ReasonDetail, RuleLink},
    rule::{Rule, RuleSubject},
    ruleset::{RuleSet, ToolView},
};

/// Position of an agent relative to the calling one.
#[derive(Clone, Copy)]
pub(crate) enum LevelRole<'a> {
    /// The calling agent itself.
    Acting,
    /// A parent, with the rights it delegated.
    Above(&'a RuleSet),
}

/// One agent's policy applied to one call.
pub(crate) struct Level<'a> {
    policy: &'a Policy,
    facts: &'a CallSubject<'a>,
    role: LevelRole<'a>,
    view: Arc<ToolView>,
    anchors: OnceCell<Arc<ResolvedDirs>>,
}

impl<'a> Level<'a> {
    pub(crate) fn new(policy: &'a Policy, facts: &'a CallSubject<'a>, role: LevelRole<'a>) -> Self {
        let view = policy.rules().view(facts.tool);
        Self { policy, facts, role, view, anchors: OnceCell::new() }
    }

    /// Evaluates the call.
    pub(crate) fn judge(&self) -> DecisionTally {
        let mut tally = DecisionTally::default();
        for ruling in
            [self.by_name(), self.by_verdict(), self.by_hook(), self.by_reach()].into_iter().flatten()
        {
            tally.add(self.settle(ruling));
        }
        for touch in &self.facts.touches {
            match touch {
                SubjectAccess::Path { using, spotted, .. } => {
                    tally.add(self.settle(self.path(*using, spotted, path::PathRuleSource::Tool)));
                }
                SubjectAccess::Command { line, parts, doubt } => {
                    self.line(line, parts, doubt.as_deref(), &mut tally)
                }
                SubjectAccess::Fetch { address, host } => tally.add(self.settle(self.fetch(address, host))),
                SubjectAccess::Named(name) => tally.add(self.settle(self.named(name))),
            }
        }
        tally
    }

    /// Applies the mode and a hook's allow to a partial decision.
    fn settle(&self, ruling: PartialDecision) -> PartialDecision {
        let hook_allows = *self.facts.hook == HookOpinion::Allow;
        let mode = self.policy.mode;
        let tool_asks = matches!(ruling.why, ReasonDetail::Tool(_));
        match ruling.standing {
            DecisionStrength::Open | DecisionStrength::Guarded
                if mode == PermissionMode::BypassPermissions =>
            {
                ruling.with_strength(DecisionStrength::Allowed, |_| ReasonDetail::Bypass)
            }
            DecisionStrength::Open if hook_allows => {
                ruling.with_strength(DecisionStrength::Allowed, |_| ReasonDetail::HookAllows)
            }
            DecisionStrength::Guarded if hook_allows && tool_asks => {
                ruling.with_strength(DecisionStrength::Allowed, |_| ReasonDetail::HookAllows)
            }
            DecisionStrength::Open | DecisionStrength::Guarded | DecisionStrength::Firm
                if mode == PermissionMode::DontAsk =>
            {
                ruling.with_strength(DecisionStrength::Denied, |inner| ReasonDetail::DontAsk {
                    inner: Box::new(inner),
                })
            }
            _ => ruling,
        }
    }

    /// Rules about the tool and its inputs, independent of what the call touches.
    fn by_name(&self) -> Option<PartialDecision> {
        let (facts, rules) = (self.facts, self.policy.rules());
        if let Some(agent) = self.policy.excludes(facts.tool) {
            return Some(PartialDecision::denied(ReasonDetail::NotAmongTools {
                agent,
                tool: facts.tool.to_owned(),
            }));
        }
        if let Some(ruling) = self.delegated_rules() {
            return Some(ruling);
        }
        if self.shielded() || self.policy.is_agent() && self.all_handed_down() {
            return None;
        }
        let action = || CallAction::Tool(facts.tool.to_owned());
        if let Some(rule) = rules.bare(&self.view, Behavior::Deny) {
            return Some(PartialDecision::denied(by_rule(rule, action())));
        }
        let input = facts.call.input();
        if let Some(rule) = rules.input(&self.view, Behavior::Deny, input) {
            return Some(PartialDecision::denied(by_rule(rule, self.input_action(rule))));
        }
        if let Some(rule) = rules.bare(&self.view, Behavior::Ask) {
            return Some(PartialDecision::firm(by_rule(rule, action())));
        }
        if let Some(rule) = rules.input(&self.view, Behavior::Ask, input) {
            return Some(PartialDecision::firm(by_rule(rule, self.input_action(rule))));
        }
        let names_something = facts.touches.iter().any(|touch| matches!(touch, SubjectAccess::Named(_)));
        let rule = rules.incomparable(&self.view).filter(|_| !names_something)?;
        Some(PartialDecision::firm(ReasonDetail::Incomparable(rule.entry.clone())))
    }

    fn input_action(&self, rule: &Rule) -> CallAction {
        let param = rule.param.as_ref().map(|param| param.param.clone()).unwrap_or_default();
        CallAction::Input { tool: self.facts.tool.to_owned(), param }
    }

    /// A right that may only be delegated.
    fn delegated_rules(&self) -> Option<PartialDecision> {
        let LevelRole::Acting = self.role else { return None };
        let held = self.policy.delegated_rules()?;
        let rule = held.bare(&held.view(self.facts.tool), Behavior::Deny)?;
        Some(PartialDecision::denied(self.policy.delegate_only(rule)))
    }

    /// Whether a parent delegated this tool without being allowed to use it. Only its own rules are
    /// skipped, not those of its parents.
    fn shielded(&self) -> bool {
        self.handed_down().is_some() && self.policy.is_agent()
    }

    /// Whether all accesses of the call were delegated individually.
    fn all_handed_down(&self) -> bool {
        let LevelRole::Above(received) = self.role else { return false };
        let handed = |touch: &SubjectAccess| match touch {
            SubjectAccess::Path { using, spotted: Ok(it), .. } => {
                self.handed_path(*using, &it.located).is_some()
            }
            SubjectAccess::Path { spotted: Err(_), .. } => false,
            SubjectAccess::Command { parts, doubt, .. } => {
                doubt.is_none() && parts.iter().all(|(part, _)| self.command_handed(part))
            }
            SubjectAccess::Fetch { host, .. } => {
                host.as_ref().is_ok_and(|host| received.fetch(Behavior::Allow, host).is_some())
            }
            SubjectAccess::Named(name) => {
                received.named(&received.view(self.facts.tool), Behavior::Allow, name).is_some()
            }
        };
        !self.facts.touches.is_empty() && self.facts.touches.iter().all(handed)
    }

    fn handed_down(&self) -> Option<&'a Rule> {
        let LevelRole::Above(received) = self.role else { return None };
        received.bare(&received.view(self.facts.tool), Behavior::Allow)
    }

    fn by_verdict(&self) -> Option<PartialDecision> {
        match &self.facts.verdict {
            Verdict::Passthrough | Verdict::Allow => None,
            Verdict::Ask(text) => {
                Some(PartialDecision::new(DecisionStrength::Guarded, ReasonDetail::Tool(text.clone())))
            }
            Verdict::Insist(text) => Some(PartialDecision::firm(ReasonDetail::Tool(text.clone()))),
            Verdict::Deny(text) => Some(PartialDecision::denied(ReasonDetail::Tool(text.clone()))),
        }
    }

    fn by_hook(&self) -> Option<PartialDecision> {
        match self.facts.hook {
            HookOpinion::None | HookOpinion::Allow => None,
            HookOpinion::Ask(text) => Some(PartialDecision::firm(ReasonDetail::HookAsks(text.clone()))),
            HookOpinion::Deny(text) => Some(PartialDecision::denied(ReasonDetail::HookDenies(text.clone()))),
        }
    }

    /// Decision for a call that touches nothing or does not declare what it touches.
    fn by_reach(&self) -> Option<PartialDecision> {
        let facts = self.facts;
        if facts.declared {
            return facts.touches.is_empty().then(|| PartialDecision::allowed(ReasonDetail::TouchesNothing));
        }
        let action = || CallAction::Tool(facts.tool.to_owned());
        if facts.call.is_read_only() {
            return Some(PartialDecision::allowed(ReasonDetail::OnlyReads));
        }
        if self.policy.mode == PermissionMode::Plan {
            return Some(PartialDecision::denied(ReasonDetail::Plan(action())));
        }
        if facts.verdict == Verdict::Allow {
            return Some(PartialDecision::allowed(ReasonDetail::Harmless));
        }
        Some(match self.tool_allow() {
            Some(rule) => PartialDecision::allowed(by_rule(rule, action())),
            None => PartialDecision::new(DecisionStrength::Open, ReasonDetail::NoRule(action()))
                .with_needed_allowance(|| NeededAllowance::Tool(facts.tool.to_owned())),
        })
    }

    /// The rule that allows every call of the tool.
    fn tool_allow(&self) -> Option<&'a Rule> {
        let own = self.policy.rules().bare(&self.view, Behavior::Allow);
        own.filter(|rule| self.policy.counts(rule)).or_else(|| self.handed_down())
    }

    fn anchors(&self) -> &Arc<ResolvedDirs> {
        self.anchors.get_or_init(|| self.policy.anchors(self.facts.cx))
    }
}

/// The reason of a rule, or that the rule is invalid.
fn by_rule(rule: &Rule, action: CallAction) -> ReasonDetail {
    match rule.about {
        RuleSubject::Broken(problem) => ReasonDetail::BrokenRule { rule: rule.entry.clone(), problem },
        _ => ReasonDetail::Rule { rule: rule.entry.clone(), action, via: RuleLink::Name },
    }
}
