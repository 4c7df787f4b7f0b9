//! Changing a JSON text so that it means something new and everything else
//! stays as it was: order of keys, spelling of numbers, layout.

use std::{collections::HashMap, ops::Range};

use serde_json::{Map, Value};

use crate::json_spans::{JsonNode, NodeKind, ObjectMember, scan};

/// The text with its meaning changed from `old` to `new`. Nothing where the
/// text does not mean `old`, or where the result would not mean `new`.
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

/// A new text for an object.
pub(crate) fn render_new(value: &Map<String, Value>) -> String {
    format!("{:#}\n", Value::Object(value.clone()))
}

struct Editor<'a> {
    text: &'a str,
    unit: String,
    newline: &'static str,
    edits: Vec<(Range<usize>, String)>,
}

/// How the things in a list or object are separated.
#[derive(Clone, Debug)]
enum ObjectLayout {
    OneLine,
    /// Each on a line of its own, with this before it.
    Lines(String),
}

impl Editor<'_> {
    /// The text with all edits made; nothing if they contradict each other.
    fn spliced(mut self) -> Option<String> {
        // What is put in at a place comes before what is taken out behind it.
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
        // Of a key that stands there twice the last counts; the others go when
        // anything about the key changes, or they would come back to life.
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

    /// Takes out what is not kept, with the commas that belong to it. At least
    /// one is kept.
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
                // Before the first one that stays: up to where that begins.
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

    /// An object or list made anew.
    fn container(&self, (open, close): (char, char), items: &[String], node: &JsonNode) -> String {
        if items.is_empty() {
            return format!("{open}{close}");
        }
        let (newline, outer) = (self.newline, self.indent_at(node.range.start));
        let inner = format!("{outer}{}", self.unit);
        let items = items.join(&format!(",{newline}{inner}"));
        format!("{open}{newline}{inner}{items}{newline}{outer}{close}")
    }

    /// How the things in this container are laid out, judged by the first.
    fn layout(&self, node: &JsonNode, first: Option<usize>) -> ObjectLayout {
        match first {
            None => ObjectLayout::Lines(format!("{}{}", self.indent_at(node.range.start), self.unit)),
            Some(first) if self.text[node.range.start..first].contains('\n') => {
                ObjectLayout::Lines(self.indent_at(first))
            }
            Some(_) => ObjectLayout::OneLine,
        }
    }

    /// The indentation of values inside a container.
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

    /// A value, laid out for a place with this indentation.
    fn rendered(&self, value: &Value, indent: &str) -> String {
        let pretty = format!("{value:#}");
        let mut lines = pretty.lines();
        let mut out = lines.next().unwrap_or_default().to_owned();
        for line in lines {
            let own = line.len() - line.trim_start_matches(' ').len();
            out.push_str(self.newline);
            out.push_str(indent);
            // The pretty printer indents by two.
            (0..own / 2).for_each(|_| out.push_str(&self.unit));
            out.push_str(line.trim_start_matches(' '));
        }
        out
    }

    /// The blanks at the start of the line a byte stands on.
    fn indent_at(&self, at: usize) -> String {
        let start = self.text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        self.text[start..at].chars().take_while(|it| *it == ' ' || *it == '\t').collect()
    }
}

fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// One level of indentation, as the text does it.
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

/// Whether two values mean the same. Numbers may differ in the last bit: the
/// reader rounds, and a text that was never touched must not fail for that.
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
