//! `haft context`: shows what fills the context window.

use std::sync::Arc;

use haft_agent::{WindowPart, WindowUsage};
use haft_console::{
    GlobalArgs,
    stdout::{CliError, CommandExit, print_bytes},
    style::{colours, painted},
};
use haft_mcp_client::McpManager;
use haft_model::ScriptedProvider;
use haft_session::{Command, LogDestination, ProviderSpec, Session};
use haft_tool::{Exposure, ToolSpec};
use haft_types::text::thousands;
use serde_json::{Value, json};

use crate::{args::RunArgs, run::session_spec};

pub(crate) fn run(session: Option<String>, run: &RunArgs, options: &GlobalArgs) -> CommandExit {
    let mut run = run.clone();
    run.session.continue_ = session.is_none() && run.session.resume.is_none();
    run.session.resume = session.or(run.session.resume);
    let (fill, servers) = session_spec::runtime()?.block_on(look(&run, options))?;
    if options.json {
        let mut json = serde_json::to_value(&fill).map_err(|err| CliError::Message(err.to_string()))?;
        json["mcp"] = servers.iter().map(ServerFill::json).collect();
        return print_bytes(format!("{json}\n").as_bytes());
    }
    print_bytes((for_people(&fill) + &servers_for_people(&servers)).as_bytes())
}

/// Measures the next request, and what the tools of each MCP server would add to it. Sends no model
/// request and writes no log.
async fn look(run: &RunArgs, options: &GlobalArgs) -> Result<(WindowUsage, Vec<ServerFill>), CliError> {
    let mut spec = session_spec::of_run(run, options)?;
    spec.log.kept = LogDestination::Nowhere;
    if let Some(model) = &mut spec.model {
        model.provider = ProviderSpec::Given { provider: Arc::new(ScriptedProvider::new([])), catalog: None };
        model.record = None;
    }
    let handle = Session::open_on(spec, session_spec::stderr_events())?;
    let fill = handle.ask(Command::WindowFill).await.flatten();
    let fill = fill.ok_or_else(|| CliError::Message(String::from("the session cannot be looked at")))?;
    let servers = server_fills(handle.servers(), &fill.loaded);
    handle.close().await;
    Ok((fill, servers))
}

/// Tokens used by one tool.
struct ToolFill {
    name: String,
    tokens: u64,
    when: ToolPresence,
}

/// When a tool's definition is part of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum ToolPresence {
    Always,
    /// The model loaded it in this session.
    Loaded,
    OnDemand,
}

/// Tokens used by the tools of one MCP server.
struct ServerFill {
    name: String,
    tools: Vec<ToolFill>,
}

impl ServerFill {
    fn tokens(&self) -> u64 {
        self.tools.iter().map(|it| it.tokens).sum()
    }

    fn json(&self) -> Value {
        let tool = |it: &ToolFill| {
            let is_loaded = it.when != ToolPresence::OnDemand;
            json!({"name": it.name, "tokens": it.tokens, "loaded": is_loaded})
        };
        let tools: Value = self.tools.iter().map(tool).collect();
        json!({"server": self.name, "tokens": self.tokens(), "tools": tools})
    }
}

fn server_fills(manager: &McpManager, loaded: &[String]) -> Vec<ServerFill> {
    let size = |it: &ToolSpec| it.name.len() + it.description.len() + it.input_schema.to_string().len();
    let tokens = |it: &ToolSpec| u64::try_from(size(it) / 4).unwrap_or(u64::MAX);
    let of = |name: String| {
        let tools = manager.tools_of(&name);
        let tools = tools.iter().map(|it| it.spec());
        let when = |it: &ToolSpec| match it.exposure {
            Exposure::Always | Exposure::Direct => ToolPresence::Always,
            Exposure::Deferred if loaded.contains(&it.name) => ToolPresence::Loaded,
            Exposure::Deferred => ToolPresence::OnDemand,
        };
        let fill = |it: &ToolSpec| ToolFill { name: it.name.clone(), tokens: tokens(it), when: when(it) };
        let tools = tools.map(fill).collect();
        ServerFill { name, tools }
    };
    manager.names().into_iter().map(of).collect()
}

fn servers_for_people(servers: &[ServerFill]) -> String {
    if servers.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nMCP servers: what their tools take once they are loaded\n");
    for server in servers {
        let name = haft_console::style::clean(&server.name);
        out.push_str(&format!("  {:>9}  {name}, {} tools\n", thousands(server.tokens()), server.tools.len()));
        for ToolFill { name, tokens, when } in &server.tools {
            let when = match when {
                ToolPresence::Always => "in every request",
                ToolPresence::Loaded => "loaded in this session",
                ToolPresence::OnDemand => "on demand",
            };
            out.push_str(&format!(
                "  {:>9}    {} ({when})\n",
                thousands(*tokens),
                haft_console::style::clean(name)
            ));
        }
    }
    out
}

const BAR: usize = 30;

fn for_people(fill: &WindowUsage) -> String {
    let paint = |text: &str, paint: &str| painted(text, paint, colours());
    let percent = |tokens: u64| if fill.window == 0 { 0.0 } else { share(tokens, fill.window) * 100.0 };
    let mut out = format!(
        "{}  about {} of {} tokens ({:.1} %)\n{}\n",
        paint(&fill.model, "1"),
        thousands(fill.total),
        thousands(fill.window),
        percent(fill.total),
        paint(
            &format!(
                "made shorter from {} on; {} are kept for the answer",
                thousands(fill.compact_at),
                thousands(fill.answer)
            ),
            "2"
        ),
    );
    let widest = fill.parts.iter().map(|part| part.name.chars().count()).max().unwrap_or(0);
    let largest = fill.parts.iter().map(|part| part.tokens).max().unwrap_or(1).max(1);
    out.push('\n');
    for WindowPart { name, count, tokens } in &fill.parts {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "between 0 and the length of a bar"
        )]
        let length = (share(*tokens, largest) * BAR as f64).round() as usize;
        let bar = paint(&"█".repeat(length.max(usize::from(0 < *tokens))), "36");
        let times = if 1 < *count { format!(" ×{count}") } else { String::new() };
        out.push_str(&format!("  {name:<widest$}  {:>9}  {bar}{}\n", thousands(*tokens), paint(&times, "2")));
    }
    if !fill.largest.is_empty() {
        out.push_str("\nlargest results\n");
    }
    for part in &fill.largest {
        out.push_str(&format!(
            "  {:>9}  {}\n",
            thousands(part.tokens),
            haft_console::style::clean(&part.name)
        ));
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
