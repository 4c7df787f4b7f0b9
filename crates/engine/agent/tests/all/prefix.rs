//! What requests begin with stays as it is, in every form, and what does not is
//! reported.
#![allow(clippy::unwrap_used, missing_docs, reason = "test code")]

use crate::common;

use std::sync::Arc;

use common::{Rig, provider, rig_by};
use haft_agent::{CacheMiss, CacheMissCause, Conversation, log, log::LogFile};
use haft_model::{ChatOptions, HttpProvider, ProviderOptions};
use haft_testkit::{MockModel, ReplyPiece, Script, Turn};
use haft_tool::{DynTool, Exposure, Output, RawTool, ToolHints, ToolSpec, erase};
use haft_tool_runtime::{Pool, ToolSearch};
use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use serde_json::{Value, json};

/// A form requests are sent in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wire {
    Messages,
    Chat,
    Responses,
}

async fn rig(wire: Wire, script: Script) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let log = LogFile::open(dir.path().join("session.jsonl")).unwrap();
    let conversation = Conversation::new("session".into(), dir.path(), Some(log));
    let mut rig = on(wire, MockModel::start(script).await.unwrap(), conversation, dir);
    search_by(&mut rig);
    rig
}

fn on(wire: Wire, model: MockModel, conversation: Conversation, dir: tempfile::TempDir) -> Rig {
    let base = format!("{}/v1", model.url());
    let provider = match wire {
        Wire::Messages => provider(&model.url()),
        Wire::Chat => {
            let options = ChatOptions::default();
            Arc::new(HttpProvider::openai_chat(&base, None, options, ProviderOptions::default()).unwrap())
        }
        Wire::Responses => {
            Arc::new(HttpProvider::openai_responses(&base, None, ProviderOptions::default()).unwrap())
        }
    };
    let mut rig = rig_by(provider, model, conversation, dir);
    if wire != Wire::Messages {
        rig.agent.settings.model = String::from("gpt-5");
    }
    rig
}

/// Puts ToolSearch in, which has to know the pool it is in.
fn search_by(rig: &mut Rig) {
    let pool = rig.agent.tools.pool.get();
    let search = erase(ToolSearch::new(rig.agent.tools.pool.clone()));
    rig.agent.tools.pool.set(pool.with_builtin("ToolSearch", Some(search)));
}

/// A tool of a server.
fn tool(server: &str, name: &str, about: &str, exposure: Exposure) -> Arc<dyn DynTool> {
    let spec = ToolSpec {
        name: format!("mcp__{server}__{name}"),
        description: about.to_owned(),
        input_schema: json!({
            "type": "object", "required": ["count"], "additionalProperties": false,
            "properties": {
                "count": {"type": "integer"}, "deep": {"type": "boolean"},
                "list": {"type": "array", "items": {"type": "integer"}}, "name": {"type": "string"},
            },
        })
        .into(),
        search_hint: format!("{server} {name}"),
        exposure,
        max_result_chars: None,
        timeout: None,
    };
    let run = |input: Value, _cx| -> haft_tool::BoxFuture<'static, _> {
        Box::pin(async move { Ok(Output::from_content(format!("got {input}").into())) })
    };
    Arc::new(RawTool::new(spec, run).trust(ToolHints { read_only: true, ..ToolHints::default() }))
}

fn offer(rig: &Rig, tools: Vec<Arc<dyn DynTool>>) {
    let pool: Pool = (*rig.agent.tools.pool.get()).clone();
    rig.agent.tools.pool.set(pool.with_external(tools, |_| String::from("its server is gone")));
}

fn zoo(about: &str) -> Vec<Arc<dyn DynTool>> {
    let deferred = |name| tool("zoo", name, about, Exposure::Deferred);
    vec![deferred("feed"), deferred("wash"), tool("zoo", "count", "Counts.", Exposure::Direct)]
}

fn ants() -> Vec<Arc<dyn DynTool>> {
    vec![
        tool("ants", "march", "Marches.", Exposure::Deferred),
        tool("ants", "dig", "Digs.", Exposure::Direct),
    ]
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn names(body: &Value) -> Vec<String> {
    let name = |it: &Value| it["name"].as_str().or(it["function"]["name"].as_str()).unwrap().to_owned();
    body["tools"].as_array().unwrap().iter().map(name).collect()
}

fn causes(busts: &[CacheMiss]) -> Vec<(CacheMissCause, String)> {
    busts.iter().map(|it| (it.cause, it.detail.clone())).collect()
}

#[tokio::test]
async fn servers_come_and_go_in_every_form() {
    for wire in [Wire::Messages, Wire::Chat, Wire::Responses] {
        let use_it = |name: &str| Turn::tool(name, json!({"count": 1}));
        let turns = vec![
            Turn::text("Hello."),
            Turn::tool("ToolSearch", json!({"query": "select:mcp__zoo__feed"})),
            use_it("mcp__zoo__feed"),
            Turn::text("Fed."),
            use_it("mcp__zoo__feed"),
            Turn::text("Gone."),
            use_it("mcp__ants__march"),
            use_it("mcp__ants__dig"),
            Turn::text("Marched."),
            Turn::text("Changed."),
        ];
        let mut rig = rig(wire, Script::from_turns(turns)).await;
        offer(&rig, zoo("Feeds."));
        let mut busts = rig.say("hello").await.busts;
        busts.extend(rig.say("feed").await.busts);
        offer(&rig, ants());
        busts.extend(rig.say("again").await.busts);
        offer(&rig, [zoo("Feeds."), ants()].concat());
        busts.extend(rig.say("march").await.busts);
        offer(&rig, [zoo("Feeds, and washes."), ants()].concat());
        busts.extend(rig.say("so?").await.busts);
        assert_eq!(rig.model.refusals(), [""; 0], "{wire:?}");

        let requests = rig.model.requests();
        let mut shared = 0;
        for pair in requests.windows(2) {
            let common = common_prefix(&pair[0].body, &pair[1].body);
            assert!(shared <= common, "{wire:?}: {common} bytes after {shared}");
            shared = common;
            let (before, now) = (names(&pair[0].json()), names(&pair[1].json()));
            assert!(now.starts_with(&before), "{wire:?}: {before:?} {now:?}");
        }
        let bodies = rig.bodies();
        let declared = names(bodies.last().unwrap());
        let external: Vec<&str> =
            declared.iter().map(String::as_str).filter(|it| it.starts_with("mcp__")).collect();
        assert_eq!(external, ["mcp__zoo__count", "mcp__zoo__feed", "mcp__ants__march", "mcp__ants__dig"]);
        let said = bodies[5].to_string();
        assert!(said.contains("mcp__zoo__feed is temporarily unavailable: its server is gone"), "{said}");
        assert!(bodies.last().unwrap().to_string().contains("The tool mcp__zoo__feed changed."), "{wire:?}");
        // Where nothing can be loaded beside the list, loading is a loss, and is said to be one.
        let added = |name: &str| (CacheMissCause::ToolsChanged, format!("tools were added: mcp__{name}"));
        let want = match wire {
            Wire::Messages => vec![],
            Wire::Chat | Wire::Responses => {
                vec![added("zoo__feed"), added("ants__march"), added("ants__dig")]
            }
        };
        assert_eq!(causes(&busts), want, "{wire:?}");
    }
}

#[tokio::test]
async fn a_tool_that_was_never_loaded_just_works() {
    let call = |input: Value| Turn::tool("mcp__zoo__feed", input);
    let turns = vec![
        call(json!({"count": "10", "deep": "true", "list": "[1,2]", "name": "10"})),
        call(json!({"count": "ten", "extra": 1})),
        call(json!({"count": "1.5"})),
        call(json!({"count": 3})),
        Turn::tool("mcp__zoo__fed", json!({})),
        Turn::tool("feed", json!({})),
        Turn::text("Done."),
    ];
    let mut rig = rig(Wire::Messages, Script::from_turns(turns)).await;
    offer(&rig, zoo("Feeds."));
    assert!(rig.say("go").await.busts.is_empty());
    assert_eq!(rig.model.refusals(), [""; 0]);
    let bodies = rig.bodies();
    let said = |at: usize| bodies[at]["messages"].as_array().unwrap().last().unwrap()["content"][0].clone();
    assert!(!names(&bodies[0]).contains(&"mcp__zoo__feed".to_owned()));
    // It ran in the same turn, its schema is in the next request, and what was read as what is said.
    let first = said(1);
    assert_eq!(
        first["content"][0]["text"],
        "got {\"count\":10,\"deep\":true,\"list\":[1,2],\"name\":\"10\"}"
    );
    assert_eq!(
        first["content"][1]["text"],
        "[`count` was taken as a number, `deep` was taken as a boolean, `list` was taken as a list, not as text]"
    );
    assert_eq!(first["content"][2], json!({"type": "tool_reference", "tool_name": "mcp__zoo__feed"}));
    let declared = bodies[1]["tools"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((&declared["name"], &declared["defer_loading"]), (&json!("mcp__zoo__feed"), &json!(true)));
    assert_eq!(declared["input_schema"]["properties"]["count"]["type"], "integer");
    // What does not fit is answered with the schema and an example, and nothing is guessed.
    for at in [2, 3] {
        let wrong = said(at).to_string();
        assert!(wrong.contains("Its schema: {") && wrong.contains("A minimal valid input: "), "{wrong}");
        assert_eq!(said(at)["is_error"], true);
    }
    assert_eq!(said(4)["content"][0]["text"], "got {\"count\":3}");
    for at in [5, 6] {
        let unknown = said(at).to_string();
        assert!(unknown.contains("Did you mean mcp__zoo__feed"), "{unknown}");
    }
}

#[tokio::test]
async fn loaded_tools_outlive_summaries_and_restarts() {
    let turns = vec![
        Turn::tool("ToolSearch", json!({"query": "select:mcp__zoo__feed"})),
        Turn::text("Loaded."),
        Turn::tool("mcp__zoo__wash", json!({"count": 1})),
        Turn::text("Washed."),
    ];
    let mut rig = rig(Wire::Messages, Script::from_turns(turns)).await;
    offer(&rig, zoo("Feeds."));
    rig.say("load").await;
    rig.say("wash").await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.jsonl");
    let sent = rig.model.requests().last().unwrap().body.clone();

    // Another process, and the server is not even there yet.
    std::fs::copy(rig.dir.path().join("session.jsonl"), &path).unwrap();
    let model = MockModel::start(Script::from_turns([Turn::text("Again.")])).await.unwrap();
    let (mut conversation, mut restored) =
        Conversation::resume("session".into(), rig.dir.path(), &path, None).unwrap();
    conversation.set_log(LogFile::open(&path).unwrap());
    let mut later = on(Wire::Messages, model, conversation, dir);
    search_by(&mut later);
    later.agent.prompt = rig.agent.prompt.clone();
    later.agent.tools.state.apply(&restored.changes);
    later.agent.restore_requests(&mut restored);
    let end = later.say("and now?").await;
    assert_eq!(causes(&end.busts), []);
    let now = later.model.requests()[0].body.clone();
    let before: Value = serde_json::from_slice(&sent).unwrap();
    assert_eq!(before["tools"], later.bodies()[0]["tools"]);
    // Up to the mark at the end of what was sent before.
    assert!(sent.len() - common_prefix(&sent, &now) < before["tools"].to_string().len() + 1_500);

    // It is asked for as everything is, so that it goes on from the cache; whoever calls instead is
    // asked again.
    rig.model.push(Turn::tool("Echo", json!({"text": "first"})));
    rig.model.push(Turn::text("It was about animals."));
    let before = rig.bodies().pop().unwrap();
    let summed = rig.agent.compact(None, &rig.cancel.clone()).await;
    assert!(matches!(summed, haft_agent::CompactionOutcome::Done(_)), "{summed:?}");
    let [.., asked, again] = &rig.bodies()[..] else { panic!("nothing was asked") };
    assert_eq!((&asked["tool_choice"], &again["tool_choice"]["type"]), (&Value::Null, &json!("none")));
    for field in ["model", "system", "tools", "thinking"] {
        assert_eq!(asked[field], before[field], "{field}");
    }
    rig.model.push(Turn::tool("mcp__zoo__feed", json!({"count": 2})));
    rig.model.push(Turn::text("Fed."));
    let end = rig.say("feed").await;
    assert_eq!(rig.model.refusals(), [""; 0]);
    assert_eq!(end.busts.iter().map(|it| it.cause).collect::<Vec<_>>(), [CacheMissCause::Compaction]);
    let last = rig.bodies().pop().unwrap();
    for name in ["mcp__zoo__feed", "mcp__zoo__wash"] {
        let tools = last["tools"].as_array().unwrap();
        let declared = tools.iter().find(|it| it["name"] == name).unwrap();
        assert!(declared.get("defer_loading").is_none(), "{name} has to be loaded again");
    }
}

/// Whatever happens in whatever order.
#[tokio::test]
async fn no_order_of_events_breaks_the_prefix() {
    let events = prop_oneof![
        // Some of the tools are there, in some version.
        (0..256_u32, 0..3_usize).prop_map(|(there, version)| (there, version, None)),
        (0..256_u32, 0..8_usize).prop_map(|(there, name)| (there, 0, Some((name, "select")))),
        (0..256_u32, 0..8_usize).prop_map(|(there, name)| (there, 0, Some((name, "call")))),
    ];
    let mut runner = TestRunner::deterministic();
    for _ in 0..6 {
        let events = proptest::collection::vec(events.clone(), 20).new_tree(&mut runner).unwrap().current();
        let mut rig = rig(Wire::Messages, Script::from_turns([])).await;
        for (there, version, does) in events {
            let about = ["One.", "Another one.", "A third."][version];
            let exposure = |n: usize| if n < 2 { Exposure::Direct } else { Exposure::Deferred };
            let offered = (0..8).filter(|n| there & (1 << n) != 0);
            offer(&rig, offered.map(|n| tool("some", &format!("t{n}"), about, exposure(n))).collect());
            match does {
                Some((n, "call")) => {
                    rig.model.push(Turn::tool(format!("mcp__some__t{n}"), json!({"count": there})));
                }
                Some((n, _)) => {
                    let query = format!("select:mcp__some__t{n}");
                    rig.model.push(Turn::tool("ToolSearch", json!({"query": query})));
                }
                None => (),
            }
            rig.model.push(Turn::text("Fine."));
            let end = rig.say("go on").await;
            assert_eq!((end.reason, causes(&end.busts)), (haft_agent::EndReason::Completed, vec![]));
        }
        assert_eq!(rig.model.refusals(), [""; 0]);
        let mut shared = 0;
        for pair in rig.model.requests().windows(2) {
            let common = common_prefix(&pair[0].body, &pair[1].body);
            assert!(shared <= common, "{common} bytes after {shared}");
            shared = common;
            let (before, now) = (pair[0].json(), pair[1].json());
            let tools = |body: &Value| body["tools"].as_array().unwrap().clone();
            assert!(tools(&now).starts_with(&tools(&before)));
            let eager = |body: &Value| tools(body).iter().filter(|it| it["defer_loading"] != true).count();
            assert_eq!(eager(&before), eager(&now));
        }
    }
}

#[tokio::test]
async fn many_definitions_are_not_in_every_log() {
    for (count, kept) in [(20, true), (300, false)] {
        let mut rig = rig(Wire::Messages, Script::from_turns([Turn::text("One."), Turn::text("Two.")])).await;
        let about = "Does something at great length. ".repeat(60);
        let tools = (0..count).map(|number| tool("all", &format!("t{number}"), &about, Exposure::Direct));
        offer(&rig, tools.collect());
        rig.say("one").await;
        rig.say("two").await;
        let log = std::fs::read_to_string(rig.agent.conversation.log_path().unwrap()).unwrap();
        assert_eq!(log.contains("mcp__all__t7"), kept);
        assert!(log.len() < 100_000, "{} bytes", log.len());
    }
}

#[tokio::test]
async fn every_loss_has_its_cause() {
    let echo = |size: usize| Turn::from_pieces([ReplyPiece::tool("Big", json!({"size": size}))]);
    let script = Script::from_turns([
        Turn::text("It was much.").when("Sum up this conversation").always(),
        Turn::text("One."),
        Turn::text("Two."),
        Turn::text("Three."),
        Turn::text("Four."),
        echo(9_000),
        Turn::text("Five."),
        Turn::text("Six.").always(),
    ]);
    let mut rig = rig(Wire::Messages, script).await;
    assert_eq!(causes(&rig.say("one").await.busts), []);
    rig.agent.settings.model = String::from("claude-sonnet-4-5");
    let busts = rig.say("two").await.busts;
    assert_eq!(
        causes(&busts),
        [(
            CacheMissCause::ModelChanged,
            String::from("claude-sonnet-4-5 answers instead of claude-opus-4-5")
        )]
    );
    assert!(busts[0].estimated && 100 < busts[0].tokens && busts[0].request == 2, "{busts:?}");
    rig.agent.prompt.append = Some(String::from("# House rules\nBe kind."));
    let busts = rig.say("three").await.busts;
    let want = String::from("the system prompt changed: # House rules");
    assert_eq!(causes(&busts), [(CacheMissCause::SystemChanged, want)]);
    let pool = rig.agent.tools.pool.get().with_builtin("Write", None);
    rig.agent.tools.pool.set(pool);
    let busts = rig.say("four").await.busts;
    assert_eq!(causes(&busts), [(CacheMissCause::ToolsChanged, String::from("tools were removed: Write"))]);
    rig.say("five").await;
    for step in 0..8 {
        rig.say(&format!("step {step}")).await;
    }
    rig.agent.settings.compact_at_percent = 1;
    let busts = rig.say("six").await.busts;
    assert_eq!(busts.len(), 1, "{busts:?}");
    assert!(
        matches!(busts[0].cause, CacheMissCause::Compaction | CacheMissCause::ResultsCleared),
        "{busts:?}"
    );
    assert_eq!(rig.model.refusals(), [""; 0]);

    // The log says the same.
    let cost = log::session_cost::of_log(rig.agent.conversation.log_path().unwrap()).unwrap();
    assert!(cost.complete && cost.priced && 0.0 < cost.usd, "{cost:?}");
    assert_eq!(cost.requests, rig.model.count() as u64);
    let words: Vec<&str> = cost.busts.iter().map(|it| it.bust.cause.word()).collect();
    assert_eq!(words[..3], ["model_changed", "system_changed", "tools_changed"]);
    assert_eq!(cost.models.len(), 2);
    assert_eq!(cost.usage, rig.agent.spending().usage);
}
