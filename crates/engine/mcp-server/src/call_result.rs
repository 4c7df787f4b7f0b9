//! Converts a call report to the result of `tools/call`.

use haft_tool::{Block, ErrorKind};
use haft_tool_runtime::CallReport;
use haft_types::MediaSource;
use rmcp::model::{CallToolResult, ContentBlock, ResultType};
use serde_json::{Value, json};

use super::stored_results;

/// Whether a tool has an output schema.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResultSchema {
    /// Yes, so structured results are sent.
    Declared,
    /// No.
    Undeclared,
}

/// Converts a report to the result of `tools/call`.
pub(super) fn result(
    report: CallReport,
    structured: ResultSchema,
    stored: Option<stored_results::StoredResult>,
) -> CallToolResult {
    if let Some(result) = passed_through(&report) {
        return result;
    }
    let mut content: Vec<ContentBlock> = report.content.0.into_iter().map(block).collect();
    // Clients show only results to their user, so advice for the user is included.
    let way_out = report.decision.as_ref().filter(|_| report.error == Some(ErrorKind::Denied));
    if let Some(way_out) = way_out.and_then(|it| it.way_out.as_ref()) {
        content.push(ContentBlock::text(format!("[For the person who runs this server: {way_out}]")));
    }
    content.extend(stored.map(|it| it.link()));
    if content.is_empty() {
        content.push(ContentBlock::text("(no output)"));
    }
    let mut result = match report.error {
        Some(_) => CallToolResult::error(content),
        None => CallToolResult::success(content),
    };
    if report.error.is_none() && structured == ResultSchema::Declared {
        result.structured_content = report.data.filter(Value::is_object);
    }
    result
}

/// Returns the result of another MCP server's tool unchanged.
fn passed_through(report: &CallReport) -> Option<CallToolResult> {
    let is_remote = report.error.is_none() && report.meta.as_ref()?.get("structuredContent").is_some();
    let data = report.data.as_ref().filter(|_| is_remote)?;
    data.get("content")?.as_array()?;
    let mut result: CallToolResult = serde_json::from_value(data.clone()).ok()?;
    result.result_type = Some(ResultType::COMPLETE);
    Some(result)
}

fn block(block: Block) -> ContentBlock {
    match block {
        Block::Text { text } => ContentBlock::text(text),
        Block::Image { source: MediaSource::Base64 { media_type, data } } => {
            ContentBlock::image(data, media_type)
        }
        Block::Image { source: MediaSource::Url { url } } => {
            ContentBlock::text(format!("[picture at {url}]"))
        }
        Block::Document { source: MediaSource::Base64 { media_type, data }, title } => {
            let uri = format!("haft-document://{}", title.unwrap_or_else(|| String::from("document")));
            let embedded = json!({
                "type": "resource",
                "resource": {"uri": uri, "mimeType": media_type, "blob": data},
            });
            serde_json::from_value(embedded).unwrap_or_else(|_| ContentBlock::text("[document]"))
        }
        Block::Document { source: MediaSource::Url { url }, .. } => {
            ContentBlock::text(format!("[document at {url}]"))
        }
        Block::ToolReference { tool_name } => ContentBlock::text(format!("[tool {tool_name}]")),
    }
}
