//! Local servers behind the walls that hold commands.

use haft_mcp_client::{ServerConfig, ServerEndpoint};

use crate::environment::{SessionEnvironment, setting_source_name};

/// Puts `haft sandbox run` before the command of every local server that is to
/// be held. Where the walls cannot be had, that program refuses, and the server
/// fails with its reason.
pub(super) fn confine(premises: &SessionEnvironment, servers: &mut [ServerConfig]) {
    let wanted = premises.loaded().settings.get("sandbox.mcpServers");
    let all = wanted.is_some_and(|it| it.value == true);
    for server in servers {
        if let (ServerEndpoint::Stdio(command), true) = (&mut server.endpoint, all || server.sandbox) {
            // Without the program nothing can hold the server: it must not start.
            let own = premises.program.as_ref().map(|it| it.display().to_string());
            let own = own.unwrap_or_else(|| String::from("haft"));
            let program = std::mem::replace(&mut command.program, own);
            command.held = Some(program.clone());
            command.args.splice(0..0, confining(premises, program));
        }
    }
}

/// The words before a server's own arguments. The project stays writable
/// wherever in it the server starts, and the same settings say what else is.
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
