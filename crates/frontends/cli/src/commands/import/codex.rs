//! Import from Codex: `config.toml`, `AGENTS.md`, prompts and skills.

use std::path::Path;

use haft_config::{McpScope, SettingsScope};
use serde_json::{Map, Value, json};

use super::{ImportDirs, dirs_with, files_in, import_plan::ImportPlan, left_out, text_of};

pub(super) fn plan(places: &ImportDirs, plan: &mut ImportPlan) {
    let own = places.own.clone().unwrap_or_else(|| places.home.join(".codex"));
    config(&own.join("config.toml"), SettingsScope::User, McpScope::User, plan);
    config(&places.project.join(".codex/config.toml"), SettingsScope::Project, McpScope::Project, plan);
    let memory = own.join("AGENTS.md");
    if let Some(text) = text_of(&memory, plan) {
        plan.file(memory.display().to_string(), plan.state.join("AGENTS.md"), text);
    }
    for path in files_in(&own.join("prompts"), "md") {
        if let (Some(text), Some(name)) = (text_of(&path, plan), path.file_name()) {
            plan.file(path.display().to_string(), plan.state.join("commands").join(name), text);
        }
    }
    for dir in dirs_with(&own.join("skills"), "SKILL.md") {
        if let Some(name) = dir.file_name() {
            let to = plan.state.join("skills").join(name);
            plan.tree(dir, to);
        }
    }
    if own.join("auth.json").is_file() {
        plan.add_skipped(
            own.join("auth.json").display().to_string(),
            "a login is not copied; `haft login openai` keeps a key",
        );
    }
    if own.join("rules").is_dir() {
        plan.add_skipped(
            own.join("rules").display().to_string(),
            "rules in Starlark; write them with `haft permissions allow`",
        );
    }
}

fn config(path: &Path, scope: SettingsScope, servers: McpScope, plan: &mut ImportPlan) {
    let Some(text) = text_of(path, plan) else { return };
    let file = path.display().to_string();
    let config: Map<String, Value> = match toml::from_str(&text) {
        Ok(config) => config,
        Err(err) => {
            let before = err.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let why = format!("it is broken: {} in line {}", err.message(), before.lines().count().max(1));
            return plan.add_skipped(file, why);
        }
    };
    for (name, value) in &config {
        let theirs = format!("{name} ({file})");
        match (name.as_str(), value) {
            ("mcp_servers", Value::Object(list)) => {
                for (name, server) in list {
                    mcp_server(name, server, servers, &file, plan);
                }
            }
            ("sandbox_mode", Value::String(mode)) => match mode.as_str() {
                "read-only" | "workspace-write" => {
                    plan.setting(theirs, scope, "sandbox.enabled", json!(true))
                }
                _ => plan.add_skipped(theirs, "a sandbox is turned off with sandbox.enabled, if you want that"),
            },
            ("approval_policy", value) => {
                let why = match value.as_str() {
                    Some("never") => {
                        "never asking is `--permission-mode dontAsk` or bypassPermissions, for one run"
                    }
                    _ => "Haft asks about what no rule speaks about anyway",
                };
                plan.add_skipped(theirs, why);
            }
            ("model", Value::String(model)) => {
                plan.add_skipped(
                    theirs,
                    format!("say --model {model} with --provider openai, or set HAFT_MODEL"),
                );
            }
            ("model_reasoning_effort", Value::String(effort))
                if ["low", "medium", "high", "xhigh"].contains(&effort.as_str()) =>
            {
                plan.setting(theirs, scope, "effortLevel", json!(effort));
            }
            ("model_providers" | "model_provider", _) => {
                plan.add_skipped(theirs, "set OPENAI_BASE_URL and OPENAI_API_KEY, or use --provider");
            }
            ("notify", _) => plan.add_skipped(theirs, "write a hook for the event Notification"),
            ("projects", _) => plan.add_skipped(theirs, "trust is given again: `haft trust`"),
            ("sandbox_workspace_write", _) => plan.add_skipped(
                theirs,
                "say it with sandbox.filesystem.allowWrite and sandbox.network.allowedDomains, if you want that",
            ),
            ("shell_environment_policy", _) => plan.add_skipped(theirs, "variables for commands stand in `env`"),
            ("web_search" | "tools", _) => plan.add_skipped(theirs, "`haft doctor` says who searches the web"),
            ("profile" | "profiles", _) => {
                plan.add_skipped(theirs, "keep each as a settings file of its own and name it with --settings");
            }
            (_, _) => plan.add_skipped(theirs, "Haft has nothing of the kind"),
        }
    }
}

fn mcp_server(name: &str, server: &Value, scope: McpScope, file: &str, plan: &mut ImportPlan) {
    let theirs = format!("mcp_servers.{name} ({file})");
    if server["enabled"] == false {
        return plan.add_skipped(theirs, "it is turned off there");
    }
    let mut entry = Map::new();
    if let Some(command) = server["command"].as_str() {
        entry.insert("type".to_owned(), json!("stdio"));
        entry.insert("command".to_owned(), json!(command));
        for name in ["args", "env", "cwd"] {
            if let Some(value) = server.get(name) {
                entry.insert(name.to_owned(), value.clone());
            }
        }
    } else if let Some(url) = server["url"].as_str() {
        entry.insert("type".to_owned(), json!("http"));
        entry.insert("url".to_owned(), json!(url));
        let mut headers = server["http_headers"].as_object().cloned().unwrap_or_default();
        if let Some(variable) = server["bearer_token_env_var"].as_str() {
            headers.insert("Authorization".to_owned(), json!(format!("Bearer ${{{variable}}}")));
        }
        for (header, variable) in server["env_http_headers"].as_object().into_iter().flatten() {
            let variable = variable.as_str().unwrap_or_default();
            headers.insert(header.clone(), json!(format!("${{{variable}}}")));
        }
        if !headers.is_empty() {
            entry.insert("headers".to_owned(), Value::Object(headers));
        }
    } else {
        return plan.add_skipped(theirs, "it has neither a command nor an address");
    }
    let seconds = |name: &str| std::time::Duration::try_from_secs_f64(server[name].as_f64()?).ok();
    let millis = |name: &str| Some(seconds(name)?.as_millis()).and_then(|it| u64::try_from(it).ok());
    let limits = [
        ("timeout", millis("tool_timeout_sec")),
        ("startupTimeout", millis("startup_timeout_sec").or_else(|| server["startup_timeout_ms"].as_u64())),
    ];
    for (ours, limit) in limits {
        if let Some(limit) = limit.filter(|it| *it > 0) {
            entry.insert(ours.to_owned(), json!(limit));
        }
    }
    let taken = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "http_headers",
        "bearer_token_env_var",
        "env_http_headers",
        "tool_timeout_sec",
        "startup_timeout_sec",
        "startup_timeout_ms",
        "enabled",
        "enabled_tools",
        "disabled_tools",
    ];
    plan.server(theirs, scope, name, entry, &left_out(server, &taken));
    let rules = if scope == McpScope::Project { SettingsScope::Project } else { SettingsScope::User };
    for tool in server["disabled_tools"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let theirs = format!("mcp_servers.{name}.disabled_tools ({file})");
        plan.rule(theirs, rules, "deny", format!("mcp__{name}__{tool}"));
    }
    if server.get("enabled_tools").is_some() {
        plan.add_skipped(
            format!("mcp_servers.{name}.enabled_tools ({file})"),
            "deny the others with `haft permissions deny`",
        );
    }
}
