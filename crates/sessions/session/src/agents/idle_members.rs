//! Idle team members: hooks can give them more work.

use haft_agent::UserInput;
use haft_hooks::{EventInput, HookDecision, HookEvent, HookInput, OtherInput};
use haft_tool_runtime::CallSession;
use haft_types::MessageBlock;
use serde_json::json;

use super::{ChildIdentity, SubagentRegistry};
use crate::SessionEventKind;

/// Maximum number of times in a row that hooks can keep a member from ending.
const MAX_OBJECTIONS: u32 = 20;

/// Counts how often hooks kept a member working.
#[derive(Debug, Default)]
pub(super) struct IdleMember {
    objections: u32,
}

impl IdleMember {
    /// Runs the hooks before a member ends. Returns what it has to do first, if anything.
    pub(super) async fn objection(
        &mut self,
        desk: &SubagentRegistry,
        facts: &ChildIdentity,
        calls: &CallSession,
    ) -> Option<UserInput> {
        let (team, name) = (desk.team()?, facts.name.as_deref()?);
        let hooks = calls.pipeline.gate.hooks().get();
        if !facts.parent.is_main() || !hooks.listens(HookEvent::TeammateIdle) {
            return None;
        }
        let fields = json!({"teammate_name": name, "team_name": team});
        let fields = fields.as_object().cloned().unwrap_or_default();
        let base = calls.pipeline.gate.hook_base(&facts.id, calls.state.cwd.to_path_buf());
        let event = EventInput::from(OtherInput { event: HookEvent::TeammateIdle, subject: None, fields });
        let outcome = hooks.run(&HookInput { base, event, aliases: Vec::new() }).await;
        let HookDecision::Block { reason, .. } = outcome.decision else { return None };
        if outcome.stop.is_some() {
            return None;
        }
        self.objections += 1;
        if MAX_OBJECTIONS < self.objections {
            let text = format!("{name} ends although a hook still objects, {MAX_OBJECTIONS} times by now");
            desk.tell(facts, SessionEventKind::Notice(text));
            return None;
        }
        let text = haft_types::tags::reminder(&format!("A hook keeps you from ending:\n{reason}"));
        Some(UserInput { content: vec![MessageBlock::Text { text }], ..UserInput::default() })
    }
}
