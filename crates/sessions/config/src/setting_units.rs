//! Splits a settings text into the smallest parts that are trusted, merged and traced individually: a
//! scalar, a list entry, a map entry, a hook.

use haft_hooks::{HookSource, parse_definitions};
use haft_types::nearest;
use serde_json::{Map, Value, json};

use crate::{
    SettingsLayer, SettingsNotice, SettingsText,
    json_spans::step,
    keys::{AllowedLayers, KEYS, SettingKey, SettingShape, find, has_effect},
    settings_document::SettingsDocument,
};

/// One part of a settings text.
#[derive(Clone, Debug)]
pub(crate) struct SettingUnit {
    /// Path of keys of the setting.
    pub(crate) path: Vec<String>,
    pub(crate) entry: UnitEntry,
    pub(crate) value: Value,
    /// JSON pointer of the part in its text.
    pub(crate) pointer: String,
    pub(crate) key: &'static SettingKey,
}

/// Which part of its setting a unit is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum UnitEntry {
    /// The whole value.
    Whole,
    /// An entry of a list.
    Element,
    /// An empty list, which is meaningful for allow lists.
    NoElements,
    /// An entry of a map.
    Named(String),
    /// One hook; the value is a `hooks` object that contains only this one.
    Hook {
        /// Event and matcher, for display.
        title: String,
    },
}

/// Result of splitting a text.
#[derive(Debug, Default)]
pub(crate) struct UnitFindings {
    pub(crate) units: Vec<SettingUnit>,
    pub(crate) warnings: Vec<SettingsNotice>,
    pub(crate) problems: Vec<SettingsNotice>,
    /// Known keys that Haft ignores.
    pub(crate) without_effect: Vec<SettingsNotice>,
}

/// Splits a text into units. Unknown keys give a warning; a value of the wrong type is reported and only
/// that value is dropped.
pub(crate) fn take_apart(document: &SettingsDocument, source: &SettingsText) -> UnitFindings {
    let mut taker = UnitParser { document, source, findings: UnitFindings::default() };
    for (key, position) in document.repeated_keys() {
        let message = format!("{key:?} stands here twice; only this one counts");
        taker.findings.warnings.push(SettingsNotice {
            place: source.place.clone(),
            position: Some(position),
            message,
        });
    }
    taker.object(KEYS, &document.value, &mut Vec::new(), "");
    taker.findings
}

struct UnitParser<'a> {
    document: &'a SettingsDocument,
    source: &'a SettingsText,
    findings: UnitFindings,
}

impl UnitParser<'_> {
    fn notice(&self, pointer: &str, message: String) -> SettingsNotice {
        SettingsNotice {
            place: self.source.place.clone(),
            position: self.document.position(pointer),
            message,
        }
    }

    fn warn(&mut self, pointer: &str, message: String) {
        let notice = self.notice(pointer, message);
        self.findings.warnings.push(notice);
    }

    fn problem(&mut self, pointer: &str, message: String) {
        let notice = self.notice(pointer, message);
        self.findings.problems.push(notice);
    }

    fn object(
        &mut self,
        keys: &'static [SettingKey],
        map: &Map<String, Value>,
        path: &mut Vec<String>,
        at: &str,
    ) {
        for (name, value) in map {
            let pointer = format!("{at}{}", step(name));
            path.push(name.clone());
            match find(keys, name) {
                None => self.unknown(keys, path, &pointer),
                Some(key)
                    if key.from == AllowedLayers::Managed && self.source.layer != SettingsLayer::Managed =>
                {
                    let message = format!("{} counts only in managed settings", path.join("."));
                    self.warn(&pointer, message);
                }
                // JSON null means not set.
                Some(_) if value.is_null() => (),
                Some(key) => self.known(key, value, path, &pointer),
            }
            path.pop();
        }
    }

    fn unknown(&mut self, keys: &'static [SettingKey], path: &[String], pointer: &str) {
        let name = path.last().map_or("", String::as_str);
        let guess = match nearest(name, keys.iter().map(|key| key.name), 1).first() {
            Some(guess) => format!("; did you mean {guess:?}?"),
            None => String::new(),
        };
        self.warn(pointer, format!("there is no setting {:?}{guess}", path.join(".")));
    }

    fn known(&mut self, key: &'static SettingKey, value: &Value, path: &mut Vec<String>, pointer: &str) {
        let name = path.join(".");
        if !matches!(key.shape, SettingShape::Object(_)) && !has_effect(&name) {
            let notice = self.notice(pointer, name);
            self.findings.without_effect.push(notice);
        }
        match (key.shape, value) {
            (SettingShape::Object(inner), Value::Object(map)) => self.object(inner, map, path, pointer),
            (SettingShape::Hooks, _) => self.hooks(key, value, path, pointer),
            (SettingShape::Texts | SettingShape::Values, Value::Array(list)) if list.is_empty() => {
                self.push(key, path, UnitEntry::NoElements, value.clone(), pointer);
            }
            (SettingShape::Texts | SettingShape::Values, Value::Array(list)) => {
                for (at, entry) in list.iter().enumerate() {
                    self.element(key, entry, path, &format!("{pointer}/{at}"));
                }
            }
            // A single rule in place of a list of rules.
            (SettingShape::Texts, Value::String(_)) => self.element(key, value, path, pointer),
            (SettingShape::TextMap | SettingShape::FlagMap | SettingShape::Map, Value::Object(map)) => {
                for (name, entry) in map {
                    self.named(key, name, entry, path, &format!("{pointer}{}", step(name)));
                }
            }
            _ => match key.shape.misfit(value) {
                None => self.push(key, path, UnitEntry::Whole, value.clone(), pointer),
                Some(expected) => self.misfit(path, &expected, pointer),
            },
        }
    }

    fn misfit(&mut self, path: &[String], expected: &str, pointer: &str) {
        self.problem(pointer, format!("{} must be {expected}; it does not count", path.join(".")));
    }

    fn element(&mut self, key: &'static SettingKey, entry: &Value, path: &[String], pointer: &str) {
        match (key.shape, entry) {
            (SettingShape::Values, _) | (_, Value::String(_)) => {
                self.push(key, path, UnitEntry::Element, entry.clone(), pointer);
            }
            _ => self
                .problem(pointer, format!("an entry of {} must be text; it does not count", path.join("."))),
        }
    }

    fn named(&mut self, key: &'static SettingKey, name: &str, entry: &Value, path: &[String], pointer: &str) {
        let value = match (key.shape, entry) {
            (SettingShape::TextMap, Value::String(_))
            | (SettingShape::FlagMap, Value::Bool(_))
            | (SettingShape::Map, _) => entry.clone(),
            // Environment variables are strings, whatever their JSON type.
            (SettingShape::TextMap, Value::Number(_) | Value::Bool(_)) => Value::from(entry.to_string()),
            (_, Value::Null) => return,
            _ => {
                let expected =
                    if matches!(key.shape, SettingShape::FlagMap) { "true or false" } else { "text" };
                return self.problem(
                    pointer,
                    format!("{}.{name} must be {expected}; it does not count", path.join(".")),
                );
            }
        };
        self.push(key, path, UnitEntry::Named(name.to_owned()), value, pointer);
    }

    fn push(
        &mut self,
        key: &'static SettingKey,
        path: &[String],
        entry: UnitEntry,
        value: Value,
        pointer: &str,
    ) {
        let (path, pointer) = (path.to_vec(), pointer.to_owned());
        self.findings.units.push(SettingUnit { path, entry, value, pointer, key });
    }

    /// Splits hooks into individual ones, so that each can be trusted separately.
    fn hooks(&mut self, key: &'static SettingKey, hooks: &Value, path: &[String], pointer: &str) {
        let source = std::sync::Arc::new(HookSource::Named(self.source.place.to_string()));
        for problem in parse_definitions(hooks, &source).1 {
            self.problem(&format!("{pointer}{}", problem.pointer), problem.message);
        }
        for (event, groups) in hooks.as_object().into_iter().flatten() {
            let at = format!("{pointer}{}", step(event));
            let Some(groups) = groups.as_array() else {
                self.hook(key, event, None, json!({event: groups}), path, &at);
                continue;
            };
            for (index, group) in groups.iter().enumerate() {
                let at = format!("{at}/{index}");
                match group.get("hooks").and_then(Value::as_array) {
                    None => self.hook(key, event, None, json!({event: [group]}), path, &at),
                    Some(handlers) => {
                        let matcher = group.get("matcher");
                        for (index, handler) in handlers.iter().enumerate() {
                            let value = json!({event: [{"matcher": matcher, "hooks": [handler]}]});
                            self.hook(key, event, matcher, value, path, &format!("{at}/hooks/{index}"));
                        }
                    }
                }
            }
        }
    }

    fn hook(
        &mut self,
        key: &'static SettingKey,
        event: &str,
        matcher: Option<&Value>,
        value: Value,
        path: &[String],
        pointer: &str,
    ) {
        let title = match matcher.and_then(Value::as_str).filter(|it| !it.is_empty()) {
            Some(matcher) => format!("{event}[{matcher}]"),
            None => event.to_owned(),
        };
        self.push(key, path, UnitEntry::Hook { title }, value, pointer);
    }
}

impl SettingUnit {
    /// Returns the dotted name of the setting.
    pub(crate) fn name(&self) -> String {
        let path = self.path.join(".");
        match &self.entry {
            UnitEntry::Whole | UnitEntry::Element | UnitEntry::NoElements => path,
            UnitEntry::Named(name) => format!("{path}.{name}"),
            UnitEntry::Hook { title } => format!("{path}.{title}"),
        }
    }
}
