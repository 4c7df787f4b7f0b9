//! Starts prompts that the user has configured as triggers.

use std::{collections::BTreeMap, sync::Arc};

use haft_tool::{
    Access, AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits, Verdict,
};
use haft_triggers::{AcceptOutcome, QueuedRun, Trigger, TriggerStore, fill};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// What the trigger tool needs.
#[derive(Clone)]
pub struct TriggerServices {
    /// Queue of runs.
    pub store: TriggerStore,
    /// Returns the configured triggers by name.
    pub triggers: Arc<dyn Fn() -> BTreeMap<String, Trigger> + Send + Sync>,
    /// Id of the session that starts runs.
    pub session: Option<String>,
}

impl TriggerServices {
    /// Creates services without triggers.
    pub fn none(state: &std::path::Path) -> Self {
        Self {
            store: TriggerStore::at(state.join("triggers")),
            triggers: Arc::new(BTreeMap::new),
            session: None,
        }
    }
}

/// Fires prompts the person has set up as triggers (`triggers` in their settings): each runs unattended where
/// they said, with the limits they gave it. `list` shows them, `run` lets one run with `body` as what is
/// delivered, `list_runs` and `get_run_log` tell what came of runs. Runs begin when `haft triggers serve` or the
/// person's timer gets to them.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// What to do.
    pub action: Action,
    /// Which trigger; for `get_run_log` which run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
    /// For `run`: what its template is filled with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<serde_json::Map<String, Value>>,
}

/// What can be done.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Shows what is set up.
    List,
    /// Lets one run.
    Run,
    /// Tells what came of runs.
    ListRuns,
    /// Shows what a run printed.
    GetRunLog,
}

/// What came of it.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Output {
    /// As a server would say it.
    pub status: u16,
    /// The answer.
    pub json: Value,
    /// In words.
    pub summary: String,
}

/// Maximum characters shown of a run's log.
const LOG: usize = 20_000;
/// Maximum number of runs listed.
const RUNS: usize = 50;

pub struct RemoteTrigger {
    services: TriggerServices,
}

impl RemoteTrigger {
    pub fn new(services: TriggerServices) -> Self {
        Self { services }
    }

    fn list(&self) -> Output {
        let all = (self.services.triggers)();
        let lines = all.values().map(|it| {
            let line = haft_types::text::one_line(&it.prompt, 200);
            format!("{}: {line} (in {}, mode {})", it.name, it.dir.display(), it.mode.name())
        });
        let lines: Vec<String> = lines.collect();
        let summary = if lines.is_empty() {
            String::from("No triggers are set up; the person does that in their settings (triggers).")
        } else {
            lines.join("\n")
        };
        Output { status: 200, json: json!({"triggers": all.keys().collect::<Vec<_>>()}), summary }
    }

    fn run(&self, name: &str, body: &Value, call: &str) -> Result<Output, ToolError> {
        let all = (self.services.triggers)();
        let Some(trigger) = all.get(name) else {
            let names: Vec<&str> = all.keys().map(String::as_str).collect();
            return Err(ToolError::failed(format!(
                "There is no trigger {name}; there are: {}",
                names.join(", ")
            )));
        };
        let origin = format!("session {}", self.services.session.as_deref().unwrap_or("unknown"));
        let prompt = fill(&trigger.prompt, name, body.to_string().as_bytes());
        let clean: String = call.chars().filter(char::is_ascii_alphanumeric).collect();
        let now = Timestamp::now();
        let run = QueuedRun {
            id: format!("{name}-{}-{clean}", now.as_millisecond()),
            trigger: name.to_owned(),
            origin,
            at: now,
            prompt,
        };
        let stored = self.services.store.put(&run);
        match stored.map_err(|err| ToolError::failed(format!("The run could not be stored: {err}")))? {
            AcceptOutcome::Waits(id) => Ok(Output {
                status: 202,
                summary: format!(
                    "{name} waits to run as {id}. It begins when haft triggers serve or the person's timer gets to it."
                ),
                json: json!({"run": id}),
            }),
            AcceptOutcome::Repeated | AcceptOutcome::Full => {
                Err(ToolError::failed("Too many runs wait already; look at list_runs and try again later"))
            }
        }
    }

    fn runs(&self, name: Option<&str>) -> Output {
        let fits = |trigger: &str| name.is_none_or(|name| name == trigger);
        let waiting: Vec<QueuedRun> =
            self.services.store.waiting().into_iter().filter(|it| fits(&it.trigger)).collect();
        let mut runs = self.services.store.runs();
        runs.retain(|it| fits(&it.trigger));
        let runs = runs.split_off(runs.len().saturating_sub(RUNS));
        let mut lines: Vec<String> = runs
            .iter()
            .map(|it| {
                let how =
                    it.failed.as_ref().map_or_else(|| String::from("done"), |why| format!("failed: {why}"));
                format!("{}  {}  by {}  {how}", it.id, it.fired, it.origin)
            })
            .collect();
        lines.extend(waiting.iter().map(|it| format!("{}  {}  by {}  waits", it.id, it.at, it.origin)));
        let summary = if lines.is_empty() { String::from("Nothing has run yet.") } else { lines.join("\n") };
        let waits: Vec<&String> = waiting.iter().map(|it| &it.id).collect();
        Output { status: 200, json: json!({"runs": runs, "waiting": waits}), summary }
    }

    fn log(&self, id: &str) -> Result<Output, ToolError> {
        let proper = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
        let path = self.services.store.output_of(id);
        if id.is_empty() || !id.bytes().all(proper) || !path.is_file() {
            return Err(ToolError::failed(format!(
                "There is no output of a run {id}; list_runs shows the runs"
            )));
        }
        let bytes = std::fs::read(&path)?;
        let text = String::from_utf8_lossy(&bytes);
        let shown = haft_types::text::head(&text, LOG);
        let cut = if shown.len() < text.len() {
            format!("\n… (cut; all of it: {})", path.display())
        } else {
            String::new()
        };
        Ok(Output { status: 200, json: json!({"file": path}), summary: format!("{shown}{cut}") })
    }
}

impl Tool for RemoteTrigger {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "RemoteTrigger";

    fn output_schema(&self) -> Option<Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "trigger webhook start a run elsewhere unattended",
            exposure: Exposure::Deferred,
            feature: Some("remoteTrigger"),
            ..Traits::default()
        }
    }

    fn is_read_only(&self, input: &Input) -> bool {
        input.action != Action::Run
    }

    fn reach(&self, input: &Input, _cx: &CallContext) -> AccessSet {
        match (input.action, &input.trigger_id) {
            (Action::Run, Some(name)) => AccessSet::Declared(vec![Access::Named(name.clone())]),
            (Action::Run, None) => AccessSet::Undeclared,
            _ => AccessSet::nothing(),
        }
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        match (input.action, &input.trigger_id) {
            (Action::Run | Action::GetRunLog, None) => Err(ToolError::invalid("trigger_id is missing")),
            _ => Ok(()),
        }
    }

    // A run is unattended work, so starting one asks in every mode.
    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        match (input.action, &input.trigger_id) {
            (Action::Run, Some(name)) => {
                Verdict::Insist(format!("This starts {name}, which runs unattended"))
            }
            _ => Verdict::Passthrough,
        }
    }

    fn describe(&self, input: &Input) -> String {
        let id = input.trigger_id.as_deref().unwrap_or_default();
        let action = serde_json::to_value(input.action).ok();
        let action = action.as_ref().and_then(Value::as_str).unwrap_or_default();
        format!("{action} {id}").trim_end().to_owned()
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let (me, call) = (Self { services: self.services.clone() }, cx.call_id.to_string());
        let done = tokio::task::spawn_blocking(move || {
            let id = input.trigger_id.as_deref();
            match input.action {
                Action::List => Ok(me.list()),
                Action::Run => {
                    let body = input.body.clone().map_or_else(|| json!({}), Value::Object);
                    me.run(id.unwrap_or_default(), &body, &call)
                }
                Action::ListRuns => Ok(me.runs(id)),
                Action::GetRunLog => me.log(id.unwrap_or_default()),
            }
        });
        Ok(done.await.map_err(|err| ToolError::failed(err.to_string()))??.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(output.summary.clone())
    }

    fn classifier_input(&self, input: &Input) -> String {
        self.describe(input)
    }
}
