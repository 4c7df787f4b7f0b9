//! A session as one page that needs nothing else.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_types::{Block, MediaSource, text};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::{
    html::Html,
    session::{LoggedCall, LoggedRow, LoggedSession},
    timeline::spans,
};

const STYLE: &str = include_str!("style.css");

/// Longest text that is shown of one thing, in bytes.
const LONGEST: usize = 200_000;

/// The page.
pub fn page(session: &LoggedSession) -> String {
    let mut out = Html::default();
    let digest = STANDARD.encode(Sha256::digest(STYLE));
    out.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    out.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-");
    out.text(&digest).raw("'; img-src data:; base-uri 'none'; form-action 'none'\">\n");
    out.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    out.raw("<meta name=\"referrer\" content=\"no-referrer\">\n<title>");
    out.text(&session.title)
        .raw(" · Haft</title>\n<style>")
        .raw(STYLE)
        .raw("</style></head>\n<body>\n<header><h1>");
    out.text(&session.title).raw("</h1><p class=\"facts\">").text(&facts(session)).raw("</p>\n");
    out.raw("<nav aria-label=\"Parts\"><a href=\"#conversation\">Conversation</a>");
    out.raw("<a href=\"#timeline\">Timeline</a><a href=\"#cost\">Cost</a><a href=\"#denied\">Denied</a></nav></header>\n");
    out.raw("<main>\n<section aria-labelledby=\"conversation\"><h2 id=\"conversation\">Conversation</h2>\n");
    session.rows.iter().for_each(|it| row(&mut out, it));
    out.raw("</section>\n");
    timeline(&mut out, session);
    cost(&mut out, session);
    denied(&mut out, session);
    out.raw("</main>\n</body></html>\n");
    out.into_text()
}

fn facts(session: &LoggedSession) -> String {
    let usd: f64 = session.requests.iter().filter_map(|it| it.0.usd).sum();
    let mut facts = vec![format!("session {}", session.id)];
    if !session.cwd.is_empty() {
        facts.push(session.cwd.clone());
    }
    if !session.began.is_empty() {
        facts.push(session.began.clone());
    }
    facts.push(format!("{} calls", session.calls().count()));
    facts.push(format!("{} requests, ${usd:.4}", session.requests.len()));
    if 0 < session.unread {
        facts.push(format!("{} lines could not be read", session.unread));
    }
    facts.join(" · ")
}

fn cut(words: &str) -> String {
    let head = text::head(words, LONGEST);
    match head.len() == words.len() {
        true => words.to_owned(),
        false => format!("{head}\n[cut: {} bytes in all]", words.len()),
    }
}

fn row(out: &mut Html, row: &LoggedRow) {
    match row {
        LoggedRow::Person { text, ours: false } => {
            out.raw("<article class=\"person\"><p class=\"who\">Person</p><p class=\"said\">");
            out.text(&cut(text)).raw("</p></article>\n");
        }
        LoggedRow::Person { text, ours: true } => {
            out.raw("<article class=\"ours\"><details><summary>Said by Haft</summary><pre tabindex=\"0\">");
            out.text(&cut(text)).raw("</pre></details></article>\n");
        }
        LoggedRow::Model(words) => {
            out.raw("<article><p class=\"who\">Model</p><p class=\"said\">");
            out.text(&cut(words)).raw("</p></article>\n");
        }
        LoggedRow::Thought(words) => {
            out.raw("<article><details><summary>Thought</summary><pre tabindex=\"0\">");
            out.text(&cut(words)).raw("</pre></details></article>\n");
        }
        LoggedRow::Compacted => {
            out.raw("<article class=\"ours\"><p class=\"said\">The conversation was summed up here.</p></article>\n");
        }
        LoggedRow::Call(it) => call(out, it),
    }
}

fn call(out: &mut Html, call: &LoggedCall) {
    out.raw("<article><details><summary>");
    match (&call.result, call.failed) {
        (None, _) => out.raw("<span class=\"bad\">… no result</span> "),
        (Some(_), true) => out.raw("<span class=\"bad\">✗ failed</span> "),
        (Some(_), false) => out.raw("<span class=\"good\">✓ done</span> "),
    };
    out.raw("<strong>").text(&call.tool).raw("</strong> <code>");
    out.text(&text::one_line(&shortest(&call.input), 140)).raw("</code>");
    if let Some(line) = &call.line {
        out.text(&format!(" · {}", duration(line.micros.run)));
    }
    if call.of_child {
        out.raw(" · sub-agent");
    }
    out.raw("</summary>\n<p class=\"who\">Input</p><pre tabindex=\"0\">");
    out.text(&cut(&serde_json::to_string_pretty(&call.input).unwrap_or_default())).raw("</pre>\n");
    if let Some(hunks) = call.data.as_ref().and_then(|it| it["structuredPatch"].as_array()) {
        diff(out, hunks);
    }
    for block in call.result.iter().flat_map(|it| &it.0) {
        result_block(out, block);
    }
    if let Some(line) = &call.line {
        let decision = line.decision.as_ref().and_then(|it| serde_json::to_value(it).ok());
        let mut facts = vec![format!(
            "waited {}, hooks {}, permission {}, ran {}, after {}",
            duration(line.micros.queue),
            duration(line.micros.hooks),
            duration(line.micros.permission),
            duration(line.micros.run),
            duration(line.micros.after),
        )];
        facts.extend(decision.as_ref().map(decided));
        facts.extend(line.denied_by.as_ref().map(|it| format!("denied by {it}")));
        facts.extend(line.journal.as_ref().map(|it| format!("haft undo {it}")));
        out.raw("<p class=\"facts\">").text(&facts.join(" · ")).raw("</p>");
    }
    out.raw("</details></article>\n");
}

/// What permission said, in words.
fn decided(decision: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rule = decision["rule"].as_str().map(|rule| format!(" {rule}")).unwrap_or_default();
    let asked = match &decision["asked"] {
        Value::Null => String::new(),
        asked => format!("; {} said {}", word(&asked["who"]), word(&asked["said"])),
    };
    format!("decision: {} by {}{rule}{asked}", word(&decision["behavior"]), word(&decision["source"]))
}

/// The most telling value of an input.
fn shortest(input: &Value) -> String {
    let named = ["command", "file_path", "path", "pattern", "query", "url"];
    let found = named.iter().find_map(|key| input[*key].as_str());
    found.map_or_else(|| input.to_string(), str::to_owned)
}

fn result_block(out: &mut Html, block: &Block) {
    match block {
        Block::Text { text } => {
            out.raw("<p class=\"who\">Result</p><pre tabindex=\"0\">").text(&cut(text)).raw("</pre>\n");
        }
        Block::Image { source: MediaSource::Base64 { media_type, data } } if is_picture(media_type, data) => {
            out.raw("<img alt=\"A picture in the result\" src=\"data:").text(media_type).raw(";base64,");
            out.text(data).raw("\">\n");
        }
        _ => {
            out.raw("<p class=\"facts\">[a picture or a document that is not shown]</p>\n");
        }
    }
}

fn is_picture(media_type: &str, data: &str) -> bool {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&media_type);
    known && data.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'+' | b'/' | b'='))
}

fn diff(out: &mut Html, hunks: &[Value]) {
    out.raw("<p class=\"who\">Change</p><pre tabindex=\"0\">");
    let lines = hunks.iter().flat_map(|it| it["lines"].as_array().into_iter().flatten());
    for line in lines.filter_map(Value::as_str).take(5_000) {
        match line.as_bytes().first() {
            Some(b'+') => out.raw("<span class=\"added\">"),
            Some(b'-') => out.raw("<span class=\"removed\">"),
            _ => out.raw("<span class=\"same\">"),
        };
        out.text(line).raw("</span>");
    }
    out.raw("</pre>\n");
}

fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

const LANE: f64 = 14.0;

fn timeline(out: &mut Html, session: &LoggedSession) {
    out.raw("<section aria-labelledby=\"timeline\"><h2 id=\"timeline\">Timeline</h2>\n");
    let spans = spans(session);
    let end = spans.iter().map(|it| it.start + it.length).max().unwrap_or(0);
    if spans.is_empty() || end <= 0 {
        out.raw("<p>The log has no times of calls.</p></section>\n");
        return;
    }
    let lanes = spans.iter().map(|it| it.lane).max().unwrap_or(0) + 1;
    let height = lanes as f64 * LANE + 6.0;
    out.raw(
        "<svg role=\"img\" aria-label=\"Calls over time; the table below says the same\" viewBox=\"0 0 1000 ",
    );
    out.number(height).raw("\">");
    for span in &spans {
        let scale = 1000.0 / end as f64;
        out.raw("<rect rx=\"2\" height=\"10\"").raw(if span.call.failed { " class=\"bad\"" } else { "" });
        out.raw(" x=\"").number(span.start as f64 * scale);
        out.raw("\" width=\"").number((span.length as f64 * scale).max(1.5));
        out.raw("\" y=\"").number(span.lane as f64 * LANE + 5.0).raw("\"><title>");
        out.text(&format!("{} {}", span.call.tool, duration(span.length.unsigned_abs())))
            .raw("</title></rect>");
    }
    out.raw("</svg>\n<details><summary>As a table</summary><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>");
    out.raw("<th scope=\"col\">Call</th><th scope=\"col\">Begins</th><th scope=\"col\">Takes</th>");
    out.raw("<th scope=\"col\">Lane</th></tr></thead><tbody>\n");
    for span in &spans {
        out.raw("<tr><td>").text(&span.call.tool).raw("</td><td>").text(&duration(span.start.unsigned_abs()));
        out.raw("</td><td>").text(&duration(span.length.unsigned_abs())).raw("</td><td>");
        out.text(&(span.lane + 1).to_string()).raw("</td></tr>\n");
    }
    out.raw("</tbody></table></div></details></section>\n");
}

fn cost(out: &mut Html, session: &LoggedSession) {
    out.raw("<section aria-labelledby=\"cost\"><h2 id=\"cost\">Cost and cache</h2>\n");
    if session.requests.is_empty() {
        out.raw("<p>The log has no requests.</p></section>\n");
        return;
    }
    out.raw("<div class=\"scroll\" tabindex=\"0\"><table><thead><tr><th scope=\"col\">Request</th>");
    out.raw(
        "<th scope=\"col\">New input</th><th scope=\"col\">From cache</th><th scope=\"col\">To cache</th>",
    );
    out.raw(
        "<th scope=\"col\">Output</th><th scope=\"col\">Cost</th><th scope=\"col\">Cache lost to</th></tr>",
    );
    out.raw("</thead><tbody>\n");
    for request in session.requests.iter().map(|it| &it.0) {
        let usage = &request.usage;
        out.raw("<tr><td>").text(&format!("{} {}", request.request, request.model)).raw("</td>");
        let counts = [
            usage.input_tokens,
            usage.cache_read_input_tokens,
            usage.cache_creation_input_tokens,
            usage.output_tokens,
        ];
        for count in counts {
            out.raw("<td>").text(&text::thousands(count)).raw("</td>");
        }
        let usd = request.usd.map(|usd| format!("${usd:.4}")).unwrap_or_default();
        out.raw("<td>").text(&usd).raw("</td><td class=\"words\">");
        if let Some(bust) = &request.bust {
            out.text(&format!("{} ({} tokens)", bust.detail, text::thousands(bust.tokens)));
        }
        out.raw("</td></tr>\n");
    }
    out.raw("</tbody></table></div></section>\n");
}

fn denied(out: &mut Html, session: &LoggedSession) {
    out.raw("<section aria-labelledby=\"denied\"><h2 id=\"denied\">Denied</h2>\n");
    let denied: Vec<&LoggedCall> =
        session.calls().filter(|it| it.line.as_ref().is_some_and(|line| line.denied_by.is_some())).collect();
    if denied.is_empty() {
        out.raw("<p>No call was denied.</p></section>\n");
        return;
    }
    out.raw("<ul>\n");
    for call in denied {
        let why = call.result.as_ref().map(haft_types::Content::to_text).unwrap_or_default();
        out.raw("<li><strong>")
            .text(&call.tool)
            .raw("</strong>: ")
            .text(&text::one_line(&why, 300))
            .raw("</li>\n");
    }
    out.raw("</ul></section>\n");
}
