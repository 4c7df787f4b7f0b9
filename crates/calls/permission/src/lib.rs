//! Rules × mode × opinions → one explained decision, and the only place that
//! issues a [`Permit`](haft_tool::Permit).
//!
//! **Does not know** hooks, terminals, hosts or settings files: it judges
//! values, and whoever asks a person does so outside. It knows no shell either:
//! a [`CommandJudge`] takes command lines apart.
//!
//! **Invariant:** the order is hook deny → deny rules → ask rules → the tool's
//! safety checks → mode → allow rules; what is left asks. The strictest opinion
//! wins; adding a deny or ask never weakens a decision, adding an allow never
//! changes a deny, and the order of rules does not matter.
//!
//! **Invariant:** every decision names the parts it judged, the rule that
//! decided each, and the reason.
//!
//! **Invariant:** an agent never has more rights than the agents above it.
//!
//! **Invariant:** what cannot be judged with certainty is not allowed: a rule
//! that cannot be read asks, a path that cannot be followed is denied.

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
