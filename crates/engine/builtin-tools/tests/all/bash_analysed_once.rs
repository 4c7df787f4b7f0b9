//! A command line is analysed once, however many components need the analysis.

use std::sync::Arc;

use haft_bash_analysis::analysed;
use haft_hooks::{Callback, HookDefinition, HookEvent, HookHandler, HookPorts, HookSource, Hooks};
use haft_permission::{BashJudge, Policy};
use haft_tool::BoxFuture;
use haft_tool_runtime::{
    Approver, CallSession, CallSessionState, Gate, PermissionAnswer, PermissionQuestion, Pipeline, Pool,
    ResultStore, SessionHooks, SharedPool, StoreLimits,
};
use haft_types::ToolUse;
use serde_json::json;

use crate::shell_rig::Rig;

struct Yes;

impl Approver for Yes {
    fn ask(&self, question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        assert!(!question.description.is_empty());
        Box::pin(async { PermissionAnswer::allow() })
    }
}

/// Hooks that inspect the command before and after the call.
fn hooks() -> Hooks {
    let define = |event| {
        let callback = |_: haft_hooks::HookCall| async { Ok(json!({}).into()) };
        let handler =
            HookHandler::Callback(Callback { name: String::from("look"), code: Arc::new(callback) });
        let mut hook = HookDefinition::new(event, handler, Arc::new(HookSource::Named("test".into())));
        hook.condition = Some(String::from("Bash(echo:*)"));
        hook
    };
    Hooks::new([HookEvent::PreToolUse, HookEvent::PostToolUse].map(define).into(), HookPorts::default())
}

fn session(rig: &Rig) -> CallSession {
    let policy = Policy::builder(&rig.work).commands(Arc::new(BashJudge)).build();
    let hooks = SessionHooks::new(hooks(), "session".into(), rig.work.join("log"));
    let gate = Gate::new(policy).with_approver(Arc::new(Yes)).with_hooks(hooks);
    let results = ResultStore::new(rig.work.join("results"), StoreLimits::default());
    let pool = SharedPool::new(Pool::assemble(vec![rig.bash()], Vec::new()));
    let mut state = CallSessionState::new(&rig.work);
    state.home = None;
    CallSession::new(Arc::new(Pipeline::new(gate, results)), pool, state)
}

#[tokio::test]
async fn call_analyses_its_command_once() {
    let rig = Rig::new();
    let mut session = session(&rig);
    for (command, more) in [
        ("echo a > f && cat f", json!({})),
        ("echo a | grep b", json!({})),
        ("cat f", json!({})),
        ("touch f && rm -f g", json!({"timeout": 5000})),
        ("sleep 0 &", json!({"run_in_background": true})),
    ] {
        let mut input = json!({"command": command});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let calls = vec![ToolUse { id: "call".into(), name: String::from("Bash"), input }];
        let before = analysed();
        let reports = session.run_message(calls, &Default::default()).await;
        assert_eq!(analysed() - before, 1, "{command}: {}", reports[0].content.to_text());
    }
}
