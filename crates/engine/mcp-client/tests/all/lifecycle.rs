//! Servers start, exit, hang, restart, and leave nothing behind.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::support;

use std::{
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use haft_mcp_client::{
    ClientPorts, ElicitAnswer, Elicitation, ElicitationHandler, SamplingError, SamplingHandler, ServerConfig,
    ServerEnabled, ServerEndpoint, ServerEvent, ServerRoot, ServerState, ServerTrust, StdioCommand,
};
use haft_tool::{BoxFuture, CallContext, ErrorKind, ProgressSink, Verdict};
use serde_json::{Value, json};
use support::{Fixture, TIMEOUT, context, eventually, is_alive, run};

#[tokio::test]
async fn starting_servers_block_nobody_and_join_late() {
    let fixture = Fixture::new();
    let mut late = fixture.fake("late", "slow_start");
    let gate = fixture.path("gate");
    if let haft_mcp_client::ServerEndpoint::Stdio(command) = &mut late.endpoint {
        command.env.insert("HAFT_FAKE_GATE".into(), gate.display().to_string());
    }
    // Waiting for the late server here would never end.
    fixture.manager.set_servers(vec![late, fixture.fake("quick", "")]);
    eventually("the quick one is ready", || fixture.manager.status()[1].state == ServerState::Ready).await;
    assert_eq!(fixture.manager.status()[0].state, ServerState::Connecting);
    std::fs::write(&gate, "").unwrap();
    assert!(fixture.manager.settled(TIMEOUT).await);
    let names: Vec<String> = fixture.manager.tools().iter().map(|tool| tool.name().to_owned()).collect();
    assert_eq!(names, ["mcp__late__echo", "mcp__quick__echo"]);
    fixture.manager.shutdown().await;
}

/// The extended search path is used only if a program is not found, and may be relative.
#[tokio::test]
async fn missing_program_is_looked_up_on_extended_path() {
    for (usual, asked) in [("HERE/tools:", 0), ("tools:", 0), ("", 1), ("HERE/other:", 1), ("HERE/plain:", 1)]
    {
        let count = Arc::new(Mutex::new(0));
        let place = tempfile::tempdir().unwrap();
        let here = place.path().display().to_string();
        let fake = support::fake_command("");
        for (dir, mode) in [("tools", 0o755), ("plain", 0o644)] {
            let program = place.path().join(dir).join("greeter");
            std::fs::create_dir(program.parent().unwrap()).unwrap();
            std::fs::write(&program, format!("#!/bin/sh\nexec python3 {}\n", fake.args.join(" "))).unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let system = std::env::var("PATH").unwrap();
        let (counted, further) = (Arc::clone(&count), format!("{here}/tools:{system}"));
        let fixture = Fixture::with(|options| {
            options.further_path = Some(Arc::new(move |program| {
                assert_eq!(program, "greeter");
                *counted.lock().unwrap() += 1;
                Some(further.clone().into())
            }));
        });
        let path = format!("{}{system}", usual.replace("HERE", &here));
        let command = StdioCommand {
            program: String::from("greeter"),
            env: [(String::from("PATH"), path)].into(),
            cwd: Some(place.path().to_owned()),
            ..StdioCommand::default()
        };
        fixture.manager.set_servers(vec![ServerConfig::new("srv", ServerEndpoint::Stdio(command))]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let output = fixture.call("mcp__srv__echo", json!({"text": "hi"})).await.unwrap();
        assert_eq!((output.content.to_text().as_str(), *count.lock().unwrap()), ("hi", asked), "{usual}");
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn read_only_call_is_repeated_after_server_crash() {
    for (modes, survives) in [("read_only", true), ("idempotent", true), ("", false)] {
        let fixture = Fixture::new();
        fixture.manager.set_servers(vec![fixture.fake("srv", &format!("die_on_first_call,{modes}"))]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let output = fixture.call("mcp__srv__echo", json!({"text": "hi"})).await;
        match (survives, output) {
            (true, Ok(output)) => assert_eq!(output.content.to_text(), "hi"),
            (false, Err(err)) => {
                assert!(err.message.contains("its outcome is unknown"), "{}", err.message);
                assert!(err.message.contains("about to die"), "the last words are missing: {}", err.message);
                // The next call uses the restarted server.
                let output = fixture.call("mcp__srv__echo", json!({"text": "again"})).await.unwrap();
                assert_eq!(output.content.to_text(), "again");
            }
            (_, output) => panic!("{modes}: {output:?}"),
        }
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn parallel_calls_share_one_restart() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "read_only")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let tool = fixture.tool("mcp__srv__echo");
    let pid = fixture.manager.status()[0].pid.unwrap();
    kill(pid as i32);
    eventually("the end is noticed", || fixture.manager.status()[0].pid != Some(pid)).await;
    let calls = (0..8).map(|n| run(Arc::clone(&tool), json!({"text": n.to_string()}), context()));
    for (n, output) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!(output.unwrap().content.to_text(), n.to_string());
    }
    assert_eq!(fixture.pids("srv").len(), 2, "one start and one restart");
    // The tool stayed the same object, so the request's bytes did not change.
    assert!(Arc::ptr_eq(&tool, &fixture.tool("mcp__srv__echo")));
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn crash_loop_backs_off_and_tools_stay_declared() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "die_after_call")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    for _ in 0..3 {
        let _ = fixture.call("mcp__srv__echo", json!({"text": "x"})).await;
        eventually("it died", || fixture.manager.status()[0].state != ServerState::Ready).await;
    }
    let status = fixture.manager.status().remove(0);
    assert!(matches!(status.state, ServerState::Restarting { attempt: 2.. }), "{status:?}");
    assert_eq!(status.tools, 1);
    assert!(fixture.pids("srv").len() <= 4);
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn cancelled_call_is_sent_and_server_stays_up() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "no_reply")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let pid = fixture.manager.status()[0].pid;
    let cx = context();
    let cancel = cx.cancel.clone();
    let call = tokio::spawn(run(fixture.tool("mcp__srv__echo"), json!({"text": "x"}), cx));
    eventually("the call arrived", || !fixture.received("srv", "tools/call").is_empty()).await;
    cancel.cancel();
    let err = call.await.unwrap().unwrap_err();
    assert_eq!(err.kind, ErrorKind::Interrupted);
    eventually("the server was told", || !fixture.received("srv", "notifications/cancelled").is_empty())
        .await;
    let id = &fixture.received("srv", "tools/call")[0]["id"];
    assert_eq!(&fixture.received("srv", "notifications/cancelled")[0]["params"]["requestId"], id);
    assert_eq!(fixture.manager.status()[0].pid, pid);
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn dropped_call_is_cancelled_at_server() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "no_reply")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let call = tokio::spawn(run(fixture.tool("mcp__srv__echo"), json!({"text": "x"}), context()));
    eventually("the call arrived", || !fixture.received("srv", "tools/call").is_empty()).await;
    call.abort();
    eventually("the server was told", || !fixture.received("srv", "notifications/cancelled").is_empty())
        .await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn progress_is_ordered_and_extends_timeout() {
    let fixture = Fixture::new();
    let mut config = fixture.fake("srv", "ping_then_answer");
    // Eight pauses exceed the idle timeout, a single one is much shorter.
    if let haft_mcp_client::ServerEndpoint::Stdio(command) = &mut config.endpoint {
        command.env.insert("HAFT_FAKE_PAUSE".into(), "0.5".into());
    }
    config.timeouts.idle = Duration::from_secs(3);
    config.timeouts.total = Duration::from_secs(120);
    fixture.manager.set_servers(vec![config]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let (progress, mut reports) = ProgressSink::channel();
    let cx = CallContext { progress, ..context() };
    let output = run(fixture.tool("mcp__srv__echo"), json!({"text": "done"}), cx).await.unwrap();
    assert_eq!(output.content.to_text(), "done");
    assert!(!fixture.received("srv", "tools/call")[0]["params"]["_meta"]["progressToken"].is_null());
    let mut seen = Vec::new();
    while let Ok(report) = reports.try_recv() {
        seen.push(report.data["progress"].as_f64().unwrap());
    }
    assert_eq!(seen, (0..8).map(f64::from).collect::<Vec<_>>());
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn changed_tool_list_is_reread() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "grown")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    assert_eq!(fixture.manager.tools().len(), 1);
    fixture.call("mcp__srv__echo", json!({"text": "grow"})).await.unwrap();
    eventually("the new tool is there", || fixture.manager.tools().len() == 2).await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn stopped_server_leaves_no_process() {
    for modes in ["", "stubborn", "child", "stubborn,child", "stubborn,escaping_child"] {
        let fixture = Fixture::new();
        fixture.manager.set_servers(vec![fixture.fake("srv", modes)]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let pids = fixture.pids("srv");
        assert!(pids.iter().all(|pid| is_alive(*pid)), "{modes}");
        fixture.manager.shutdown().await;
        eventually(modes, || !pids.iter().any(|pid| is_alive(*pid))).await;
    }
}

/// The process that `kill_minus_nine_leaves_no_server_behind` kills.
#[tokio::test]
#[ignore = "a child process of other tests"]
async fn helper_that_waits_to_be_killed() {
    let directory = std::env::var("HAFT_TEST_KILL_ME").expect("started by a test of this file");
    let fixture = Fixture::new();
    let mut config = fixture.fake("srv", "stubborn,child,escaping_child");
    if let haft_mcp_client::ServerEndpoint::Stdio(command) = &mut config.endpoint {
        command.env.insert("HAFT_FAKE_PIDS".into(), format!("{directory}/pids"));
    }
    fixture.manager.set_servers(vec![config]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    std::fs::write(format!("{directory}/ready"), "").unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn kill_minus_nine_leaves_no_server_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut doomed = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "lifecycle::helper_that_waits_to_be_killed", "--nocapture"])
        .env("HAFT_TEST_KILL_ME", directory.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    eventually("the helper is ready", || directory.path().join("ready").exists()).await;
    let pids = std::fs::read_to_string(directory.path().join("pids")).unwrap();
    let pids: Vec<i32> = pids.lines().map(|it| it.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    doomed.kill().unwrap();
    doomed.wait().unwrap();
    eventually("all of them are gone", || !pids.iter().any(|pid| is_alive(*pid))).await;
}

#[tokio::test]
async fn cached_server_starts_on_first_call() {
    let cache = tempfile::tempdir().unwrap();
    let home = Fixture::new();
    let configs: Vec<_> =
        (0..20).map(|n| home.fake(&format!("s{n:02}"), if n % 2 == 0 { "" } else { "modern" })).collect();
    let session = || Fixture::with(|options| options.cache_directory = Some(cache.path().to_owned()));
    let first = session();
    first.manager.set_servers(configs.clone());
    assert!(first.manager.settled(TIMEOUT).await);
    assert_eq!(first.manager.tools().len(), 20);
    first.manager.shutdown().await;

    let second = session();
    let started = Instant::now();
    second.manager.set_servers(configs);
    assert_eq!(second.manager.tools().len(), 20);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(second.manager.status().iter().all(|it| it.state == ServerState::Cached && it.pid.is_none()));
    let output = second.call("mcp__s03__echo", json!({"text": "hi"})).await.unwrap();
    assert_eq!(output.content.to_text(), "hi");
    assert_eq!(second.manager.status().iter().filter(|it| it.pid.is_some()).count(), 1);
    second.manager.shutdown().await;
}

#[tokio::test]
async fn changed_definition_prompts_until_accepted() {
    let cache = tempfile::tempdir().unwrap();
    let home = Fixture::new();
    let config = home.fake("srv", "rug_pull");
    let session = || Fixture::with(|options| options.cache_directory = Some(cache.path().to_owned()));
    let verdict = |fixture: &Fixture| {
        let cx = context();
        fixture.tool("mcp__srv__echo").parse(json!({}), &cx).map(|call| call.check_permissions(&cx)).unwrap()
    };
    let first = session();
    first.manager.set_servers(vec![config.clone()]);
    assert!(first.manager.settled(TIMEOUT).await);
    assert_eq!(verdict(&first), Verdict::Passthrough);
    first.manager.shutdown().await;

    std::fs::write(home.path("srv.log.pulled"), "").unwrap();
    let second = session();
    let mut events = second.manager.events();
    second.manager.set_servers(vec![config.clone()]);
    second.manager.reconnect("srv").await.unwrap();
    assert!(matches!(verdict(&second), Verdict::Insist(_)));
    assert_eq!(second.manager.status()[0].changed, ["echo"]);
    let told = std::iter::from_fn(|| events.try_recv().ok());
    let change = ServerEvent::Definitions { server: "srv".into(), tools: vec!["echo".into()] };
    assert!(told.collect::<Vec<_>>().contains(&change));
    second.manager.shutdown().await;

    // The prompt returns in the next session, but not after the change was accepted.
    let third = session();
    third.manager.set_servers(vec![config.clone()]);
    assert!(matches!(verdict(&third), Verdict::Insist(_)));
    third.manager.accept_definitions("srv").unwrap();
    assert_eq!(verdict(&third), Verdict::Passthrough);
    let fourth = session();
    fourth.manager.set_servers(vec![config]);
    assert_eq!(verdict(&fourth), Verdict::Passthrough);
}

#[tokio::test]
async fn tool_annotations_count_by_server_trust() {
    for (trust, read_only, concurrent) in [
        (ServerTrust::Untrusted, false, false),
        (ServerTrust::Approved, false, true),
        (ServerTrust::Trusted, true, true),
    ] {
        let fixture = Fixture::new();
        let mut config = fixture.fake("srv", "read_only");
        config.trust = trust;
        fixture.manager.set_servers(vec![config]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let call = fixture.tool("mcp__srv__echo").parse(json!({}), &context()).unwrap();
        assert_eq!((call.is_read_only(), call.is_concurrency_safe()), (read_only, concurrent), "{trust:?}");
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn server_can_be_disabled_and_enabled() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let pid = fixture.manager.status()[0].pid.unwrap();
    let held = fixture.tool("mcp__srv__echo");
    fixture.manager.set_enabled("srv", ServerEnabled::No).await.unwrap();
    assert!(!is_alive(pid as i32));
    assert!(fixture.manager.tools().is_empty());
    let err = run(held, json!({}), context()).await.unwrap_err();
    assert!(err.message.contains("switched off"), "{}", err.message);
    fixture.manager.set_enabled("srv", ServerEnabled::Yes).await.unwrap();
    assert!(fixture.manager.settled(TIMEOUT).await);
    assert!(fixture.call("mcp__srv__echo", json!({"text": "x"})).await.is_ok());
    assert!(fixture.manager.set_enabled("nobody", ServerEnabled::No).await.is_err());
    fixture.manager.shutdown().await;
}

#[derive(Default)]
struct Person(Mutex<Vec<Elicitation>>);

impl ElicitationHandler for Person {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        let answer = ElicitAnswer::Accept(request.defaults());
        self.0.lock().unwrap().push(request);
        Box::pin(async { answer })
    }
}

struct Model;

impl SamplingHandler for Model {
    fn sample(&self, server: &str, params: Value) -> BoxFuture<'static, Result<Value, SamplingError>> {
        let text = format!("{server} wants {}", params["maxTokens"]);
        Box::pin(async move {
            Ok(json!({"role": "assistant", "content": {"type": "text", "text": text}, "model": "m"}))
        })
    }
}

#[tokio::test]
async fn server_requests_follow_offered_handlers() {
    let person = Arc::new(Person::default());
    let full = || {
        let mut host = ClientPorts::default();
        host.elicit = Some(person.clone());
        host.sample = Some(Arc::new(Model));
        host.set_roots(vec![ServerRoot { uri: "file:///work".into(), name: None }]);
        host
    };
    for (modes, host, want) in [
        ("elicit", full(), r#"{"action": "accept", "content": {"colour": "blue"}}"#),
        ("elicit", ClientPorts::default(), r#"{"action": "decline"}"#),
        ("sample", full(), r#""text": "srv wants 5""#),
        ("sample", ClientPorts::default(), "-32601"),
        ("roots", full(), r#"{"roots": [{"uri": "file:///work"}]}"#),
        ("ask_unknown", full(), "-32601"),
        (
            "modern,input_required",
            full(),
            r#"[{"q": {"action": "accept", "content": {"colour": "red"}}}, "s1"]"#,
        ),
        ("modern,task", full(), "task done"),
    ] {
        let fixture = Fixture::with(|options| options.host = host);
        fixture.manager.set_servers(vec![fixture.fake("srv", modes)]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        let output = fixture.call("mcp__srv__echo", json!({"text": "x"})).await.unwrap();
        let text = output.content.to_text();
        assert!(text.contains(want), "{modes}: {text}");
        fixture.manager.shutdown().await;
    }
    assert!(person.0.lock().unwrap().iter().all(|it| it.server == "srv"));
}

#[tokio::test]
async fn endless_input_rounds_and_tasks_end() {
    let fixture = Fixture::new();
    let mut task = fixture.fake("task", "modern,task,task_forever");
    task.timeouts.total = Duration::from_secs(5);
    fixture.manager.set_servers(vec![fixture.fake("ask", "modern,input_required,input_forever"), task]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let err = fixture.call("mcp__ask__echo", json!({})).await.unwrap_err();
    assert!(err.message.contains("more than 10 times"), "{}", err.message);
    let err = fixture.call("mcp__task__echo", json!({})).await.unwrap_err();
    assert_eq!(err.kind, ErrorKind::TimedOut, "{}", err.message);
    eventually("the task was cancelled", || !fixture.received("task", "tasks/cancel").is_empty()).await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn resources_prompts_and_templates_are_read() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "")]);
    let resources = fixture.manager.resources("srv").await.unwrap();
    assert_eq!(resources.len(), 1);
    let cancel = tokio_util::sync::CancellationToken::new();
    let (content, _) = fixture.manager.read_resource("srv", "fake://a", &cancel).await.unwrap();
    assert_eq!(content.to_text(), "[resource fake://a]\ncontent of fake://a");
    assert_eq!(fixture.manager.resource_templates("srv").await.unwrap()[0].uri_template, "fake://{x}");
    let prompts = fixture.manager.prompts("srv").await.unwrap();
    assert!(prompts[0].arguments[0].required);
    let prompt = fixture.manager.get_prompt("srv", "p", Default::default()).await.unwrap();
    assert_eq!(prompt["messages"][0]["content"]["text"], "hi");
    let err = fixture.manager.resources("nope").await.unwrap_err();
    assert_eq!(err.to_string(), "no MCP server `nope`; there are: srv");
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn server_down_at_start_connects_later() {
    let fixture = Fixture::new();
    let mut config = fixture.fake("srv", "");
    let late = fixture.path("late.sh");
    if let haft_mcp_client::ServerEndpoint::Stdio(command) = &mut config.endpoint {
        command.args.insert(0, std::mem::replace(&mut command.program, late.display().to_string()));
    }
    fixture.manager.set_servers(vec![config]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    assert_eq!(fixture.manager.status()[0].state, ServerState::Failed);
    std::fs::write(&late, "#!/bin/sh\nexec \"$@\"\n").unwrap();
    std::process::Command::new("chmod").arg("+x").arg(&late).status().unwrap();
    eventually("it is ready without being asked", || fixture.manager.status()[0].state == ServerState::Ready)
        .await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn repeated_change_notifications_are_backed_off() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "wolf")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    support::asked_less_and_less(&fixture).await;
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn resource_updates_are_delivered() {
    for modes in ["updates", "modern,updates"] {
        let fixture = Fixture::new();
        let mut events = fixture.manager.events();
        fixture.manager.set_servers(vec![fixture.fake("srv", modes)]);
        assert!(fixture.manager.settled(TIMEOUT).await);
        fixture.manager.subscribe("srv", "fake://a").unwrap();
        let news = ServerEvent::Resource { server: "srv".into(), uri: "fake://a".into() };
        let heard = async { while events.recv().await.unwrap() != news {} };
        tokio::time::timeout(TIMEOUT, heard).await.unwrap_or_else(|_| panic!("{modes}"));
        fixture.manager.shutdown().await;
    }
}

#[tokio::test]
async fn prompts_become_commands_with_completion() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("my srv", "prompts")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let commands = fixture.manager.prompt_commands().await;
    assert_eq!(commands[0].command, "mcp__my_srv__p");
    let reference = json!({"type": "ref/prompt", "name": "p"});
    let values = fixture.manager.complete("my srv", reference, "x", "pa").await.unwrap();
    assert_eq!(values, ["paris"]);
    let cancel = tokio_util::sync::CancellationToken::new();
    let arguments = json!({"text": "hi"}).as_object().unwrap().clone();
    let result = fixture.manager.call_for_user("my srv", "echo", arguments, &cancel).await.unwrap();
    assert_eq!(result["content"][0]["text"], "hi");
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn resource_tools_read_server_resources() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("srv", "grown"), fixture.fake("gone", "die_at_start")]);
    fixture.manager.settled(TIMEOUT).await;
    let tools = haft_mcp_client::resource_tools(&fixture.manager);
    let call = |name: &str, input: Value| {
        let tool = tools.iter().find(|it| it.name() == name).unwrap();
        run(Arc::clone(tool), input, context())
    };
    let listed = call("ListMcpResources", json!({"server": "srv"})).await.unwrap().content.to_text();
    assert_eq!(listed, "srv: fake://a a\nsrv: fake://{x} t");
    let all = call("ListMcpResources", json!({})).await.unwrap().content.to_text();
    assert!(all.contains("srv: fake://a") && all.contains("(not listed) gone:"), "{all}");
    let err = call("ListMcpResources", json!({"server": "nope"})).await.unwrap_err();
    assert!(err.message.contains("there are: gone, srv"), "{}", err.message);
    let read = call("ReadMcpResource", json!({"server": "srv", "uri": "fake://a"})).await.unwrap();
    assert_eq!(read.content.to_text(), "[resource fake://a]\ncontent of fake://a");
    fixture.call("mcp__srv__echo", json!({})).await.unwrap();
    let refreshed = call("RefreshMcpTools", json!({"server": "srv"})).await.unwrap();
    assert_eq!(refreshed.data[0]["toolCount"], 2);
    fixture.manager.shutdown().await;
}

#[tokio::test]
async fn tool_names_are_valid_and_map_back_to_server() {
    let fixture = Fixture::new();
    fixture.manager.set_servers(vec![fixture.fake("3f2b8c1e-1111-2222-3333-444455556666", "odd_names")]);
    assert!(fixture.manager.settled(TIMEOUT).await);
    let tools = fixture.manager.tools();
    assert_eq!(tools.len(), 6);
    let original = "mcp__3f2b8c1e-1111-2222-3333-444455556666__größe";
    let tool = tools.iter().find(|tool| tool.aliases().contains(&original.to_owned())).unwrap();
    run(Arc::clone(tool), json!({"text": "x"}), context()).await.unwrap();
    assert_eq!(
        fixture.received("3f2b8c1e-1111-2222-3333-444455556666", "tools/call")[0]["params"]["name"],
        "größe"
    );
    fixture.manager.shutdown().await;
}

fn kill(pid: i32) {
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
}
