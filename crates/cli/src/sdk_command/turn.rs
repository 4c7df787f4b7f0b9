//! One prompt, on a task of its own.

use std::time::Duration;

use haft_agent::{Agent, TurnEnd};
use haft_mcp::Manager;
use haft_sdk::{Frames, Host, Init, UserFrame, mcp_servers};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::wiring::ServerTools;

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
            let servers = ServerTools::new(&around.manager, &agent.tools);
            tokio::select! {
                () = servers.come_in(&mut agent, SERVERS_PATIENCE) => (),
                () = token.cancelled() => (),
            }
            begin(&agent, &prompt, around);
            let end = agent.run(prompt.to_input(), &token).await;
            (agent, end)
        });
        Self { task, cancel, uuid }
    }
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
