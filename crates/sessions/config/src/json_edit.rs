//! Edits a JSON text so that it has a new value while key order, spelling of numbers and layout of
//! everything else stay unchanged.

use std::{collections::HashMap, ops::Range};

use serde_json::{Map, Value};

use crate::json_spans::{JsonNode, NodeKind, ObjectMember, scan};

/// Returns `text` edited so that its value changes from `old` to `new`. `None` if the text's value is
/// not `old`, or if the edited text would not parse as `new`.
pub(crate) fn rewrite(text: &str, old: &Map<String, Value>, new: &Map<String, Value>) -> Option<String> {
    let root = scan(text)?;
    let mut editor =
        Editor { text, unit: indent_unit(text, &root), newline: newline_of(text), edits: Vec::new() };
    match &root.kind {
        NodeKind::Object(members) => editor.object(&root, members, old, new),
        NodeKind::Array(_) | NodeKind::Scalar => return None,
    }
    let changed = editor.spliced()?;
    let means: Value = serde_json::from_str(&changed).ok()?;
    same(&means, &Value::Object(new.clone())).then_some(changed)
}

/// Formats an object as a new file.
pub(crate) fn render_new(value: &Map<String, Value>) -> String {
    format!("{:#}\n", Value::Object(value.clone()))
}

struct Editor<'a> {
    text: &'a str,
    unit: String,
    newline: &'static str,
    edits: Vec<(Range<usize>, String)>,
}

/// How the items of a container are separated.
#[derive(Clone, Debug)]
enum ObjectLayout {
    OneLine,
    /// Each on its own line, preceded by this indentation.
    Lines(String),
}

impl Editor<'_> {
    /// Applies all edits; `None` if they overlap.
    fn spliced(mut self) -> Option<String> {
        // At the same position, insertions come before removals.
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = String::with_capacity(self.text.len());
        let mut at = 0;
        for (range, replacement) in self.edits {
            out.push_str(self.text.get(at..range.start)?);
            out.push_str(&replacement);
            at = range.end;
        }
        out.push_str(self.text.get(at..)?);
        Some(out)
    }

    fn value(&mut self, node: &JsonNode, old: &Value, new: &Value) {
        if old == new {
            return;
        }
        match (&node.kind, old, new) {
            (NodeKind::Object(members), Value::Object(old), Value::Object(new)) => {
                self.object(node, members, old, new);
            }
            (NodeKind::Array(elements), Value::Array(old), Value::Array(new)) => {
                self.array(node, elements, old, new);
            }
            _ => {
                let rendered = self.rendered(new, &self.indent_at(node.range.start));
                self.edits.push((node.range.clone(), rendered));
            }
        }
    }

    fn object(
        &mut self,
        node: &JsonNode,
        members: &[ObjectMember],
        old: &Map<String, Value>,
        new: &Map<String, Value>,
    ) {
        // Of a duplicate key, the last one counts. The others are removed when the key changes, or an
        // older value would take effect.
        let last: HashMap<&str, usize> = members.iter().enumerate().map(|(at, it)| (&*it.key, at)).collect();
        let keep: Vec<bool> = members
            .iter()
            .enumerate()
            .map(|(at, member)| new.contains_key(&member.key) && last.get(&*member.key) == Some(&at))
            .collect();
        let layout = self.layout(node, members.first().map(|it| it.key_range.start));
        let fresh = new.iter().filter(|(key, _)| !last.contains_key(&***key));
        let fresh: Vec<String> =
            fresh.map(|(key, value)| self.rendered_member(key, value, &layout, node)).collect();
        if !keep.contains(&true) {
            let whole = self.container(('{', '}'), &fresh, node);
            self.edits.push((node.range.clone(), whole));
            return;
        }
        let places: Vec<Range<usize>> = members.iter().map(ObjectMember::range).collect();
        self.remove(&places, &keep);
        for (member, _) in members.iter().zip(&keep).filter(|(_, keep)| **keep) {
            if let (Some(old), Some(new)) = (old.get(&member.key), new.get(&member.key)) {
                self.value(&member.value, old, new);
            }
        }
        let last = places.iter().zip(&keep).rfind(|(_, keep)| **keep).map(|(place, _)| place.end);
        self.append(last.unwrap_or(node.range.end), &fresh, &layout);
    }

    fn array(&mut self, node: &JsonNode, elements: &[JsonNode], old: &[Value], new: &[Value]) {
        if old.len() == new.len() {
            for ((element, old), new) in elements.iter().zip(old).zip(new) {
                self.value(element, old, new);
            }
            return;
        }
        let head = old.iter().zip(new).take_while(|(old, new)| old == new).count();
        let shorter = old.len().min(new.len()) - head;
        let tail =
            old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(old, new)| old == new).count();
        let layout = self.layout(node, elements.first().map(|it| it.range.start));
        let indent = self.inner_indent(&layout, node);
        let fresh = new[head..new.len() - tail].iter();
        let fresh: Vec<String> = fresh.map(|value| self.rendered(value, &indent)).collect();
        let keep: Vec<bool> = (0..old.len()).map(|at| at < head || old.len() - tail <= at).collect();
        if !keep.contains(&true) {
            let whole = self.container(('[', ']'), &fresh, node);
            self.edits.push((node.range.clone(), whole));
            return;
        }
        let places: Vec<Range<usize>> = elements.iter().map(|it| it.range.clone()).collect();
        self.remove(&places, &keep);
        match head.checked_sub(1) {
            Some(before) => self.append(places[before].end, &fresh, &layout),
            None => {
                let separator = self.separator(&layout);
                let text: String = fresh.iter().map(|it| format!("{it},{separator}")).collect();
                let at = places[old.len() - tail].start;
                self.edits.push((at..at, text));
            }
        }
    }

    /// Removes the items that are not in `keep` together with their commas. At least one must be kept.
    fn remove(&mut self, places: &[Range<usize>], keep: &[bool]) {
        let mut last_kept: Option<usize> = None;
        let mut run_end: Option<usize> = None;
        for (at, place) in places.iter().enumerate() {
            if !keep[at] {
                run_end = Some(place.end);
                continue;
            }
            match (last_kept, run_end.take()) {
                (_, None) => (),
                // Before the first kept item: remove up to its start.
                (None, Some(_)) => self.edits.push((places[0].start..place.start, String::new())),
                (Some(kept), Some(end)) => self.edits.push((places[kept].end..end, String::new())),
            }
            last_kept = Some(at);
        }
        if let (Some(kept), Some(end)) = (last_kept, run_end) {
            self.edits.push((places[kept].end..end, String::new()));
        }
    }

    fn append(&mut self, at: usize, fresh: &[String], layout: &ObjectLayout) {
        let separator = self.separator(layout);
        let text: String = fresh.iter().map(|it| format!(",{separator}{it}")).collect();
        if !text.is_empty() {
            self.edits.push((at..at, text));
        }
    }

    fn separator(&self, layout: &ObjectLayout) -> String {
        match layout {
            ObjectLayout::OneLine => " ".to_owned(),
            ObjectLayout::Lines(indent) => format!("{}{indent}", self.newline),
        }
    }

    /// Formats a new object or list.
    fn container(&self, (open, close): (char, char), items: &[String], node: &JsonNode) -> String {
        if items.is_empty() {
            return format!("{open}{close}");
        }
        let (newline, outer) = (self.newline, self.indent_at(node.range.start));
        let inner = format!("{outer}{}", self.unit);
        let items = items.join(&format!(",{newline}{inner}"));
        format!("{open}{newline}{inner}{items}{newline}{outer}{close}")
    }

    /// Determines the layout of a container from its first item.
    fn layout(&self, node: &JsonNode, first: Option<usize>) -> ObjectLayout {
        match first {
            None => ObjectLayout::Lines(format!("{}{}", self.indent_at(node.range.start), self.unit)),
            Some(first) if self.text[node.range.start..first].contains('\n') => {
                ObjectLayout::Lines(self.indent_at(first))
            }
            Some(_) => ObjectLayout::OneLine,
        }
    }

    /// Returns the indentation of values inside a container.
    fn inner_indent(&self, layout: &ObjectLayout, node: &JsonNode) -> String {
        match layout {
            ObjectLayout::OneLine => self.indent_at(node.range.start),
            ObjectLayout::Lines(indent) => indent.clone(),
        }
    }

    fn rendered_member(&self, key: &str, value: &Value, layout: &ObjectLayout, node: &JsonNode) -> String {
        let indent = self.inner_indent(layout, node);
        format!("{}: {}", Value::from(key), self.rendered(value, &indent))
    }

    /// Formats a value for a position with this indentation.
    fn rendered(&self, value: &Value, indent: &str) -> String {
        let pretty = format!("{value:#}");
        let mut lines = pretty.lines();
        let mut out = lines.next().unwrap_or_default().to_owned();
        for line in lines {
            let own = line.len() - line.trim_start_matches(' ').len();
            out.push_str(self.newline);
            out.push_str(indent);
            // `serde_json` indents by two spaces.
            (0..own / 2).for_each(|_| out.push_str(&self.unit));
            out.push_str(line.trim_start_matches(' '));
        }
        out
    }

    /// Returns the whitespace at the start of the line that contains a byte.
    fn indent_at(&self, at: usize) -> String {
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        self.text[start..at].chars().take_while(|it| *it == ' ' || *it == '\t').collect()
    }
}

fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Returns one level of indentation as used in the text.
fn indent_unit(text: &str, root: &JsonNode) -> String {
    let first = match &root.kind {
        NodeKind::Object(members) => members.first().map(|it| it.key_range.start),
        NodeKind::Array(_) | NodeKind::Scalar => None,
    };
    let line = first.and_then(|first| Some(&text[text[..first].rfind('\n')? + 1..first]));
    match line {
        Some(blanks) if !blanks.is_empty() && blanks.chars().all(|it| it == ' ' || it == '\t') => {
            blanks.to_owned()
        }
        _ => "  ".to_owned(),
    }
}

/// Whether two values are equal. Floats may differ in the last bits: parsing rounds, and an unchanged
/// number must not make an edit fail.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b
                || match (a.as_f64(), b.as_f64()) {
                    (Some(a), Some(b)) => (a - b).abs() <= f64::EPSILON * 4.0 * a.abs().max(b.abs()),
                    _ => false,
                }
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        _ => a == b,
    }
}

#[cfg(test)]
#[path = "edit_tests.rs"]
mod tests;
