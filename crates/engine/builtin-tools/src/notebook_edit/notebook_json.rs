//! Locates the cells in the JSON text of a notebook.
//!
//! A JSON library would rewrite the whole file, which is usually under version control; this code
//! changes only the necessary bytes.

use std::ops::Range;

use haft_workspace::text::Splice;
use serde_json::{Value, value::RawValue};

/// A notebook and the positions of its cells.
pub(super) struct Notebook<'a> {
    text: &'a str,
    value: Value,
    cells: Vec<CellSpan>,
    /// Byte range of the list of cells, from `[` to `]` inclusive.
    list: Range<usize>,
}

struct CellSpan {
    /// Byte range of the object.
    object: Range<usize>,
    members: Vec<Member>,
    id: String,
}

struct Member {
    key: String,
    /// Byte range from the quote of the key to the end of the value.
    whole: Range<usize>,
    value: Range<usize>,
}

#[derive(serde::Deserialize)]
struct Outer<'a> {
    #[serde(borrow)]
    cells: &'a RawValue,
}

impl<'a> Notebook<'a> {
    /// Parses the notebook and locates the cells. The error says why it is not a valid notebook.
    pub(super) fn parse(text: &'a str) -> Result<Self, String> {
        let bad = |err: serde_json::Error| format!("it is not a valid notebook ({err}).");
        let value: Value = serde_json::from_str(text).map_err(bad)?;
        if !value.get("cells").is_some_and(Value::is_array) {
            return Err("it has no list of cells (notebook format 4 is needed).".to_owned());
        }
        let outer: Outer<'a> = serde_json::from_str(text).map_err(bad)?;
        let list = place_of(text, outer.cells.get());
        let raw: Vec<&RawValue> = serde_json::from_str(outer.cells.get()).map_err(bad)?;
        let mut cells = Vec::new();
        for (at, cell) in raw.into_iter().enumerate() {
            let object = place_of(text, cell.get());
            let id = value.pointer(&format!("/cells/{at}/id")).and_then(Value::as_str);
            let id = id.map_or_else(|| format!("cell-{at}"), str::to_owned);
            cells.push(CellSpan { members: members(text, object.clone()), object, id });
        }
        Ok(Self { text, value, cells, list })
    }

    pub(super) fn language(&self) -> String {
        crate::read::language_of(&self.value)
    }

    /// Returns the index of the cell with this id, or of `cell-N`.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.cells.iter().position(|cell| cell.id == id).or_else(|| {
            let number: usize = id.strip_prefix("cell-")?.parse().ok()?;
            (number < self.cells.len()).then_some(number)
        })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.cells.iter().map(|cell| cell.id.as_str())
    }

    fn cell(&self, at: usize) -> &Value {
        self.value.get("cells").and_then(|it| it.get(at)).unwrap_or(&Value::Null)
    }

    pub(super) fn cell_type(&self, at: usize) -> String {
        self.cell(at).get("cell_type").and_then(Value::as_str).unwrap_or("raw").to_owned()
    }

    pub(super) fn source(&self, at: usize) -> String {
        crate::read::joined(self.cell(at).get("source"))
    }

    /// Returns an unused cell id, if the notebook format has ids (4.5 or newer).
    pub(super) fn new_id(&self) -> Option<String> {
        let number = |key: &str| self.value.get(key).and_then(Value::as_u64).unwrap_or(0);
        let has_ids = (4, 5) <= (number("nbformat"), number("nbformat_minor"));
        let seed = haft_workspace::ContentHash::hash(self.text.as_bytes()).to_string();
        let id = seed[..8].to_owned();
        has_ids.then(|| if self.ids().any(|it| it == id) { seed[8..24].to_owned() } else { id })
    }

    /// Replaces the source of a cell, and its type if one is given. Removes its outputs, which belong to
    /// the old source.
    pub(super) fn replace(
        &self,
        at: usize,
        layout: &Layout,
        new_type: Option<&str>,
        source: &str,
    ) -> Vec<Splice> {
        let place = &self.cells[at];
        let mut splices = Vec::new();
        let mut set = |key: &str, value: String| {
            if let Some(member) = place.members.iter().find(|it| it.key == key)
                && self.text[member.value.clone()] != value
            {
                splices.push(Splice { range: member.value.clone(), text: value });
            }
        };
        let changed = self.source(at) != source;
        if changed {
            set("source", layout.source(source, self.as_list(at)));
        }
        let is_code = new_type.map_or(self.cell_type(at) == "code", |it| it == "code");
        if is_code && changed && new_type.is_none() {
            set("outputs", "[]".to_owned());
            set("execution_count", "null".to_owned());
        }
        if let Some(new_type) = new_type {
            set("cell_type", format!("\"{new_type}\""));
            if is_code {
                splices.extend(self.add_code_members(at, layout))
            } else {
                splices.extend(self.remove_members(at, &["outputs", "execution_count"]))
            }
        }
        splices.sort_by_key(|it| it.range.start);
        splices
    }

    /// Whether the source of a cell is a list of lines.
    fn as_list(&self, at: usize) -> bool {
        !self.cell(at).get("source").is_some_and(Value::is_string)
    }

    fn remove_members(&self, at: usize, keys: &[&str]) -> Vec<Splice> {
        let members = &self.cells[at].members;
        let mut splices = Vec::new();
        for (index, member) in members.iter().enumerate().filter(|(_, it)| keys.contains(&it.key.as_str())) {
            // Includes the comma before the cell; for the first cell, the one after it.
            let range = match (index.checked_sub(1).and_then(|it| members.get(it)), members.get(index + 1)) {
                (Some(before), _) => before.whole.end..member.whole.end,
                (None, Some(after)) => member.whole.start..after.whole.start,
                (None, None) => member.whole.clone(),
            };
            splices.push(Splice { range, text: String::new() });
        }
        splices
    }

    fn add_code_members(&self, at: usize, layout: &Layout) -> Option<Splice> {
        let place = &self.cells[at];
        let has = |key: &str| place.members.iter().any(|it| it.key == key);
        let mut text = String::new();
        for (key, value) in [("execution_count", "null"), ("outputs", "[]")] {
            if !has(key) {
                text.push_str(&format!(",{}\"{key}\":{}{value}", layout.break_at(3), layout.space()));
            }
        }
        let end = place.members.last()?.whole.end;
        (!text.is_empty()).then_some(Splice { range: end..end, text })
    }

    /// Inserts a new cell before the cell with this index.
    pub(super) fn insert(
        &self,
        at: usize,
        layout: &Layout,
        kind: &str,
        id: Option<&str>,
        source: &str,
    ) -> Splice {
        let cell = layout.cell(kind, id, source);
        let (start, text) = match (at.checked_sub(1).and_then(|it| self.cells.get(it)), self.cells.get(at)) {
            (Some(before), _) => (before.object.end, format!(",{}{cell}", layout.break_at(2))),
            (None, Some(first)) => (first.object.start, format!("{cell},{}", layout.break_at(2))),
            (None, None) => {
                let text = format!("[{}{cell}{}]", layout.break_at(2), layout.break_at(1));
                return Splice { range: self.list.clone(), text };
            }
        };
        Splice { range: start..start, text }
    }

    /// Removes a cell with one of its commas.
    pub(super) fn remove(&self, at: usize) -> Splice {
        let object = &self.cells[at].object;
        let before = at.checked_sub(1).and_then(|it| self.cells.get(it));
        let range = match (before, self.cells.get(at + 1)) {
            (Some(before), _) => before.object.end..object.end,
            (None, Some(after)) => object.start..after.object.start,
            (None, None) => return Splice { range: self.list.clone(), text: "[]".to_owned() },
        };
        Splice { range, text: String::new() }
    }
}

/// Returns the byte range of `part` in `text`. `part` must be a slice of `text`.
fn place_of(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

/// Locates the members of an object in valid JSON.
fn members(text: &str, object: Range<usize>) -> Vec<Member> {
    let bytes = text.as_bytes();
    let mut members = Vec::new();
    let mut at = object.start + 1;
    while at < object.end {
        at = skip_blank(bytes, at);
        if bytes.get(at) != Some(&b'"') {
            at += 1;
            continue;
        }
        let key_end = skip_value(bytes, at);
        let key: String = serde_json::from_str(&text[at..key_end]).unwrap_or_default();
        let colon = skip_blank(bytes, key_end);
        let start = skip_blank(bytes, colon + 1);
        let end = skip_value(bytes, start);
        members.push(Member { key, whole: at..end, value: start..end });
        at = end;
        while at < object.end && bytes[at] != b',' {
            at += 1;
        }
        at += 1;
    }
    members
}

fn skip_blank(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

/// Returns the end of the value that starts at `start`.
fn skip_value(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    let mut depth = 0_usize;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at += 1;
                while let Some(byte) = bytes.get(at).filter(|it| **it != b'"') {
                    at += if *byte == b'\\' { 2 } else { 1 };
                }
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                if depth == 0 {
                    return at;
                }
                depth -= 1;
            }
            b',' | b' ' | b'\n' | b'\t' | b'\r' if depth == 0 => return at,
            _ => (),
        }
        at += 1;
        if depth == 0 && matches!(byte, b'"' | b']' | b'}') {
            return at;
        }
    }
    at
}

/// Formatting of a notebook, which new parts follow.
pub(super) struct Layout {
    /// One indentation step; `None` if the notebook is on one line.
    step: Option<String>,
    /// Whether a space follows a colon.
    spaced: bool,
    /// Whether non-ASCII characters are escaped.
    escaped: bool,
}

impl Layout {
    pub(super) fn of(notebook: &Notebook<'_>) -> Self {
        let text = notebook.text;
        let step = text.find('\n').map(|at| {
            let rest = &text[at + 1..];
            let step = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            if step == 0 { " ".to_owned() } else { rest[..step].to_owned() }
        });
        let spaced = text.contains("\": ") || !text.contains("\":");
        let escaped = text.is_ascii() && text.contains("\\u");
        Self { step, spaced, escaped }
    }

    fn break_at(&self, depth: usize) -> String {
        match &self.step {
            Some(step) => format!("\n{}", step.repeat(depth)),
            None => if self.spaced { " " } else { "" }.to_owned(),
        }
    }

    fn space(&self) -> &'static str {
        if self.spaced { " " } else { "" }
    }

    fn string(&self, text: &str) -> String {
        let quoted = Value::from(text).to_string();
        if !self.escaped {
            return quoted;
        }
        let mut out = String::new();
        for character in quoted.chars() {
            if character.is_ascii() {
                out.push(character)
            } else {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
        out
    }

    /// Formats a source as a list of lines or as one string.
    fn source(&self, source: &str, as_list: bool) -> String {
        if !as_list {
            return self.string(source);
        }
        let lines: Vec<String> = source.split_inclusive('\n').map(|line| self.string(line)).collect();
        if lines.is_empty() {
            return "[]".to_owned();
        }
        let separator = format!(",{}", self.break_at(4));
        match self.step {
            Some(_) => format!("[{}{}{}]", self.break_at(4), lines.join(&separator), self.break_at(3)),
            None => format!("[{}]", lines.join(&separator)),
        }
    }

    /// Formats a whole cell, with members in the order of the notebook format.
    fn cell(&self, kind: &str, id: Option<&str>, source: &str) -> String {
        let code = kind == "code";
        let mut members = vec![("cell_type", format!("\"{kind}\""))];
        if code {
            members.push(("execution_count", "null".to_owned()));
        }
        if let Some(id) = id {
            members.push(("id", format!("\"{id}\"")));
        }
        members.push(("metadata", "{}".to_owned()));
        if code {
            members.push(("outputs", "[]".to_owned()));
        }
        members.push(("source", self.source(source, /*as_list*/ true)));
        let members: Vec<String> =
            members.into_iter().map(|(key, value)| format!("\"{key}\":{}{value}", self.space())).collect();
        let separator = format!(",{}", self.break_at(3));
        match self.step {
            Some(_) => format!("{{{}{}{}}}", self.break_at(3), members.join(&separator), self.break_at(2)),
            None => format!("{{{}}}", members.join(&separator)),
        }
    }
}
