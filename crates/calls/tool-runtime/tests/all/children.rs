//! Calls of sub-agents: one session, one approver and one set of hooks, but their own rights.

use std::sync::{Arc, Mutex};

use haft_hooks::{Callback, HookDefinition, HookEvent, HookHandler, HookPorts, HookSource, Hooks};
use haft_permission::{AgentRights, Behavior, Destination, PermissionUpdate, RuleList, RuleText};
use haft_tool::{BoxFuture, ErrorKind};
use haft_tool_runtime::{Approver, CallSession, PermissionAnswer, PermissionQuestion};
use haft_types::{AgentId, PermissionMode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::common::{Setup, uses};

/// An approver that records which agent asked and permanently allows the tool.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Approver for Recorder {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        self.0.lock().unwrap().push(question.agent_id.to_string());
        let rule = RuleText { tool_name: String::from("Other"), rule_content: None };
        let rules =
            RuleList { rules: vec![rule], behavior: Behavior::Allow, destination: Destination::Session };
        let mode = PermissionMode::AcceptEdits;
        let updates = vec![
            PermissionUpdate::AddRules(rules),
            PermissionUpdate::SetMode { mode, destination: Destination::Session },
        ];
        Box::pin(async { PermissionAnswer::allow_and_keep(updates) })
    }
}

fn told_hooks(told: &Arc<Mutex<Vec<Value>>>) -> Hooks {
    let define = |event| {
        let told = Arc::clone(told);
        let callback = move |call: haft_hooks::HookCall| {
            told.lock().unwrap().push(json!([
                call.json["hook_event_name"],
                call.json["agent_id"],
                call.json["agent_type"],
                call.json["permission_mode"],
            ]));
            async { Ok(json!({}).into()) }
        };
        let handler =
            HookHandler::Callback(Callback { name: String::from("told"), code: Arc::new(callback) });
        HookDefinition::new(event, handler, Arc::new(HookSource::Named(String::from("test"))))
    };
    let events = [HookEvent::PreToolUse, HookEvent::PostToolUse, HookEvent::PostToolBatch];
    Hooks::new(events.into_iter().map(define).collect(), HookPorts::default())
}

fn explorer(parent: &CallSession, id: &str) -> CallSession {
    let rights = AgentRights { name: "explorer".into(), ..AgentRights::default() };
    parent.child(AgentId::from(id), rights)
}

#[tokio::test]
async fn sub_agent_shares_approver_and_hooks() {
    let (told, asked) = (Arc::default(), Arc::new(Recorder::default()));
    let ask = Arc::clone(&asked) as Arc<dyn Approver>;
    let rig = Setup { hooks: told_hooks(&told), ask: Some(ask), ..Setup::default() }.rig();
    let mut child = explorer(&rig.session, "a1");
    let cancel = CancellationToken::new();
    let reports = child.run_message(uses(&[("Probe", json!({"ask": true}))]), &cancel).await;
    assert_eq!(reports[0].error, None, "{}", reports[0].content.to_text());
    assert_eq!(*asked.0.lock().unwrap(), ["a1"]);
    // The user's answer put the sub-agent, and only it, into `acceptEdits` mode.
    let modes = ["default", "acceptEdits", "acceptEdits"];
    let want: Vec<Value> = ["PreToolUse", "PostToolUse", "PostToolBatch"]
        .iter()
        .zip(modes)
        .map(|(event, mode)| json!([event, "a1", "explorer", mode]))
        .collect();
    assert_eq!(*told.lock().unwrap(), want);
    let gate = &rig.session.pipeline.gate;
    assert_eq!(gate.mode(), PermissionMode::Default);
    let rules = gate.permissions().policy();
    assert!(rules.source_rules().iter().any(|rule| &*rule.text == "Other"), "the rule is the session's");
    child.close().await;
    assert!(gate.hooks().get().listens(HookEvent::PreToolUse));
}

#[tokio::test]
async fn child_gates_follow_their_parent() {
    let rig = Setup::default().rig();
    let gate = Arc::clone(&rig.session.pipeline.gate);
    let mut child = explorer(&rig.session, "a1");
    let mut below = explorer(&child, "a2");
    let cancel = CancellationToken::new();
    below.pipeline.gate.set_mode(PermissionMode::BypassPermissions);
    assert_eq!([gate.mode(), child.pipeline.gate.mode()], [PermissionMode::Default; 2]);
    let rules = RuleList {
        rules: vec![RuleText { tool_name: String::from("Probe"), rule_content: None }],
        behavior: Behavior::Deny,
        destination: Destination::Session,
    };
    let deny = PermissionUpdate::AddRules(rules);
    for (update, want) in [(None, None), (Some(deny), Some(ErrorKind::Denied))] {
        update.iter().for_each(|update| gate.apply(update));
        for session in [&mut child, &mut below] {
            let reports = session.run_message(uses(&[("Probe", json!({}))]), &cancel).await;
            assert_eq!(reports[0].error, want, "{}", session.agent_id);
        }
    }
}
