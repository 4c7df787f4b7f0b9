//! Import from opencode: `opencode.json` (with comments), agents, commands, `AGENTS.md`.

use std::path::{Path, PathBuf};

use haft_config::{McpScope, SettingsScope};
use serde_json::{Map, Value, json};

use super::{ImportDirs, dirs_with, files_in, import_plan::ImportPlan, jsonc, left_out, rules, text_of};

pub(super) fn plan(places: &ImportDirs, plan: &mut ImportPlan) {
    let user = places.own.clone().unwrap_or_else(|| places.config.join("opencode"));
    let ours = places.project.join(".haft");
    for name in ["opencode.json", "opencode.jsonc", "config.json"] {
        config(&user.join(name), SettingsScope::User, McpScope::User, plan);
    }
    if let Some(named) = &places.named {
        config(named, SettingsScope::User, McpScope::User, plan);
    }
    let inside = [".opencode/opencode.json", ".opencode/opencode.jsonc"];
    for name in ["opencode.json", "opencode.jsonc"].into_iter().chain(inside) {
        config(&places.project.join(name), SettingsScope::Project, McpScope::Project, plan);
    }
    for (from, to) in [(user.clone(), plan.state.clone()), (places.project.join(".opencode"), ours)] {
        for name in ["agent", "agents"] {
            for path in files_in(&from.join(name), "md") {
                agent(&path, &to.join("agents"), plan);
            }
        }
        for name in ["command", "commands"] {
            for path in files_in(&from.join(name), "md") {
                if let (Some(text), Some(file)) = (text_of(&path, plan), path.file_name()) {
                    plan.file(path.display().to_string(), to.join("commands").join(file), text);
                }
            }
        }
        for name in ["skill", "skills"] {
            for dir in dirs_with(&from.join(name), "SKILL.md") {
                if let Some(file) = dir.file_name() {
                    let target = to.join("skills").join(file);
                    plan.tree(dir, target);
                }
            }
        }
        for name in ["plugin", "plugins", "tool", "tools"] {
            let dir = from.join(name);
            if dir.is_dir() {
                plan.add_skipped(dir.display().to_string(), "programs in JavaScript; serve them by MCP");
            }
        }
    }
    let memory = user.join("AGENTS.md");
    if let Some(text) = text_of(&memory, plan) {
        plan.file(memory.display().to_string(), plan.state.join("AGENTS.md"), text);
    }
    let login = places.home.join(".local/share/opencode/auth.json");
    if login.is_file() {
        plan.add_skipped(login.display().to_string(), "logins are not copied; `haft login` keeps a key");
    }
}

/// Plans to convert an agent. opencode takes its name from the file name, and tools disabled there are
/// disabled here. An agent with restrictions that Haft cannot express is not imported, because it would
/// get more rights.
fn agent(path: &Path, to: &Path, plan: &mut ImportPlan) {
    let Some(text) = text_of(path, plan) else { return };
    let name = path.file_stem().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
    let theirs = path.display().to_string();
    let Some(rest) = text.strip_prefix("---\n") else {
        return plan.add_skipped(theirs, "it has no front matter with a description");
    };
    let Some((front, body)) = rest.split_once("\n---") else {
        return plan.add_skipped(theirs, "its front matter has no end");
    };
    let about = front.lines().find_map(|line| line.strip_prefix("description:"));
    let Some(about) = about.map(str::trim).filter(|it| !it.is_empty()) else {
        return plan.add_skipped(theirs, "it has no description");
    };
    let denied = match switched_off(front) {
        Ok(tools) if tools.is_empty() => String::new(),
        Ok(tools) => format!("disallowedTools: {}\n", tools.join(", ")),
        Err(what) => {
            let why = format!("{what} cannot be said here: write it anew, with `tools` or `disallowedTools`");
            return plan.add_skipped(theirs, why);
        }
    };
    let left: Vec<&str> = ["model", "temperature", "top_p", "steps", "maxSteps"]
        .into_iter()
        .filter(|key| front.lines().any(|line| line.starts_with(&format!("{key}:"))))
        .collect();
    let note = if left.is_empty() { String::new() } else { format!("without its {}", left.join(", ")) };
    let body = body.trim_start_matches(['-', '\n', '\r']);
    let text = format!("---\nname: {name}\ndescription: {about}\n{denied}---\n\n{body}");
    let target: PathBuf = to.join(format!("{name}.md"));
    plan.file_with(theirs, target, text, note);
}

/// Haft's names of the tools that the front matter disables. The error names a restriction that Haft
/// cannot express.
fn switched_off(front: &str) -> Result<Vec<&'static str>, String> {
    let mut off = Vec::new();
    let mut in_tools = false;
    for line in front.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with([' ', '\t']) {
            in_tools = line.trim_end() == "tools:";
            let (key, value) = line.split_once(':').unwrap_or((line, ""));
            if key == "permission" || (key == "tools" && !value.trim().is_empty()) {
                return Err(format!("`{key}`"));
            }
            continue;
        }
        let Some((tool, word)) = line.trim().split_once(':').filter(|_| in_tools) else { continue };
        if word.trim() == "false" {
            let tool = tool.trim_matches(['"', '\'']);
            let ours = rules::opencode_tools(tool).ok_or_else(|| format!("`tools` with {tool}"))?;
            off.extend(ours.iter().copied().filter(|it| !off.contains(it)).collect::<Vec<_>>());
        }
    }
    Ok(off)
}

fn config(path: &Path, scope: SettingsScope, servers: McpScope, plan: &mut ImportPlan) {
    let Some(text) = text_of(path, plan) else { return };
    let file = path.display().to_string();
    let config = match jsonc::parse(&text) {
        Ok(Value::Object(config)) => config,
        Ok(_) => return plan.add_skipped(file, "it is not an object"),
        Err(why) => return plan.add_skipped(file, format!("it is broken: {why}")),
    };
    for (name, value) in &config {
        let theirs = format!("{name} ({file})");
        match (name.as_str(), value) {
            ("$schema", _) => {}
            ("mcp", Value::Object(list)) => {
                // Newer versions list servers one level below, older ones mix them with other keys.
                let is_server = |it: &Value| it["command"].is_array() || it["url"].is_string();
                let below = list.get("servers").and_then(Value::as_object);
                let below = below.filter(|_| !is_server(&list["servers"]));
                let beside = list.iter().filter(|(name, _)| below.is_none() || *name != "servers");
                for (name, server) in below.into_iter().flatten().chain(beside) {
                    mcp_server(name, server, servers, &file, plan);
                }
            }
            ("permission", Value::Object(list)) => {
                for (name, value) in list {
                    permission(name, value, scope, &file, plan);
                }
            }
            ("permission", Value::String(word)) => plan.add_skipped(
                format!("permission = {word} ({file})"),
                match word.as_str() {
                    "allow" => {
                        "never asking is `--permission-mode` dontAsk or bypassPermissions, for one run"
                    }
                    "ask" => "not needed: Haft asks about what no rule speaks about, but for what only reads",
                    _ => "nothing was allowed; say `--permission-mode plan` for runs that only look",
                },
            ),
            ("tools", Value::Object(list)) => {
                for (tool, is_on) in list {
                    tool_switch(tool, is_on, scope, &file, plan);
                }
            }
            ("model" | "small_model", Value::String(model)) => {
                plan.add_skipped(theirs, format!("say --model {model} with --provider, or set HAFT_MODEL"));
            }
            ("provider" | "disabled_providers" | "enabled_providers", _) => {
                plan.add_skipped(
                    theirs,
                    "set the provider's variables, or `haft login`; see docs/guides/models.md",
                );
            }
            ("instructions", _) => {
                plan.add_skipped(
                    theirs,
                    "name the files in AGENTS.md with @path: Haft reads them from there",
                );
            }
            ("agent" | "command", _) => {
                plan.add_skipped(theirs, "write each as a file under .haft/agents or .haft/commands");
            }
            (_, _) => plan.add_skipped(theirs, "Haft has nothing of the kind"),
        }
    }
}

/// Plans deny rules for a tool that is disabled globally.
fn tool_switch(tool: &str, is_on: &Value, scope: SettingsScope, file: &str, plan: &mut ImportPlan) {
    let theirs = format!("tools.{tool} = {is_on} ({file})");
    match (rules::opencode_tools(tool), is_on) {
        (Some(ours), Value::Bool(false)) => {
            for rule in ours {
                plan.rule(theirs.clone(), scope, "deny", (*rule).to_owned());
            }
        }
        (None, Value::Bool(false)) => plan.add_skipped(theirs, "Haft has no such tool"),
        _ => plan.add_skipped(theirs, "it is on anyway"),
    }
}

fn permission(name: &str, value: &Value, scope: SettingsScope, file: &str, plan: &mut ImportPlan) {
    let Some(tools) = rules::opencode_tools(name) else {
        return plan.add_skipped(format!("permission.{name} ({file})"), "Haft has no such tool");
    };
    let pairs: Vec<(&str, &str)> = match value {
        Value::String(word) => vec![("*", word)],
        Value::Object(list) => {
            list.iter().map(|(it, word)| (it.as_str(), word.as_str().unwrap_or_default())).collect()
        }
        _ => vec![("*", "")],
    };
    for (at, (pattern, word)) in pairs.iter().enumerate() {
        let theirs = format!("permission.{name} {pattern} = {word} ({file})");
        let Some(list) = rules::opencode_list(word) else {
            plan.add_skipped(theirs, "an unknown word");
            continue;
        };
        if let Some(why) = overruled(&pairs, at) {
            plan.add_skipped(theirs, why);
            continue;
        }
        let mut seen = Vec::new();
        for tool in tools {
            let rule = rules::opencode_rule(tool, pattern).ok_or("a pattern Haft has no rule for");
            match rule.and_then(|rule| rules::within_project(list, rule)) {
                Ok(rule) if seen.contains(&rule) => {}
                Ok(rule) => {
                    seen.push(rule.clone());
                    plan.rule(theirs.clone(), scope, list, rule);
                }
                Err(why) => plan.add_skipped(theirs.clone(), why),
            }
        }
    }
}

/// Why a rule is not imported. In opencode the last matching rule wins; in Haft deny wins over ask and
/// ask over allow, in any order.
fn overruled(pairs: &[(&str, &str)], at: usize) -> Option<&'static str> {
    let (pattern, word) = pairs[at];
    let (before, after) = (&pairs[..at], &pairs[at + 1..]);
    match word {
        "allow" if after.iter().any(|(it, word)| *it == "*" && *word != "allow") => {
            Some("a later rule takes it back")
        }
        "allow" if before.iter().any(|(it, word)| *it == "*" && *word == "deny") => {
            Some("everything else is denied there, and here a denial wins over it")
        }
        "ask" if pattern == "*" && after.iter().any(|(_, word)| *word == "allow") => {
            Some("not needed: Haft asks about what no rule speaks about, but for what only reads")
        }
        _ => None,
    }
}

fn mcp_server(name: &str, server: &Value, scope: McpScope, file: &str, plan: &mut ImportPlan) {
    let theirs = format!("mcp.{name} ({file})");
    if server["enabled"] == false || server["disabled"] == true {
        return plan.add_skipped(theirs, "it is turned off there");
    }
    let mut entry = Map::new();
    if let Some(words) = server["command"].as_array().filter(|it| !it.is_empty()) {
        entry.insert("type".to_owned(), json!("stdio"));
        entry.insert("command".to_owned(), references(&words[0]));
        entry.insert("args".to_owned(), words[1..].iter().map(references).collect());
        if let Some(env) = server["environment"].as_object() {
            let env: Map<String, Value> = env.iter().map(|(key, it)| (key.clone(), references(it))).collect();
            entry.insert("env".to_owned(), Value::Object(env));
        }
    } else if server["url"].is_string() {
        entry.insert("type".to_owned(), json!("http"));
        entry.insert("url".to_owned(), references(&server["url"]));
        if let Some(headers) = server["headers"].as_object() {
            let headers: Map<String, Value> =
                headers.iter().map(|(key, it)| (key.clone(), references(it))).collect();
            entry.insert("headers".to_owned(), Value::Object(headers));
        }
    } else {
        return plan.add_skipped(theirs, "it has neither a command nor an address");
    }
    if let Some(cwd) = server.get("cwd").filter(|_| entry.contains_key("command")) {
        entry.insert("cwd".to_owned(), references(cwd));
    }
    if let Some(limit) = server["timeout"].as_u64().or(server["timeout"]["request"].as_u64()) {
        entry.insert("timeout".to_owned(), json!(limit));
    }
    let taken = ["type", "command", "environment", "cwd", "url", "headers", "enabled", "disabled", "timeout"];
    plan.server(theirs, scope, name, entry, &left_out(server, &taken));
}

/// Replaces opencode's `{env:NAME}` by Haft's `${NAME}`.
fn references(value: &Value) -> Value {
    let Some(text) = value.as_str() else { return value.clone() };
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{env:") {
        let Some((name, tail)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&format!("${{{name}}}"));
        rest = tail;
    }
    out.push_str(rest);
    json!(out)
}
