//! Schema-driven input check: fixes what models commonly get slightly wrong and
//! reports everything else at once, in words the model can act on.
//!
//! Own code instead of a validator library because coercion has to happen
//! inside the choice between union arms, and because the messages are for a
//! model: every problem, where, what was expected, what came, and an example.

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

/// How many problems are listed before the rest is only counted.
const MAX_LISTED: usize = 20;

/// Coerces `input` in place and checks it against `schema`.
///
/// Coercion is lossless and only happens where a string is not allowed: `"10"`
/// becomes `10`, `"true"` becomes `true`, a JSON text becomes the array or
/// object it spells, and `null` for a parameter that may be left out leaves it
/// out.
pub fn check(tool: &str, schema: &Value, input: &mut Value) -> Result<(), ToolError> {
    if input.is_null() || input.as_str().is_some_and(|text| text.trim().is_empty()) {
        // Some models send nothing at all for a tool they call without arguments.
        *input = Value::Object(Map::new());
    }
    let issues = InputChecker::new(schema).run(input);
    if issues.is_empty() {
        return Ok(());
    }
    Err(problem(tool, schema, &issues))
}

/// The typed form of checked input. What the schema could not express (a number
/// too large for its type, say) is reported in the same words.
pub(crate) fn parse<T: DeserializeOwned>(tool: &str, schema: &Value, input: &Value) -> Result<T, ToolError> {
    let err = match serde_path_to_error::deserialize::<_, T>(input) {
        Ok(typed) => return Ok(typed),
        Err(err) => err,
    };
    // `()` and unit structs are spelt `null` in serde and `{}` by models.
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
