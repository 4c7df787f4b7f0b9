//! What sandboxed commands can and cannot do, on this machine's kernel.
#![allow(clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "test code")]

use crate::common;
mod caches;
mod escapes;
mod inside;
mod machine;
mod reach;

use std::{
    collections::BTreeMap,
    io,
    net::IpAddr,
    os::unix::{fs::PermissionsExt as _, net::UnixListener},
    path::PathBuf,
    pin::Pin,
    process::Command,
    sync::Arc,
};

use common::{Rig, lives, read_pid, text};
use haft_sandbox::{
    Confinement, Domains, Hidden, IfMissing, Lookup, Network, PathKind, Protected, Sandbox, SandboxBackend,
    SandboxConfig, SandboxPolicy, SandboxStrictness, UnixSockets, WorkspacePolicy, blocked,
};
use haft_shell::run::{Exit, Job, JobEnd};

struct Walls {
    rig: Rig,
    top: PathBuf,
    sandbox: Arc<Sandbox>,
}

struct Names(BTreeMap<String, IpAddr>);

impl Lookup for Names {
    fn lookup<'a>(
        &'a self,
        host: &'a str,
    ) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>> {
        let found = self.0.get(host).copied();
        Box::pin(async move { found.map(|ip| vec![ip]).ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

impl Walls {
    fn new() -> Self {
        Self::without("")
    }

    fn without(features: &str) -> Self {
        let rig = Rig::new();
        let top = rig.dir.path().canonicalize().unwrap();
        for dir in ["outside", "scratch", "sandbox"] {
            std::fs::create_dir_all(top.join(dir)).unwrap();
        }
        std::fs::write(top.join("outside/file"), "outside\n").unwrap();
        let names = [("local.test", "127.0.0.1"), ("meta.test", "169.254.169.254")];
        let names = names.map(|(name, ip)| (name.to_owned(), ip.parse().unwrap())).into();
        let sandbox = Sandbox::open(SandboxConfig {
            helper: PathBuf::from(env!("CARGO_BIN_EXE_haft-sandbox-helper")),
            session: String::from("test"),
            state: top.join("sandbox"),
            bubblewrap: std::env::var_os("HAFT_BWRAP").map(PathBuf::from),
            without: features.to_owned(),
            lookup: Arc::new(Names(names)),
        });
        Self { rig, top, sandbox: sandbox.unwrap() }
    }

    fn work(&self) -> PathBuf {
        self.rig.work()
    }

    /// The default policy without `/tmp`, in which the tests run.
    fn policy(&self) -> SandboxPolicy {
        let mut policy = WorkspacePolicy {
            roots: &[self.work()],
            scratch: &self.top.join("scratch"),
            home: None,
            write: &[],
            protect: &[],
            hide: &[],
        }
        .policy(Network::Off);
        policy.write.retain(|it| it.starts_with(&self.top));
        policy
    }

    fn confine(&self, policy: SandboxPolicy) -> Arc<Confinement> {
        self.sandbox.confine(policy, SandboxStrictness::BestEffort).unwrap()
    }

    async fn run_with(&self, walls: &Arc<Confinement>, command: &str) -> (Job, Arc<JobEnd>) {
        let mut spec = self.rig.spec(command);
        spec.confinement = Some(Arc::clone(walls));
        let job = self.rig.shell.start(spec).unwrap();
        let end = job.ended().await;
        (job, end)
    }

    async fn run(&self, policy: SandboxPolicy, command: &str) -> (Job, Arc<JobEnd>) {
        self.run_with(&self.confine(policy), command).await
    }

    async fn text(&self, policy: SandboxPolicy, command: &str) -> String {
        text(&self.run(policy, command).await.0)
    }

    /// All names and contents below a directory, except the sandbox's own files.
    fn everything(&self, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        let mut open = vec![self.top.join(below)];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                let mode = entry.metadata().unwrap().permissions().mode().to_string().into_bytes();
                if entry.file_type().unwrap().is_dir() {
                    all.insert(path.clone(), mode);
                    open.push(path);
                } else {
                    let content = std::fs::read(&path).unwrap_or_default();
                    all.insert(path, [mode, content].concat());
                }
            }
        }
        all
    }

    /// The protected files of the workspace in these tests.
    fn protected(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let names = [
            ".git/hooks",
            ".git/config",
            ".git/commondir",
            ".claude",
            ".mcp.json",
            ".vscode",
            ".haft",
            ".envrc",
            ".profile",
            "dotfiles/profile",
            ".npmrc",
            ".husky",
        ];
        let names = names.map(|name| self.work().join(name));
        let mut all = self.everything("work");
        all.retain(|path, _| names.iter().any(|name| path.starts_with(name)));
        all
    }

    fn has(&self, backend: SandboxBackend) -> bool {
        let found = self.sandbox.report(&self.policy()).backend;
        if found != Some(backend) {
            eprintln!("SKIPPED: this machine has {found:?} and not {backend:?}");
        }
        found == Some(backend)
    }
}
