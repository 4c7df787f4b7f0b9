//! Formats session events as lines of text, for every frontend that prints lines.

use haft_agent::{AgentEvent, EndReason, LimitReached};
use haft_session::SessionEventKind;

/// The line for an event of an agent; `None` for model output, tool calls and events that need no line.
pub fn agent_line(event: &AgentEvent) -> Option<String> {
    Some(match event {
        AgentEvent::Notice(notice) => notice.clone(),
        AgentEvent::Retrying(it) => {
            let wait = it.wait.as_secs_f32();
            format!("asking again in {wait:.1} s ({} of {}): {}", it.attempt, it.most, it.reason)
        }
        AgentEvent::Repaired(it) => format!("repaired before sending: {} ({})", it.detail, it.place),
        AgentEvent::Bust(it) => {
            format!("the provider's cache was lost, {} tokens billed again: {}", it.tokens, it.detail)
        }
        AgentEvent::Compacted(it) => {
            format!("the conversation was made shorter: {} → {} tokens", it.tokens_before, it.tokens_after)
        }
        _ => return None,
    })
}

/// The line for a sub-agent that starts or ends; `None` for other events.
pub fn child_line(what: &SessionEventKind) -> Option<String> {
    match what {
        SessionEventKind::ChildStarted(it) => Some(format!("agent {} begins: {}", it.kind, it.description)),
        SessionEventKind::ChildEnded(_, report) => Some(format!("agent {}", report.headline())),
        _ => None,
    }
}

/// Why a turn ended; `None` if the model completed it.
pub fn end_line(reason: &EndReason) -> Option<String> {
    Some(match reason {
        EndReason::Completed => return None,
        EndReason::Failed(error) => error.to_string(),
        EndReason::Exhausted(bound) => format!("stopped: {}", in_words(bound)),
        EndReason::Interrupted => String::from("interrupted"),
        EndReason::Stopped(reason) | EndReason::NoProgress(reason) | EndReason::Incomplete(reason) => {
            format!("stopped: {reason}")
        }
        EndReason::OutputTruncated => {
            String::from("stopped: the answers were cut by the output limit again and again")
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

fn in_words(bound: &LimitReached) -> String {
    match bound {
        LimitReached::Turns(most) => format!("the limit of {most} turns was reached (--max-turns)"),
        LimitReached::Budget(most) => format!("the budget of ${most} is spent (--max-budget-usd)"),
        LimitReached::Tokens(most) => format!("the limit of {most} tokens was reached"),
        LimitReached::Time(most) => format!("the time limit of {} s was reached", most.as_secs()),
    }
}
