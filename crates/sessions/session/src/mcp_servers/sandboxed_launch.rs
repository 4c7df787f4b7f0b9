//! Runs local MCP servers in the sandbox.

use haft_mcp_client::{ServerConfig, ServerEndpoint};

use crate::environment::{SessionEnvironment, setting_source_name};

/// Prefixes the command of every local server to be confined with `haft sandbox run`. If the sandbox is
/// not available, that program fails, and so does the server.
pub(super) fn confine(premises: &SessionEnvironment, servers: &mut [ServerConfig]) {
    let wanted = premises.loaded().settings.get("sandbox.mcpServers");
    let all = wanted.is_some_and(|it| it.value == true);
    for server in servers {
        if let (ServerEndpoint::Stdio(command), true) = (&mut server.endpoint, all || server.sandbox) {
            // Without the `haft` executable the server cannot be confined and must not start.
            let own = premises.program.as_ref().map(|it| it.display().to_string());
            let own = own.unwrap_or_else(|| String::from("haft"));
            let program = std::mem::replace(&mut command.program, own);
            command.held = Some(program.clone());
            command.args.splice(0..0, confining(premises, program));
        }
    }
}

/// The arguments before the server's own. The project is writable wherever the server starts; the
/// settings name further writable paths.
fn confining(premises: &SessionEnvironment, program: String) -> Vec<String> {
    let mut words = vec![String::from("sandbox"), String::from("run")];
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    flag("--add-dir", premises.cwd.display().to_string());
    let spec = premises.settings_spec();
    if let Some(settings) = spec.flags {
        flag("--settings", settings);
    }
    if let Some(layers) = spec.sources {
        let names: Vec<&str> = layers.iter().filter_map(|it| setting_source_name(*it)).collect();
        flag("--setting-sources", names.join(","));
    }
    words.extend([String::from("--"), program]);
    words
}
