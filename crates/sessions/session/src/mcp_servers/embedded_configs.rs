//! Server configurations of hosts and plugins: variables are not expanded, and no approval is necessary.

use std::{collections::BTreeMap, time::Duration};

use haft_mcp_client::{HttpEndpoint, ServerConfig, ServerEndpoint, ServerTrust, StdioCommand};
use serde_json::Value;

use crate::{HostedServers, environment::SessionEnvironment};

/// Parses `{"mcpServers": {name: config}}`, or the inner object. Returns problems with invalid entries.
/// Unknown keys are ignored.
pub(crate) fn server_configs(
    text: &Value,
    hosted: Option<&HostedServers>,
    premises: &SessionEnvironment,
) -> (Vec<ServerConfig>, BTreeMap<String, String>) {
    let map = text.get("mcpServers").unwrap_or(text);
    let (mut configs, mut problems) = (Vec::new(), BTreeMap::new());
    for (name, config) in map.as_object().into_iter().flatten() {
        match server_config(name, config, hosted, premises) {
            Ok(config) => configs.push(config),
            Err(problem) => drop(problems.insert(name.clone(), problem)),
        }
    }
    (configs, problems)
}

fn server_config(
    name: &str,
    config: &Value,
    hosted: Option<&HostedServers>,
    premises: &SessionEnvironment,
) -> Result<ServerConfig, String> {
    let kind = config["type"].as_str().unwrap_or(if config["url"].is_string() { "http" } else { "stdio" });
    let endpoint = match kind {
        "sdk" => {
            let hosted = hosted.ok_or("this program has no servers of its own")?;
            return Ok(hosted(name));
        }
        "stdio" => ServerEndpoint::Stdio(StdioCommand {
            program: string(config, "command")?,
            args: config["args"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            env: strings(&config["env"]),
            cwd: config["cwd"].as_str().map(|it| premises.cwd.join(it)),
            ..StdioCommand::default()
        }),
        "http" | "streamable-http" => ServerEndpoint::Http(address(config)?),
        "sse" => ServerEndpoint::Sse(address(config)?),
        "ws" => ServerEndpoint::WebSocket(address(config)?),
        other => return Err(format!("`{other}` is no kind of server; use stdio, http, sse, ws or sdk")),
    };
    let mut made = ServerConfig::new(name, endpoint);
    made.trust = ServerTrust::Approved;
    made.sandbox = config["sandbox"].as_bool().unwrap_or(false);
    made.always_load = config["alwaysLoad"].as_bool().unwrap_or(false);
    set_call_limit(&mut made, config["timeout"].as_u64(), premises);
    Ok(made)
}

/// Sets the timeout of calls in milliseconds: the server's own, or from the environment.
fn set_call_limit(config: &mut ServerConfig, own: Option<u64>, premises: &SessionEnvironment) {
    let of_all = || premises.variable("MCP_TOOL_TIMEOUT")?.trim().parse().ok();
    if let Some(millis) = own.or_else(of_all).filter(|it| 0 < *it) {
        config.timeouts.total = Duration::from_millis(millis);
    }
}

fn address(config: &Value) -> Result<HttpEndpoint, String> {
    Ok(HttpEndpoint {
        url: string(config, "url")?,
        headers: strings(&config["headers"]),
        headers_helper: config["headersHelper"].as_str().map(str::to_owned),
        ..HttpEndpoint::default()
    })
}

fn string(config: &Value, key: &str) -> Result<String, String> {
    let text = config[key].as_str().filter(|it| !it.is_empty());
    text.map(str::to_owned).ok_or_else(|| format!("`{key}` is missing"))
}

fn strings(map: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    map.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect()
}
