//! Reads a WebSocket as a stream of lines.

use std::time::Duration;

use futures_util::StreamExt as _;
use haft_net::{AddressRule as _, with_causes};
use haft_shell::run::FeedJob;
use haft_tool::ToolError;
use reqwest::{StatusCode, Upgraded, header};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Message,
        handshake::{client::generate_key, derive_accept_key},
        protocol::{CloseFrame, Role, WebSocketConfig},
    },
};
use url::Url;

use super::{
    allowed_address::{LocalAddressPolicy, resolver},
    input::Socket,
};

/// Maximum bytes of a frame; a larger one ends the watch.
const LARGEST: usize = 1 << 20;
/// Timeout of the connection and the WebSocket handshake.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Validates the address of a socket against the policy.
pub(crate) fn address(socket: &Socket, rule: LocalAddressPolicy) -> Result<Url, ToolError> {
    let text = socket.url.as_str();
    let wrong = |why: &str| ToolError::invalid(format!("{text} cannot be watched: {why}"));
    if !text.is_ascii() || text.contains(|it: char| it.is_ascii_whitespace() || it.is_ascii_control()) {
        return Err(wrong("the address has blanks or letters outside ASCII"));
    }
    let url = Url::parse(text).map_err(|err| wrong(&err.to_string()))?;
    if !matches!(url.scheme(), "ws" | "wss") {
        return Err(wrong("only ws:// and wss:// can be watched"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("the address holds a user name or a password"));
    }
    if url.host().is_none() {
        return Err(wrong("it names no host"));
    }
    if !rule.allows_url(&url) {
        return Err(wrong("it is not a public address"));
    }
    Ok(url)
}

/// Connects to the socket.
pub(crate) async fn open(
    socket: &Socket,
    rule: LocalAddressPolicy,
) -> Result<WebSocketStream<Upgraded>, ToolError> {
    let url = address(socket, rule)?;
    let failed = |why: String| ToolError::failed(format!("{} cannot be watched: {why}", socket.url));
    let plain = url.as_str().replacen("ws", "http", 1);
    let client = reqwest::Client::builder()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(resolver(rule))
        .connect_timeout(TIMEOUT)
        .build()
        .map_err(|err| failed(with_causes(&err)))?;
    let key = generate_key();
    let mut request = client
        .get(plain)
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, &key);
    if !socket.protocols.is_empty() {
        request = request.header(header::SEC_WEBSOCKET_PROTOCOL, socket.protocols.join(", "));
    }
    let answer = tokio::time::timeout(TIMEOUT, request.send()).await;
    let answer = answer.map_err(|_| failed(String::from("the server did not answer")))?;
    let answer = answer.map_err(|err| failed(with_causes(&err)))?;
    let accepted = answer.headers().get(header::SEC_WEBSOCKET_ACCEPT);
    let agreed = accepted.is_some_and(|it| it.as_bytes() == derive_accept_key(key.as_bytes()).as_bytes());
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !agreed {
        return Err(failed(format!("the server answered {} and speaks no WebSocket", answer.status())));
    }
    let stream = answer.upgrade().await.map_err(|err| failed(with_causes(&err)))?;
    let limits = WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST));
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await)
}

/// Copies frames to the feed until either side ends.
pub(crate) async fn carry(mut socket: WebSocketStream<Upgraded>, feed: FeedJob) {
    let stopped = loop {
        let frame = tokio::select! {
            why = feed.asked_to_stop() => break Err(why),
            frame = socket.next() => frame,
        };
        match frame {
            Some(Ok(Message::Text(text))) => feed.write(one_line(text.as_str()).as_bytes()),
            Some(Ok(Message::Binary(bytes))) => {
                feed.write(format!("[binary frame, {} bytes]\n", bytes.len()).as_bytes());
            }
            Some(Ok(Message::Close(frame))) => break Ok(closed(frame.as_ref())),
            Some(Ok(_)) => {}
            Some(Err(err)) => break Ok(format!("the connection broke: {err}")),
            None => break Ok(String::from("the server closed the connection")),
        }
    };
    tokio::time::timeout(Duration::from_secs(1), socket.close(None)).await.ok();
    match stopped {
        Ok(how) => feed.end(how, None),
        Err(why) => feed.end(String::from("the watch was closed"), Some(why)),
    }
}

fn closed(frame: Option<&CloseFrame>) -> String {
    match frame {
        Some(frame) if frame.reason.is_empty() => format!("the server closed it with code {}", frame.code),
        Some(frame) => format!("the server closed it with code {}: {}", frame.code, frame.reason),
        None => String::from("the server closed it"),
    }
}

/// Formats a frame as one line, whatever it contains.
fn one_line(text: &str) -> String {
    let mut line = text.trim_end_matches(['\r', '\n']).replace(['\r', '\n'], " ");
    line.push('\n');
    line
}
