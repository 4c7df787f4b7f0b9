//! In-process servers and cached manifests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haft_mcp_client::{
    EmbeddedServer, ManagerOptions, McpConnection, McpManager, ServerConfig, ServerEndpoint, ServerTrust,
    StdioCommand,
};
use haft_permission::{Behavior, Destination, Policy, RuleSource};
use haft_tool::{BoxFuture, CallContext, DynTool, tool};
use haft_tool_runtime::{Gate, ParsedCall, Pipeline, Pool, ResultStore, StoreLimits};
use haft_types::ToolUse;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, goal, median, neighbour, say, times as repeated};

const SERVERS: usize = 20;
const CALLS: usize = 20_000;

pub(super) fn run() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(cached())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(calls())
}

async fn cached() -> Outcome<()> {
    let directory = tempfile::tempdir()?;
    let manager = || {
        let cache_directory = Some(directory.path().to_owned());
        McpManager::new(ManagerOptions { cache_directory, ..ManagerOptions::detached() })
    };
    let program = neighbour("tool_server")?.display().to_string();
    let config = |number: usize| {
        let mut command = StdioCommand { program: program.clone(), ..StdioCommand::default() };
        command.env.insert(String::from("NUMBER"), number.to_string());
        ServerConfig::new(format!("server{number}"), ServerEndpoint::Stdio(command))
    };
    let first = manager();
    first.set_servers((0..SERVERS).map(config).collect());
    first.settled(Duration::from_secs(60)).await;
    first.shutdown().await;
    let mut times = Vec::new();
    for _ in 0..repeated(21) {
        let again = manager();
        let started = Instant::now();
        again.set_servers((0..SERVERS).map(config).collect());
        again.settled(Duration::from_secs(60)).await;
        let tools = again.tools().len();
        times.push(started.elapsed());
        if tools != SERVERS * 5 || again.status().iter().any(|it| it.pid.is_some()) {
            return Err(format!("{tools} tools, or a process was started").into());
        }
        again.shutdown().await;
    }
    say("within one process");
    goal("20 known servers ready, no process started", median(&mut times).as_secs_f64() * 1e3, "ms", 5.0);
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
struct Text {
    text: String,
}

/// A server that answers at once.
struct Inside;

impl McpConnection for Inside {
    fn exchange(&self, message: Value) -> BoxFuture<'static, Result<Option<Value>, String>> {
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}),
            Some("tools/list") => json!({"tools": [{"name": "echo", "description": "Says the same.",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
                "annotations": {"readOnlyHint": true}}]}),
            _ => json!({"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}),
        };
        let answer = message.get("id").map(|id| json!({"jsonrpc": "2.0", "id": id, "result": result}));
        Box::pin(async move { Ok(answer) })
    }
}

async fn calls() -> Outcome<()> {
    let manager = McpManager::new(ManagerOptions::detached());
    let mut config =
        ServerConfig::new("inside", ServerEndpoint::InProcess(EmbeddedServer::connector(Arc::new(Inside))));
    config.trust = ServerTrust::Trusted;
    manager.set_servers(vec![config]);
    manager.settled(Duration::from_secs(5)).await;
    let own =
        tool("echo", "Says the same.", async |args: Text, _cx| Ok(args.text.into())).read_only().build();
    let tools: Vec<Arc<dyn DynTool>> = manager.tools().into_iter().chain([own]).collect();
    let pool = Arc::new(Pool::assemble(tools, Vec::new()));
    let origin = RuleSource::new("bench", Destination::Session);
    let policy = Policy::builder(std::path::Path::new("/")).rules(
        &origin,
        Behavior::Allow,
        [String::from("mcp__inside"), String::from("echo")],
    );
    let results = std::env::temp_dir().join("haft-bench-mcp");
    let pipeline =
        Pipeline::new(Gate::new(policy.build()), ResultStore::new(results, StoreLimits::default()));
    let mut times: [Vec<Duration>; 2] = Default::default();
    for _ in 0..repeated(CALLS) {
        for (name, times) in ["echo", "mcp__inside__echo"].iter().zip(&mut times) {
            let cx = CallContext::detached("call-1", std::path::Path::new("/"));
            let call =
                ToolUse { id: "call-1".into(), name: (*name).to_owned(), input: json!({"text": "hello"}) };
            let started = Instant::now();
            let report = pipeline.run(ParsedCall::parse(&pool, call, &cx), cx).await;
            times.push(started.elapsed());
            if report.error.is_some() {
                return Err(report.content.to_text().into());
            }
        }
    }
    let [mut own, mut remote] = times;
    let over = median(&mut remote).as_secs_f64() - median(&mut own).as_secs_f64();
    goal("a call of a server in this process, over the pipeline", over * 1e6, "µs", 5.0);
    Ok(())
}
