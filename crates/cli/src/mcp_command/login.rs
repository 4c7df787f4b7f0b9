//! `haft mcp login | logout`.

use std::{
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use haft_mcp::{CallbackListener, Endpoint, Manager, ServerConfig};

use super::status::find;
use crate::{
    output::{Ended, Failure, print_line, write_error},
    wiring::{ServerFlags, Setup},
};

/// How long a person may take in the browser.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

/// The one server, ready to be talked to.
fn connect<'a>(setup: &'a Setup, name: &str) -> Result<(&'a Manager, ServerConfig), Failure> {
    find(setup, name)?;
    let found = setup.servers(ServerFlags::default())?;
    let Some(config) = found.usable.into_iter().find(|it| it.name == name) else {
        let waiting = found.waiting.iter().find(|it| it.server.name == name).map(|it| it.reason());
        let problem = found.problems.iter().find(|it| it.server == name).map(|it| it.reason.clone());
        let why = waiting.or(problem).unwrap_or_else(|| String::from("cannot be used"));
        return Err(Failure::Message(format!("the MCP server {name} {why}")));
    };
    Ok((setup.launch(vec![config.clone()], ServerFlags::default())?, config))
}

pub(super) async fn login(setup: &Setup, name: &str, no_browser: bool) -> Ended {
    let (manager, config) = connect(setup, name)?;
    let port = match &config.endpoint {
        Endpoint::Http(it) | Endpoint::Sse(it) | Endpoint::WebSocket(it) => it.oauth.callback_port,
        Endpoint::Stdio(_) | Endpoint::InProcess(_) => {
            return Err(Failure::Message(format!("{name} is a local server; there is nothing to log in to")));
        }
    };
    if manager.refresh(name).await.is_ok() {
        setup.stop_servers().await;
        print_line(&format!("{name} works already; nobody asks for a login."))?;
        return Ok(ExitCode::SUCCESS);
    }
    let listener =
        CallbackListener::bind(port).await.map_err(|err| format!("cannot wait for the browser: {err}"))?;
    let flow = manager.login(name, &listener.redirect_uri()).await.map_err(|err| err.to_string())?;
    write_error(&format!("Open this page to log in to {name}:\n  {}", flow.authorization_url()));
    if !no_browser {
        open(flow.authorization_url());
    }
    let came_back = tokio::time::timeout(PATIENCE, listener.wait()).await;
    let came_back = came_back.map_err(|_| String::from("nobody came back from the browser"))??;
    flow.finish(&came_back).await.map_err(|err| err.to_string())?;
    let works = manager.reconnect(name).await;
    setup.stop_servers().await;
    works.map_err(|err| format!("logged in, but {err}"))?;
    print_line(&format!("Logged in to {name}."))?;
    Ok(ExitCode::SUCCESS)
}

/// Opens a page, if there is something to open pages with. The address goes as
/// an argument, never through a shell.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok();
}

pub(super) async fn logout(setup: &Setup, name: &str) -> Ended {
    let (manager, _) = connect(setup, name)?;
    let forgotten = manager.logout(name).map_err(|err| err.to_string())?;
    setup.stop_servers().await;
    print_line(&match forgotten {
        true => format!("Logged out of {name}."),
        false => format!("There was no login to {name}."),
    })?;
    Ok(ExitCode::SUCCESS)
}
