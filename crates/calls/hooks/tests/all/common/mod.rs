//! A session in a temporary directory with hooks from a settings object.

#![allow(dead_code, unreachable_pub, reason = "every test file uses a part of it")]

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_hooks::{
    BaseInput, HookDecision, HookDefinition, HookEnvironment, HookInput, HookPorts, HookSource, Hooks,
    HooksOutcome, PreToolUse, parse_definitions,
};
use serde_json::{Value, json};

pub struct Rig {
    pub directory: tempfile::TempDir,
    pub ports: HookPorts,
}

impl Default for Rig {
    fn default() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environment =
            HookEnvironment { project_dir: directory.path().to_owned(), ..HookEnvironment::default() };
        let user_settings = Some(PathBuf::from("/home/u/.haft/settings.json"));
        Self { directory, ports: HookPorts { environment, user_settings, ..HookPorts::default() } }
    }
}

impl Rig {
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn definitions(&self, hooks: &Value) -> Vec<HookDefinition> {
        let source = Arc::new(HookSource::Named("the test".to_owned()));
        parse_definitions(hooks, &source).0
    }

    pub fn hooks(&self, hooks: &Value) -> Hooks {
        Hooks::new(self.definitions(hooks), self.ports.clone())
    }

    /// One `PreToolUse` hook for all tools.
    pub fn gate(&self, hook: Value) -> Hooks {
        self.hooks(&json!({"PreToolUse": [{"hooks": [hook]}]}))
    }

    pub fn base(&self) -> BaseInput {
        BaseInput::new("session-1".into(), self.path("log.jsonl"), self.directory.path().to_owned())
    }

    pub fn pre(&self, tool: &str, input: Value) -> HookInput {
        let event = PreToolUse {
            tool_name: tool.into(),
            tool_input: input,
            tool_use_id: "t1".into(),
            mcp_server: None,
        };
        HookInput::new(self.base(), event)
    }

    pub async fn ask(&self, hooks: &Hooks) -> HooksOutcome {
        hooks.run(&self.pre("Bash", json!({"command": "ls"}))).await
    }
}

/// A command hook with its timeout.
pub fn command(line: &str, timeout: f64) -> Value {
    json!({"type": "command", "command": line, "timeout": timeout})
}

pub fn with(mut hook: Value, name: &str, value: impl Into<Value>) -> Value {
    hook[name] = value.into();
    hook
}

pub fn reason(outcome: &HooksOutcome) -> &str {
    match &outcome.decision {
        HookDecision::NoOpinion => "",
        HookDecision::Allow { reason }
        | HookDecision::Ask { reason }
        | HookDecision::Defer { reason }
        | HookDecision::Block { reason, .. } => reason,
    }
}

/// Polls until the condition is true; fails the test after a deadline.
pub async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process with this pid is running.
pub fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The pid that a hook wrote to a file.
pub fn pid_in(path: &std::path::Path) -> Option<i32> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
