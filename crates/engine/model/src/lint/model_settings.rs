//! Adapts request settings to what the model supports.

use std::sync::Arc;

use haft_types::{Message, MessageBlock, Role};

use super::{LintReport, RepairKind};
use crate::{
    Effort, ModelInfo, Request, Speed, Thinking, ThinkingSupport, ToolChoice,
    tool_wire_name::{is_wire, wire_name},
};

/// Replaces settings the model would reject by the closest supported ones.
pub(crate) fn adapt(request: &mut Request, info: &ModelInfo, report: &mut LintReport) {
    let model = request.model.clone();
    let mut changed = |what: &str, detail: String| {
        report.add(RepairKind::Setting, format!("{what} for {model}"), detail);
    };
    let thinking = thinking_for(request.thinking, info.thinking, request.max_tokens);
    if thinking != request.thinking {
        changed("thinking", format!("{:?} became {thinking:?}", request.thinking));
        request.thinking = thinking;
    }
    if lacks_leading_thinking(request) {
        changed("thinking", "off for this request: its last answer has none to go on from".to_owned());
        request.thinking = Thinking::Off;
    }
    if let Some(effort) = request.effort {
        let nearest = nearest_effort(effort, &info.efforts);
        if nearest != Some(effort) {
            changed(
                "effort",
                format!("{} became {}", effort.as_str(), nearest.map_or("the default", Effort::as_str)),
            );
            request.effort = nearest;
        }
    }
    if let Some(detail) = adapt_choice(request, info) {
        changed("tool_choice", detail);
    }
    let thinks = matches!(request.thinking, Thinking::Adaptive | Thinking::Budget { .. });
    if request.temperature.is_some() && (!info.sampling || thinks) {
        let why = if info.sampling { "it cannot be combined with thinking" } else { "the model takes none" };
        changed("temperature", format!("left out: {why}"));
        request.temperature = None;
    }
    if request.output_schema.is_some() && !info.structured_output {
        changed("output_schema", "left out: the model cannot be held to one".to_owned());
        request.output_schema = None;
    }
    if request.speed == Speed::Fast && !info.fast {
        changed("speed", "normal: the model has no fast mode".to_owned());
        request.speed = Speed::Normal;
    }
}

fn thinking_for(wanted: Thinking, support: ThinkingSupport, max_tokens: u32) -> Thinking {
    use ThinkingSupport as Can;
    match (wanted, support) {
        (Thinking::Adaptive, Can::Budget) => Thinking::Budget { tokens: (max_tokens / 2).max(1024) },
        (Thinking::Budget { .. }, Can::Adaptive | Can::Always) => Thinking::Adaptive,
        (Thinking::Budget { tokens }, Can::Budget | Can::Both) => {
            Thinking::Budget { tokens: tokens.max(1024) }
        }
        (_, Can::None | Can::Effort) | (Thinking::Off, Can::Always) => Thinking::Default,
        (wanted, _) => wanted,
    }
}

/// Whether thinking with a budget is impossible here: an unfinished round of tool calls must start with
/// a thinking block.
fn lacks_leading_thinking(request: &Request) -> bool {
    if !matches!(request.thinking, Thinking::Budget { .. }) {
        return false;
    }
    let is_result = |block: &MessageBlock| matches!(block, MessageBlock::ToolResult { .. });
    let asks_on = request.messages.last().is_some_and(|last| last.content.iter().any(is_result));
    let last_answer: Option<&Arc<Message>> =
        request.messages.iter().rev().find(|message| message.role == Role::Assistant);
    asks_on
        && last_answer.and_then(|answer| answer.content.first()).is_some_and(|first| {
            !matches!(first, MessageBlock::Thinking { .. } | MessageBlock::RedactedThinking { .. })
        })
}

/// Returns the wanted effort, or the highest lower one the model supports.
fn nearest_effort(wanted: Effort, known: &[String]) -> Option<Effort> {
    let order = [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max];
    let up_to = order.iter().position(|effort| *effort == wanted).unwrap_or(0);
    order[..=up_to].iter().rev().copied().find(|effort| known.iter().any(|name| name == effort.as_str()))
}

fn adapt_choice(request: &mut Request, info: &ModelInfo) -> Option<String> {
    if let ToolChoice::Tool { name } = &mut request.tool_choice
        && !is_wire(name)
    {
        *name = wire_name(name);
    }
    let forced = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => return None,
        ToolChoice::Any => !request.tools.is_empty(),
        ToolChoice::Tool { name } => request.tools.by_wire_name(name).is_some(),
    };
    if !forced {
        request.tool_choice = ToolChoice::Auto;
        return Some("auto: there is no such tool".to_owned());
    }
    if !info.forced_tools {
        request.tool_choice = ToolChoice::Auto;
        return Some("auto: the model cannot be forced".to_owned());
    }
    let thinks = matches!(request.thinking, Thinking::Adaptive | Thinking::Budget { .. });
    if thinks && info.thinking != ThinkingSupport::Always {
        request.thinking = Thinking::Off;
        return Some("thinking is off: the model cannot think when it is forced".to_owned());
    }
    None
}
