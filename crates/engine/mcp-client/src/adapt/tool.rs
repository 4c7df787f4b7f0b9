use std::sync::{Arc, Weak};

use haft_tool::{
    DynTool, ErrorKind, Exposure, Output, RawTool, ToolContext, ToolError, ToolHints, ToolSpec, Verdict,
};
use haft_types::text;
use serde_json::{Value, json};

use super::{
    result::shape,
    schema::{is_sound, usable},
    tool_names::original,
    visible_text::visible,
};
use crate::{
    client::OfferedTool,
    config::{ServerConfig, ServerTrust},
    jsonrpc::ProgressReport,
    manager::{CallFailure, CallOptions, Server},
};

/// A longer description is an attack or an accident.
const MAX_DESCRIPTION_CHARS: usize = 2048;

/// About 25,000 tokens: larger results go to a file.
const RESULT_CHARS: usize = 100_000;
const MAX_RESULT_CHARS: usize = 500_000;

/// Whether a definition is what the user agreed to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PinCheck {
    Yes,
    /// It changed since.
    No,
}

/// A tool of ours made of a definition.
pub(crate) struct BuiltTool {
    pub(crate) tool: Arc<dyn DynTool>,
    /// What had to be repaired.
    pub(crate) repairs: Vec<String>,
}

/// Makes a tool of ours out of a definition, or says why it cannot be used.
pub(crate) fn remote_tool(
    config: &ServerConfig,
    def: &Arc<OfferedTool>,
    name: String,
    agreed: PinCheck,
    exposure: Exposure,
    server: Weak<Server>,
) -> Result<BuiltTool, String> {
    let (mut input_schema, schema_repairs) = usable(&def.input_schema)?;
    haft_types::tags::neutralise(&mut input_schema);
    let mut repairs: Vec<String> = def.repairs.iter().cloned().chain(schema_repairs).collect();
    let output_schema = def.output_schema.clone().filter(is_sound);
    if output_schema.is_none() && def.output_schema.is_some() {
        repairs.push(String::from("outputSchema: it is not a valid schema and is ignored"));
    }
    let spec = ToolSpec {
        description: description(def, &input_schema),
        input_schema: Arc::new(input_schema),
        search_hint: search_hint(config, def),
        exposure: if def.meta_flag("anthropic/alwaysLoad") { Exposure::Always } else { exposure },
        max_result_chars: Some(result_chars(def)),
        // The server's own limits hold, and progress extends them.
        timeout: None,
        name: name.clone(),
    };
    let written = original(&config.name, &def.name);
    let aliases = if written == name { Vec::new() } else { vec![written] };
    let handler = {
        let def = Arc::clone(def);
        move |input: Value, cx: ToolContext<Value>| {
            let (server, def) = (server.clone(), Arc::clone(&def));
            Box::pin(async move { run(server, &def, input, cx).await }) as _
        }
    };
    let verdict = match agreed {
        PinCheck::No => Verdict::Insist(format!(
            "the server `{}` has changed what `{}` says about itself since you agreed to it",
            config.name, def.name
        )),
        PinCheck::Yes if def.meta_flag("anthropic/requiresUserInteraction") => {
            Verdict::Insist(String::from("the server wants a person to confirm this"))
        }
        PinCheck::Yes => Verdict::Passthrough,
    };
    let tool = RawTool::new(spec, handler)
        .with_aliases(aliases)
        .with_output_schema(output_schema)
        .with_verdict(verdict)
        .trust(claims(config.trust, def));
    Ok(BuiltTool { tool: Arc::new(tool), repairs })
}

/// What a server claims counts as far as it is trusted.
fn claims(trust: ServerTrust, def: &OfferedTool) -> ToolHints {
    let read_only = def.annotations.read_only_hint == Some(true);
    ToolHints {
        read_only: read_only && trust == ServerTrust::Trusted,
        concurrency_safe: read_only && ServerTrust::Approved <= trust,
        // A warning is believed from anybody.
        destructive: def.annotations.destructive_hint == Some(true),
    }
}

fn description(def: &OfferedTool, schema: &Value) -> String {
    let said = match def.description.trim() {
        "" => def.title.as_deref().unwrap_or(&def.name),
        said => said,
    };
    let visible = visible(said);
    let visible = haft_types::tags::neutral(&visible);
    let mut description = text::head(&visible, MAX_DESCRIPTION_CHARS).to_owned();
    if description.len() < visible.len() {
        description.push_str(" […]");
    }
    if ["anyOf", "oneOf", "allOf", "if"].iter().any(|key| schema.get(*key).is_some()) {
        description
            .push_str("\nNot every combination of the parameters is valid; a call that is not says why.");
    }
    description
}

fn search_hint(config: &ServerConfig, def: &OfferedTool) -> String {
    let own = def.meta.get("anthropic/searchHint").and_then(Value::as_str).unwrap_or_default();
    let title = def.title.as_deref().unwrap_or_default();
    let words = [config.name.as_str(), def.name.as_str(), title, own];
    text::one_line(&words.join(" "), 300)
}

fn result_chars(def: &OfferedTool) -> usize {
    let wanted = def.meta.get("anthropic/maxResultSizeChars").and_then(Value::as_u64);
    wanted.map_or(RESULT_CHARS, |it| usize::try_from(it).unwrap_or(usize::MAX).clamp(1, MAX_RESULT_CHARS))
}

async fn run(
    server: Weak<Server>,
    def: &OfferedTool,
    input: Value,
    cx: ToolContext<Value>,
) -> Result<Output, ToolError> {
    let Some(server) = server.upgrade() else {
        return Err(ToolError::failed("the server of this tool is no longer configured"));
    };
    let watcher = cx.clone();
    let progress = move |report: ProgressReport| {
        watcher.progress(&json!({
            "progress": report.progress,
            "total": report.total,
            "message": report.message,
        }));
    };
    let options = CallOptions {
        cancel: cx.cancel.clone(),
        progress: Some(Arc::new(progress)),
        call_id: cx.call_id.to_string(),
        traceparent: server.trace_of(&cx.agent_id, &cx.call_id),
    };
    match server.call_tool(def, input, &options).await {
        Ok(result) => shape(result, server.name(), server.media()).await,
        Err(failure) => Err(tool_error(failure, def)),
    }
}

/// A failed call in words that say what to do next.
fn tool_error(failure: CallFailure, def: &OfferedTool) -> ToolError {
    match failure {
        CallFailure::Cancelled => {
            ToolError::new(ErrorKind::Interrupted, "interrupted; the server was told to stop")
        }
        CallFailure::TimedOut(message) => ToolError::new(
            ErrorKind::TimedOut,
            format!("{message}. The server was told to stop; what it did until then is unknown."),
        ),
        CallFailure::Lost { reason } => ToolError::failed(if def.annotations.may_be_repeated() {
            format!("{reason}, twice in a row. Try again later or do without this tool.")
        } else {
            format!(
                "{reason}, while the call was running: its outcome is unknown. \
                 Check what it did before you call it again."
            )
        }),
        CallFailure::Unavailable(unavailable) => ToolError::failed(format!(
            "{}{}. The call had no effect.{}",
            if unavailable.reason.contains("temporarily unavailable") {
                String::new()
            } else {
                format!("{} is temporarily unavailable: ", def.name)
            },
            unavailable.reason,
            if unavailable.needs_auth { "" } else { " Try again later or do without this tool." }
        )),
        CallFailure::Refused(message) => ToolError::failed(message),
    }
}
