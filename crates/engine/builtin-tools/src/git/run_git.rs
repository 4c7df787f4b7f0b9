//! Runs git command lines like commands of the session: same environment, process ownership and sandbox.

use std::{
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt as _, net::UnixStream as StdUnixStream},
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_git::{RepositoryConfig, facts_line, parse_facts, quoted, variables};
use haft_shell::{
    output::{Mark, OutputView},
    own::Lifetime,
    run::{Exit, Job, JobSpec, Shell, Stop, TerminalMode},
};
use haft_tool::{ToolContext, ToolError};
use tokio::{io::AsyncReadExt as _, net::UnixStream};

use super::{GitProgress, signing::SignatureWatch};
use crate::bash::{CommandConfiner, ConfinedCommand, OutsideSandbox};

/// Environment variables that redirect git to another repository or configuration; they are unset.
const POINTERS: &str = "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY \
    GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_CONFIG GIT_EXTERNAL_DIFF \
    GIT_NAMESPACE GIT_COMMON_DIR GIT_PREFIX GIT_ATTR_SOURCE";

/// Timeout of a command that only reads.
pub(super) const READS: Duration = Duration::from_secs(60);
/// Interval of checks whether git waits for a signature.
const SIGNATURE_LOOKS: Duration = Duration::from_millis(250);
/// Maximum bytes of output; then git is stopped.
pub(super) const MOST: usize = 8 << 20;

/// Runs git in one directory for one call.
pub(super) struct GitRun<'a> {
    pub(super) shell: &'a Arc<Shell>,
    pub(super) confine: &'a Arc<dyn CommandConfiner>,
    pub(super) cx: &'a ToolContext<GitProgress>,
    pub(super) dir: PathBuf,
    /// The user's ssh command.
    pub(super) ssh: Option<String>,
}

/// Output and exit of a command.
#[derive(Debug)]
pub(super) struct GitRunResult {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    /// Whether the command was stopped because it printed more than the limit. Counts as success.
    pub(super) cut: bool,
    pub(super) timed_out: bool,
    /// Whether the command was stopped because a signature took too long.
    pub(super) signature_waited: bool,
}

impl GitRunResult {
    pub(super) fn is_success(&self) -> bool {
        self.code == Some(0) || self.cut
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// Limits of a command.
#[derive(Clone, Copy, Debug)]
pub(super) struct GitRunLimits {
    pub(super) patience: Duration,
    pub(super) most: usize,
    /// Whether git may take optional locks, for example to refresh the index.
    pub(super) locks: bool,
    /// Timeout of one signature; `None` if the command signs nothing.
    pub(super) signature: Option<Duration>,
}

impl GitRunLimits {
    pub(super) const READING: Self = Self { patience: READS, most: MOST, locks: false, signature: None };

    pub(super) const fn changing(patience: Duration) -> Self {
        Self { patience, most: MOST, locks: true, signature: None }
    }
}

impl GitRun<'_> {
    /// Finds the repository and its configuration. An error explains why there is none.
    pub(super) async fn facts(&self) -> Result<RepositoryConfig, ToolError> {
        let ran = self.run(&facts_line(), GitRunLimits::READING).await?;
        if let Some(facts) = parse_facts(&ran.stdout).filter(|_| ran.is_success()) {
            let (top, git_dir) = (facts.top.clone(), facts.git_dir.clone());
            let astray = tokio::task::spawn_blocking(move || top.filter(|it| !leads_back(it, &git_dir)));
            return match astray.await.unwrap_or_default() {
                Some(top) => Err(ToolError::failed(format!(
                    "The repository of {} says that its files are in {}, which knows nothing of it (core.worktree). \
                     Git is not run there: it would show and change files that are not of this repository. If the \
                     person wants that, they can run git in a shell.",
                    self.dir.display(),
                    top.display()
                ))),
                None => Ok(facts),
            };
        }
        let said = ran.stderr.trim();
        let dir = self.dir.display();
        Err(ToolError::failed(match () {
            () if said.contains("dubious ownership") => format!(
                "{dir} belongs to another user, so git refuses it. If the person trusts it, they can run: git config --global --add safe.directory {}",
                quoted(&self.dir.to_string_lossy())
            ),
            () if said.contains("not a git repository") => {
                format!("{dir} is in no git repository. Give dir, or make one with Bash (git init).")
            }
            () if said.contains("command not found") || ran.code == Some(127) => {
                String::from("There is no git on this machine, or not on the PATH.")
            }
            () => format!("git cannot work in {dir}: {}", haft_types::text::head(said, 2_000)),
        }))
    }

    /// Starts a command.
    async fn begin(&self, line: &str, bounds: GitRunLimits) -> Result<RunningGit, ToolError> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let command = format!(
            "unset {POINTERS}; ssh={}; export GIT_SSH_COMMAND=\"${{GIT_SSH_COMMAND:-$ssh}} -oBatchMode=yes\"; {{ {line}; }} >&3 3>&-",
            quoted(self.ssh.as_deref().unwrap_or("ssh"))
        );
        let about = ConfinedCommand {
            command: line,
            cwd: &self.dir,
            agent: &self.cx.agent_id,
            outside: OutsideSandbox::No,
            permit: self.cx.permit(),
        };
        let (confinement, reading) = self.confine.choose(&about).held()?;
        let scratch = confinement.as_ref().and_then(|it| it.policy().scratch.clone());
        let signature = match bounds.signature {
            Some(limit) => {
                let dir = scratch.unwrap_or_else(std::env::temp_dir);
                let watch = blocking(move || SignatureWatch::in_directory(&dir)).await.flatten();
                watch.map(|watch| (watch, limit))
            }
            None => None,
        };
        let mut variables = variables();
        variables.extend(signature.iter().flat_map(|(watch, _)| watch.variables()));
        if !bounds.locks {
            variables.push((String::from("GIT_OPTIONAL_LOCKS"), String::from("0")));
        }
        let job = self.shell.start(JobSpec {
            call: self.cx.call_id.clone(),
            agent: self.cx.agent_id.clone(),
            command,
            cwd: self.dir.clone(),
            limit: bounds.patience,
            variables,
            lifetime: Lifetime::Session,
            confinement,
            reading,
            precious: Vec::new(),
            channel: Some(Arc::new(OwnedFd::from(theirs))),
            terminal: TerminalMode::None,
        })?;
        Ok(RunningGit { job, channel: UnixStream::from_std(ours)?, signature })
    }

    /// Runs a command until it exits, has printed enough, or exceeds a limit.
    pub(super) async fn run(&self, line: &str, bounds: GitRunLimits) -> Result<GitRunResult, ToolError> {
        let RunningGit { job, mut channel, mut signature } = self.begin(line, bounds).await?;
        let (mut stdout, mut cut, mut signature_waited) = (Vec::new(), false, false);
        let mut buf = vec![0; 64 << 10];
        let end = loop {
            tokio::select! {
                read = channel.read(&mut buf) => match read {
                    Ok(len) if len != 0 => {
                        stdout.extend_from_slice(&buf[..len]);
                        if bounds.most <= stdout.len() {
                            cut = true;
                            job.stop(Stop::Asked);
                            break job.ended().await;
                        }
                    }
                    _ => break job.ended().await,
                },
                end = job.ended() => break end,
                () = tokio::time::sleep(SIGNATURE_LOOKS), if signature.is_some() => {
                    let Some((mut watch, limit)) = signature.take() else { continue };
                    let looked = blocking(move || (watch.waits(Instant::now()), watch)).await;
                    if let Some((waits, watch)) = looked {
                        signature_waited = waits.is_some_and(|it| limit <= it);
                        if signature_waited {
                            job.stop(Stop::Asked);
                            break job.ended().await;
                        }
                        signature = Some((watch, limit));
                    }
                }
                () = self.cx.cancel.cancelled() => {
                    job.stop(Stop::Interrupted);
                    job.ended().await;
                    return Err(ToolError::failed("Interrupted while git was running"));
                }
            }
        };
        // After the exit, the last output may not have been reported to the async runtime yet.
        let mut channel = channel.into_std()?;
        while let Ok(len @ 1..) = std::io::Read::read(&mut channel, &mut buf) {
            stdout.extend_from_slice(&buf[..len]);
            if bounds.most <= stdout.len() {
                break;
            }
        }
        job.flush().await;
        let stderr = job.read(OutputView { limit: 16_000, from: Mark::default() }).text;
        let code = match &end.exit {
            Exit::Code(code) => Some(*code),
            _ => None,
        };
        let timed_out = end.stopped.is_some() && !cut;
        Ok(GitRunResult { code, stdout, stderr, cut, timed_out, signature_waited })
    }
}

/// A running command.
struct RunningGit {
    job: Job,
    /// Its output.
    channel: UnixStream,
    /// Detects that it waits for a signature, with the timeout.
    signature: Option<(SignatureWatch, Duration)>,
}

/// Runs blocking work on a thread of its own; `None` if it panics.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// Whether the `.git` of the working tree is this git directory or refers to it. If not, `core.worktree`
/// points to a foreign directory.
fn leads_back(top: &Path, git_dir: &Path) -> bool {
    let dot = top.join(".git");
    let same = |one: &Path| matches!((one.canonicalize(), git_dir.canonicalize()), (Ok(a), Ok(b)) if a == b);
    match std::fs::metadata(&dot) {
        Ok(about) if about.is_dir() => same(&dot),
        Ok(about) if about.is_file() && about.len() < 8 << 10 => {
            let text = std::fs::read(&dot).unwrap_or_default();
            let place = text.strip_prefix(b"gitdir: ").map(|it| it.trim_ascii_end().to_vec());
            let place = place.map(|it| top.join(std::ffi::OsString::from_vec(it)));
            place.is_some_and(|it| same(&it))
        }
        _ => false,
    }
}

/// Returns the directory a call refers to.
pub(super) fn directory(dir: Option<&str>, cwd: &Path, home: Option<&Path>) -> PathBuf {
    match dir {
        None => cwd.to_owned(),
        Some(dir) => match (dir.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => haft_paths::lexical(&cwd.join(dir)),
        },
    }
}
