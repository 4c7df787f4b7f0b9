//! A call is parsed once, and all later questions go to the parsed value.

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_hooks::{Callback, HookDefinition, HookEvent, HookHandler, HookPorts, HookSource, Hooks};
use haft_tool::{AccessSet, CallContext, Outcome, Tool, ToolContext, ToolError, Verdict, erase};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::common::{Setup, uses};

/// Writes a file; counts how often its input is parsed and its reach is computed.
#[derive(Clone, Default)]
struct Counted {
    parsed: Arc<AtomicUsize>,
    ran: Arc<Mutex<Vec<PathBuf>>>,
}

/// Counts.
#[derive(Deserialize, JsonSchema, Serialize)]
struct CountedInput {
    /// Where.
    path: PathBuf,
}

impl Tool for Counted {
    type Input = CountedInput;
    type Output = String;
    type Progress = ();
    const NAME: &'static str = "Counted";

    fn canonicalize(&self, input: &mut CountedInput, cx: &CallContext) {
        self.parsed.fetch_add(1, Ordering::SeqCst);
        input.path = cx.cwd.join(&input.path);
    }

    fn reach(&self, input: &CountedInput, _cx: &CallContext) -> AccessSet {
        AccessSet::write(&input.path)
    }

    fn check_permissions(&self, _input: &CountedInput, _cx: &CallContext) -> Verdict {
        Verdict::Allow
    }

    async fn call(&self, input: CountedInput, _cx: &ToolContext<()>) -> Result<Outcome<String>, ToolError> {
        self.ran.lock().unwrap().push(input.path);
        Ok(String::from("done").into())
    }
}

#[tokio::test]
async fn input_is_parsed_again_only_after_a_cwd_change() {
    let tool = Counted::default();
    let mut rig = Setup { extra: vec![erase(tool.clone())], ..Setup::default() }.rig();
    rig.session.pipeline.gate.set_mode(haft_types::PermissionMode::BypassPermissions);
    let dir = rig.dir.path().to_owned();
    let sub = dir.join("sub");
    std::fs::create_dir(&sub).unwrap();
    let call = |path: &str| ("Counted", json!({"path": path}));
    for (calls, parsed, ran) in [
        (vec![call("a")], 1, vec![dir.join("a")]),
        (vec![call("a"), call("b"), call("c")], 3, vec![dir.join("a"), dir.join("b"), dir.join("c")]),
        // Calls after the change of directory are parsed again there.
        (vec![call("a"), ("Probe", json!({"cd": sub})), call("b")], 3, vec![dir.join("a"), sub.join("b")]),
    ] {
        tool.parsed.store(0, Ordering::SeqCst);
        tool.ran.lock().unwrap().clear();
        let reports = rig.run(&calls).await;
        assert!(reports.iter().all(|it| it.error.is_none()), "{:?}", reports[0].content.to_text());
        assert_eq!(tool.parsed.load(Ordering::SeqCst), parsed, "{calls:?}");
        assert_eq!(*tool.ran.lock().unwrap(), ran);
    }
}

#[tokio::test]
async fn hook_conditions_match_the_accesses_of_the_call() {
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let events = [HookEvent::PreToolUse, HookEvent::PostToolUse];
    let rules = ["Edit(./src/**)", "Counted", "Edit(./other/**)", "Bash(ls:*)"];
    let define = |event: HookEvent, rule: &str| {
        let (told, rule) = (Arc::clone(&told), rule.to_owned());
        let says = format!("{event:?} {rule}");
        let callback = move |_: haft_hooks::HookCall| {
            told.lock().unwrap().push(says.clone());
            async { Ok(json!({}).into()) }
        };
        let handler = HookHandler::Callback(Callback { name: rule.clone(), code: Arc::new(callback) });
        let mut hook = HookDefinition::new(event, handler, Arc::new(HookSource::Named("test".into())));
        hook.condition = Some(rule);
        hook
    };
    let hooks = events.iter().flat_map(|event| rules.map(|rule| define(*event, rule))).collect();
    let tool = Counted::default();
    let mut rig = Setup {
        hooks: Hooks::new(hooks, HookPorts::default()),
        extra: vec![erase(tool.clone())],
        ..Setup::default()
    }
    .rig();
    rig.session.pipeline.gate.set_mode(haft_types::PermissionMode::BypassPermissions);
    let cancel = rig.cancel.clone();
    let calls = uses(&[("Counted", json!({"path": "src/x"}))]);
    let reports = rig.session.run_message(calls, &cancel).await;
    assert_eq!(reports[0].error, None, "{}", reports[0].content.to_text());
    let want = [
        "PreToolUse Edit(./src/**)",
        "PreToolUse Counted",
        "PostToolUse Edit(./src/**)",
        "PostToolUse Counted",
    ];
    assert_eq!(*told.lock().unwrap(), want);
    assert_eq!(tool.parsed.load(Ordering::SeqCst), 1);
}
