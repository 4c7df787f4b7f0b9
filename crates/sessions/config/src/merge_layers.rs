//! Merges the units of all layers into one object and keeps the origin of each part.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::Arc,
};

use serde_json::{Map, Value};

use crate::{
    SettingsOrigin, SettingsText, Sourced,
    json_spans::step,
    setting_units::{SettingUnit, UnitEntry},
};

/// Merged settings of all layers.
#[derive(Clone, Debug, Default)]
pub(crate) struct MergedSettings {
    pub(crate) value: Map<String, Value>,
    origins: HashMap<String, SettingsOrigin>,
    /// List entries already present, by list, value and base directory.
    listed: HashSet<(String, String, PathBuf)>,
}

impl MergedSettings {
    /// Adds the units of one text. Must be called in ascending order of precedence.
    pub(crate) fn add(&mut self, units: &[SettingUnit], source: &Arc<SettingsText>) {
        for unit in units {
            let origin = SettingsOrigin { source: Arc::clone(source), pointer: unit.pointer.clone() };
            match &unit.entry {
                UnitEntry::Whole => self.set(&unit.path, unit.value.clone(), origin),
                UnitEntry::Named(name) => {
                    let path = [&unit.path[..], std::slice::from_ref(name)].concat();
                    self.set(&path, unit.value.clone(), origin);
                }
                UnitEntry::NoElements => {
                    if self.get(&unit.name()).is_none() {
                        self.set(&unit.path, unit.value.clone(), origin);
                    }
                }
                UnitEntry::Element => self.push(&unit.path, unit.value.clone(), origin),
                UnitEntry::Hook { .. } => {
                    for (event, groups) in unit.value.as_object().into_iter().flatten() {
                        let path = [&unit.path[..], std::slice::from_ref(event)].concat();
                        for group in groups.as_array().into_iter().flatten() {
                            self.push(&path, group.clone(), origin.clone());
                        }
                    }
                }
            }
        }
    }

    fn set(&mut self, path: &[String], value: Value, origin: SettingsOrigin) {
        *slot(&mut self.value, path) = value;
        self.origins.insert(pointer(path), origin);
    }

    fn push(&mut self, path: &[String], value: Value, origin: SettingsOrigin) {
        let at = pointer(path);
        // The same rule text may mean another path in another file.
        if !self.listed.insert((at.clone(), value.to_string(), origin.source.base.clone())) {
            return;
        }
        let list = slot(&mut self.value, path);
        if !list.is_array() {
            *list = Value::Array(Vec::new());
        }
        if let Value::Array(list) = list {
            list.push(value);
            self.origins.insert(format!("{at}/{}", list.len() - 1), origin);
        }
    }

    fn origin(&self, pointer: &str) -> Option<&SettingsOrigin> {
        self.origins.get(pointer)
    }

    /// Returns a setting that one layer decides, by its dotted name.
    pub(crate) fn get(&self, name: &str) -> Option<Sourced<Value>> {
        let at = pointer(name.split('.'));
        let value = self.at(&at)?.clone();
        // The origin of a list or object is that of its first part.
        let within = || {
            let prefix = format!("{at}/");
            let first = self.origins.keys().filter(|it| it.starts_with(&prefix)).min();
            first.and_then(|it| self.origin(it))
        };
        let origin = self.origin(&at).or_else(within)?.clone();
        Some(Sourced { value, origin })
    }

    fn at(&self, pointer: &str) -> Option<&Value> {
        let mut steps = pointer.strip_prefix('/')?.splitn(2, '/');
        let first = steps.next()?.replace("~1", "/").replace("~0", "~");
        let value = self.value.get(&first)?;
        match steps.next() {
            Some(rest) => value.pointer(&format!("/{rest}")),
            None => Some(value),
        }
    }

    /// Returns the entries of a list with their origins.
    pub(crate) fn list(&self, name: &str) -> Vec<Sourced<Value>> {
        let at = pointer(name.split('.'));
        let entries = self.at(&at).and_then(Value::as_array).into_iter().flatten().enumerate();
        entries
            .filter_map(|(index, value)| {
                let origin = self.origin(&format!("{at}/{index}"))?.clone();
                Some(Sourced { value: value.clone(), origin })
            })
            .collect()
    }

    /// Returns the string entries of a list with their origins.
    pub(crate) fn texts(&self, name: &str) -> Vec<Sourced<String>> {
        let text = |it: Sourced<Value>| match it.value {
            Value::String(value) => Some(Sourced { value, origin: it.origin }),
            _ => None,
        };
        self.list(name).into_iter().filter_map(text).collect()
    }

    /// Returns the entries of a map in order, with their origins.
    pub(crate) fn map(&self, name: &str) -> Vec<(String, Sourced<Value>)> {
        let at = pointer(name.split('.'));
        let entries = self.at(&at).and_then(Value::as_object).into_iter().flatten();
        entries
            .filter_map(|(name, value)| {
                let origin = self.origin(&format!("{at}{}", step(name)))?.clone();
                Some((name.clone(), Sourced { value: value.clone(), origin }))
            })
            .collect()
    }

    pub(crate) fn text(&self, name: &str) -> Option<Sourced<String>> {
        let found = self.get(name)?;
        let text = found.value.as_str()?.to_owned();
        Some(found.map(|_| text))
    }

    pub(crate) fn flag(&self, name: &str) -> Option<Sourced<bool>> {
        let found = self.get(name)?;
        let flag = found.value.as_bool()?;
        Some(found.map(|_| flag))
    }
}

fn pointer<S: AsRef<str>>(path: impl IntoIterator<Item = S>) -> String {
    path.into_iter().map(|name| step(name.as_ref())).collect()
}

/// Returns the place of a setting, creating it if it is missing.
fn slot<'a>(map: &'a mut Map<String, Value>, path: &[String]) -> &'a mut Value {
    match path {
        [] => map.entry(String::new()).or_insert(Value::Null),
        [last] => map.entry(last).or_insert(Value::Null),
        [first, rest @ ..] => {
            let inner = map.entry(first).or_insert(Value::Null);
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            match inner {
                Value::Object(inner) => slot(inner, rest),
                // It was made an object above.
                other => other,
            }
        }
    }
}
