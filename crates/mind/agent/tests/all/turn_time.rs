//! How long a turn with one call takes, without a provider's time.
//! `cargo nextest run -p haft-agent --run-ignored only turn_time --no-capture`

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use haft_agent::{
    Agent, AgentSettings, Base, Conversation, Environment, Memory, Prompt, UserInput, log::LogFile,
};
use haft_model::{Catalog, Event, EventStream, ModelError, ModelInfo, Provider, Request, StopReason};
use haft_permission::Policy;
use haft_runtime::{Gate, Pipeline, Pool, ResultStore, Session, SessionState, SharedPool, StoreLimits};
use haft_tool::{Outcome, tool};
use haft_types::{MessageBlock, PermissionMode, Role, ToolUse};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::common::EchoArgs;

/// Calls one tool once per prompt.
struct Scripted(&'static str);

impl Provider for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn info(&self, model: &str) -> ModelInfo {
        Catalog::built_in().get(model)
    }

    fn stream(&self, request: Request) -> EventStream {
        let last = request.messages.last().unwrap();
        let answered =
            last.role == Role::User && matches!(last.content.last(), Some(MessageBlock::ToolResult { .. }));
        let id = uuid::Uuid::new_v4().to_string();
        let block = match answered {
            true => MessageBlock::Text { text: String::from("Done.") },
            false => MessageBlock::ToolUse(ToolUse {
                id: id.as_str().into(),
                name: self.0.to_owned(),
                input: json!({"text": "some words for a call"}),
            }),
        };
        let stop = if answered { StopReason::EndTurn } else { StopReason::ToolUse };
        let events =
            [Event::Started { id, model: request.model.clone() }, Event::Block(block), Event::Stopped(stop)];
        Box::pin(futures_util::stream::iter(events.map(Ok)))
    }

    fn count_tokens(&self, request: Request) -> haft_model::BoxFuture<'_, Result<u64, ModelError>> {
        Box::pin(async move { Ok(request.estimate_tokens()) })
    }
}

async fn median(tool_name: &'static str) -> Duration {
    let mut times = Vec::new();
    for _ in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let tools = vec![
            tool("Look", "Looks.", async |_: EchoArgs, _cx| Ok(Outcome::from("seen"))).read_only().build(),
            tool("Act", "Acts.", async |_: EchoArgs, _cx| Ok(Outcome::from("done"))).build(),
        ];
        let results = ResultStore::new(dir.path().join("tool-results"), StoreLimits::default());
        let pipeline = Arc::new(Pipeline::new(Gate::new(Policy::default()), results));
        pipeline.gate.set_mode(PermissionMode::BypassPermissions);
        let pool = SharedPool::new(Pool::assemble(tools, Vec::new()));
        let session = Session::new(pipeline, pool, SessionState::new(dir.path()));
        let log = LogFile::open(dir.path().join("session.jsonl")).unwrap();
        let conversation = Conversation::new("session".into(), dir.path(), Some(log));
        let prompt = Prompt {
            base: Base::Haft,
            environment: Environment::of(dir.path()),
            memory: Memory::default(),
            deferred_tools: Vec::new(),
            append: None,
            servers: std::collections::BTreeMap::new(),
            starting: Vec::new(),
        };
        let settings = AgentSettings::new("claude-opus-4-5");
        let (mut agent, _events) =
            Agent::new(Arc::new(Scripted(tool_name)), session, conversation, settings, prompt);
        let cancel = CancellationToken::new();
        for turn in 0..25 {
            let started = Instant::now();
            agent.run(UserInput::text("go"), &cancel).await;
            if 5 <= turn {
                times.push(started.elapsed());
            }
        }
    }
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
#[ignore = "measures"]
#[allow(clippy::print_stdout, reason = "prints what it measured")]
async fn turn_time() {
    for run in 0..3 {
        println!("run {run}: Look {:?}, Act {:?}", median("Look").await, median("Act").await);
    }
}
