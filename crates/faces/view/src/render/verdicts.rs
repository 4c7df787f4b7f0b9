//! What permission said about every call, and why.

use serde_json::Value;

use super::{rows::decided, words::duration};
use crate::{
    facts::{RowContent, telling},
    html::Html,
    index::LogIndex,
    row::IndexedCall,
};

/// Calls in the table at most; those that were asked about or denied come first.
const MOST: usize = 500;

/// Writes the decisions.
pub(crate) fn permissions(out: &mut Html, index: &LogIndex) {
    let mut judged: Vec<&IndexedCall> = index.calls.iter().filter(|it| it.line.is_some()).collect();
    if judged.is_empty() {
        out.raw("<p class=\"empty\">The log does not say what permission decided.</p>");
        return;
    }
    let denied = judged.iter().filter(|it| it.denied_by().is_some()).count();
    let asked = judged.iter().filter(|it| was_asked(it)).count();
    out.raw("<p class=\"facts\">").count(judged.len()).raw(" calls judged, ").count(asked);
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

fn was_asked(call: &IndexedCall) -> bool {
    let asked = call.line.as_ref().and_then(|it| it.decision.as_ref()?.asked);
    asked.is_some_and(|it| it.reached_somebody())
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
    match call.denied_by() {
        Some(by) => out.raw("<span class=\"bad\">⊘ denied</span> by ").text(by),
        None => out.raw("<span class=\"good\">✓ ran</span>"),
    };
    let decision = line.decision.as_ref().and_then(|it| serde_json::to_value(it).ok()).unwrap_or(Value::Null);
    out.raw("</td><td class=\"words\">");
    out.text(&if decision.is_null() { String::from("it did not come that far") } else { decided(&decision) });
    out.raw("</td><td>").text(&duration(line.micros.permission)).raw("</td><td class=\"words\">");
    out.text(decision["way_out"].as_str().unwrap_or_default()).raw("</td></tr>\n");
}

#[cfg(test)]
mod tests {
    use haft_agent::log::CallLine;
    use serde_json::json;

    use super::*;

    /// Lines say who answered; older ones call everybody a person.
    #[test]
    fn a_no_says_who_said_it() {
        for (who, by, words) in [
            ("nobody", "nobody being there to ask", "; nobody was there to ask (why)"),
            ("person", "the answer to a question", "; person said deny (why)"),
            ("hook", "the answer to a question", "; hook said deny (why)"),
        ] {
            let line = json!({"call": "c", "tool": "Bash", "agent": "main", "denied_by": "asked", "decision": {
                "behavior": "ask", "source": "none", "reason": "why", "asked": {"who": who, "said": "deny"}}});
            let line: CallLine = serde_json::from_value(line).unwrap();
            assert_eq!(
                decided(&serde_json::to_value(&line.decision).unwrap()),
                format!("ask by none{words}")
            );
            let call = IndexedCall { line: Some(Box::new(line)), ..IndexedCall::default() };
            assert_eq!(call.denied_by(), Some(by));
            assert_eq!(was_asked(&call), who != "nobody");
        }
    }
}
