//! `haft mcp login | logout`: OAuth login for MCP servers.

use std::{
    io::ErrorKind,
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use haft_console::stdout::{CliError, CommandExit, print_line, write_error};
use haft_mcp_client::{CallbackListener, LoginFlow, McpManager, ServerConfig, ServerEndpoint};

use super::{McpCommands, status::find};

/// How long the user may take to log in with the browser.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// Starts one server and returns the manager with its configuration. Fails if the server is unknown or
/// cannot be used.
fn connect<'a>(desk: &'a McpCommands, name: &str) -> Result<(&'a McpManager, ServerConfig), CliError> {
    find(desk, name)?;
    let found = desk.servers.found();
    let Some(config) = found.usable.into_iter().find(|it| it.name == name) else {
        let waiting = found.waiting.iter().find(|it| it.server.name == name).map(|it| it.reason());
        let problem = found.problems.iter().find(|it| it.server == name).map(|it| it.reason.clone());
        let why = waiting.or(problem).unwrap_or_else(|| String::from("cannot be used"));
        return Err(CliError::Message(format!("the MCP server {name} {why}")));
    };
    desk.servers.launch(vec![config.clone()]);
    Ok((desk.servers.manager(), config))
}

pub(super) async fn login(desk: &McpCommands, name: &str, no_browser: bool) -> CommandExit {
    let (manager, config) = connect(desk, name)?;
    let oauth = match &config.endpoint {
        ServerEndpoint::Http(it) | ServerEndpoint::Sse(it) | ServerEndpoint::WebSocket(it) => &it.oauth,
        ServerEndpoint::Stdio(_) | ServerEndpoint::InProcess(_) => {
            return Err(CliError::Message(format!(
                "{name} is a local server; there is nothing to log in to"
            )));
        }
    };
    let works = manager.refresh(name).await;
    if works.is_ok() && !manager.wants_more(name) {
        desk.servers.stop().await;
        print_line(&if oauth.grant.is_headless() {
            format!("{name} works; its entry says how tokens are got (`{}`).", oauth.grant.name())
        } else {
            format!("{name} works already; nobody asks for a login.")
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    if let (true, Err(err)) = (oauth.grant.is_headless(), works) {
        desk.servers.stop().await;
        return Err(CliError::Message(err.to_string()));
    }
    let listener = listen(oauth.callback_port).await?;
    let flow = manager.login(name, &listener.redirect_uri()).await.map_err(|err| err.to_string())?;
    write_error(&format!(
        "Open this page to log in to {name}:\n  {}\nIf the browser is on another machine, paste the address \
         it ends up at (http://localhost:…) here.",
        flow.authorization_url()
    ));
    if !no_browser {
        open(flow.authorization_url());
    }
    let answer = async {
        tokio::select! {
            came_back = listener.wait(|url| flow.is_answer(url)) => came_back.map_err(CliError::from),
            pasted = pasted(&flow) => Ok(pasted),
        }
    };
    let answer = tokio::time::timeout(TIMEOUT, answer).await;
    let answer = answer.map_err(|_| String::from("nobody came back from the browser"))??;
    flow.finish(&answer).await.map_err(|err| err.to_string())?;
    let works = manager.reconnect(name).await;
    desk.servers.stop().await;
    works.map_err(|err| format!("logged in, but {err}"))?;
    print_line(&format!("Logged in to {name}."))?;
    Ok(ExitCode::SUCCESS)
}

async fn listen(port: Option<u16>) -> Result<CallbackListener, CliError> {
    let listener = CallbackListener::bind(port).await;
    let listener = listener.map_err(|err| match port.filter(|_| err.kind() == ErrorKind::AddrInUse) {
        Some(port) => format!(
            "another program has the port {port} (`oauth.callbackPort`); end it, or register another port"
        ),
        None => format!("cannot wait for the browser: {err}"),
    })?;
    Ok(listener)
}

/// Waits until the user pastes the redirect URL from the browser. Invalid input gets an error message,
/// and the wait goes on. Never returns without a terminal.
async fn pasted(flow: &LoginFlow) -> String {
    let (send, mut lines) = tokio::sync::mpsc::channel(1);
    // A separate thread, not a runtime task: a blocking read of standard input cannot be cancelled, and
    // the runtime would wait for it.
    let read = move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if send.blocking_send(line).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name(String::from("haft-input")).spawn(read).ok();
    while let Some(line) = lines.recv().await {
        let line = line.trim();
        if flow.is_answer(line) {
            return line.to_owned();
        }
        if !line.is_empty() {
            write_error(
                "That is not the address this login ends up at: it begins with http://localhost and holds `code` and `state`.",
            );
        }
    }
    // Standard input has ended; the browser can still finish the login.
    std::future::pending().await
}

/// Opens a URL in the browser if possible. The URL is passed as an argument, without a shell.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().ok();
}

pub(super) async fn logout(desk: &McpCommands, name: &str) -> CommandExit {
    let (manager, _) = connect(desk, name)?;
    let forgotten = manager.logout(name).map_err(|err| err.to_string())?;
    desk.servers.stop().await;
    print_line(&if forgotten {
        format!("Logged out of {name}.")
    } else {
        format!("There was no login to {name}.")
    })?;
    Ok(ExitCode::SUCCESS)
}
