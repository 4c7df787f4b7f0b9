//! Time limits, and programs that need an interactive user.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "test code")]

use crate::shell_rig;

use std::time::{Duration, Instant};

use haft_builtin_tools::bash::OnTimeout;
use haft_tool::ErrorKind;
use serde_json::json;
use shell_rig::{Rig, eventually, lives};

/// Timeout for a hang; nothing here takes this long otherwise.
const HANGS: Duration = Duration::from_secs(100);

fn pids(rig: &Rig) -> Vec<i32> {
    let text = std::fs::read_to_string(rig.work.join("pids")).unwrap_or_default();
    text.lines().filter_map(|it| it.trim().parse().ok()).collect()
}

#[tokio::test]
async fn timeout_stops_the_command_and_all_its_processes() {
    haft_shell::own::adopt_orphans().unwrap();
    for (command, printed, started) in [
        // Leaves the process group, ignores SIGTERM, keeps the output open.
        (
            "setsid sh -c 'trap \"\" TERM; echo $$ >> pids; while :; do echo x; sleep .1; done' & sleep 600",
            "x\n",
            1,
        ),
        ("mkfifo p; echo before; cat p", "before\n", 0),
        // Forked twice, without our environment.
        (
            "(setsid env -i /bin/sh -c 'echo $$ >> pids; exec sleep 600' >/dev/null 2>&1 </dev/null &); echo up; tail -f /dev/null",
            "up\n",
            1,
        ),
        ("nohup sh -c 'echo $$ >> pids; exec sleep 600' >/dev/null 2>&1 & wait", "", 1),
        ("trap '' TERM INT HUP; echo $$ >> pids; while :; do sleep 0.1; done", "", 1),
        (
            "python3 -c 'import os,time\nif os.fork():\n  time.sleep(600)\nos.setsid()\nif os.fork(): os._exit(0)\nopen(\"pids\",\"a\").write(str(os.getpid()))\ntime.sleep(600)'",
            "",
            1,
        ),
        ("while :; do :; done", "", 0),
        ("yes > /dev/null", "", 0),
    ] {
        // On a busy machine the command may not get far enough in time; then it is retried with a longer
        // limit.
        let limits = [(1_500, "1.5s"), (6_000, "6s"), (30_000, "30s")];
        let mut reached = false;
        for (limit, words) in limits {
            let rig = Rig::new();
            let before = Instant::now();
            let input = json!({"command": command, "timeout": limit});
            let error = rig.call(&rig.bash(), input).await.unwrap_err();
            let most = Duration::from_millis(limit) + Duration::from_secs(60);
            assert!(before.elapsed() < most, "{command}: {:?}", before.elapsed());
            assert_eq!(error.kind, ErrorKind::TimedOut, "{command}");
            let start = format!("Command timed out after {words}\n");
            assert!(error.message.starts_with(&start), "{}", error.message);
            let data = error.data.unwrap();
            assert_eq!(data["timedOut"], json!(true), "{command}");
            assert!(limit <= data["durationMs"].as_u64().unwrap(), "{data}");
            eventually("nothing of it lives", || rig.tasks.shell().owner().list().is_empty()).await;
            let pids = pids(&rig);
            assert!(!pids.iter().any(|it| lives(*it)), "{command}");
            assert!(rig.tasks.list().is_empty(), "what was ended is no task");
            reached =
                started <= pids.len() && data["stdout"].as_str().unwrap().starts_with(printed.trim_end());
            if reached {
                break;
            }
        }
        assert!(reached, "{command} did not get that far");
    }
}

#[tokio::test]
async fn command_returns_without_waiting_for_leftover_processes() {
    for command in
        ["sleep 600 & echo hi", "sleep 600 </dev/null >/dev/null & echo hi", "nohup sleep 600 & echo hi"]
    {
        let rig = Rig::new();
        let before = Instant::now();
        let got = rig.call(&rig.bash(), json!({"command": command, "timeout": 60_000})).await.unwrap();
        assert!(before.elapsed() < HANGS, "{command}");
        assert_eq!(
            (&got.data["exitCode"], got.data["leftRunning"].as_array().unwrap().len()),
            (&json!(0), 1)
        );
        let text = got.content.to_text();
        assert!(
            text.contains("hi\n") && text.contains("[1 background process still running (pid "),
            "{text}"
        );
    }
}

#[tokio::test]
async fn on_timeout_setting_stops_or_backgrounds_the_command() {
    let command = "echo up; tail -f /dev/null";
    for (on_timeout, named, goes_on) in [
        (OnTimeout::StopIfAsked, true, false),
        (OnTimeout::StopIfAsked, false, true),
        (OnTimeout::Stop, false, false),
        (OnTimeout::GoOn, true, true),
    ] {
        let mut rig = Rig::new();
        rig.settings.on_timeout = on_timeout;
        rig.settings.default_timeout = Duration::from_millis(700);
        let mut input = json!({ "command": command });
        if named {
            input["timeout"] = json!(700);
        }
        let got = rig.call(&rig.bash(), input).await;
        assert_eq!(got.is_ok(), goes_on, "{on_timeout:?} {named}");
        if let Ok(got) = got {
            assert_eq!(got.data["timedOutAfterMs"], json!(700));
            assert_eq!(rig.tasks.list()[0].status.name(), "running");
        }
    }
}

/// Whether a program is installed.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

#[tokio::test]
async fn interactive_programs_end_soon_with_a_hint() {
    let rig = Rig::new();
    std::fs::write(rig.work.join("f"), "alpha\n").unwrap();
    std::fs::write(
        rig.work.join("asks"),
        "#!/bin/sh\nprintf 'Ok to proceed? (y) '; read answer < /dev/tty\n",
    )
    .unwrap();
    let prepare = "git init -q r; cd r; git config user.name a; git config user.email b; echo 1 > x; git add x; git commit -qm one; echo 2 > x; git commit -qam two";
    rig.call(&rig.bash(), json!({ "command": prepare })).await.unwrap();
    for (program, command, want) in [
        ("cat", "cat", "name a file"),
        ("bash", "read x", "set the variable"),
        ("bash", "read -p 'Name: ' x < /dev/tty", "set the variable"),
        ("bash", "sh ./asks", "flag"),
        ("git", "cd r && echo 3 > x && git commit -a", "-m or -F"),
        ("git", "cd r && git checkout -q . && git rebase -i HEAD~1", "GIT_SEQUENCE_EDITOR"),
        ("python3", "python3", "as a here-document"),
        ("python3", "python3 -c 'input(\"Name: \")'", "flag"),
        ("python3", "python3 -c 'import getpass; getpass.getpass()'", "flag"),
        ("ssh-keygen", "HOME=$PWD ssh-keygen -t ed25519", "-N ''"),
        ("less", "less f", "printed at once"),
        ("vim", "vim f", "Edit or Write"),
        ("vim", "vim", "Edit or Write"),
        ("top", "top", "-b -n 1"),
        ("node", "node", "as a here-document"),
        ("sqlite3", "sqlite3", "statement"),
        ("rm", "rm -i f", ""),
        ("npm", "mkdir -p n && cd n && npm init", ""),
        ("sudo", "sudo -k true", ""),
    ] {
        if !is_installed(program) {
            continue;
        }
        let before = Instant::now();
        let text = rig.text(&rig.bash(), json!({"command": command, "timeout": 120_000})).await;
        eprintln!("{command}: {:?}", before.elapsed());
        assert!(before.elapsed() < HANGS, "{command} took {:?}", before.elapsed());
        assert!(!text.starts_with("timed_out"), "{command}: {text}");
        assert!(
            want.is_empty() || text.contains("no terminal and no input") && text.contains(want),
            "{command}: {text}"
        );
    }
    assert_eq!(std::fs::read_to_string(rig.work.join("f")).unwrap(), "alpha\n");
}

/// Types input and collects the output until it contains `want`, because output may pause on a busy
/// machine.
async fn answer(rig: &Rig, mut input: serde_json::Value, want: &str) -> String {
    let id = input["task_id"].clone();
    input["timeout"] = json!(20_000);
    let mut all = rig.text(&rig.task_input(), input).await;
    let until = Instant::now() + HANGS;
    while !all.contains(want) {
        assert!(Instant::now() < until, "{want:?} is not in {all:?}");
        all.push_str(&rig.text(&rig.task_output(), json!({"task_id": id, "timeout": 200})).await);
    }
    all
}

#[tokio::test]
async fn interactive_command_prompts_are_answered_with_task_input() {
    let rig = Rig::new();
    let command = "test -t 0 -a -t 1 && read -p 'Name? ' name < /dev/tty; read -s -p 'Secret: ' secret; echo; echo \"hello $name, ${#secret}\"; exit 4";
    let got = rig.call(&rig.bash(), json!({"command": command, "interactive": true})).await.unwrap();
    assert!(got.data["stdout"].as_str().unwrap().ends_with("Name? "), "{}", got.data);
    let id = got.data["backgroundTaskId"].as_str().unwrap().to_owned();
    assert!(got.content.to_text().contains(&format!("TaskInput {id} types at its terminal")));
    let said = answer(&rig, json!({"task_id": id, "input": "Ada"}), "Secret: ").await;
    assert!(said.starts_with("Ada\nSecret: "), "{said:?}");
    let said = answer(&rig, json!({"task_id": id, "input": "hunter2"}), "failed: exit code 4").await;
    assert!(said.contains("hello Ada, 7\n"), "{said:?}");
    assert!(!said.contains("hunter2"), "what is typed unseen stays unseen");
    assert!(rig.tasks.drain(&"main".into()).is_empty(), "the reader knows that it has ended");
    let said = rig.text(&rig.task_input(), json!({"task_id": id, "input": "more"})).await;
    assert_eq!(said, "failed: bash_1 has ended, so nothing was typed. TaskOutput shows how");
}

#[tokio::test]
async fn control_keys_reach_the_program() {
    let rig = Rig::new();
    let start = |command: &'static str| {
        let (bash, rig) = (rig.bash(), &rig);
        async move {
            let got = rig.call(&bash, json!({"command": command, "interactive": true})).await.unwrap();
            got.data["backgroundTaskId"].as_str().unwrap().to_owned()
        }
    };
    let id = start("trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done").await;
    let said = answer(&rig, json!({"task_id": id, "input": "\u{3}", "enter": false}), "exit code 3").await;
    assert!(said.contains("caught"), "{said}");
    let id = start("echo ready; cat > copy; echo done").await;
    let typed = json!({"task_id": id, "input": "one\ntwo", "timeout": 300});
    rig.call(&rig.task_input(), typed).await.unwrap();
    let said = answer(&rig, json!({"task_id": id, "input": "\u{4}", "enter": false}), "exit code 0").await;
    assert!(said.contains("done"), "{said}");
    assert_eq!(std::fs::read_to_string(rig.work.join("copy")).unwrap(), "one\ntwo\n");
    if is_installed("python3") {
        let id = start("python3 -q -c 'print(int(input(\"n: \")) * 2)'").await;
        answer(&rig, json!({"task_id": id, "input": "21"}), "42").await;
    }
}

#[tokio::test]
async fn task_input_rejects_tasks_without_terminal() {
    let rig = Rig::new();
    let input = rig.task_input();
    rig.call(&rig.bash(), json!({"command": "tail -f /dev/null", "run_in_background": true})).await.unwrap();
    for (given, want) in [
        (
            json!({"task_id": "bash_1", "input": "x"}),
            "failed: bash_1 has no terminal. Start the command again with interactive: true",
        ),
        (
            json!({"task_id": "bash_7", "input": "x"}),
            "invalid_input: There is no task bash_7. Tasks of this session: bash_1 (tail -f /dev/null, running)",
        ),
        (
            json!({"task_id": "bash_1", "input": "", "enter": false}),
            "invalid_input: There is nothing to type: give input, or leave enter out",
        ),
        (
            json!({"task_id": "bash_1", "input": "x".repeat(5_000)}),
            "invalid_input: A terminal takes lines of up to 4000 bytes, and 65536 bytes at once. Give more as a file",
        ),
    ] {
        assert_eq!(rig.text(&input, given).await, want);
    }
}

#[tokio::test]
async fn short_interactive_command_returns_a_normal_result() {
    let rig = Rig::new();
    let got = rig.text(&rig.bash(), json!({"command": "echo hi; mkdir d; cd d", "interactive": true})).await;
    assert_eq!(got, "hi\n[cwd: WORK/d]");
    assert!(rig.tasks.list().is_empty());
    let bash = rig.bash();
    let parsed = std::sync::Arc::clone(&bash)
        .parse(json!({"command": "less f", "interactive": true}), &rig.context())
        .unwrap();
    assert!(!parsed.is_read_only(), "what will be typed is not known");
}

#[tokio::test]
async fn terminal_command_ends_with_its_session() {
    haft_shell::own::adopt_orphans().unwrap();
    let rig = Rig::new();
    let command = "echo up; echo $$ >> pids; (setsid sh -c 'echo $$ >> pids; exec sleep 600' &); read x";
    rig.call(&rig.bash(), json!({"command": command, "interactive": true})).await.unwrap();
    eventually("both run", || pids(&rig).len() == 2).await;
    rig.call(&rig.task_stop(), json!({"task_id": "bash_1"})).await.unwrap();
    eventually("both end", || !pids(&rig).into_iter().any(lives)).await;
}

#[tokio::test]
async fn task_with_endless_output_is_stopped_with_a_reason() {
    let rig = Rig::with(|config| config.spool = haft_shell::output::SpoolLimits::with_cap(64 << 10));
    rig.call(&rig.bash(), json!({"command": "yes", "run_in_background": true})).await.unwrap();
    rig.tasks.news(&"main".into()).await;
    let told = rig.tasks.drain(&"main".into());
    assert!(told[0].text().contains("output_limit"), "{}", told[0].text());
    let error = rig.call(&rig.bash(), json!({"command": "yes"})).await.unwrap_err();
    assert!(
        error.message.starts_with("Output_limit: it printed more than a command may"),
        "{}",
        error.message
    );
    let files = std::fs::read_dir(rig.tasks.shell().outputs()).unwrap().flatten();
    assert!(files.filter_map(|it| it.metadata().ok()).all(|it| it.len() <= 64 << 10));
}

#[tokio::test]
async fn arbitrary_command_output_is_shown_safely() {
    let rig = Rig::new();
    for command in [
        "printf 'a\\0b\\n'; echo text text text text text text text",
        "printf '\\377\\376 mostly text, really\\n'",
        "printf '\\033[?1049h\\033[?1000hfull screen\\n'",
        "printf '\\033]52;c;aGVsbG8=\\007clipboard\\n'",
        "printf '\\033]0;title\\033\\\\\\033P+q544e\\033\\\\\\033_x\\033\\\\done\\n'",
        "for i in $(seq 10000); do printf '\\r%s%%' $i; done; echo",
        "for i in $(seq 20000); do printf '😀'; done",
        "printf 'a\\b\\b\\v\\f\\a\\177\\302\\233m\\n'",
        "head -c 100000 /dev/urandom",
        "head -c 3000 /dev/urandom; echo text",
    ] {
        let got = rig.call(&rig.bash(), json!({ "command": command })).await.unwrap();
        let text = got.content.to_text();
        let controls: Vec<char> =
            text.chars().filter(|it| it.is_control() && !matches!(it, '\n' | '\t')).collect();
        assert!(controls.is_empty(), "{command}: {controls:?} in {text:?}");
        assert!(text.chars().count() < 32_000, "{command}");
        assert!(!text.contains('\u{fffd}') || command.contains("urandom"), "{command}: {text:?}");
    }
    let got = rig
        .text(&rig.bash(), json!({"command": "for i in $(seq 10000); do printf '\\r%s%%' $i; done; echo"}))
        .await;
    assert_eq!(got, "10000%\n[cwd: WORK]");
}
