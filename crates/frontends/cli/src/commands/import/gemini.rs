//! Import from the Gemini CLI: `settings.json`, `GEMINI.md`, commands, agents, skills.

use std::path::Path;

use haft_config::{McpScope, SettingsScope};
use serde_json::{Map, Value, json};

use super::{ImportDirs, dirs_with, files_in, import_plan::ImportPlan, jsonc, left_out, rules, text_of};

pub(super) fn plan(places: &ImportDirs, plan: &mut ImportPlan) {
    let user = places.home.join(".gemini");
    let project = places.project.join(".gemini");
    let ours = places.project.join(".haft");
    settings(&user.join("settings.json"), SettingsScope::User, McpScope::User, plan);
    settings(&project.join("settings.json"), SettingsScope::Project, McpScope::Project, plan);
    for (from, to) in [(&user, plan.state.clone()), (&project, ours)] {
        commands(&from.join("commands"), &to.join("commands"), "", plan);
        for path in files_in(&from.join("agents"), "md") {
            if let (Some(text), Some(name)) = (text_of(&path, plan), path.file_name()) {
                plan.file(path.display().to_string(), to.join("agents").join(name), text);
            }
        }
        for dir in dirs_with(&from.join("skills"), "SKILL.md") {
            if let Some(name) = dir.file_name() {
                let target = to.join("skills").join(name);
                plan.tree(dir, target);
            }
        }
        if from.join("extensions").is_dir() {
            plan.add_skipped(
                from.join("extensions").display().to_string(),
                "an extension is a program of its own; `haft mcp add` takes its server",
            );
        }
    }
    memory(&user.join("GEMINI.md"), &plan.state.join("AGENTS.md"), plan);
    memory(&places.project.join("GEMINI.md"), &places.project.join("AGENTS.md"), plan);
    for name in ["oauth_creds.json", ".env"] {
        let path = user.join(name);
        if path.is_file() {
            plan.add_skipped(
                path.display().to_string(),
                "a login is not copied; `haft login gemini` keeps a key",
            );
        }
    }
}

/// Plans to copy the user's memory file, unless Haft already has one.
fn memory(from: &Path, to: &Path, plan: &mut ImportPlan) {
    let Some(text) = text_of(from, plan) else { return };
    let dir = to.parent().unwrap_or(to);
    if dir.join("CLAUDE.md").is_file() {
        return plan.add_skipped(
            from.display().to_string(),
            format!("{} is read instead", dir.join("CLAUDE.md").display()),
        );
    }
    plan.file(from.display().to_string(), to.to_owned(), text);
}

/// Plans to convert the commands from TOML. Subdirectories become namespaces.
fn commands(from: &Path, to: &Path, inside: &str, plan: &mut ImportPlan) {
    for path in files_in(from, "toml") {
        let theirs = path.display().to_string();
        let Some(text) = text_of(&path, plan) else { continue };
        let command = match toml::from_str::<Map<String, Value>>(&text) {
            Ok(command) => command,
            Err(err) => {
                plan.add_skipped(theirs, format!("it is broken: {}", err.message()));
                continue;
            }
        };
        let Some(prompt) = command.get("prompt").and_then(Value::as_str) else {
            plan.add_skipped(theirs, "it has no prompt");
            continue;
        };
        if prompt.contains("!{") || prompt.contains("@{") {
            plan.add_skipped(
                theirs,
                "it runs commands or reads files while it is written; write it anew as a skill",
            );
            continue;
        }
        let name = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let about = command.get("description").and_then(Value::as_str).unwrap_or_default();
        let head = if about.is_empty() {
            String::new()
        } else {
            format!("---\ndescription: {}\n---\n", json!(about))
        };
        let text = format!("{head}{}\n", prompt.replace("{{args}}", "$ARGUMENTS"));
        plan.file(theirs, to.join(inside).join(format!("{name}.md")), text);
    }
    let entries = std::fs::read_dir(from).into_iter().flatten().flatten();
    for dir in entries.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir())) {
        let name = dir.file_name().to_string_lossy().into_owned();
        if inside.is_empty() {
            commands(&dir.path(), to, &name, plan);
        }
    }
}

fn settings(path: &Path, scope: SettingsScope, servers: McpScope, plan: &mut ImportPlan) {
    let Some(text) = text_of(path, plan) else { return };
    let file = path.display().to_string();
    let settings = match jsonc::parse(&text) {
        Ok(Value::Object(settings)) => settings,
        Ok(_) => return plan.add_skipped(file, "it is not an object"),
        Err(why) => return plan.add_skipped(file, format!("it is broken: {why}")),
    };
    for (name, value) in &settings {
        let theirs = format!("{name} ({file})");
        match (name.as_str(), value) {
            ("mcpServers", Value::Object(list)) => {
                for (name, server) in list {
                    match switched_off(&settings, name) {
                        Some(why) => plan.add_skipped(format!("mcpServers.{name} ({file})"), why),
                        None => mcp_server(name, server, servers, &file, plan),
                    }
                }
            }
            ("mcp", Value::Object(rules)) => {
                for (name, _) in
                    rules.iter().filter(|(it, _)| !["allowed", "excluded"].contains(&it.as_str()))
                {
                    plan.add_skipped(format!("mcp.{name} ({file})"), "Haft has nothing of the kind");
                }
            }
            ("tools", Value::Object(tools)) => {
                for (name, value) in tools {
                    tool_lists(name, value, scope, &file, plan);
                }
            }
            ("coreTools" | "excludeTools" | "allowedTools", value) => {
                tool_lists(name, value, scope, &file, plan);
            }
            ("context", value) if value.get("fileName").is_some() => {
                plan.add_skipped(
                    theirs,
                    "Haft reads CLAUDE.md and AGENTS.md; rename the file, or import it there",
                );
            }
            ("contextFileName", _) => {
                plan.add_skipped(
                    theirs,
                    "Haft reads CLAUDE.md and AGENTS.md; rename the file, or import it there",
                );
            }
            ("model", value) => {
                let model = value["name"].as_str().or(value.as_str()).unwrap_or("NAME");
                plan.add_skipped(
                    theirs,
                    format!("say --model {model} with --provider gemini, or set GEMINI_MODEL"),
                );
            }
            ("security" | "selectedAuthType", _) => {
                plan.add_skipped(theirs, "`haft login gemini` keeps a key")
            }
            ("hooks", _) => plan.add_skipped(theirs, "events and answers differ: see docs/guides/hooks.md"),
            (_, _) => plan.add_skipped(theirs, "Haft has nothing of the kind"),
        }
    }
}

/// Why a server is disabled in Gemini's settings; `None` if it is enabled.
fn switched_off(settings: &Map<String, Value>, name: &str) -> Option<&'static str> {
    let list = |key: &str| settings.get("mcp").and_then(|it| it[key].as_array());
    if list("excluded").is_some_and(|names| names.iter().any(|it| it == name)) {
        return Some("it is turned off there (mcp.excluded)");
    }
    let is_left = list("allowed").is_some_and(|names| names.iter().all(|it| it != name));
    is_left.then_some("it is turned off there (it is not in mcp.allowed)")
}

fn tool_lists(name: &str, value: &Value, scope: SettingsScope, file: &str, plan: &mut ImportPlan) {
    let list = match name {
        "allowed" | "allowedTools" => "allow",
        "exclude" | "excludeTools" => "deny",
        "core" | "coreTools" => {
            return plan
                .add_skipped(format!("tools.{name} ({file})"), "say --tools for a run, or deny the others");
        }
        "sandbox" => {
            let theirs = format!("tools.sandbox ({file})");
            return match value {
                Value::Bool(false) | Value::Null => plan.add_skipped(theirs, "it is off there"),
                _ => plan.setting(theirs, scope, "sandbox.enabled", json!(true)),
            };
        }
        _ => return plan.add_skipped(format!("tools.{name} ({file})"), "Haft has nothing of the kind"),
    };
    let Value::Array(items) = value else {
        return plan.add_skipped(format!("tools.{name} ({file})"), "it is no list");
    };
    for item in items {
        let text = item.as_str().unwrap_or_default();
        let theirs =
            format!("tools.{name}: {} ({file})", item.as_str().map_or(item.to_string(), str::to_owned));
        let rule = rules::gemini_rule(text).ok_or("Haft has no such tool");
        match rule.and_then(|rule| rules::within_project(list, rule)) {
            Ok(rule) => plan.rule(theirs, scope, list, rule),
            Err(why) => plan.add_skipped(theirs, why),
        }
    }
}

fn mcp_server(name: &str, server: &Value, scope: McpScope, file: &str, plan: &mut ImportPlan) {
    let theirs = format!("mcpServers.{name} ({file})");
    let mut entry = Map::new();
    let kind = if server["command"].is_string() {
        "stdio"
    } else if server["httpUrl"].is_string() {
        "http"
    } else if server["url"].is_string() {
        server["type"].as_str().filter(|it| *it == "http").map_or("sse", |_| "http")
    } else {
        return plan.add_skipped(theirs, "it has neither a command nor an address");
    };
    entry.insert("type".to_owned(), json!(kind));
    for (from, to) in [
        ("command", "command"),
        ("args", "args"),
        ("env", "env"),
        ("cwd", "cwd"),
        ("url", "url"),
        ("httpUrl", "url"),
        ("headers", "headers"),
        ("timeout", "timeout"),
    ] {
        if let Some(value) = server.get(from) {
            entry.insert(to.to_owned(), variables(value));
        }
    }
    let taken = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "httpUrl",
        "headers",
        "timeout",
        "type",
        "description",
        "excludeTools",
        "includeTools",
        "trust",
    ];
    plan.server(theirs, scope, name, entry, &left_out(server, &taken));
    for text in server["excludeTools"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let scope = if scope == McpScope::Project { SettingsScope::Project } else { SettingsScope::User };
        plan.rule(
            format!("mcpServers.{name}.excludeTools ({file})"),
            scope,
            "deny",
            format!("mcp__{name}__{text}"),
        );
    }
    if server["includeTools"].is_array() {
        plan.add_skipped(
            format!("mcpServers.{name}.includeTools ({file})"),
            "deny the others with `haft permissions deny`",
        );
    }
    if server["trust"] == true {
        plan.add_skipped(
            format!("mcpServers.{name}.trust ({file})"),
            format!("allow it yourself: `haft permissions allow mcp__{name}`"),
        );
    }
}

/// Replaces Gemini's `$NAME` by Haft's `${NAME}` in all strings of a value.
fn variables(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(with_braces(text)),
        Value::Object(fields) => fields.iter().map(|(key, it)| (key.clone(), variables(it))).collect(),
        Value::Array(items) => items.iter().map(variables).collect(),
        other => other.clone(),
    }
}

fn with_braces(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        let end = after.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(after.len());
        let is_name = after.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_');
        let (name, tail) = if is_name { after.split_at(end) } else { ("", after) };
        out.push_str(before);
        match name {
            "" => out.push('$'),
            name => out.push_str(&format!("${{{name}}}")),
        }
        rest = tail;
    }
    out + rest
}
