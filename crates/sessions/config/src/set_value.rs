//! Sets a single setting by its dotted name.

use std::fmt;

use serde_json::{Map, Value};

use crate::{
    UpdateError,
    keys::{KEYS, SettingKey, SettingShape, find},
};

/// Why a setting was not changed.
#[derive(Debug)]
pub enum SetError {
    /// The setting does not exist.
    Unknown(String),
    /// The value has the wrong type.
    Misfit {
        name: String,
        /// Description of the expected type.
        expected: String,
    },
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

/// Returns the key of a setting that can be set as a whole.
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

/// Sets a setting; null removes it.
pub(crate) fn set(settings: &mut Map<String, Value>, name: &str, value: Value) {
    match (name.split_once('.'), value) {
        (Some((first, rest)), value) => within(settings, first, |inner| set(inner, rest, value)),
        (None, Value::Null) => drop(settings.shift_remove(name)),
        (None, value) => drop(settings.insert(name.to_owned(), value)),
    }
}

/// Changes a list setting; a missing one starts empty.
pub(crate) fn list(settings: &mut Map<String, Value>, name: &str, change: &mut dyn FnMut(&mut Vec<Value>)) {
    match name.split_once('.') {
        Some((first, rest)) => within(settings, first, |inner| list(inner, rest, change)),
        None => {
            let slot = settings.entry(name).or_insert(Value::Null);
            // A single string in place of a list counts as a list of one.
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

/// Changes an object of settings in place.
fn within(settings: &mut Map<String, Value>, name: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let slot = settings.entry(name).or_insert(Value::Null);
    let mut inner = match slot.take() {
        Value::Object(inner) => inner,
        _ => Map::new(),
    };
    change(&mut inner);
    *slot = Value::Object(inner);
}
