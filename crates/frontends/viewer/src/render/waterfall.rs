//! Timeline of calls.

use super::numbers::duration;
use crate::{
    html::Html,
    log_index::LogIndex,
    row_content::{RowContent, telling},
    timeline::{CallSpan, CompressedTimeline, spans, stages},
};

/// Calls per page of the timeline.
const ON_PAGE: usize = 300;

/// Maximum bars in the overview.
const IN_OVERVIEW: usize = 2_000;

/// Renders the timeline: an overview of all calls, and one page of calls with their stages.
pub(crate) fn timeline(out: &mut Html, index: &LogIndex, page: Option<usize>) {
    let spans = spans(index);
    if spans.is_empty() {
        out.raw("<p class=\"empty\">The log has no times of calls.</p>");
        return;
    }
    overview(out, &spans);
    let pages = spans.len().div_ceil(ON_PAGE);
    let page = page.unwrap_or(pages - 1).min(pages - 1);
    let shown = &spans[page * ON_PAGE..spans.len().min((page + 1) * ON_PAGE)];
    if 1 < pages {
        out.raw("<p class=\"pages\" data-pages=\"")
            .count(pages)
            .raw("\" data-page=\"")
            .count(page)
            .raw("\">Calls ");
        out.count(page * ON_PAGE + 1).raw(" to ").count(page * ON_PAGE + shown.len()).raw(" of ");
        out.count(spans.len()).raw("</p>");
    }
    legend(out);
    let time = CompressedTimeline::new(shown);
    out.raw("<div class=\"scroll\" tabindex=\"0\"><table class=\"waterfall\"><thead><tr><th scope=\"col\">Call</th>");
    out.raw("<th scope=\"col\">When, beside which others</th><th scope=\"col\">Waited</th>");
    out.raw("<th scope=\"col\">Took</th></tr></thead><tbody>\n");
    for span in shown {
        one(out, index, span, &time);
    }
    out.raw("</tbody></table></div>");
}

fn legend(out: &mut Html) {
    out.raw("<p class=\"legend\">");
    for (class, name) in [
        ("s-queue", "waiting for others"),
        ("s-hooks", "hooks"),
        ("s-permission", "permission"),
        ("s-run", "the tool itself"),
        ("s-after", "afterwards"),
        ("s-failed", "failed or denied (above)"),
    ] {
        out.raw("<span><svg class=\"key\" aria-hidden=\"true\" viewBox=\"0 0 10 10\"><rect class=\"")
            .raw(class);
        out.raw("\" width=\"10\" height=\"10\" rx=\"2\"/></svg> ").raw(name).raw("</span> ");
    }
    out.raw("<span>Pauses are shortened.</span></p>");
}

fn stage_class(name: &str) -> &'static str {
    match name {
        "queue" => "s-queue",
        "hooks" => "s-hooks",
        "permission" => "s-permission",
        "run" => "s-run",
        _ => "s-after",
    }
}

fn one(out: &mut Html, index: &LogIndex, span: &CallSpan<'_>, time: &CompressedTimeline) {
    let what = match index.content(span.call.row) {
        RowContent::Call(input) => telling(&input),
        _ => String::new(),
    };
    out.raw("<tr><td class=\"words\"><a href=\"#r")
        .count(span.call.row)
        .raw("\" data-goto=\"")
        .count(span.call.row);
    out.raw("\">").text(&span.call.tool).raw("</a> <span class=\"what\">").text(&what).raw("</span></td>");
    out.raw(
        "<td class=\"bar\"><svg viewBox=\"0 0 1000 12\" preserveAspectRatio=\"none\" aria-hidden=\"true\">",
    );
    let mut at = span.start;
    let mut waited = 0_u64;
    for (name, micros) in stages(&span.stages) {
        let end = at.saturating_add_unsigned(micros);
        if name != "run" && name != "after" {
            waited = waited.saturating_add(micros);
        }
        if 0 < micros {
            let (x, until) = (time.place(at) * 1000.0, time.place(end) * 1000.0);
            out.raw("<rect class=\"")
                .raw(stage_class(name))
                .raw("\" y=\"1\" height=\"10\" x=\"")
                .number(x.min(997.0));
            out.raw("\" width=\"").number((until - x).max(if name == "run" { 2.5 } else { 0.6 })).raw("\"/>");
        }
        at = end;
    }
    out.raw("</svg></td><td>").text(&duration(waited)).raw("</td><td>");
    out.text(&duration(span.stages.run.saturating_add(span.stages.after))).raw("</td></tr>\n");
}

/// Renders all calls in lanes.
fn overview(out: &mut Html, spans: &[CallSpan<'_>]) {
    const LANE: f64 = 8.0;
    const MAX_LANES: usize = 12;
    let time = CompressedTimeline::new(spans);
    let lanes = (spans.iter().map(|it| it.lane).max().unwrap_or(0) + 1).min(MAX_LANES);
    let beside = spans.iter().filter(|it| 0 < it.lane).count();
    out.raw("<p class=\"facts\">").count(spans.len()).raw(" calls, ").count(beside);
    out.raw(" of them beside another one.</p>");
    out.raw("<svg class=\"overview\" role=\"img\" aria-label=\"All calls over time; the table below names them\" ");
    out.raw("preserveAspectRatio=\"none\" viewBox=\"0 0 1000 ").number(lanes as f64 * LANE + 4.0).raw("\">");
    let step = spans.len().div_ceil(IN_OVERVIEW).max(1);
    for span in spans.iter().step_by(step) {
        let (x, end) = (time.place(span.start) * 1000.0, time.place(span.start + span.length) * 1000.0);
        out.raw("<rect class=\"").raw(if span.call.failed { "s-failed" } else { "s-run" });
        out.raw("\" height=\"6\" x=\"").number(x.min(998.0)).raw("\" width=\"").number((end - x).max(1.0));
        out.raw("\" y=\"").number(span.lane.min(MAX_LANES - 1) as f64 * LANE + 3.0).raw("\"><title>");
        out.text(&format!("{} {}", span.call.tool, duration(span.length.unsigned_abs())))
            .raw("</title></rect>");
    }
    out.raw("</svg>");
}
