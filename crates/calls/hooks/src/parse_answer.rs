//! Converts what a handler did into its answer.

use serde_json::Value;

use crate::{
    BlockEffect, ErrorEffect, ErrorPolicy, GeneralDecision, HookEvent, HookFailure, HookOutput, OutputError,
    PermissionDecision, running_process::HookEnd, stream_capture::CapturedText,
};

/// Answer of any kind of handler.
#[derive(Debug, Default)]
pub(crate) struct HandlerAnswer {
    /// The parsed answer.
    pub(crate) output: HookOutput,
    /// Set if it denied by exit status 2.
    pub(crate) refusal: Option<String>,
    /// Set if it failed.
    pub(crate) failure: Option<HookFailure>,
    /// Its output, for the report.
    pub(crate) transcript: CommandTranscript,
}

/// Output of a handler and its exit status.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommandTranscript {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl HandlerAnswer {
    /// A handler that failed without output.
    pub(crate) fn broken(failure: HookFailure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }

    /// A handler that failed after output: restrictions in the output count, permissions do not.
    fn broken_after(failure: HookFailure, said: Option<StdoutVerdict>) -> Self {
        let output = said.map(StdoutVerdict::strict_part).unwrap_or_default();
        Self { output, failure: Some(failure), ..Self::default() }
    }

    /// Answer given as JSON.
    pub(crate) fn of_json(json: &Value, event: HookEvent) -> Self {
        match HookOutput::parse(json, event) {
            Ok(output) => Self { output, ..Self::default() },
            Err(bad) => Self::of_bad(*bad),
        }
    }

    /// Answer given as the body of a successful HTTP response.
    pub(crate) fn of_body(body: &str, event: HookEvent, policy: ErrorPolicy) -> Self {
        let mut answer = match StdoutVerdict::read(body, event, 0) {
            StdoutVerdict::Answer(output) => Self { output: *output, ..Self::default() },
            StdoutVerdict::Bad(bad) => Self::of_bad(*bad),
            StdoutVerdict::Text(text) => Self::of_text(text, event, policy),
        };
        answer.transcript.stdout = body.to_owned();
        answer
    }

    fn of_bad(bad: OutputError) -> Self {
        Self {
            output: bad.strict_part,
            failure: Some(HookFailure::BadAnswer(bad.problem)),
            ..Self::default()
        }
    }

    /// Plain text of a successful handler. At some events it is passed to the model; elsewhere it is
    /// only reported, unless the hook declares `on_error`: then a verdict is required and this is a
    /// failure.
    fn of_text(text: &str, event: HookEvent, policy: ErrorPolicy) -> Self {
        let mut answer = Self::default();
        if event.text_is_context() && !text.is_empty() {
            answer.output.specific.additional_context = Some(text.to_owned());
        } else if !text.is_empty()
            && policy == ErrorPolicy::Explicit(ErrorEffect::Closed)
            && event.block_effect() == BlockEffect::Prevents
        {
            let problem = "standard output must be empty or a JSON object; notes belong on standard error";
            answer.failure = Some(HookFailure::BadAnswer(problem.to_owned()));
        }
        answer
    }
}

/// A finished process, with the means to find out whether its script ran.
pub(crate) struct FinishedProcess<'a> {
    pub(crate) end: HookEnd,
    pub(crate) stdout: CapturedText,
    pub(crate) stderr: CapturedText,
    pub(crate) limit: std::time::Duration,
    /// Why a process with this status never ran, if certain.
    pub(crate) never_ran: &'a dyn Fn(i32, &str) -> Option<String>,
}

/// Answer of a command.
pub(crate) fn of_process(
    finished: FinishedProcess<'_>,
    event: HookEvent,
    policy: ErrorPolicy,
) -> HandlerAnswer {
    let FinishedProcess { end, stdout, stderr, limit, never_ran } = finished;
    let said = StdoutVerdict::read(&stdout.text, event, stdout.dropped);
    let mut answer = match end {
        HookEnd::TimedOut => HandlerAnswer::broken_after(HookFailure::TimedOut(limit), Some(said)),
        HookEnd::Signal(signal) => HandlerAnswer::broken_after(HookFailure::Signal(signal), Some(said)),
        HookEnd::Status(0) => match said {
            StdoutVerdict::Answer(output) => HandlerAnswer { output: *output, ..HandlerAnswer::default() },
            StdoutVerdict::Bad(bad) => HandlerAnswer::of_bad(*bad),
            StdoutVerdict::Text(text) => HandlerAnswer::of_text(text, event, policy),
        },
        HookEnd::Status(status) => of_status(status, said, &stderr.text, event, never_ran),
    };
    let status = match end {
        HookEnd::Status(status) => Some(status),
        HookEnd::Signal(_) | HookEnd::TimedOut => None,
    };
    answer.transcript = CommandTranscript { status, stdout: stdout.text, stderr: stderr.text };
    answer
}

fn of_status(
    status: i32,
    said: StdoutVerdict<'_>,
    stderr: &str,
    event: HookEvent,
    never_ran: &dyn Fn(i32, &str) -> Option<String>,
) -> HandlerAnswer {
    let blocks = status == 2 && event.block_effect() != BlockEffect::Nothing;
    match said {
        StdoutVerdict::Answer(output) if blocks => refused(*output, stderr),
        StdoutVerdict::Answer(output) if output.decides() => {
            HandlerAnswer { output: *output, ..HandlerAnswer::default() }
        }
        said => match never_ran(status, stderr) {
            Some(why) => HandlerAnswer::broken_after(HookFailure::NotStarted(why), Some(said)),
            None if blocks => refused(said.strict_part(), stderr),
            None => {
                let said_why = haft_types::text::one_line(stderr, 300);
                HandlerAnswer::broken_after(HookFailure::ExitStatus { status, said: said_why }, Some(said))
            }
        },
    }
}

/// Exit status 2: denies. Other parts of the answer count, except permissions.
fn refused(mut output: HookOutput, stderr: &str) -> HandlerAnswer {
    output.specific.updated_input = None;
    output.specific.elicited = None;
    let denies = output.specific.permission_decision == Some(PermissionDecision::Deny)
        || output.decision == Some(GeneralDecision::Block);
    if denies {
        return HandlerAnswer { output, ..HandlerAnswer::default() };
    }
    let said = [output.specific.permission_decision_reason.take(), output.reason.take()];
    let reason = match stderr.trim() {
        "" => said.into_iter().flatten().next().unwrap_or_default(),
        stderr => stderr.to_owned(),
    };
    output.specific.permission_decision = None;
    output.decision = None;
    HandlerAnswer { output, refusal: Some(reason), ..HandlerAnswer::default() }
}

/// Parsed standard output.
enum StdoutVerdict<'a> {
    Answer(Box<HookOutput>),
    Bad(Box<OutputError>),
    Text(&'a str),
}

impl<'a> StdoutVerdict<'a> {
    fn read(stdout: &'a str, event: HookEvent, dropped: u64) -> Self {
        let text = stdout.trim().trim_start_matches('\u{feff}');
        if !text.starts_with('{') {
            return Self::Text(text);
        }
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let bad = |problem: String, value: &Value| {
            // If trailing output follows an answer, its restrictions still count.
            let strict_part = match HookOutput::parse(value, event) {
                Ok(output) => output.into_strict_part(),
                Err(bad) => bad.strict_part,
            };
            Self::Bad(Box::new(OutputError { problem, strict_part }))
        };
        match values.next() {
            Some(Ok(value)) if dropped == 0 && text[values.byte_offset()..].trim().is_empty() => {
                match HookOutput::parse(&value, event) {
                    Ok(output) => Self::Answer(Box::new(output)),
                    Err(bad) => Self::Bad(bad),
                }
            }
            Some(Ok(value)) => bad("there is more after the JSON object".to_owned(), &value),
            Some(Err(_)) if 0 < dropped => bad("it is longer than 8 MiB".to_owned(), &Value::Null),
            Some(Err(error)) => bad(format!("it is not JSON: {error}"), &Value::Null),
            None => Self::Text(text),
        }
    }

    fn strict_part(self) -> HookOutput {
        match self {
            Self::Answer(output) => output.into_strict_part(),
            Self::Bad(bad) => bad.strict_part,
            Self::Text(_) => HookOutput::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::merge_answers::verdict_of;

    fn verdict(end: HookEnd, stdout: &str, stderr: &str) -> Option<PermissionDecision> {
        let captured = |text: &str| CapturedText { text: text.to_owned(), dropped: 0 };
        let finished = FinishedProcess {
            end,
            stdout: captured(stdout),
            stderr: captured(stderr),
            limit: Duration::ZERO,
            never_ran: &|_, _| None,
        };
        let answer = of_process(finished, HookEvent::PreToolUse, ErrorPolicy::Default);
        verdict_of(&answer.output, answer.refusal.as_deref()).map(|it| it.kind)
    }

    /// Arbitrary answers with surrounding noise.
    fn outputs() -> impl Strategy<Value = String> {
        let word = prop::sample::select(vec!["allow", "ask", "defer", "deny", "approve", "block", "", "x"]);
        let noise = prop::sample::select(vec!["", "", " ", "\n", "x", "{", "}", "\u{feff}", "\u{0}", "[]"]);
        (word.clone(), word, noise.clone(), noise).prop_map(|(specific, general, before, after)| {
            format!(
                r#"{before}{{"decision":"{general}","hookSpecificOutput":{{"permissionDecision":"{specific}"}}}}{after}"#
            )
        })
    }

    proptest! {
        #[test]
        fn exit_status_two_always_denies(stdout in prop_oneof![outputs(), ".*"], stderr in ".*") {
            prop_assert_eq!(verdict(HookEnd::Status(2), &stdout, &stderr), Some(PermissionDecision::Deny));
        }

        #[test]
        fn crashed_or_hung_process_never_allows(stdout in prop_oneof![outputs(), ".*"]) {
            for end in [HookEnd::Signal(11), HookEnd::TimedOut] {
                prop_assert_ne!(verdict(end, &stdout, ""), Some(PermissionDecision::Allow));
            }
        }

        #[test]
        fn only_well_formed_answer_can_allow(stdout in outputs(), status in prop_oneof![Just(0), Just(1)]) {
            let clean: Option<Value> = serde_json::from_str(stdout.trim()).ok();
            let allows = verdict(HookEnd::Status(status), &stdout, "") == Some(PermissionDecision::Allow);
            // Only a complete, well-formed answer can allow.
            let at = |pointer: &str| clean.as_ref().and_then(|it| it.pointer(pointer)?.as_str());
            let said = at("/hookSpecificOutput/permissionDecision") == Some("allow") || at("/decision") == Some("approve");
            prop_assert!(!allows || said || stdout.starts_with('\u{feff}'), "{}", stdout);
        }
    }
}
