//! Tool hosts in settings: `"hosts": {"gpu1": "ssh://gpu1/srv/app"}`, and `"host"` for the default.

use std::time::Duration;

use haft_tool_host::{HostAddress, HostConfig, HostName, LinkTimeouts};
use serde_json::Value;

use crate::{OpenError, environment::SessionEnvironment};

/// The default hosts.
pub(super) fn usual(premises: &SessionEnvironment) -> Vec<String> {
    let named = premises.loaded().settings.get("host").map(|it| it.value);
    match named {
        Some(Value::String(name)) if !name.trim().is_empty() => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    }
}

/// The hosts of a session, from `NAME` in the settings or `NAME=ADDRESS`.
pub(super) fn hosts(premises: &SessionEnvironment, named: &[String]) -> Result<Vec<HostConfig>, OpenError> {
    let usual = usual(premises);
    let named = if named.is_empty() { &usual } else { named };
    named.iter().map(|it| host(premises, it)).collect()
}

fn host(premises: &SessionEnvironment, named: &str) -> Result<HostConfig, OpenError> {
    let wrong = |why: String| OpenError::Spec(format!("--host: {why}"));
    let known = premises.loaded().settings.get("hosts").map(|it| it.value).unwrap_or_default();
    let (config, entry) = if named.contains('=') {
        let config = HostConfig::read(named).map_err(|err| wrong(err.to_string()))?;
        let entry = known[config.name.as_str()].clone();
        (config, entry)
    } else {
        let entry = known[named].clone();
        let address = entry.as_str().or_else(|| entry["url"].as_str()).ok_or_else(|| {
            let names: Vec<&str> = known.as_object().into_iter().flatten().map(|it| it.0.as_str()).collect();
            let names = if names.is_empty() { String::from("none") } else { names.join(", ") };
            wrong(format!(
                "the settings know no host {named} (`hosts`: {names}); use {named}=ssh://user@box/dir"
            ))
        })?;
        let name = HostName::new(named).map_err(|err| wrong(err.to_string()))?;
        let address = HostAddress::read(address).map_err(|err| wrong(err.to_string()))?;
        (HostConfig::new(name, address), entry)
    };
    furnished(premises, config, &entry).map_err(wrong)
}

/// Adds connection settings and variables to a host.
fn furnished(
    premises: &SessionEnvironment,
    mut config: HostConfig,
    entry: &Value,
) -> Result<HostConfig, String> {
    let variable = |name: &str| premises.variables.text(name).filter(|it| !it.trim().is_empty());
    let text = |name: &str| entry[name].as_str().map(str::to_owned);
    if let Some(ssh) = text("ssh").or_else(|| variable("HAFT_SSH")) {
        config = config.with_ssh(&ssh);
    }
    if let Some(command) = text("command") {
        config = config.with_command(&command);
    }
    if !matches!(config.address, HostAddress::Web { .. }) {
        return Ok(config);
    }
    let of_file = match text("tokenFile") {
        None => None,
        Some(file) => {
            let path = haft_paths::expand(file.as_ref(), &premises.cwd, premises.home.as_deref());
            let path = path.map_err(|err| format!("tokenFile of {}: {err}", config.name))?;
            Some(std::fs::read_to_string(&path).map_err(|err| format!("{}: {err}", path.display()))?)
        }
    };
    let named: String = config.name.as_str().to_ascii_uppercase();
    let named: String = named.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
    let of_variable = || match text("tokenEnv") {
        Some(name) => variable(&name),
        None => variable(&format!("HAFT_HOST_TOKEN_{named}")).or_else(|| variable("HAFT_HOST_TOKEN")),
    };
    Ok(match of_file.or_else(of_variable) {
        Some(token) => config.with_token(token.trim()),
        None => config,
    })
}

/// Timeouts of connections, from `HAFT_HOST_PATIENCE` (seconds).
pub(super) fn times(premises: &SessionEnvironment) -> LinkTimeouts {
    let seconds = premises.variables.text("HAFT_HOST_PATIENCE").and_then(|it| it.trim().parse::<f64>().ok());
    let usual = LinkTimeouts::default();
    let patience = seconds.and_then(|it| Duration::try_from_secs_f64(it).ok()).unwrap_or(usual.patience);
    LinkTimeouts { patience, ..usual }
}
