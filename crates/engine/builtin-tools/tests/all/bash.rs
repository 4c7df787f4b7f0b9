//! Bash, tested through the tool contract.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::shell_rig;

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_shell::output::SpoolLimits;
use haft_tool::{Access, AccessSet, ContextChange, ErrorKind, Verdict};
use serde_json::{Value, json};
use shell_rig::{Rig, call, eventually, interruptible, lives, watched};

async fn check(rig: &Rig, command: &str, want: &str) {
    let got = rig.text(&rig.bash(), json!({ "command": command })).await;
    assert_eq!(got, want, "{command}");
}

#[tokio::test]
async fn result_text_shows_output_exit_code_and_directory() {
    let rig = Rig::new();
    std::fs::write(rig.work.join("f"), "alpha\n").unwrap();
    for (command, want) in [
        ("echo hi; echo ho >&2", "hi\nho\n[cwd: WORK]"),
        ("true", "(no output)\n[cwd: WORK]"),
        ("printf 'a\\n\\n\\n'", "a\n[cwd: WORK]"),
        ("grep beta f", "(no output)\n[exit code 1: no matches]\n[cwd: WORK]"),
        ("exit 3", "failed: Exit code 3\n(no output)\n[cwd: WORK]"),
        ("echo partial; false", "failed: Exit code 1\npartial\n[cwd: WORK]"),
        ("kill -9 $$", "failed: Killed by SIGKILL\n(no output)\n[cwd: WORK]"),
        ("mkdir -p sub && cd sub", "(no output)\n[cwd: WORK/sub]"),
        ("cd /usr && pwd", "/usr\n[Shell cwd was reset to WORK: /usr is outside the workspace]\n[cwd: WORK]"),
        (
            "cd sub && false",
            "failed: Exit code 1\n(no output)\n[the command failed, so cwd remains WORK]\n[cwd: WORK]",
        ),
        (
            "mkdir gone; cd gone; rmdir ../gone",
            "(no output)\n[the directory the shell was in is gone; cwd is WORK]\n[cwd: WORK]",
        ),
        ("printf '\\033[31mred\\033[0m\\r\\n'", "red\n[cwd: WORK]"),
    ] {
        check(&rig, command, want).await;
    }
}

#[tokio::test]
async fn cd_persists_inside_the_workspace_for_the_main_agent() {
    let mut rig = Rig::new();
    std::fs::create_dir(rig.work.join("sub")).unwrap();
    let changes = |rig: &Rig, agent: &'static str, command: &'static str| {
        let (bash, cx) = (rig.bash(), haft_tool::CallContext { agent_id: agent.into(), ..rig.context() });
        async move { call(&bash, json!({ "command": command }), cx).await.unwrap().changes }
    };
    let moved = vec![ContextChange::Cwd(rig.work.join("sub"))];
    assert_eq!(changes(&rig, "main", "cd sub").await, moved);
    assert_eq!(changes(&rig, "main", "cd sub; cd ..").await, []);
    assert_eq!(changes(&rig, "child", "cd sub").await, []);
    rig.settings.directory = haft_builtin_tools::bash::CwdPersistence::No;
    assert_eq!(changes(&rig, "main", "cd sub").await, []);
}

#[tokio::test]
async fn deleted_cwd_falls_back_to_the_workspace() {
    let rig = Rig::new();
    let gone = rig.work.join("gone");
    let cx = haft_tool::CallContext { cwd: Arc::from(gone.as_path()), ..rig.context() };
    let got = call(&rig.bash(), json!({ "command": "pwd" }), cx).await.unwrap();
    assert_eq!(
        rig.plain(&got.content.to_text()),
        "WORK\n[the directory WORK/gone is gone; this ran in WORK]\n[cwd: WORK]"
    );
    assert_eq!(got.changes, [ContextChange::Cwd(rig.work.clone())]);
}

#[tokio::test]
async fn call_properties_follow_the_command_analysis() {
    let rig = Rig::new();
    let bash = rig.bash();
    let parse = |input: Value| Arc::clone(&bash).parse(input, &rig.context()).unwrap();
    let reads = parse(json!({"command": "cat f | head"}));
    assert!(reads.is_read_only() && reads.is_concurrency_safe());
    let writes = parse(json!({"command": "cat f > g"}));
    assert!(!writes.is_read_only() && !writes.is_concurrency_safe());
    assert!(!parse(json!({"command": "ls", "run_in_background": true})).is_read_only());
    assert_eq!(writes.reach(&rig.context()), AccessSet::Declared(vec![Access::Command("cat f > g".into())]));
    assert_eq!(writes.check_permissions(&rig.context()), Verdict::Passthrough);
    let unboxed = parse(json!({"command": "ls", "dangerouslyDisableSandbox": "true"}));
    assert!(matches!(unboxed.check_permissions(&rig.context()), Verdict::Insist(_)));
    let detached = parse(json!({"command": "ls", "detach": true}));
    assert!(matches!(detached.check_permissions(&rig.context()), Verdict::Ask(_)));
    for (input, want) in [
        (json!({"command": "a\0b"}), "NUL"),
        (json!({"command": "x".repeat(200_000)}), "Write it to a file"),
        (json!({"command": "ls", "timeout": 0}), "at least 1"),
    ] {
        let error = parse(input).validate(&rig.context()).unwrap_err();
        assert!(error.message.contains(want), "{error}");
    }
    let described = parse(json!({"command": "make all", "description": "Build everything"})).describe();
    assert_eq!(described, "make all — Build everything");
}

#[tokio::test]
async fn structured_result_has_output_exit_code_and_flags() {
    let rig = Rig::new();
    let got = rig.call(&rig.bash(), json!({"command": "echo hi; exit 0"})).await.unwrap().data;
    assert_eq!(
        (&got["stdout"], &got["stderr"], &got["interrupted"], &got["exitCode"]),
        (&json!("hi"), &json!(""), &json!(false), &json!(0))
    );
    let got = rig.call(&rig.bash(), json!({"command": "exit 7"})).await.unwrap_err();
    assert_eq!((got.kind, &got.data.unwrap()["exitCode"]), (ErrorKind::Failed, &json!(7)));
    let got = rig.call(&rig.bash(), json!({"command": "touch x"})).await.unwrap().data;
    assert_eq!(got["noOutputExpected"], json!(true));
}

#[tokio::test]
async fn long_output_is_truncated_and_saved() {
    let rig = Rig::new();
    let command =
        "for i in $(seq 20000); do echo \"line $i of many\"; done; echo 'error: it broke' ; seq 20000";
    let got = rig.call(&rig.bash(), json!({ "command": command })).await.unwrap();
    let text = got.content.to_text();
    assert!(text.chars().count() < 32_000, "{}", text.chars().count());
    assert!(
        text.starts_with("line 1 of many\n")
            && text.contains("\n20000\n")
            && text.contains("20001: error: it broke")
    );
    let path = PathBuf::from(got.data["persistedOutputPath"].as_str().unwrap());
    let kept = std::fs::read_to_string(&path).unwrap();
    assert_eq!(kept.lines().count(), 40_001);
    assert_eq!(got.data["persistedOutputSize"], json!(kept.len()));
    assert!(text.contains(path.to_str().unwrap()));
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn binary_output_is_described_and_saved() {
    let rig = Rig::new();
    let got = rig.call(&rig.bash(), json!({"command": "head -c 5000 /dev/zero"})).await.unwrap();
    assert!(got.content.to_text().starts_with("[5000 bytes that are no text (unknown type), saved to "));
    let path = got.data["rawOutputPath"].as_str().unwrap();
    assert_eq!(std::fs::read(path).unwrap(), [0; 5000]);
    let png =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let command = format!("echo data:image/png\\;base64,{png}");
    let got = rig.call(&rig.bash(), json!({ "command": command })).await.unwrap();
    assert_eq!(got.data["isImage"], json!(true));
    assert!(matches!(&got.content.0[0], haft_tool::Block::Image { .. }));
}

#[tokio::test]
async fn full_output_store_fails_the_command_but_not_the_shell() {
    let rig = Rig::with(|config| {
        config.quota = 1 << 20;
        config.spool = SpoolLimits::with_cap(8 << 20);
    });
    let error = rig.call(&rig.bash(), json!({"command": "seq 1000000"})).await.unwrap_err();
    assert!(
        error.message.contains("could not be kept") && error.message.contains("1000000"),
        "{}",
        error.message
    );
    check(&rig, "echo still here", "still here\n[cwd: WORK]").await;
}

#[tokio::test]
async fn background_command_reports_output_and_end() {
    let rig = Rig::new();
    let input = json!({"command": "echo one; until [ -e go ]; do sleep 0.01; done; echo two", "run_in_background": true, "description": "Wait for go"});
    let got = rig.call(&rig.bash(), input).await.unwrap();
    let id = got.data["backgroundTaskId"].as_str().unwrap().to_owned();
    let text = rig.plain(&got.content.to_text());
    assert_eq!(
        text,
        "[it runs in the background; its task id is bash_1; its output is shown by TaskOutput and goes to STATE/tasks/test/bash_1.out; TaskStop ends it; you are told when it ends]\n[session cwd remains WORK; directory changes made by the backgrounded command do not apply to later commands]\n[cwd: WORK]"
    );
    eventually("it prints", || {
        std::fs::read_to_string(rig.tasks.shell().outputs().join("bash_1.out")).unwrap() == "one\n"
    })
    .await;
    let output = rig.task_output();
    let got = rig.text(&output, json!({"task_id": id, "block": false})).await;
    assert_eq!(got, "one\n[bash_1 running]\n[all of its output: STATE/tasks/test/bash_1.out]");
    let got = rig.text(&output, json!({"task_id": id, "timeout": 1})).await;
    assert_eq!(got, "(no new output)\n[bash_1 running]\n[all of its output: STATE/tasks/test/bash_1.out]");
    std::fs::write(rig.work.join("go"), "").unwrap();
    let got = rig.text(&output, json!({"bash_id": id})).await;
    assert_eq!(got, "two\n[bash_1 completed: exit code 0]\n[all of its output: STATE/tasks/test/bash_1.out]");
    assert!(rig.tasks.drain(&"main".into()).is_empty(), "the reader knows");
    let got = rig.text(&output, json!({"task_id": "bash_9"})).await;
    assert_eq!(
        got,
        "invalid_input: There is no task bash_9. Tasks of this session: bash_1 (Wait for go, completed)"
    );
}

#[tokio::test]
async fn default_timeout_moves_command_to_background_unless_excluded() {
    let mut rig = Rig::new();
    rig.settings.default_timeout = Duration::from_millis(2_500);
    let command = "echo early; until [ -e go ]; do sleep 0.01; done; echo late";
    let got = rig.call(&rig.bash(), json!({ "command": command })).await.unwrap();
    let text = rig.plain(&got.content.to_text());
    assert!(text.starts_with("early\n[the command did not complete within its 2.5s timeout and was moved to the background; its task id is bash_1;"), "{text}");
    assert_eq!(got.data["timedOutAfterMs"], json!(2_500));
    std::fs::write(rig.work.join("go"), "").unwrap();
    rig.tasks.news(&"main".into()).await;
    let notices = rig.tasks.drain(&"main".into());
    assert_eq!(notices.len(), 1);
    assert!(notices[0].text().ends_with("early\nlate"), "{}", notices[0].text());
    for command in ["sleep 600", "echo before; git --version; tail -f /dev/null"] {
        let error = rig.call(&rig.bash(), json!({ "command": command })).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TimedOut);
        assert!(error.message.starts_with("Command timed out after 2.5s\n"), "{}", error.message);
    }
    assert_eq!(rig.tasks.list().len(), 1, "what was killed is no task");
}

#[tokio::test]
async fn user_can_move_running_command_to_background() {
    let rig = Rig::new();
    let (bash, cx) = (rig.bash(), rig.context());
    let running =
        tokio::spawn(async move { call(&bash, json!({"command": "echo up; sleep 600"}), cx).await });
    eventually("it waits", || rig.tasks.move_to_background(None)).await;
    let got = running.await.unwrap().unwrap();
    assert_eq!(got.data["backgroundedByUser"], json!(true));
    let stopped = rig.text(&rig.task_stop(), json!({"shell_id": got.data["backgroundTaskId"]})).await;
    assert_eq!(stopped, "Ended bash_1: echo up; sleep 600");
    assert_eq!(
        rig.text(&rig.task_stop(), json!({"task_id": "bash_1"})).await,
        "bash_1 had already ended: killed"
    );
}

#[tokio::test]
async fn leftover_processes_are_reported_and_can_be_stopped() {
    haft_shell::own::adopt_orphans().unwrap();
    let rig = Rig::new();
    // The process must have executed `sleep` before the command ends.
    let command = "(setsid sh -c 'echo $$ > pid; exec sleep 600' &); \
        until [ -s pid ] && [ \"$(cat /proc/$(cat pid)/comm)\" = sleep ]; do sleep 0.01; done; echo started";
    let got = rig.call(&rig.bash(), json!({ "command": command })).await.unwrap();
    let pid = got.data["leftRunning"][0]["pid"].as_i64().unwrap() as i32;
    let text = got.content.to_text();
    assert!(
        text.contains(&format!(
            "[1 background process still running (pid {pid}: sleep 600); it will end with the session."
        )),
        "{text}"
    );
    assert!(lives(pid));
    assert!(rig.tasks.drain(&"main".into()).is_empty());
    let listed = rig.tasks.list();
    assert_eq!((listed[0].id.as_str(), listed[0].status.name()), ("bash_1", "running"));
    rig.call(&rig.task_stop(), json!({"task_id": "bash_1"})).await.unwrap();
    eventually("it ends", || !lives(pid)).await;
}

#[tokio::test]
async fn interrupt_returns_partial_output() {
    let rig = Rig::new();
    let (cx, cancel) = interruptible(rig.context());
    let bash = rig.bash();
    let running = tokio::spawn(async move {
        call(&bash, json!({"command": "echo partial; touch up; sleep 600"}), cx).await
    });
    eventually("it runs", || rig.work.join("up").exists()).await;
    cancel.cancel();
    let got = running.await.unwrap().unwrap();
    assert_eq!((&got.data["interrupted"], &got.data["stdout"]), (&json!(true), &json!("partial")));
    assert!(rig.tasks.list().is_empty());
}

#[tokio::test]
async fn dropping_the_call_stops_its_command() {
    let rig = Rig::new();
    let (bash, cx) = (rig.bash(), rig.context());
    let running =
        tokio::spawn(async move { call(&bash, json!({"command": "touch up; sleep 600"}), cx).await });
    eventually("it runs", || rig.work.join("up").exists()).await;
    running.abort();
    eventually("nothing is left", || rig.tasks.shell().owner().list().is_empty()).await;
}

#[tokio::test]
async fn progress_shows_last_output_lines() {
    let rig = Rig::new();
    let (cx, mut events) = watched(rig.context());
    let bash = rig.bash();
    let command = "seq 9; until [ -e go ]; do sleep 0.01; done";
    let running = tokio::spawn(async move { call(&bash, json!({ "command": command }), cx).await });
    let event = loop {
        let event = events.recv().await.unwrap();
        if event.data["lines"] == json!(9) {
            break event;
        }
    };
    assert_eq!(event.data["tail"], json!(["5", "6", "7", "8", "9"]));
    std::fs::write(rig.work.join("go"), "").unwrap();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn failed_interactive_command_gets_a_hint() {
    let rig = Rig::new();
    for command in [
        "read x < /dev/tty",
        "python3 -c 'input()'",
        "git init -q && git -c user.name=a -c user.email=b commit --allow-empty",
    ] {
        let error = rig.call(&rig.bash(), json!({ "command": command })).await.unwrap_err();
        assert!(error.message.contains("no terminal and no input"), "{command}: {}", error.message);
    }
}

#[tokio::test]
async fn undo_snapshots_are_taken_before_and_after_the_command() {
    use haft_builtin_tools::bash::{Bash, BashInspector, CommandSnapshots, PendingCommand, UndoCoverage};
    use haft_tool::{BoxFuture, CallId, ToolError};
    #[derive(Default)]
    struct Log(std::sync::Mutex<Vec<String>>);
    impl CommandSnapshots for Log {
        fn before<'a>(&'a self, about: PendingCommand<'a>) -> BoxFuture<'a, Result<UndoCoverage, ToolError>> {
            self.0.lock().unwrap().push(format!("before {} {}", about.command, about.reads_only));
            let refused = about.command.contains("refused");
            Box::pin(async move {
                if refused {
                    return Err(ToolError::failed("no"));
                }
                Ok(UndoCoverage::Partial(String::from("not undoable: too large")))
            })
        }
        fn after<'a>(&'a self, call: &'a CallId) -> BoxFuture<'a, ()> {
            self.0.lock().unwrap().push(format!("after {call}"));
            Box::pin(async {})
        }
    }
    let rig = Rig::new();
    let log = Arc::new(Log::default());
    let facts = Arc::new(BashInspector { home: None, roots: vec![rig.work.clone()] });
    let bash = Bash::new(rig.tasks.clone(), facts, Arc::new(vec![rig.work.clone()]), rig.settings);
    let bash = haft_tool::erase(bash.with_snapshots(log.clone()));
    let text = rig.text(&bash, json!({"command": "touch x"})).await;
    assert!(text.contains("[not undoable: too large]"), "{text}");
    rig.text(&bash, json!({"command": "exit 3"})).await;
    rig.text(&bash, json!({"command": "touch refused"})).await;
    assert!(!rig.work.join("refused").exists());
    let started = rig.text(&bash, json!({"command": "true", "run_in_background": true})).await;
    assert!(started.contains("bash_3"), "{started}");
    eventually("the last one ends", || log.0.lock().unwrap().len() == 7).await;
    let log = log.0.lock().unwrap();
    assert_eq!(
        *log,
        [
            "before touch x false",
            "after call_1",
            "before exit 3 true",
            "after call_1",
            "before touch refused false",
            "before true true",
            "after call_1",
        ]
    );
}

#[tokio::test]
async fn command_without_required_sandbox_does_not_run() {
    use haft_builtin_tools::{
        bash::{Bash, BashInspector, CommandConfiner, ConfinedCommand, ConfinementChoice, OutsideSandbox},
        monitor::{LocalAddressPolicy, Monitor},
        repl::Repl,
    };
    struct Never;
    impl CommandConfiner for Never {
        fn choose(&self, about: &ConfinedCommand<'_>) -> ConfinementChoice {
            match about.outside {
                OutsideSandbox::Agreed => ConfinementChoice::Free,
                OutsideSandbox::No => ConfinementChoice::Refused(String::from("no walls here")),
            }
        }
    }
    let rig = Rig::new();
    let facts = Arc::new(BashInspector { home: None, roots: vec![rig.work.clone()] });
    let bash = Bash::new(rig.tasks.clone(), facts, Arc::new(vec![rig.work.clone()]), rig.settings);
    let bash = haft_tool::erase(bash.with_confinement(Arc::new(Never)));
    let monitor =
        Monitor::new(rig.tasks.clone(), LocalAddressPolicy::Refused).with_confinement(Arc::new(Never));
    let repl = Repl::new(rig.tasks.shell().clone(), 1_000).with_confinement(Arc::new(Never));
    let refused = "denied: This cannot run in the sandbox, and may not run without: no walls here";
    assert_eq!(rig.text(&bash, json!({"command": "touch x"})).await, refused);
    let watch = json!({"description": "d", "command": "touch x"});
    assert_eq!(rig.text(&haft_tool::erase(monitor), watch).await, refused);
    assert_eq!(
        rig.text(&haft_tool::erase(repl), json!({"language": "shell", "code": "touch x"})).await,
        refused
    );
    assert!(!rig.work.join("x").exists());
    rig.call(&bash, json!({"command": "touch x", "dangerouslyDisableSandbox": true})).await.unwrap();
    assert!(rig.work.join("x").exists());
}

#[tokio::test]
async fn detached_command_outlives_its_session() {
    let rig = Rig::new();
    let got = rig.call(&rig.bash(), json!({"command": "sleep 600 & echo $!", "detach": true})).await.unwrap();
    let pid = got.data["leftRunning"][0]["pid"].as_i64().unwrap() as i32;
    let tasks = rig.tasks.clone();
    tokio::task::spawn_blocking(move || tasks.shell().owner().end(Duration::from_secs(5))).await.unwrap();
    assert!(lives(pid));
    rig.call(&rig.task_stop(), json!({"task_id": "bash_1"})).await.unwrap();
    eventually("it ends", || !lives(pid)).await;
}
