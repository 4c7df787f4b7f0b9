//! The beginning of every request stays unchanged whatever servers, settings and restarts do, and
//! `haft cost` reports each exception. Uses the real program, real servers, and every byte sent.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;
use crate::flapping;
use crate::peer;

use std::collections::BTreeMap;

use common::Haft;
use flapping::{Flapping, schema};
use haft_testkit::{Script, Turn};
use peer::Peer;
use serde_json::{Value, json};

/// A step of the session.
enum Step {
    /// The user sends a prompt, and the model answers with these turns.
    Say(Vec<Turn>),
    Do(Action),
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Down,
    Up,
    Settings,
    LateServer,
    NewDefinition,
    Model,
    Thinking,
}

use Step::{Do, Say};

fn call(name: &str, input: Value) -> Turn {
    Turn::tool(name, input)
}

fn alpha() -> Vec<Turn> {
    vec![call("mcp__flap__alpha", json!({"count": 1})), Turn::text("Fine.")]
}

fn search(query: &str, then: &str) -> Vec<Turn> {
    vec![
        call("ToolSearch", json!({"query": query})),
        call(then, json!({"count": 2})),
        Turn::text("Found and used."),
    ]
}

fn chat(count: usize) -> impl Iterator<Item = Step> {
    (0..count).map(|number| Say(vec![Turn::text(format!("Answer {number}."))]))
}

/// The steps of the first process.
fn first() -> Vec<Step> {
    let mut steps: Vec<Step> = chat(3).collect();
    steps.push(Say(search("select:mcp__flap__alpha", "mcp__flap__alpha")));
    for _ in 0..5 {
        steps.extend([Do(Action::Down), Say(alpha()), Do(Action::Up), Say(alpha())]);
    }
    steps.extend([
        Say(search("+flap beta second", "mcp__flap__beta")),
        Do(Action::Settings),
        Say(vec![call("Read", json!({"file_path": "notes.txt"})), Turn::text("Read.")]),
        // Called without being loaded, with a number as text, as models do.
        Say(vec![call("mcp__flap__gamma", json!({"count": "10"})), Turn::text("Counted.")]),
        Do(Action::LateServer),
    ]);
    steps.extend(chat(2));
    steps.extend([
        Say(search("select:mcp__late__delta", "mcp__late__delta")),
        Do(Action::NewDefinition),
        Say(vec![call("mcp__flap__alpha", json!({"count": 1, "more": "x"})), Turn::text("Fine.")]),
    ]);
    steps.extend(chat(4));
    steps
}

/// The steps after a restart, and then those that must invalidate the cache.
fn second() -> Vec<Step> {
    let mut steps: Vec<Step> = chat(2).collect();
    steps.push(Say(alpha()));
    steps.push(Say(vec![call("mcp__late__delta", json!({"count": 3})), Turn::text("Still there.")]));
    steps.push(Do(Action::Model));
    steps.extend(chat(2));
    // Compaction: one additional request.
    steps.push(Say(vec![Turn::text("It was about tools.").when("Sum up this conversation")]));
    steps.push(Say(alpha()));
    steps.extend(chat(1));
    steps.push(Do(Action::Thinking));
    steps.extend(chat(2));
    steps
}

struct Servers {
    flap: Flapping,
    late: Flapping,
    always: Flapping,
}

impl Servers {
    fn configured(&self) -> Value {
        let mut always = self.always.config();
        always["alwaysLoad"] = json!(true);
        json!({"flap": self.flap.config(), "always": always})
    }

    fn all(&self) -> Value {
        let mut all = self.configured();
        all["late"] = self.late.config();
        all
    }
}

/// Plays the steps; returns the requests.
async fn play(
    haft: &Haft,
    servers: &Servers,
    config: &Value,
    steps: Vec<Step>,
    args: &[&str],
) -> Vec<Vec<u8>> {
    let mut turns = Vec::new();
    let mut script: Vec<Step> = Vec::new();
    for step in steps {
        if let Say(said) = &step {
            turns.extend(said.clone());
        }
        script.push(step);
    }
    let count = turns.len();
    let config = json!({"mcpServers": config}).to_string();
    let flags =
        ["--mcp-config", &config, "--strict-mcp-config", "--allowedTools", "mcp__flap,mcp__late,Read"];
    let mut peer = Peer::of(haft, Script::from_turns(turns), &[&flags[..], args].concat()).await;
    peer.request("init", json!({"subtype": "initialize", "hooks": null})).await;
    for (number, step) in script.into_iter().enumerate() {
        match step {
            Say(said) if said[0].when.last_user.is_some() => {
                peer.say("/compact").await;
                let result = peer.result().await;
                assert_eq!(result["is_error"], false, "{result}");
            }
            Say(_) => {
                peer.say(&format!("Step {number}.")).await;
                let result = peer.result().await;
                assert_eq!(result["is_error"], false, "step {number}: {result}");
            }
            Do(action) => act(haft, &mut peer, servers, action, number).await,
        }
    }
    assert_eq!(peer.model.refusals(), [""; 0]);
    assert_eq!(peer.model.unused(), 0, "nothing was asked that nobody wanted");
    let bodies: Vec<Vec<u8>> = peer.model.requests().iter().map(|it| it.body.to_vec()).collect();
    assert_eq!(bodies.len(), count);
    let (_, code, stderr) = peer.end().await;
    assert_eq!(code, Some(0), "{stderr}");
    bodies
}

async fn act(haft: &Haft, peer: &mut Peer, servers: &Servers, action: Action, number: usize) {
    let id = format!("r{number}");
    let reconnect = json!({"subtype": "mcp_reconnect", "serverName": "flap"});
    let request = match action {
        Action::Down => return servers.flap.go_down(),
        Action::Up => {
            servers.flap.come_up();
            reconnect
        }
        Action::Settings => {
            let rules = json!({"permissions": {"deny": ["Read(secret/**)"], "allow": ["Bash(ls)"]}, "env": {"A": "b"}});
            haft.write(".claude/settings.json", &rules.to_string());
            haft.write_home(".haft/settings.json", &rules.to_string());
            return;
        }
        Action::LateServer => json!({"subtype": "mcp_set_servers", "servers": servers.all()}),
        Action::NewDefinition => {
            let mut changed = schema("How many now.");
            changed["properties"]["more"] = json!({"type": "string", "description": "More."});
            servers.flap.offer(&[("alpha", changed), ("beta", schema("x")), ("gamma", schema("x"))]);
            reconnect
        }
        Action::Model => json!({"subtype": "set_model", "model": "claude-sonnet-4-5"}),
        Action::Thinking => json!({"subtype": "set_max_thinking_tokens", "max_thinking_tokens": 2_048}),
    };
    peer.request(&id, request).await;
    let answers = peer.until(|it| it["response"]["request_id"] == id.as_str()).await;
    assert_eq!(answers.last().unwrap()["response"]["subtype"], "success", "{action:?}: {answers:?}");
}

/// The parts of a request that the provider's cache depends on.
struct Seen {
    body: Vec<u8>,
    json: Value,
    /// Tools in the prefix, and all tools.
    eager: Vec<Value>,
    tools: Vec<Value>,
    /// Blocks of the conversation, without cache markers.
    blocks: Vec<Value>,
}

impl Seen {
    fn of(body: &[u8]) -> Self {
        let json: Value = serde_json::from_slice(body).unwrap();
        let tools = json["tools"].as_array().unwrap().clone();
        let eager = tools.iter().filter(|it| it["defer_loading"] != true).cloned().collect();
        let mut blocks = Vec::new();
        for message in json["messages"].as_array().unwrap() {
            for block in message["content"].as_array().unwrap() {
                let mut block = block.clone();
                block.as_object_mut().unwrap().remove("cache_control");
                blocks.push(json!([message["role"], block]));
            }
        }
        Self { body: body.to_vec(), json, eager, tools, blocks }
    }

    /// Whether `next` extends this request.
    fn goes_on_in(&self, next: &Self) -> bool {
        self.json["model"] == next.json["model"]
            && self.json["system"] == next.json["system"]
            && self.json["thinking"] == next.json["thinking"]
            && self.eager == next.eager
            && next.tools.starts_with(&self.tools)
            && next.blocks.starts_with(&self.blocks)
    }
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn text_of(body: &Value) -> String {
    body["messages"].as_array().unwrap().last().unwrap().to_string()
}

#[tokio::test]
async fn fifty_turns_keep_their_prefix_and_each_loss_is_named() {
    let haft = Haft::new();
    haft.write("notes.txt", "a note\n");
    haft.write("CLAUDE.md", "Be brief.\n");
    let servers = Servers {
        flap: Flapping::new(
            &haft,
            "flap",
            &[("alpha", "First."), ("beta", "The second."), ("gamma", "Third.")],
        ),
        late: Flapping::new(&haft, "late", &[("delta", "Fourth.")]),
        always: Flapping::new(&haft, "always", &[("epsilon", "Fifth.")]),
    };
    let session = "3f0a3c52-5d0f-4f0e-9a55-0d6f3c3f7a11";
    let mut bodies = play(&haft, &servers, &servers.configured(), first(), &["--session-id", session]).await;
    // A changed memory file is announced in the conversation; the beginning of the request stays
    // unchanged.
    haft.write("CLAUDE.md", "Be brief, and polite.\n");
    let before_restart = bodies.len();
    bodies.extend(play(&haft, &servers, &servers.all(), second(), &["--resume", session]).await);
    assert!(50 <= bodies.len(), "{} requests", bodies.len());

    let seen: Vec<Seen> = bodies.iter().map(|it| Seen::of(it)).collect();
    let cost: Value = serde_json::from_str(&haft.ok(&["cost", session, "--json"], "")).unwrap();
    assert_eq!((&cost["requests"], &cost["summaries"]), (&json!(bodies.len()), &json!(1)), "{cost}");
    let busts: BTreeMap<u64, &str> = cost["busts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            assert!(0 < it["tokens"].as_u64().unwrap(), "{it}");
            (it["request"].as_u64().unwrap(), it["cause"].as_str().unwrap())
        })
        .collect();
    let causes: Vec<&str> = busts.values().copied().collect();
    assert_eq!(causes, ["model_changed", "compaction", "settings_changed"], "{cost}");

    // The compaction request is not part of the conversation.
    let is_summary = |it: &Seen| text_of(&it.json).contains("Sum up this conversation");
    let talk: Vec<(u64, &Seen)> = (1..).zip(&seen).filter(|(_, it)| !is_summary(it)).collect();
    assert_eq!(talk.len() + 1, seen.len());
    let (mut shared, mut lost) = (0, Vec::new());
    for pair in talk.windows(2) {
        let ((_, before), (number, now)) = (pair[0], pair[1]);
        let common = common_prefix(&before.body, &now.body);
        if before.goes_on_in(now) {
            assert!(shared <= common, "request {number}: {common} bytes after {shared}");
            shared = common;
        } else {
            lost.push(number);
            shared = 0;
        }
    }
    assert_eq!(lost, busts.keys().copied().collect::<Vec<_>>(), "what was lost is what is reported");

    down_is_said(&seen[..before_restart]);
    late_tools_come_last(&seen[before_restart - 1].tools);
    news_are_told(&seen, before_restart);
    // After the compaction no tool has to be loaded again.
    let last = seen.last().unwrap();
    for name in ["mcp__flap__alpha", "mcp__flap__beta", "mcp__flap__gamma", "mcp__late__delta"] {
        assert!(last.eager.iter().any(|it| it["name"] == name), "{name} is not loaded any more");
    }
    let people = haft.ok(&["cost"], "");
    assert!(people.contains("lost 3 times") && people.contains("compaction: the conversation"), "{people}");
}

/// A stopped server keeps its tools in the request; a call reports that the server is down.
fn down_is_said(seen: &[Seen]) {
    let answers: Vec<String> = seen.iter().map(|it| text_of(&it.json)).collect();
    let said = answers.iter().filter(|it| it.contains("temporarily unavailable")).count();
    assert_eq!(said, 5, "{answers:#?}");
    let declared = |it: &&Seen| it.tools.iter().any(|tool| tool["name"] == "mcp__flap__alpha");
    let first = seen.iter().position(|it| declared(&it)).unwrap();
    assert!(seen[first..].iter().all(|it| declared(&it)));
}

fn late_tools_come_last(tools: &[Value]) {
    let marked = tools.iter().position(|it| it.get("cache_control").is_some()).unwrap();
    let late: Vec<usize> = (0..tools.len()).filter(|at| tools[*at]["defer_loading"] == true).collect();
    let names: Vec<&str> = late.iter().map(|at| tools[*at]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["mcp__flap__alpha", "mcp__flap__beta", "mcp__flap__gamma", "mcp__late__delta"]);
    assert!(late.iter().all(|at| marked < *at));
    assert!(tools.iter().any(|it| it["name"] == "mcp__always__epsilon" && it["defer_loading"] != true));
}

fn news_are_told(seen: &[Seen], before_restart: usize) {
    let tells = |it: &Seen, what: &str| it.json["messages"].to_string().contains(what);
    let late = seen.iter().position(|it| tells(it, "MCP servers brought more tools")).unwrap();
    assert!(text_of(&seen[late].json).contains("mcp__late__delta"), "with the next request");
    let definition = "The tool mcp__flap__alpha changed";
    let told = seen.iter().position(|it| tells(it, definition)).unwrap();
    assert!(told < before_restart, "{told}");
    assert!(!tells(&seen[before_restart - 1], "and polite"));
    assert!(tells(&seen[before_restart], "and polite"), "memory that changed is told after a restart");
    assert!(!seen[before_restart].json["system"].to_string().contains("and polite"));
    assert!(seen.last().unwrap().json["system"].to_string().contains("and polite"), "and is in place later");
}

/// A session in which servers and single tools are disabled and enabled.
#[tokio::test]
async fn switching_off_and_on_needs_no_restart_and_costs_no_cache() {
    let haft = Haft::new();
    let flap = Flapping::new(&haft, "flap", &[("alpha", "First."), ("beta", "The second.")]);
    let config = json!({"mcpServers": {"flap": flap.config()}}).to_string();
    let use_it = |name: &str| vec![call(name, json!({"count": 1})), Turn::text("Fine.")];
    let (alpha, beta) = ("mcp__flap__alpha", "mcp__flap__beta");
    let toggle = |on: bool| json!({"subtype": "mcp_toggle", "serverName": "flap", "enabled": on});
    let rules =
        |deny: Value| json!({"subtype": "apply_flag_settings", "settings": {"permissions": {"deny": deny}}});
    // What the host changes first, what the model then calls, and the result.
    let steps = [
        (None, alpha, "called"),
        (None, beta, "called"),
        (Some(toggle(false)), alpha, "temporarily unavailable: The server `flap` is switched off"),
        (Some(toggle(true)), alpha, "called"),
        (Some(rules(json!([beta]))), beta, "temporarily unavailable: the rule mcp__flap__beta"),
        (None, alpha, "called"),
        (Some(rules(json!([]))), beta, "called"),
    ];
    let turns: Vec<Turn> = steps.iter().flat_map(|(_, name, _)| use_it(name)).collect();
    let flags = ["--mcp-config", &config, "--strict-mcp-config", "--allowedTools", "mcp__flap"];
    let mut peer = Peer::start(&haft, turns, &flags).await;
    peer.request("init", json!({"subtype": "initialize", "hooks": null})).await;
    for (number, (request, name, _)) in steps.iter().enumerate() {
        if let Some(request) = request {
            let id = format!("r{number}");
            peer.request(&id, request.clone()).await;
            let answers = peer.until(|it| it["response"]["request_id"] == id.as_str()).await;
            assert_eq!(answers.last().unwrap()["response"]["subtype"], "success", "{request}: {answers:?}");
        }
        peer.say(&format!("use {name}, {number}")).await;
        let result = peer.result().await;
        assert!(result["is_error"] == false && result.get("cache_busts").is_none(), "{result}");
    }
    let seen: Vec<Seen> = peer.model.requests().iter().map(|it| Seen::of(&it.body)).collect();
    assert_eq!(peer.model.refusals(), [""; 0]);
    for (number, (_, name, want)) in steps.iter().enumerate() {
        let said = text_of(&seen[number * 2 + 1].json);
        assert!(said.contains(want), "step {number}, {name}: {said}");
    }
    assert!(seen.windows(2).all(|pair| pair[0].goes_on_in(&pair[1])));
    let (_, code, stderr) = peer.end().await;
    assert_eq!(code, Some(0), "{stderr}");
}

/// The same for `haft -p`, with settings files instead of a host.
#[tokio::test]
async fn a_run_follows_its_settings() {
    let haft = Haft::new();
    let going = Flapping::new(&haft, "going", &[("alpha", "First.")]);
    let staying = Flapping::new(&haft, "staying", &[("beta", "The second."), ("gamma", "The third.")]);
    for (name, server) in [("going", &going), ("staying", &staying)] {
        haft.ok(&["mcp", "add-json", "-s", "user", name, &server.config().to_string()], "");
    }
    // The command ends when the server process does.
    let wait = format!("while kill -0 $(cat {}); do sleep 0.05; done", going.pid_file().display());
    let script = Script::from_turns([
        call("mcp__going__alpha", json!({"count": 1})),
        call("Bash", json!({"command": wait, "timeout": 600_000})),
        call("mcp__going__alpha", json!({"count": 2})),
        call("mcp__staying__beta", json!({"count": 3})),
        call("mcp__staying__gamma", json!({"count": 4})),
        Turn::text("Done."),
    ]);
    let model = haft_testkit::MockModel::start(script).await.unwrap();
    let mut child = haft
        .async_command()
        .args(["-p", "go", "--mcp-wait", "120", "--output-format", "json"])
        .args(["--allowedTools", "Bash,mcp__going,mcp__staying"])
        .env("ANTHROPIC_BASE_URL", model.url())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let waited = tokio::time::Instant::now();
    while model.count() < 2 {
        assert!(waited.elapsed() < peer::TIMEOUT, "nothing is asked");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    // Write the rules first: both files are read when the servers change.
    let rules = json!({"permissions": {"deny": ["mcp__staying__beta"]}});
    haft.write_home(".haft/settings.json", &rules.to_string());
    haft.ok(&["mcp", "remove", "going", "-s", "user"], "");
    let status = tokio::time::timeout(peer::TIMEOUT, child.wait()).await.unwrap().unwrap();
    assert!(status.success());
    assert_eq!(model.refusals(), [""; 0]);
    let seen: Vec<Seen> = model.requests().iter().map(|it| Seen::of(&it.body)).collect();
    for (at, want) in [
        (1, "called"),
        (3, "mcp__going__alpha is temporarily unavailable"),
        (4, "mcp__staying__beta is temporarily unavailable: the rule mcp__staying__beta"),
        (5, "called"),
    ] {
        let said = text_of(&seen[at].json);
        assert!(said.contains(want), "request {at}: {said}");
    }
    assert!(seen.windows(2).all(|pair| pair[0].goes_on_in(&pair[1])));
}
