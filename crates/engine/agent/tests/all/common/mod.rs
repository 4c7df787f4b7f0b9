//! An agent with a scripted model and a few simple tools.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use haft_agent::{
    Agent, AgentEvent, AgentSettings, Conversation, MemoryFiles, PromptBase, PromptEnvironment, SystemPrompt,
    TurnEnd, UserInput, log::LogFile,
};
use haft_model::{AnthropicLogin, HttpProvider, ProviderOptions, RetryPolicy};
use haft_permission::Policy;
use haft_testkit::{MockModel, Script, Turn};
use haft_tool::{CallEffect, DynTool, Outcome, ToolError, WorkItem, tool};
use haft_tool_runtime::{
    CallSession, CallSessionState, Gate, Pipeline, Pool, ResultStore, SharedPool, StoreLimits,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

#[derive(Deserialize, JsonSchema)]
pub struct EchoArgs {
    text: String,
}

/// Takes whatever comes.
#[derive(Deserialize, JsonSchema)]
pub struct Anything {
    #[serde(flatten)]
    rest: serde_json::Map<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
pub struct SizeArgs {
    size: usize,
}

pub struct Rig {
    pub model: MockModel,
    pub agent: Agent,
    pub events: mpsc::UnboundedReceiver<AgentEvent>,
    pub cancel: CancellationToken,
    /// Everything `Append` was called with.
    pub appended: Arc<Mutex<Vec<String>>>,
    /// `Wait` runs.
    pub waiting: Arc<Notify>,
    pub dir: tempfile::TempDir,
}

pub async fn rig(turns: Vec<Turn>) -> Rig {
    rig_with(Script::from_turns(turns)).await
}

pub async fn rig_with(script: Script) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let model = MockModel::start(script).await.unwrap();
    let log = LogFile::open(dir.path().join("session.jsonl")).unwrap();
    let conversation = Conversation::new("session".into(), dir.path(), Some(log));
    rig_on(model, conversation, dir)
}

pub fn rig_on(model: MockModel, conversation: Conversation, dir: tempfile::TempDir) -> Rig {
    let provider = provider(&model.url());
    rig_by(provider, model, conversation, dir)
}

pub fn rig_by(
    provider: Arc<HttpProvider>,
    model: MockModel,
    conversation: Conversation,
    dir: tempfile::TempDir,
) -> Rig {
    let (appended, waiting) = (Arc::default(), Arc::new(Notify::new()));
    let pool = Pool::assemble(tools(&appended, &waiting), Vec::new());
    let results = ResultStore::new(dir.path().join("tool-results"), StoreLimits::default());
    let pipeline = Arc::new(Pipeline::new(Gate::new(Policy::default()), results));
    let session = CallSession::new(pipeline, SharedPool::new(pool), CallSessionState::new(dir.path()));
    let prompt = SystemPrompt {
        base: PromptBase::Haft,
        environment: environment(dir.path()),
        memory: MemoryFiles::default(),
        deferred_tools: Vec::new(),
        append: None,
        servers: std::collections::BTreeMap::new(),
        starting: Vec::new(),
        style: None,
    };
    let (agent, events) =
        Agent::new(provider, session, conversation, AgentSettings::new("claude-opus-4-5"), prompt);
    Rig { model, agent, events, cancel: CancellationToken::new(), appended, waiting, dir }
}

pub fn provider(url: &str) -> Arc<HttpProvider> {
    let retry = RetryPolicy { base: std::time::Duration::from_millis(1), ..RetryPolicy::default() };
    let common = ProviderOptions { retry, ..ProviderOptions::default() };
    Arc::new(HttpProvider::anthropic(url, AnthropicLogin::None, common).unwrap())
}

fn environment(cwd: &Path) -> PromptEnvironment {
    PromptEnvironment {
        cwd: cwd.display().to_string(),
        is_git_repository: false,
        platform: String::from("linux"),
        today: String::from("2026-01-01"),
        additional_directories: Vec::new(),
        notes: Vec::new(),
    }
}

fn tools(appended: &Arc<Mutex<Vec<String>>>, waiting: &Arc<Notify>) -> Vec<Arc<dyn DynTool>> {
    let (appended, waiting) = (Arc::clone(appended), Arc::clone(waiting));
    let held = Arc::clone(&waiting);
    vec![
        tool("Late", "Is done when somebody says so.", move |args: EchoArgs, _cx| {
            let held = Arc::clone(&held);
            async move {
                held.notified().await;
                Ok(Outcome::from(args.text))
            }
        })
        .read_only()
        .concurrency_safe()
        .build(),
        tool("Echo", "Says it again.", async |args: EchoArgs, _cx| Ok(Outcome::from(args.text)))
            .read_only()
            .concurrency_safe()
            .build(),
        tool("Append", "Writes a line.", move |args: EchoArgs, _cx| {
            let appended = Arc::clone(&appended);
            async move {
                appended.lock().unwrap().push(args.text);
                Ok(Outcome::from("appended"))
            }
        })
        .read_only()
        .build(),
        tool("Fail", "Fails.", async |args: EchoArgs, _cx| {
            Err::<Outcome<()>, _>(ToolError::failed(args.text))
        })
        .read_only()
        .build(),
        tool("Big", "Returns much.", async |args: SizeArgs, _cx| {
            Ok(Outcome::from("word ".repeat(args.size / 5)))
        })
        .read_only()
        .build(),
        // Tools that leave a trace for what outlives a compaction.
        leaving("TodoWrite", "noted", |input| {
            let field = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
            let item = |it: &Value| WorkItem { text: field(it, "content"), status: field(it, "status") };
            CallEffect::Todos(input["todos"].as_array().unwrap().iter().map(item).collect())
        }),
        leaving("Approve", "the plan is approved", |input| {
            CallEffect::Plan(input["plan"].as_str().unwrap().to_owned())
        }),
        leaving("Learn", "learnt", |input| CallEffect::SkillLoaded {
            name: input["skill"].as_str().unwrap().to_owned(),
            text: String::from("How to brew: heat the water."),
        }),
        leaving("Write", "written", |input| {
            CallEffect::FileChanged(input["file_path"].as_str().unwrap().into())
        }),
        leaving("Start", "started", |input| CallEffect::BackgroundStarted {
            id: String::from("bash_7"),
            command: input["command"].as_str().unwrap().to_owned(),
        }),
        tool("Danger", "Asks first.", async |args: EchoArgs, _cx| Ok(Outcome::from(args.text))).build(),
        tool("Wait", "Waits to be interrupted.", move |_: EchoArgs, cx: haft_tool::ToolContext<Value>| {
            let waiting = Arc::clone(&waiting);
            async move {
                waiting.notify_one();
                cx.cancel.cancelled().await;
                Ok(Outcome::from("half"))
            }
        })
        .read_only()
        .build(),
    ]
}

/// A tool that takes anything, says this and leaves a trace.
fn leaving(name: &'static str, answer: &'static str, trace: fn(&Value) -> CallEffect) -> Arc<dyn DynTool> {
    tool(name, "Does it.", move |input: Anything, _cx| async move {
        Ok(Outcome::from(answer).with_trace(trace(&Value::Object(input.rest))))
    })
    .read_only()
    .build()
}

impl Rig {
    pub async fn say(&mut self, text: &str) -> TurnEnd {
        let cancel = self.cancel.clone();
        self.agent.run(UserInput::text(text), &cancel).await
    }

    /// The bodies of all requests.
    pub fn bodies(&self) -> Vec<Value> {
        self.model.requests().iter().map(|it| it.json()).collect()
    }

    /// The results in the last request, as `id-less` texts.
    pub fn last_results(&self) -> Vec<(String, bool)> {
        let bodies = self.bodies();
        let last = bodies.last().unwrap()["messages"].as_array().unwrap().last().unwrap().clone();
        let results = last["content"].as_array().unwrap().iter().filter(|it| it["type"] == "tool_result");
        results
            .map(|it| {
                let text = match &it["content"] {
                    Value::String(text) => text.clone(),
                    blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
                };
                (text, it["is_error"] == true)
            })
            .collect()
    }
}
