use haft_tool::{CallContext, DynCall, Verdict};

use crate::{
    Behavior, Destination, HookOpinion, Policy, RuleEntry, RuleSource,
    evaluate::{CallSubject, DecisionStrength, Level, LevelRole},
};

impl Policy {
    /// Whether a rule matches a call, as for the `if` of a hook: it does if it would deny the call as a
    /// deny rule, with this policy's workspace and names. The tool's own verdict is ignored.
    pub fn is_about(&self, rule: &str, tool: &str, call: &dyn DynCall, cx: &CallContext) -> bool {
        let mut blueprint = self.inner.blueprint.clone();
        let root = blueprint.places.workspace.as_deref().unwrap_or(&cx.cwd);
        let origin = RuleSource::new("if", Destination::Session).rooted(root);
        blueprint.rules = vec![RuleEntry { behavior: Behavior::Deny, text: rule.into(), origin }];
        blueprint.delegations.clear();
        blueprint.mode = haft_types::PermissionMode::Default;
        let policy = Self::assemble(blueprint, None);
        let tool = policy.inner.blueprint.names.canonical(tool);
        let facts = CallSubject {
            verdict: Verdict::Passthrough,
            ..CallSubject::gather(&policy, tool, call, cx, &HookOpinion::None)
        };
        Level::new(&policy, &facts, LevelRole::Acting).judge().verdict().standing == DecisionStrength::Denied
    }
}
