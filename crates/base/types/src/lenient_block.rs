//! Block fields before the type of the block is known.
//!
//! Most of a session log is blocks. Parsing each into a JSON value first would cost a map and the field
//! names for each, so fields are parsed into short lists.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// A value in a block. Lossless: converts back to the JSON value that was read.
#[derive(Debug)]
pub(crate) enum LenientValue {
    Text(String),
    Object(LenientFields),
    List(Vec<Self>),
    /// Any other value, and JSON inside a block.
    Other(Value),
}

/// The fields of an object in source order, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct LenientFields(Vec<(BlockField, LenientValue)>);

/// Field names of blocks.
#[derive(Debug, Deserialize, Eq, PartialEq)]
#[serde(field_identifier, rename_all = "snake_case")]
pub(crate) enum BlockField {
    Type,
    Text,
    Thinking,
    Signature,
    Model,
    Data,
    Source,
    Title,
    Id,
    Name,
    Input,
    ToolUseId,
    Content,
    IsError,
    Other(String),
}

impl BlockField {
    fn into_name(self) -> String {
        let name = match self {
            Self::Type => "type",
            Self::Text => "text",
            Self::Thinking => "thinking",
            Self::Signature => "signature",
            Self::Model => "model",
            Self::Data => "data",
            Self::Source => "source",
            Self::Title => "title",
            Self::Id => "id",
            Self::Name => "name",
            Self::Input => "input",
            Self::ToolUseId => "tool_use_id",
            Self::Content => "content",
            Self::IsError => "is_error",
            Self::Other(name) => return name,
        };
        name.to_owned()
    }
}

impl LenientFields {
    pub(crate) fn get(&self, name: &BlockField) -> Option<&LenientValue> {
        self.0.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, name: &BlockField) -> Option<&mut LenientValue> {
        self.0.iter_mut().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// A duplicate field keeps its first position and takes the last value, as in a JSON value.
    fn set(&mut self, name: BlockField, value: LenientValue) {
        match self.get_mut(&name) {
            Some(earlier) => *earlier = value,
            None => self.0.push((name, value)),
        }
    }
}

impl LenientValue {
    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl From<LenientValue> for Value {
    fn from(value: LenientValue) -> Self {
        match value {
            LenientValue::Text(text) => Self::String(text),
            LenientValue::List(list) => Self::Array(list.into_iter().map(Self::from).collect()),
            LenientValue::Other(value) => value,
            LenientValue::Object(fields) => {
                let fields = fields.0.into_iter().map(|(name, it)| (name.into_name(), Self::from(it)));
                Self::Object(fields.collect::<Map<_, _>>())
            }
        }
    }
}

impl<'de> Deserialize<'de> for LenientValue {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        reader.deserialize_any(LenientVisitor)
    }
}

struct LenientVisitor;

impl<'de> Visitor<'de> for LenientVisitor {
    type Value = LenientValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<LenientValue, E> {
        Ok(LenientValue::Other(Value::Bool(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<LenientValue, E> {
        Ok(LenientValue::Other(Value::from(value)))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<LenientValue, E> {
        Ok(LenientValue::Other(Value::from(value)))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<LenientValue, E> {
        Ok(LenientValue::Other(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<LenientValue, E> {
        Ok(LenientValue::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<LenientValue, E> {
        Ok(LenientValue::Text(text))
    }

    fn visit_none<E: de::Error>(self) -> Result<LenientValue, E> {
        Ok(LenientValue::Other(Value::Null))
    }

    fn visit_unit<E: de::Error>(self) -> Result<LenientValue, E> {
        Ok(LenientValue::Other(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<LenientValue, D::Error> {
        LenientValue::deserialize(reader)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<LenientValue, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(LenientValue::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<LenientValue, A::Error> {
        let mut read = LenientFields(Vec::with_capacity(4));
        while let Some(name) = fields.next_key()? {
            let value = match name {
                BlockField::Input | BlockField::Source => LenientValue::Other(fields.next_value()?),
                _ => fields.next_value()?,
            };
            read.set(name, value);
        }
        Ok(LenientValue::Object(read))
    }
}
