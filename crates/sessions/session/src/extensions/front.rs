//! Front matter of Markdown files: agents, skills, commands.
//!
//! A hand-written parser: strict YAML parsers reject a file for a colon in a description, which is
//! common. This one parses line by line, reports lines it cannot parse with their number, and continues.

use std::path::Path;

use serde_json::{Map, Value};

/// Maximum size of a file in bytes.
const LONGEST: u64 = 1 << 20;

/// Maximum nesting depth of lists and tables.
const DEEPEST: usize = 12;

/// A file with front matter.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FrontMatter {
    fields: Vec<FrontField>,
    /// The text after the front matter.
    pub(crate) body: String,
    /// Lines that could not be parsed.
    pub(crate) problems: Vec<LineProblem>,
}

/// A `key: value` entry.
#[derive(Clone, Debug, PartialEq)]
struct FrontField {
    key: String,
    line: usize,
    value: Value,
}

/// A problem in one line of a file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LineProblem {
    /// Line number, starting at 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

/// A line of the front matter, without its indentation.
#[derive(Clone, Copy)]
struct HeadLine<'a> {
    number: usize,
    indent: usize,
    text: &'a str,
}

impl FrontMatter {
    /// Reads and parses a file. Fails with a reason if it cannot be read or is too large.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let found = std::fs::metadata(path).map_err(|err| err.to_string())?;
        if !found.is_file() {
            return Err(String::from("it is no file"));
        }
        if LONGEST < found.len() {
            return Err(format!("it has {} bytes; at most {LONGEST} are read", found.len()));
        }
        let bytes = std::fs::read(path).map_err(|err| err.to_string())?;
        let broken = match String::from_utf8(bytes) {
            Ok(text) => return Ok(Self::parse(&text)),
            Err(broken) => broken,
        };
        let (until, bytes) = (broken.utf8_error().valid_up_to(), broken.as_bytes());
        let mut front = Self::parse(&String::from_utf8_lossy(bytes));
        let line = 1 + bytes[..until].iter().filter(|byte| **byte == b'\n').count();
        let reason = "it is not UTF-8 here; what cannot be read is replaced: save it as UTF-8";
        front.problem(line, String::from(reason));
        Ok(front)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let text = text.trim_start_matches('\u{feff}');
        let whole = |problems| Self { body: text.trim().to_owned(), problems, ..Self::default() };
        let mut lines = text.split_inclusive('\n');
        let Some(first) = lines.next().filter(|it| it.trim_end() == "---") else { return whole(Vec::new()) };
        let mut offset = first.len();
        let mut head = Vec::new();
        for (idx, line) in lines.enumerate() {
            offset += line.len();
            let bare = line.trim_end();
            if bare == "---" {
                let mut front = Self { body: text[offset..].trim().to_owned(), ..Self::default() };
                front.take(&head);
                return front;
            }
            let trimmed = bare.trim_start();
            if !trimmed.is_empty() && !trimmed.starts_with('#') {
                head.push(HeadLine { number: idx + 2, indent: bare.len() - trimmed.len(), text: trimmed });
            }
        }
        whole(vec![LineProblem { line: 1, reason: String::from("the head is never closed with ---") }])
    }

    /// Creates front matter from values that are not from a file.
    pub(crate) fn of_fields(fields: Map<String, Value>, body: String) -> Self {
        let fields = fields.into_iter().map(|(key, value)| FrontField { key, line: 1, value });
        Self { fields: fields.collect(), body, problems: Vec::new() }
    }

    fn take(&mut self, lines: &[HeadLine<'_>]) {
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at];
            let end = at + 1 + lines[at + 1..].iter().take_while(|it| belongs(line, it)).count();
            let below = &lines[at + 1..end];
            at = end;
            let Some((key, rest)) = key_of(line.text) else {
                self.problem(line.number, format!("{:?} is no `key: value`", cut(line.text)));
                continue;
            };
            if self.fields.iter().any(|it| it.key == key) {
                self.problem(line.number, format!("`{key}` stands here a second time; the first one counts"));
                continue;
            }
            match value_of(rest, below, 0) {
                Ok(value) => {
                    self.fields.push(FrontField { key: key.to_owned(), line: line.number, value });
                }
                Err(problem) => self.problems.push(problem),
            }
        }
    }

    pub(crate) fn problem(&mut self, line: usize, reason: String) {
        self.problems.push(LineProblem { line, reason });
    }

    /// The value of a key, if it exists and is not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        let found = self.fields.iter().find(|it| it.key == key).map(|it| &it.value);
        found.filter(|it| !it.is_null() && it.as_str() != Some(""))
    }

    /// Line number of a key; 1 if it is missing.
    pub(crate) fn line_of(&self, key: &str) -> usize {
        self.fields.iter().find(|it| it.key == key).map_or(1, |it| it.line)
    }

    /// The string value of a key.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(on) => Some(on.to_string()),
            _ => None,
        }
    }

    /// The boolean value of a key; `None` if it is missing.
    pub(crate) fn switch(&self, key: &str) -> Option<bool> {
        match self.text(key)?.to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" => Some(true),
            "false" | "no" | "off" => Some(false),
            _ => None,
        }
    }

    /// The names listed by a key: a list, or a comma-separated string. Commas in brackets are part of a
    /// name.
    pub(crate) fn names(&self, key: &str) -> Option<Vec<String>> {
        // An empty list or a quoted empty string means an explicit "none".
        let value = self.fields.iter().find(|it| it.key == key).map(|it| &it.value)?;
        match value {
            Value::Array(list) => Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
            Value::String(text) => Some(split_names(text)),
            _ => None,
        }
    }

    /// Whether [`names`](Self::names) covers the complete value. True for a missing key.
    pub(crate) fn lists_names(&self, key: &str) -> bool {
        match self.fields.iter().find(|it| it.key == key).map(|it| &it.value) {
            None | Some(Value::Null | Value::String(_)) => true,
            Some(Value::Array(list)) => list.iter().all(Value::is_string),
            Some(_) => false,
        }
    }

    /// The words listed by a key: a list, or a string separated by spaces or commas.
    pub(crate) fn words(&self, key: &str) -> Option<Vec<String>> {
        let names = self.names(key)?;
        Some(names.iter().flat_map(|it| it.split_whitespace()).map(str::to_owned).collect())
    }

    /// Keys that are not in `known`, with their line numbers.
    pub(crate) fn unknown<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = (&'a str, usize)> {
        let unknown = self.fields.iter().filter(|it| !known.contains(&it.key.as_str()));
        unknown.map(|it| (it.key.as_str(), it.line))
    }
}

/// Whether a line belongs to the value of the key above it.
fn belongs(key: HeadLine<'_>, line: &HeadLine<'_>) -> bool {
    key.indent < line.indent || (key.indent == line.indent && is_item(line.text))
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn key_of(text: &str) -> Option<(&str, &str)> {
    let (key, rest) = text.split_once(':')?;
    let is_end = rest.is_empty() || rest.starts_with([' ', '\t']);
    let fits = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-' | '.' | '*' | '"' | '\'');
    let key = key.trim();
    (is_end && !key.is_empty() && key.chars().all(fits)).then(|| (unquoted(key), rest.trim()))
}

/// Parses the value behind a key and on the lines below it.
fn value_of(rest: &str, below: &[HeadLine<'_>], depth: usize) -> Result<Value, LineProblem> {
    let is_block = matches!(rest.chars().next(), Some('|' | '>')) && rest.len() <= 3;
    match (rest, below) {
        (rest, below) if is_block => {
            let joint = if rest.starts_with('|') { "\n" } else { " " };
            Ok(Value::from(below.iter().map(|it| it.text).collect::<Vec<_>>().join(joint)))
        }
        ("", []) => Ok(Value::Null),
        ("", below) => block(below, depth + 1),
        (rest, []) => Ok(scalar(rest)),
        // A multi-line text.
        (rest, below) => {
            let parts: Vec<&str> = std::iter::once(rest).chain(below.iter().map(|it| it.text)).collect();
            Ok(scalar(&parts.join(" ")))
        }
    }
}

/// Parses a list or a table.
fn block(lines: &[HeadLine<'_>], depth: usize) -> Result<Value, LineProblem> {
    let Some(first) = lines.first() else { return Ok(Value::Null) };
    if DEEPEST < depth {
        let reason = String::from("lists are nested too deeply here");
        return Err(LineProblem { line: first.number, reason });
    }
    let is_list = is_item(first.text);
    let (mut list, mut table) = (Vec::new(), Map::new());
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let end = at + 1 + lines[at + 1..].iter().take_while(|it| line.indent < it.indent).count();
        let below = &lines[at + 1..end];
        at = end;
        let wrong = |reason: &str| LineProblem { line: line.number, reason: reason.to_owned() };
        if is_list {
            let item =
                line.text.strip_prefix('-').ok_or_else(|| wrong("this is no item of the list above"))?;
            let inner = item.trim_start();
            let moved =
                HeadLine { indent: line.indent + (line.text.len() - inner.len()), text: inner, ..line };
            list.push(match key_of(inner).filter(|_| !inner.starts_with(['"', '\'', '[', '{'])) {
                Some(_) => {
                    let all: Vec<HeadLine<'_>> =
                        std::iter::once(moved).chain(below.iter().copied()).collect();
                    block(&all, depth + 1)?
                }
                None => value_of(inner, below, depth)?,
            });
        } else {
            // A list may have the same indentation as its key.
            let more = lines[at..].iter().take_while(|it| it.indent == line.indent && is_item(it.text));
            let more = if below.is_empty() { more.count() } else { 0 };
            let below = if 0 < more { &lines[at..at + more] } else { below };
            at += more;
            let (key, rest) = key_of(line.text).ok_or_else(|| wrong("this is no `key: value`"))?;
            table.insert(key.to_owned(), value_of(rest, below, depth)?);
        }
    }
    Ok(if is_list { Value::Array(list) } else { Value::Object(table) })
}

fn scalar(text: &str) -> Value {
    let quoted = |mark: char| text.len() > 1 && text.starts_with(mark) && text.ends_with(mark);
    if quoted('"') {
        return serde_json::from_str(text).unwrap_or_else(|_| Value::from(unquoted(text)));
    }
    if quoted('\'') {
        return Value::from(unquoted(text).replace("''", "'"));
    }
    if text.starts_with('[') && text.ends_with(']') {
        let parsed = serde_json::from_str::<Value>(text).ok();
        return parsed.unwrap_or_else(|| {
            let names = split_names(&text[1..text.len() - 1]);
            Value::from(names.iter().map(|it| unquoted(it).to_owned()).collect::<Vec<_>>())
        });
    }
    if text.starts_with('{') && text.ends_with('}') {
        return serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    }
    let plain = text.split_once(" #").map_or(text, |(before, _)| before).trim_end();
    match plain {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" | "~" => Value::Null,
        plain => Value::from(plain),
    }
}

/// Splits names at commas, except in brackets.
fn split_names(text: &str) -> Vec<String> {
    let (mut names, mut name, mut depth) = (Vec::new(), String::new(), 0_usize);
    for it in text.chars() {
        match it {
            '(' | '{' => depth += 1,
            ')' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                names.push(std::mem::take(&mut name));
                continue;
            }
            _ => (),
        }
        name.push(it);
    }
    names.push(name);
    let names = names.iter().map(|it| unquoted(it.trim()).to_owned());
    names.filter(|it| !it.is_empty()).collect()
}

fn unquoted(text: &str) -> &str {
    let inner = |mark| text.strip_prefix(mark).and_then(|it| it.strip_suffix(mark));
    inner('"').or_else(|| inner('\'')).unwrap_or(text)
}

fn cut(text: &str) -> String {
    haft_types::text::one_line(text, 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn heads_are_read_line_by_line() {
        let check = |text: &str, want: Value, body: &str, problems: &[usize]| {
            let front = FrontMatter::parse(text);
            let found: Map<String, Value> =
                front.fields.iter().map(|it| (it.key.clone(), it.value.clone())).collect();
            assert_eq!(Value::Object(found), want, "{text:?}");
            assert_eq!(front.body, body, "{text:?}");
            let lines: Vec<usize> = front.problems.iter().map(|it| it.line).collect();
            assert_eq!(lines, problems, "{text:?} {:?}", front.problems);
        };
        check("plain", json!({}), "plain", &[]);
        check(
            "---\nname: a\ndescription: Use when: x, or: y\n---\nB",
            json!({"name": "a", "description": "Use when: x, or: y"}),
            "B",
            &[],
        );
        check("\u{feff}---\r\nname: x\r\n---\r\nB\r\n", json!({"name": "x"}), "B", &[]);
        check("---\nnever closed\n", json!({}), "---\nnever closed", &[1]);
        check(
            "---\ntools: Read, Agent(a, b) , Bash\n---\n",
            json!({"tools": "Read, Agent(a, b) , Bash"}),
            "",
            &[],
        );
        check("---\ntools:\n  - Read\n  - \"Grep\"\n---\n", json!({"tools": ["Read", "Grep"]}), "", &[]);
        check(
            "---\ntools:\n- Read\n- Grep\nname: y\n---\n",
            json!({"tools": ["Read", "Grep"], "name": "y"}),
            "",
            &[],
        );
        check("---\ntools: []\nx: [a, 'b']\n---\n", json!({"tools": [], "x": ["a", "b"]}), "", &[]);
        check(
            "---\nd: |\n  one\n  two\ne: >-\n  a\n  b\n---\n",
            json!({"d": "one\ntwo", "e": "a b"}),
            "",
            &[],
        );
        check("---\nd: one\n  two\n---\n", json!({"d": "one two"}), "", &[]);
        check("---\n# c\n!!! what\nname: a\nname: b\n---\n", json!({"name": "a"}), "", &[3, 5]);
        check(
            "---\nhooks:\n  PreToolUse:\n    - matcher: Bash\n      hooks:\n        - type: command\n          command: \"x: y\"\n---\n",
            json!({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "x: y"}]}]}}),
            "",
            &[],
        );
        check("---\nhooks:\n  nonsense here\n---\n", json!({}), "", &[3]);
        check(
            "---\n\tname: tab\nbackground: true # yes\nn: 5\n---\n",
            json!({"name": "tab", "background": true, "n": "5"}),
            "",
            &[],
        );
        let front = FrontMatter::parse("---\ntools: Read, Agent(a, b)\nnone: []\nblank: ''\nopen:\n---\n");
        assert_eq!(front.names("tools"), Some(vec!["Read".to_owned(), "Agent(a, b)".to_owned()]));
        assert_eq!(front.names("none"), Some(Vec::new()));
        assert_eq!(front.names("blank"), Some(Vec::new()));
        assert_eq!(front.names("open"), None);
        assert_eq!(front.names("other"), None);
    }
}
