//! Which hooks run, how often, and how their answers are applied.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;

use std::{
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use common::{Rig, command, eventually, lives, pid_in, reason, with};
use haft_hooks::{
    Callback, CallbackAnswer, ErrorEffect, ErrorPolicy, ExternalHandler, ExternalHandlers, HookCall,
    HookDecision, HookDefinition, HookEvent, HookFailure, HookHandler, HookId, HookInput, HookObserver,
    HookOutput, HookReport, HookRunResult, HookSource, HookStart, Hooks, OtherInput, PermissionBehavior,
    PermissionRequest, SessionSource, SessionStart, TextStore, UserPromptSubmit,
};
use serde_json::{Map, Value, json};

#[tokio::test]
async fn hooks_run_by_matcher_condition_identity_and_once() {
    let rig = Rig::default();
    let said = |text: &str| command(&format!("echo '{{\"systemMessage\":\"{text}\"}}'"), 30.0);
    let hooks = rig.hooks(&json!({"PreToolUse": [
        {"matcher": "Bash", "hooks": [said("bash"), with(said("git"), "if", "Bash(git *)"), with(said("once"), "once", true)]},
        {"matcher": "^mcp__", "hooks": [said("mcp")]},
        {"hooks": [said("all"), said("bash")]},
    ]}));
    let ask = async |tool: &str, line: &str| {
        let input = rig.pre(tool, json!({"command": line}));
        let is_about = |rule: &str| rule == "Bash(git *)" && tool == "Bash" && line.starts_with("git ");
        hooks.run_for_call(&input, &is_about).await.system_messages.join(" ")
    };
    assert_eq!(ask("Bash", "git status").await, "bash git once all");
    assert_eq!(ask("Bash", "ls").await, "bash all");
    assert_eq!(ask("mcp__a__b", "git status").await, "mcp all bash");
}

#[tokio::test]
async fn identical_handler_takes_the_strictest_error_policy() {
    let rig = Rig::default();
    let broken = command("exit 1", 30.0);
    let hooks = rig.hooks(&json!({"PreToolUse": [
        {"hooks": [with(broken.clone(), "on_error", "open")]},
        {"matcher": "Bash", "hooks": [with(broken, "on_error", "closed")]},
    ]}));
    let outcome = rig.ask(&hooks).await;
    assert_eq!(outcome.reports.len(), 1);
    assert!(matches!(outcome.decision, HookDecision::Block { .. }));
    assert_eq!(hooks.run(&rig.pre("Read", json!({}))).await.decision, HookDecision::NoOpinion);
}

#[tokio::test]
async fn answer_json_combines_with_exit_status() {
    let rig = Rig::default();
    let allow = r#"{"systemMessage":"m","hookSpecificOutput":{"permissionDecision":"allow"}}"#;
    let ask = r#"{"hookSpecificOutput":{"permissionDecision":"ask","permissionDecisionReason":"sure?"}}"#;
    let wrong_event = r#"{"hookSpecificOutput":{"hookEventName":"Stop","permissionDecision":"allow"}}"#;
    for (line, want) in [
        (format!("echo '{allow}'"), "allow"),
        // Exit status 2 overrides an allow.
        (format!("echo '{allow}'; exit 2"), "block"),
        (format!("echo '{allow}'; echo because >&2; exit 2"), "block: because"),
        // With any other status, JSON decisions count.
        (format!("echo '{allow}'; exit 1"), "allow"),
        (format!("echo '{ask}'; exit 3"), "ask: sure?"),
        ("echo '{\"systemMessage\":\"x\"}'; exit 1".to_owned(), "none"),
        // A crash invalidates an allow, but not a denial.
        (format!("echo '{allow}'; kill -9 $$"), "none"),
        (format!("echo '{ask}'; kill -9 $$"), "ask: sure?"),
        // An answer for another event, or with trailing output, does not allow.
        (format!("echo '{wrong_event}'"), "none"),
        (format!("echo '{allow} trailing'"), "none"),
        (format!("echo '{ask} trailing'"), "ask: sure?"),
        ("echo; echo '  {\"decision\":\"block\",\"reason\":\"late\"}'".to_owned(), "block: late"),
    ] {
        let outcome = rig.ask(&rig.gate(with(command(&line, 30.0), "on_error", "open"))).await;
        let got = match &outcome.decision {
            HookDecision::NoOpinion => "none".to_owned(),
            HookDecision::Allow { .. } => "allow".to_owned(),
            HookDecision::Ask { reason } => format!("ask: {reason}"),
            HookDecision::Defer { .. } => "defer".to_owned(),
            HookDecision::Block { reason, .. } if reason.contains("no reason") => "block".to_owned(),
            HookDecision::Block { reason, .. } => format!("block: {reason}"),
        };
        assert_eq!(got, want, "{line}");
    }
}

#[tokio::test]
async fn plain_output_is_context_only_at_some_events() {
    let rig = Rig::default();
    let hook = command("echo remember this", 30.0);
    let hooks = rig.hooks(&json!({"SessionStart": [{"matcher": "resume", "hooks": [hook]}], "UserPromptSubmit": [{"hooks": [hook]}]}));
    let start = |source| HookInput::new(rig.base(), SessionStart { source, model: None });
    assert_eq!(hooks.run(&start(SessionSource::Resume)).await.additional_context, ["remember this"]);
    assert!(hooks.run(&start(SessionSource::Startup)).await.reports.is_empty());
    let prompt = UserPromptSubmit { prompt: "hi".into(), source: None, session_title: None };
    assert_eq!(hooks.run(&HookInput::new(rig.base(), prompt)).await.additional_context, ["remember this"]);
}

#[tokio::test]
async fn permission_request_answers_merge_with_deny_winning() {
    let rig = Rig::default();
    let answer = |behavior: &str, message: &str| {
        command(
            &format!(
                "echo '{{\"hookSpecificOutput\":{{\"decision\":{{\"behavior\":\"{behavior}\",\"message\":\"{message}\"}}}}}}'"
            ),
            30.0,
        )
    };
    let request = || PermissionRequest {
        tool_name: "Bash".into(),
        tool_input: json!({}),
        permission_suggestions: vec![],
    };
    let ask = async |list: Value| {
        let hooks = rig.hooks(&json!({"PermissionRequest": [{"hooks": list}]}));
        hooks.run(&HookInput::new(rig.base(), request())).await
    };
    let outcome = ask(json!([answer("allow", ""), answer("deny", "no"), answer("deny", "never")])).await;
    let permission = outcome.extras.permission.unwrap();
    assert_eq!(
        (permission.behavior, permission.message.as_deref()),
        (PermissionBehavior::Deny, Some("no\nnever"))
    );
    // Exit status 2 has no effect here, and after a failed hook the user is asked.
    assert_eq!(ask(json!([command("exit 2", 30.0)])).await.extras.permission, None);
    let closed = ask(json!([with(command("exit 1", 30.0), "on_error", "closed")])).await;
    assert_eq!(closed.extras.permission.unwrap().behavior, PermissionBehavior::Deny);
    assert_eq!(closed.decision, HookDecision::NoOpinion);
}

#[tokio::test]
async fn untyped_events_run_like_typed_ones() {
    let rig = Rig::default();
    let line = "grep -q '\"path\":\"/x\"' && echo '{\"hookSpecificOutput\":{\"displayContent\":\"d\"}}'";
    let hooks =
        rig.hooks(&json!({"FileChanged": [{"matcher": "a.txt|b.txt", "hooks": [command(line, 30.0)]}]}));
    let input = |subject: &str| {
        let fields = Map::from_iter([("path".to_owned(), json!("/x"))]);
        let event = OtherInput { event: HookEvent::FileChanged, subject: Some(subject.into()), fields };
        HookInput::new(rig.base(), event)
    };
    assert_eq!(hooks.run(&input("a.txt")).await.extras.other["displayContent"], "d");
    assert!(hooks.run(&input("c.md")).await.reports.is_empty());
}

fn callback<F, A>(rig: &Rig, name: &str, code: F) -> HookDefinition
where
    F: Fn(HookCall) -> A + Send + Sync + 'static,
    A: Future<Output = Result<CallbackAnswer, String>> + Send + 'static,
{
    let _ = rig;
    let handler = HookHandler::Callback(Callback { name: name.to_owned(), code: Arc::new(code) });
    HookDefinition::new(HookEvent::PreToolUse, handler, Arc::new(HookSource::Named("the SDK".into())))
}

#[tokio::test]
async fn callback_answers_typed_or_json_and_failures_are_reported() {
    let rig = Rig::default();
    let json =
        callback(
            &rig,
            "json",
            |call| async move { Ok(json!({"systemMessage": call.json["tool_name"]}).into()) },
        );
    let typed = callback(&rig, "typed", |_| async {
        let output = HookOutput { system_message: Some("typed".into()), ..HookOutput::default() };
        Ok(output.into())
    });
    let outcome = rig.ask(&Hooks::new(vec![json, typed], rig.ports.clone())).await;
    assert_eq!(outcome.system_messages, ["Bash", "typed"]);
    let failing: Vec<(HookDefinition, &str)> = vec![
        (callback(&rig, "error", |_| async { Err("wrong signature".to_owned()) }), "wrong signature"),
        (callback(&rig, "panic", |_| async { panic!("oh") }), "panicked"),
        (callback(&rig, "nonsense", |_| async { Ok(json!([1]).into()) }), "not a JSON object"),
        (callback(&rig, "hang", |_| std::future::pending()), "did not finish within 0.05 s"),
    ];
    for (mut definition, words) in failing {
        definition.timeout = Duration::from_millis(50);
        for on_error in [ErrorEffect::Closed, ErrorEffect::Open] {
            definition.on_error = ErrorPolicy::Explicit(on_error);
            let outcome = rig.ask(&Hooks::new(vec![definition.clone()], rig.ports.clone())).await;
            assert_eq!(
                matches!(outcome.decision, HookDecision::Block { .. }),
                on_error == ErrorEffect::Closed
            );
            assert!(outcome.reports[0].notice().unwrap().contains(words), "{:?}", outcome.reports[0]);
        }
    }
}

struct Outside;

impl ExternalHandlers for Outside {
    fn run<'a>(
        &'a self,
        handler: &'a ExternalHandler,
        call: &'a HookCall,
    ) -> futures_util::future::BoxFuture<'a, Result<Value, HookFailure>> {
        Box::pin(async move {
            match handler.fields["tool"].as_str() {
                Some("check") => Ok(json!({"decision": "block", "reason": call.json["tool_use_id"]})),
                _ => Err(HookFailure::NoHandler("the server is down".into())),
            }
        })
    }
}

#[tokio::test]
async fn external_handlers_run_through_their_port() {
    let mut rig = Rig::default();
    rig.ports.external = Some(Arc::new(Outside));
    let hook = |tool: &str| json!({"type": "mcp_tool", "server": "s", "tool": tool});
    assert_eq!(reason(&rig.ask(&rig.gate(hook("check"))).await), "t1");
    assert!(reason(&rig.ask(&rig.gate(hook("other"))).await).contains("the server is down"));
}

struct Shelf(PathBuf);

impl TextStore for Shelf {
    fn keep(&self, hook: &HookId, text: &str) -> Option<PathBuf> {
        let path = self.0.join(hook.as_str());
        std::fs::write(&path, text).ok().map(|()| path)
    }
}

#[tokio::test]
async fn long_texts_are_stored_and_inputs_are_never_truncated() {
    let mut rig = Rig::default();
    rig.ports.keep_text = Some(Arc::new(Shelf(rig.directory.path().to_owned())));
    let long = "y".repeat(30_000);
    let answer =
        json!({"hookSpecificOutput": {"additionalContext": long, "updatedInput": {"command": long}}});
    std::fs::write(rig.path("answer.json"), answer.to_string()).unwrap();
    let outcome = rig.ask(&rig.gate(with(command("cat answer.json", 30.0), "id", "long"))).await;
    let note = format!("the full text is in {}]", rig.path("long").display());
    assert!(outcome.additional_context[0].ends_with(&note));
    assert_eq!(std::fs::read_to_string(rig.path("long")).unwrap(), long);
    assert_eq!(outcome.updated_input.unwrap().input["command"], long);
}

#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    background: AtomicUsize,
}

impl HookObserver for Log {
    fn started(&self, start: &HookStart<'_>) {
        let line = format!("start {} {:?} {:?}", start.id, start.subject, start.status_message);
        self.lines.lock().unwrap().push(line);
    }

    fn finished(&self, report: &HookReport) {
        self.lines.lock().unwrap().push(format!("end {} {:?}", report.id, report.status));
    }

    fn finished_in_background(&self, report: &HookReport, rewake: Option<&str>) {
        self.lines.lock().unwrap().push(format!("later {} {rewake:?}", report.id));
        self.background.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn background_hooks_do_not_decide_and_may_wake_the_model() {
    let mut rig = Rig::default();
    let log = Arc::new(Log::default());
    rig.ports.observer = Some(log.clone());
    let wait = "until test -e go; do sleep 0.01; done";
    let hooks = rig.hooks(&json!({"PreToolUse": [{"hooks": [
        with(with(command(&format!("{wait}; exit 1"), 60.0), "async", true), "id", "a"),
        with(with(command(&format!("{wait}; echo wake up >&2; exit 2"), 60.0), "asyncRewake", true), "id", "b"),
        // This hook announces it itself and must not decide afterwards.
        with(command(&format!("echo '{{\"async\":true}}'; {wait}; exit 2"), 60.0), "id", "c"),
        with(with(command("exit 0", 60.0), "statusMessage", "checking"), "id", "d"),
    ]}]}));
    let outcome = rig.ask(&hooks).await;
    assert_eq!(outcome.decision, HookDecision::NoOpinion);
    let happened: Vec<&HookRunResult> = outcome.reports.iter().map(|it| &it.happened).collect();
    let later = &HookRunResult::InBackground;
    assert_eq!(happened, [later, later, later, &HookRunResult::Ran]);
    std::fs::write(rig.path("go"), "").unwrap();
    eventually("all three are done", || log.background.load(Ordering::SeqCst) == 3).await;
    let lines = log.lines.lock().unwrap().clone();
    for want in [
        "start d Some(\"Bash\") Some(\"checking\")",
        "end d Some(0)",
        "later a None",
        "later b Some(\"wake up\")",
        "later c None",
    ] {
        assert!(lines.iter().any(|line| line == want), "{want}: {lines:?}");
    }
}

#[tokio::test]
async fn background_hooks_end_with_the_session() {
    let rig = Rig::default();
    let line = "echo $$ > pid.new; mv pid.new pid; exec sleep 600";
    for close in [true, false] {
        let _ = std::fs::remove_file(rig.path("pid"));
        let hooks = rig.gate(with(command(line, 600.0), "async", true));
        rig.ask(&hooks).await;
        eventually("it runs", || pid_in(&rig.path("pid")).is_some()).await;
        let pid = pid_in(&rig.path("pid")).unwrap();
        assert!(lives(pid));
        if close {
            hooks.close(Duration::ZERO).await;
        }
        drop(hooks);
        eventually("it has ended", || !lives(pid)).await;
    }
}

#[tokio::test]
async fn hook_matcher_covers_tool_aliases() {
    let rig = Rig::default();
    let hooks = rig.hooks(&json!({"PreToolUse": [{"matcher": "Task", "hooks": [command("exit 2", 30.0)]}]}));
    let mut input = rig.pre("Agent", json!({}));
    assert!(hooks.run(&input).await.reports.is_empty());
    input.aliases = vec!["Task".to_owned()];
    assert!(matches!(hooks.run(&input).await.decision, HookDecision::Block { .. }));
}

#[test]
fn listens_is_false_for_events_without_hooks() {
    let hooks = Hooks::default();
    assert!(HookEvent::ALL.iter().all(|event| !hooks.listens(*event)));
    let rig = Rig::default();
    let hooks = rig.hooks(&json!({"Stop": [{"hooks": [command("true", 1.0)]}]}));
    let listening: Vec<&HookEvent> = HookEvent::ALL.iter().filter(|event| hooks.listens(**event)).collect();
    assert_eq!(listening, [&HookEvent::Stop]);
}
