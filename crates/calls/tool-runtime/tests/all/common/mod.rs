//! A tool with scripted behaviour, and a session around it.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_permission::Policy;
use haft_tool::{
    BoxFuture, CallContext, ContextChange, DynTool, ErrorKind, Outcome, Tool, ToolContext, ToolError, Traits,
    Verdict, erase,
};
use haft_tool_runtime::{
    Approver, CallReport, CallSession, CallSessionState, Gate, PermissionAnswer, PermissionQuestion,
    Pipeline, Pool, ResultStore, SessionHooks, SharedPool, StoreLimits,
};
use haft_types::ToolUse;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// Does what it is told.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct ProbeInput {
    /// Waits until the test lets this name go.
    #[serde(default)]
    pub wait: Option<String>,
    #[serde(default)]
    pub safe: bool,
    #[serde(default)]
    pub read_only: bool,
    #[serde(default)]
    pub panic: Option<String>,
    #[serde(default)]
    pub fail: bool,
    #[serde(default)]
    pub cd: Option<PathBuf>,
    #[serde(default)]
    pub size: usize,
    #[serde(default)]
    pub block_ms: u64,
    #[serde(default)]
    pub partial: Option<String>,
    #[serde(default)]
    pub ask: bool,
}

impl ProbeInput {
    /// Panics if the test asked for a panic at this place.
    fn panic_in(&self, place: &str) {
        assert!(self.panic.as_deref() != Some(place), "asked to panic in a question");
    }
}

#[derive(Clone)]
pub struct Probe {
    pub now: Arc<AtomicUsize>,
    pub most: Arc<AtomicUsize>,
    pub gates: Arc<Mutex<HashMap<String, Arc<Semaphore>>>>,
    pub started: mpsc::UnboundedSender<String>,
    pub timeout: Option<Duration>,
}

impl Probe {
    pub fn gate(&self, name: &str) -> Arc<Semaphore> {
        let mut gates = self.gates.lock().unwrap();
        Arc::clone(gates.entry(name.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(0))))
    }

    pub fn release(&self, name: &str) {
        self.gate(name).add_permits(1);
    }
}

impl Tool for Probe {
    type Input = ProbeInput;
    type Output = String;
    type Progress = Value;
    const NAME: &'static str = "Probe";

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["probe_alias"],
            max_result_chars: Some(1_000),
            timeout: self.timeout,
            ..Traits::default()
        }
    }

    fn canonicalize(&self, input: &mut ProbeInput, _cx: &CallContext) {
        input.panic_in("canonicalize");
    }

    fn is_read_only(&self, input: &ProbeInput) -> bool {
        input.panic_in("is_read_only");
        input.read_only
    }

    fn is_concurrency_safe(&self, input: &ProbeInput) -> bool {
        input.panic_in("is_concurrency_safe");
        input.safe
    }

    fn path<'a>(&self, input: &'a ProbeInput) -> Option<&'a std::path::Path> {
        input.panic_in("path");
        None
    }

    fn validate(&self, input: &ProbeInput, _cx: &CallContext) -> Result<(), ToolError> {
        input.panic_in("validate");
        if input.size == 13 {
            return Err(ToolError::invalid("size must not be 13; take another number"));
        }
        Ok(())
    }

    fn check_permissions(&self, input: &ProbeInput, _cx: &CallContext) -> Verdict {
        input.panic_in("check_permissions");
        if input.ask { Verdict::Ask(String::from("the probe wants to be asked for")) } else { Verdict::Allow }
    }

    async fn call(&self, input: ProbeInput, cx: &ToolContext<Value>) -> Result<Outcome<String>, ToolError> {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let _leave = Leave(Arc::clone(&self.now));
        cx.progress(&serde_json::json!({"started": &*cx.call_id}));
        self.started.send(cx.call_id.to_string()).ok();
        std::thread::sleep(Duration::from_millis(input.block_ms));
        if let Some(name) = &input.wait {
            let gate = self.gate(name);
            tokio::select! {
                permit = gate.acquire() => permit.unwrap().forget(),
                () = cx.cancel.cancelled(), if input.partial.is_some() => {
                    return Ok(input.partial.unwrap_or_default().into());
                }
            }
        }
        assert!(input.panic.is_none(), "told to panic");
        if input.fail {
            return Err(ToolError::failed("told to fail"));
        }
        let text = if input.size == 0 { cx.cwd.display().to_string() } else { "x".repeat(input.size) };
        let outcome = Outcome::from(text);
        Ok(match input.cd {
            Some(dir) => outcome.with_change(ContextChange::Cwd(dir)),
            None => outcome,
        })
    }
}

/// Decrements the count of running calls, even if the call panics or is aborted.
struct Leave(Arc<AtomicUsize>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A session with everything a test may vary.
pub struct Rig {
    pub probe: Probe,
    pub started: mpsc::UnboundedReceiver<String>,
    pub session: CallSession,
    pub cancel: CancellationToken,
    pub dir: tempfile::TempDir,
}

#[derive(Default)]
pub struct Setup {
    pub hooks: haft_hooks::Hooks,
    pub ask: Option<Arc<dyn Approver>>,
    pub extra: Vec<Arc<dyn DynTool>>,
    pub timeout: Option<Duration>,
    pub policy: Option<Policy>,
}

impl Setup {
    pub fn rig(self) -> Rig {
        let (started, receiver) = mpsc::unbounded_channel();
        let probe = Probe {
            now: Arc::default(),
            most: Arc::default(),
            gates: Arc::default(),
            started,
            timeout: self.timeout,
        };
        let dir = tempfile::tempdir().unwrap();
        let pool = Pool::assemble(vec![erase(probe.clone())], self.extra);
        let hooks = SessionHooks::new(self.hooks, "session".into(), dir.path().join("log.jsonl"));
        let mut gate = Gate::new(self.policy.unwrap_or_default()).with_hooks(hooks);
        if let Some(ask) = self.ask {
            gate = gate.with_approver(ask);
        }
        let results = ResultStore::new(dir.path().join("tool-results"), StoreLimits::default());
        let mut pipeline = Pipeline::new(gate, results);
        pipeline.grace = Duration::from_secs(1);
        let mut session =
            CallSession::new(Arc::new(pipeline), SharedPool::new(pool), CallSessionState::new(dir.path()));
        session.limits.concurrency = 4;
        Rig { probe, started: receiver, session, cancel: CancellationToken::new(), dir }
    }
}

impl Rig {
    pub async fn run(&mut self, calls: &[(&str, Value)]) -> Vec<CallReport> {
        let cancel = self.cancel.clone();
        self.session.run_message(uses(calls), &cancel).await
    }

    pub async fn run_one(&mut self, name: &str, input: Value) -> (Option<ErrorKind>, String) {
        let reports = self.run(&[(name, input)]).await;
        assert_eq!(reports.len(), 1);
        (reports[0].error, reports[0].content.to_text())
    }

    /// Waits until the next call starts and returns its name.
    pub async fn started(&mut self) -> String {
        tokio::time::timeout(Duration::from_secs(120), self.started.recv()).await.unwrap().unwrap()
    }
}

pub fn uses(calls: &[(&str, Value)]) -> Vec<ToolUse> {
    let tool_use = |(idx, (name, input)): (usize, &(&str, Value))| ToolUse {
        id: format!("call-{idx}").into(),
        name: (*name).to_owned(),
        input: input.clone(),
    };
    calls.iter().enumerate().map(tool_use).collect()
}

/// An approver that always gives the same answer.
pub struct Always(pub PermissionAnswer);

impl Approver for Always {
    fn ask(&self, _question: Arc<PermissionQuestion>) -> BoxFuture<'static, PermissionAnswer> {
        Box::pin(std::future::ready(self.0.clone()))
    }
}
