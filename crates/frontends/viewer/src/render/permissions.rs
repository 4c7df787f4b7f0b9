//! Permission decisions of all calls.

use serde_json::Value;

use super::{numbers::duration, rows::decided};
use crate::{
    html::Html,
    log_index::LogIndex,
    row::IndexedCall,
    row_content::{RowContent, telling},
};

/// Maximum calls in the table; those that prompted or were denied come first.
const MOST: usize = 500;

/// Renders the decisions.
pub(crate) fn permissions(out: &mut Html, index: &LogIndex) {
    let mut judged: Vec<&IndexedCall> = index.calls.iter().filter(|it| it.line.is_some()).collect();
    if judged.is_empty() {
        out.raw("<p class=\"empty\">The log does not say what permission decided.</p>");
        return;
    }
    let denied = judged.iter().filter(|it| it.denied_by().is_some()).count();
    let asked = judged.iter().filter(|it| was_asked(it)).count();
    let came_that_far = judged.iter().filter(|it| was_judged(it)).count();
    out.raw("<p class=\"facts\">").count(came_that_far).raw(" calls judged, ").count(asked);
    out.raw(" asked about, ").count(denied).raw(" denied.</p>");
    judged.sort_by_key(|it| (it.denied_by().is_none(), !was_asked(it), it.row));
    let left_out = judged.len().saturating_sub(MOST);
    out.raw(
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"wide stacked\"><thead><tr><th scope=\"col\">Call</th>",
    );
    out.raw("<th scope=\"col\">Outcome</th><th scope=\"col\">Decision, and why</th>");
    out.raw("<th scope=\"col\">Time</th><th scope=\"col\">What would help</th></tr></thead><tbody>\n");
    for call in judged.into_iter().take(MOST) {
        one(out, index, call);
    }
    out.raw("</tbody></table></div>");
    if 0 < left_out {
        out.raw("<p class=\"facts\">").count(left_out).raw(" more that ran without a question.</p>");
    }
}

/// Whether the call reached the permission stage.
fn was_judged(call: &IndexedCall) -> bool {
    call.line.as_ref().is_some_and(|it| it.decision.is_some())
}

fn was_asked(call: &IndexedCall) -> bool {
    let asked = call.line.as_ref().and_then(|it| it.decision.as_ref()?.asked);
    asked.is_some_and(|it| it.was_answered())
}

/// Returns a CSS class and a label for the outcome of a call.
fn outcome(call: &IndexedCall) -> (&'static str, &'static str) {
    let failed = call.line.as_ref().is_some_and(|it| it.error.is_some());
    match (call.denied_by(), was_judged(call)) {
        (Some(_), _) => ("bad", "⊘ denied"),
        (None, false) if failed => ("bad", "✗ did not run"),
        (None, _) => ("good", "✓ ran"),
    }
}

fn one(out: &mut Html, index: &LogIndex, call: &IndexedCall) {
    let Some(line) = &call.line else { return };
    let what = match index.content(call.row) {
        RowContent::Call(input) => telling(&input),
        _ => String::new(),
    };
    out.raw("<tr><td class=\"words\"><a href=\"#r")
        .count(call.row)
        .raw("\" data-goto=\"")
        .count(call.row)
        .raw("\">");
    out.text(&call.tool)
        .raw("</a> <span class=\"what\">")
        .text(&what)
        .raw("</span></td><td class=\"words\">");
    let (class, words) = outcome(call);
    out.raw("<span class=\"").raw(class).raw("\">").raw(words).raw("</span>");
    if let Some(by) = call.denied_by() {
        out.raw(" by ").text(by);
    }
    let decision = line.decision.as_ref().and_then(|it| serde_json::to_value(it).ok()).unwrap_or(Value::Null);
    out.raw("</td><td class=\"words\">");
    out.text(&if decision.is_null() { String::from("it did not come that far") } else { decided(&decision) });
    out.raw("</td><td>").text(&duration(line.micros.permission)).raw("</td><td class=\"words\">");
    out.text(decision["way_out"].as_str().unwrap_or_default()).raw("</td></tr>\n");
}

#[cfg(test)]
mod tests {
    use haft_agent::log::CallFinishedLine;
    use serde_json::json;

    use super::*;

    /// Lines name who answered; in older ones everyone is the user.
    #[test]
    fn denial_names_who_denied() {
        for (who, by, words) in [
            ("nobody", "nobody being there to ask", "; nobody was there to ask (why)"),
            ("person", "the answer to a question", "; person said deny (why)"),
            ("hook", "the answer to a question", "; hook said deny (why)"),
        ] {
            let line = json!({"call": "c", "tool": "Bash", "agent": "main", "denied_by": "asked", "decision": {
                "behavior": "ask", "source": "none", "reason": "why", "asked": {"who": who, "said": "deny"}}});
            let line: CallFinishedLine = serde_json::from_value(line).unwrap();
            assert_eq!(
                decided(&serde_json::to_value(&line.decision).unwrap()),
                format!("ask by none{words}")
            );
            let call = IndexedCall { line: Some(Box::new(line)), ..IndexedCall::default() };
            assert_eq!(call.denied_by(), Some(by));
            assert_eq!(was_asked(&call), who != "nobody");
        }
    }

    #[test]
    fn call_outcome_reflects_permission_stage() {
        let decision = json!({"behavior": "allow", "source": "mode"});
        for (more, judged, words) in [
            (json!({"decision": decision}), true, "✓ ran"),
            (json!({"decision": decision, "error": "failed"}), true, "✓ ran"),
            (json!({"decision": decision, "error": "denied", "denied_by": "rule"}), true, "⊘ denied"),
            (json!({"error": "denied", "denied_by": "hook"}), false, "⊘ denied"),
            (json!({"error": "invalid_input"}), false, "✗ did not run"),
            (json!({}), false, "✓ ran"),
        ] {
            let mut line = json!({"call": "c", "tool": "Bash", "agent": "main"});
            line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let line: CallFinishedLine =
                serde_json::from_value(line.clone()).unwrap_or_else(|err| panic!("{line}: {err}"));
            let call = IndexedCall { line: Some(Box::new(line)), ..IndexedCall::default() };
            assert_eq!((was_judged(&call), outcome(&call).1), (judged, words), "{more}");
        }
    }
}
