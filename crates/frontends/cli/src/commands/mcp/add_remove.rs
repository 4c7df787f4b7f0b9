//! `haft mcp add | add-json | remove`.

use std::process::ExitCode;

use haft_config::McpScope;
use haft_console::stdout::{CliError, CommandExit, print_line};
use haft_mcp_client::{ServerScope, declared_servers};
use serde_json::{Map, Value, json};

use super::McpCommands;
use crate::{
    args::mcp::{AddArgs, ScopeArg, TransportArg},
    commands::trust,
};

pub(super) fn add(desk: &McpCommands, args: AddArgs) -> CommandExit {
    let (name, scope) = (args.name.clone(), args.scope);
    let entry = entry(args)?;
    store(desk, &name, entry, scope)
}

/// Builds the configuration entry from the flags.
fn entry(args: AddArgs) -> Result<Map<String, Value>, CliError> {
    let looks_like_address =
        ["http://", "https://"].iter().any(|scheme| args.command_or_url.starts_with(scheme));
    let transport = match args.transport {
        Some(transport) => transport,
        None if looks_like_address => TransportArg::Http,
        None => TransportArg::Stdio,
    };
    let refuse =
        |flag: &str, wants: &str| Err(CliError::Message(format!("{flag} is for servers with {wants}")));
    let mut entry = Map::from_iter([(String::from("type"), json!(transport.name()))]);
    if transport == TransportArg::Stdio {
        if !args.header.is_empty() {
            return refuse("--header", "an address");
        }
        if args.client_id.is_some() || args.client_secret || args.callback_port.is_some() {
            return refuse("a login", "an address");
        }
        entry.insert(String::from("command"), json!(args.command_or_url));
        entry.insert(String::from("args"), json!(args.args));
        let env = pairs(&args.env, '=', "--env", "KEY=value")?;
        if !env.is_empty() {
            entry.insert(String::from("env"), Value::Object(env));
        }
        return Ok(entry);
    }
    if !args.env.is_empty() {
        return refuse("--env", "a command");
    }
    if !args.args.is_empty() {
        return Err(CliError::Message(format!("an address takes no arguments: {}", args.args.join(" "))));
    }
    entry.insert(String::from("url"), json!(args.command_or_url));
    let headers = pairs(&args.header, ':', "--header", "Name: value")?;
    if !headers.is_empty() {
        entry.insert(String::from("headers"), Value::Object(headers));
    }
    if let Some(oauth) = oauth(&args)? {
        entry.insert(String::from("oauth"), oauth);
    }
    Ok(entry)
}

fn oauth(args: &AddArgs) -> Result<Option<Value>, CliError> {
    let mut oauth = Map::new();
    if let Some(id) = &args.client_id {
        oauth.insert(String::from("clientId"), json!(id));
    }
    if args.client_secret {
        let secret = std::env::var("MCP_CLIENT_SECRET").ok().filter(|it| !it.is_empty());
        let secret = secret.ok_or_else(|| String::from("--client-secret: MCP_CLIENT_SECRET is not set"))?;
        oauth.insert(String::from("clientSecret"), json!(secret));
    }
    if let Some(port) = args.callback_port {
        oauth.insert(String::from("callbackPort"), json!(port));
    }
    Ok((!oauth.is_empty()).then_some(Value::Object(oauth)))
}

fn pairs(texts: &[String], between: char, flag: &str, form: &str) -> Result<Map<String, Value>, CliError> {
    let pair = |text: &String| match text.split_once(between) {
        Some((name, value)) if !name.trim().is_empty() => {
            let value = if between == ':' { value.trim() } else { value };
            Ok((name.trim().to_owned(), json!(value)))
        }
        _ => Err(CliError::Message(format!("{flag} wants {form}, not `{text}`"))),
    };
    texts.iter().map(pair).collect()
}

pub(super) fn add_json(desk: &McpCommands, name: &str, text: &str, scope: ScopeArg) -> CommandExit {
    let parsed: Value = serde_json::from_str(text).map_err(|err| format!("the entry is not JSON: {err}"))?;
    let Value::Object(entry) = parsed else {
        return Err(CliError::Message(String::from("the entry is not a JSON object")));
    };
    if !["command", "url", "httpUrl"].iter().any(|key| entry.get(*key).is_some_and(Value::is_string)) {
        return Err(CliError::Message(String::from("the entry has neither a `command` nor a `url`")));
    }
    store(desk, name, entry, scope)
}

fn store(desk: &McpCommands, name: &str, entry: Map<String, Value>, scope: ScopeArg) -> CommandExit {
    let address = ["url", "httpUrl"].iter().find_map(|key| entry.get(*key)).and_then(Value::as_str);
    // A URL with variables in it can be validated only after they are expanded.
    if let Some(address) = address.filter(|it| !it.contains("${"))
        && !["http://", "https://", "ws://", "wss://"].iter().any(|it| address.starts_with(it))
    {
        return Err(CliError::Message(format!(
            "`{address}` is no address: it begins with http:// or https://"
        )));
    }
    let (_, problems) = declared_servers(&json!({"mcpServers": {name: entry}}), ServerScope::User);
    if let Some(problem) = problems.first() {
        return Err(CliError::Message(problem.reason.clone()));
    }
    let loaded = desk.premises.loaded();
    let there = loaded.settings.mcp_servers.iter();
    let already = there.into_iter().any(|it| it.name == name && it.scope == scope.scope());
    if already {
        return Err(CliError::Message(format!(
            "there is a server {name} in the {} scope already; remove it first",
            scope.name()
        )));
    }
    let added = desk.premises.store.add_server(scope.scope(), name, &entry);
    added.map_err(|err| trust::store_error_text(&desk.premises, &err))?;
    let file = desk.premises.store.server_file(scope.scope()).unwrap_or_default();
    print_line(&format!("Added {name} ({} scope, {}).", scope.name(), file.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn remove(desk: &McpCommands, name: &str, scope: Option<ScopeArg>) -> CommandExit {
    let all = [ScopeArg::Local, ScopeArg::Project, ScopeArg::User];
    let holding: Vec<ScopeArg> = all.into_iter().filter(|it| holds(desk, it.scope(), name)).collect();
    let from = match (scope, holding.as_slice()) {
        (Some(scope), _) => scope,
        (None, [only]) => *only,
        (None, []) => {
            let loaded = desk.premises.loaded();
            let elsewhere = loaded.settings.mcp_servers.iter().find(|it| it.name == name);
            return Err(CliError::Message(match elsewhere {
                Some(server) => format!("{name} stands in {}; take it out there", server.origin),
                None => format!("there is no server named {name}"),
            }));
        }
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|it| it.name()).collect();
            return Err(CliError::Message(format!(
                "{name} stands in several scopes ({}); say which with --scope",
                names.join(", ")
            )));
        }
    };
    if !desk.premises.store.remove_server(from.scope(), name).map_err(|err| err.to_string())? {
        return Err(CliError::Message(format!(
            "there is no server named {name} in the {} scope",
            from.name()
        )));
    }
    print_line(&format!("Removed {name} ({} scope).", from.name()))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether Haft's own configuration file of this scope contains the server.
fn holds(desk: &McpCommands, scope: McpScope, name: &str) -> bool {
    desk.premises.store.mentions_server(scope, name)
}
