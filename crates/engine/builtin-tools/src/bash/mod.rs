//! Runs shell commands.

mod analysis_port;
mod bash_settings;
mod input;
mod interactive_programs;
mod ports;
mod preview;
mod result_text;
mod run_command;

use std::sync::Arc;

use haft_bash_analysis::SharedAnalysis;
use haft_shell::run::TaskRegistry;
use haft_tool::{
    Access, AccessSet, CallContext, CollapsedLines, CommandLine, Content, LineStyle, Outcome, Rendered,
    RenderedLine, Stage, Tool, ToolContext, ToolError, Traits, Verdict,
};

pub use analysis_port::BashInspector;
pub use bash_settings::{BackgroundPolicy, BashSettings, CwdPersistence, OnTimeout};
pub use haft_command_undo::{CommandSnapshots, NoSnapshots, OPAQUE, PendingCommand, UndoCoverage};
pub use input::{Input, Left, Output, Progress};
pub use ports::{
    CommandConfiner, CommandInspector, ConfinedCommand, ConfinementChoice, InteractiveHint, NoConfiner,
    OutsideSandbox, PrintedOutput, Said, WorkingDirs,
};

pub(crate) use result_text::words;
use run_command::BashRun;

/// Maximum bytes of a command line; the kernel limits the size of one argument.
const LONGEST: usize = 128 << 10;

pub struct Bash {
    tasks: Arc<TaskRegistry>,
    facts: Arc<dyn CommandInspector>,
    workspace: Arc<dyn WorkingDirs>,
    snapshots: Arc<dyn CommandSnapshots>,
    confine: Arc<dyn CommandConfiner>,
    settings: BashSettings,
}

impl Bash {
    /// Creates the tool. Commands cannot be undone and run without a sandbox; see
    /// [`Bash::with_snapshots`] and [`Bash::with_confinement`].
    pub fn new(
        tasks: Arc<TaskRegistry>,
        facts: Arc<dyn CommandInspector>,
        workspace: Arc<dyn WorkingDirs>,
        settings: BashSettings,
    ) -> Self {
        let (snapshots, confine) = (Arc::new(NoSnapshots), Arc::new(NoConfiner));
        Self { tasks, facts, workspace, snapshots, confine, settings }
    }

    /// Takes a snapshot before each command, so that its changes can be undone.
    pub fn with_snapshots(mut self, snapshots: Arc<dyn CommandSnapshots>) -> Self {
        self.snapshots = snapshots;
        self
    }

    /// Returns the analysis of the command line, computed once per call.
    fn reading<'a>(&self, input: &'a Input) -> &'a Arc<SharedAnalysis> {
        input.reading.get_or_init(|| self.facts.read(&input.command, &input.cwd))
    }

    /// Runs commands in a sandbox.
    pub fn with_confinement(mut self, confine: Arc<dyn CommandConfiner>) -> Self {
        self.confine = confine;
        self
    }
}

impl Tool for Bash {
    type Input = Input;
    type Output = Output;
    type Progress = Progress;
    const NAME: &'static str = "Bash";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["run_shell", "shell", "run_command", "execute_command"],
            synonyms: &[("cmd", "command"), ("script", "command"), ("timeout_ms", "timeout")],
            search_hint: "run shell command terminal script build test",
            max_result_chars: None,
            timeout: None,
            ..Traits::default()
        }
    }

    fn foreseen(&self) {
        self.tasks.shell().warm_up();
    }

    fn is_read_only(&self, input: &Input) -> bool {
        !is_special(input) && self.facts.is_read_only(self.reading(input))
    }

    /// The directory the shell ends in is where the next call runs, so a command that may change it runs
    /// alone.
    fn is_concurrency_safe(&self, input: &Input) -> bool {
        self.is_read_only(input) && self.facts.stays(self.reading(input))
    }

    /// The alias `run_shell` takes seconds. Values below 1,000 are converted: they are too small for
    /// milliseconds, and larger ones too long for seconds.
    fn translate(&self, alias: &str, input: &mut serde_json::Map<String, serde_json::Value>) {
        let seconds = input.get("timeout").and_then(serde_json::Value::as_u64).filter(|it| *it < 1000);
        if let Some(seconds) = seconds.filter(|_| alias == "run_shell") {
            input.insert(String::from("timeout"), (seconds * 1000).into());
        }
    }

    fn canonicalize(&self, input: &mut Input, cx: &CallContext) {
        input.cwd = cx.cwd.to_path_buf();
    }

    fn reach(&self, input: &Input, _cx: &CallContext) -> AccessSet {
        let line = CommandLine::new(&*input.command);
        // Permission analyses the line itself; only special requests need the analysis here. Displaying
        // a call does not.
        let reading = if is_special(input) { Some(self.reading(input)) } else { input.reading.get() };
        AccessSet::Declared(vec![Access::Command(match reading {
            Some(reading) => line.with_finding(Arc::clone(reading)),
            None => line,
        })])
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.command.contains('\0') {
            return Err(ToolError::invalid("The command contains a NUL byte, which no shell accepts"));
        }
        if LONGEST <= input.command.len() {
            return Err(ToolError::invalid(format!(
                "The command has {} bytes; at most {LONGEST} fit. Write it to a file with Write and run that",
                input.command.len()
            )));
        }
        if input.timeout == Some(0) {
            return Err(ToolError::invalid(
                "timeout must be at least 1 millisecond; leave it out for the usual one",
            ));
        }
        Ok(())
    }

    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        if input.dangerously_disable_sandbox == Some(true) {
            return Verdict::Insist(String::from("it asks to run outside the sandbox"));
        }
        if input.detach == Some(true) {
            return Verdict::Ask(String::from("what it starts would go on after this session"));
        }
        Verdict::Passthrough
    }

    fn describe(&self, input: &Input) -> String {
        let mut shown = match &input.description {
            Some(words) if !words.trim().is_empty() => format!("{} — {}", input.command, words.trim()),
            _ => input.command.clone(),
        };
        if let Some(preview) = self.facts.preview(self.reading(input)) {
            shown.push_str(&format!(" [{preview}]"));
        }
        shown
    }

    async fn call(&self, input: Input, cx: &ToolContext<Progress>) -> Result<Outcome<Output>, ToolError> {
        let outcome = BashRun { bash: self, input: &input, cx }.run().await?;
        self.tell_what_was_shown(&input, &outcome.data, cx).await;
        Ok(outcome)
    }

    fn to_content(&self, output: &Output) -> Content {
        result_text::content(output)
    }

    fn reworded(&self, data: &serde_json::Value) -> Option<Content> {
        let printed = [&data["stdout"], &data["stderr"]].map(|it| it.as_str().unwrap_or_default().trim_end());
        let text = printed.into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>().join("\n");
        Some(Content::text(if text.is_empty() { String::from("(no output)") } else { text }))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => {
                let mut shown =
                    Rendered::headline(format!("$ {}", haft_types::text::one_line(&input.command, 200)));
                // Show several lines, or a long one, in full before the user approves them.
                if 1 < input.command.lines().count() || 200 < input.command.len() {
                    let lines = input.command.lines().map(|it| RenderedLine::new(LineStyle::Plain, it));
                    shown.lines.extend(lines);
                }
                let words = input.description.iter().filter(|it| !it.trim().is_empty());
                shown.lines.extend(words.map(|it| RenderedLine::new(LineStyle::Dim, it.trim())));
                shown
            }
            Stage::Done(output) => done(output),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }

    fn classifier_input(&self, input: &Input) -> String {
        input.command.clone()
    }
}

impl Bash {
    /// Reports file lines that the command printed; they count as read.
    async fn tell_what_was_shown(&self, input: &Input, output: &Output, cx: &CallContext) {
        let reading = self.reading(input);
        if output.stdout.is_empty() || output.exit_code.is_none() || !self.facts.shows_files(reading) {
            return;
        }
        let printed = ports::PrintedOutput {
            call: cx.call_id.clone(),
            agent: cx.agent_id.clone(),
            reading: Arc::clone(reading),
            output: output.stdout.clone(),
        };
        let facts = Arc::clone(&self.facts);
        tokio::task::spawn_blocking(move || facts.printed(&printed)).await.ok();
    }
}

/// Whether the call asks for more than running a command in the foreground and in the sandbox.
fn is_special(input: &Input) -> bool {
    let asked = [input.run_in_background, input.interactive, input.detach, input.dangerously_disable_sandbox];
    asked.contains(&Some(true))
}

fn done(output: &Output) -> Rendered {
    let mut shown = Rendered::preview(output.stdout.trim_end_matches('\n'));
    let exit = match (&output.background_task_id, output.exit_code) {
        (Some(id), _) => format!("in the background as {id}"),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => String::from("ended"),
    };
    let time = words(std::time::Duration::from_millis(output.duration_ms));
    shown.headline = format!("{exit}, {time}, in {}", output.cwd.display());
    if let Some(path) = &output.persisted_output_path {
        let hidden = output.printed_lines.saturating_sub(shown.lines.len() as u64);
        shown.rest = CollapsedLines::File { path: path.clone(), hidden };
    }
    shown.notes =
        result_text::notes_for_person(output).map(|note| RenderedLine::new(LineStyle::Dim, note)).collect();
    shown
}
