//! Outcome of a run: exit code, state, and whether a retry is possible.

use haft_agent::{EndReason, LimitReached};
use haft_fleet_store::JobState;
use haft_model::ModelError;
use haft_session::TurnEnded;
use serde_json::{Value, json};

use crate::job_file::RetryOn;

/// How the session of a job ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobOutcome {
    /// Exit code of an equivalent `haft -p`.
    pub(crate) code: u8,
    /// Short name of the outcome.
    pub(crate) word: &'static str,
    /// State of the job.
    pub(crate) state: JobState,
    /// Reason, unless it succeeded.
    pub(crate) reason: Option<String>,
    /// The kind of failure a retry rule may match.
    pub(crate) retry: Option<RetryOn>,
}

impl JobOutcome {
    /// Creates the outcome of the last turn. `denied`: calls were denied and that counts as a failure.
    pub(crate) fn new(reason: &EndReason, denied: bool) -> Self {
        let (code, word) = haft_sdk_server::run_outcome(reason, denied);
        let (state, retry) = match (reason, code) {
            (_, 0) => (JobState::Done, None),
            (_, 3) => (JobState::Denied, None),
            (EndReason::Failed(error), _) => {
                (JobState::Failed, is_passing(error).then_some(RetryOn::Provider))
            }
            (_, 1) => (JobState::Failed, Some(RetryOn::Incomplete)),
            _ => (JobState::Failed, None),
        };
        Self { code, word, state, reason: in_words(reason, denied), retry }
    }

    /// The outcome of a cancelled run.
    pub(crate) fn cancelled() -> Self {
        let reason = Some(String::from("cancelled"));
        Self { code: 130, word: "interrupted", state: JobState::Cancelled, reason, retry: None }
    }

    /// The outcome of a run that did not reach its session, or crashed.
    pub(crate) fn failed(code: u8, reason: impl Into<String>, retry: Option<RetryOn>) -> Self {
        Self { code, word: "failed", state: JobState::Failed, reason: Some(reason.into()), retry }
    }

    /// The workspace exceeded its disk limit.
    pub(crate) fn out_of_disk(reason: String) -> Self {
        Self { code: 5, word: "incomplete", state: JobState::Failed, reason: Some(reason), retry: None }
    }

    /// A budget is exhausted.
    pub(crate) fn out_of_money(reason: String) -> Self {
        Self { code: 5, word: "incomplete", state: JobState::Failed, reason: Some(reason), retry: None }
    }
}

/// Whether a retry may succeed.
fn is_passing(error: &ModelError) -> bool {
    error.is_transient() || matches!(error, ModelError::RateLimited { .. })
}

fn in_words(reason: &EndReason, denied: bool) -> Option<String> {
    Some(match reason {
        EndReason::Completed if denied => String::from("calls were not allowed"),
        EndReason::Completed => return None,
        EndReason::Failed(error) => error.to_string(),
        EndReason::Exhausted(LimitReached::Turns(most)) => format!("the limit of {most} turns was reached"),
        EndReason::Exhausted(LimitReached::Budget(most)) => format!("the budget of ${most} is spent"),
        EndReason::Exhausted(LimitReached::Tokens(most)) => format!("the limit of {most} tokens was reached"),
        EndReason::Exhausted(LimitReached::Time(most)) => {
            format!("the time limit of {} s was reached", most.as_secs())
        }
        EndReason::Interrupted => String::from("interrupted"),
        EndReason::Stopped(why) | EndReason::NoProgress(why) | EndReason::Incomplete(why) => {
            format!("stopped: {why}")
        }
        EndReason::OutputTruncated => {
            String::from("the answers were cut by the output limit again and again")
        }
        EndReason::NoStructuredOutput(tried) if tried.is_empty() => {
            String::from("the model did not deliver the output that was asked for")
        }
        EndReason::NoStructuredOutput(tried) => {
            format!("the model did not deliver the output that was asked for: {}", tried.join("; "))
        }
        EndReason::Refused => String::from("the model declined"),
    })
}

/// Returns what `haft -p --output-format json` would have printed.
pub(crate) fn result_json(session: &haft_types::SessionId, turn: &TurnEnded, outcome: &JobOutcome) -> Value {
    let mut frame = haft_sdk_server::turn_frame(session, &turn.end, &turn.bill, &turn.facts);
    frame["outcome"] = json!(outcome.word);
    frame["exit_code"] = json!(outcome.code);
    frame
}
