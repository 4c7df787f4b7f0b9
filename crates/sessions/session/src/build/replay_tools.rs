//! Placeholders for MCP tools in a replay: declared as recorded, answered from the recording.

use std::sync::Arc;

use haft_agent::recording::{RecordedRun, RecordedTool};
use haft_tool::{DynTool, Exposure, RawTool, ToolContext, ToolError, ToolSpec};
use serde_json::Value;

/// Creates placeholders for the MCP tools that a recorded run declared.
pub(super) fn replay_tools(cassette: &RecordedRun) -> Vec<Arc<dyn DynTool>> {
    cassette.server_tools().into_iter().map(stand_in).collect()
}

fn stand_in(tool: RecordedTool) -> Arc<dyn DynTool> {
    let name = tool.name.clone();
    let handler = move |_: Value, _: ToolContext<Value>| {
        let why = format!(
            "{name} belongs to a server that is not part of a replay, and this call was not recorded"
        );
        Box::pin(async move { Err(ToolError::failed(why)) }) as _
    };
    let spec = ToolSpec {
        name: tool.name,
        description: tool.description,
        input_schema: Arc::new(tool.input_schema),
        search_hint: String::new(),
        exposure: if tool.is_declared_first { Exposure::Always } else { Exposure::Deferred },
        max_result_chars: None,
        timeout: None,
    };
    Arc::new(RawTool::new(spec, handler))
}
