//! Broken streams.

use std::{collections::HashSet, time::Duration};

use futures_util::StreamExt as _;
use haft_model::{ModelAnswer, ModelError, Provider as _, StopReason, StreamTimeouts};
use haft_testkit::{ErrorReply, ReplyPiece, Script, StreamCut, StreamStall, ToolPiece, Turn};
use haft_types::MessageBlock;
use serde_json::json;

use crate::support::{anthropic, ask, mock, quick, say, soon, start};

fn two_calls() -> Turn {
    Turn::from_pieces([
        ReplyPiece::text("both"),
        ReplyPiece::tool("Bash", json!({"command": "echo x >> log"})),
        ReplyPiece::tool("Read", json!({"file_path": "/a"})),
    ])
}

fn ids(answer: &ModelAnswer) -> Vec<&str> {
    answer.calls().iter().map(|call| call.id.as_str()).collect()
}

#[tokio::test]
async fn cut_stream_is_retried_or_interrupted() {
    let whole = start(Script { delta_chars: 100, ..Script::from_turns([two_calls()]) }).await;
    let want = ask(&anthropic(&whole, quick()), say("x")).await.unwrap();
    // Tests inside the crate cut at every byte.
    let bytes = || (0..1700).step_by(9);
    let mut turns = Vec::new();
    for byte in bytes() {
        for (name, how) in [("end", StreamCut::End), ("reset", StreamCut::Reset)] {
            turns.push(two_calls().when(&format!("<{name} {byte}>")).cut_at(byte, how));
        }
    }
    turns.push(two_calls().always());
    let mock = start(Script { delta_chars: 100, ..Script::from_turns(turns) }).await;
    let provider = anthropic(&mock, quick());
    let (mut retried, mut interrupted) = (0, 0);
    for byte in bytes() {
        for name in ["end", "reset"] {
            let answer = ask(&provider, say(&format!("<{name} {byte}>"))).await.unwrap();
            let place = format!("{name} {byte}: {answer:?}");
            assert_eq!(answer.bad_calls, [], "{place}");
            let all = ids(&answer);
            assert_eq!(all.len(), all.iter().collect::<HashSet<_>>().len(), "{place}");
            if answer.stop == Some(StopReason::Interrupted) {
                // Emitted calls stay valid, and the request was not sent again.
                interrupted += 1;
                assert_eq!((all.len(), answer.retries.len()), (1, 0), "{place}");
                assert_eq!(answer.calls()[0].input, want.calls()[0].input);
            } else {
                retried += answer.retries.len();
                assert_eq!(answer.text(), want.text(), "{place}");
                let inputs = |answer: &ModelAnswer| {
                    answer.calls().iter().map(|it| it.input.clone()).collect::<Vec<_>>()
                };
                assert_eq!(inputs(&answer), inputs(&want), "{place}");
            }
        }
    }
    assert!(retried > 10 && interrupted > 10, "{retried} {interrupted}");
    assert_eq!(mock.refusals(), Vec::<String>::new());
}

#[tokio::test]
async fn complete_call_survives_break_in_second_call() {
    let second = ToolPiece {
        name: "Read".to_owned(),
        input: json!({"file_path": "/a"}),
        keep: Some(6),
        open: true,
        ..ToolPiece::default()
    };
    let turn = Turn::from_pieces([
        ReplyPiece::tool("Bash", json!({"command": "echo x >> log"})),
        ReplyPiece::Tool(second),
        ReplyPiece::Cut(StreamCut::Reset),
    ]);
    let mock = mock([turn, Turn::text("never asked for")]).await;
    let answer = ask(&anthropic(&mock, quick()), say("go")).await.unwrap();
    assert_eq!(answer.stop, Some(StopReason::Interrupted));
    assert_eq!(answer.content.len(), 1);
    assert!(matches!(&answer.content[0], MessageBlock::ToolUse(call) if call.name == "Bash"));
    assert_eq!(mock.count(), 1);
}

#[tokio::test]
async fn transient_errors_are_retried() {
    let overloaded = || ErrorReply {
        status: 529,
        kind: "overloaded_error".to_owned(),
        message: "Overloaded".to_owned(),
        headers: Default::default(),
    };
    let failing: Vec<(&str, Turn)> = vec![
        ("529", Turn::error(529, "overloaded_error", "Overloaded")),
        ("500", Turn::error(500, "api_error", "Internal server error")),
        ("429", Turn::error(429, "rate_limit_error", "slow down").header("retry-after", "0")),
        ("429 ms", Turn::error(429, "rate_limit_error", "slow down").header("retry-after-ms", "3")),
        ("400 but retry", Turn::error(400, "invalid_request_error", "odd").header("x-should-retry", "true")),
        ("drop", Turn { drop: true, ..Turn::default() }),
        (
            "error frame",
            Turn::from_pieces([ReplyPiece::OpenText("half".to_owned()), ReplyPiece::Error(overloaded())]),
        ),
        (
            "cut",
            Turn::from_pieces([ReplyPiece::OpenText("half".to_owned()), ReplyPiece::Cut(StreamCut::Reset)]),
        ),
        ("garbage", Turn { raw: Some("data: {not json\n\n".to_owned()), ..Turn::default() }),
        ("empty", Turn { raw: Some(String::new()), ..Turn::default() }),
    ];
    for (name, turn) in failing {
        let mock = mock([turn, Turn::text("at last")]).await;
        let answer = ask(&anthropic(&mock, quick()), say("go")).await.unwrap();
        assert_eq!((answer.text().as_str(), answer.retries.len()), ("at last", 1), "{name}");
        assert_eq!(mock.count(), 2, "{name}");
    }
}

#[tokio::test]
async fn permanent_errors_are_not_retried() {
    for (name, turn) in [
        ("no retry", Turn::error(529, "overloaded_error", "no").header("x-should-retry", "false")),
        ("too long", Turn::error(429, "rate_limit_error", "no").header("retry-after", "3600")),
        ("refused", Turn::error(400, "invalid_request_error", "no")),
    ] {
        let mock = mock([turn.always()]).await;
        let error = ask(&anthropic(&mock, quick()), say("go")).await.unwrap_err();
        assert_eq!(mock.count(), 1, "{name}: {error}");
        if name == "too long" {
            assert!(
                matches!(error, ModelError::RateLimited { retry_after: Some(wait), .. } if wait.as_secs() == 3600)
            );
        }
    }
}

#[tokio::test]
async fn retries_stop_at_maximum() {
    let mock = mock([Turn::error(529, "overloaded_error", "Overloaded").always()]).await;
    let error = ask(&anthropic(&mock, quick()), say("go")).await.unwrap_err();
    assert!(matches!(error, ModelError::Server { status: 529, .. }));
    assert_eq!(mock.count(), 6);
}

#[tokio::test]
async fn silent_stream_times_out() {
    let open = ToolPiece { name: "Read".to_owned(), keep: Some(1), open: true, ..ToolPiece::default() };
    let stalled: Vec<(&str, Turn, bool)> = vec![
        (
            "before",
            Turn {
                stall: Some(haft_testkit::ByteFault { byte: 0, what: StreamStall::Forever }),
                ..Turn::text("x")
            },
            false,
        ),
        (
            "in text",
            Turn::from_pieces([
                ReplyPiece::OpenText("x".to_owned()),
                ReplyPiece::Stall(StreamStall::Forever),
            ]),
            false,
        ),
        (
            "after a call",
            Turn::from_pieces([
                ReplyPiece::tool("Bash", json!({})),
                ReplyPiece::Tool(open),
                ReplyPiece::Stall(StreamStall::Forever),
            ]),
            true,
        ),
    ];
    for (name, turn, stands) in stalled {
        let mock = mock([turn, Turn::text("at last")]).await;
        let mut common = quick();
        common.patience = StreamTimeouts::idle(Duration::from_secs(1));
        let answer = ask(&anthropic(&mock, common), say("go")).await.unwrap();
        if stands {
            assert_eq!(answer.stop, Some(StopReason::Interrupted), "{name}");
        } else {
            assert_eq!(answer.text(), "at last", "{name}");
            assert!(answer.retries[0].reason.contains("sent nothing"), "{name}");
        }
    }
}

#[tokio::test]
async fn short_pause_is_not_a_timeout() {
    let mock = mock([Turn::from_pieces([
        ReplyPiece::text("a"),
        ReplyPiece::Stall(StreamStall::Ms(50)),
        ReplyPiece::text("b"),
    ])])
    .await;
    let answer = ask(&anthropic(&mock, quick()), say("go")).await.unwrap();
    assert_eq!((answer.text().as_str(), answer.retries.len()), ("ab", 0));
}

#[tokio::test]
async fn dropping_the_stream_closes_the_connection() {
    let mock =
        mock([Turn::from_pieces([ReplyPiece::text("a"), ReplyPiece::Stall(StreamStall::Forever)])]).await;
    let provider = anthropic(&mock, quick());
    let mut stream = provider.stream(say("go"));
    soon(stream.next()).await.unwrap().unwrap();
    drop(stream);
    soon(mock.wait_until(|requests| requests.iter().any(|request| request.abandoned))).await;
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let mock = mock([Turn::text("x")]).await;
    let provider = anthropic(&mock, quick());
    drop(provider.stream(say("go")));
    ask(&provider, say("go")).await.unwrap();
    assert_eq!(mock.count(), 1);
}

#[tokio::test]
async fn rejected_key_is_requested_from_helper_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("n");
    let helper = format!(
        "echo x >> '{}'; [ $(wc -l < '{}') -gt 1 ] && echo right || echo wrong",
        file.display(),
        file.display()
    );
    let mock =
        start(Script { api_key: Some("right".to_owned()), ..Script::from_turns([Turn::text("in")]) }).await;
    let login = haft_model::AnthropicLogin::ApiKey(haft_model::KeySource::helper(helper));
    let provider = haft_model::HttpProvider::anthropic(&mock.url(), login, quick()).unwrap();
    assert_eq!(ask(&provider, say("go")).await.unwrap().text(), "in");
    assert_eq!(mock.count(), 2);
}
