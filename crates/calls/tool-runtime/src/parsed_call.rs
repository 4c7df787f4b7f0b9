//! Stages one and two: finds the tool of a call and parses its input. Later stages use only the parsed
//! value, never the raw input.

use std::{panic::AssertUnwindSafe, path::Path, sync::Arc};

use haft_tool::{CallContext, ContextChange, DynCall, DynTool, ErrorKind, Rendered, ToolError};
use haft_types::{CallId, ToolUse};
use serde_json::Value;

use crate::{
    CallDisplay, Pool,
    pipeline::{CallStageError, crashed},
    tool_pool::FoundTool,
};

/// A tool call of the model, looked up and parsed once, or the error the model will read instead.
///
/// Relative paths in the call were resolved against the directory it was parsed in. To run it in another
/// directory, parse it again.
pub struct ParsedCall {
    pub(crate) id: CallId,
    /// The tool's own name; the name the model wrote if there is no such tool.
    pub(crate) name: String,
    pub(crate) outcome: Result<ToolCall, CallStageError>,
    cwd: Arc<Path>,
}

/// A call whose input the tool accepted.
pub(crate) struct ToolCall {
    pub(crate) tool: CalledTool,
    pub(crate) call: Box<dyn DynCall>,
    /// Note for the model about values that it wrote as strings and that were converted (see
    /// [`taken_as`]).
    pub(crate) taken: Option<String>,
}

/// The tool of a call, with its pool entry at the time of the call.
#[derive(Clone)]
pub(crate) struct CalledTool {
    pub(crate) tool: Arc<dyn DynTool>,
    pub(crate) wire_name: String,
    pub(crate) deferred: bool,
}

/// What the scheduler needs to know about a call before it runs. Defaults to the most careful values.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CallSummary {
    /// Whether the call changes nothing. False if it failed to parse.
    pub is_read_only: bool,
    /// Whether the call may overlap with other concurrency-safe calls. False if it failed to parse.
    pub is_concurrency_safe: bool,
}

impl ParsedCall {
    /// Looks up the tool and parses the input. Never fails: errors and panics of the tool are stored and
    /// become the report of the call.
    pub fn parse(pool: &Pool, tool_use: ToolUse, cx: &CallContext) -> Self {
        let ToolUse { id, name, input } = tool_use;
        let known = pool.find(&name).map(|found| found.tool.name().to_owned());
        let outcome = match std::panic::catch_unwind(AssertUnwindSafe(|| bound(pool, &name, input, cx))) {
            Ok(outcome) => outcome,
            Err(panic) => Err(crashed(known.as_deref().unwrap_or(&name), panic.as_ref()).into()),
        };
        Self { id, name: known.unwrap_or(name), outcome, cwd: Arc::clone(&cx.cwd) }
    }

    /// Creates a call that will not run; `message` is its error text for the model.
    pub(crate) fn refused(tool_use: ToolUse, message: String, cwd: Arc<Path>) -> Self {
        let outcome = Err(ToolError::new(ErrorKind::InvalidInput, message).into());
        Self { id: tool_use.id, name: tool_use.name, outcome, cwd }
    }

    /// Whether the call was parsed in `cwd`.
    pub(crate) fn is_for(&self, cwd: &Arc<Path>) -> bool {
        Arc::ptr_eq(&self.cwd, cwd) || self.cwd == *cwd
    }

    /// Returns the properties the scheduler needs. If the tool panics, returns the careful defaults.
    pub fn outline(&self) -> CallSummary {
        let Ok(ToolCall { call, .. }) = &self.outcome else { return CallSummary::default() };
        let ask = || CallSummary {
            is_read_only: call.is_read_only(),
            is_concurrency_safe: call.is_concurrency_safe(),
        };
        std::panic::catch_unwind(AssertUnwindSafe(ask)).unwrap_or_default()
    }

    /// Returns what the user sees while the call runs. `None` for a call that will not run, or if the
    /// tool panics.
    pub fn render(&self) -> Option<Rendered> {
        let Ok(ToolCall { call, .. }) = &self.outcome else { return None };
        std::panic::catch_unwind(AssertUnwindSafe(|| call.render())).ok()
    }
}

impl ParsedCall {
    /// Returns the call as one display line. `None` for a call that will not run, or if the tool panics.
    pub fn shown(&self) -> Option<CallDisplay> {
        let Rendered { headline, .. } = self.render()?;
        let named = self.outcome.as_ref().ok().map(|it| it.call.user_facing_name());
        let name = named.filter(|it| !it.is_empty()).unwrap_or_else(|| self.name.clone());
        Some(CallDisplay { id: self.id.clone(), name, headline })
    }
}

fn bound(pool: &Pool, name: &str, mut input: Value, cx: &CallContext) -> Result<ToolCall, CallStageError> {
    let found = look_up(pool, name)?;
    found.tool.translate(name, &mut input);
    let asked = found.deferred.then(|| input.clone());
    let call = parsed(found, input, cx)?;
    let taken = asked.and_then(|asked| taken_as(&asked, call.input()));
    let FoundTool { tool, wire_name, deferred, .. } = found;
    let tool = CalledTool { tool: Arc::clone(tool), wire_name: wire_name.to_owned(), deferred };
    Ok(ToolCall { tool, call, taken })
}

fn look_up<'a>(pool: &'a Pool, name: &str) -> Result<FoundTool<'a>, ToolError> {
    let Some(found) = pool.find(name) else {
        if let Some(why) = pool.why_absent(name) {
            return Err(ToolError::failed(why));
        }
        let hint = match pool.meant(name).as_slice() {
            [] => String::from("Use only tools from the list you were given"),
            meant => format!("Did you mean {}?", meant.join(" or ")),
        };
        return Err(ToolError::new(ErrorKind::UnknownTool, format!("There is no tool named {name}. {hint}")));
    };
    match found.gone {
        None => Ok(found),
        Some(reason) => {
            let message =
                format!("{name} is temporarily unavailable: {reason}. Go on without it or try again later");
            Err(ToolError::failed(message))
        }
    }
}

/// Parses the input. For a deferred tool, whose schema the model may not have seen, a parse error
/// includes the schema and loads the tool.
fn parsed(found: FoundTool<'_>, input: Value, cx: &CallContext) -> Result<Box<dyn DynCall>, CallStageError> {
    Arc::clone(found.tool).parse(input, cx).map_err(|mut error: ToolError| {
        let mut changes = Vec::new();
        if found.deferred {
            error.message.push_str(&format!("\nIts schema: {}", found.tool.spec().input_schema));
            changes.push(ContextChange::LoadTools(vec![found.wire_name.to_owned()]));
        }
        CallStageError { changes, ..error.into() }
    })
}

/// Returns a note naming the values that the model wrote as strings and the tool converted, so that the
/// model writes them correctly next time. Happens with deferred tools, whose schema the model may not
/// have seen.
fn taken_as(asked: &Value, taken: &Value) -> Option<String> {
    let (asked, taken) = (asked.as_object()?, taken.as_object()?);
    let differ = asked.iter().filter_map(|(key, asked)| {
        let taken = taken.get(key)?;
        (asked.is_string() && !taken.is_string()).then(|| format!("`{key}` was taken as {}", kind_of(taken)))
    });
    let differ: Vec<String> = differ.collect();
    (!differ.is_empty()).then(|| format!("[{}, not as text]", differ.join(", ")))
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
