//! Fast path for calls over pipes.
//!
//! In the SDK a request takes a long way: every message is tried as every message type, then passes two
//! channels and two tasks. So calls of a client with a session, which are nearly all traffic, are
//! answered here. All other lines are passed to the SDK and back unchanged, through an in-memory pipe.
//!
//! Invariants: lines are never mixed; progress of a call is written before its result; reading continues
//! while writing is blocked.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use futures_util::FutureExt;
use memchr::memmem;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, JsonObject, ProtocolVersion, RequestId,
        RequestMetaObject,
    },
    service::Peer,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    task::{JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{ToolServer, call_clients::DeclaredCapabilities, caller::McpCaller, tool_call::until};

/// Maximum bytes of a line handled here; longer ones are left to the SDK.
const MAX_LINE: usize = 1 << 20;
/// Maximum bytes queued for the client, and for the SDK.
const MAX_WAITING: usize = 1 << 20;
/// Maximum calls whose results are queued.
const MAX_CALLS: usize = 1 << 16;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// How long calls may continue after the client has closed its input.
const AFTER_END: Duration = Duration::from_secs(5);
/// How long calls may take to end after a cancellation.
const AFTER_STOP: Duration = Duration::from_secs(2);

/// A line that is handled here.
#[derive(Debug)]
enum FastPathLine {
    Call { id: RequestId, params: CallParams },
    Cancel { id: RequestId },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DirectRequest {
    jsonrpc: JsonRpcVersion,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallMethod,
    params: CallParams,
}

#[derive(Deserialize)]
enum CallMethod {
    #[serde(rename = "tools/call")]
    Call,
}

#[derive(Deserialize, Serialize)]
enum JsonRpcVersion {
    #[serde(rename = "2.0")]
    Two,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallParams {
    name: String,
    #[serde(default)]
    arguments: Option<JsonObject>,
    #[serde(default, rename = "_meta")]
    meta: RequestMetaObject,
}

#[derive(Deserialize)]
struct CancelledNote {
    #[serde(rename = "method")]
    _method: CancelMethod,
    params: CancelledParams,
}

#[derive(Deserialize)]
enum CancelMethod {
    #[serde(rename = "notifications/cancelled")]
    Cancel,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CancelledParams {
    request_id: RequestId,
}

impl FastPathLine {
    /// Parses a line; `None` if any part is not understood with certainty, so that the SDK handles it.
    fn parse(line: &[u8]) -> Option<Self> {
        if memmem::find(line, b"\"tools/call\"").is_some() {
            let DirectRequest { jsonrpc: JsonRpcVersion::Two, id, params, .. } =
                serde_json::from_slice(line).ok()?;
            // Modern clients identify themselves in every request.
            if params.meta.0.keys().any(|key| key.starts_with("io.modelcontextprotocol/")) {
                return None;
            }
            return Some(Self::Call { id, params });
        }
        memmem::find(line, b"\"notifications/cancelled\"")?;
        let cancelled: CancelledNote = serde_json::from_slice(line).ok()?;
        Some(Self::Cancel { id: cancelled.params.request_id })
    }
}

/// A response to be serialised.
#[derive(Serialize)]
struct DirectAnswer<'a> {
    jsonrpc: JsonRpcVersion,
    id: &'a RequestId,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a CallToolResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorData>,
}

fn answer(id: &RequestId, outcome: Result<CallToolResponse, ErrorData>) -> Vec<u8> {
    let outcome = match outcome {
        Ok(CallToolResponse::Complete(mut result)) => {
            // Legacy clients do not know result types.
            result.result_type = None;
            Ok(result)
        }
        Ok(_) => Err(ErrorData::internal_error("the client does not know results of this kind", None)),
        Err(error) => Err(error),
    };
    let (result, error) = (outcome.as_ref().ok(), outcome.as_ref().err());
    let answer = DirectAnswer { jsonrpc: JsonRpcVersion::Two, id, result, error };
    let mut line = serde_json::to_vec(&answer).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A session that the SDK has established.
pub(super) struct SdkSession {
    peer: Peer<RoleServer>,
    can: DeclaredCapabilities,
}

impl SdkSession {
    /// Returns `None` for clients whose calls must be handled by the SDK: modern ones without a session,
    /// and those that support tasks.
    pub(super) fn new(peer: Peer<RoleServer>) -> Option<Self> {
        let info = peer.peer_info()?;
        let is_modern = ProtocolVersion::V_2026_07_28.as_str() <= info.protocol_version.as_str();
        let can = DeclaredCapabilities::from_capabilities(&info.capabilities);
        (!is_modern && !can.follow_tasks).then_some(Self { peer, can })
    }
}

/// One client on two pipes, with the SDK behind.
pub(super) struct ClientLines<R, W> {
    pub(super) server: ToolServer,
    pub(super) input: R,
    pub(super) output: W,
    pub(super) sdk: DuplexStream,
    /// Set when a session has been established.
    pub(super) session: Arc<OnceLock<SdkSession>>,
    pub(super) stop: CancellationToken,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> ClientLines<R, W> {
    /// Transfers lines until the SDK is done and all calls are answered, at most [`AFTER_END`] after the
    /// client has closed its input.
    pub(super) async fn carry(self) {
        let Self { server, mut input, mut output, sdk, session, stop } = self;
        let (mut sdk_out, mut sdk_in) = tokio::io::split(sdk);
        let mut calls = CallsInFlight { server, session, running: JoinSet::new(), withdraw: HashMap::new() };
        let mut between = StdioPipes::default();
        let (mut is_sdk_here, mut is_stopped) = (true, false);
        // Set once the client has closed its input.
        let mut deadline = None;
        while is_sdk_here || !calls.running.is_empty() || !between.to_client.is_empty() {
            let has_room = between.to_client.len() < MAX_WAITING;
            let may_read = deadline.is_none() && between.to_sdk.len() < MAX_WAITING && calls.may_grow();
            between.line.reserve(READ_BYTES);
            tokio::select! {
                biased;
                written = output.write(&between.to_client), if !between.to_client.is_empty() => match written {
                    Ok(written @ 1..) => between.to_client.advance(written),
                    // The client has closed its output.
                    Ok(0) | Err(_) => return,
                },
                read = sdk_out.read_buf(&mut between.from_sdk), if is_sdk_here && has_room => {
                    is_sdk_here = read.is_ok_and(|read| read != 0);
                    between.take_lines_of_sdk();
                    if !is_sdk_here {
                        deadline.get_or_insert_with(|| Instant::now() + AFTER_STOP);
                    }
                }
                Some(done) = calls.running.join_next(), if has_room => calls.ended(done, &mut between.to_client),
                written = sdk_in.write(&between.to_sdk), if is_sdk_here && !between.to_sdk.is_empty() => {
                    between.to_sdk.advance(written.unwrap_or(between.to_sdk.len()));
                    if deadline.is_some() && between.to_sdk.is_empty() {
                        sdk_in.shutdown().await.ok();
                    }
                }
                read = input.read_buf(&mut between.line), if may_read => match read {
                    Ok(1..) => between.take_lines_of_client(&mut calls),
                    // A read error counts as the end of input.
                    Ok(0) | Err(_) => {
                        deadline = Some(Instant::now() + AFTER_END);
                        between.end_last_line(&mut calls);
                        if between.to_sdk.is_empty() {
                            sdk_in.shutdown().await.ok();
                        }
                    }
                },
                () = stop.cancelled(), if !is_stopped => {
                    is_stopped = true;
                    deadline = Some(Instant::now() + AFTER_STOP);
                    calls.cancel_all();
                }
                // Dropping the calls cancels them.
                () = until(deadline) => return,
            }
        }
        output.flush().await.ok();
    }
}

/// Buffers between the pipes.
#[derive(Default)]
struct StdioPipes {
    /// An incomplete line of the client.
    line: BytesMut,
    /// Whether the rest of the current line is passed to the SDK.
    is_passing: bool,
    to_sdk: BytesMut,
    /// An incomplete line of the SDK.
    from_sdk: BytesMut,
    to_client: BytesMut,
}

impl StdioPipes {
    fn take_lines_of_client(&mut self, calls: &mut CallsInFlight) {
        while let Some(end) = memchr::memchr(b'\n', &self.line) {
            let line = self.line.split_to(end + 1);
            if std::mem::take(&mut self.is_passing) || !calls.take(&line) {
                self.to_sdk.extend_from_slice(&line);
            }
        }
        if self.is_passing || MAX_LINE < self.line.len() {
            self.is_passing = true;
            self.pass_rest();
        }
    }

    /// Handles a last line without a line break.
    fn end_last_line(&mut self, calls: &mut CallsInFlight) {
        if !self.line.is_empty() || self.is_passing {
            self.line.extend_from_slice(b"\n");
            self.take_lines_of_client(calls);
        }
    }

    fn pass_rest(&mut self) {
        self.to_sdk.extend_from_slice(&self.line.split());
    }

    fn take_lines_of_sdk(&mut self) {
        if let Some(end) = memchr::memrchr(b'\n', &self.from_sdk) {
            self.to_client.extend_from_slice(&self.from_sdk.split_to(end + 1));
        }
    }
}

/// Running calls.
struct CallsInFlight {
    server: ToolServer,
    session: Arc<OnceLock<SdkSession>>,
    running: JoinSet<(RequestId, Vec<u8>)>,
    /// Cancellation of calls whose result the client still expects.
    withdraw: HashMap<RequestId, CancellationToken>,
}

impl CallsInFlight {
    fn may_grow(&self) -> bool {
        self.running.len() < MAX_CALLS
    }

    /// Handles a line; false if the SDK must handle it.
    fn take(&mut self, line: &[u8]) -> bool {
        let Some(session) = self.session.get() else { return false };
        match FastPathLine::parse(line) {
            None => false,
            Some(FastPathLine::Cancel { id }) => match self.withdraw.remove(&id) {
                None => false,
                Some(token) => {
                    token.cancel();
                    true
                }
            },
            Some(FastPathLine::Call { id, params }) => {
                let withdrawn = CancellationToken::new();
                self.withdraw.insert(id.clone(), withdrawn.clone());
                let caller = McpCaller::legacy(session.peer.clone(), session.can, &params.meta, withdrawn);
                let mut call = CallToolRequestParams::new(params.name);
                call.arguments = params.arguments;
                let server = self.server.clone();
                self.running.spawn(async move {
                    let outcome = AssertUnwindSafe(server.call(call, caller)).catch_unwind().await;
                    let line = answer(&id, outcome.unwrap_or_else(|_| Err(crashed())));
                    (id, line)
                });
                true
            }
        }
    }

    fn ended(&mut self, done: Result<(RequestId, Vec<u8>), JoinError>, to_client: &mut BytesMut) {
        // A cancelled call gets no response.
        if let Ok((id, line)) = done
            && self.withdraw.remove(&id).is_some()
        {
            to_client.extend_from_slice(&line);
        }
    }

    fn cancel_all(&self) {
        self.withdraw.values().for_each(CancellationToken::cancel);
    }
}

fn crashed() -> ErrorData {
    ErrorData::internal_error("the call crashed; this is a bug of the server", None)
}
