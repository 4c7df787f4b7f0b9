//! Random sessions of the real program against the strict mock server, in three wire formats: the server
//! drops connections, fails, changes its context window and counts tokens its own way; the program is
//! killed and resumed. No session fails, every prompt gets an answer, and no request is refused except
//! for its length.
//!
//! `HAFT_SOAK_REQUESTS` sets the number of requests and `HAFT_SOAK_SEED` the seed
//! (`cargo xtask requests-soak`); a normal test run makes a few.

mod turns;

use std::{process::Stdio, sync::Arc, time::Duration};

use haft_testkit::{MockModel, Script, Turn};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use crate::{acp_random::EditorDice, common::Haft};
use turns::{FOR_GOOD, Windows, hostile_turns};

/// Faulty requests per session before the server behaves again.
const HOSTILE: usize = 40;

/// Only a hang takes this long.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Concurrent sessions.
const AT_ONCE: usize = 4;

/// Error texts with which services report an exceeded context window; `None`: the wire format's usual
/// text.
const WINDOW_WORDS: [Option<&str>; 6] = [
    None,
    None,
    Some("Input is too long for requested model."),
    Some("context_length_exceeded"),
    Some("the request exceeds the available context size, try increasing it"),
    Some("Your input exceeds the context window of this model. Please adjust your input and try again."),
];

#[derive(Clone, Copy, Debug)]
enum Wire {
    Messages,
    Chat,
    Responses,
}

const WIRES: [Wire; 3] = [Wire::Messages, Wire::Chat, Wire::Responses];

/// One running program.
struct Talk {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Parameters of a random session.
struct Plan {
    seed: u64,
    wire: Wire,
    model: &'static str,
    tools: &'static str,
    bytes_per_token: f64,
    words: Option<&'static str>,
}

impl Plan {
    fn new(seed: u64, dice: &mut EditorDice) -> Self {
        let wire = WIRES[dice.roll(WIRES.len())];
        // A model the catalogue knows with a large window, and an unknown one.
        let known = if matches!(wire, Wire::Messages) { "claude-opus-4-5" } else { "gpt-5" };
        Self {
            seed,
            wire,
            model: [known, "house-model-7"][dice.roll(2)],
            tools: ["default", "Bash,Read,Write"][dice.roll(2)],
            bytes_per_token: [2.6, 3.3, 4.0, 5.0][dice.roll(4)],
            words: WINDOW_WORDS[dice.roll(WINDOW_WORDS.len())],
        }
    }

    fn script(&self, turns: Vec<Turn>) -> Script {
        Script {
            bytes_per_token: self.bytes_per_token,
            window_words: self.words.map(str::to_owned),
            ..Script::from_turns(turns)
        }
    }

    fn start(&self, haft: &Haft, url: &str, more: &[&str]) -> Talk {
        let mut command = haft.async_command();
        command.args(["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]);
        command.args(["--permission-mode", "bypassPermissions", "--model", self.model]);
        command.args(["--tools", self.tools]).args(more).env("IS_SANDBOX", "1");
        match self.wire {
            Wire::Messages => command.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "key"),
            Wire::Chat => command.env("OPENAI_BASE_URL", format!("{url}/v1")).env("OPENAI_API_KEY", "key"),
            Wire::Responses => command
                .env("OPENAI_BASE_URL", format!("{url}/v1"))
                .env("OPENAI_API_KEY", "key")
                .env("HAFT_OPENAI_FORM", "responses"),
        };
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.kill_on_drop(true).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Talk { child, input, lines }
    }

    /// Context windows from the minimum the first request needs up to a few times that.
    async fn windows(&self, haft: &Haft) -> Windows {
        let mock = MockModel::start(self.script(vec![Turn::text("Fine.")])).await.unwrap();
        let mut talk = self.start(haft, &mock.url(), &["--no-session-persistence"]);
        talk.say("hi").await;
        talk.result().await.unwrap();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
        let tokens = |bytes: f64| (bytes / self.bytes_per_token) as u64;
        let sent = mock.requests()[0].body.len();
        // Room for the last compaction's summary, the latest messages, and an answer.
        let least = tokens(sent as f64) + tokens(8_000.0) + 2_500;
        Windows { least, most: least * 3 }
    }
}

impl Talk {
    async fn say(&mut self, words: &str) {
        let line = json!({"type": "user", "message": {"role": "user", "content": words}});
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        self.input.flush().await.unwrap();
    }

    /// The result of the prompt; the error has the output so far if the program is gone.
    async fn result(&mut self) -> Result<Value, String> {
        let mut last = String::new();
        loop {
            let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await;
            let line = line.map_err(|_| format!("it hangs; the last line was {last}"))?;
            let Some(line) = line.map_err(|err| err.to_string())? else {
                let mut noise = String::new();
                self.child.stderr.take().unwrap().read_to_string(&mut noise).await.ok();
                return Err(format!("the program is gone: {last} {noise}"));
            };
            let frame: Value = serde_json::from_str(&line).map_err(|err| format!("{err}: {line}"))?;
            if frame["type"] == "result" {
                return Ok(frame);
            }
            last = line.chars().take(400).collect();
        }
    }
}

/// Runs one session until its server has played all turns; returns the number of requests.
async fn session(seed: u64) -> Result<usize, String> {
    let mut dice = EditorDice::new(seed);
    let plan = Plan::new(seed, &mut dice);
    let haft = Haft::new();
    haft.write("big.txt", &"a line of some words, and of some more\n".repeat(1_300));
    let windows = plan.windows(&haft).await;
    let told = |what: String| {
        let Plan { seed, wire, model, tools, words, .. } = plan;
        format!("seed {seed} ({wire:?}, {model}, tools {tools}, {windows:?}, {words:?}): {what}")
    };
    let script = plan.script(hostile_turns(&mut dice, HOSTILE, windows));
    let mock = MockModel::start(script).await.map_err(|err| err.to_string())?;
    let id = format!("00000000-0000-4000-8000-{:012x}", plan.seed & 0xffff_ffff_ffff);
    let mut talk = plan.start(&haft, &mock.url(), &["--session-id", &id]);
    let mut prompts = 0;
    while 1 < mock.unused() {
        prompts += 1;
        talk.say(&prompt(&mut dice, prompts)).await;
        if dice.roll(6) == 0 {
            // Kill the program at a random request.
            let until = mock.count() + 1 + dice.roll(3);
            let working = async {
                mock.wait_until(|requests| until <= requests.len()).await;
            };
            tokio::select! {
                () = working => (),
                ended = talk.result() => { ended.map_err(told)?; }
            }
            talk.child.kill().await.map_err(|err| err.to_string())?;
            talk = plan.start(&haft, &mock.url(), &["--resume", &id]);
            continue;
        }
        let result = talk.result().await.map_err(told)?;
        may_be(&result).map_err(|what| told(format!("prompt {prompts}: {what}")))?;
    }
    talk.say("Are you still there?").await;
    let last = talk.result().await.map_err(told)?;
    if last["result"] != "That is it." {
        return Err(told(format!("the last prompt: {last}")));
    }
    let odd: Vec<String> =
        mock.refusals().into_iter().filter(|it| !is_about_length(it, plan.words)).collect();
    if odd.is_empty() { Ok(mock.count()) } else { Err(told(format!("requests were refused: {odd:?}"))) }
}

fn prompt(dice: &mut EditorDice, number: usize) -> String {
    match dice.roll(8) {
        0 => format!("Prompt {number}: {} END", "many words ".repeat(3_000)),
        1 => format!("Prompt {number}: größer \u{202e} 👩‍👩‍👧"),
        _ => format!("Prompt {number}: go on."),
    }
}

/// Checks that this is an acceptable end of a prompt: an answer, or a failure the server intended.
fn may_be(result: &Value) -> Result<(), String> {
    let said = result.to_string();
    let is_fine = result["subtype"] == "success" && result["is_error"] == false;
    let wanted = said.contains(FOR_GOOD)
        || result["stop_reason"] == "refusal"
        // Three in a row: a compaction may have consumed the answer between two of them.
        || result["terminal_reason"] == "output_truncated";
    if is_fine || wanted { Ok(()) } else { Err(said) }
}

fn is_about_length(refusal: &str, words: Option<&str>) -> bool {
    words == Some(refusal)
        || ["prompt is too long", "exceed context limit", "maximum context length"]
            .iter()
            .any(|it| refusal.contains(it))
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[allow(clippy::print_stderr, reason = "the numbers are what a long run is for")]
fn tell(text: &str) {
    eprintln!("{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_ends() {
    let (most, first) = (number("HAFT_SOAK_REQUESTS", 240), number("HAFT_SOAK_SEED", 1));
    let sessions = most.div_ceil(HOSTILE as u64);
    let gate = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let running = (first..first + sessions).map(|seed| {
        let gate = Arc::clone(&gate);
        tokio::spawn(async move {
            let _turn = gate.acquire().await.unwrap();
            session(seed).await
        })
    });
    let (mut requests, mut dead) = (0, Vec::new());
    for run in running.collect::<Vec<_>>() {
        match run.await.unwrap() {
            Ok(made) => requests += made,
            Err(what) => {
                tell(&what);
                dead.push(what);
            }
        }
    }
    tell(&format!("{requests} requests of {sessions} sessions, {} of them ended", dead.len()));
    assert!(dead.is_empty(), "{} of {sessions} sessions:\n{}", dead.len(), dead.join("\n"));
}
