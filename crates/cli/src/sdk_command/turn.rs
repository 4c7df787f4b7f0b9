//! One prompt, on a task of its own.

use std::{sync::Arc, time::Duration};

use haft_agent::{Agent, TurnEnd};
use haft_mcp::Manager;
use haft_sdk::{Frames, Host, Init, UserFrame, mcp_servers};
use haft_tool::DynTool;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long the first request waits for servers that are being started.
const SERVERS_PATIENCE: Duration = Duration::from_secs(30);

/// A prompt that is being worked on.
pub(super) struct Running {
    pub(super) task: JoinHandle<(Box<Agent>, TurnEnd)>,
    pub(super) cancel: CancellationToken,
    pub(super) uuid: Option<String>,
}

/// What a turn needs beside the agent.
pub(super) struct Surroundings {
    pub(super) manager: Manager,
    pub(super) host: Host,
    pub(super) frames: Frames,
    /// All but tools, servers, model and mode, which may change until it begins.
    pub(super) init: Init,
    pub(super) partial: bool,
    pub(super) replay: bool,
}

impl Running {
    pub(super) fn start(mut agent: Box<Agent>, prompt: UserFrame, around: Surroundings) -> Self {
        let cancel = CancellationToken::new();
        let (token, uuid) = (cancel.clone(), prompt.uuid.clone());
        let task = tokio::spawn(async move {
            tokio::select! {
                _ = around.manager.settled(SERVERS_PATIENCE) => (),
                () = token.cancelled() => (),
            }
            take_tools(&mut agent, &around.manager);
            begin(&agent, &prompt, around);
            let end = agent.run(prompt.to_input(), &token).await;
            (agent, end)
        });
        Self { task, cancel, uuid }
    }
}

/// The tools of the servers, but for those somebody ruled out.
fn take_tools(agent: &mut Agent, manager: &Manager) {
    let policy = agent.tools.pipeline.gate.permissions().policy();
    let tools: Vec<Arc<dyn DynTool>> =
        manager.tools().into_iter().filter(|tool| policy.removes(tool.name()).is_none()).collect();
    let pool = agent.tools.pool.get();
    if tools.is_empty() && manager.names().is_empty() {
        return;
    }
    let pool = pool.with_external(tools, "its server is no longer there");
    agent.prompt.deferred_tools = pool.deferred().map(|(name, _)| name.to_owned()).collect();
    agent.tools.pool.set(pool);
}

fn begin(agent: &Agent, prompt: &UserFrame, around: Surroundings) {
    let init = Init {
        tools: agent.tools.pool.get().names().map(str::to_owned).collect(),
        mcp_servers: mcp_servers(&around.manager),
        model: agent.settings.model.clone(),
        permission_mode: agent.tools.pipeline.gate.mode().name().to_owned(),
        ..around.init
    };
    around.host.tell(around.frames.init(&init));
    if around.replay && !prompt.message.is_null() {
        around.host.tell(around.frames.replay(&prompt.message, prompt.uuid.as_deref()));
    }
    if around.partial {
        around.host.tell(around.frames.system("status", json!({"status": "requesting"})));
    }
}
