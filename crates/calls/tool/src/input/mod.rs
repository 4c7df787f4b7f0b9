//! Checks tool input against its schema: fixes common small mistakes of models and reports all others at
//! once.
//!
//! Own code instead of a validator library, because coercion must happen while choosing between union
//! arms, and because messages are for a model: each problem with its location, what was expected, what
//! was given, and an example.

mod checker;
mod coerce;
mod describe;
mod example;
mod parameter_aliases;
mod schema_check;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use example::example;
pub(crate) use parameter_aliases::translate;
pub use schema_check::schema_problem;

use crate::ToolError;
use checker::InputChecker;

/// Maximum number of problems listed; further ones are only counted.
const MAX_LISTED: usize = 20;

/// Coerces `input` in place and checks it against `schema`. The error lists all problems.
///
/// Coercion is lossless and happens only where a string is not allowed: `"10"` becomes `10`, `"true"`
/// becomes `true`, JSON text becomes the array or object it contains, and `null` for an optional
/// parameter removes it.
pub fn check(tool: &str, schema: &Value, input: &mut Value) -> Result<(), ToolError> {
    if input.is_null() || input.as_str().is_some_and(|text| text.trim().is_empty()) {
        // Some models send nothing for a tool without arguments.
        *input = Value::Object(Map::new());
    }
    let issues = InputChecker::new(schema).run(input);
    if issues.is_empty() {
        return Ok(());
    }
    Err(problem(tool, schema, &issues))
}

/// Deserialises checked input. Problems that the schema cannot express (such as a number out of range)
/// are reported in the same form.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, schema: &Value, input: &Value) -> Result<T, ToolError> {
    let err = match serde_path_to_error::deserialize::<_, T>(input) {
        Ok(typed) => return Ok(typed),
        Err(err) => err,
    };
    // `()` and unit structs are `null` in serde and `{}` from models.
    if input.as_object().is_some_and(Map::is_empty)
        && let Ok(unit) = serde_json::from_value(Value::Null)
    {
        return Ok(unit);
    }
    let issue = match err.path().to_string() {
        path if path.is_empty() || path == "." => err.inner().to_string(),
        path => format!("`{path}`: {}", err.inner()),
    };
    Err(problem(tool, schema, &[issue]))
}

fn problem(tool: &str, schema: &Value, issues: &[String]) -> ToolError {
    let mut message = format!("{tool} was called with invalid input:");
    for issue in issues.iter().take(MAX_LISTED) {
        message.push_str("\n- ");
        message.push_str(issue);
    }
    if MAX_LISTED < issues.len() {
        message.push_str(&format!("\n- and {} more problems", issues.len() - MAX_LISTED));
    }
    message.push_str(&format!("\nA minimal valid input: {}", example(schema)));
    ToolError::invalid(message)
}
