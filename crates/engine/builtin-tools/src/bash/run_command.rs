//! Runs one command and formats its result.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_bash_analysis::SharedAnalysis;
use haft_command_undo::{OPAQUE, PendingCommand, UndoCoverage};
use haft_shell::{
    output::Mark,
    own::Lifetime,
    run::{Exit, FinalCwd, Job, JobEnd, JobSpec, Stop, TaskAbout, TaskKind, TerminalMode},
};
use haft_tool::{CallEffect, ContextChange, ErrorKind, Outcome, ToolContext, ToolError};

use super::{
    Bash,
    bash_settings::{BackgroundPolicy, CwdPersistence, OnTimeout},
    input::{Input, Output, Progress},
    ports::{ConfinedBy, ConfinedCommand, OutsideSandbox},
    result_text,
};

/// Interval of progress updates.
const GLANCE: Duration = Duration::from_millis(200);
/// How long to wait for the sandbox of a command to be removed.
const SETTLING: Duration = Duration::from_secs(1);
/// A program counts as waiting for input after this long without output.
const PAUSE: Duration = Duration::from_millis(400);
/// Maximum time until an interactive program's first pause; then the call returns.
const ASKS_SOON: Duration = Duration::from_secs(10);
/// Environment variables that make programs prompt.
const ASKING: [(&str, &str); 4] = [
    ("DEBIAN_FRONTEND", "readline"),
    ("GCM_INTERACTIVE", "auto"),
    ("GIT_TERMINAL_PROMPT", "1"),
    ("PIP_NO_INPUT", "0"),
];
/// Number of output lines in a progress update.
const TAIL: usize = 5;

pub(crate) struct BashRun<'a> {
    pub(crate) bash: &'a Bash,
    pub(crate) input: &'a Input,
    pub(crate) cx: &'a ToolContext<Progress>,
}

/// Why waiting for a command ended.
enum CommandWait {
    Ended(Arc<JobEnd>),
    TimeIsUp,
    SentAway,
}

/// Why a command continues in the background.
#[derive(Clone, Copy)]
enum DetachReason {
    /// The call asked for it, or the user moved the command to the background.
    Asked,
    /// The command exceeded this timeout.
    TimedOut(Duration),
    /// The command has a terminal and waits for input.
    Asks,
}

/// Where a command runs, with a note if that is not the current directory.
struct RunStart {
    dir: PathBuf,
    /// Analysis of the command line for this directory.
    reading: Arc<SharedAnalysis>,
    note: Option<String>,
}

impl BashRun<'_> {
    pub(crate) async fn run(self) -> Result<Outcome<Output>, ToolError> {
        let start = self.start()?;
        let background = self.input.run_in_background == Some(true);
        let goes_on = background || self.is_interactive();
        if goes_on && self.bash.settings.background == BackgroundPolicy::Disabled {
            return Err(ToolError::invalid(
                "Background commands are switched off. Run it without run_in_background and interactive",
            ));
        }
        self.refuse_removal(&start.reading)?;
        let limit = self.limit(goes_on);
        // The input typed later is unknown.
        let reads_only = !self.is_interactive() && self.bash.facts.is_read_only(&start.reading);
        let about = PendingCommand {
            call: &self.cx.call_id,
            tool: "Bash",
            command: if self.is_interactive() { OPAQUE } else { &self.input.command },
            cwd: &start.dir,
            reading: (!self.is_interactive()).then_some(&start.reading),
            reads_only,
        };
        let walls = self.walls(&start)?;
        let coverage = self.bash.snapshots.before(about).await?;
        if let UndoCoverage::Partial(what) = &coverage {
            // Reported before the command runs, while the user can still stop it.
            self.cx.progress(&Progress { elapsed_ms: 0, bytes: 0, lines: 0, tail: vec![what.clone()] });
        }
        let job = self.bash.tasks.shell().start(self.spec(&start, limit, walls))?;
        let mut notes: Vec<String> = start.note.iter().cloned().collect();
        if let UndoCoverage::Partial(what) = coverage {
            notes.push(what);
        }
        notes.extend(self.bash.tasks.shell().take_notices());
        if self.is_interactive() {
            return self.until_it_asks(&job, &start, limit, notes).await;
        }
        if background {
            return Ok(self.in_background(&job, &start, notes, DetachReason::Asked));
        }
        let waited = self.wait(&job, limit).await;
        match waited {
            CommandWait::Ended(end) => self.ended(&job, &end, &start, limit, notes).await,
            CommandWait::TimeIsUp => {
                Ok(self.in_background(&job, &start, notes, DetachReason::TimedOut(limit)))
            }
            CommandWait::SentAway => {
                let mut outcome = self.in_background(&job, &start, notes, DetachReason::Asked);
                outcome.data.backgrounded_by_user = true;
                Ok(outcome)
            }
        }
    }

    /// The current directory may have been deleted; then the command runs in the workspace.
    fn start(&self) -> Result<RunStart, ToolError> {
        let cwd = self.cx.cwd.as_ref();
        if cwd.is_dir() {
            let reading = Arc::clone(self.bash.reading(self.input));
            return Ok(RunStart { dir: cwd.to_owned(), reading, note: None });
        }
        let dir = self.fallback()?;
        let note = format!("the directory {} is gone; this ran in {}", cwd.display(), dir.display());
        let reading = self.bash.facts.read(&self.input.command, &dir);
        Ok(RunStart { note: Some(note), reading, dir })
    }

    fn fallback(&self) -> Result<PathBuf, ToolError> {
        let roots = self.bash.workspace.roots();
        roots.into_iter().find(|root| root.is_dir()).ok_or_else(|| {
            ToolError::failed("No directory of the workspace is there any more, so nothing can run")
        })
    }

    fn limit(&self, background: bool) -> Duration {
        let settings = &self.bash.settings;
        if background {
            settings.background_timeout(self.input.timeout, self.is_main())
        } else {
            settings.timeout(self.input.timeout)
        }
    }

    /// Returns how long the command may run in the background: the requested time if it was started
    /// there, else the default.
    fn life(&self) -> Duration {
        if self.input.run_in_background == Some(true) || self.is_interactive() {
            self.limit(true)
        } else {
            self.bash.settings.background_timeout(None, self.is_main())
        }
    }

    fn is_interactive(&self) -> bool {
        self.input.interactive == Some(true)
    }

    fn is_main(&self) -> bool {
        self.cx.agent_id.is_main()
    }

    /// Rejects a deletion that no mode and no approval permits. The user can do it in their own shell.
    fn refuse_removal(&self, reading: &SharedAnalysis) -> Result<(), ToolError> {
        let refused = self.bash.facts.refused_removal(reading);
        refused.map_or(Ok(()), |path| {
            let message = format!(
                "This would remove {}, which is never done: it is the root of the file system, the home directory, the workspace, or a directory above these. Name what is to go inside of it",
                path.display()
            );
            Err(ToolError::new(ErrorKind::Denied, message))
        })
    }

    fn walls(&self, start: &RunStart) -> Result<ConfinedBy, ToolError> {
        let asked = self.input.dangerously_disable_sandbox == Some(true);
        let about = ConfinedCommand {
            command: &self.input.command,
            cwd: &start.dir,
            agent: &self.cx.agent_id,
            outside: if asked { OutsideSandbox::Agreed } else { OutsideSandbox::No },
            permit: self.cx.permit(),
        };
        self.bash.confine.choose(&about).held()
    }

    /// The shell enforces the longer limit. The foreground timeout is enforced here, because only then
    /// it is decided whether the command may continue.
    fn spec(&self, start: &RunStart, limit: Duration, (confinement, reading): ConfinedBy) -> JobSpec {
        let limit = self.life().max(limit);
        JobSpec {
            call: self.cx.call_id.clone(),
            agent: self.cx.agent_id.clone(),
            command: self.input.command.clone(),
            cwd: start.dir.clone(),
            limit,
            variables: if self.is_interactive() {
                ASKING.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
            } else {
                Vec::new()
            },
            lifetime: if self.input.detach == Some(true) { Lifetime::Detached } else { Lifetime::Session },
            confinement,
            reading,
            precious: self.bash.facts.precious(&start.reading),
            channel: None,
            terminal: if self.is_interactive() { TerminalMode::Own } else { TerminalMode::None },
        }
    }

    /// Whether the command may continue in the background after its timeout.
    fn may_go_on(&self) -> bool {
        let settings = &self.bash.settings;
        let wanted = match settings.on_timeout {
            OnTimeout::Stop => false,
            OnTimeout::GoOn => true,
            OnTimeout::StopIfAsked => self.input.timeout.is_none(),
        };
        wanted
            && settings.background == BackgroundPolicy::Allowed
            && self.bash.facts.may_go_on(self.bash.reading(self.input))
    }

    /// Waits until an interactive command has ended or pauses.
    async fn until_it_asks(
        &self,
        job: &Job,
        start: &RunStart,
        limit: Duration,
        notes: Vec<String>,
    ) -> Result<Outcome<Output>, ToolError> {
        let guard = StopUnlessDone(job);
        tokio::select! {
            () = job.settled(0, PAUSE, ASKS_SOON.min(limit)) => {}
            () = self.cx.cancel.cancelled() => job.stop(Stop::Interrupted),
        }
        let end = if self.cx.cancel.is_cancelled() { Some(job.ended().await) } else { job.end() };
        std::mem::forget(guard);
        match end {
            Some(end) => self.ended(job, &end, start, limit, notes).await,
            None => Ok(self.in_background(job, start, notes, DetachReason::Asks)),
        }
    }

    async fn wait(&self, job: &Job, limit: Duration) -> CommandWait {
        let guard = StopUnlessDone(job);
        let foreground = self.bash.tasks.in_foreground(job);
        let watched = self.report_progress(job);
        let waited = tokio::select! {
            biased;
            end = job.ended() => CommandWait::Ended(end),
            () = self.cx.cancel.cancelled() => {
                job.stop(Stop::Interrupted);
                CommandWait::Ended(job.ended().await)
            }
            () = foreground.moved() => CommandWait::SentAway,
            () = tokio::time::sleep(limit) => self.time_is_up(job).await,
            () = watched => CommandWait::TimeIsUp,
        };
        std::mem::forget(guard);
        waited
    }

    async fn time_is_up(&self, job: &Job) -> CommandWait {
        if self.may_go_on() {
            return CommandWait::TimeIsUp;
        }
        job.stop(Stop::TimedOut);
        CommandWait::Ended(job.ended().await)
    }

    /// Sends progress updates. Never returns.
    async fn report_progress(&self, job: &Job) {
        let mut shown = u64::MAX;
        loop {
            tokio::time::sleep(GLANCE).await;
            let printed = job.printed();
            if !self.cx.progress.is_open() || printed.bytes == shown {
                continue;
            }
            shown = printed.bytes;
            self.cx.progress(&Progress {
                elapsed_ms: millis(job.elapsed()),
                bytes: printed.bytes,
                lines: printed.lines,
                tail: job.recent_lines(TAIL),
            });
        }
    }

    fn in_background(
        &self,
        job: &Job,
        start: &RunStart,
        mut notes: Vec<String>,
        why: DetachReason,
    ) -> Outcome<Output> {
        let file = job.persist().ok();
        let about = TaskAbout {
            kind: TaskKind::Command,
            description: self.input.description.clone().unwrap_or_default(),
            agent: self.cx.agent_id.clone(),
        };
        job.set_limit(self.life());
        let (seen, printed) = match why {
            DetachReason::Asked => (Mark::default(), String::new()),
            DetachReason::TimedOut(_) | DetachReason::Asks => {
                let seen = job.printed();
                (seen, result_text::printed(job, self.bash.settings.shown_chars).stdout)
            }
        };
        let id = self.bash.tasks.adopt(job.clone(), about, seen);
        self.finish_snapshot_later(job);
        let goes_on = result_text::goes_on(&id, file.as_ref());
        notes.insert(0, match why {
            DetachReason::Asked => format!("it runs in the background; {goes_on}"),
            DetachReason::Asks => format!(
                "it waits for an answer or is still at work; TaskInput {id} types at its terminal; {goes_on}"
            ),
            DetachReason::TimedOut(limit) => format!(
                "the command did not complete within its {}s timeout and was moved to the background; {goes_on}",
                limit.as_secs_f64()
            ),
        });
        notes.push(format!(
            "session cwd remains {}; directory changes made by the backgrounded command do not apply to later commands",
            start.dir.display()
        ));
        let output = Output {
            stdout: printed,
            cwd: start.dir.clone(),
            background_task_id: Some(id.clone()),
            background_cwd_hint: Some(start.dir.clone()),
            timed_out_after_ms: match why {
                DetachReason::TimedOut(limit) => Some(millis(limit)),
                DetachReason::Asked | DetachReason::Asks => None,
            },
            duration_ms: millis(job.elapsed()),
            dangerously_disable_sandbox: self.input.dangerously_disable_sandbox,
            notes,
            ..Output::default()
        };
        let command = self.input.command.clone();
        Outcome::from(output).with_trace(CallEffect::BackgroundStarted { id, command })
    }

    fn finish_snapshot_later(&self, job: &Job) {
        let (snapshots, call, job) = (Arc::clone(&self.bash.snapshots), self.cx.call_id.clone(), job.clone());
        tokio::spawn(async move {
            job.ended().await;
            snapshots.after(&call).await;
        });
    }

    async fn ended(
        &self,
        job: &Job,
        end: &Arc<JobEnd>,
        start: &RunStart,
        limit: Duration,
        notes: Vec<String>,
    ) -> Result<Outcome<Output>, ToolError> {
        if end.left.is_empty() && job.spec().confinement.is_some() {
            // Placeholders for protected paths have been removed by then.
            tokio::time::timeout(SETTLING, job.gone()).await.ok();
        }
        self.bash.snapshots.after(&self.cx.call_id).await;
        let mut output = result_text::printed(job, self.bash.settings.shown_chars);
        output.notes.splice(0..0, notes);
        output.duration_ms = millis(end.elapsed);
        output.dangerously_disable_sandbox = self.input.dangerously_disable_sandbox;
        if !end.left.is_empty() && end.stopped.is_none() {
            let about = TaskAbout {
                kind: TaskKind::Leftover,
                description: format!(
                    "left running by: {}",
                    haft_types::text::one_line(&self.input.command, 80)
                ),
                agent: self.cx.agent_id.clone(),
            };
            let id = self.bash.tasks.adopt(job.clone(), about, job.printed());
            result_text::left(end, &id, &mut output);
        }
        result_text::blocked(job, end, &start.dir, &mut output);
        let lost_output = 0 < output.dropped_bytes && job.loss().1.is_some();
        let meaning = match end.exit {
            Exit::Code(code) if end.stopped.is_none() => {
                output.exit_code = Some(code);
                (code != 0).then(|| self.bash.facts.exit_meaning(&start.reading, code)).flatten()
            }
            _ => None,
        };
        let failed = !end.is_success() && meaning.is_none();
        let change = self.settle_directory(end, start, failed, &mut output);
        if end.stopped == Some(Stop::Interrupted) {
            output.interrupted = true;
            return Ok(output.into());
        }
        output.timed_out = end.stopped == Some(Stop::TimedOut);
        let unattended =
            if self.is_interactive() { None } else { self.bash.facts.without_person(&start.reading) };
        if failed || lost_output {
            return Err(result_text::failure(end, limit, output, unattended));
        }
        output.notes.extend(result_text::unattended(&output.stdout, unattended));
        if let Some(meaning) = meaning {
            output.notes.insert(0, format!("exit code {}: {meaning}", output.exit_code.unwrap_or_default()));
            output.return_code_interpretation = Some(meaning.to_owned());
        }
        output.no_output_expected = output.stdout.is_empty() && self.bash.facts.is_silent(&start.reading);
        let mut outcome = Outcome::from(output);
        outcome.changes.extend(change);
        Ok(outcome)
    }

    /// Determines the directory of the next command, and the note about it.
    fn settle_directory(
        &self,
        end: &JobEnd,
        start: &RunStart,
        failed: bool,
        output: &mut Output,
    ) -> Option<ContextChange> {
        let here = if start.dir.is_dir() {
            start.dir.clone()
        } else {
            self.fallback().unwrap_or_else(|_| start.dir.clone())
        };
        output.cwd = here.clone();
        let carries = self.is_main() && self.bash.settings.directory == CwdPersistence::Yes;
        let moved = match &end.cwd {
            FinalCwd::At(path) if !same_place(path, &start.dir) => Some(path),
            FinalCwd::Gone => {
                output
                    .notes
                    .push(format!("the directory the shell was in is gone; cwd is {}", here.display()));
                None
            }
            FinalCwd::At(_) | FinalCwd::Untold => None,
        };
        if let Some(path) = moved {
            if !carries || failed {
                let why = if failed { "the command failed" } else { "directory changes do not carry over" };
                output.notes.push(format!("{why}, so cwd remains {}", here.display()));
            } else if !self.is_inside(path) {
                output.notes.push(format!(
                    "Shell cwd was reset to {}: {} is outside the workspace",
                    here.display(),
                    path.display()
                ));
            } else {
                output.cwd = path.clone();
                return Some(ContextChange::Cwd(path.clone()));
            }
        }
        (here.as_path() != self.cx.cwd.as_ref() && carries && !failed).then_some(ContextChange::Cwd(here))
    }

    fn is_inside(&self, path: &Path) -> bool {
        let real = |root: PathBuf| root.canonicalize().unwrap_or(root);
        self.bash.workspace.roots().into_iter().map(real).any(|root| path.starts_with(root))
    }
}

/// The shell reports physical paths; the session's may contain symbolic links.
fn same_place(told: &Path, start: &Path) -> bool {
    told == start || start.canonicalize().is_ok_and(|real| real == told)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Stops the command on drop, unless forgotten.
struct StopUnlessDone<'a>(&'a Job);

impl Drop for StopUnlessDone<'_> {
    fn drop(&mut self) {
        self.0.stop(Stop::Interrupted);
    }
}
