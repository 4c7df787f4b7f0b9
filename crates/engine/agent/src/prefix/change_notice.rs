//! Messages about changes that the beginning of requests does not contain, so that it can stay unchanged
//! for the prompt cache.

use haft_tool::DynTool;
use serde_json::json;

use crate::SystemPrompt;

/// The differences of two prompts, as one message each. Differences that cannot be expressed as messages
/// require a new prompt; see [`goes_on`].
pub(crate) fn prompt_news(known: &SystemPrompt, now: &SystemPrompt) -> Vec<String> {
    let mut news = Vec::new();
    if known.environment.today != now.environment.today {
        news.push(format!("Today is {}.", now.environment.today));
    }
    if known.memory != now.memory {
        news.push(match now.memory.text() {
            Some(text) => format!(
                "What the user and the project want every session to know changed. This holds now:\n\n{text}"
            ),
            None => String::from(
                "What the user and the project wanted every session to know is gone; it does not hold any more.",
            ),
        });
    }
    if known.style != now.style {
        news.push(match &now.style {
            Some(style) => format!("You are to write in another way from now on.\n\n{}", style.told()),
            None => String::from("The output style does not hold any more: write as usual."),
        });
    }
    let more: Vec<&str> = now
        .deferred_tools
        .iter()
        .filter(|name| !known.deferred_tools.contains(name))
        .map(String::as_str)
        .collect();
    if !more.is_empty() {
        news.push(format!(
            "More tools exist. Load the ones you need with ToolSearch before you call them: {}",
            more.join(", ")
        ));
    }
    for (server, words) in &now.servers {
        if known.servers.get(server) != Some(words) {
            news.push(format!("The MCP server {server} says now:\n{words}"));
        }
    }
    news
}

/// Whether all differences of two prompts can be expressed as messages, so that the sent one can be
/// kept.
pub(crate) fn goes_on(sent: &SystemPrompt, now: &SystemPrompt) -> bool {
    let (then, here) = (&sent.environment, &now.environment);
    sent.base == now.base
        && sent.append == now.append
        && then.cwd == here.cwd
        && then.platform == here.platform
        && then.is_git_repository == here.is_git_repository
        && then.additional_directories == here.additional_directories
}

/// A message about the changed definition of a tool.
pub(crate) fn changed_tool(name: &str, tool: &dyn DynTool) -> String {
    let spec = tool.spec();
    let now = json!({"description": spec.description, "input_schema": spec.input_schema});
    format!("The tool {name} changed. Its definition in your list is outdated; this one holds: {now}")
}
