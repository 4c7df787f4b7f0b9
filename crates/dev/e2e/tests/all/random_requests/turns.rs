//! Answers of a faulty model server: calls of every kind, answers that break off, temporary errors,
//! changing context windows. A session must survive all of them.

use haft_testkit::{ByteFault, ErrorReply, ReplyPiece, StreamCut, StreamStall, ToolPiece, Turn};
use serde_json::{Value, json};

use crate::acp_random::EditorDice;

/// Text of a permanent refusal: such a prompt may fail.
pub const FOR_GOOD: &str = "refused for good";

/// Maximum consecutive faults; fewer than the number of attempts per request.
const MAX_FAULTS: usize = 3;

/// Maximum consecutive answers cut off by the output limit; one more would end the prompt.
const MAX_CUTS: usize = 2;

/// Range of context windows of a session; the smallest still fits its minimal request.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    pub least: u64,
    pub most: u64,
}

impl Windows {
    fn pick(&self, dice: &mut EditorDice) -> u64 {
        let span = usize::try_from(self.most - self.least).unwrap();
        self.least + dice.roll(span + 1) as u64
    }
}

/// Answers to `count` requests; the last one repeats.
pub fn hostile_turns(dice: &mut EditorDice, count: usize, windows: Windows) -> Vec<Turn> {
    let mut window = windows.pick(dice);
    let (mut faults, mut cuts) = (0, 0);
    let mut turns = Vec::with_capacity(count + 1);
    for number in 0..count {
        if dice.roll(8) == 0 {
            window = windows.pick(dice);
        }
        let kind = dice.roll(100);
        let turn = match kind {
            0..24 if faults < MAX_FAULTS => {
                faults += 1;
                fault(dice, number)
            }
            24..30 if cuts < MAX_CUTS => {
                cuts += 1;
                cut_by_limit(dice, number)
            }
            30..33 => odd_end(dice),
            33..52 => Turn::text(words(dice)),
            _ => calls(dice, number),
        };
        if 24 <= kind {
            faults = 0;
        }
        // A repeated request may be cut off, too.
        if 30 <= kind {
            cuts = 0;
        }
        turns.push(turn.window(window));
    }
    turns.push(Turn::text("That is it.").window(windows.most).always());
    turns
}

/// A fault that is gone when the request is repeated.
fn fault(dice: &mut EditorDice, number: usize) -> Turn {
    let soon = |turn: Turn| turn.header("retry-after", "0");
    match dice.roll(9) {
        0 => soon(Turn::error(529, "overloaded_error", "Overloaded")),
        1 => soon(Turn::error(500, "api_error", "Internal server error")),
        2 => soon(Turn::error(503, "api_error", "<html>503</html>")),
        3 => soon(Turn::error(429, "rate_limit_error", "Too many requests")),
        4 => Turn { drop: true, ..Turn::default() },
        5 => Turn { raw: Some(String::new()), ..Turn::default() },
        6 => {
            let error = ErrorReply {
                status: 529,
                kind: String::from("overloaded_error"),
                message: String::from("Overloaded"),
                headers: std::collections::BTreeMap::new(),
            };
            Turn::from_pieces([ReplyPiece::text("Well,"), ReplyPiece::Error(error)])
        }
        _ => {
            let what = if dice.roll(2) == 0 { StreamCut::Reset } else { StreamCut::End };
            let cut = ByteFault { byte: dice.roll(2_500), what };
            Turn { cut: Some(cut), ..calls(dice, number) }
        }
    }
}

/// An answer cut off by the output limit, in text or in a call.
fn cut_by_limit(dice: &mut EditorDice, number: usize) -> Turn {
    let pieces = match dice.roll(3) {
        0 => vec![ReplyPiece::text("This is only the first half of what")],
        1 => vec![ReplyPiece::thinking("I thought and thought")],
        _ => {
            let input = json!({"file_path": format!("cut{number}.txt"), "content": "x".repeat(400)});
            let cut = ToolPiece {
                name: String::from("Write"),
                input,
                keep: Some(10 + dice.roll(300)),
                ..ToolPiece::default()
            };
            vec![ReplyPiece::text("Writing."), ReplyPiece::Tool(cut)]
        }
    };
    Turn::from_pieces(pieces).stop("max_tokens")
}

/// An empty answer, or a refusal.
fn odd_end(dice: &mut EditorDice) -> Turn {
    match dice.roll(5) {
        0 => Turn::from_pieces([]).stop("end_turn"),
        1 => Turn::from_pieces([ReplyPiece::thinking("only a thought")]).stop("end_turn"),
        2 => Turn::text("I will not.").stop("refusal"),
        3 => Turn::error(400, "invalid_request_error", FOR_GOOD),
        _ => Turn::text("   \n").stop("end_turn"),
    }
}

fn words(dice: &mut EditorDice) -> String {
    match dice.roll(6) {
        0 => String::from("größer 👩‍👩‍👧 \u{202e}txt"),
        1 => "A long report. ".repeat(60 + dice.roll(400)),
        _ => String::from("Done."),
    }
}

/// Calls of every kind, each different from all earlier ones.
fn calls(dice: &mut EditorDice, number: usize) -> Turn {
    let mut pieces = Vec::new();
    if dice.roll(4) == 0 {
        pieces.push(ReplyPiece::thinking(format!("thought {number}")));
    }
    if dice.roll(3) == 0 {
        pieces.push(ReplyPiece::text(words(dice)));
    }
    let one_id = dice.roll(12) == 0;
    for at in 0..=dice.roll(4) {
        let (name, input) = call(dice, &format!("{number}.{at}"));
        let broken = dice.roll(25) == 0;
        pieces.push(ReplyPiece::Tool(ToolPiece {
            name,
            id: one_id.then(|| String::from("call_0")),
            json: broken.then(|| format!("{{\"command\": \"echo {number}")),
            input,
            ..ToolPiece::default()
        }));
    }
    if dice.roll(20) == 0 {
        pieces.push(ReplyPiece::Stall(StreamStall::Ms(100)));
    }
    Turn::from_pieces(pieces)
}

fn call(dice: &mut EditorDice, mark: &str) -> (String, Value) {
    let bash = |command: String| (String::from("Bash"), json!({"command": command}));
    match dice.roll(12) {
        0 => bash(format!("echo {mark}; seq 1 {}", 500 + dice.roll(9_000))),
        1 => bash(format!("echo {mark} >&2; exit 3")),
        2 => (
            String::from("Read"),
            json!({"file_path": "big.txt", "offset": 1 + dice.roll(900), "limit": 400}),
        ),
        3 => (String::from("Write"), json!({"file_path": format!("w{mark}.txt"), "content": mark})),
        4 => (String::from("Read"), json!({"file_path": format!("missing {mark}")})),
        5 => (format!("Nonsense{mark}"), json!({})),
        6 => (String::from("Read"), json!({"wrong": mark})),
        7 => bash(format!("printf '%s\\0\\xff\\xfe\\x1b[31m' {mark}")),
        _ => bash(format!("echo {mark}")),
    }
}
