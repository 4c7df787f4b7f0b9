//! YAML and JSON as a tree with source locations.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Map, Value};

use super::FileLocation;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct LocatedNode {
    pub(super) at: FileLocation,
    pub(super) value: LocatedValue,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum LocatedValue {
    One(Value),
    List(Vec<LocatedNode>),
    Table(Vec<(String, FileLocation, LocatedNode)>),
}

/// An error at a location.
pub(super) type LocatedError = (FileLocation, String);

/// Maximum nesting depth.
const DEEPEST: usize = 32;
/// Maximum number of values after expanding all YAML aliases.
const MAX_VALUES: usize = 2_000_000;

impl LocatedNode {
    /// Parses YAML. Multiple documents, duplicate keys and excessive alias expansion are errors.
    pub(super) fn of_yaml(text: &str) -> Result<Self, LocatedError> {
        let mut building = TreeBuilder::default();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|err| scan_error(&err))?;
            building.take(event, span)?;
        }
        Ok(building.root.unwrap_or(Self {
            at: FileLocation { row: 1, column: 1 },
            value: LocatedValue::One(Value::Null),
        }))
    }

    /// Parses JSON. Locations come from parsing it as YAML too; where that is impossible because of an
    /// escape, all values get the location 1:1.
    pub(super) fn of_json(text: &str) -> Result<Self, LocatedError> {
        let value: Value = serde_json::from_str(text).map_err(|err| {
            (FileLocation { row: err.line().max(1), column: err.column().max(1) }, err.to_string())
        })?;
        match Self::of_yaml(text) {
            Ok(located) if located.plain() == value => Ok(located),
            Err((at, reason)) if reason.contains("twice") => Err((at, reason)),
            _ => Ok(Self::at_once(value, FileLocation { row: 1, column: 1 })),
        }
    }

    /// Wraps a value; all of it gets the same location.
    pub(super) fn at_once(value: Value, at: FileLocation) -> Self {
        let value = match value {
            Value::Array(items) => {
                LocatedValue::List(items.into_iter().map(|it| Self::at_once(it, at)).collect())
            }
            Value::Object(fields) => LocatedValue::Table(
                fields.into_iter().map(|(name, it)| (name, at, Self::at_once(it, at))).collect(),
            ),
            one => LocatedValue::One(one),
        };
        Self { at, value }
    }

    /// Returns the value without locations.
    pub(super) fn plain(&self) -> Value {
        match &self.value {
            LocatedValue::One(value) => value.clone(),
            LocatedValue::List(items) => Value::Array(items.iter().map(Self::plain).collect()),
            LocatedValue::Table(fields) => {
                let fields = fields.iter().map(|(name, _, it)| (name.clone(), it.plain()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&Self> {
        match &self.value {
            LocatedValue::Table(fields) => fields.iter().find(|(it, _, _)| it == name).map(|(_, _, it)| it),
            _ => None,
        }
    }

    pub(super) fn table(&self) -> Option<&[(String, FileLocation, Self)]> {
        match &self.value {
            LocatedValue::Table(fields) => Some(fields),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> Option<&[Self]> {
        match &self.value {
            LocatedValue::List(items) => Some(items),
            _ => None,
        }
    }

    /// Returns the location of the deepest existing node on a path.
    pub(super) fn place_of(&self, path: &serde_path_to_error::Path) -> FileLocation {
        use serde_path_to_error::Segment;
        let mut here = self;
        for segment in path {
            let next = match (segment, &here.value) {
                (Segment::Seq { index }, LocatedValue::List(items)) => items.get(*index),
                (Segment::Map { key } | Segment::Enum { variant: key }, _) => here.get(key),
                _ => None,
            };
            match next {
                Some(next) => here = next,
                None => break,
            }
        }
        here.at
    }

    /// Returns the fields of `over`, completed by those of `self`; nested tables are merged recursively.
    pub(super) fn under(&self, over: &Self) -> Self {
        let (LocatedValue::Table(below), LocatedValue::Table(above)) = (&self.value, &over.value) else {
            return over.clone();
        };
        let mut fields = below.clone();
        for (name, at, value) in above {
            match fields.iter_mut().find(|(it, _, _)| it == name) {
                Some(field) => *field = (name.clone(), *at, field.2.under(value)),
                None => fields.push((name.clone(), *at, value.clone())),
            }
        }
        Self { at: over.at, value: LocatedValue::Table(fields) }
    }

    /// Returns the tree with every string replaced by `change`; errors are added to `wrong`.
    pub(super) fn with_texts(
        &self,
        change: &mut dyn FnMut(&str, FileLocation) -> Result<String, LocatedError>,
        wrong: &mut Vec<LocatedError>,
    ) -> Self {
        let value = match &self.value {
            LocatedValue::One(Value::String(text)) => match change(text, self.at) {
                Ok(text) => LocatedValue::One(Value::String(text)),
                Err(problem) => {
                    wrong.push(problem);
                    self.value.clone()
                }
            },
            LocatedValue::One(_) => self.value.clone(),
            LocatedValue::List(items) => {
                LocatedValue::List(items.iter().map(|it| it.with_texts(change, wrong)).collect())
            }
            LocatedValue::Table(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, at, it)| (name.clone(), *at, it.with_texts(change, wrong)));
                LocatedValue::Table(fields.collect())
            }
        };
        Self { at: self.at, value }
    }

    fn count(&self) -> usize {
        match &self.value {
            LocatedValue::One(_) => 1,
            LocatedValue::List(items) => 1 + items.iter().map(Self::count).sum::<usize>(),
            LocatedValue::Table(fields) => 1 + fields.iter().map(|(_, _, it)| it.count()).sum::<usize>(),
        }
    }
}

fn scan_error(err: &ScanError) -> LocatedError {
    let mark = err.marker();
    (FileLocation { row: mark.line().max(1), column: mark.col() + 1 }, err.info().to_owned())
}

/// Builds the tree from parser events.
#[derive(Default)]
struct TreeBuilder {
    open: Vec<Open>,
    anchors: HashMap<usize, LocatedNode>,
    root: Option<LocatedNode>,
    documents: usize,
    values: usize,
}

/// A list or mapping in progress.
enum Open {
    List {
        at: FileLocation,
        anchor: usize,
        items: Vec<LocatedNode>,
    },
    Table {
        at: FileLocation,
        anchor: usize,
        fields: Vec<(String, FileLocation, LocatedNode)>,
        key: Option<(String, FileLocation)>,
    },
}

impl TreeBuilder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), LocatedError> {
        let at = FileLocation { row: span.start.line().max(1), column: span.start.col() + 1 };
        if DEEPEST < self.open.len() {
            return Err((at, format!("values are more than {DEEPEST} deep inside each other")));
        }
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err((at, String::from("there is a second document; a job file is one"))),
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text =
                    style != ScalarStyle::Plain || tag.as_ref().is_some_and(|it| it.suffix == "str");
                let value = if is_text { Value::String(text.into_owned()) } else { plain_scalar(&text) };
                self.put(LocatedNode { at, value: LocatedValue::One(value) }, anchor)
            }
            Event::SequenceStart(anchor, _) => {
                self.open.push(Open::List { at, anchor, items: Vec::new() });
                Ok(())
            }
            Event::MappingStart(anchor, _) => {
                self.open.push(Open::Table { at, anchor, fields: Vec::new(), key: None });
                Ok(())
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { at, anchor, items }) => {
                    self.put(LocatedNode { at, value: LocatedValue::List(items) }, anchor)
                }
                Some(Open::Table { at, anchor, fields, .. }) => {
                    self.put(LocatedNode { at, value: LocatedValue::Table(fields) }, anchor)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => match self.anchors.get(&anchor).cloned() {
                Some(value) => self.put(LocatedNode { at, ..value }, 0),
                None => Err((at, String::from("this refers to itself"))),
            },
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn put(&mut self, value: LocatedNode, anchor: usize) -> Result<(), LocatedError> {
        self.values += match anchor {
            0 => value.count(),
            _ => 1,
        };
        if MAX_VALUES < self.values {
            return Err((value.at, format!("there are more than {MAX_VALUES} values")));
        }
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Open::List { items, .. }) => items.push(value),
            Some(Open::Table { fields, key, .. }) => match key.take() {
                None => {
                    let LocatedValue::One(name) = &value.value else {
                        return Err((value.at, String::from("the name of a field must be a text")));
                    };
                    let name = match name {
                        Value::String(name) => name.clone(),
                        other => other.to_string(),
                    };
                    if fields.iter().any(|(it, _, _)| *it == name) {
                        return Err((value.at, format!("`{name}` is there twice")));
                    }
                    *key = Some((name, value.at));
                }
                Some((name, at)) => fields.push((name, at, value)),
            },
        }
        Ok(())
    }
}

/// Interprets an unquoted scalar by the YAML core schema.
fn plain_scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        _ => (),
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.starts_with(|it: char| it.is_ascii_digit() || it == '.') {
        if let Ok(number) = text.trim_start_matches('+').parse::<i64>() {
            return number.into();
        }
        let is_number =
            digits.chars().all(|it| it.is_ascii_digit() || matches!(it, '.' | 'e' | 'E' | '-' | '+'));
        if is_number && let Ok(number) = text.parse::<f64>() {
            return serde_json::Number::from_f64(number).map_or(Value::Null, Value::Number);
        }
    }
    Value::String(text.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_values_have_locations() {
        let tree = LocatedNode::of_yaml("a: 1\nb:\n  - x\n  - {c: 5%, d: \"7\"}\n").unwrap();
        assert_eq!(tree.plain(), json!({"a": 1, "b": ["x", {"c": "5%", "d": "7"}]}));
        let inner = tree.get("b").unwrap().list().unwrap()[1].get("c").unwrap();
        assert_eq!(inner.at, FileLocation { row: 4, column: 9 });
    }

    #[test]
    fn ambiguous_yaml_is_rejected() {
        for (text, row, words) in [
            ("a: 1\na: 2\n", 2, "twice"),
            ("a: 1\n---\nb: 2\n", 3, "second document"),
            ("a: [1, 2\nb: 3\n", 2, ""),
            ("{a: &x [*x]}", 1, ""),
            (&format!("{}{}", "[".repeat(40), "]".repeat(40)), 1, "deep"),
        ] {
            let (at, reason) = LocatedNode::of_yaml(text).unwrap_err();
            assert!(reason.contains(words), "{text}: {reason}");
            assert!(at.row <= row.max(3), "{text}: {at:?}");
        }
        assert!(LocatedNode::of_json("{\"a\": 1, \"a\": 2}").unwrap_err().1.contains("twice"));
    }

    #[test]
    fn yaml_alias_expansion_is_limited() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let last = level - 1;
            let refs = vec![format!("*a{last}"); 10].join(", ");
            text.push_str(&format!("a{level}: &a{level} [{refs}]\n"));
        }
        assert!(LocatedNode::of_yaml(&text).is_err());
    }

    proptest! {
        #[test]
        fn any_yaml_text_is_parsed_without_panic(text in ".{0,200}") {
            LocatedNode::of_yaml(&text).ok();
            // A text accepted as JSON has the same value as JSON.
            if let Ok(node) = LocatedNode::of_json(&text) {
                prop_assert_eq!(node.plain(), serde_json::from_str::<Value>(&text).unwrap());
            }
        }

        #[test]
        fn any_json_parses_to_its_plain_value(
            table in prop::collection::btree_map("[a-z]{1,6}", "[ -~äß]{0,20}", 0..6)
        ) {
            let text = serde_json::to_string_pretty(&table).unwrap();
            prop_assert_eq!(LocatedNode::of_json(&text).unwrap().plain(), json!(table));
        }
    }
}
