//! Interpreters that keep their state between calls.

mod input;
mod interpreter;

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use haft_shell::{run::Shell, sandbox::Confinement};
use haft_tool::{
    CallContext, Content, ErrorKind, Exposure, Outcome, Rendered, Stage, Tool, ToolContext, ToolError, Traits,
};
use haft_types::text;
use tokio::sync::Mutex;

use crate::bash::{
    CommandConfiner, CommandSnapshots, ConfinedCommand, NoConfiner, NoSnapshots, OPAQUE, OutsideSandbox,
    PendingCommand, UndoCoverage,
};
pub use input::{Input, Language, Output};
use interpreter::{CodeEnding, Evaluated, Interpreter};

const USUAL: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);
/// Maximum number of interpreters per session. A further one replaces the one idle longest.
const MOST: usize = 8;

type ReplSlot = Arc<Mutex<Option<Interpreter>>>;

/// Runs code in persistent interpreters.
pub struct Repl {
    shell: Arc<Shell>,
    shown_chars: usize,
    confine: Arc<dyn CommandConfiner>,
    snapshots: Arc<dyn CommandSnapshots>,
    slots: std::sync::Mutex<BTreeMap<(Language, String), ReplSlot>>,
}

impl Repl {
    /// Creates the tool. Results show at most `shown_chars` characters of output.
    pub fn new(shell: Arc<Shell>, shown_chars: usize) -> Self {
        let (confine, snapshots) = (Arc::new(NoConfiner), Arc::new(NoSnapshots));
        Self { shell, shown_chars, confine, snapshots, slots: std::sync::Mutex::default() }
    }

    /// Runs interpreters in a sandbox. An interpreter whose sandbox no longer matches the rules is
    /// restarted and loses its state.
    pub fn with_confinement(mut self, confine: Arc<dyn CommandConfiner>) -> Self {
        self.confine = confine;
        self
    }

    /// Takes a snapshot before code runs, so that its changes can be undone.
    pub fn with_snapshots(mut self, snapshots: Arc<dyn CommandSnapshots>) -> Self {
        self.snapshots = snapshots;
        self
    }

    fn walls(&self, input: &Input, cx: &ToolContext<()>) -> Result<Option<Arc<Confinement>>, ToolError> {
        let about = ConfinedCommand {
            command: &input.code,
            cwd: &cx.cwd,
            agent: &cx.agent_id,
            outside: OutsideSandbox::No,
            permit: cx.permit(),
        };
        self.confine.choose(&about).walls()
    }

    /// Returns the slot of an interpreter. If all slots are taken, evicts the interpreter idle longest;
    /// busy ones stay.
    fn slot(&self, language: Language, session: &str) -> ReplSlot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (language, session.to_owned());
        if !slots.contains_key(&key) && MOST <= slots.len() {
            let used = |slot: &ReplSlot| {
                let interpreter = slot.try_lock().ok()?;
                Some(interpreter.as_ref().map_or_else(Instant::now, |it| it.used))
            };
            let idle = slots.iter().filter_map(|(key, slot)| Some((used(slot)?, key.clone())));
            if let Some((_, oldest)) = idle.min() {
                slots.remove(&oldest);
            }
        }
        Arc::clone(slots.entry(key).or_default())
    }

    async fn evaluate(
        &self,
        input: &Input,
        cx: &ToolContext<()>,
    ) -> Result<(Evaluated, Vec<String>), ToolError> {
        let language = input.language.unwrap_or_default();
        let slot = self.slot(language, input.session.as_deref().unwrap_or("main"));
        let mut slot = tokio::select! {
            slot = slot.lock() => slot,
            () = cx.cancel.cancelled() => {
                return Err(ToolError::new(ErrorKind::NotStarted, "Interrupted before the code ran"));
            }
        };
        let mut notes = Vec::new();
        if input.restart == Some(true) && slot.take().is_some() {
            notes.push(String::from("the interpreter was started anew"));
        }
        if slot.as_ref().is_some_and(|it| !it.is_alive()) {
            *slot = None;
            notes.push(String::from("the interpreter had ended and was started anew; what it knew is gone"));
        }
        let walls = self.walls(input, cx)?;
        if slot.as_ref().is_some_and(|it| !it.is_behind(walls.as_deref())) {
            *slot = None;
            notes.push(String::from(
                "the rules changed, so the interpreter was started anew; what it knew is gone",
            ));
        }
        if slot.is_none() {
            *slot = Some(Interpreter::start(&self.shell, language, walls, cx)?);
        }
        let Some(interpreter) = slot.as_mut() else {
            return Err(ToolError::failed("There is no interpreter"));
        };
        let patience = input.timeout.map_or(USUAL, Duration::from_millis).min(LONGEST);
        let about = PendingCommand {
            call: &cx.call_id,
            tool: Self::NAME,
            command: OPAQUE,
            cwd: &cx.cwd,
            reading: None,
            reads_only: false,
        };
        if let UndoCoverage::Partial(what) = self.snapshots.before(about).await? {
            notes.push(what);
        }
        let done = interpreter.evaluate(&input.code, patience, cx.cancel.cancelled(), self.shown_chars).await;
        self.snapshots.after(&cx.call_id).await;
        if matches!(done.ending, CodeEnding::Gone(_)) {
            *slot = None;
        }
        Ok((done, notes))
    }
}

impl Tool for Repl {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "REPL";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "python node javascript interpreter evaluate code calculate",
            exposure: Exposure::Deferred,
            max_result_chars: None,
            timeout: None,
            feature: Some("repl"),
            ..Traits::default()
        }
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.code.contains('\0') {
            return Err(ToolError::invalid("The code contains a NUL byte; write it as an escape"));
        }
        Ok(())
    }

    fn describe(&self, input: &Input) -> String {
        let language = input.language.unwrap_or_default().name();
        match &input.description {
            Some(words) => format!("{language}: {words}"),
            None => format!("{language}: {}", text::one_line(&input.code, 120)),
        }
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let started = Instant::now();
        let (done, notes) = self.evaluate(&input, cx).await?;
        let duration_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut output = Output { output: done.printed, notes, duration_ms, ..Output::default() };
        match done.ending {
            CodeEnding::Value(value) => {
                output.value = value.map(|it| shortened(&it, self.shown_chars));
                Ok(output.into())
            }
            CodeEnding::Code(code) => {
                output.exit_code = Some(code);
                Ok(output.into())
            }
            CodeEnding::Error(error) => {
                Err(failed(ErrorKind::Failed, &shortened(error.trim_end(), 10_000), &output))
            }
            CodeEnding::Interrupted if cx.cancel.is_cancelled() => {
                output.notes.push(String::from("interrupted; the interpreter keeps what it knows"));
                Ok(output.into())
            }
            CodeEnding::Interrupted => {
                let words = "The code took too long and was interrupted; the interpreter keeps what it knows";
                Err(failed(ErrorKind::TimedOut, words, &output))
            }
            CodeEnding::Gone(how) => {
                let words = format!(
                    "The interpreter has ended ({how}); what it knew is gone. The next call starts a new one"
                );
                Err(failed(ErrorKind::Failed, &words, &output))
            }
        }
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(told(output))
    }

    fn render(&self, stage: Stage<'_, Input, Output>) -> Rendered {
        match stage {
            Stage::Running(input) => {
                let mut shown = Rendered::preview(&input.code);
                shown.headline = self.describe(input);
                shown
            }
            Stage::Done(output) => Rendered::preview(&told(output)),
            Stage::Failed(error) => Rendered::error(&error.message),
        }
    }

    fn classifier_input(&self, input: &Input) -> String {
        input.code.clone()
    }
}

fn shortened(full: &str, most: usize) -> String {
    let count = full.chars().count();
    if count <= most {
        return full.to_owned();
    }
    let (head, tail) = (text::head(full, most / 2), text::tail(full, most / 2));
    format!("{head}\n[… {} characters left out …]\n{tail}", count - most)
}

fn told(output: &Output) -> String {
    let mut lines: Vec<String> = Vec::new();
    let printed = output.output.trim_end_matches('\n');
    lines.extend((!printed.is_empty()).then(|| printed.to_owned()));
    lines.extend(output.value.iter().map(|value| format!("=> {value}")));
    lines.extend(output.exit_code.filter(|code| *code != 0).map(|code| format!("[exit code {code}]")));
    lines.extend(output.notes.iter().map(|note| format!("[{note}]")));
    if lines.is_empty() {
        lines.push(String::from("(no output)"));
    }
    lines.join("\n")
}

fn failed(kind: ErrorKind, words: &str, output: &Output) -> ToolError {
    let before = match told(output).as_str() {
        "(no output)" => String::new(),
        text => format!("\n{text}"),
    };
    let data = serde_json::to_value(output).unwrap_or_default();
    ToolError::new(kind, format!("{words}{before}")).with_data(data)
}
