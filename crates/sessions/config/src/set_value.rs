//! Changing one setting of a settings object, by its name.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    UpdateError,
    keys::{KEYS, SettingKey, SettingShape, find},
};

/// Why a setting was not set.
#[derive(Debug)]
pub enum SetError {
    /// There is no such setting.
    Unknown(String),
    /// The value is not what the setting takes.
    Misfit {
        /// The setting that was to be changed.
        name: String,
        /// What it takes.
        expected: String,
    },
    /// The file could not be changed.
    Update(UpdateError),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "there is no setting {name:?}"),
            Self::Misfit { name, expected } => write!(f, "{name} must be {expected}"),
            Self::Update(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetError {}

/// The key of a setting that can be set as a whole.
pub(crate) fn key_of(name: &str) -> Option<&'static SettingKey> {
    let (mut keys, mut path) = (KEYS, name.split('.').peekable());
    while let Some(step) = path.next() {
        let key = find(keys, step)?;
        match (key.shape, path.peek()) {
            (_, None) => return Some(key),
            (SettingShape::Object(inner), Some(_)) => keys = inner,
            (_, Some(_)) => return None,
        }
    }
    None
}

/// Sets a setting, or takes it away.
pub(crate) fn set(settings: &mut Map<String, Value>, name: &str, value: Value) {
    match (name.split_once('.'), value) {
        (Some((first, rest)), value) => within(settings, first, |inner| set(inner, rest, value)),
        (None, Value::Null) => drop(settings.shift_remove(name)),
        (None, value) => drop(settings.insert(name.to_owned(), value)),
    }
}

/// Changes a list of settings; if it is not there, it begins empty.
pub(crate) fn list(settings: &mut Map<String, Value>, name: &str, change: &mut dyn FnMut(&mut Vec<Value>)) {
    match name.split_once('.') {
        Some((first, rest)) => within(settings, first, |inner| list(inner, rest, change)),
        None => {
            let slot = settings.entry(name).or_insert(Value::Null);
            // A single text where a list was meant counts as a list of one.
            let mut list = match slot.take() {
                Value::Array(list) => list,
                Value::Null => Vec::new(),
                other => vec![other],
            };
            change(&mut list);
            *slot = Value::Array(list);
        }
    }
}

/// Changes an object of settings, in its place.
fn within(settings: &mut Map<String, Value>, name: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let slot = settings.entry(name).or_insert(Value::Null);
    let mut inner = match slot.take() {
        Value::Object(inner) => inner,
        _ => Map::new(),
    };
    change(&mut inner);
    *slot = Value::Object(inner);
}
