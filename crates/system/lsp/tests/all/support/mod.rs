//! Starts the test server.

use std::{
    collections::BTreeMap,
    future::Future,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
    pin::Pin,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_lsp::{LaunchedServer, LspProcess, ServerLauncher, ServerPlan};
use serde_json::Value;
use tokio::{
    net::UnixStream,
    process::{Child, Command},
};

/// Starts servers and counts the starts.
#[derive(Default)]
pub(crate) struct Starter {
    pub(crate) started: AtomicUsize,
}

impl ServerLauncher for Starter {
    fn launch(&self, plan: &ServerPlan) -> std::io::Result<LaunchedServer> {
        self.started.fetch_add(1, Ordering::SeqCst);
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let again = OwnedFd::from(theirs.try_clone()?);
        let child = Command::new(&plan.program)
            .args(&plan.args)
            .current_dir(&plan.root)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(again))
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let process = Arc::new(Process { child: tokio::sync::Mutex::new(child) });
        Ok(LaunchedServer { channel: UnixStream::from_std(ours)?, process })
    }
}

struct Process {
    child: tokio::sync::Mutex<Child>,
}

impl LspProcess for Process {
    fn ended(&self) -> Pin<Box<dyn Future<Output = String> + Send + '_>> {
        Box::pin(async {
            let status = self.child.lock().await.wait().await;
            format!("it ended with {:?}", status.ok().and_then(|it| it.code()))
        })
    }

    fn errors(&self) -> String {
        String::new()
    }

    fn stop(&self) {
        if let Ok(mut child) = self.child.try_lock() {
            child.start_kill().ok();
        }
    }
}

/// The plan for the test server.
pub(crate) fn plan(root: &Path, words: &[&str]) -> ServerPlan {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/support/fake_server.py");
    let mut args = vec![script.display().to_string()];
    args.extend(words.iter().map(|it| (*it).to_owned()));
    ServerPlan {
        name: String::from("fake"),
        program: PathBuf::from("/usr/bin/env"),
        args: std::iter::once(String::from("python3")).chain(args).collect(),
        root: root.to_owned(),
        language: String::from("text"),
        env: BTreeMap::new(),
        initialization_options: Value::Null,
        settings: Value::Null,
        startup: Duration::from_secs(120),
        most_ends: 3,
    }
}
