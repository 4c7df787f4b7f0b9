//! Checks of the user's setup.

use std::time::Duration;

use haft_model::{AnthropicLogin, KeySettings, KeySource, ProviderChoice};
use haft_schedule::CronStore;
use haft_session::SessionEnvironment;

use super::CheckResult;
use crate::{
    commands::{cron::has_timer, login::found_in, permissions::unknown_tool},
    run::{
        local_model_servers::{self, ServerProbe},
        session_spec,
    },
};

fn choice(premises: &SessionEnvironment) -> Result<ProviderChoice, String> {
    let stored = premises.stored_keys().map_err(|err| err.to_string())?;
    let keys = KeySettings {
        helper: premises.string_setting("apiKeyHelper"),
        helper_ttl: None,
        variables: Some(premises.variables.clone()),
        stored,
        aws_export: premises.string_setting("awsCredentialExport"),
    };
    ProviderChoice::from_env(&|name| premises.variable(name), &keys).map_err(|err| err.to_string())
}

/// Which provider would be used, and whether there are credentials for it.
pub(super) fn key(premises: &SessionEnvironment) -> CheckResult {
    const NAME: &str = "key";
    const HELP: &str = "`haft login` keeps a key; or set ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY or \
                        OPENROUTER_API_KEY; `haft models` shows servers on this machine; `haft demo` needs none";
    let source = |key: &KeySource| match key {
        KeySource::Value(_) => "a key that is set or kept",
        KeySource::Env(_) => "nothing yet",
        KeySource::Helper(_) => "a command that prints the key",
    };
    let of = |base: &str, key: &Option<KeySource>| match key {
        Some(key) => format!("{base} with {}", source(key)),
        None => format!("{base} without a key"),
    };
    let found = match choice(premises) {
        Err(why) => return CheckResult::fail(NAME, why, HELP),
        Ok(ProviderChoice::Anthropic { login: AnthropicLogin::ApiKey(KeySource::Env(_)), .. }) => {
            return CheckResult::fail(NAME, "there is none", HELP);
        }
        Ok(ProviderChoice::Anthropic { base_url, login }) => match login {
            AnthropicLogin::ApiKey(key) => format!("Anthropic at {base_url} with {}", source(&key)),
            AnthropicLogin::Bearer(key) => format!("Anthropic at {base_url} with {} (bearer)", source(&key)),
            AnthropicLogin::None => format!("Anthropic's form at {base_url} without a key"),
        },
        Ok(ProviderChoice::OpenRouter { base_url, key }) => of(&format!("OpenRouter at {base_url}"), &key),
        Ok(
            ProviderChoice::OpenAiChat { base_url, key, .. }
            | ProviderChoice::OpenAiResponses { base_url, key },
        ) => of(&format!("OpenAI's form at {base_url}"), &key),
        Ok(ProviderChoice::Gemini { base_url, key }) => of(&format!("Gemini at {base_url}"), &key),
        Ok(ProviderChoice::Vertex { place, .. }) => format!("Vertex, project {}", place.project),
        Ok(ProviderChoice::Foundry { base_url, .. }) => format!("Foundry at {base_url}"),
        Ok(_) => String::from("Bedrock"),
    };
    CheckResult::ok(NAME, found)
}

/// Errors in settings files, and settings that wait for trust.
pub(super) fn settings(premises: &SessionEnvironment) -> Vec<CheckResult> {
    const NAME: &str = "settings";
    let loaded = premises.loaded();
    let mut out = Vec::new();
    let shown = |list: &[haft_config::SettingsNotice]| {
        let lines: Vec<String> = list.iter().take(5).map(ToString::to_string).collect();
        let more = list.len().saturating_sub(5);
        if more > 0 { format!("{}\nand {more} more", lines.join("\n")) } else { lines.join("\n") }
    };
    if !loaded.problems.is_empty() {
        out.push(CheckResult::fail(
            NAME,
            shown(&loaded.problems),
            "repair these; until then they do not count",
        ));
    }
    if !loaded.warnings.is_empty() {
        out.push(CheckResult::warn(NAME, shown(&loaded.warnings), "look whether this is what you meant"));
    }
    out.extend(rules_of_no_tool(&loaded.settings.permissions));
    if !loaded.without_effect.is_empty() {
        out.push(without_effect(&loaded.without_effect));
    }
    if let Some(pending) = &loaded.pending_trust {
        let found = match pending.items.len() {
            1 => String::from("one thing of this project waits for your trust"),
            count => format!("{count} things of this project wait for your trust"),
        };
        out.push(CheckResult::warn("trust", found, "`haft trust` shows them and asks"));
    }
    if out.is_empty() {
        out.push(CheckResult::ok(NAME, "no mistakes"));
    }
    out
}

/// Warns about rules that match nothing because their tool does not exist.
fn rules_of_no_tool(permissions: &haft_config::PermissionSettings) -> Option<CheckResult> {
    let rules = [&permissions.allow, &permissions.ask, &permissions.deny].into_iter().flatten();
    let lines: Vec<String> =
        rules.filter_map(|rule| Some(format!("{}: {}", rule.origin, unknown_tool(&rule.value)?))).collect();
    let remedy = "correct these rules, or leave them for the program that has such a tool";
    (!lines.is_empty()).then(|| CheckResult::warn("settings", lines.join("\n"), remedy))
}

/// Lists keys, by file, that other agents use and Haft ignores.
fn without_effect(notices: &[haft_config::SettingsNotice]) -> CheckResult {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for notice in notices {
        let place = notice.place.to_string();
        match lines.iter_mut().find(|(it, _)| *it == place) {
            Some((_, names)) => names.push(&notice.message),
            None => lines.push((place, vec![&notice.message])),
        }
    }
    let lines: Vec<String> =
        lines.iter().map(|(place, names)| format!("{place}: {}", names.join(", "))).collect();
    let found = format!("without effect in Haft:\n{}", lines.join("\n"));
    CheckResult::warn("settings", found, "take them out, or leave them for the program that reads them")
}

/// Whether the programs of the MCP servers exist. Starts none.
pub(super) fn mcp(premises: &SessionEnvironment) -> CheckResult {
    const NAME: &str = "mcp";
    let loaded = premises.loaded();
    let servers = &loaded.settings.mcp_servers;
    let path = premises.variables.os_text("PATH");
    let missing: Vec<String> = servers
        .iter()
        .filter_map(|server| {
            let command = server.config.get("command")?.as_str()?;
            let there = if command.contains('/') || command.contains('$') {
                command.contains('$') || premises.cwd.join(command).exists()
            } else {
                found_in(path.as_deref(), command).is_some()
            };
            (!there).then(|| format!("{}: there is no program {command}", server.name))
        })
        .collect();
    match (servers.len(), missing.is_empty()) {
        (0, _) => CheckResult::ok(NAME, "no servers are named"),
        (1, true) => CheckResult::ok(NAME, "1 server named; `haft mcp list` tries it"),
        (count, true) => CheckResult::ok(NAME, format!("{count} servers named; `haft mcp list` tries them")),
        (_, false) => {
            CheckResult::warn(NAME, missing.join("\n"), "install it, or `haft mcp remove` the server")
        }
    }
}

/// Whether stored prompts have a timer that runs them.
pub(super) fn timer(premises: &SessionEnvironment) -> CheckResult {
    let (stored, them) = match CronStore::at(premises.state_dir().join("cron")).list().jobs.len() {
        0 => return CheckResult::ok("timer", "no prompts are stored, so none is needed"),
        1 => (String::from("one prompt is stored"), "it"),
        count => (format!("{count} prompts are stored"), "them"),
    };
    if has_timer() {
        CheckResult::ok("timer", format!("set up; {stored}"))
    } else {
        let found = format!("{stored}, but nothing runs {them}");
        CheckResult::warn("timer", found, "`haft cron install` sets up a timer")
    }
}

/// Variables with the key or URL of a web search service.
const SEARCHES: [(&str, &str); 5] = [
    ("BRAVE_API_KEY", "Brave"),
    ("TAVILY_API_KEY", "Tavily"),
    ("EXA_API_KEY", "Exa"),
    ("KAGI_API_KEY", "Kagi"),
    ("SEARXNG_URL", "SearXNG"),
];

pub(super) fn web_search(premises: &SessionEnvironment) -> CheckResult {
    const NAME: &str = "web search";
    let set = |name: &str| premises.variable(name).is_some_and(|it| !it.trim().is_empty());
    if let Some((_, service)) = SEARCHES.iter().find(|(name, _)| set(name)) {
        return CheckResult::ok(NAME, format!("with {service}"));
    }
    let own = matches!(
        choice(premises),
        Ok(ProviderChoice::Anthropic { base_url, login })
            if base_url.contains("api.anthropic.com")
                && !matches!(login, AnthropicLogin::ApiKey(KeySource::Env(_)))
    );
    if own {
        CheckResult::ok(NAME, "with the provider's own search")
    } else {
        let names: Vec<&str> = SEARCHES.iter().map(|(name, _)| *name).collect();
        CheckResult::warn(NAME, "nobody searches", format!("set one of {}", names.join(", ")))
    }
}

/// Whether the provider's server can be reached. Sends no key.
pub(super) fn reach(premises: &SessionEnvironment) -> Vec<CheckResult> {
    const NAME: &str = "provider";
    let Ok(runtime) = session_spec::runtime() else { return Vec::new() };
    let mut out = Vec::new();
    let base = match choice(premises) {
        Ok(
            ProviderChoice::Anthropic { base_url, .. }
            | ProviderChoice::Foundry { base_url, .. }
            | ProviderChoice::OpenAiChat { base_url, .. }
            | ProviderChoice::OpenRouter { base_url, .. }
            | ProviderChoice::OpenAiResponses { base_url, .. }
            | ProviderChoice::Gemini { base_url, .. },
        ) => Some(base_url),
        _ => None,
    };
    if let Some(base) = base {
        out.push(runtime.block_on(async {
            let client = reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .timeout(Duration::from_secs(5))
                .build();
            let asked = match client {
                Ok(client) => client.get(&base).send().await.map(|it| it.status().as_u16()),
                Err(err) => Err(err),
            };
            match asked {
                Ok(status) => {
                    CheckResult::ok(NAME, format!("{base} answers (status {status} without a key)"))
                }
                Err(err) => {
                    let why = local_model_servers::with_causes(err);
                    let remedy = "look at the address, the network and HTTPS_PROXY";
                    CheckResult::fail(NAME, format!("{base} cannot be reached: {why}"), remedy)
                }
            }
        }));
    }
    for server in runtime.block_on(local_model_servers::find(&|name| premises.variable(name))) {
        if server.state == ServerProbe::Running {
            let models = match server.models.len() {
                1 => String::from("one model"),
                count => format!("{count} models"),
            };
            let found = format!("{} at {} with {models}", server.name, server.url);
            out.push(CheckResult::ok("local", found));
        }
    }
    out
}
