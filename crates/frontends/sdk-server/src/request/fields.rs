use haft_types::text;
use serde_json::{Map, Value};

use super::{RequestProblem, SettingChange};

/// The fields of a request, which are taken out one by one.
pub(super) struct RequestFields {
    subtype: String,
    fields: Map<String, Value>,
}

impl RequestFields {
    /// A request that is not an object has no fields; a subtype that is not a string is empty.
    pub(super) fn new(request: Value) -> Self {
        let mut fields = match request {
            Value::Object(fields) => fields,
            _ => Map::new(),
        };
        let subtype = match fields.remove("subtype") {
            Some(Value::String(subtype)) => subtype,
            _ => String::new(),
        };
        Self { subtype, fields }
    }

    pub(super) fn subtype(&self) -> &str {
        &self.subtype
    }

    /// Takes a field; `None` if it is missing or null.
    pub(super) fn take(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|it| !it.is_null())
    }

    /// Reads a field without taking it; null if it is missing.
    pub(super) fn look(&self, field: &str) -> &Value {
        self.fields.get(field).unwrap_or(&Value::Null)
    }

    /// Takes a field for which null means "reset to the default".
    pub(super) fn change(&mut self, field: &str) -> SettingChange<Value> {
        match self.fields.remove(field) {
            None => SettingChange::Keep,
            Some(Value::Null) => SettingChange::Reset,
            Some(value) => SettingChange::Set(value),
        }
    }

    pub(super) fn text(&mut self, field: &str) -> Result<String, RequestProblem> {
        let found = self.optional_text(field)?;
        found.ok_or_else(|| self.missing(field, "a string"))
    }

    /// Takes a required non-empty string.
    pub(super) fn filled_text(&mut self, field: &str) -> Result<String, RequestProblem> {
        let found = self.text(field)?;
        if found.trim().is_empty() {
            Err(self.wrong(field, "a string that is not empty", &Value::String(found)))
        } else {
            Ok(found)
        }
    }

    pub(super) fn optional_text(&mut self, field: &str) -> Result<Option<String>, RequestProblem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(found) => Err(self.wrong(field, "a string", &found)),
        }
    }

    /// Takes an optional boolean; missing means false.
    pub(super) fn flag(&mut self, field: &str) -> Result<bool, RequestProblem> {
        match self.take(field) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(found) => Err(self.wrong(field, "true or false", &found)),
        }
    }

    pub(super) fn required_flag(&mut self, field: &str) -> Result<bool, RequestProblem> {
        match self.look(field) {
            Value::Null => Err(self.missing(field, "true or false")),
            _ => self.flag(field),
        }
    }

    pub(super) fn optional_count(&mut self, field: &str) -> Result<Option<u64>, RequestProblem> {
        let Some(found) = self.take(field) else { return Ok(None) };
        match found.as_u64() {
            Some(count) => Ok(Some(count)),
            None => Err(self.wrong(field, "a whole number", &found)),
        }
    }

    pub(super) fn number(&mut self, field: &str) -> Result<f64, RequestProblem> {
        let Some(found) = self.take(field) else { return Err(self.missing(field, "a number")) };
        found.as_f64().ok_or_else(|| self.wrong(field, "a number", &found))
    }

    pub(super) fn object(&mut self, field: &str) -> Result<Map<String, Value>, RequestProblem> {
        let found = self.optional_object(field)?;
        found.ok_or_else(|| self.missing(field, "an object"))
    }

    pub(super) fn optional_object(
        &mut self,
        field: &str,
    ) -> Result<Option<Map<String, Value>>, RequestProblem> {
        match self.take(field) {
            None => Ok(None),
            Some(Value::Object(object)) => Ok(Some(object)),
            Some(found) => Err(self.wrong(field, "an object", &found)),
        }
    }

    pub(super) fn any(&mut self, field: &str) -> Result<Value, RequestProblem> {
        self.take(field).ok_or_else(|| self.missing(field, "a value"))
    }

    fn missing(&self, field: &str, expected: &str) -> RequestProblem {
        RequestProblem::refused(format!("{} needs `{field}`: expected {expected}", self.subtype))
    }

    pub(super) fn wrong(&self, field: &str, expected: &str, found: &Value) -> RequestProblem {
        let found = text::one_line(&found.to_string(), 80);
        RequestProblem::refused(format!("{}: `{field}` must be {expected}, not {found}", self.subtype))
    }
}
