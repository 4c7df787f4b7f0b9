use std::sync::Arc;

use haft_tool::{AllowReason, CallContext, DynCall, OpenScope, Verdict};
use haft_types::PermissionMode;

use crate::{Behavior, Decision, Opinion, Source};

/// Everything that decides, as one value. Immutable: a change makes a new one.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// What happens to calls no rule speaks about.
    pub mode: PermissionMode,
}

impl Policy {
    /// Takes over a change.
    pub fn apply(&mut self, update: &crate::PermissionUpdate) {
        if let crate::PermissionUpdate::SetMode { mode, .. } = update {
            self.mode = *mode;
        }
    }

    /// Counts this directory as part of the workspace.
    pub fn add_directory(&mut self, _directory: std::path::PathBuf) {}

    /// Whether a call may run, and why.
    pub fn judge(&self, _tool: &str, call: &dyn DynCall, cx: &CallContext, _hook: &Opinion) -> Decision {
        let (behavior, reason) = match call.check_permissions(cx) {
            Verdict::Deny(reason) => (Behavior::Deny, reason),
            Verdict::Ask(reason) | Verdict::Insist(reason) => (Behavior::Ask, reason),
            Verdict::Allow => (Behavior::Allow, String::from("the tool allows it")),
            Verdict::Passthrough if call.is_read_only() => (Behavior::Allow, String::from("it only reads")),
            Verdict::Passthrough => (Behavior::Ask, String::from("no rule allows it")),
        };
        Decision {
            behavior,
            reason,
            source: Source::Other,
            parts: Vec::new(),
            suggestions: Vec::new(),
            allowed_by: AllowReason::Mode,
            grants: Vec::new(),
            scope: Arc::new(OpenScope),
        }
    }
}
