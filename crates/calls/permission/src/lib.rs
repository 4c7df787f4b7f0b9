//! Permission engine: combines rules, mode and opinions into one explained decision. The only issuer of
//! a [`Permit`](haft_tool::Permit).
//!
//! **Does not know** hooks, terminals, hosts or settings files: it evaluates values, and callers prompt the user. It does not parse shell syntax: a [`CommandJudge`] does.
//!
//! **Invariant:** the order is hook deny → deny rules → ask rules → the tool's safety checks → mode → allow rules; everything else asks. The strictest opinion wins. Adding a deny or ask rule never weakens a decision, adding an allow rule never changes a denial, and the order of rules does not matter.
//!
//! **Invariant:** every decision lists the evaluated parts, the rule that determined each, and the reason.
//!
//! **Invariant:** an agent never has more rights than its parents, except for what the user granted to it alone.
//!
//! **Invariant:** what cannot be evaluated with certainty is not allowed: an unparsable rule asks, an unresolvable path is denied.

mod agent_rights;
mod builder;
mod checkouts;
mod classifier;
mod command;
mod command_judge;
mod config_files;
mod decision;
mod denied_paths;
mod display_text;
mod evaluate;
mod glob_expansion;
mod live_policy;
mod names_in_text;
mod path_matcher;
mod permission_update;
mod plain_words_judge;
mod policy;
mod policy_dirs;
mod preview_update;
mod protected_paths;
mod read_scope;
mod reason;
mod rule;
mod rule_applies;
mod ruleset;
mod same_file;
mod spelling;
mod suggest_updates;
mod tool_names;

pub use agent_rights::{AgentRights, DelegatedRight, ExcludedDir};
pub use builder::PolicyBuilder;
pub use classifier::{Classifier, ClassifierAnswer, ClassifierRequest, SpeculativeAnswer};
pub use command::{BashJudge, RunningCommands, SessionCommands};
pub use command_judge::{
    AlwaysAskReason, CommandAnalysis, CommandContext, CommandJudge, CommandNature, CommandPart, FileMention,
    FileTarget, FileUse, FileUseKind, FileUseScope, RuleCoverage, RuleForm,
};
pub use decision::{Behavior, Decision, DecisionSource, HookOpinion, JudgedPart, LevelDecision};
pub use live_policy::LivePermissions;
pub use permission_update::{Destination, PermissionUpdate, RuleList, RuleText};
pub use plain_words_judge::PlainWordsJudge;
pub use policy::{OutsideWorkspace, PathRuleReach, Policy, ReadOnlyEnforced, SandboxedAskPolicy};
pub use preview_update::{UpdatePreview, explain, preview};
pub use rule::{RuleEntry, RuleSource, RuleWarning};
pub use tool_names::Names;
