use std::{io, os::unix::process::ExitStatusExt, sync::Arc, time::Duration};

use bytes::Bytes;
use haft_process::ProcessOwner;
use tokio::{
    io::AsyncWriteExt,
    process::{ChildStderr, ChildStdin, ChildStdout, Command},
    time::Instant,
};

use crate::{
    process_group::{HookGroup, HookName, HookPipes, HookStragglers},
    stream_capture::{CapturedText, StreamCapture},
};

/// The most of a hook's standard output that can be an answer: the input of a
/// tool that writes a large file fits.
const OUTPUT_LIMIT: usize = 8 * 1024 * 1024;
/// The most of its standard error that is kept.
const ERROR_LIMIT: usize = 256 * 1024;

/// A hook's process, its pipes and what came out of them so far.
#[derive(Debug)]
pub(crate) struct RunningHook {
    group: HookGroup,
    feed: StdinFeed,
    stdout: StreamCapture<ChildStdout>,
    stderr: StreamCapture<ChildStderr>,
}

/// What the hook is told, and how much of it is in the pipe.
#[derive(Debug)]
struct StdinFeed {
    stdin: Option<ChildStdin>,
    input: Bytes,
}

/// How a hook's process ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum HookEnd {
    Status(i32),
    Signal(i32),
    TimedOut,
}

/// What is known when the process has ended.
#[derive(Debug)]
pub(crate) struct EndedProcess {
    pub(crate) end: HookEnd,
    pub(crate) stdout: CapturedText,
    pub(crate) stderr: CapturedText,
    /// What it left running.
    pub(crate) leftover: Option<HookStragglers>,
}

/// Whether a hook that announces to go on in the background may.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Announcement {
    Watch,
    Ignore,
}

/// Why waiting ended.
pub(crate) enum Waited {
    Ended(EndedProcess),
    /// The hook has said that it goes on in the background.
    Announced(Box<RunningHook>, Option<Duration>),
}

impl RunningHook {
    /// Starts a hook. `input` is fed to it while we wait.
    pub(crate) fn start(
        owner: &Arc<ProcessOwner>,
        name: HookName<'_>,
        command: Command,
        input: Bytes,
    ) -> io::Result<Self> {
        let (group, HookPipes { stdin, stdout, stderr }) = HookGroup::spawn(owner, name, command)?;
        Ok(Self {
            group,
            feed: StdinFeed { stdin: Some(stdin), input },
            stdout: StreamCapture::new(stdout, OUTPUT_LIMIT),
            stderr: StreamCapture::new(stderr, ERROR_LIMIT),
        })
    }

    /// Waits until the hook has ended or its time is up. When this future is
    /// dropped, so is everything the hook started.
    pub(crate) async fn wait(mut self, deadline: Instant, announcement: Announcement) -> Waited {
        let mut watching = announcement == Announcement::Watch;
        let timed_out = loop {
            tokio::select! {
                biased;
                () = self.group.exited() => break false,
                () = tokio::time::sleep_until(deadline) => break true,
                () = self.feed.some() => (),
                () = self.stderr.read_some(), if self.stderr.is_open() => (),
                () = self.stdout.read_some(), if self.stdout.is_open() => {
                    if !watching {
                        continue;
                    }
                    match first_line(self.stdout.kept()) {
                        FirstLine::Unfinished => (),
                        FirstLine::Nothing => watching = false,
                        FirstLine::Announces(timeout) => {
                            return Waited::Announced(Box::new(self), timeout);
                        }
                    }
                }
            }
        };
        Waited::Ended(if timed_out { self.cut_off().await } else { self.conclude().await })
    }

    async fn cut_off(mut self) -> EndedProcess {
        self.group.stop().await;
        self.finish(HookEnd::TimedOut)
    }

    async fn conclude(mut self) -> EndedProcess {
        let end = match self.group.reap().await {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => HookEnd::Status(code),
                (None, signal) => HookEnd::Signal(signal.unwrap_or_default()),
            },
            // Nobody can say how it ended: that is a crash.
            Err(_) => HookEnd::Signal(0),
        };
        self.finish(end)
    }

    fn finish(mut self, end: HookEnd) -> EndedProcess {
        self.stdout.take_what_is_there();
        self.stderr.take_what_is_there();
        let (stdout, stderr) = (self.stdout.text(), self.stderr.text());
        let leftover = self.group.into_leftover();
        EndedProcess { end, stdout, stderr, leftover }
    }
}

impl StdinFeed {
    /// Writes some more, and closes the pipe at the end. A hook that does not
    /// read is its own affair: nothing waits for this.
    async fn some(&mut self) {
        let Some(stdin) = &mut self.stdin else { return std::future::pending().await };
        match stdin.write(&self.input).await {
            Ok(written) if written < self.input.len() => self.input = self.input.slice(written..),
            // Everything is written, or the hook has closed its end.
            Ok(_) | Err(_) => self.stdin = None,
        }
    }
}

enum FirstLine {
    Unfinished,
    Nothing,
    Announces(Option<Duration>),
}

/// Looks for `{"async": true}` on the first line, which is never long.
fn first_line(output: &[u8]) -> FirstLine {
    const LONGEST: usize = 4096;
    match output.iter().take(LONGEST).position(|byte| *byte == b'\n') {
        Some(end) => announced(&output[..end]).map_or(FirstLine::Nothing, FirstLine::Announces),
        None if output.len() < LONGEST => FirstLine::Unfinished,
        None => FirstLine::Nothing,
    }
}

/// The time an announcement asks for, if the line is one.
fn announced(line: &[u8]) -> Option<Option<Duration>> {
    let answer: serde_json::Value = serde_json::from_slice(line).ok()?;
    if answer.get("async") != Some(&serde_json::Value::Bool(true)) {
        return None;
    }
    let milliseconds = answer.get("asyncTimeout").and_then(serde_json::Value::as_f64);
    Some(milliseconds.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()))
}
