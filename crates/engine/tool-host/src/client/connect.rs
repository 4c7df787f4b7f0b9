//! Opens connections: runs `ssh`, or opens a WebSocket.

use std::{
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_types::text;
use reqwest::{StatusCode, header};
use tokio::{
    io::AsyncReadExt as _,
    process::{Child, ChildStderr, Command},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::{client::generate_key, derive_accept_key},
        protocol::Role,
    },
};
use url::Url;

use super::LinkError;
use crate::{
    host_address::{HostAddress, HostConfig},
    line_pipe::{LinePipe, socket_limits},
};

/// An open connection, and the means to explain its end.
pub(super) struct Connected {
    pub(super) pipe: LinePipe,
    ssh: Option<RunningSsh>,
}

/// The `ssh` process of a connection; killed with it.
struct RunningSsh {
    child: Child,
    said: Arc<Mutex<String>>,
}

/// Maximum bytes of `ssh`'s error output that are shown.
const MAX_SAID: usize = 2000;

/// How long to wait for a process that closed its output to exit.
const END_LIMIT: Duration = Duration::from_millis(500);

/// Error text of a rendezvous server without a waiting host.
const NOBODY_WAITS: &str = "no tool host waits there";

/// Attempts when no host is waiting, because one whose connections were all taken opens new ones.
const MEETING_TRIES: u32 = 20;
const MEETING_PAUSE: Duration = Duration::from_millis(100);

/// Connects to a host.
pub(super) async fn connect(host: &HostConfig) -> Result<Connected, LinkError> {
    match &host.address {
        HostAddress::Ssh { .. } => over_ssh(host),
        HostAddress::Web { url } => {
            let mut tries = 1;
            let socket = loop {
                match web_socket(url, host, &[]).await {
                    Err(trouble) if trouble.reason == NOBODY_WAITS && tries < MEETING_TRIES => tries += 1,
                    met => break met?,
                }
                tokio::time::sleep(MEETING_PAUSE).await;
            };
            Ok(Connected { pipe: LinePipe::of_socket(socket), ssh: None })
        }
    }
}

fn over_ssh(host: &HostConfig) -> Result<Connected, LinkError> {
    let wrong = || LinkError::lasting("no program is named that could connect");
    let (program, args) = host.ssh_line().ok_or_else(wrong)?;
    let mut command = Command::new(&program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // Own process group: Ctrl-C in the terminal must not end the connection.
    command.kill_on_drop(true).process_group(0);
    let mut child = command
        .spawn()
        .map_err(|err| LinkError::lasting(format!("{} cannot be started: {err}", program.display())))?;
    let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else { return Err(wrong()) };
    let said = Arc::new(Mutex::new(String::new()));
    if let Some(stderr) = child.stderr.take() {
        tokio::spawn(listen(stderr, Arc::clone(&said)));
    }
    Ok(Connected { pipe: LinePipe::of_streams(from, to), ssh: Some(RunningSsh { child, said }) })
}

/// Collects the end of the error output.
async fn listen(mut from: ChildStderr, said: Arc<Mutex<String>>) {
    let mut bytes = [0; 1024];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        said.push_str(&String::from_utf8_lossy(&bytes[..length]));
        if MAX_SAID < said.len() {
            let cut = said.len() - MAX_SAID;
            let cut = (cut..said.len()).find(|it| said.is_char_boundary(*it)).unwrap_or(0);
            said.drain(..cut);
        }
    }
}

/// Opens a WebSocket with additional headers.
pub(crate) async fn web_socket(
    url: &Url,
    host: &HostConfig,
    headers: &[(&'static str, &'static str)],
) -> Result<WebSocketStream<reqwest::Upgraded>, LinkError> {
    let failed = |err: reqwest::Error| {
        let mut words = err.to_string();
        let mut source = std::error::Error::source(&err);
        while let Some(inner) = source {
            words = inner.to_string();
            source = inner.source();
        }
        LinkError::passing(words)
    };
    let mut client = reqwest::Client::builder().http1_only().redirect(reqwest::redirect::Policy::none());
    if url.scheme() == "http" {
        client = client.no_proxy();
    }
    let client = client.build().map_err(failed)?;
    let key = generate_key();
    let mut request = client
        .get(url.clone())
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(token) = &host.token {
        request = request.bearer_auth(&token.0);
    }
    let response = request.send().await.map_err(failed)?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => (),
        StatusCode::UNAUTHORIZED => {
            let what = match host.token {
                None => "it wants a token: set HAFT_HOST_TOKEN, or `tokenFile` of the host in your settings",
                Some(_) => "it does not take the token",
            };
            return Err(LinkError::lasting(what));
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            return Err(LinkError::passing(NOBODY_WAITS));
        }
        status if status.is_server_error() => {
            return Err(LinkError::passing(format!("it answered {status}")));
        }
        status => {
            return Err(LinkError::lasting(format!(
                "no tool host is at this address (it answered {status})"
            )));
        }
    }
    let accepted = response.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    if accepted.is_none_or(|it| it.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes()) {
        return Err(LinkError::lasting("no tool host is at this address"));
    }
    let stream = response.upgrade().await.map_err(failed)?;
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(socket_limits())).await)
}

impl Connected {
    /// Returns why a connection has ended unexpectedly, as far as known.
    pub(super) async fn ended_because(&mut self, was_open: bool) -> LinkError {
        let Some(RunningSsh { child, said }) = &mut self.ssh else {
            return LinkError::passing("the connection broke");
        };
        let status = tokio::time::timeout(END_LIMIT, child.wait()).await.ok().and_then(Result::ok);
        let said = text::one_line(said.lock().unwrap_or_else(PoisonError::into_inner).trim(), 400);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        match status.and_then(|it| it.code()) {
            // Exit code of a shell for "command not found".
            Some(127) if !was_open => LinkError::lasting(format!(
                "haft is not found there{said}. Install it there, or name its path with `command` of the host in your \
                 settings"
            )),
            Some(code) if !was_open && code != 255 => {
                LinkError::lasting(format!("haft ended there with code {code}{said}"))
            }
            Some(code) => LinkError::passing(format!("ssh ended with code {code}{said}")),
            None => LinkError::passing(format!("ssh ended{said}")),
        }
    }
}
