//! Detects futile repetition: the same call with the same outcome again and again.

use std::{
    collections::{HashMap, HashSet, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
};

use haft_tool_runtime::CallReport;
use haft_types::{CallId, ToolUse};
use serde::{Deserialize, Serialize};

/// Thresholds for repeated calls.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct RepeatLimits {
    /// The call with this number, counting the first, is refused instead of run; so are later ones.
    pub refuse: u32,
    /// The call with this number, counting the first, ends the turn.
    pub stop: u32,
}

impl Default for RepeatLimits {
    fn default() -> Self {
        Self { refuse: 3, stop: 5 }
    }
}

/// What to do with a call.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum RepetitionVerdict {
    Run,
    /// Refuse it with this text.
    Refuse(String),
    /// End the turn, for this reason.
    Stop(String),
}

/// Whether a call has side effects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RepetitionEffect {
    /// It only reads.
    Looked,
    /// It may have changed something.
    Acted,
}

/// The calls since the user's last message.
#[derive(Debug, Default)]
pub(crate) struct RepetitionGuard {
    limits: RepeatLimits,
    calls: HashMap<u64, Seen>,
    /// Calls with side effects and their normalised outcome; a repetition of one is not progress.
    known: HashSet<(u64, u64)>,
}

#[derive(Debug)]
struct Seen {
    outcome: u64,
    times: u32,
    first: CallId,
}

impl RepetitionGuard {
    pub(crate) fn new(limits: RepeatLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Forgets all calls, because the user sent a message.
    pub(crate) fn reset(&mut self) {
        self.calls.clear();
        self.known.clear();
    }

    /// Whether this call was made before.
    pub(crate) fn knows(&self, call: &ToolUse) -> bool {
        self.calls.contains_key(&of_call(call))
    }

    /// Decides what to do with a call before it runs.
    pub(crate) fn look(&mut self, call: &ToolUse) -> RepetitionVerdict {
        let Some(seen) = self.calls.get_mut(&of_call(call)) else { return RepetitionVerdict::Run };
        let time = seen.times + 1;
        if time < self.limits.refuse {
            return RepetitionVerdict::Run;
        }
        seen.times = time;
        if self.limits.stop <= time {
            return RepetitionVerdict::Stop(format!(
                "{} was called {time} times with the same input and the same result",
                call.name
            ));
        }
        RepetitionVerdict::Refuse(format!(
            "Not run again: this is call number {time} with the same input, and the result was the same every time \
             (see {}). Change the input, use another tool, or tell the user what is in the way",
            seen.first
        ))
    }

    /// Records the outcome of a call. A new side effect resets the counts: tests that fail again after
    /// an edit are not a repetition.
    pub(crate) fn tell(&mut self, call: &ToolUse, report: &CallReport, effect: RepetitionEffect) {
        let (key, text) = (of_call(call), report.content.to_text());
        let outcome = of_report(report, &text);
        // A read-only call is never progress.
        let is_new = effect == RepetitionEffect::Acted && self.known.insert((key, in_essence(report, &text)));
        if is_new && report.error.is_none() {
            self.calls.values_mut().for_each(|seen| seen.times = seen.times.min(1));
        }
        match self.calls.get_mut(&key) {
            Some(seen) if seen.outcome == outcome => seen.times += 1,
            _ => {
                self.calls.insert(key, Seen { outcome, times: 1, first: call.id.clone() });
            }
        }
    }
}

fn of_call(call: &ToolUse) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    call.input.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Hash of a result. Failures that differ only in numbers (times, process ids, addresses) are equal;
/// successes are not, because a poll that counts up is progress.
fn of_report(report: &CallReport, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    report.error.map(haft_tool::ErrorKind::name).hash(&mut hasher);
    if report.error.is_some() {
        without_numbers(text).hash(&mut hasher);
    } else {
        text.hash(&mut hasher);
    }
    hasher.finish()
}

/// The outcome without numbers and ids, in which repeated calls may differ without being progress.
fn in_essence(report: &CallReport, text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    report.error.map(haft_tool::ErrorKind::name).hash(&mut hasher);
    let mut essence = Vec::with_capacity(text.len());
    for word in text.as_bytes().split(u8::is_ascii_whitespace).filter(|it| !it.is_empty()) {
        if !word.iter().any(u8::is_ascii_digit) {
            essence.extend_from_slice(word);
        }
        essence.push(b' ');
    }
    hasher.write(&essence);
    hasher.finish()
}

fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        // A sequence of digits of any length counts as one character.
        match letter {
            '0'..='9' if out.ends_with('#') => (),
            '0'..='9' => out.push('#'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use haft_tool::ErrorKind;
    use serde_json::json;

    use super::*;

    /// Plays calls `name=result`, `!` for a failed one, upper case for one that
    /// acts, and shows what became of each: r(un), n(ot run), s(top).
    fn play(script: &str) -> String {
        let mut repeats = RepetitionGuard::default();
        let mut out = String::new();
        for (idx, step) in script.split_whitespace().enumerate() {
            let (name, result) = step.split_once('=').unwrap_or((step, ""));
            let call = ToolUse { id: format!("c{idx}").into(), name: name.to_owned(), input: json!({}) };
            match repeats.look(&call) {
                RepetitionVerdict::Refuse(_) => out.push('n'),
                RepetitionVerdict::Stop(_) => out.push('s'),
                RepetitionVerdict::Run => {
                    out.push('r');
                    let mut report =
                        CallReport::refused(call.id.clone(), name.to_owned(), ErrorKind::Failed, result);
                    if !result.starts_with('!') {
                        report.error = None;
                    }
                    let acts = name.chars().all(char::is_uppercase);
                    repeats.tell(
                        &call,
                        &report,
                        if acts { RepetitionEffect::Acted } else { RepetitionEffect::Looked },
                    );
                }
            }
        }
        out
    }

    #[test]
    fn futile_repetition_is_told_then_refused_then_stopped() {
        for (script, want) in [
            ("EDIT=!x EDIT=!x EDIT=!x EDIT=!x EDIT=!x", "rrnns"),
            ("WRITE=ok WRITE=ok WRITE=ok WRITE=ok WRITE=ok", "rrnns"),
            ("A=1 B=2 A=1 B=2 A=1 B=2 A=1 B=2 A=1", "rrrrnnnns"),
            // Polling whose output changes, and a file that changed meanwhile.
            ("poll=1 poll=2 poll=3 poll=4 poll=5 poll=6", "rrrrrr"),
            ("read=a EDIT=a read=b EDIT=b read=c", "rrrrr"),
            // Failures that differ in a time or a process id only.
            ("RUN=!at12:01 RUN=!at12:02 RUN=!at12:03 RUN=!at12:04 RUN=!at12:05", "rrnns"),
            ("WRITE=ok RUN=!7 WRITE=ok RUN=!8 WRITE=ok RUN=!9 WRITE=ok RUN=!10 WRITE=ok", "rrrrnnnns"),
            ("WRITE=ok-id1 RUN=!x WRITE=ok-id2 RUN=!x WRITE=ok-id3 RUN=!x RUN=!x RUN=!x", "rrrrrnns"),
            // Tests that fail the same way after different edits.
            ("test=!f EDIT=a test=!f EDIT=b test=!f EDIT=c test=!f", "rrrrrrr"),
        ] {
            assert_eq!(play(script), want, "{script}");
        }
    }
}
