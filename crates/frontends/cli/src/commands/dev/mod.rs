//! `haft dev`: commands for developing Haft itself.

mod mock_model;
mod reference_pages;

use std::process::ExitCode;

use haft_console::stdout::{CliError, CommandExit};
use haft_mcp_client::{ManagerOptions, McpManager};
use haft_tool::DynTool;
use haft_tool_runtime::Pool;
use serde_json::Value;

use crate::args::DevCommand;

pub(crate) fn run(command: DevCommand) -> CommandExit {
    match command {
        DevCommand::Docs { dir } => {
            for (name, page) in reference_pages::pages()? {
                let path = dir.join(name);
                if let Some(parent) = path.parent() {
                    std::fs::create_dir_all(parent).map_err(|err| format!("{}: {err}", parent.display()))?;
                }
                std::fs::write(&path, page).map_err(|err| format!("{}: {err}", path.display()))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        DevCommand::Man { dir } => {
            reference_pages::manual(&dir)?;
            Ok(ExitCode::SUCCESS)
        }
        DevCommand::MockModel(args) => crate::commands::dev::mock_model::run(&args),
    }
}

/// The documentation page of the built-in tools, generated from the tool list itself.
pub(crate) fn tools_page() -> Result<String, CliError> {
    let scratch = tempfile::tempdir()?;
    let mut tools = haft_session::described_tools(scratch.path())?;
    tools.extend(haft_mcp_client::resource_tools(&McpManager::new(ManagerOptions::detached())));
    let pool = Pool::assemble(tools, Vec::new());
    let mut page = String::from(include_str!("reference_pages/tools_intro.md"));
    page.push_str("\n| tool | other names |\n|---|---|\n");
    for (_, tool) in pool.tools() {
        let (name, aliases) = (&tool.spec().name, tool.aliases());
        let aliases: Vec<String> = aliases.iter().map(|it| format!("`{it}`")).collect();
        page.push_str(&format!("| [{name}](#{}) | {} |\n", name.to_lowercase(), aliases.join(", ")));
    }
    for (_, tool) in pool.tools() {
        page.push_str(&section(tool.as_ref()));
    }
    Ok(page)
}

fn section(tool: &dyn DynTool) -> String {
    let spec = tool.spec();
    let mut text = format!("\n## {}\n\n", spec.name);
    text.push_str(&format!("{}\n", spec.description.trim()));
    let properties = spec.input_schema["properties"].as_object();
    let required: Vec<&str> =
        spec.input_schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if properties.is_some_and(|it| !it.is_empty()) {
        text.push_str("\n| parameter | type | |\n|---|---|---|\n");
    }
    for (name, schema) in properties.into_iter().flatten() {
        let need = if required.contains(&name.as_str()) { "**required** " } else { "" };
        let about = schema["description"].as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
        let kind = schema["type"].as_str().unwrap_or("value");
        text.push_str(&format!("| `{name}` | {kind} | {need}{about} |\n"));
    }
    text
}
