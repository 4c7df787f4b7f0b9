//! `haft mcp list | get | doctor`: the state of MCP servers.

use std::{process::ExitCode, time::Duration};

use haft_console::{
    stdout::{CliError, CommandExit, print_bytes, print_line},
    style,
};
use haft_mcp_client::{
    DeclarationProblem, McpManager, ProtocolRevision, ServerDeclaration, ServerState, ServerStatus,
    SkippedOffer, tool_prefix,
};
use haft_model::wire_schema;
use haft_session::DiscoveredServers;
use haft_types::{nearest, text};
use serde_json::{Value, json};

use super::McpCommands;

/// State of one server.
struct Row {
    name: String,
    scope: &'static str,
    /// Command or URL, as written in the configuration.
    what: String,
    /// File that configures the server.
    place: Option<String>,
    state: &'static str,
    /// Why the server cannot be used.
    reason: Option<String>,
    status: Option<ServerStatus>,
    /// Tools under the names the model sees, with the beginning of their description.
    offers: Vec<(String, String)>,
}

/// How much to print about a server's tools.
#[derive(Clone, Copy, Eq, PartialEq)]
enum ToolDetail {
    Counted,
    Named,
}

pub(super) async fn list(desk: &McpCommands) -> CommandExit {
    if desk.json {
        let rows = look(desk, None, Some(LIST_TIMEOUT)).await?;
        print_line(&Value::from_iter(rows.iter().map(Row::json)).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let found = desk.servers.found();
    let named = found.declared.iter().map(|it| it.name.as_str());
    let widest = named.chain(found.problems.iter().map(|it| it.server.as_str())).map(|it| it.chars().count());
    let widest = widest.max().unwrap_or(0);
    let line = |row: &Row| {
        let name = format!("{:<widest$}", style::clean(&row.name));
        format!("{}  {}\n", style::painted(&name, "1", style::colours()), row.line())
    };
    let mut shown: Vec<String> = Vec::new();
    let mut print = |rows: Vec<Row>| -> Result<(), CliError> {
        let new: Vec<&Row> = rows.iter().filter(|row| !shown.contains(&row.name)).collect();
        let out: String = new.iter().map(|row| line(row)).collect();
        shown.extend(new.iter().map(|row| row.name.clone()));
        print_bytes(out.as_bytes()).map(drop)
    };
    // Servers start concurrently. Those that answer quickly are printed first, the slow ones later.
    launch(desk, None);
    connect(desk, desk.servers.manager().names(), Some(LIST_AT_ONCE)).await;
    let (late, done): (Vec<Row>, Vec<Row>) = rows(desk, None).into_iter().partition(Row::is_under_way);
    print(done)?;
    let late = late.into_iter().map(|row| row.name).collect();
    connect(desk, late, Some(LIST_TIMEOUT.saturating_sub(LIST_AT_ONCE))).await;
    print(finished_rows(desk, None).await)?;
    if shown.is_empty() {
        print_line("No MCP servers. Name one with `haft mcp add`.")?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn get(desk: &McpCommands, name: &str) -> CommandExit {
    find(desk, name)?;
    let rows = look(desk, Some(name), None).await?;
    show_all(desk, &rows, ToolDetail::Named)
}

pub(super) async fn doctor(desk: &McpCommands, name: Option<&str>) -> CommandExit {
    if let Some(name) = name {
        find(desk, name)?;
    }
    let rows = look(desk, name, None).await?;
    if rows.is_empty() && !desk.json {
        print_line("No MCP servers. Name one with `haft mcp add`.")?;
        return Ok(ExitCode::SUCCESS);
    }
    show_all(desk, &rows, ToolDetail::Counted)
}

/// Prints everything about these servers. Exit code 1 if one of them does not work.
fn show_all(desk: &McpCommands, rows: &[Row], tools: ToolDetail) -> CommandExit {
    if desk.json {
        print_line(&Value::from_iter(rows.iter().map(Row::json)).to_string())?;
    } else {
        let reports: Vec<String> = rows.iter().map(|row| row.report(tools)).collect();
        print_bytes(reports.join("\n").as_bytes())?;
    }
    let all_work = rows.iter().all(|it| it.state == "ready");
    Ok(if all_work { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Fails, with the nearest names, if no server has this name.
pub(super) fn find(desk: &McpCommands, name: &str) -> Result<(), CliError> {
    let found = desk.servers.found();
    let names: Vec<&str> = found
        .declared
        .iter()
        .map(|it| it.name.as_str())
        .chain(found.waiting.iter().map(|it| it.server.name.as_str()))
        .chain(found.problems.iter().map(|it| it.server.as_str()))
        .collect();
    if names.contains(&name) {
        return Ok(());
    }
    let near = nearest(name, names, 3);
    let hint = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    Err(CliError::Message(format!("there is no MCP server named {name}{hint}")))
}

/// Maximum time a list waits for servers. `haft mcp doctor` waits for each server's own timeout instead.
const LIST_TIMEOUT: Duration = Duration::from_secs(8);
const LIST_AT_ONCE: Duration = Duration::from_millis(1500);

/// Connects to all servers or to one, and returns their states.
async fn look(
    desk: &McpCommands,
    only: Option<&str>,
    patience: Option<Duration>,
) -> Result<Vec<Row>, CliError> {
    launch(desk, only);
    connect(desk, desk.servers.manager().names(), patience).await;
    Ok(finished_rows(desk, only).await)
}

/// Returns the states after the wait, and stops the servers.
async fn finished_rows(desk: &McpCommands, only: Option<&str>) -> Vec<Row> {
    let mut rows = rows(desk, only);
    for row in rows.iter_mut().filter(|row| row.is_under_way() && row.reason.is_none()) {
        let name = &row.name;
        row.reason = Some(format!("no answer yet; `haft mcp doctor {name}` waits longer and says why"));
    }
    desk.servers.stop().await;
    rows
}

/// Starts all servers or one.
fn launch(desk: &McpCommands, only: Option<&str>) {
    let mut usable = desk.servers.found().usable;
    usable.retain(|it| only.is_none_or(|only| only == it.name));
    desk.servers.launch(usable);
}

/// Waits until the servers have connected or failed, at most `patience`.
async fn connect(desk: &McpCommands, names: Vec<String>, patience: Option<Duration>) {
    let manager = desk.servers.manager();
    // Also servers whose tools are cached: the user wants to know whether they work now.
    let all = futures_util::future::join_all(names.iter().map(|name| manager.refresh(name)));
    match patience {
        Some(patience) => drop(tokio::time::timeout(patience, all).await),
        None => drop(all.await),
    }
}

/// Current state of all servers or of one.
fn rows(desk: &McpCommands, only: Option<&str>) -> Vec<Row> {
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let DiscoveredServers { waiting, problems, declared, .. } = desk.servers.found();
    let manager = desk.servers.manager();
    let statuses = manager.status().into_iter().map(|status| with_wire_notes(status, manager));
    let mut rows: Vec<Row> = statuses
        .map(|status| Row {
            offers: offers(manager, &status.name),
            ..Row::of_status(status, &declared, desk)
        })
        .collect();
    for it in waiting.iter().filter(|it| wanted(&it.server.name)) {
        rows.push(Row::plain(&it.server, "waiting", it.reason(), desk));
    }
    for DeclarationProblem { server, reason } in problems.iter().filter(|it| wanted(&it.server)) {
        let row = match declared.iter().find(|it| it.name == *server) {
            Some(it) => Row::plain(it, "unusable", reason.clone(), desk),
            None => Row {
                name: server.clone(),
                scope: "",
                what: String::new(),
                place: None,
                state: "unusable",
                reason: Some(reason.clone()),
                status: None,
                offers: Vec::new(),
            },
        };
        rows.push(row);
    }
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

/// Adds what happens to the tools in model requests: which are left out because no provider accepts
/// them, and which are sent in a changed form.
fn with_wire_notes(mut status: ServerStatus, manager: &McpManager) -> ServerStatus {
    for tool in manager.tools_of(&status.name) {
        let spec = tool.spec();
        let name = || spec.name.strip_prefix(&tool_prefix(&status.name)).unwrap_or(&spec.name).to_owned();
        match wire_schema(&spec.input_schema) {
            Err(reason) => status.skipped.push(SkippedOffer { name: name(), reason }),
            Ok(wire) if !wire.notes.is_empty() => {
                status.repaired.push(SkippedOffer { name: name(), reason: wire.notes.join("; ") });
            }
            Ok(_) => (),
        }
    }
    status
}

fn offers(manager: &McpManager, server: &str) -> Vec<(String, String)> {
    let tools = manager.tools_of(server);
    tools.iter().map(|tool| (tool.name().to_owned(), text::one_line(&tool.spec().description, 70))).collect()
}

fn place(desk: &McpCommands, name: &str) -> Option<String> {
    let loaded = desk.premises.store.current();
    loaded.settings.mcp_servers.iter().find(|it| it.name == name).map(|it| it.origin.to_string())
}

impl Row {
    fn of_status(status: ServerStatus, declared: &[ServerDeclaration], desk: &McpCommands) -> Self {
        let what = declared.iter().find(|it| it.name == status.name).map(ServerDeclaration::summary);
        let (state, reason) = match &status.state {
            ServerState::Ready => ("ready", None),
            ServerState::NeedsAuth => {
                ("needs login", Some(format!("log in with `haft mcp login {}`", status.name)))
            }
            ServerState::Disabled => ("off", None),
            ServerState::Cached | ServerState::Connecting => ("starting", status.last_error.clone()),
            ServerState::Restarting { .. } => ("restarting", status.last_error.clone()),
            ServerState::Failed => ("failed", status.last_error.clone()),
        };
        Self {
            name: status.name.clone(),
            scope: status.scope.name(),
            what: what.unwrap_or_default(),
            place: place(desk, &status.name),
            state,
            reason,
            status: Some(status),
            offers: Vec::new(),
        }
    }

    fn plain(server: &ServerDeclaration, state: &'static str, reason: String, desk: &McpCommands) -> Self {
        Self {
            name: server.name.clone(),
            scope: server.scope.name(),
            what: server.summary(),
            place: place(desk, &server.name),
            state,
            reason: Some(reason),
            status: None,
            offers: Vec::new(),
        }
    }

    /// Whether the server may still connect.
    fn is_under_way(&self) -> bool {
        matches!(self.state, "starting" | "restarting")
    }

    fn mark(&self) -> String {
        let paint = match self.state {
            "ready" => "32",
            "failed" | "unusable" => "31",
            _ => "33",
        };
        style::painted(self.state, paint, style::colours())
    }

    /// The state in one line.
    fn line(&self) -> String {
        let mut parts = vec![self.mark()];
        if let Some(status) = self.status.as_ref().filter(|_| self.state == "ready") {
            parts.push(plural(status.tools, "tool"));
            parts.extend(status.connect_time.map(|it| format!("{} ms", it.as_millis())));
            if !status.skipped.is_empty() {
                parts.push(format!("{} skipped", status.skipped.len()));
            }
        }
        parts.push(format!("{}: {}", self.scope, text::one_line(&style::clean(&self.what), 80)));
        parts.extend(self.reason.as_deref().map(|it| text::one_line(&style::clean(it), 300)));
        parts.join("  ")
    }

    /// All details.
    fn report(&self, tools: ToolDetail) -> String {
        let mut out = format!("{}: {}\n", style::clean(&self.name), self.mark());
        let mut line = |label: &str, said: &str| {
            out.push_str(&format!(
                "  {label:<9} {}\n",
                style::clean(said).trim_end().replace('\n', "\n            ")
            ));
        };
        if let Some(reason) = &self.reason {
            line("why", reason);
        }
        if let Some(advice) = self.advice() {
            line("do", &advice);
        }
        line("runs", &self.what);
        line(
            "scope",
            &match &self.place {
                Some(place) => format!("{} ({place})", self.scope),
                None => self.scope.to_owned(),
            },
        );
        if let Some(status) = &self.status {
            let named = if tools == ToolDetail::Named { &self.offers[..] } else { &[] };
            status_lines(status, named, &mut line);
        }
        out
    }

    /// What the user can do if the server does not work; `None` if it works.
    fn advice(&self) -> Option<String> {
        match self.state {
            "ready" => None,
            "waiting" => Some(String::from("look at it with `haft trust`, and agree if you trust it")),
            "unusable" => Some(match &self.place {
                Some(place) => format!("correct its entry in {place}"),
                None => String::from("correct its entry"),
            }),
            "off" => Some(String::from("switch it on")),
            _ => self.status.as_ref()?.advice.clone(),
        }
    }

    fn json(&self) -> Value {
        let mut row = json!({
            "name": self.name, "scope": self.scope, "what": self.what, "place": self.place,
            "state": self.state, "reason": self.reason, "advice": self.advice(),
        });
        let Some(status) = &self.status else { return row };
        let list = |list: &[SkippedOffer]| -> Value {
            list.iter().map(|it| json!({"name": it.name, "reason": it.reason})).collect()
        };
        row["transport"] = json!(status.transport);
        row["tools"] = json!(status.tools);
        row["tool_names"] = self.offers.iter().map(|it| json!(it.0)).collect();
        row["connect_ms"] = json!(status.connect_time.map(|it| it.as_millis() as u64));
        row["pid"] = json!(status.pid);
        row["skipped"] = list(&status.skipped);
        row["repaired"] = list(&status.repaired);
        row["changed"] = json!(status.changed);
        row["noise"] = json!(status.noise.as_ref().map(|it| json!({"lines": it.lines, "first": it.first})));
        row["stderr"] = json!(status.log_tail);
        row["server"] = json!(status.info.as_ref().map(|it| {
            json!({"name": it.name, "version": it.version, "protocol": it.protocol_version, "era": era(it.era)})
        }));
        row
    }
}

fn status_lines(status: &ServerStatus, named: &[(String, String)], line: &mut impl FnMut(&str, &str)) {
    if let Some(info) = &status.info {
        let who = format!("{} {}", info.name, info.version);
        line("server", &format!("{}, protocol {} ({})", who.trim(), info.protocol_version, era(info.era)));
    }
    if let Some(took) = status.connect_time {
        line("time", &format!("{} ms over {}", took.as_millis(), status.transport));
    }
    line("tools", &status.tools.to_string());
    let widest = named.iter().map(|it| it.0.chars().count()).max().unwrap_or(0).min(40);
    for (name, said) in named {
        line("", &format!("{name:<widest$}  {said}"));
    }
    for (label, list) in [("skipped", &status.skipped), ("repaired", &status.repaired)] {
        for SkippedOffer { name, reason } in list {
            line(label, &format!("{name}: {reason}"));
        }
    }
    if !status.changed.is_empty() {
        line("changed", &format!("{}; they ask before they run", status.changed.join(", ")));
    }
    if let Some(noise) = &status.noise {
        line("noise", &noise.to_string());
    }
    if !status.log_tail.trim().is_empty() {
        let lines: Vec<&str> = status.log_tail.trim_end().lines().collect();
        line("stderr", &lines[lines.len().saturating_sub(10)..].join("\n"));
    }
}

fn era(era: ProtocolRevision) -> &'static str {
    match era {
        ProtocolRevision::Modern => "modern",
        ProtocolRevision::Legacy => "legacy",
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
