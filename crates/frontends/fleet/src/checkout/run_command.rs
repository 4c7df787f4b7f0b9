//! Programs a worker runs around a session: git, tar, setups, checks.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
    process::Stdio,
    time::Duration,
};

use haft_types::EnvVars;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::sync::CancellationToken;

/// How a command ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ShellExit {
    /// Exit code; `None` if it was killed.
    pub(crate) code: Option<i32>,
    /// The end of its output.
    pub(crate) output: String,
    /// Why it was killed, if it was.
    pub(crate) ended: Option<String>,
}

/// Maximum bytes of output that are kept.
const MAX_OUTPUT: usize = 256 << 10;

/// Runs a shell command of a job in its own process group, which is killed with it. Output is passed on
/// while it runs.
pub(crate) async fn run_command(
    command: &str,
    dir: &Path,
    variables: &EnvVars,
    limit: Duration,
    cancel: &CancellationToken,
    mut tell: impl FnMut(&str) + Send,
) -> Result<ShellExit, String> {
    let mut line = tokio::process::Command::new("/bin/sh");
    line.args(["-c", command]).current_dir(dir).env_clear();
    line.envs(variables.inherited());
    line.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = line.spawn().map_err(|err| format!("{command}: {err}"))?;
    let group = ProcessGroupGuard(child.id());
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let mut end = ShellExit::default();
    let mut text = Vec::new();
    let deadline = tokio::time::sleep(limit);
    tokio::pin!(deadline);
    while out.is_some() || err.is_some() {
        let piece = tokio::select! {
            piece = read_some(&mut out) => piece,
            piece = read_some(&mut err) => piece,
            () = &mut deadline => {
                end.ended = Some(format!("it took longer than {} s", limit.as_secs()));
                break;
            }
            () = cancel.cancelled() => {
                end.ended = Some(String::from("it was cancelled"));
                break;
            }
        };
        tell(&String::from_utf8_lossy(&piece));
        text.extend_from_slice(&piece);
        if MAX_OUTPUT * 2 < text.len() {
            text.drain(..text.len() - MAX_OUTPUT);
        }
    }
    if end.ended.is_some() {
        group.kill();
    }
    let status = child.wait().await.map_err(|err| format!("{command}: {err}"))?;
    end.code = status.code().filter(|_| end.ended.is_none());
    let from = text.len().saturating_sub(MAX_OUTPUT);
    end.output = String::from_utf8_lossy(&text[from..]).into_owned();
    Ok(end)
}

/// Kills a process group on drop.
struct ProcessGroupGuard(Option<u32>);

impl ProcessGroupGuard {
    fn kill(&self) {
        let pid = self.0.and_then(|it| i32::try_from(it).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            rustix::process::kill_process_group(pid, rustix::process::Signal::KILL).ok();
        }
    }
}

impl Drop for ProcessGroupGuard {
    fn drop(&mut self) {
        self.kill();
    }
}

async fn read_some(stream: &mut Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let Some(reader) = stream else { return std::future::pending().await };
    let mut piece = vec![0; 8 << 10];
    match reader.read(&mut piece).await {
        Ok(0) | Err(_) => {
            *stream = None;
            Vec::new()
        }
        Ok(length) => {
            piece.truncate(length);
            piece
        }
    }
}

/// A git command that never prompts and runs no code of the repository.
#[derive(Debug)]
pub(crate) struct FleetGit {
    dir: std::path::PathBuf,
    arguments: Vec<OsString>,
    variables: Vec<(String, OsString)>,
    input: Option<Vec<u8>>,
}

/// Timeout of git; long, for first clones of large repositories.
const GIT_LIMIT: Duration = Duration::from_secs(1_800);

impl FleetGit {
    /// Creates a git command for a directory.
    pub(crate) fn new<T: AsRef<OsStr>>(dir: &Path, arguments: impl IntoIterator<Item = T>) -> Self {
        let arguments = arguments.into_iter().map(|it| it.as_ref().to_owned()).collect();
        Self { dir: dir.to_owned(), arguments, variables: Vec::new(), input: None }
    }

    /// Sets an environment variable.
    pub(crate) fn with(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Sets the standard input.
    pub(crate) fn input(mut self, bytes: Vec<u8>) -> Self {
        self.input = Some(bytes);
        self
    }

    /// Runs it; returns its standard output.
    pub(crate) async fn run(self) -> Result<Vec<u8>, String> {
        let mut line = tokio::process::Command::new("git");
        line.args([
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "protocol.ext.allow=never",
            "-c",
            "core.fsmonitor=false",
        ]);
        line.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.detachedHead=false"]);
        line.args(&self.arguments).current_dir(&self.dir);
        line.env("GIT_TERMINAL_PROMPT", "0").env("GIT_OPTIONAL_LOCKS", "0").env("LC_ALL", "C");
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            line.env_remove(name);
        }
        line.envs(self.variables);
        line.stdin(if self.input.is_some() { Stdio::piped() } else { Stdio::null() });
        line.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).process_group(0);
        let mut child = line.spawn().map_err(|err| format!("git cannot be started: {err}"))?;
        let _group = ProcessGroupGuard(child.id());
        if let (Some(input), Some(mut stdin)) = (self.input, child.stdin.take()) {
            tokio::spawn(async move {
                use tokio::io::AsyncWriteExt as _;
                stdin.write_all(&input).await.ok();
            });
        }
        let words: Vec<_> = self.arguments.iter().map(|it| it.to_string_lossy()).collect();
        let what = haft_types::text::one_line(&words.join(" "), 120);
        match tokio::time::timeout(GIT_LIMIT, child.wait_with_output()).await {
            Err(_) => Err(format!("git {what}: it took longer than {} s", GIT_LIMIT.as_secs())),
            Ok(Err(err)) => Err(format!("git {what}: {err}")),
            Ok(Ok(output)) if output.status.success() => Ok(output.stdout),
            Ok(Ok(output)) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(format!("git {what}: {}", haft_types::text::one_line(said.trim(), 500)))
            }
        }
    }

    /// Like [`run`](Self::run), trimmed to text.
    pub(crate) async fn text(self) -> Result<String, String> {
        Ok(String::from_utf8_lossy(&self.run().await?).trim().to_owned())
    }
}
