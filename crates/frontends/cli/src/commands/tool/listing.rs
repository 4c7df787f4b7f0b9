//! Prints results of read-only tools in the format of the corresponding command: `cat -n`, `rg`, `tree`.

use haft_console::style::{clean, painted};
use haft_tool_runtime::CallReport;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

/// A result split into standard output and remarks.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Listing {
    /// For standard output.
    pub(crate) body: String,
    /// For standard error: what was cut off or skipped.
    pub(crate) notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Look {
    /// Without colours, for another program.
    Plain,
    /// With colours, for a terminal.
    Coloured,
}

impl Look {
    fn paint(self, text: &str, paint: &str) -> String {
        painted(text, paint, self == Self::Coloured)
    }
}

/// The listing of a result of a read-only tool; `None` for other tools.
pub(crate) fn of(report: &CallReport, input: &Value, look: Look) -> Option<Listing> {
    let data = report.data.as_ref()?;
    let said = report.content.to_text();
    match report.name.as_str() {
        "Read" if data["type"] == "text" => Some(numbered(&data["file"], look)),
        "Read" if ["notebook", "pdf", "parts", "binary"].iter().any(|it| data["type"] == *it) => {
            Some(Listing { body: ended(&clean(&said)), notes: Vec::new() })
        }
        "Glob" => Some(with_notes(names(data), &said)),
        "Grep" => {
            let mut listing = match data["content"].as_str() {
                Some(content) => with_notes(content.to_owned(), &said),
                None => with_notes(names(data), &said),
            };
            if look == Look::Coloured {
                listing.body = coloured(&listing.body, data, input);
            }
            Some(listing)
        }
        "LS" => Some(tree(data, &said, look)),
        "WebFetch" => Some(page(data, look)),
        "WebSearch" => Some(found(data, look)),
        _ => data["stdout"].as_str().map(|printed| command(data, printed, look)),
    }
}

/// The fetched part of a web page. Its URL and the offset of the rest are remarks.
fn page(data: &Value, look: Look) -> Listing {
    let word = |name: &str| data[name].as_str().unwrap_or_default();
    let size = haft_types::text::thousands(data["bytes"].as_u64().unwrap_or(0));
    let title = if word("title").is_empty() { word("url") } else { word("title") };
    let mut notes = vec![format!("{} {} · {size} bytes · {title}", data["code"], word("codeText"))];
    if let Some(next) = data["nextOffset"].as_u64() {
        let total = haft_types::text::thousands(data["totalChars"].as_u64().unwrap_or(0));
        notes.push(format!("of {total} characters; offset {next} goes on"));
    }
    notes.extend(texts(&data["notes"]));
    let path = data["savedTo"].as_str().map(|it| format!("saved to {it}"));
    let elsewhere = data["redirectTo"].as_str().map(|it| format!("sends on to {it}"));
    notes.extend(path.into_iter().chain(elsewhere));
    let body = ended(word("result"));
    Listing { body: if look == Look::Plain { body } else { clean(&body) }, notes }
}

/// Web search results: title, URL, excerpt.
fn found(data: &Value, look: Look) -> Listing {
    let mut body = String::new();
    for hit in data["results"].as_array().into_iter().flatten() {
        let word = |name: &str| clean(hit[name].as_str().unwrap_or_default());
        let date = hit["date"].as_str().map(|it| format!("  ({})", clean(it))).unwrap_or_default();
        body.push_str(&format!("{}{}\n", look.paint(&word("title"), "1"), look.paint(&date, "2")));
        body.push_str(&format!("  {}\n", look.paint(&word("url"), "36")));
        for line in word("snippet").lines().filter(|it| !it.trim().is_empty()) {
            body.push_str(&format!("  {}\n", line.trim()));
        }
        body.push('\n');
    }
    if let Some(said) = data["summary"].as_str() {
        body.push_str(&ended(&clean(said)));
    }
    let count = data["results"].as_array().map_or(0, Vec::len);
    let results = if count == 1 { "result" } else { "results" };
    let mut notes = vec![format!("{count} {results} from {}", data["provider"].as_str().unwrap_or_default())];
    notes.extend(texts(&data["notes"]));
    Listing { body, notes }
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

/// The complete output of a command, as the user's shell would print it.
fn command(data: &Value, printed: &str, look: Look) -> Listing {
    let whole = data["persistedOutputPath"].as_str().and_then(|path| std::fs::read(path).ok());
    let whole = whole.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let body = ended(&whole.unwrap_or_else(|| printed.to_owned()));
    let mut notes: Vec<String> = Vec::new();
    if let Some(code) = data["exitCode"].as_i64().filter(|it| *it != 0) {
        notes.push(format!("exit code {code}"));
    }
    if let Some(task) = data["backgroundTaskId"].as_str() {
        notes.push(format!("it goes on in the background as {task}"));
    }
    let said = data["notes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    notes.extend(said.map(str::to_owned));
    Listing { body: if look == Look::Plain { body } else { clean(&body) }, notes }
}

/// Lines with numbers, like `cat -n`.
fn numbered(file: &Value, look: Look) -> Listing {
    let first = file["startLine"].as_u64().unwrap_or(1);
    let count = usize::try_from(file["numLines"].as_u64().unwrap_or(0)).unwrap_or(usize::MAX);
    let content = file["content"].as_str().unwrap_or_default();
    let mut body = String::new();
    for (line, number) in content.split('\n').zip(first..).take(count) {
        let number = look.paint(&format!("{number:>6}"), "2");
        let line = if look == Look::Plain { line.to_owned() } else { clean(line) };
        body.push_str(&format!("{number}\t{line}\n"));
    }
    let notes = file["notices"].as_array().into_iter().flatten().filter_map(Value::as_str);
    Listing { body, notes: notes.map(str::to_owned).collect() }
}

fn names(data: &Value) -> String {
    let names: Vec<&str> =
        data["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.join("\n")
}

/// The model's text consists of the result and then the remarks; this splits them.
fn with_notes(body: String, said: &str) -> Listing {
    let rest = said.strip_prefix(body.as_str()).unwrap_or(said).trim_start_matches('\n');
    let notes = rest.lines().map(str::to_owned).collect();
    Listing { body: ended(&body), notes }
}

fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

/// Like `rg` on a terminal: a heading per file, coloured line numbers and matches.
fn coloured(body: &str, data: &Value, input: &Value) -> String {
    let paths: Vec<&str> =
        data["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if data["mode"] != "content" {
        return body.lines().map(|line| painted_path(line, &paths)).collect();
    }
    let regex = highlighter(input);
    let mut out = String::new();
    let mut heading = "";
    for line in body.lines() {
        if line == "--" {
            out.push_str("--\n");
            continue;
        }
        let found = paths.iter().find_map(|path| line.strip_prefix(path).map(|rest| (*path, rest)));
        let (path, rest) = found.unwrap_or(("", line));
        let rest = if found.is_some() { rest.get(1..).unwrap_or_default() } else { rest };
        if !path.is_empty() && path != heading {
            let gap = if heading.is_empty() { "" } else { "\n" };
            out.push_str(&format!("{gap}{}\n", painted(&clean(path), "35", true)));
            heading = path;
        }
        out.push_str(&hit(rest, regex.as_ref()));
    }
    out
}

/// Colours a line `12:text` or `12-text`. A line without a number is returned unchanged.
fn hit(line: &str, regex: Option<&Regex>) -> String {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let (number, text) = line.split_at(digits);
    let (mark, text) = match text.chars().next() {
        Some(mark @ (':' | '-')) if 0 < digits => (mark, &text[1..]),
        _ => return format!("{}\n", highlighted(line, regex)),
    };
    let text = if mark == ':' { highlighted(text, regex) } else { clean(text) };
    format!("{}{mark}{text}\n", painted(number, "32", true))
}

fn highlighted(text: &str, regex: Option<&Regex>) -> String {
    let Some(regex) = regex else { return clean(text) };
    let mut out = String::new();
    let mut from = 0;
    for found in regex.find_iter(text).filter(|it| !it.is_empty()) {
        out.push_str(&clean(&text[from..found.start()]));
        out.push_str(&painted(&clean(found.as_str()), "1;31", true));
        from = found.end();
    }
    out.push_str(&clean(&text[from..]));
    out
}

/// The call's search pattern, for highlighting. A pattern this regex engine does not support is not
/// highlighted.
fn highlighter(input: &Value) -> Option<Regex> {
    let pattern = input["pattern"].as_str()?;
    let ignore_case = input["-i"] == true;
    RegexBuilder::new(pattern).case_insensitive(ignore_case).multi_line(true).build().ok()
}

fn painted_path(line: &str, paths: &[&str]) -> String {
    let path = paths.iter().filter(|path| line.starts_with(**path)).max_by_key(|path| path.len());
    let path = path.copied().unwrap_or_default();
    format!("{}{}\n", painted(&clean(path), "35", true), clean(&line[path.len()..]))
}

/// An indented directory tree, like `tree`.
fn tree(data: &Value, said: &str, look: Look) -> Listing {
    let lines: Vec<&str> = data["tree"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let top = data["path"].as_str().unwrap_or("./");
    let mut body = format!("{}\n", look.paint(&clean(top), "1;34"));
    for (at, line) in lines.iter().enumerate() {
        let name = line.trim_start_matches(' ');
        let name = match name.split_once("/  ") {
            Some((dir, rest)) => format!("{}  {}", look.paint(&format!("{}/", clean(dir)), "1;34"), rest),
            None if name.ends_with('/') => look.paint(&clean(name), "1;34"),
            None => clean(name),
        };
        body.push_str(&format!("{}{name}\n", look.paint(&branches(&lines, at), "2")));
    }
    let told = lines.len() + 1;
    Listing { body, notes: said.lines().skip(told).map(str::to_owned).collect() }
}

fn level(line: &str) -> usize {
    (line.len() - line.trim_start_matches(' ').len()) / 2
}

/// The tree's connecting lines in front of an entry, one column per level.
fn branches(lines: &[&str], at: usize) -> String {
    let depth = level(lines[at]);
    let goes_on = |wanted: usize| {
        let below = lines[at + 1..].iter().map(|line| level(line)).find(|level| *level <= wanted);
        below == Some(wanted)
    };
    let mut out: String = (0..depth).map(|column| if goes_on(column) { "│   " } else { "    " }).collect();
    out.push_str(if goes_on(depth) { "├── " } else { "└── " });
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_have_numbers() {
        let file = json!({ "content": "a\n\nb", "startLine": 9, "numLines": 3, "notices": ["[more]"] });
        let listing = numbered(&file, Look::Plain);
        assert_eq!(listing.body, "     9\ta\n    10\t\n    11\tb\n");
        assert_eq!(listing.notes, ["[more]"]);
        let empty = json!({ "content": "", "startLine": 1, "numLines": 0 });
        assert_eq!(numbered(&empty, Look::Plain), Listing::default());
        let odd = json!({ "content": "\u{1b}[2J", "startLine": 1, "numLines": 1 });
        assert_eq!(numbered(&odd, Look::Coloured).body, "\u{1b}[2m     1\u{1b}[0m\t\\u{1b}[2J\n");
    }

    #[test]
    fn pages_and_what_a_search_found_are_whole() {
        let text: String = (0..50).map(|it| format!("line {it}\n")).collect();
        let data = json!({"result": text, "code": 200, "codeText": "OK", "bytes": 5_000, "url": "https://x.test/",
            "title": "A page", "totalChars": 9_000, "nextOffset": 500, "notes": ["The text was in GBK."]});
        let listing = page(&data, Look::Plain);
        assert_eq!(listing.body, text);
        let size = haft_types::text::thousands(5_000);
        let total = haft_types::text::thousands(9_000);
        let want = [
            format!("200 OK · {size} bytes · A page"),
            format!("of {total} characters; offset 500 goes on"),
            String::from("The text was in GBK."),
        ];
        assert_eq!(listing.notes, want);
        let data = json!({"provider": "brave", "results": [
            {"title": "T\u{1b}[2J", "url": "https://x.test/", "snippet": "a\nb", "date": "2026-01-02"},
            {"title": "Other", "url": "https://y.test/"}]});
        let listing = found(&data, Look::Plain);
        let want = "T\\u{1b}[2J  (2026-01-02)\n  https://x.test/\n  a\n  b\n\nOther\n  https://y.test/\n\n";
        assert_eq!(listing.body, want);
        assert_eq!(listing.notes, ["2 results from brave"]);
    }

    #[test]
    fn matches_are_marked() {
        let data = json!({ "mode": "content", "filenames": ["src/a.rs", "b"] });
        let body = "src/a.rs:3:let a = 1;\nsrc/a.rs-4-rest\n--\nb:1:Let\n";
        let got = coloured(body, &data, &json!({ "pattern": "let", "-i": true }));
        let red = |text: &str| format!("\u{1b}[1;31m{text}\u{1b}[0m");
        let want = format!(
            "\u{1b}[35msrc/a.rs\u{1b}[0m\n\u{1b}[32m3\u{1b}[0m:{} a = 1;\n\u{1b}[32m4\u{1b}[0m-rest\n--\n\n\u{1b}[35mb\u{1b}[0m\n\u{1b}[32m1\u{1b}[0m:{}\n",
            red("let"),
            red("Let")
        );
        assert_eq!(got, want);
        let counts = json!({ "mode": "count", "filenames": ["a", "ab"] });
        let got = coloured("a:1\nab:2\n", &counts, &json!({}));
        assert_eq!(got, "\u{1b}[35ma\u{1b}[0m:1\n\u{1b}[35mab\u{1b}[0m:2\n");
    }

    #[test]
    fn trees_have_branches() {
        let data = json!({ "path": "./", "tree": ["a  1 B", "d/  2 files, 3 B", "  x  1 B", "  e/  1 file, 2 B", "    y  2 B", "z  9 B"] });
        let listing = tree(&data, "./\n1\n2\n3\n4\n5\n6\n[sum]", Look::Plain);
        let want = "./\n├── a  1 B\n├── d/  2 files, 3 B\n│   ├── x  1 B\n│   └── e/  1 file, 2 B\n│       └── y  2 B\n└── z  9 B\n";
        assert_eq!(listing.body, want);
        assert_eq!(listing.notes, ["[sum]"]);
    }
}
