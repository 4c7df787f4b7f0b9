//! REPL, Sleep and Monitor, tested through the tool contract.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::shell_rig;

use std::{sync::Arc, time::Duration};

use futures_util::SinkExt as _;
use haft_builtin_tools::{
    monitor::{LocalAddressPolicy, Monitor},
    repl::Repl,
    sleep::Sleep,
};
use haft_tool::{Access, AccessSet, DynTool, ErrorKind, erase};
use serde_json::json;
use shell_rig::{Rig, call, eventually, interruptible};
use tokio::net::TcpListener;
use tokio_tungstenite::tungstenite::{Message, protocol::CloseFrame};

fn repl(rig: &Rig) -> Arc<dyn DynTool> {
    erase(Repl::new(rig.tasks.shell().clone(), 30_000))
}

#[tokio::test]
async fn interpreters_keep_state_between_calls() {
    let rig = Rig::new();
    let repl = repl(&rig);
    for (language, code, want) in [
        ("python", "x = 20", "(no output)"),
        ("python", "print('hi')\nx + 1", "hi\n=> 21"),
        ("python", "import asyncio\nawait asyncio.sleep(0, 'waited')", "=> 'waited'"),
        ("python", "def f(n):\n    return n * 2\n\nf(x)", "=> 40"),
        (
            "python",
            "1/0",
            "failed: Traceback (most recent call last):\n  File \"<repl>\", line 1, in <module>\nZeroDivisionError: division by zero",
        ),
        ("python", "x", "=> 20"),
        ("python", "import sys; print('err', file=sys.stderr); None", "err"),
        ("javascript", "const a = 20; let b = 1", "(no output)"),
        ("javascript", "console.log('hi'); a + b", "hi\n=> 21"),
        ("javascript", "await new Promise((done) => setTimeout(() => done('waited'), 1))", "=> 'waited'"),
        ("javascript", "({a: [1, 2]})", "=> { a: [ 1, 2 ] }"),
        ("shell", "x=20; cd /usr; double() { echo $(($1 * 2)); }", "(no output)"),
        ("shell", "double $x; pwd", "40\n/usr"),
        ("shell", "echo 'it'\"'\"'s'; false", "it's\n[exit code 1]"),
        ("shell", "cat", "(no output)"),
    ] {
        let got = rig.text(&repl, json!({"language": language, "code": code})).await;
        assert_eq!(got, want, "{language}: {code}");
    }
    let got = rig.text(&repl, json!({"code": "throw new Error('broken')"})).await;
    assert!(got.contains("broken"), "{got}");
    let got = rig.text(&repl, json!({"language": "python", "session": "other", "code": "x"})).await;
    assert!(got.contains("NameError"), "{got}");
    let got =
        rig.text(&repl, json!({"language": "python", "restart": true, "code": "'x' in globals()"})).await;
    assert_eq!(got, "=> False\n[the interpreter was started anew]");
}

#[tokio::test]
async fn timed_out_code_is_interrupted_without_losing_state() {
    let rig = Rig::new();
    let repl = repl(&rig);
    for (language, before, endless, after, want) in [
        ("python", "x = 1", "print('begun', flush=True)\nwhile True: pass", "x", "=> 1"),
        ("javascript", "var x = 1", "console.log('begun'); while (true) {}", "x", "=> 1"),
        ("javascript", "var x = 1", "console.log('begun'); await new Promise(() => {})", "x", "=> 1"),
        ("shell", "x=1", "echo begun; sleep 600", "echo $x", "1"),
    ] {
        rig.call(&repl, json!({"language": language, "code": before})).await.unwrap();
        let error = rig.call(&repl, json!({"language": language, "code": endless, "timeout": 3000})).await;
        let error = match error {
            Err(error) => error,
            Ok(output) => panic!("{language}: {}", output.content.to_text()),
        };
        assert_eq!(error.kind, ErrorKind::TimedOut, "{}", error.message);
        assert!(error.message.ends_with("keeps what it knows\nbegun"), "{}", error.message);
        assert_eq!(rig.text(&repl, json!({"language": language, "code": after})).await, want);
    }
}

#[tokio::test]
async fn exited_interpreter_is_restarted() {
    let rig = Rig::new();
    let repl = repl(&rig);
    for (language, code) in [
        ("python", "import os; os._exit(3)"),
        ("python", "exit()"),
        ("javascript", "process.exit(3)"),
        ("shell", "exit 3"),
    ] {
        let error = rig.call(&repl, json!({"language": language, "code": code})).await.unwrap_err();
        assert!(error.message.contains("what it knew is gone"), "{}", error.message);
        let code = if language == "shell" { "echo back" } else { "'back'" };
        let got = rig.text(&repl, json!({"language": language, "code": code})).await;
        assert!(got.contains("back"), "{got}");
    }
    let stubborn =
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)";
    let error =
        rig.call(&repl, json!({"language": "python", "code": stubborn, "timeout": 3000})).await.unwrap_err();
    assert!(error.message.contains("did not stop when interrupted"), "{}", error.message);
    drop(repl);
    eventually("nothing is left", || rig.tasks.shell().owner().list().is_empty()).await;
}

#[tokio::test]
async fn idle_interpreters_are_evicted_beyond_the_limit() {
    let rig = Rig::new();
    let repl = repl(&rig);
    for number in 0..12 {
        let session = format!("s{number}");
        rig.call(&repl, json!({"language": "shell", "session": session, "code": "true"})).await.unwrap();
    }
    eventually("old ones end", || rig.tasks.shell().owner().list().len() <= 8).await;
}

#[tokio::test]
async fn sleep_ends_on_time_task_event_or_interrupt() {
    let rig = Rig::new();
    let sleep = erase(Sleep::new(rig.tasks.clone()));
    assert_eq!(rig.text(&sleep, json!({"seconds": 0.01})).await, "The time is up.");
    rig.call(
        &rig.bash(),
        json!({"command": "until [ -e go ]; do sleep 0.01; done", "run_in_background": true}),
    )
    .await
    .unwrap();
    let (tool, cx) = (sleep.clone(), rig.context());
    let waiting = tokio::spawn(async move { call(&tool, json!({"seconds": 3600}), cx).await });
    std::fs::write(rig.work.join("go"), "").unwrap();
    assert_eq!(
        waiting.await.unwrap().unwrap().content.to_text(),
        "Woken up early: a background task has news."
    );
    assert_eq!(rig.tasks.drain(&"main".into()).len(), 1, "waking up is not telling");
    let (cx, cancel) = interruptible(rig.context());
    let waiting = tokio::spawn(async move { call(&sleep, json!({"seconds": 3600}), cx).await });
    cancel.cancel();
    assert_eq!(waiting.await.unwrap().unwrap().data["endedBy"], json!("interrupt"));
}

fn monitor(rig: &Rig, neighbourhood: LocalAddressPolicy) -> Arc<dyn DynTool> {
    erase(Monitor::new(rig.tasks.clone(), neighbourhood))
}

/// Returns all events up to the end, which is the last line.
async fn events(rig: &Rig) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        tokio::time::timeout(Duration::from_secs(60), rig.tasks.news(&"main".into())).await.expect("news");
        for notice in rig.tasks.drain(&"main".into()) {
            match &notice.news {
                haft_shell::run::TaskNoticeKind::Events(events, _) => lines.extend(events.iter().cloned()),
                haft_shell::run::TaskNoticeKind::Ended(_) => {
                    lines.push(notice.text().lines().next().unwrap().to_owned());
                    return lines;
                }
            }
        }
    }
}

#[tokio::test]
async fn monitor_reports_each_line_of_a_command() {
    let rig = Rig::new();
    let monitor = monitor(&rig, LocalAddressPolicy::Refused);
    let input = json!({"description": "numbers", "command": "echo one; echo two; exit 4"});
    let call = Arc::clone(&monitor).parse(input.clone(), &rig.context()).unwrap();
    assert_eq!(
        call.reach(&rig.context()),
        AccessSet::Declared(vec![Access::Command("echo one; echo two; exit 4".into())])
    );
    let got = rig.text(&monitor, input).await;
    assert_eq!(
        got,
        "Watching as bash_1 for up to 300 s. Its events reach you by themselves; TaskStop bash_1 ends it."
    );
    assert_eq!(
        events(&rig).await,
        ["one", "two", "Background task bash_1 (numbers) has ended: exit code 4."]
    );
}

#[tokio::test]
async fn monitor_reports_each_frame_of_a_socket() {
    let rig = Rig::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/feed", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        for message in [Message::text("first"), Message::text("two\nlines"), Message::binary(vec![0_u8; 5])] {
            socket.send(message).await.unwrap();
        }
        let frame = CloseFrame { code: 4001.into(), reason: "enough".into() };
        socket.close(Some(frame)).await.unwrap();
    });
    let input = json!({"description": "feed", "ws": {"url": url}});
    let refused = rig.text(&monitor(&rig, LocalAddressPolicy::Refused), input.clone()).await;
    assert!(refused.contains("not a public address"), "{refused}");
    rig.call(&monitor(&rig, LocalAddressPolicy::Allowed), input).await.unwrap();
    assert_eq!(
        events(&rig).await,
        [
            "first",
            "two lines",
            "[binary frame, 5 bytes]",
            "Background task feed_1 (feed) has ended: the server closed it with code 4001: enough.",
        ]
    );
}

#[tokio::test]
async fn oversized_frame_ends_the_watch() {
    let rig = Rig::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        socket.send(Message::text("x".repeat(2 << 20))).await.ok();
        std::future::pending::<()>().await;
    });
    let input = json!({"description": "feed", "ws": {"url": url}});
    rig.call(&monitor(&rig, LocalAddressPolicy::Allowed), input).await.unwrap();
    let told = events(&rig).await;
    assert!(told.len() == 1 && told[0].contains("the connection broke"), "{told:?}");
}

#[tokio::test]
async fn monitor_rejects_invalid_input_with_a_reason() {
    let rig = Rig::new();
    let monitor = monitor(&rig, LocalAddressPolicy::Refused);
    for (input, want) in [
        (json!({"description": "d"}), "nothing to watch"),
        (json!({"description": "d", "command": "x", "ws": {"url": "ws://x"}}), "not both"),
        (json!({"description": "d", "ws": {"url": "http://x"}}), "only ws:// and wss://"),
        (json!({"description": "d", "ws": {"url": "ws://u:p@x"}}), "password"),
        (json!({"description": "d", "ws": {"url": "ws://0x7f.1/"}}), "not a public address"),
        (json!({"description": "d", "ws": {"url": "ws://[::ffff:10.0.0.1]/"}}), "not a public address"),
        (json!({"description": "d", "ws": {"url": "ws://x y"}}), "blanks"),
        (json!({"description": "d", "ws": {"url": "ws://x", "protocols": ["a", "a"]}}), "different tokens"),
        (json!({"description": "d", "ws": {"url": "ws://localhost:1/"}}), "no public address"),
    ] {
        let got = rig.text(&monitor, input).await;
        assert!(got.contains(want), "{got}");
    }
    assert!(rig.tasks.list().is_empty());
}
