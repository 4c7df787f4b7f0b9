//! Cost of sub-agents: time from start to first request, memory of a thousand in parallel, shared prefix
//! of a fork, ten explorers in parallel. `cargo bench -p haft-session --bench agents`;
//! `HAFT_BENCH_ONLY=spawn,fork` runs a part.
#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "a bench prints, and may fail")]

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::StreamExt as _;
use haft_model::{
    Catalog, ModelError, ModelInfo, ModelStream as Answers, Provider, ProviderFuture, Request,
    ScriptedProvider,
};
use haft_session::{
    Command, EventStream, LocationSpec, ModelSpec, Prompt, ProviderSpec, Session, SessionEventKind,
    SessionSpec,
};
use haft_types::{EnvVars, MessageBlock, ToolUse};
use serde_json::{Value, json};

type Answer = dyn Fn(&Request) -> (Duration, Vec<MessageBlock>) + Send + Sync;

/// A model with a delay that records when it was asked.
struct Timed {
    answer: Box<Answer>,
    asked: Mutex<Vec<(Instant, Request)>>,
}

impl Provider for Timed {
    fn name(&self) -> &str {
        "timed"
    }

    fn info(&self, model: &str) -> ModelInfo {
        Catalog::built_in().get(model)
    }

    fn stream(&self, request: Request) -> Answers {
        let (pause, blocks) = (self.answer)(&request);
        self.asked.lock().unwrap().push((Instant::now(), request.clone()));
        let answer = ScriptedProvider::new([blocks]).stream(request);
        Box::pin(
            futures_util::stream::once(tokio::time::sleep(pause))
                .flat_map(move |()| futures_util::stream::empty())
                .chain(answer),
        )
    }

    fn count_tokens(&self, request: Request) -> ProviderFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { Ok(request.estimate_tokens()) })
    }
}

fn text(text: &str) -> Vec<MessageBlock> {
    vec![MessageBlock::Text { text: text.to_owned() }]
}

fn call(id: String, name: &str, input: Value) -> MessageBlock {
    MessageBlock::ToolUse(ToolUse { id: id.into(), name: name.to_owned(), input })
}

fn is_child(request: &Request) -> bool {
    request.system.iter().any(|part| part.text.contains("Another agent gave you this task"))
}

fn session(
    dir: &std::path::Path,
    live: usize,
    answer: impl Fn(&Request) -> (Duration, Vec<MessageBlock>) + Send + Sync + 'static,
) -> (SessionSpec, Arc<Timed>) {
    for name in ["ws", "home"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let set = |name: &str, value: String| (std::ffi::OsString::from(name), std::ffi::OsString::from(value));
    let variables: EnvVars = [
        set("PATH", std::env::var("PATH").unwrap_or_default()),
        set("HOME", dir.join("home").display().to_string()),
        set("HAFT_MAX_AGENTS", live.to_string()),
        set("HAFT_MAX_AGENTS_PER_PROMPT", String::from("10000")),
    ]
    .into_iter()
    .collect();
    let provider = Arc::new(Timed { answer: Box::new(answer), asked: Mutex::default() });
    let place = LocationSpec { variables, ..LocationSpec::new(dir.join("ws")) };
    let given = ProviderSpec::Given { provider: Arc::clone(&provider) as _, catalog: None };
    let model = Some(ModelSpec { provider: given, ..ModelSpec::default() });
    (SessionSpec { model, ..SessionSpec::new(place) }, provider)
}

async fn until_closed(mut events: EventStream, mut see: impl FnMut(&SessionEventKind)) {
    while let Some(event) = events.next().await {
        see(&event.what);
        if matches!(event.what, SessionEventKind::Closed) {
            break;
        }
    }
}

fn middle(mut all: Vec<Duration>, at: f64) -> Duration {
    all.sort();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = ((all.len() - 1) as f64 * at) as usize;
    all[index]
}

/// Time from the start event of an agent to its first request.
async fn spawn() {
    const COUNT: usize = 200;
    let dir = tempfile::tempdir().unwrap();
    let (spec, provider) = session(dir.path(), 20, |request| {
        if is_child(request) {
            (Duration::ZERO, text("done"))
        } else if request.messages.len() < 2 * COUNT {
            let id = format!("c{}", request.messages.len());
            let input = json!({"description": "d", "prompt": id, "run_in_background": false});
            (Duration::ZERO, vec![call(id, "Agent", input)])
        } else {
            (Duration::ZERO, text("done"))
        }
    });
    let (handle, events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    handle.send(Command::Finish);
    let mut started: HashMap<String, Instant> = HashMap::new();
    until_closed(events, |what| {
        if let SessionEventKind::ChildStarted(facts) = what {
            started.insert(facts.prompt.clone(), Instant::now());
        }
    })
    .await;
    let asked = provider.asked.lock().unwrap();
    let first = asked.iter().filter(|(_, request)| is_child(request));
    let times: Vec<Duration> = first
        .filter_map(|(at, request)| {
            let prompt = request.messages[0].content.iter().find_map(|block| match block {
                MessageBlock::Text { text } if started.contains_key(text) => Some(text.clone()),
                _ => None,
            })?;
            Some(at.saturating_duration_since(started[&prompt]))
        })
        .collect();
    println!(
        "spawn        {} starts: first request after p50 {:?}, p99 {:?} (wanted: 2 ms p50)",
        times.len(),
        middle(times.clone(), 0.5),
        middle(times, 0.99)
    );
}

/// Resident memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// A thousand agents that wait for their model in parallel.
async fn thousand() {
    const COUNT: usize = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let (spec, provider) = session(dir.path(), COUNT, |request| {
        if is_child(request) {
            (Duration::from_secs(8), text("report"))
        } else if request.messages.len() == 1 {
            let calls = (0..COUNT).map(|n| {
                call(format!("c{n}"), "Agent", json!({"description": "d", "prompt": format!("task {n}")}))
            });
            (Duration::ZERO, calls.collect())
        } else {
            (Duration::ZERO, text("done"))
        }
    });
    let before = resident();
    let (handle, events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    handle.send(Command::Finish);
    let most = Arc::new(Mutex::new(0));
    let watch = tokio::spawn({
        let (most, provider) = (Arc::clone(&most), Arc::clone(&provider));
        async move {
            loop {
                tokio::time::sleep(Duration::from_millis(50)).await;
                // Memory of the bench's own records does not count.
                provider.asked.lock().unwrap().clear();
                let now = resident();
                let mut most = most.lock().unwrap();
                *most = now.max(*most);
            }
        }
    });
    let mut ended = 0;
    until_closed(events, |what| ended += usize::from(matches!(what, SessionEventKind::ChildEnded(..)))).await;
    watch.abort();
    let each = most.lock().unwrap().saturating_sub(before) / COUNT as u64;
    println!("thousand     {ended} reports of {COUNT}; {} KiB each at most (wanted: 1024)", each / 1024);
}

/// Share of a fork's first request that is identical to its parent's.
async fn fork() {
    let dir = tempfile::tempdir().unwrap();
    let is_fork = |request: &Request| {
        request
            .messages
            .last()
            .is_some_and(|it| format!("{it:?}").contains("You are a fork of the agent above"))
    };
    let (spec, provider) = session(dir.path(), 20, move |request| match request.messages.len() {
        _ if is_fork(request) => (Duration::ZERO, text("done")),
        at if at < 200 => {
            (Duration::ZERO, vec![call(format!("r{at}"), "LS", json!({"path": ".", "depth": at}))])
        }
        200..=201 => {
            let input = json!({"description": "d", "prompt": "p", "subagent_type": "fork", "run_in_background": false});
            (Duration::ZERO, vec![call(String::from("f"), "Agent", input)])
        }
        _ => (Duration::ZERO, text("done")),
    });
    let (handle, events) = Session::open(spec).unwrap();
    handle.prompt(Prompt::text("go"));
    handle.send(Command::Finish);
    until_closed(events, |_| ()).await;
    let asked = provider.asked.lock().unwrap();
    let at = asked.iter().position(|(_, request)| is_fork(request)).unwrap();
    let (parent, forked) = (&asked[at - 1].1, &asked[at].1);
    let shared = parent.messages.iter().zip(&forked.messages).take_while(|(a, b)| a == b).count();
    let same = parent.system == forked.system && parent.tools.definitions() == forked.tools.definitions();
    println!(
        "fork         {shared} of {} messages shared, tools and prompt the same: {same} (wanted: all but 2)",
        forked.messages.len()
    );
}

/// Ten exploring agents compared with one.
async fn explore() {
    let wall = async |count: usize| {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..200 {
            let file = dir.path().join(format!("ws/src/m{n}.rs"));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, format!("fn needle_{n}() {{}}\n").repeat(50)).unwrap();
        }
        let (spec, _) =
            session(dir.path(), 20, move |request| match (is_child(request), request.messages.len()) {
                (true, at @ (1 | 3 | 5)) => {
                    let input = json!({"pattern": format!("needle_{at}"), "path": "."});
                    (Duration::from_millis(500), vec![call(format!("g{at}"), "Grep", input)])
                }
                (true, _) => (Duration::from_millis(500), text("found")),
                (false, 1) => {
                    let calls = (0..count)
                        .map(|n| call(format!("c{n}"), "Explore", json!({"prompt": format!("find {n}")})));
                    (Duration::ZERO, calls.collect())
                }
                (false, _) => (Duration::ZERO, text("done")),
            });
        let (handle, events) = Session::open(spec).unwrap();
        let begun = Instant::now();
        handle.prompt(Prompt::text("go"));
        handle.send(Command::Finish);
        until_closed(events, |_| ()).await;
        begun.elapsed()
    };
    let alone = wall(1).await;
    let ten = wall(10).await;
    let ratio = ten.as_secs_f64() / alone.as_secs_f64();
    println!("explore      ten {ten:?} beside one {alone:?}: {ratio:.2} (wanted: 1.15 at most)");
}

fn main() {
    let only = std::env::var("HAFT_BENCH_ONLY").unwrap_or_default();
    let wants = |name: &str| only.is_empty() || only.split(',').any(|it| it == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if wants("spawn") {
            spawn().await;
        }
        if wants("fork") {
            fork().await;
        }
        if wants("explore") {
            explore().await;
        }
        if wants("thousand") {
            thousand().await;
        }
    });
}
