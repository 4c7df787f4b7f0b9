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

mod about;
mod agent;
mod auto;
mod builder;
mod checkouts;
mod command;
mod decision;
mod expansion;
mod explain;
mod fence;
mod hardlink;
mod judge;
mod live;
mod matcher;
mod names;
mod names_in_text;
mod obeyed;
mod places;
mod plain;
mod policy;
mod port;
mod protected;
mod reason;
mod rule;
mod ruleset;
mod scope;
mod shown;
mod spelling;
mod suggest;
mod update;

pub use agent::{AgentRights, DelegatedRight, ExcludedDir};
pub use auto::{Classifier, ClassifierAnswer, ClassifierRequest, SpeculativeAnswer};
pub use builder::PolicyBuilder;
pub use command::{BashJudge, RunningCommands, SessionCommands};
pub use decision::{Behavior, Decision, DecisionSource, HookOpinion, JudgedPart, LevelDecision};
pub use explain::{UpdatePreview, explain, preview};
pub use live::LivePermissions;
pub use names::Names;
pub use plain::PlainWordsJudge;
pub use policy::{OutsideWorkspace, PathRuleReach, Policy, ReadOnlyEnforced, SandboxedAskPolicy};
pub use port::{
    AlwaysAskReason, CommandAnalysis, CommandContext, CommandJudge, CommandNature, CommandPart, FileMention,
    FileTarget, FileUse, FileUseKind, FileUseScope, RuleCoverage, RuleForm,
};
pub use rule::{RuleEntry, RuleSource, RuleWarning};
pub use update::{Destination, PermissionUpdate, RuleList, RuleText};
