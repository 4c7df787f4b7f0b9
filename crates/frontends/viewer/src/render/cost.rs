//! Cost of requests, and use of the context window.

use haft_agent::log::RequestPurpose;
use haft_types::text::thousands;

use super::numbers::{money, short};
use crate::{
    html::Html,
    log_index::LogIndex,
    row::{IndexedRequest, RowKind},
    timestamps::time_of_day,
};

/// Maximum requests with a bar of their own.
const MAX_BARS: usize = 400;

/// Maximum table rows; the newest are shown.
const MAX_LINES: usize = 500;

/// Renders cost and cache usage per request.
pub(crate) fn cost(out: &mut Html, index: &LogIndex) {
    if index.requests.is_empty() {
        out.raw("<p class=\"empty\">The log has no requests.</p>");
        return;
    }
    totals(out, index);
    bars(out, &index.requests);
    let left_out = index.requests.len().saturating_sub(MAX_LINES);
    if 0 < left_out {
        out.raw("<p class=\"facts\">The first ").count(left_out).raw(" requests are not in the table.</p>");
    }
    out.raw("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">Request</th>");
    out.raw("<th scope=\"col\">At</th><th scope=\"col\">New input</th><th scope=\"col\">From cache</th>");
    out.raw("<th scope=\"col\">To cache</th><th scope=\"col\">Output</th><th scope=\"col\">Cost</th>");
    out.raw("<th scope=\"col\">Cache lost to</th></tr></thead><tbody>\n");
    for request in &index.requests[left_out..] {
        let usage = &request.usage;
        out.raw("<tr><td>").text(&format!("{} {}", request.number, request.model));
        if request.purpose == RequestPurpose::Summary {
            out.raw(" <span class=\"tag\">summary</span>");
        }
        out.raw("</td><td>").text(&request.time.map(time_of_day).unwrap_or_default()).raw("</td>");
        let counts = [
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.output_tokens,
        ];
        for count in counts {
            out.raw("<td>").text(&thousands(count)).raw("</td>");
        }
        out.raw("<td>").text(&request.usd.map(money).unwrap_or_default()).raw("</td><td class=\"words\">");
        if let Some(bust) = &request.bust {
            out.raw("<span class=\"bad\">✗</span> ");
            out.text(&format!("{} ({} tokens)", bust.detail, thousands(bust.tokens)));
        }
        out.raw("</td></tr>\n");
    }
    out.raw("</tbody></table></div>");
}

fn totals(out: &mut Html, index: &LogIndex) {
    let sum = |of: fn(&IndexedRequest) -> u64| index.requests.iter().map(of).sum::<u64>();
    let (read, input) = (sum(|it| it.usage.cache_read_input_tokens), sum(|it| it.usage.total_input()));
    let lost = sum(|it| it.bust.as_ref().map_or(0, |bust| bust.tokens));
    out.raw("<ul class=\"figures\">");
    let share = if input == 0 { 0.0 } else { read as f64 * 100.0 / input as f64 };
    for (name, value) in [
        ("Cost", money(index.usd())),
        ("Requests", index.requests.len().to_string()),
        ("Input", short(input)),
        ("From cache", format!("{share:.0} %")),
        ("Output", short(sum(|it| it.usage.output_tokens))),
        ("Billed again", short(lost)),
    ] {
        out.raw("<li><span class=\"name\">").raw(name).raw("</span> <span class=\"value\">").text(&value);
        out.raw("</span></li>");
    }
    out.raw("</ul>");
}

fn bars(out: &mut Html, requests: &[IndexedRequest]) {
    let shown = &requests[requests.len().saturating_sub(MAX_BARS)..];
    let most = shown.iter().map(|it| it.usage.total_input()).max().unwrap_or(0).max(1) as f64;
    legend(
        out,
        &[
            ("c-read", "from cache"),
            ("c-write", "to cache"),
            ("c-new", "new input"),
            ("c-lost", "cache lost"),
        ],
    );
    out.raw("<svg class=\"chart\" role=\"img\" aria-label=\"Input of every request; the table below has the numbers\" ");
    out.raw("preserveAspectRatio=\"none\" viewBox=\"0 0 1000 104\">");
    let width = (1000.0 / shown.len() as f64).min(125.0);
    for (at, request) in shown.iter().enumerate() {
        let usage = &request.usage;
        let x = at as f64 * width;
        let mut y = 104.0;
        for (class, tokens) in [
            ("c-read", usage.cache_read_input_tokens),
            ("c-write", usage.cache_creation_input_tokens),
            ("c-new", usage.input_tokens),
        ] {
            let height = tokens as f64 / most * 96.0;
            y -= height;
            bar(out, class, x, y, width, height);
        }
        if request.bust.is_some() {
            bar(out, "c-lost", x, 0.0, width, 4.0);
        }
    }
    out.raw("</svg>");
    axis(out, shown.first(), shown.last(), &format!("top of the chart: {} tokens", short(most as u64)));
}

/// Renders the axis labels of a chart.
fn axis(out: &mut Html, first: Option<&IndexedRequest>, last: Option<&IndexedRequest>, top: &str) {
    let name =
        |it: Option<&IndexedRequest>| it.map(|it| format!("request {}", it.number)).unwrap_or_default();
    out.raw("<p class=\"axis\"><span>").text(&name(first)).raw("</span> <span>").text(top);
    out.raw("</span> <span>").text(&name(last)).raw("</span></p>");
}

fn bar(out: &mut Html, class: &'static str, x: f64, y: f64, width: f64, height: f64) {
    if 0.0 < height {
        out.raw("<rect class=\"").raw(class).raw("\" x=\"").number(x + width * 0.08).raw("\" y=\"").number(y);
        out.raw("\" width=\"").number(width * 0.84).raw("\" height=\"").number(height).raw("\"/>");
    }
}

fn legend(out: &mut Html, keys: &[(&'static str, &'static str)]) {
    out.raw("<p class=\"legend\">");
    for (class, name) in keys {
        out.raw("<span><svg class=\"key\" aria-hidden=\"true\" viewBox=\"0 0 10 10\"><rect class=\"")
            .raw(class);
        out.raw("\" width=\"10\" height=\"10\" rx=\"2\"/></svg> ").raw(name).raw("</span> ");
    }
    out.raw("</p>");
}

/// Categories of a context window, from the bottom up.
const FILLINGS: [(&str, &str); 6] = [
    ("w-base", "prompt and tools"),
    ("w-person", "what was asked"),
    ("w-model", "what the model said"),
    ("w-thought", "thoughts"),
    ("w-call", "calls"),
    ("w-result", "results"),
];

/// Renders the use of the context window per request. Message sizes are estimates from the log; the
/// remaining input is system prompt and tools.
pub(crate) fn window(out: &mut Html, index: &LogIndex) {
    let from = index.requests.len().saturating_sub(MAX_BARS);
    let asked = |at: &usize| {
        let it = &index.requests[*at];
        it.purpose == RequestPurpose::Answer && 0 < it.usage.total_input()
    };
    let places: Vec<usize> = (from..index.requests.len()).filter(asked).collect();
    let requests: Vec<&IndexedRequest> = places.iter().map(|at| &index.requests[*at]).collect();
    if requests.is_empty() {
        out.raw("<p class=\"empty\">The log has no requests.</p>");
        return;
    }
    let fills: Vec<[f64; 6]> = places.iter().map(|at| filling(index, *at)).collect();
    let most = requests.iter().map(|it| it.usage.total_input()).max().unwrap_or(1).max(1);
    let window = requests.last().map_or(0, |it| index.catalog().get(&it.model).window);
    let last = requests.last().map_or(0, |it| it.usage.total_input());
    out.raw("<p class=\"facts\">").text(&short(last)).raw(" tokens in the last request");
    if 0 < window {
        out.text(&format!(
            " of a window of {} ({:.0} %)",
            short(window),
            last as f64 * 100.0 / window as f64
        ));
    }
    out.text(&format!("; {} at most.", short(most))).raw("</p>");
    legend(out, &FILLINGS);
    out.raw("<svg class=\"chart tall\" role=\"img\" aria-label=\"What filled the window; the table below has numbers\" ");
    out.raw("preserveAspectRatio=\"none\" viewBox=\"0 0 1000 100\">");
    let step = if fills.len() < 2 { 1000.0 } else { 1000.0 / (fills.len() - 1) as f64 };
    let mut below = vec![0.0; fills.len()];
    for (layer, (class, _)) in FILLINGS.iter().enumerate() {
        let above: Vec<f64> = fills.iter().zip(&below).map(|(fill, low)| low + fill[layer]).collect();
        out.raw("<path class=\"").raw(class).raw("\" d=\"M");
        let height = |tokens: f64| 100.0 - tokens / most as f64 * 98.0;
        let points = |values: &[f64]| -> Vec<(f64, f64)> {
            let ends = if values.len() == 1 { vec![values[0], values[0]] } else { values.to_vec() };
            ends.iter().enumerate().map(|(at, it)| (at as f64 * step, height(*it))).collect()
        };
        for (x, y) in points(&above).into_iter().chain(points(&below).into_iter().rev()) {
            out.number(x).raw(" ").number(y).raw(" ");
        }
        out.raw("Z\"/>");
        below = above;
    }
    out.raw("</svg>");
    let top = match window {
        0 => format!("top of the chart: {} tokens", short(most)),
        _ => format!(
            "top of the chart: {} tokens, {:.0} % of the window",
            short(most),
            most as f64 * 100.0 / window as f64
        ),
    };
    axis(out, requests.first().copied(), requests.last().copied(), &top);
    window_table(out, &requests, &fills);
}

fn window_table(out: &mut Html, requests: &[&IndexedRequest], fills: &[[f64; 6]]) {
    out.raw("<details><summary>As a table</summary><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    out.raw("<th scope=\"col\">Request</th>");
    for (_, name) in FILLINGS {
        out.raw("<th scope=\"col\">").raw(name).raw("</th>");
    }
    out.raw("</tr></thead><tbody>\n");
    let from = requests.len().saturating_sub(MAX_LINES);
    for (request, fill) in requests.iter().zip(fills).skip(from) {
        out.raw("<tr><td>").text(&request.number.to_string()).raw("</td>");
        for tokens in fill {
            out.raw("<td>").text(&thousands(*tokens as u64)).raw("</td>");
        }
        out.raw("</tr>\n");
    }
    out.raw("</tbody></table></div></details>");
}

/// Estimates the tokens of each category when a request was sent. Assistant rows since the previous
/// request are its answer and were not part of this request.
fn filling(index: &LogIndex, at: usize) -> [f64; 6] {
    const BYTES_PER_TOKEN: f64 = 3.6;
    let request = &index.requests[at];
    let answered = at.checked_sub(1).map_or(0, |before| index.requests[before].rows);
    let rows = &index.rows[..request.rows.min(index.rows.len())];
    let from = rows.iter().rposition(|it| it.kind == RowKind::Compacted).unwrap_or(0);
    let is_answer = |at: usize, kind: RowKind| {
        answered <= at && matches!(kind, RowKind::Model | RowKind::Thought | RowKind::Call(_))
    };
    let mut fill = [0.0; 6];
    for (at, row) in rows.iter().enumerate().skip(from) {
        if row.of_child || is_answer(at, row.kind) {
            continue;
        }
        let layer = match row.kind {
            RowKind::Person | RowKind::Ours | RowKind::Attachment => 1,
            RowKind::Model => 2,
            RowKind::Thought => 3,
            RowKind::Call(call) => {
                if let Some(call) = index.calls.get(call as usize) {
                    fill[5] += f64::from(call.result_weight) / BYTES_PER_TOKEN;
                }
                4
            }
            RowKind::Compacted => continue,
        };
        fill[layer] += f64::from(row.weight) / BYTES_PER_TOKEN;
    }
    let (total, said) = (request.usage.total_input() as f64, fill.iter().sum::<f64>());
    if total < said {
        // Results may have been shortened and thinking dropped since.
        fill.iter_mut().for_each(|it| *it *= total / said);
    } else {
        fill[0] = total - said;
    }
    fill
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use haft_model::Catalog;
    use serde_json::{Value, json};

    use super::*;

    /// An answer counts from the following request on, and an image counts by its token size.
    #[test]
    fn window_chart_counts_what_was_sent() {
        let said = |kind: &str, content: Value| json!({"type": kind, "uuid": "u", "sessionId": "s", "message": {"role": kind, "content": content}});
        let asked = |request: u64, tokens: u64| {
            json!({"type": "haft", "kind": "asked", "request": request, "model": "claude-opus-4-5",
                "usage": {"input_tokens": tokens, "output_tokens": 9}})
        };
        let call = |id: &str| json!([{"type": "tool_use", "id": id, "name": "Read", "input": {}}]);
        let result = |id: &str, content: Value| json!([{"type": "tool_result", "tool_use_id": id, "content": content}]);
        let source = json!({"type": "base64", "media_type": "image/png", "data": "A".repeat(400_000)});
        let picture = json!([{"type": "image", "source": source}]);
        let lines = [
            said("user", json!("p".repeat(3_600))),
            said("assistant", call("a")),
            said("user", result("a", json!("r".repeat(7_200)))),
            asked(1, 5_000),
            said("assistant", call("b")),
            said("user", result("b", picture)),
            asked(2, 8_000),
            said("assistant", json!([{"type": "text", "text": "done"}])),
            asked(3, 10_000),
        ];
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        std::fs::write(&path, lines.iter().map(|it| format!("{it}\n")).collect::<String>()).unwrap();
        let index = LogIndex::read(&path, Catalog::built_in()).unwrap();
        let fills: Vec<[f64; 6]> = (0..3).map(|at| filling(&index, at)).collect();
        for (at, base, person, results) in [
            (0, 4_000..4_001, 1_000..1_001, 0..1),
            (1, 4_900..5_000, 1_000..1_001, 2_000..2_010),
            (2, 5_000..5_900, 1_000..1_001, 3_000..4_000),
        ] {
            let found = fills[at].map(|it| it as u64);
            assert!(base.contains(&found[0]), "{at} {found:?}");
            assert!(person.contains(&found[1]), "{at} {found:?}");
            assert!(results.contains(&found[5]), "{at} {found:?}");
        }
    }
}
