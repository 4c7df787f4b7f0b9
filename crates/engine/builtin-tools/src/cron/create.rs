use std::sync::Arc;

use haft_schedule::{CronJob, CronJobId, CronSpec, JobMode, MissedPolicy, zone_name};
use haft_tool::{
    Access, AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits, Verdict,
};
use haft_types::text::one_line;
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CronServices, MAX_PROMPT, in_words,
    session_jobs::{FireTime, LIFE, SessionJobs},
    shown,
};

/// Schedules a prompt. By default it lives with this session and reaches you as an event when its time comes
/// and you are idle; it is gone when the session ends, or after 7 days. With `durable` it is stored and run
/// without a session, unattended: nobody is asked then, so what would need a question is refused. That needs
/// the person's timer (`haft cron install`). Times are local. Prefer minutes other than :00 and :30.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Five fields: minute hour day-of-month month day-of-week. Numbers, `*`, `a-b`, `a,b` and `/n`; Sunday is 0
    /// or 7; where both days are given, either counts.
    pub cron: String,
    /// What to do when the time comes. It must say everything: nothing of this conversation is known then.
    #[schemars(length(min = 1, max = 8000))]
    pub prompt: String,
    /// Again and again (usual), or only the next time.
    #[serde(default = "yes")]
    pub recurring: bool,
    /// Outlives the session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub durable: bool,
    /// How much a stored prompt may do by itself: what the rules allow (usual), only look, or also edit files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<StoredMode>,
}

/// How much a stored prompt may do by itself.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StoredMode {
    /// It only looks.
    Plan,
    /// What rules allow.
    Default,
    /// It also edits files of its directory.
    AcceptEdits,
}

impl Input {
    fn job_mode(&self) -> JobMode {
        match self.mode {
            Some(StoredMode::Plan) => JobMode::Plan,
            Some(StoredMode::AcceptEdits) => JobMode::AcceptEdits,
            Some(StoredMode::Default) | None => JobMode::Default,
        }
    }
}

fn yes() -> bool {
    true
}

/// A job that was made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// Its name.
    pub id: String,
    /// When, in words.
    pub human_schedule: String,
    /// Whether it runs again and again.
    pub recurring: bool,
    /// Whether it outlives the session.
    pub durable: bool,
    /// When it runs next.
    pub next_fire_at: String,
    /// What else is worth knowing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Stored jobs expire after this many days.
const STORED_DAYS: i64 = 90;

/// Jobs of a session expire as well.
const SESSION_DAYS: i64 = LIFE.as_secs().cast_signed() / (24 * 60 * 60);

pub struct CronCreate {
    services: CronServices,
    jobs: Arc<SessionJobs>,
}

impl CronCreate {
    pub(super) fn new(services: CronServices, jobs: Arc<SessionJobs>) -> Self {
        Self { services, jobs }
    }

    async fn stored(&self, input: &Input, cx: &CallContext) -> Result<String, ToolError> {
        let now = self.services.clock.now();
        let zone = self.services.clock.zone();
        let job = CronJob {
            id: CronJobId::random(),
            cron: input.cron.clone(),
            zone: zone_name(&zone).into(),
            prompt: input.prompt.clone(),
            dir: Arc::clone(&cx.cwd),
            recurring: input.recurring,
            created: now,
            created_by: self.services.session.as_deref().map(Arc::from),
            expires: now.checked_add(SignedDuration::from_hours(24 * STORED_DAYS)).ok(),
            missed: MissedPolicy::Once,
            mode: input.job_mode(),
            max_turns: 20,
            max_minutes: 15,
            fleet: None,
        };
        let (store, id) = (Arc::clone(&self.services.store), job.id.to_string());
        let stored = tokio::task::spawn_blocking(move || store.add(&job)).await;
        let stored = stored.map_err(|err| ToolError::failed(err.to_string()))?;
        stored.map_err(|err| ToolError::failed(format!("The job could not be stored: {err}")))?;
        Ok(id)
    }
}

impl Tool for CronCreate {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "CronCreate";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "schedule later timer cron every day remind recurring",
            exposure: Exposure::Deferred,
            feature: Some("cron"),
            ..Traits::default()
        }
    }

    fn reach(&self, input: &Input, _cx: &CallContext) -> AccessSet {
        // A stored prompt can act later without the user, so rules distinguish it.
        let kind = if input.durable { "durable" } else { "session" };
        AccessSet::Declared(vec![Access::Named(kind.to_owned())])
    }

    fn check_permissions(&self, input: &Input, _cx: &CallContext) -> Verdict {
        // A job that edits files unattended asks each time, whatever the rules say about scheduling.
        match input.job_mode() {
            JobMode::AcceptEdits => Verdict::Ask(String::from("it would edit files while nobody watches")),
            JobMode::Plan | JobMode::Default => Verdict::Passthrough,
        }
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.mode.is_some() && !input.durable {
            return Err(ToolError::invalid(
                "mode is for durable prompts only; others run in the mode of this session",
            ));
        }
        let spec = CronSpec::parse(&input.cron).map_err(|err| ToolError::invalid(format!("cron: {err}")))?;
        let (now, zone) = (self.services.clock.now(), self.services.clock.zone());
        let Some(next) = spec.next_after(now, &zone) else {
            return Err(ToolError::invalid(format!("cron: {:?} never comes", input.cron)));
        };
        let days = if input.durable { STORED_DAYS } else { SESSION_DAYS };
        if SignedDuration::from_hours(24 * days) < next.duration_since(now) {
            let (next, kind) = (
                shown(next, &zone),
                if input.durable { "a stored prompt" } else { "a prompt of the session" },
            );
            return Err(ToolError::invalid(format!(
                "cron: {:?} comes next at {next}, and {kind} ends after {days} days: it would never run",
                input.cron
            )));
        }
        if input.prompt.trim().is_empty() || MAX_PROMPT < input.prompt.chars().count() {
            return Err(ToolError::invalid(format!("prompt must have 1 to {MAX_PROMPT} characters")));
        }
        Ok(())
    }

    fn describe(&self, input: &Input) -> String {
        let kind = if input.durable { "Store a prompt that runs unattended" } else { "Schedule a prompt" };
        let mode = match input.job_mode() {
            JobMode::Default => String::new(),
            other => format!(" in mode {}", other.name()),
        };
        format!("{kind}{mode}, {:?}: {}", input.cron, one_line(&input.prompt, 300))
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let spec = CronSpec::parse(&input.cron).map_err(|err| ToolError::invalid(err.to_string()))?;
        let (now, zone) = (self.services.clock.now(), self.services.clock.zone());
        let next = spec.next_after(now, &zone).map(|it| shown(it, &zone)).unwrap_or_default();
        let human_schedule =
            if input.recurring { in_words(&spec) } else { format!("once, {}", in_words(&spec)) };
        let (id, note) = if input.durable {
            let id = self.stored(&input, cx).await?;
            (
                id,
                String::from(
                    "Stored. It runs unattended, by the person's timer: `haft cron install` sets it up, `haft cron list` shows it. It ends after 90 days.",
                ),
            )
        } else {
            let job = self.jobs.start(FireTime::Cron(spec), input.prompt, input.recurring, cx)?;
            (job.id, String::from("It lives with this session, 7 days at most."))
        };
        let Input { recurring, durable, .. } = input;
        Ok(Output { id, human_schedule, recurring, durable, next_fire_at: next, note }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(format!(
            "Scheduled as {}: {}, next at {}. {}",
            output.id, output.human_schedule, output.next_fire_at, output.note
        ))
    }

    fn classifier_input(&self, input: &Input) -> String {
        self.describe(input)
    }
}
