//! Logs in which every field, one at a time and all together, contains an injection attempt.

use std::{path::Path, time::SystemTime};

use haft_model::Catalog;
use serde_json::{Value, json};

use crate::{
    agent_list::ShownAgent,
    html::Html,
    journal_changes::{JournalChange, JournalledFile},
    log_index::LogIndex,
    log_locations::LogLocation,
    log_summary::LogSummary,
    render::{
        RowForm, UndoOffer, agents, cost, dashboard, detail, facts, files, page, permissions, row, timeline,
        window,
    },
};

const EVIL: &str = "\"'><script>alert(1)</script><img src=x onerror=alert(2)></title></style></pre><!--\
    <a href=\"javascript:alert(3)\">x</a>[y](javascript:alert(4)) ![z](https://evil.test/p.png)\u{1b}]8;;http://evil.test\u{7}&lt;";

/// One line of every kind.
fn lines() -> Vec<Value> {
    let head = |kind: &str| {
        json!({"type": kind, "uuid": "u", "parentUuid": "p", "sessionId": "s", "cwd": "/x", "version": "2",
            "timestamp": "2026-11-16T23:10:53.109Z", "isSidechain": false, "gitBranch": "main"})
    };
    let with = |mut line: Value, key: &str, value: Value| {
        line[key] = value;
        line
    };
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let patch = json!([{"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-one", "+two", " three"]}]);
    let usage = json!({"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2});
    vec![
        with(head("user"), "message", json!({"role": "user", "content": "a prompt"})),
        with(
            head("user"),
            "message",
            json!({"role": "user", "content": [{"type": "text", "text": "and"}, picture]}),
        ),
        with(
            head("assistant"),
            "message",
            json!({"role": "assistant", "id": "m", "model": "claude-opus-4-5", "usage": usage, "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "# Words\n\n| a | b |\n|-|-|\n| 1 | 2 |\n\n```rust\nfn\n```\n\n[l](https://x.test)"},
                {"type": "tool_use", "id": "c", "name": "Any", "input": {"command": "ls", "deep": {"a": ["b"]}}},
                {"type": "server_tool_use", "id": "d", "name": "web_search", "input": {"query": "q"}}]}),
        ),
        with(
            with(
                head("user"),
                "message",
                json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "is_error": true,
                    "content": [{"type": "text", "text": "out\u{1b}[31mred"}, picture]}]}),
            ),
            "toolUseResult",
            json!({"filePath": "/x/a", "structuredPatch": patch, "stdout": "o", "stderr": "e", "interrupted": false}),
        ),
        with(
            head("attachment"),
            "attachment",
            json!({"type": "file", "filename": "f", "content": {"file": {"content": "c"}}}),
        ),
        with(head("system"), "subtype", json!("compact_boundary")),
        json!({"type": "custom-title", "customTitle": "named", "sessionId": "s"}),
        json!({"type": "haft", "kind": "call", "call": "c", "tool": "Any", "agent": "main",
            "timestamp": "2026-11-16T23:10:53.109Z", "micros": {"queue": 1, "hooks": 2, "permission": 3, "run": 4, "after": 5},
            "error": "failed", "decision": {"behavior": "deny", "source": "rule", "reason": "a rule", "rule": "Any(rm:*)", "way_out": "allow it"},
            "denied_by": "rule", "journal": "j1"}),
        json!({"type": "haft", "kind": "asked", "request": 1, "timestamp": "2026-11-16T23:10:53.109Z",
            "model": "claude-opus-4-5", "purpose": "conversation", "usage": usage, "usd": 0.5,
            "bust": {"request": 1, "cause": "compaction", "detail": "why", "tokens": 9}}),
    ]
}

/// Collects the JSON pointers of all values.
fn places(value: &Value, here: &str, into: &mut Vec<String>) {
    into.push(here.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, it)| places(it, &format!("{here}/{key}"), into)),
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, it)| places(it, &format!("{here}/{at}"), into));
        }
        _ => (),
    }
}

/// Replaces every string by the injection text, except for those that determine the kind of a line.
fn all_evil(value: &Value, key: &str) -> Value {
    match value {
        Value::Object(map) => {
            Value::Object(map.iter().map(|(key, it)| (key.clone(), all_evil(it, key))).collect())
        }
        Value::Array(list) => list.iter().map(|it| all_evil(it, key)).collect(),
        Value::String(_) if !matches!(key, "type" | "kind" | "role" | "subtype" | "purpose" | "cause") => {
            json!(EVIL)
        }
        other => other.clone(),
    }
}

/// Tags that rendered pages may contain.
const TAGS: &[&str] = &[
    "!doctype",
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "header",
    "nav",
    "main",
    "section",
    "article",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "p",
    "div",
    "span",
    "a",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "pre",
    "code",
    "em",
    "strong",
    "del",
    "blockquote",
    "hr",
    "br",
    "time",
    "button",
    "img",
    "svg",
    "rect",
    "path",
    "line",
    "text",
    "g",
    "desc",
    "figure",
    "figcaption",
    "small",
    "b",
    "i",
    "sup",
    "abbr",
    "input",
];

/// Parses markup like a browser and returns the first element or attribute that the renderer does not
/// produce.
fn strange(html: &str) -> Option<String> {
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        let closes = after.starts_with('/');
        let name: String = after
            .trim_start_matches('/')
            .chars()
            .take_while(|it| it.is_ascii_alphanumeric() || *it == '!')
            .collect();
        let name = name.to_ascii_lowercase();
        if !TAGS.contains(&name.as_str()) {
            return Some(format!("the tag {name:?} in {:?}", &after[..after.len().min(80)]));
        }
        let mut tag = &after[name.len() + usize::from(closes)..];
        while let Some(found) = tag.find(['"', '>']) {
            let (before, quoted) = tag.split_at(found);
            if quoted.starts_with('>') {
                tag = quoted;
                break;
            }
            let attribute = before.trim().trim_end_matches('=');
            let (value, after) = quoted[1..].split_once('"')?;
            let fine = match attribute {
                "href" => value.starts_with('#'),
                "src" => value.starts_with("data:image/"),
                it => {
                    it.chars().all(|it| it.is_ascii_lowercase() || "-1234567890 ".contains(it))
                        && !it.starts_with("on")
                }
            };
            if !fine && name != "html" && name != "meta" && name != "svg" {
                return Some(format!("the attribute {attribute:?} = {value:?} of {name}"));
            }
            tag = after;
        }
        rest = tag;
        if name == "style" && !closes {
            rest = rest.split_once("</style>").map_or("", |it| it.1);
        }
    }
    html.contains('\u{1b}').then(|| String::from("an escape"))
}

/// Renders every kind of output for a log.
fn everything(index: &LogIndex) -> Vec<(&'static str, String)> {
    let part = |of: &dyn Fn(&mut Html)| {
        let mut out = Html::default();
        of(&mut out);
        out.into_text()
    };
    let rows = |form: RowForm| {
        part(&|out| {
            (0..index.rows.len()).for_each(|number| {
                row(out, index, number, form);
                detail(out, index, number, form);
            });
        })
    };
    let place = LogLocation {
        key: String::from("k"),
        path: Path::new("/x").join(EVIL.replace('/', "")),
        title: EVIL.to_owned(),
        size: 1,
        modified: SystemTime::UNIX_EPOCH,
    };
    let change = JournalChange {
        id: EVIL.to_owned(),
        time: 0,
        tool: EVIL.to_owned(),
        standing: "in effect",
        can_undo: true,
        files: vec![JournalledFile {
            path: EVIL.to_owned(),
            what: "changed",
            added: 1,
            removed: 1,
            lines: vec![EVIL.to_owned(), format!("+{EVIL}"), format!("-{EVIL}")],
        }],
    };
    let agent = ShownAgent {
        id: EVIL.to_owned(),
        parent: Some(EVIL.to_owned()),
        kind: EVIL.to_owned(),
        description: EVIL.to_owned(),
        status: EVIL.to_owned(),
        model: EVIL.to_owned(),
        calls: 1,
        micros: Some(1),
        usd: 0.1,
        key: Some(EVIL.to_owned()),
    };
    vec![
        ("page", page(index, None)),
        ("rows", rows(RowForm::Folded)),
        ("whole rows", rows(RowForm::Whole)),
        ("facts", part(&|out| facts(out, index))),
        ("timeline", part(&|out| timeline(out, index, None))),
        ("cost", part(&|out| cost(out, index))),
        ("window", part(&|out| window(out, index))),
        ("permission", part(&|out| permissions(out, index))),
        ("dashboard", part(&|out| dashboard(out, &[(place.clone(), LogSummary::of_index(index))]))),
        ("files", part(&|out| files(out, std::slice::from_ref(&change), UndoOffer::Offered))),
        ("agents", part(&|out| agents(out, std::slice::from_ref(&agent)))),
    ]
}

fn check(lines: &[Value], what: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let text: String = lines.iter().map(|it| format!("{it}\n")).collect();
    std::fs::write(&path, text).unwrap();
    let index = LogIndex::read(&path, Catalog::built_in()).unwrap();
    for (name, html) in everything(&index) {
        if let Some(found) = strange(&html) {
            panic!("{name}, {what}: {found}");
        }
    }
}

#[test]
fn foreign_markup_is_detected() {
    for (html, fine) in [
        ("<p class=\"a\">x &lt;script&gt;</p>", true),
        ("<a href=\"#x\">y</a>", true),
        ("<script>", false),
        ("<p onclick=\"x\">", false),
        ("<a href=\"javascript:x\">", false),
        ("<img src=\"https://x\">", false),
        ("<!-- x -->", false),
    ] {
        assert_eq!(strange(html).is_none(), fine, "{html}");
    }
}

#[test]
fn log_fields_never_become_markup() {
    let lines = lines();
    check(&lines, "as it is");
    let evil: Vec<Value> = lines.iter().map(|it| all_evil(it, "")).collect();
    check(&evil, "every text at once");
    for (at, line) in lines.iter().enumerate() {
        let mut found = Vec::new();
        places(line, "", &mut found);
        for place in found {
            let mut changed = lines.clone();
            if let Some(it) = changed[at].pointer_mut(&place) {
                *it = json!(EVIL);
            }
            check(&changed, &format!("line {at}, {place}"));
            // Field names are untrusted too.
            if let Some(Value::Object(map)) = lines[at].pointer(&place) {
                let renamed = map.iter().map(|(key, it)| (format!("{key}{EVIL}"), it.clone())).collect();
                let mut changed = lines.clone();
                if let Some(it) = changed[at].pointer_mut(&place) {
                    *it = Value::Object(renamed);
                }
                check(&changed, &format!("line {at}, names in {place}"));
            }
        }
    }
}
