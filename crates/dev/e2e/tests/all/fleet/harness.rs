//! A fleet on this machine: home, model, store, workers.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use haft_testkit::{MockModel, Script};
use serde_json::{Value, json};

use crate::common::Haft;
use crate::fleet::support::servers::{Kind, Rig};

pub(crate) struct FleetRig {
    pub(crate) haft: Haft,
    pub(crate) model: MockModel,
    pub(crate) store: String,
    /// Additional environment variables of commands and workers.
    pub(crate) variables: Vec<(String, String)>,
    /// The store's server, which ends with the rig.
    pub(crate) engine: Option<Rig>,
}

/// A worker process that is killed with its test.
pub(crate) struct WorkerProcess(pub(crate) Child);

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl WorkerProcess {
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    /// Kills the worker with SIGKILL, as if its machine had failed.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl FleetRig {
    pub(crate) async fn new(turns: Value) -> Self {
        let haft = Haft::new();
        let script: Script = serde_json::from_value(json!({"turns": turns})).unwrap();
        let model = MockModel::start(script).await.unwrap();
        let store = format!("sqlite:{}", haft.dir.path().join("fleet.db").display());
        Self { haft, model, store, variables: Vec::new(), engine: None }
    }

    /// Like `new`, with another store engine. `None`, with a message, if it is not installed.
    pub(crate) async fn on(kind: Kind, turns: Value) -> Option<Self> {
        let mut rig = Self::new(turns).await;
        if kind != Kind::Sqlite {
            let engine = Rig::start(kind)?;
            // Addresses are printed without credentials; these servers need none.
            rig.store = match kind {
                Kind::Postgres => engine.address.to_string().replace("postgres://", "postgres://postgres@"),
                Kind::Nats | Kind::Sqlite => engine.address.to_string(),
            };
            rig.engine = Some(engine);
        }
        Some(rig)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.haft.command();
        command.arg("fleet").args(args);
        command.env("HAFT_FLEET", &self.store).env("ANTHROPIC_BASE_URL", self.model.url());
        command.envs(self.variables.iter().cloned());
        command.env("ANTHROPIC_API_KEY", "test-key-of-the-fleet").env("IS_SANDBOX", "1").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {stderr}{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a worker; its output goes to a file.
    pub(crate) fn worker(&self, name: &str, more: &[&str]) -> WorkerProcess {
        self.worker_for(name, "60s", more)
    }

    /// Starts a worker with a short lease, for tests that kill it. The lease is still longer than a busy
    /// machine stalls.
    pub(crate) fn mortal(&self, name: &str, more: &[&str]) -> WorkerProcess {
        self.worker_for(name, "10s", more)
    }

    fn worker_for(&self, name: &str, lease: &str, more: &[&str]) -> WorkerProcess {
        let log = std::fs::File::create(self.haft.dir.path().join(format!("{name}.log"))).unwrap();
        let root = self.haft.dir.path().join(format!("root-{name}")).display().to_string();
        let mut args = vec!["worker", "--lease", lease, "--root", &root];
        args.extend(more);
        WorkerProcess(self.command(&args).stdout(Stdio::null()).stderr(log).spawn().unwrap())
    }

    pub(crate) fn worker_said(&self, name: &str) -> String {
        std::fs::read_to_string(self.haft.dir.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// All jobs, by id.
    pub(crate) fn jobs(&self) -> HashMap<String, Value> {
        let status = self.ok(&["status", "--json"]);
        let lines = status.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let jobs = lines.filter(|it| it["type"] == "job");
        jobs.map(|it| (it["id"].as_str().unwrap().to_owned(), it)).collect()
    }

    pub(crate) fn state(&self, id: &str) -> String {
        self.jobs().get(id).map(|it| it["state"].as_str().unwrap().to_owned()).unwrap_or_default()
    }

    pub(crate) async fn until(&self, what: &str, happened: impl Fn() -> bool) {
        // Each poll starts a process, so the interval grows.
        let (begin, mut pause) = (std::time::Instant::now(), 10);
        tokio::task::block_in_place(|| {
            while !happened() {
                let patient = begin.elapsed().as_secs() < 300;
                assert!(patient, "it did not happen: {what}\n{}", self.ok(&["status", "--json"]));
                std::thread::sleep(std::time::Duration::from_millis(pause));
                pause = (pause * 2).min(300);
            }
        });
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.haft.dir.path().join(name)
    }

    /// Lines that the model's commands have written.
    pub(crate) fn effects(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("effects")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// A command that writes one line about itself and then runs `then`.
    pub(crate) fn effect(&self, then: &str) -> String {
        let file = self.path("effects").display().to_string();
        format!("echo \"$CLAUDE_CODE_SESSION_ID $HAFT_CALL_ID\" >> {file} && {then}")
    }

    pub(crate) fn submit(&self, prompt: &str, more: &[&str]) -> String {
        let mut args = vec!["submit", "-p", prompt, "--permission-mode", "bypassPermissions"];
        args.extend(more);
        self.ok(&args).trim().to_owned()
    }
}

/// A command that waits for a file. It also ends with the test, because commands of a killed worker have
/// no parent that ends them.
pub(crate) fn until_there(path: &str) -> String {
    format!("while [ ! -e {path} ] && [ -d $(dirname {path}) ]; do sleep 0.05; done")
}

pub(crate) fn bash(command: &str) -> Value {
    // The timeout of the call is longer than the test.
    json!({"tool": {"name": "Bash", "input": {"command": command, "description": "a step", "timeout": 600_000}}})
}

/// A sleep longer than any test, with a unique duration so that it can be found.
pub(crate) fn long_sleep() -> String {
    format!("sleep 6{:02}.{:06}", fastrand::u8(10..99), fastrand::u32(..1_000_000))
}

/// Whether no process has this text in its command line.
pub(crate) fn is_gone(words: &str) -> bool {
    let left = Command::new("pgrep").args(["-f", words]).output().unwrap();
    left.stdout.is_empty()
}
