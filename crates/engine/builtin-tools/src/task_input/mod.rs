//! Types into the terminal of a task.

use std::{io, sync::Arc, time::Duration};

use haft_shell::run::{Job, TaskRegistry};
use haft_tool::{
    CallContext, Content, ErrorKind, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
};
use haft_types::text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    bash::{CommandConfiner, ConfinedCommand, ConfinementChoice, NoConfiner, OutsideSandbox},
    task_output::{NoAgentTasks, Output, fresh, shown, told, unknown},
};

/// Types at the terminal of a command that runs with `interactive: true`, and shows what it prints
/// in answer.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The task.
    pub task_id: String,
    /// What to type, as it is: \u0003 interrupts, \u0004 ends the input, \u001b is Escape.
    pub input: String,
    /// Whether Enter is pressed at the end; true unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enter: Option<bool>,
    /// Milliseconds to wait for an answer at most; 10000 unless given, at most 600000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
}

/// Maximum bytes of a line; terminals discard longer ones.
const LONGEST_LINE: usize = 4_000;
/// Maximum bytes per call.
const LONGEST: usize = 64 << 10;
/// A program counts as waiting after this long without output.
const PAUSE: Duration = Duration::from_millis(400);
/// How long to wait for the first output; without any, the call returns.
const BEGINS: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_PATIENCE: Duration = Duration::from_secs(600);

pub struct TaskInput {
    tasks: Arc<TaskRegistry>,
    confine: Arc<dyn CommandConfiner>,
    shown_chars: usize,
}

impl TaskInput {
    /// Creates the tool. Results show at most `shown_chars` characters of output.
    pub fn new(tasks: Arc<TaskRegistry>, shown_chars: usize) -> Self {
        Self { tasks, confine: Arc::new(NoConfiner), shown_chars }
    }

    /// Rejects input to tasks whose sandbox no longer matches the rules.
    pub fn with_confinement(mut self, confine: Arc<dyn CommandConfiner>) -> Self {
        self.confine = confine;
        self
    }

    /// The task executes what is typed, so its sandbox must be the one required now.
    fn check_walls(&self, job: &Job, cx: &ToolContext<()>) -> Result<(), ToolError> {
        let spec = job.spec();
        let own = spec.confinement.as_ref();
        let about = ConfinedCommand {
            command: &spec.command,
            cwd: &spec.cwd,
            agent: &cx.agent_id,
            outside: if own.is_none() { OutsideSandbox::Agreed } else { OutsideSandbox::No },
            permit: cx.permit(),
        };
        let walls = match self.confine.choose(&about) {
            ConfinementChoice::Free => return Ok(()),
            choice => choice.walls()?,
        };
        if walls.is_some_and(|it| own.is_some_and(|own| own.policy() == it.policy())) {
            return Ok(());
        }
        let message = "The rules changed since this task was started, so nothing is typed at it. End it with TaskStop and start it again";
        Err(ToolError::new(ErrorKind::Denied, message))
    }
}

impl Tool for TaskInput {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "TaskInput";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            aliases: &["BashInput"],
            synonyms: &[("id", "task_id"), ("bash_id", "task_id")],
            search_hint: "answer prompt type input terminal interactive password confirm",
            max_result_chars: None,
            timeout: None,
            ..Traits::default()
        }
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.input.is_empty() && input.enter == Some(false) {
            return Err(ToolError::invalid("There is nothing to type: give input, or leave enter out"));
        }
        if LONGEST < input.input.len() || input.input.split('\n').any(|it| LONGEST_LINE < it.len()) {
            return Err(ToolError::invalid(format!(
                "A terminal takes lines of up to {LONGEST_LINE} bytes, and {LONGEST} bytes at once. Give more as a file"
            )));
        }
        Ok(())
    }

    fn describe(&self, input: &Input) -> String {
        let command = self.tasks.get(&input.task_id).map(|it| text::one_line(&it.command, 80));
        let command = command.map(|it| format!(" ({it})")).unwrap_or_default();
        format!("Type at {}{command}: {}", input.task_id, text::one_line(&input.input, 200))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let id = input.task_id.trim();
        let nobody = || unknown(id, &self.tasks, &NoAgentTasks);
        let job = self.tasks.job(id).ok_or_else(nobody)?;
        let reader = self.tasks.reader(id).ok_or_else(nobody)?;
        self.check_walls(&job, cx)?;
        let mut typed = input.input.replace("\r\n", "\n").replace('\n', "\r");
        if input.enter != Some(false) {
            typed.push('\r');
        }
        // The terminal's echo of the input does not count as output.
        let echo = if job.echoes() { u64::try_from(typed.len()).unwrap_or(0) + 1 } else { 0 };
        let shown = job.printed().bytes + echo;
        job.send(typed.into_bytes()).await.map_err(|err| not_typed(id, &job, &err))?;
        tokio::select! {
            () = answered(&job, shown, &input) => {}
            () = cx.cancel.cancelled() => {}
        }
        fresh(&reader, self.shown_chars).map(|it| it.outcome(id)).ok_or_else(nobody)
    }

    fn to_content(&self, output: &Output) -> Content {
        told(output)
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => Rendered::headline(self.describe(input)),
            Stage::Done(output) => shown(output),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }

    fn classifier_input(&self, input: &Input) -> String {
        self.describe(input)
    }
}

/// Waits for the first output, which not every program prints, and then for a pause.
async fn answered(job: &Job, shown: u64, input: &Input) {
    let patience = input.timeout.map_or(TIMEOUT, Duration::from_millis).min(MAX_PATIENCE);
    let begins = if input.timeout.is_some() { patience } else { BEGINS };
    let began = tokio::time::timeout(begins, job.printed_more_than(shown)).await;
    if began.is_ok() {
        job.settled(shown, PAUSE, patience).await;
    }
}

fn not_typed(id: &str, job: &Job, err: &io::Error) -> ToolError {
    let message = match err.kind() {
        _ if job.end().is_some() => format!("{id} has ended, so nothing was typed. TaskOutput shows how"),
        io::ErrorKind::NotConnected => {
            format!("{id} has no terminal. Start the command again with interactive: true")
        }
        io::ErrorKind::TimedOut => {
            format!("{id} does not read what is typed; TaskOutput shows what it does, TaskStop ends it")
        }
        _ => format!("Nothing could be typed at {id}: {err}"),
    };
    ToolError::failed(message)
}
