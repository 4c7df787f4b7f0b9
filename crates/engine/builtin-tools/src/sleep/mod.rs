//! Waits for a time or for events.

use std::{sync::Arc, time::Duration};

use haft_shell::run::TaskRegistry;
use haft_tool::{AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Waits, without a process. Ends early when one of your background tasks has news or the user
/// interrupts. Use it instead of the command sleep, and only when there is nothing else to do.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// How long, in seconds; at most 3600.
    #[schemars(range(min = 0.0, max = 3600.0))]
    pub seconds: f64,
    /// What for, in a few words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How the wait ended.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// How long it was.
    pub slept_ms: u64,
    /// Why it ended.
    pub ended_by: EndedBy,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// The time was up.
    Time,
    /// A background task has news.
    Task,
    /// Somebody interrupted it.
    Interrupt,
}

const LONGEST: f64 = 3600.0;

pub struct Sleep {
    tasks: Arc<TaskRegistry>,
}

impl Sleep {
    /// Creates the tool. Events of these tasks end the wait.
    pub fn new(tasks: Arc<TaskRegistry>) -> Self {
        Self { tasks }
    }
}

impl Tool for Sleep {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "Sleep";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            exposure: Exposure::Deferred,
            search_hint: "wait pause delay until background task",
            timeout: None,
            feature: Some("sleep"),
            ..Traits::default()
        }
    }

    fn is_read_only(&self, _input: &Input) -> bool {
        true
    }

    fn is_concurrency_safe(&self, _input: &Input) -> bool {
        true
    }

    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn describe(&self, input: &Input) -> String {
        match &input.reason {
            Some(reason) => format!("Wait {} s: {reason}", input.seconds),
            None => format!("Wait {} s", input.seconds),
        }
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        let started = Instant::now();
        let duration = Duration::try_from_secs_f64(input.seconds.clamp(0.0, LONGEST)).unwrap_or_default();
        let ended_by = tokio::select! {
            biased;
            () = cx.cancel.cancelled() => EndedBy::Interrupt,
            () = self.tasks.news(&cx.agent_id) => EndedBy::Task,
            () = tokio::time::sleep(duration) => EndedBy::Time,
        };
        let slept_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(Output { slept_ms, ended_by }.into())
    }

    fn to_content(&self, output: &Output) -> Content {
        Content::text(match output.ended_by {
            EndedBy::Time => "The time is up.",
            EndedBy::Task => "Woken up early: a background task has news.",
            EndedBy::Interrupt => "Woken up early: interrupted.",
        })
    }
}
