//! The client against many kinds of misbehaving servers.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::time::Duration;

use haft_mcp_client::{ProtocolRevision, ServerConfig, ServerState};
use serde_json::json;
use support::{Fixture, TIMEOUT};

/// Expectations for a server in these modes: number of tools, and the result of calling `echo`; text
/// after `!` is in the error.
struct Case(&'static str, usize, &'static str);

const CASES: &[Case] = &[
    // Protocol generations and handshakes.
    Case("", 1, "hi"),
    Case("modern", 1, "hi"),
    Case("both", 1, "hi"),
    Case("ignore_probe", 1, "hi"),
    Case("exit_on_probe", 1, "hi"),
    Case("slow_start", 1, "hi"),
    Case("probe_empty", 1, "hi"),
    Case("probe_no_id", 1, "hi"),
    Case("probe_old", 1, "hi"),
    Case("picky", 1, "hi"),
    Case("old", 1, "hi"),
    Case("strange_version", 1, "hi"),
    Case("no_version", 1, "hi"),
    Case("caps_true", 1, "hi"),
    Case("no_caps", 1, "hi"),
    Case("no_info", 1, "hi"),
    Case("ping_first", 1, "hi"),
    // Framing.
    Case("pretty", 1, "hi"),
    Case("bom", 1, "hi"),
    Case("crlf", 1, "hi"),
    Case("noise", 1, "hi"),
    Case("content_length", 1, "hi"),
    Case("batch", 1, "hi"),
    Case("doubled", 1, "hi"),
    Case("glued", 1, "hi"),
    Case("string_ids", 1, "hi"),
    Case("float_ids", 1, "hi"),
    Case("no_jsonrpc", 1, "hi"),
    Case("null_error", 1, "hi"),
    Case("echo_method", 1, "hi"),
    Case("stderr_flood", 1, "hi"),
    Case("stdout_flood", 1, "hi"),
    // Lists.
    Case("many", 500, "hi"),
    Case("bad_tools", 11, "hi"),
    Case("odd_hints", 1, "hi"),
    Case("paged", 6, "hi"),
    Case("circular", 1, "hi"),
    Case("endless", 1, "hi"),
    Case("cursor_number", 1, "hi"),
    // Calls.
    Case("wrong_id", 1, "hi"),
    Case("progress_flood", 1, "hi"),
    Case("notification_flood", 1, "hi"),
    Case("unknown_content", 1, "hi\n[content of a kind that is not known here"),
    Case("content_string", 1, "hi"),
    Case("content_object", 1, "hi"),
    Case("content_missing", 1, "{\n  \"text\": \"hi\"\n}"),
    Case("extra_keys", 1, "hi"),
    Case("call_null", 1, "(no output)"),
    Case("huge", 1, "xxxx"),
    Case("surrogate", 1, "a\u{fffd} b"),
    Case("bad_utf8", 1, "a\u{fffd} b"),
    Case("nan", 1, "a"),
    Case("raw_controls", 1, "a\tb"),
    Case("last_words", 1, "bye"),
    Case("error_no_message", 1, "!code -1"),
    Case("error_string_code", 1, "!bad luck"),
    Case("error_string", 1, "!bad luck"),
    Case("error_no_id", 1, "!bad luck"),
    Case("error_string_code,null_result", 1, "!bad luck"),
    Case("is_error", 1, "!hi"),
    Case("is_error_text", 1, "!hi"),
    Case("too_huge", 1, "!larger than 64 MiB"),
    Case("deep", 1, "!cannot be read"),
    Case("broken_json", 1, "!cannot be read"),
    Case("die_on_call", 1, "!its outcome is unknown"),
    Case("die_on_call,read_only", 1, "!twice in a row"),
    Case("close_stdout", 1, "!closed its output"),
    Case("no_reply", 1, "!no answer and no progress for 1 s"),
    Case("ping_forever", 1, "!no answer within 2 s"),
    Case("ping_then_answer", 1, "hi"),
];

/// Sets short timeouts for servers that never answer, which end by them on any machine.
fn limited(mut config: ServerConfig, modes: &str) -> ServerConfig {
    let is_short = ["no_reply", "ping_forever"].contains(&modes);
    config.timeouts.idle = if is_short { Duration::from_secs(1) } else { TIMEOUT };
    config.timeouts.total = if is_short { Duration::from_secs(2) } else { TIMEOUT * 2 };
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_misbehaving_server_is_used_as_far_as_possible() {
    // One manager per case, a few concurrently: most of them only wait.
    let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(4));
    let mut running = tokio::task::JoinSet::new();
    for case in CASES {
        let gate = std::sync::Arc::clone(&gate);
        running.spawn(async move {
            let _permit = gate.acquire().await;
            check(case).await
        });
    }
    let problems: Vec<String> = running.join_all().await.into_iter().flatten().collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

async fn check(Case(modes, tools, want): &Case) -> Option<String> {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![limited(fixture.fake("srv", modes), modes)]);
    let settled = fixture.manager.settled(TIMEOUT).await;
    let status = fixture.manager.status().remove(0);
    if !settled || status.state != ServerState::Ready || status.tools != *tools {
        return Some(format!("{modes}: {status:#?}"));
    }
    let answer = fixture.call("mcp__srv__echo", json!({"text": "hi"})).await;
    let good = match (&answer, want.strip_prefix('!')) {
        (Ok(output), None) => output.content.to_text().starts_with(want),
        (Err(err), Some(part)) => err.message.contains(part),
        _ => false,
    };
    let shown = format!("{answer:?}");
    let problem = (!good).then(|| format!("{modes}: {}", haft_types::text::head(&shown, 500)));
    fixture.manager.shutdown().await;
    problem
}

#[tokio::test]
async fn dead_server_fails_with_reason() {
    // Only the server that never does anything has a short timeout, so that it ends by it on any
    // machine.
    for (modes, part, startup) in [
        ("die_at_start", "fatal: no configuration", TIMEOUT),
        ("refuse", "the licence has expired", TIMEOUT),
        ("silent", "no handshake within 1", Duration::from_secs(1)),
        ("die_after_init", "exited with code 7", TIMEOUT),
        ("list_error", "no list today", TIMEOUT),
    ] {
        let fixture = Fixture::new();
        let mut config = limited(fixture.fake("srv", modes), modes);
        config.timeouts.startup = startup;
        fixture.manager.set_servers(vec![config]);
        assert!(fixture.manager.settled(TIMEOUT).await, "{modes}");
        let status = fixture.manager.status().remove(0);
        assert_eq!(status.state, ServerState::Failed, "{modes}");
        let error = status.last_error.unwrap_or_default();
        assert!(error.contains(part), "{modes}: {error}");
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn missing_program_is_reported() {
    let fixture = Fixture::new();
    let mut config = fixture.fake("srv", "");
    if let haft_mcp_client::ServerEndpoint::Stdio(command) = &mut config.endpoint {
        command.program = String::from("haft-no-such-program");
    }
    fixture.manager.set_servers(vec![config]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let status = fixture.manager.status().remove(0);
    assert_eq!(status.state, ServerState::Failed);
    assert!(status.last_error.unwrap().contains("cannot start `haft-no-such-program`"));
}

#[tokio::test]
async fn both_protocol_generations_are_detected() {
    for (modes, era, version) in [
        ("", ProtocolRevision::Legacy, "2025-11-25"),
        ("old", ProtocolRevision::Legacy, "2024-11-05"),
        ("picky", ProtocolRevision::Legacy, "2024-11-05"),
        ("modern", ProtocolRevision::Modern, "2026-07-28"),
        ("both", ProtocolRevision::Modern, "2026-07-28"),
        ("exit_on_probe", ProtocolRevision::Legacy, "2025-11-25"),
    ] {
        let fixture = Fixture::new();
        fixture.manager.set_servers(vec![fixture.fake("srv", modes)]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let info = fixture.manager.status().remove(0).info.unwrap();
        assert_eq!((info.era, info.protocol_version.as_str()), (era, version), "{modes}");
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn invalid_tool_is_skipped_and_listed() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "bad_tools")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let status = fixture.manager.status().remove(0);
    let skipped: Vec<(&str, &str)> =
        status.skipped.iter().map(|it| (it.name.as_str(), it.reason.as_str())).collect();
    assert_eq!(
        skipped,
        [
            ("list_schema", "inputSchema: `[]` is not a schema"),
            ("echo", "name: the server lists it twice; the first one counts"),
            ("#15", "name: it has none"),
            ("#16", "it is not an object"),
            ("root_string", "type: its arguments are not an object but `string`"),
        ]
    );
    // A merged union rejects what matches neither branch, naming both.
    let err = fixture.call("mcp__srv__any_of", json!({})).await.unwrap_err();
    assert!(err.message.contains("`a`") && err.message.contains("`b`"), "{}", err.message);
    let output = fixture.call("mcp__srv__any_of", json!({"b": "3"})).await;
    assert!(output.is_ok(), "{output:?}");
    fixture.manager.shutdown().await;
}

/// A misbehaving server in the given modes; it writes notes to the fixture's directory.
fn odd(fixture: &Fixture, modes: &str) -> ServerConfig {
    let script = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/odd_server.py");
    let mut command = haft_mcp_client::StdioCommand {
        program: String::from("python3"),
        args: vec!["-IS".into(), script.display().to_string(), modes.to_owned()],
        ..haft_mcp_client::StdioCommand::default()
    };
    command.env.insert("ODD_NOTES".into(), fixture.path("srv.log").display().to_string());
    ServerConfig::new("srv", haft_mcp_client::ServerEndpoint::Stdio(command))
}

#[tokio::test]
async fn late_answer_reaches_no_other_call() {
    let fixture = Fixture::new();
    let mut config = odd(&fixture, "late");
    config.timeouts.total = Duration::from_secs(3);
    fixture.manager.set_servers(vec![config]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let pid = fixture.manager.status()[0].pid;
    let err = fixture.call("mcp__srv__echo", json!({"text": "3.5"})).await.unwrap_err();
    assert!(err.message.contains("no answer within 3 s"), "{}", err.message);
    // The late answer arrives while other calls wait for theirs.
    for text in ["0.1", "0.2", "0.3", "0.4"] {
        let output = fixture.call("mcp__srv__echo", json!({"text": text})).await.unwrap();
        assert_eq!(output.content.to_text(), text);
    }
    assert_eq!(fixture.manager.status()[0].pid, pid, "it lives on");
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn server_that_closes_stdin_is_restarted() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![odd(&fixture, "close_stdin")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let pid = fixture.manager.status()[0].pid;
    // A call that was written earlier would wait for its answer.
    let input = format!("/proc/{}/fd/0", pid.unwrap());
    support::eventually("its input is closed", || std::fs::symlink_metadata(&input).is_err()).await;
    let err = fixture.call("mcp__srv__echo", json!({"text": "x"})).await.unwrap_err();
    assert!(err.message.contains("closed its input"), "{}", err.message);
    support::eventually("another one runs", || {
        let now = fixture.manager.status()[0].pid;
        now.is_some() && now != pid
    })
    .await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn ever_changing_list_is_read_with_backoff() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![odd(&fixture, "churn")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    support::asked_less_and_less(&fixture).await;
    fixture.manager.shutdown().await;
}
