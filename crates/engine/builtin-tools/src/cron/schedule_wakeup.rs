use std::sync::Arc;

use haft_tool::{AccessSet, CallContext, Content, Exposure, Outcome, Tool, ToolContext, ToolError, Traits};
use haft_types::text::one_line;
use jiff::SignedDuration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    CronServices, MAX_PROMPT,
    session_jobs::{FireTime, SessionJobs},
    shown,
};

/// Wakes you up once, later in this session: end your turn, and `prompt` reaches you as an event when the time is
/// up. Use it to look again at something that takes minutes; Sleep waits within a turn. `stop` cancels every
/// wake-up that waits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Seconds until then; from 60 to 3600.
    #[serde(default, rename = "delaySeconds", alias = "delay_seconds")]
    pub delay_seconds: f64,
    /// What for, in a few words.
    #[serde(default)]
    pub reason: String,
    /// What to do then.
    #[serde(default)]
    pub prompt: String,
    /// Cancel instead.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop: bool,
}

/// A wake-up.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// When.
    pub scheduled_for: String,
    /// Seconds until then.
    pub clamped_delay_seconds: u64,
    /// Whether another time was asked for.
    pub was_clamped: bool,
    /// Wake-ups that were cancelled.
    pub cancelled_wakeups: u32,
}

pub struct ScheduleWakeup {
    services: CronServices,
    jobs: Arc<SessionJobs>,
}

impl ScheduleWakeup {
    pub(super) fn new(services: CronServices, jobs: Arc<SessionJobs>) -> Self {
        Self { services, jobs }
    }

    async fn cancel(&self) -> u32 {
        let mut cancelled = 0;
        for job in self.jobs.list().into_iter().filter(|it| matches!(it.when, FireTime::At(_))) {
            cancelled += u32::from(self.jobs.stop(&job.id).await);
        }
        cancelled
    }
}

impl Tool for ScheduleWakeup {
    type Input = Input;
    type Output = Output;
    type Progress = ();
    const NAME: &'static str = "ScheduleWakeup";

    fn output_schema(&self) -> Option<serde_json::Value> {
        Some(haft_tool::schema_of::<Output>())
    }

    fn traits(&self) -> Traits {
        Traits {
            search_hint: "wait wake up later check again remind",
            exposure: Exposure::Deferred,
            feature: Some("cron"),
            ..Traits::default()
        }
    }

    // It only sends a prompt to this session, so it never asks.
    fn reach(&self, _input: &Input, _cx: &CallContext) -> AccessSet {
        AccessSet::nothing()
    }

    fn validate(&self, input: &Input, _cx: &CallContext) -> Result<(), ToolError> {
        if input.stop {
            return Ok(());
        }
        if input.prompt.trim().is_empty() || MAX_PROMPT < input.prompt.chars().count() {
            return Err(ToolError::invalid(format!("prompt must have 1 to {MAX_PROMPT} characters")));
        }
        if input.delay_seconds.is_finite() && 0.0 < input.delay_seconds {
            Ok(())
        } else {
            Err(ToolError::invalid("delaySeconds must be a number of seconds, from 60 to 3600"))
        }
    }

    fn describe(&self, input: &Input) -> String {
        if input.stop {
            String::from("Cancel wake-ups")
        } else {
            format!("Wake up in {} s: {}", input.delay_seconds, one_line(&input.reason, 200))
        }
    }

    async fn call(&self, input: Input, cx: &ToolContext<()>) -> Result<Outcome<Output>, ToolError> {
        if input.stop {
            let cancelled_wakeups = self.cancel().await;
            return Ok(Output { cancelled_wakeups, ..Output::default() }.into());
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it lies between 60 and 3600"
        )]
        let seconds = input.delay_seconds.clamp(60.0, 3_600.0).round() as u64;
        let at = self
            .services
            .clock
            .now()
            .checked_add(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(60)));
        let at = at.map_err(|err| ToolError::failed(err.to_string()))?;
        self.jobs.start(FireTime::At(at), input.prompt, false, cx)?;
        #[expect(clippy::cast_precision_loss, reason = "it lies between 60 and 3600")]
        let was_clamped = (seconds as f64 - input.delay_seconds).abs() > 1.0;
        Ok(Output {
            scheduled_for: shown(at, &self.services.clock.zone()),
            clamped_delay_seconds: seconds,
            was_clamped,
            cancelled_wakeups: 0,
        }
        .into())
    }

    fn to_content(&self, output: &Output) -> Content {
        if output.scheduled_for.is_empty() {
            return Content::text(format!("Cancelled {} wake-ups.", output.cancelled_wakeups));
        }
        let clamped = if output.was_clamped { " (from 60 to 3600 s are possible)" } else { "" };
        Content::text(format!(
            "You will be woken up at {}, in {} s{clamped}. End your turn; nothing else is needed.",
            output.scheduled_for, output.clamped_delay_seconds
        ))
    }
}
