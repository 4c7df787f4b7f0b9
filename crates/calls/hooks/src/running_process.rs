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

/// Maximum bytes of standard output; large enough for the input of a tool that writes a large file.
const OUTPUT_LIMIT: usize = 8 * 1024 * 1024;
/// Maximum bytes kept of standard error.
const ERROR_LIMIT: usize = 256 * 1024;

/// A hook's process with its pipes and the output so far.
#[derive(Debug)]
pub(crate) struct RunningHook {
    group: HookGroup,
    feed: StdinFeed,
    stdout: StreamCapture<ChildStdout>,
    stderr: StreamCapture<ChildStderr>,
}

/// The input and how much of it was written.
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

/// Result of a process.
#[derive(Debug)]
pub(crate) struct EndedProcess {
    pub(crate) end: HookEnd,
    pub(crate) stdout: CapturedText,
    pub(crate) stderr: CapturedText,
    /// Processes it left running.
    pub(crate) leftover: Option<HookStragglers>,
}

/// Whether a hook may announce that it continues in the background.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Announcement {
    Watch,
    Ignore,
}

/// Result of waiting.
pub(crate) enum Waited {
    Ended(EndedProcess),
    /// The hook announced that it continues in the background.
    Announced(Box<RunningHook>, Option<Duration>),
}

impl RunningHook {
    /// Starts a hook. `input` is written while waiting.
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

    /// Waits until the hook has exited or `deadline` has passed. Dropping the future kills the hook's
    /// processes.
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
            // Unknown exit status: treat it as a crash.
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
    /// Writes part of the input; closes the pipe at the end. Nothing waits for a hook that does not
    /// read.
    async fn some(&mut self) {
        let Some(stdin) = &mut self.stdin else { return std::future::pending().await };
        match stdin.write(&self.input).await {
            Ok(written) if written < self.input.len() => self.input = self.input.slice(written..),
            // All input was written, or the hook closed the pipe.
            Ok(_) | Err(_) => self.stdin = None,
        }
    }
}

enum FirstLine {
    Unfinished,
    Nothing,
    Announces(Option<Duration>),
}

/// Looks for `{"async": true}` on the first line, which is short.
fn first_line(output: &[u8]) -> FirstLine {
    const LONGEST: usize = 4096;
    match output.iter().take(LONGEST).position(|byte| *byte == b'\n') {
        Some(end) => announced(&output[..end]).map_or(FirstLine::Nothing, FirstLine::Announces),
        None if output.len() < LONGEST => FirstLine::Unfinished,
        None => FirstLine::Nothing,
    }
}

/// The announced timeout, if the line is an announcement.
fn announced(line: &[u8]) -> Option<Option<Duration>> {
    let answer: serde_json::Value = serde_json::from_slice(line).ok()?;
    if answer.get("async") != Some(&serde_json::Value::Bool(true)) {
        return None;
    }
    let milliseconds = answer.get("asyncTimeout").and_then(serde_json::Value::as_f64);
    Some(milliseconds.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok()))
}
