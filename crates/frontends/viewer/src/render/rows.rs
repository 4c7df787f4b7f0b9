//! Rows of the conversation.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_types::{Block, Content, MediaSource, text};
use serde_json::Value;

use super::{
    markdown::markdown,
    numbers::{cut, duration},
};
use crate::{
    html::Html,
    log_index::LogIndex,
    row::{IndexedCall, RowKind},
    row_content::{RowContent, telling},
    skim_line::NOTE,
    timeline::stages,
    timestamps::{moment, time_of_day},
};

/// How much of a row is rendered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RowForm {
    /// Folded content is fetched when the user opens it.
    Folded,
    /// Everything, for the self-contained file.
    Whole,
}

/// Renders a row.
pub(crate) fn row(out: &mut Html, index: &LogIndex, number: usize, form: RowForm) {
    let Some(row) = index.rows.get(number) else { return };
    let class = match row.kind {
        RowKind::Person => "row person",
        RowKind::Ours | RowKind::Attachment => "row ours",
        RowKind::Model => "row model",
        RowKind::Thought => "row thought",
        RowKind::Call(_) => "row call",
        RowKind::Compacted => "row mark",
    };
    out.raw("<article class=\"").raw(class).raw(if row.of_child { " child" } else { "" });
    out.raw("\" id=\"r").count(number).raw("\" data-row=\"").count(number);
    out.raw("\" aria-setsize=\"")
        .count(index.rows.len())
        .raw("\" aria-posinset=\"")
        .count(number + 1)
        .raw("\">");
    match row.kind {
        RowKind::Call(call) => {
            if let Some(call) = index.calls.get(call as usize) {
                call_row(out, index, call, form);
            }
        }
        RowKind::Compacted => {
            out.raw("<p>The conversation was summed up here.</p>");
        }
        RowKind::Person => {
            who(out, "You", row.time);
            match index.content(number) {
                RowContent::Words(words) => out.raw("<p class=\"said\">").text(&cut(&words)).raw("</p>"),
                RowContent::Picture(source) => picture(out, &source, number, 0, form),
                _ => out.raw("<p class=\"said\">[nothing that can be shown]</p>"),
            };
        }
        RowKind::Model => {
            who(out, "Model", row.time);
            if let RowContent::Words(words) = index.content(number) {
                out.raw("<div class=\"md\">");
                markdown(out, &cut(&words));
                out.raw("</div>");
            }
        }
        RowKind::Ours | RowKind::Attachment | RowKind::Thought => folded(out, index, number, row.kind, form),
    }
    out.raw("</article>\n");
}

fn who(out: &mut Html, name: &'static str, time: Option<i64>) {
    out.raw("<p class=\"who\">").raw(name);
    if let Some(time) = time {
        out.raw(" <time title=\"").text(&moment(time)).raw("\">").text(&time_of_day(time)).raw("</time>");
    }
    out.raw("</p>");
}

fn folded(out: &mut Html, index: &LogIndex, number: usize, kind: RowKind, form: RowForm) {
    let RowContent::Words(words) = index.content(number) else {
        out.raw("<p class=\"facts\">[a picture or a document]</p>");
        return;
    };
    let name = match kind {
        RowKind::Thought => "Thought",
        RowKind::Attachment => "Attached",
        _ => "Said by the program",
    };
    out.raw("<details data-detail><summary><span class=\"tool\">")
        .raw(name)
        .raw("</span> <span class=\"what\">");
    let gist = words.trim().trim_start_matches(NOTE).trim_start();
    out.text(&text::one_line(gist, 120)).raw("</span></summary><div class=\"body\">");
    if form == RowForm::Whole {
        words_body(out, &words, kind);
    }
    out.raw("</div></details>");
}

fn words_body(out: &mut Html, words: &str, kind: RowKind) {
    if kind == RowKind::Thought {
        out.raw("<div class=\"md\">");
        markdown(out, &cut(words));
        out.raw("</div>");
    } else {
        out.raw("<pre tabindex=\"0\">").terminal(&cut(words)).raw("</pre>");
    }
}

/// Renders the folded part of a row.
pub(crate) fn detail(out: &mut Html, index: &LogIndex, number: usize, form: RowForm) {
    let Some(row) = index.rows.get(number) else { return };
    match row.kind {
        RowKind::Call(call) => {
            if let Some(call) = index.calls.get(call as usize) {
                call_body(out, index, call, form);
            }
        }
        kind => {
            if let RowContent::Words(words) = index.content(number) {
                words_body(out, &words, kind);
            }
        }
    }
}

fn call_row(out: &mut Html, index: &LogIndex, call: &IndexedCall, form: RowForm) {
    let input = match index.content(call.row) {
        RowContent::Call(input) => input,
        _ => Value::Null,
    };
    out.raw("<details data-detail><summary>");
    state(out, call);
    out.raw(" <span class=\"tool\">").text(&call.tool).raw("</span> <code class=\"what\">");
    out.text(&telling(&input)).raw("</code>");
    if call.of_child {
        out.raw(" <span class=\"tag\">sub-agent</span>");
    }
    if let Some(micros) = call.micros() {
        out.raw(" <span class=\"took\">").text(&duration(micros)).raw("</span>");
    }
    out.raw("</summary><div class=\"body\">");
    if form == RowForm::Whole {
        call_body(out, index, call, form);
    }
    out.raw("</div></details>");
}

/// Renders the state of a call. Never by colour alone: each state has a symbol and a word.
fn state(out: &mut Html, call: &IndexedCall) {
    match (call.denied_by(), &call.result, call.failed) {
        (Some(_), _, _) => {
            out.raw("<span class=\"state denied\">⊘ <span class=\"word\">denied</span></span>")
        }
        (_, None, _) => out.raw("<span class=\"state open\">… <span class=\"word\">no result</span></span>"),
        (_, Some(_), true) => {
            out.raw("<span class=\"state bad\">✗ <span class=\"word\">failed</span></span>")
        }
        (_, Some(_), false) => {
            out.raw("<span class=\"state good\">✓ <span class=\"word\">done</span></span>")
        }
    };
}

fn call_body(out: &mut Html, index: &LogIndex, call: &IndexedCall, form: RowForm) {
    let result = index.result(call);
    if let RowContent::Call(input) = index.content(call.row) {
        out.raw("<p class=\"label\">Input</p><pre tabindex=\"0\">");
        out.text(&cut(&input_words(&input))).raw("</pre>");
    }
    if let Some(data) = &result.data {
        changes(out, data);
    }
    if let Some(content) = &result.content {
        result_content(out, content, call, form);
    }
    about(out, call);
}

/// Formats an input for reading: each value below its name.
fn input_words(input: &Value) -> String {
    let Some(fields) = input.as_object().filter(|it| !it.is_empty()) else {
        return serde_json::to_string_pretty(input).unwrap_or_default();
    };
    let lines = fields.iter().map(|(name, value)| match value {
        Value::String(words) if words.contains('\n') => format!("{name}:\n{words}"),
        Value::String(words) => format!("{name}: {words}"),
        Value::Array(_) | Value::Object(_) => {
            format!("{name}: {}", serde_json::to_string_pretty(value).unwrap_or_default())
        }
        plain => format!("{name}: {plain}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Renders how a call went: stages, permission decision, undo.
fn about(out: &mut Html, call: &IndexedCall) {
    let Some(line) = &call.line else { return };
    out.raw("<dl class=\"about\"><div><dt>Stages</dt><dd>");
    let told: Vec<String> = stages(&line.micros)
        .iter()
        .filter(|(_, micros)| 0 < *micros)
        .map(|(name, micros)| format!("{name} {}", duration(*micros)))
        .collect();
    out.text(&if told.is_empty() { String::from("none measured") } else { told.join(" · ") });
    out.raw("</dd></div>");
    if let Some(decision) = line.decision.as_ref().and_then(|it| serde_json::to_value(it).ok()) {
        out.raw("<div><dt>Permission</dt><dd>").text(&decided(&decision)).raw("</dd></div>");
    }
    if let Some(by) = call.denied_by() {
        out.raw("<div><dt>Denied by</dt><dd>").text(by).raw("</dd></div>");
    }
    if let Some(entry) = &line.journal {
        out.raw("<div><dt>Take it back</dt><dd><code>haft undo ").text(entry).raw("</code></dd></div>");
    }
    out.raw("</dl>");
}

/// Formats a permission decision.
pub(crate) fn decided(decision: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rule = decision["rule"].as_str().map(|rule| format!(" {rule}")).unwrap_or_default();
    let asked = match &decision["asked"] {
        Value::Null => String::new(),
        asked if asked["who"] == "nobody" => String::from("; nobody was there to ask"),
        asked => format!("; {} said {}", word(&asked["who"]), word(&asked["said"])),
    };
    let reason = decision["reason"].as_str().map(|it| format!(" ({it})")).unwrap_or_default();
    format!("{} by {}{rule}{asked}{reason}", word(&decision["behavior"]), word(&decision["source"]))
}

/// Renders the changes described in a result, with file names if there are several.
fn changes(out: &mut Html, data: &Value) {
    let files = data["files"].as_array().map(Vec::as_slice).unwrap_or_default();
    for file in std::iter::once(data).chain(files) {
        let hunks = file["structuredPatch"].as_array().map(Vec::as_slice).unwrap_or_default();
        if hunks.is_empty() {
            continue;
        }
        out.raw("<p class=\"label\">Change");
        if let (true, Some(path)) = (1 < files.len(), file["filePath"].as_str()) {
            out.raw(" in ").text(path);
        }
        out.raw("</p>");
        let lines = hunks.iter().flat_map(|it| it["lines"].as_array().into_iter().flatten());
        diff(out, lines.filter_map(Value::as_str));
    }
}

/// Renders the lines of a diff, each with its marker.
pub(crate) fn diff<'a>(out: &mut Html, lines: impl Iterator<Item = &'a str>) {
    out.raw("<pre class=\"diff\" tabindex=\"0\">");
    for line in lines.take(5_000) {
        match line.as_bytes().first() {
            Some(b'+') => out.raw("<span class=\"added\">"),
            Some(b'-') => out.raw("<span class=\"removed\">"),
            _ => out.raw("<span class=\"same\">"),
        };
        out.text(line).raw("</span>");
    }
    out.raw("</pre>");
}

fn result_content(out: &mut Html, content: &Content, call: &IndexedCall, form: RowForm) {
    out.raw("<p class=\"label\">Result</p>");
    for (at, block) in content.0.iter().enumerate() {
        match block {
            Block::Text { text } => {
                out.raw("<pre tabindex=\"0\">").terminal(&cut(text)).raw("</pre>");
            }
            Block::Image { source } => {
                picture(out, source, call.row, at, form);
            }
            _ => {
                out.raw("<p class=\"facts\">[a document that is not shown]</p>");
            }
        }
    }
}

/// Renders an image, embedded or as a URL to fetch.
fn picture<'a>(
    out: &'a mut Html,
    source: &MediaSource,
    row: usize,
    at: usize,
    form: RowForm,
) -> &'a mut Html {
    let MediaSource::Base64 { media_type, data } = source else {
        return out.raw("<p class=\"facts\">[a picture that is not in the log]</p>");
    };
    if shown_picture(media_type, data).is_none() {
        return out.raw("<p class=\"facts\">[a picture of a kind that is not shown]</p>");
    }
    match form {
        RowForm::Whole => {
            out.raw("<img alt=\"A picture in the conversation\" src=\"data:").text(media_type);
            out.raw(";base64,").text(data).raw("\">")
        }
        RowForm::Folded => {
            out.raw("<img alt=\"A picture in the conversation\" data-picture=\"").count(row);
            out.raw("/").count(at).raw("\">")
        }
    }
}

/// Decodes an image, if its type is a bitmap format without active content.
pub(crate) fn shown_picture(media_type: &str, data: &str) -> Option<(&'static str, Vec<u8>)> {
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    let kind = known.into_iter().find(|it| *it == media_type)?;
    Some((kind, STANDARD.decode(data).ok()?))
}
