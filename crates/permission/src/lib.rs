//! Rules × mode × opinions → one explained decision, and the only place that
//! issues a [`Permit`](haft_tool::Permit).
//!
//! **Does not know** hooks, terminals, hosts or settings files: it judges
//! values, and whoever asks a person does so outside.
//!
//! **Invariant:** the order is hook deny → deny rules → ask rules → the tool's
//! safety checks → mode → allow rules; what is left asks. The strictest opinion
//! wins; adding a deny or ask never weakens a decision.
//!
//! **Invariant:** every decision names the parts it judged, the rule that
//! decided each, and the reason.

mod decision;
mod policy;
mod update;

pub use decision::{Behavior, Decision, Opinion, Part, Source};
pub use policy::Policy;
pub use update::{Destination, PermissionUpdate, RuleList, RuleText};
