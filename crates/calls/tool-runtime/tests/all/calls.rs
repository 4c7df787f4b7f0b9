//! Every stage of a tool call, tested from outside: a `tool_use` goes in, one report comes out.
#![allow(
    clippy::type_complexity,
    clippy::too_many_lines,
    clippy::unwrap_used,
    missing_docs,
    reason = "test code"
)]

use crate::common;

use std::{sync::Arc, sync::atomic::Ordering, time::Duration};

use common::{Always, Setup, uses};
use haft_hooks::{Callback, HookDefinition, HookEvent, HookHandler, HookSource};
use haft_tool::{BoxFuture, ErrorKind, Exposure, Output, RawTool, ToolHints, ToolSpec};
use haft_tool_runtime::{Approver, PermissionAnswer, PermissionQuestion};
use serde_json::{Value, json};

async fn check(setup: Setup, name: &str, input: Value, want_kind: Option<ErrorKind>, want_text: &str) {
    let (kind, text) = setup.rig().run_one(name, input.clone()).await;
    assert_eq!(kind, want_kind, "{input}: {text}");
    assert!(text.contains(want_text), "{input}: {text}");
}

#[tokio::test]
async fn every_failing_stage_gives_one_report() {
    use ErrorKind::{Denied, Failed, Internal, InvalidInput, UnknownTool};
    for (name, input, kind, text) in [
        ("Prob", json!({}), UnknownTool, "There is no tool named Prob. Did you mean Probe?"),
        ("Zzz", json!({}), UnknownTool, "There is no tool named Zzz. Use only"),
        ("Probe", json!({"sise": 1}), InvalidInput, "`sise` is not a known parameter; did you mean `size`?"),
        ("Probe", json!({"size": 13}), InvalidInput, "size must not be 13"),
        (
            "Probe",
            json!({"ask": true}),
            Denied,
            "nobody is there to ask, and the probe wants to be asked for",
        ),
        ("Probe", json!({"fail": true}), Failed, "told to fail"),
        ("Probe", json!({"panic": "call"}), Internal, "Probe crashed (told to panic)"),
        ("Probe", json!({"panic": "is_read_only"}), Internal, "asked to panic in a question"),
    ] {
        check(Setup::default(), name, input, Some(kind), text).await;
    }
}

/// A tool may panic in any method: its call still gets one report, and its neighbours run.
#[tokio::test]
async fn panicking_tool_method_fails_only_its_call() {
    for place in ["canonicalize", "validate", "is_read_only", "path", "check_permissions"] {
        let mut rig = Setup::default().rig();
        let good = ("Probe", json!({"safe": true, "read_only": true, "size": 5}));
        let bad = ("Probe", json!({"safe": true, "panic": place}));
        let reports = rig.run(&[good.clone(), bad, good]).await;
        let errors: Vec<bool> = reports.iter().map(|it| it.error.is_some()).collect();
        assert_eq!(errors, [false, true, false], "{place}");
        let text = reports[1].content.to_text();
        assert!(text.contains("asked to panic in a question"), "{place}: {text}");
    }
    // A call that cannot tell whether it may overlap runs alone.
    let mut rig = Setup::default().rig();
    let reports = rig.run(&[("Probe", json!({"panic": "is_concurrency_safe"}))]).await;
    assert_eq!(reports.len(), 1);
}

#[tokio::test]
async fn aliases_and_coercion_work_through_the_pipeline() {
    check(Setup::default(), "probe_alias", json!({"size": " +7 "}), None, "xxxxxxx").await;
}

#[tokio::test]
async fn unsafe_calls_run_alone_and_safe_ones_overlap() {
    let mut rig = Setup::default().rig();
    let safe = ("Probe", json!({"safe": true, "wait": "g"}));
    let (probe, calls) = (rig.probe.clone(), uses(&[safe.clone(), safe.clone(), safe]));
    let cancel = rig.cancel.clone();
    let release = async {
        for _ in 0..3 {
            rig.started.recv().await;
        }
        (0..3).for_each(|_| probe.release("g"));
    };
    let (reports, ()) = tokio::join!(rig.session.run_message(calls, &cancel), release);
    assert_eq!((reports.len(), rig.probe.most.load(Ordering::SeqCst)), (3, 3));

    let mut rig = Setup::default().rig();
    let alone = ("Probe", json!({"block_ms": 5}));
    rig.run(&[alone.clone(), ("Probe", json!({"safe": true})), alone.clone(), alone]).await;
    assert_eq!(rig.probe.most.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn concurrent_calls_stay_below_the_limit() {
    let mut rig = Setup::default().rig();
    let calls: Vec<_> = (0..12).map(|_| ("Probe", json!({"safe": true, "block_ms": 2}))).collect();
    assert_eq!(rig.run(&calls).await.len(), 12);
    assert!(rig.probe.most.load(Ordering::SeqCst) <= 4);
}

#[tokio::test]
async fn reads_start_while_the_message_streams_and_writes_wait() {
    let mut rig = Setup::default().rig();
    let mut executor = rig.session.executor(&rig.cancel.clone());
    let read = ("Probe", json!({"safe": true, "read_only": true}));
    let mut calls = uses(&[read, ("Probe", json!({"safe": true})), ("Probe", json!({}))]).into_iter();
    executor.push(calls.next().unwrap());
    assert_eq!(executor.next().await.unwrap().0, 0);
    for call in calls {
        executor.push(call);
    }
    // Nothing else runs before the message is complete.
    assert!(executor.next().await.is_none());
    assert_eq!(rig.started().await, "call-0");
    assert!(rig.started.try_recv().is_err());
    executor.close();
    let mut rest = vec![executor.next().await.unwrap().0, executor.next().await.unwrap().0];
    rest.sort_unstable();
    assert_eq!(rest, [1, 2]);
}

#[tokio::test]
async fn context_changes_take_effect_per_batch_in_emission_order() {
    let mut rig = Setup::default().rig();
    let cd = |dir: &str, wait: &str| ("Probe", json!({"safe": true, "cd": dir, "wait": wait}));
    let calls = uses(&[
        cd("/a", "slow"),
        cd("/b", "fast"),
        ("Probe", json!({})),
        ("Probe", json!({"cd": "/c"})),
        ("Probe", json!({})),
    ]);
    let (probe, cancel) = (rig.probe.clone(), rig.cancel.clone());
    let release = async {
        rig.started.recv().await;
        rig.started.recv().await;
        // The later call finishes first; the earlier one's change must still come first.
        probe.release("fast");
        probe.release("slow");
    };
    let (reports, ()) = tokio::join!(rig.session.run_message(calls, &cancel), release);
    let texts: Vec<String> = reports.iter().map(|report| report.content.to_text()).collect();
    let here = rig.dir.path().display().to_string();
    assert_eq!(texts, [here.clone(), here, String::from("/b"), String::from("/b"), String::from("/c")]);
    assert_eq!(&*rig.session.state.cwd, std::path::Path::new("/c"));
}

#[tokio::test]
async fn failed_call_does_not_cancel_its_neighbours() {
    let mut rig = Setup::default().rig();
    let ok = ("Probe", json!({"safe": true}));
    let reports = rig
        .run(&[
            ok.clone(),
            ("Probe", json!({"safe": true, "fail": true})),
            ("Nope", json!({})),
            ("Probe", json!({"safe": true, "panic": "call"})),
            ok,
        ])
        .await;
    let kinds: Vec<Option<ErrorKind>> = reports.iter().map(|report| report.error).collect();
    assert_eq!(
        kinds,
        [None, Some(ErrorKind::Failed), Some(ErrorKind::UnknownTool), Some(ErrorKind::Internal), None]
    );
    let ids: Vec<&str> = reports.iter().map(|report| report.id.as_str()).collect();
    assert_eq!(ids, ["call-0", "call-1", "call-2", "call-3", "call-4"]);
}

#[tokio::test]
async fn interrupted_calls_report_what_is_known() {
    let mut rig = Setup::default().rig();
    let calls = uses(&[
        ("Probe", json!({"safe": true, "wait": "never", "partial": "half of it"})),
        ("Probe", json!({"safe": true, "wait": "never"})),
        ("Probe", json!({"size": 5})),
    ]);
    let cancel = rig.cancel.clone();
    let interrupt = async {
        rig.started.recv().await;
        rig.started.recv().await;
        cancel.cancel();
    };
    let (reports, ()) = tokio::join!(rig.session.run_message(calls, &cancel), interrupt);
    let got: Vec<(Option<ErrorKind>, String)> =
        reports.iter().map(|report| (report.error, report.content.to_text())).collect();
    insta::assert_debug_snapshot!(got);
    assert_eq!(rig.probe.now.load(Ordering::SeqCst), 0, "nothing runs on");
}

#[tokio::test]
async fn interrupt_withdraws_a_pending_prompt() {
    struct Never;
    impl Approver for Never {
        fn ask(&self, _question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
            Box::pin(std::future::pending())
        }
    }
    let mut rig = Setup { ask: Some(Arc::new(Never)), ..Setup::default() }.rig();
    rig.cancel.cancel();
    let (kind, _) = rig.run_one("Probe", json!({"ask": true})).await;
    assert_eq!(kind, Some(ErrorKind::NotStarted));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_out_call_is_stopped_with_partial_output() {
    let timeout = Some(Duration::from_millis(30));
    for (input, text) in [
        (json!({"wait": "never"}), "what it did until then is unknown"),
        (json!({"wait": "never", "partial": "half"}), "Until then it returned:\nhalf"),
        // Also for a tool that blocks its thread.
        (json!({"block_ms": 4_000}), "what it did until then is unknown"),
    ] {
        check(Setup { timeout, ..Setup::default() }, "Probe", input, Some(ErrorKind::TimedOut), text).await;
    }
}

#[tokio::test]
async fn dropping_the_executor_stops_what_it_started() {
    let mut rig = Setup::default().rig();
    let mut executor = rig.session.executor(&rig.cancel.clone());
    for call in uses(&[("Probe", json!({"safe": true, "read_only": true, "wait": "never"}))]) {
        executor.push(call);
    }
    tokio::select! {
        _ = executor.next() => panic!("it waits"),
        _ = rig.started.recv() => (),
    }
    drop(executor);
    for _ in 0..1_000 {
        if rig.probe.now.load(Ordering::SeqCst) == 0 {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("the call still runs");
}

#[tokio::test]
async fn progress_events_are_sent_as_json() {
    let mut rig = Setup::default().rig();
    let (progress, mut events) = haft_tool::ProgressSink::channel();
    rig.session.progress = progress;
    rig.run(&[("Probe", json!({}))]).await;
    assert_eq!(events.try_recv().unwrap().data, json!({"started": "call-0"}));
}

#[tokio::test]
async fn approver_answers_decide_the_call() {
    let deny = PermissionAnswer::Deny { message: String::from("not today"), interrupt: false };
    let rewrite = |input: Value| PermissionAnswer::Allow { updated_input: Some(input), updates: Vec::new() };
    for (answer, kind, text) in [
        (PermissionAnswer::allow(), None, "xxxx"),
        (deny, Some(ErrorKind::Denied), "Probe was not allowed to run: not today"),
        (
            PermissionAnswer::unavailable("nobody here"),
            Some(ErrorKind::Denied),
            "Probe was not allowed to run: nobody here",
        ),
        (rewrite(json!({"size": "2"})), None, "xx"),
        (rewrite(json!({"bogus": 1})), Some(ErrorKind::InvalidInput), "rewrote the input"),
    ] {
        let setup = Setup { ask: Some(Arc::new(Always(answer))), ..Setup::default() };
        check(setup, "Probe", json!({"ask": true, "size": 4}), kind, text).await;
    }
}

#[tokio::test]
async fn interrupting_denial_leaves_later_calls_unstarted() {
    let answer = PermissionAnswer::Deny { message: String::from("stop it all"), interrupt: true };
    let mut rig = Setup { ask: Some(Arc::new(Always(answer))), ..Setup::default() }.rig();
    let reports = rig.run(&[("Probe", json!({"ask": true})), ("Probe", json!({}))]).await;
    let kinds: Vec<Option<ErrorKind>> = reports.iter().map(|report| report.error).collect();
    assert_eq!(kinds, [Some(ErrorKind::Denied), Some(ErrorKind::NotStarted)]);
    assert_eq!(reports[0].stop.as_deref(), Some("stop it all"));
}

/// Hooks that give scripted answers and record their input.
struct Scripted {
    told: Arc<std::sync::Mutex<Vec<String>>>,
    hooks: haft_hooks::Hooks,
}

fn scripted(answers: &[(HookEvent, Value)]) -> Scripted {
    let told: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let all = [
        HookEvent::PreToolUse,
        HookEvent::PermissionRequest,
        HookEvent::PermissionDenied,
        HookEvent::PostToolUse,
        HookEvent::PostToolUseFailure,
        HookEvent::PostToolBatch,
    ];
    let define = |event: HookEvent| {
        let answer =
            answers.iter().find(|(it, _)| *it == event).map_or(json!({}), |(_, answer)| answer.clone());
        let told = Arc::clone(&told);
        let callback = move |call: haft_hooks::HookCall| {
            let size = call.json.pointer("/tool_input/size").map(Value::to_string).unwrap_or_default();
            told.lock().unwrap().push(format!("{event:?} {size}").trim().to_owned());
            let answer = if answer == json!("fail") {
                Err(String::from("no answer"))
            } else {
                Ok(answer.clone().into())
            };
            async move { answer }
        };
        let handler =
            HookHandler::Callback(Callback { name: format!("{event:?}"), code: Arc::new(callback) });
        HookDefinition::new(event, handler, Arc::new(HookSource::Named(String::from("test"))))
    };
    let definitions = all.into_iter().map(define).collect();
    let hooks = haft_hooks::Hooks::new(definitions, haft_hooks::HookPorts::default());
    Scripted { told, hooks }
}

#[tokio::test]
async fn hooks_receive_and_rewrite_calls() {
    use HookEvent::{PermissionRequest, PostToolUse, PreToolUse};
    let pre = |fields: Value| {
        let mut output = json!({"hookEventName": "PreToolUse"});
        output.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        (PreToolUse, json!({"hookSpecificOutput": output}))
    };
    let request = |decision: Value| {
        (
            PermissionRequest,
            json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": decision}}),
        )
    };
    let plain = json!({"size": 3});
    let rows: Vec<(Vec<(HookEvent, Value)>, Value, Option<ErrorKind>, &str, &[&str])> = vec![
        (vec![], plain.clone(), None, "xxx", &["PreToolUse 3", "PostToolUse 3", "PostToolBatch"]),
        (
            vec![pre(json!({"updatedInput": {"size": "5"}}))],
            plain.clone(),
            None,
            "xxxxx",
            &["PreToolUse 3", "PostToolUse 5", "PostToolBatch"],
        ),
        // A gate hook that answers invalid input counts as failed.
        (
            vec![pre(json!({"updatedInput": {"size": "?"}}))],
            plain.clone(),
            Some(ErrorKind::GateFailed),
            "a hook rewrote the input",
            &["PreToolUse 3", "PostToolBatch"],
        ),
        (
            vec![(PreToolUse, json!("fail"))],
            plain.clone(),
            Some(ErrorKind::GateFailed),
            "a hook that must answer first failed",
            &["PreToolUse 3", "PostToolBatch"],
        ),
        (
            vec![pre(json!({"permissionDecision": "deny", "permissionDecisionReason": "policy"}))],
            plain.clone(),
            Some(ErrorKind::Denied),
            "policy",
            &["PreToolUse 3", "PermissionDenied 3", "PostToolBatch"],
        ),
        (
            vec![(PreToolUse, json!({"continue": false, "stopReason": "enough"}))],
            plain.clone(),
            Some(ErrorKind::Denied),
            "a hook ended the turn: enough",
            &["PreToolUse 3", "PostToolBatch"],
        ),
        (
            vec![request(json!({"behavior": "allow"}))],
            json!({"size": 2, "ask": true}),
            None,
            "xx",
            &["PreToolUse 2", "PermissionRequest 2", "PostToolUse 2", "PostToolBatch"],
        ),
        // Post-tool hooks receive the input that ran, not the one the model wrote.
        (
            vec![request(json!({"behavior": "allow", "updatedInput": {"size": 4}}))],
            json!({"size": 2, "ask": true}),
            None,
            "xxxx",
            &["PreToolUse 2", "PermissionRequest 2", "PostToolUse 4", "PostToolBatch"],
        ),
        (
            vec![request(json!({"behavior": "deny", "message": "hook says no"}))],
            json!({"size": 2, "ask": true}),
            Some(ErrorKind::Denied),
            "hook says no",
            &["PreToolUse 2", "PermissionRequest 2", "PermissionDenied 2", "PostToolBatch"],
        ),
        (
            vec![(
                PostToolUse,
                json!({"decision": "block", "reason": "too short",
                       "hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "replaced"}}),
            )],
            plain,
            None,
            "replaced\nA hook objected to this result: too short",
            &["PreToolUse 3", "PostToolUse 3", "PostToolBatch"],
        ),
        (
            vec![],
            json!({"fail": true}),
            Some(ErrorKind::Failed),
            "told to fail",
            &["PreToolUse 0", "PostToolUseFailure 0", "PostToolBatch"],
        ),
    ];
    for (answers, input, kind, text, told) in rows {
        let scripted = scripted(&answers);
        check(Setup { hooks: scripted.hooks, ..Setup::default() }, "Probe", input, kind, text).await;
        assert_eq!(*scripted.told.lock().unwrap(), told);
    }
}

#[tokio::test]
async fn a_hook_may_add_context() {
    let answer = json!({"systemMessage": "for you", "hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": "mind the gap"}});
    let scripted = scripted(&[(HookEvent::PreToolUse, answer)]);
    let reports =
        Setup { hooks: scripted.hooks, ..Setup::default() }.rig().run(&[("Probe", json!({}))]).await;
    assert_eq!(reports[0].context, ["mind the gap"]);
    assert_eq!(reports[0].notices, ["for you"]);
}

fn echo(name: &str, exposure: Exposure) -> RawTool {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: String::from("Echoes text."),
        input_schema: json!({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"}}, "required": ["text"]}).into(),
        search_hint: String::new(),
        exposure,
        max_result_chars: Some(1000),
        timeout: None,
    };
    RawTool::new(spec, |input, _cx| {
        let text = input["text"].as_str().unwrap_or_default().to_owned();
        Box::pin(async { Ok(Output::from_content(text.into())) })
    })
}

/// An external tool declares itself read-only. It is not trusted, so the call still asks.
#[tokio::test]
async fn external_read_only_hint_counts_only_if_trusted() {
    let claims = ToolHints { read_only: true, ..ToolHints::default() };
    for (tool, kind) in [
        (echo("mcp__demo__echo", Exposure::Direct), Some(ErrorKind::Denied)),
        (echo("mcp__demo__echo", Exposure::Direct).trust(claims), None),
    ] {
        let setup = Setup { extra: vec![Arc::new(tool)], ..Setup::default() };
        check(setup, "mcp__demo__echo", json!({"text": "hi"}), kind, "").await;
    }
}

#[tokio::test]
async fn calling_a_deferred_tool_loads_it() {
    let claims = ToolHints { read_only: true, ..ToolHints::default() };
    let tool = || Arc::new(echo("mcp__demo__echo", Exposure::Deferred).trust(claims));
    let mut rig = Setup { extra: vec![tool()], ..Setup::default() }.rig();
    assert!(!rig.session.pool.get().advertised(&rig.session.state.loaded).contains("mcp__demo__echo"));
    let (kind, text) = rig.run_one("mcp__demo__echo", json!({"text": "hi", "n": "3"})).await;
    assert_eq!((kind, text.as_str()), (None, "hi\n[`n` was taken as a number, not as text]"));
    assert_eq!(rig.session.state.loaded, ["mcp__demo__echo"]);
    assert!(rig.session.pool.get().advertised(&rig.session.state.loaded).contains("mcp__demo__echo"));

    // A call with invalid input gets the schema in its error, and the next request declares the tool.
    let mut rig = Setup { extra: vec![tool()], ..Setup::default() }.rig();
    let (kind, text) = rig.run_one("mcp__demo__echo", json!({"txt": "hi"})).await;
    assert_eq!(kind, Some(ErrorKind::InvalidInput));
    assert!(
        text.contains("A minimal valid input: {\"text\":\"…\"}") && text.contains("Its schema: {"),
        "{text}"
    );
    assert_eq!(rig.session.state.loaded, ["mcp__demo__echo"]);
}

#[tokio::test]
async fn large_results_are_stored_with_a_preview() {
    let mut rig = Setup::default().rig();
    let (kind, text) = rig.run_one("Probe", json!({"size": 10_000_000})).await;
    assert_eq!(kind, None);
    assert!(text.chars().count() < 2_000, "{}", text.len());
    let path = rig.dir.path().join("tool-results/call-0.txt");
    assert!(
        text.contains(&format!(
            "10000000 characters in 1 lines, more than fit here. All of it is in {}",
            path.display()
        )),
        "{text}"
    );
    assert_eq!(std::fs::metadata(path).unwrap().len(), 10_000_000);
}
