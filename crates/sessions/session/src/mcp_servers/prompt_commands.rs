//! Prompts of MCP servers as slash commands: `/mcp__server__prompt argument …`.

use haft_mcp_client::{McpManager, PromptDef, tool_prefix};
use haft_types::nearest;
use serde_json::{Map, Value, json};

/// Expands a prompt that is such a command; `None` for any other prompt. Asks the server.
pub(crate) async fn expand_command(manager: &McpManager, prompt: &str) -> Result<Option<String>, String> {
    let mut words = prompt.split_whitespace();
    let Some(command) = words.next().and_then(|it| it.strip_prefix('/')).filter(|it| it.starts_with("mcp__"))
    else {
        return Ok(None);
    };
    let server = manager.names().into_iter().find(|it| command.starts_with(&tool_prefix(it)));
    let Some(server) = server else {
        return Err(format!("/{command}: there is no such MCP server"));
    };
    // Connects to the server if necessary.
    manager.prompts(&server).await.map_err(|err| err.to_string())?;
    let commands = manager.prompt_commands().await;
    let Some(found) = commands.iter().find(|it| it.command == command) else {
        let near = nearest(command, commands.iter().map(|it| it.command.as_str()), 3);
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean /{}?", near.join(" or /")) };
        return Err(format!("{server} has no prompt /{command}{hint}"));
    };
    let def = &found.prompt;
    let values: Vec<&str> = words.collect();
    let arguments = arguments(def, &values)?;
    let filled = manager.get_prompt(&server, &def.name, arguments).await.map_err(|err| err.to_string())?;
    Ok(Some(haft_types::tags::neutral(&texts(&filled)).into_owned()))
}

/// Assigns words to the arguments in order; the last argument takes all remaining words.
fn arguments(def: &PromptDef, words: &[&str]) -> Result<Map<String, Value>, String> {
    let mut filled = Map::new();
    let count = def.arguments.len();
    for (at, argument) in def.arguments.iter().enumerate() {
        let value = if at + 1 == count {
            words.get(at..).unwrap_or_default().join(" ")
        } else {
            words.get(at).map(|it| (*it).to_owned()).unwrap_or_default()
        };
        if !value.is_empty() {
            filled.insert(argument.name.clone(), json!(value));
        } else if argument.required {
            return Err(format!("/{}: the argument {} is missing", def.name, argument.name));
        }
    }
    Ok(filled)
}

/// The text of the messages of an expanded prompt.
fn texts(filled: &Value) -> String {
    let messages = filled["messages"].as_array().into_iter().flatten();
    let text = |message: &Value| {
        let content = &message["content"];
        let said = content["text"].as_str().or_else(|| content["resource"]["text"].as_str());
        match said {
            Some(said) => said.to_owned(),
            None => format!("[{}]", content["type"].as_str().unwrap_or("content")),
        }
    };
    messages.map(text).collect::<Vec<_>>().join("\n\n")
}
