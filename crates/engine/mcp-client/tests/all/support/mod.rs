//! Shared by the client's tests.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "test code"
)]

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_mcp_client::{
    ManagerOptions, McpManager, MediaDirectory, ServerConfig, ServerEndpoint, StdioCommand,
};
use haft_tool::{AllowReason, CallContext, DynTool, Output, Permit, ToolError, UnrestrictedRead};
use serde_json::Value;

/// Long enough for a loaded machine; a test that reaches it has failed.
pub const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Fixture {
    pub directory: tempfile::TempDir,
    pub manager: McpManager,
}

impl Fixture {
    pub fn new() -> Self {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut ManagerOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut options = ManagerOptions::detached();
        options.media = Arc::new(MediaDirectory::new(directory.path().join("media")));
        change(&mut options);
        Self { manager: McpManager::new(options), directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A fake server in the given modes.
    pub fn fake(&self, name: &str, modes: &str) -> ServerConfig {
        let mut command = fake_command(modes);
        command.env.insert("HAFT_FAKE_LOG".into(), self.path(&format!("{name}.log")).display().to_string());
        command.env.insert("HAFT_FAKE_PIDS".into(), self.path(&format!("{name}.pids")).display().to_string());
        ServerConfig::new(name, ServerEndpoint::Stdio(command))
    }

    /// Messages with this method that the fake server received.
    pub fn received(&self, name: &str, method: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.path(&format!("{name}.log"))).unwrap_or_default();
        let messages = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.filter(|message| message["method"] == method).collect()
    }

    /// Process ids the fake server recorded.
    pub fn pids(&self, name: &str) -> Vec<i32> {
        let pids = std::fs::read_to_string(self.path(&format!("{name}.pids"))).unwrap_or_default();
        pids.lines().filter_map(|line| line.parse().ok()).collect()
    }

    pub fn tool(&self, name: &str) -> Arc<dyn DynTool> {
        let tools = self.manager.tools();
        let found = tools.iter().find(|tool| tool.name() == name).cloned();
        found.unwrap_or_else(|| {
            let names: Vec<&str> = tools.iter().map(|tool| tool.name()).collect();
            panic!("no {name} in {names:?}: {:#?}", self.manager.status());
        })
    }

    pub async fn call(&self, name: &str, input: Value) -> Result<Output, ToolError> {
        run(self.tool(name), input, context()).await
    }
}

pub fn fake_command(modes: &str) -> StdioCommand {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcp-client/tests/all/support/fake_server.py");
    StdioCommand {
        program: String::from("python3"),
        // Without site packages, Python starts twice as fast.
        args: vec!["-IS".into(), script.display().to_string(), modes.to_owned()],
        ..StdioCommand::default()
    }
}

pub fn context() -> CallContext {
    CallContext::detached("call-1", Path::new("/"))
}

#[expect(clippy::disallowed_methods, reason = "these tests are about what happens after permission")]
pub fn permit() -> Permit {
    Permit::issue(AllowReason::User, Vec::new(), Arc::new(UnrestrictedRead))
}

pub async fn run(tool: Arc<dyn DynTool>, input: Value, cx: CallContext) -> Result<Output, ToolError> {
    tool.parse(input, &cx)?.run(permit(), cx).await
}

/// Waits until `check` returns true.
pub async fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let started = Instant::now();
    while !check() {
        assert!(started.elapsed() < TIMEOUT, "not so after {TIMEOUT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Checks that a server which announces changes all the time is asked less often than that.
pub async fn asked_less_and_less(fixture: &Fixture) {
    let started = Instant::now();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let asked = || fixture.received("srv", "tools/list").len();
    eventually("it is asked again", || 2 <= asked()).await;
    // Every 300 ms would be nine times, and more on a slow machine.
    let most = usize::try_from(started.elapsed().as_millis() / 600).unwrap().max(5);
    assert!(asked() <= most, "{}", asked());
}

pub fn is_alive(pid: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie counts as dead; its parent has not reaped it yet.
    !state.is_empty() && !state.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
}

/// Returns the path of an example program, building it if needed.
pub fn example(name: &str) -> String {
    let mut path = std::env::current_exe().unwrap();
    path.pop();
    path.pop();
    let path = path.join("examples").join(name);
    if !path.exists() {
        let package = if name == "conformance_client" { "haft-mcp-client" } else { "haft-mcp-server" };
        let built = std::process::Command::new(env!("CARGO"))
            .args(["build", "--quiet", "-p", package, "--example", name])
            .status()
            .unwrap();
        assert!(built.success(), "{name} cannot be built");
    }
    path.display().to_string()
}
