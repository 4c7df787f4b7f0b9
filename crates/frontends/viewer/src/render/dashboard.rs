//! Dashboard of all sessions: cost, time, denials.

use std::collections::BTreeMap;

use haft_types::text::one_line;

use super::numbers::{duration, money, short};
use crate::{html::Html, log_locations::LogLocation, log_summary::LogSummary};

/// Maximum rows of each table.
const MOST: usize = 15;

/// Days in the chart.
const DAYS: usize = 60;

/// Renders the dashboard.
pub(crate) fn dashboard(out: &mut Html, logs: &[(LogLocation, LogSummary)]) {
    out.raw("<h2 id=\"all\" tabindex=\"-1\">All sessions</h2>");
    if logs.is_empty() {
        out.raw("<p class=\"empty\">No session was found.</p>");
        return;
    }
    let sum = |of: fn(&LogSummary) -> u64| logs.iter().map(|(_, it)| of(it)).sum::<u64>();
    let usd = logs.iter().fold(0.0, |sum, (_, it)| sum + it.usd);
    out.raw("<ul class=\"figures\">");
    for (name, value) in [
        ("Cost", money(usd)),
        ("Sessions", logs.len().to_string()),
        ("Requests", short(sum(|it| it.requests))),
        ("Calls", short(sum(|it| it.calls))),
        ("Denied", short(sum(|it| it.denied))),
    ] {
        out.raw("<li><span class=\"name\">").raw(name).raw("</span> <span class=\"value\">").text(&value);
        out.raw("</span></li>");
    }
    out.raw("</ul>");
    days(out, logs);
    out.raw("<div class=\"grid\">");
    costs(
        out,
        "Cost by model",
        "Model",
        added(logs, |it| it.models.iter().map(|(name, usd)| (name.clone(), *usd)).collect()),
    );
    costs(out, "Cost by project", "Project", added(logs, |it| vec![(it.cwd.clone(), it.usd)]));
    out.raw("</div>");
    tools(out, logs);
    denials(out, logs);
    slowest(out, logs);
}

fn added(
    logs: &[(LogLocation, LogSummary)],
    of: impl Fn(&LogSummary) -> Vec<(String, f64)>,
) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (name, usd) in logs.iter().flat_map(|(_, it)| of(it)) {
        *sums.entry(name).or_default() += usd;
    }
    let mut sums: Vec<(String, f64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums
}

fn days(out: &mut Html, logs: &[(LogLocation, LogSummary)]) {
    let mut days: BTreeMap<&str, f64> = BTreeMap::new();
    for (day, usd) in logs.iter().flat_map(|(_, it)| &it.days) {
        *days.entry(day).or_default() += usd;
    }
    let shown: Vec<(&str, f64)> = days.into_iter().rev().take(DAYS).collect();
    let most = shown.iter().map(|it| it.1).fold(0.0, f64::max);
    out.raw("<h3>Cost per day</h3>");
    if shown.is_empty() || most <= 0.0 {
        out.raw("<p class=\"empty\">Nothing with a known price.</p>");
        return;
    }
    out.raw(
        "<svg class=\"chart\" role=\"img\" aria-label=\"Cost per day; the table below has the numbers\" ",
    );
    out.raw("preserveAspectRatio=\"none\" viewBox=\"0 0 1000 100\">");
    let width = (1000.0 / shown.len() as f64).min(125.0);
    for (at, (day, usd)) in shown.iter().rev().enumerate() {
        let height = usd / most * 96.0;
        out.raw("<rect class=\"c-new\" x=\"").number(at as f64 * width + width * 0.1).raw("\" width=\"");
        out.number(width * 0.8).raw("\" y=\"").number(100.0 - height).raw("\" height=\"").number(height);
        out.raw("\"><title>").text(&format!("{day}: {}", money(*usd))).raw("</title></rect>");
    }
    let (first, last) = (shown.last().map_or("", |it| it.0), shown.first().map_or("", |it| it.0));
    out.raw("</svg><p class=\"axis\"><span>").text(first).raw("</span> <span>top of the chart: ");
    out.text(&money(most)).raw("</span> <span>").text(last).raw("</span></p>");
    out.raw("<details><summary>As a table</summary><table><thead><tr><th scope=\"col\">Day</th>");
    out.raw("<th scope=\"col\">Cost</th></tr></thead><tbody>");
    for (day, usd) in &shown {
        out.raw("<tr><td>").text(day).raw("</td><td>").text(&money(*usd)).raw("</td></tr>");
    }
    out.raw("</tbody></table></details>");
}

fn costs(out: &mut Html, title: &'static str, column: &'static str, sums: Vec<(String, f64)>) {
    let most = sums.first().map_or(0.0, |it| it.1).max(1e-9);
    out.raw("<section><h3>")
        .raw(title)
        .raw("</h3><div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">")
        .raw(column);
    out.raw(
        "</th><th scope=\"col\" class=\"left\">Share</th><th scope=\"col\">Cost</th></tr></thead><tbody>",
    );
    for (name, usd) in sums.iter().take(MOST) {
        out.raw("<tr><td class=\"words\">").text(if name.is_empty() { "unknown" } else { name });
        out.raw("</td><td class=\"bar\"><svg viewBox=\"0 0 100 8\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
        out.raw("<rect class=\"c-new\" height=\"8\" width=\"")
            .number(usd / most * 100.0)
            .raw("\"/></svg></td><td>");
        out.text(&money(*usd)).raw("</td></tr>");
    }
    out.raw("</tbody></table></div></section>");
}

fn tools(out: &mut Html, logs: &[(LogLocation, LogSummary)]) {
    let mut tools: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
    for (name, it) in logs.iter().flat_map(|(_, it)| &it.tools) {
        let sum = tools.entry(name).or_default();
        *sum = (sum.0 + it.calls, sum.1 + it.failed, sum.2.saturating_add(it.micros));
    }
    let mut tools: Vec<_> = tools.into_iter().collect();
    tools.sort_by_key(|(_, it)| std::cmp::Reverse(it.0));
    out.raw(
        "<h3>Tools</h3><div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">Tool</th>",
    );
    out.raw("<th scope=\"col\">Calls</th><th scope=\"col\">Failed</th><th scope=\"col\">On average</th></tr></thead><tbody>");
    for (name, (calls, failed, micros)) in tools.iter().take(MOST * 2) {
        out.raw("<tr><td>")
            .text(name)
            .raw("</td><td>")
            .text(&short(*calls))
            .raw("</td><td>")
            .text(&short(*failed));
        out.raw("</td><td>").text(&duration(micros / (*calls).max(1))).raw("</td></tr>");
    }
    out.raw("</tbody></table></div>");
}

fn denials(out: &mut Html, logs: &[(LogLocation, LogSummary)]) {
    let mut denials: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for it in logs.iter().flat_map(|(_, it)| &it.denials) {
        *denials.entry((&it.tool, &it.why, &it.help)).or_default() += it.count;
    }
    let mut denials: Vec<_> = denials.into_iter().collect();
    denials.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    out.raw("<h3>Denied, and what would help</h3>");
    if denials.is_empty() {
        out.raw("<p class=\"empty\">No call was denied.</p>");
        return;
    }
    out.raw("<div class=\"scroll\" tabindex=\"0\"><table class=\"wide\"><thead><tr><th scope=\"col\">Tool</th><th scope=\"col\">Times</th>");
    out.raw("<th scope=\"col\">Why</th><th scope=\"col\">What would help</th></tr></thead><tbody>");
    for ((tool, why, help), count) in denials.iter().take(MOST) {
        out.raw("<tr><td>")
            .text(tool)
            .raw("</td><td>")
            .text(&count.to_string())
            .raw("</td><td class=\"words\">");
        out.text(why).raw("</td><td class=\"words\">").text(help).raw("</td></tr>");
    }
    out.raw("</tbody></table></div>");
}

fn slowest(out: &mut Html, logs: &[(LogLocation, LogSummary)]) {
    let mut slow: Vec<_> =
        logs.iter().flat_map(|(place, it)| it.slowest.iter().map(move |call| (place, it, call))).collect();
    slow.sort_by_key(|(_, _, call)| std::cmp::Reverse(call.micros));
    out.raw("<h3>Slowest calls</h3><div class=\"scroll\" tabindex=\"0\"><table class=\"wide\"><thead><tr><th scope=\"col\">Call</th>");
    out.raw("<th scope=\"col\">Took</th><th scope=\"col\">Session</th></tr></thead><tbody>");
    for (place, summary, call) in slow.iter().take(MOST) {
        out.raw("<tr><td class=\"words\"><span class=\"tool\">")
            .text(&call.tool)
            .raw("</span> <span class=\"what\">");
        out.text(&one_line(&call.what, 120)).raw("</span></td><td>").text(&duration(call.micros));
        out.raw("</td><td class=\"words\"><a href=\"#s=").text(&place.key).raw("&amp;r=").count(call.row);
        out.raw("\" data-session=\"").text(&place.key).raw("\" data-at=\"").count(call.row).raw("\">");
        out.text(&one_line(&summary.title, 60)).raw("</a></td></tr>");
    }
    out.raw("</tbody></table></div>");
}
