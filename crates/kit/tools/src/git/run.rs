//! Runs lines of git the way commands of the session run: with its environment,
//! owned, behind its walls.

use std::{
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_git::{RepositoryFacts, facts_line, parse_facts, quoted, variables};
use haft_shell::{
    output::{Mark, View},
    own::Lifetime,
    run::{Exit, Shell, Spec, Stop, Terminal},
};
use haft_tool::{ToolContext, ToolError};
use tokio::{io::AsyncReadExt as _, net::UnixStream};

use super::GitProgress;
use crate::bash::{Confine, Confined, Outside};

/// Where git of the surroundings could be pointed to; none of it counts here.
const POINTERS: &str = "GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY \
    GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_CONFIG_PARAMETERS GIT_CONFIG_COUNT GIT_CONFIG GIT_EXTERNAL_DIFF \
    GIT_NAMESPACE GIT_COMMON_DIR GIT_PREFIX GIT_ATTR_SOURCE";

/// How long a reading line may take.
pub(super) const READS: Duration = Duration::from_secs(60);
/// How much of what a line prints is taken.
pub(super) const MOST: usize = 8 << 20;

/// Runs lines in one directory for one call.
pub(super) struct GitRun<'a> {
    pub(super) shell: &'a Arc<Shell>,
    pub(super) confine: &'a Arc<dyn Confine>,
    pub(super) cx: &'a ToolContext<GitProgress>,
    pub(super) dir: PathBuf,
}

/// What a line printed and how it ended.
#[derive(Debug)]
pub(super) struct GitRan {
    pub(super) code: Option<i32>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    /// Whether it printed more than was wanted and was ended for that.
    pub(super) cut: bool,
    pub(super) timed_out: bool,
}

impl GitRan {
    pub(super) fn is_success(&self) -> bool {
        self.code == Some(0) || self.cut
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
}

/// How a line is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) patience: Duration,
    pub(super) most: usize,
    /// Whether git may write down what it found out about files.
    pub(super) locks: bool,
}

impl Bounds {
    pub(super) const READING: Self = Self { patience: READS, most: MOST, locks: false };

    pub(super) const fn changing(patience: Duration) -> Self {
        Self { patience, most: MOST, locks: true }
    }
}

impl GitRun<'_> {
    /// Where the repository is; an error where there is none.
    pub(super) async fn facts(&self) -> Result<RepositoryFacts, ToolError> {
        let ran = self.run(&facts_line(), Bounds::READING).await?;
        if let Some(facts) = parse_facts(&ran.stdout).filter(|_| ran.is_success()) {
            return Ok(facts);
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

    /// Runs a line to its end, or until it printed enough.
    pub(super) async fn run(&self, line: &str, bounds: Bounds) -> Result<GitRan, ToolError> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let command = format!(
            "unset {POINTERS}; export GIT_SSH_COMMAND=\"${{GIT_SSH_COMMAND:-ssh}} -oBatchMode=yes\"; {{ {line}; }} >&3 3>&-"
        );
        let about = Confined {
            command: line,
            cwd: &self.dir,
            agent: &self.cx.agent_id,
            outside: Outside::No,
            permit: self.cx.permit(),
        };
        let (confinement, reading) = self.confine.choose(&about).held()?;
        let mut variables = variables();
        if !bounds.locks {
            variables.push((String::from("GIT_OPTIONAL_LOCKS"), String::from("0")));
        }
        let job = self.shell.start(Spec {
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
            terminal: Terminal::None,
        })?;
        let mut channel = UnixStream::from_std(ours)?;
        let (mut stdout, mut cut) = (Vec::new(), false);
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
                () = self.cx.cancel.cancelled() => {
                    job.stop(Stop::Interrupted);
                    job.ended().await;
                    return Err(ToolError::failed("Interrupted while git was running"));
                }
            }
        };
        // What was printed at the very end is still on its way.
        while let Ok(len) = channel.try_read(&mut buf) {
            if len == 0 || bounds.most <= stdout.len() {
                break;
            }
            stdout.extend_from_slice(&buf[..len]);
        }
        job.flush().await;
        let stderr = job.read(View { limit: 16_000, from: Mark::default() }).text;
        let code = match &end.exit {
            Exit::Code(code) => Some(*code),
            _ => None,
        };
        let timed_out = end.stopped.is_some() && !cut;
        Ok(GitRan { code, stdout, stderr, cut, timed_out })
    }
}

/// The directory a call is about.
pub(super) fn directory(dir: Option<&str>, cwd: &Path, home: Option<&Path>) -> PathBuf {
    match dir {
        None => cwd.to_owned(),
        Some(dir) => match (dir.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => haft_paths::lexical(&cwd.join(dir)),
        },
    }
}
