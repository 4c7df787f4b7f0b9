use haft_tool::Verdict;

use super::{DecisionStrength, Level, LevelRole, NeededAllowance, PartialDecision, by_rule};
use crate::{
    Behavior, display_text,
    reason::{CallAction, ReasonDetail},
    rule::Rule,
    ruleset::RuleSet,
};

impl<'a> Level<'a> {
    /// Decides about fetching a URL.
    pub(super) fn fetch(&self, address: &str, host: &Result<String, &'static str>) -> PartialDecision {
        let ruling = match host {
            Err(problem) => PartialDecision::denied(ReasonDetail::Address(problem)),
            Ok(host) => self.by_lookup(
                |rules, behavior| rules.fetch(behavior, host),
                || CallAction::Fetch(host.clone()),
                self.facts.verdict == Verdict::Allow,
                || NeededAllowance::Fetch(host.clone()),
            ),
        };
        ruling.about(format!("fetch {}", display_text::text(address)))
    }

    /// Decides about using a named item.
    pub(super) fn named(&self, name: &str) -> PartialDecision {
        let tool = self.facts.tool;
        let ruling = self.by_lookup(
            |rules, behavior| rules.named(&rules.view(tool), behavior, name),
            || CallAction::Named { tool: tool.to_owned(), name: name.to_owned() },
            self.facts.verdict == Verdict::Allow || self.facts.call.is_read_only(),
            || NeededAllowance::Named { tool: tool.to_owned(), name: name.to_owned() },
        );
        ruling.about(format!("{tool} {}", display_text::text(name)))
    }

    /// Applies deny, ask and allow rules in order, where one lookup suffices.
    fn by_lookup(
        &self,
        find: impl Fn(&'a RuleSet, Behavior) -> Option<&'a Rule>,
        action: impl Fn() -> CallAction,
        harmless: bool,
        wish: impl FnOnce() -> NeededAllowance,
    ) -> PartialDecision {
        let handed = match self.role {
            LevelRole::Above(received) => find(received, Behavior::Allow),
            LevelRole::Acting => {
                if let Some(rule) = self.policy.delegated_rules().and_then(|held| find(held, Behavior::Deny))
                {
                    return PartialDecision::denied(self.policy.delegate_only(rule));
                }
                None
            }
        };
        let rules = self.policy.rules();
        if !(self.shielded() || self.policy.is_agent() && handed.is_some()) {
            if let Some(rule) = find(rules, Behavior::Deny) {
                return PartialDecision::denied(by_rule(rule, action()));
            }
            if let Some(rule) = find(rules, Behavior::Ask) {
                return PartialDecision::firm(by_rule(rule, action()));
            }
        }
        let own = find(rules, Behavior::Allow).filter(|rule| self.policy.counts(rule));
        match own.or_else(|| self.tool_allow()).or(handed) {
            Some(rule) => PartialDecision::allowed(by_rule(rule, action())),
            None if harmless => PartialDecision::allowed(ReasonDetail::Harmless),
            None => PartialDecision::new(DecisionStrength::Open, ReasonDetail::NoRule(action()))
                .with_needed_allowance(wish),
        }
    }
}
