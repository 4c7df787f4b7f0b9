use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_types::text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{decode_lists, handshake};
use crate::jsonrpc::{CallError, Incoming, Peer, RequestOptions, RpcError};

/// Generation of the protocol.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolRevision {
    /// 2026-07-28: stateless requests.
    Modern,
    /// 2025-11-25 and older: a session that starts with `initialize`.
    Legacy,
}

/// What a server reports about itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    pub era: ProtocolRevision,
    /// Negotiated revision.
    pub protocol_version: String,
    /// Name the server reports.
    pub name: String,
    pub version: String,
    /// Usage instructions for the model, limited in length.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub instructions: String,
    pub capabilities: Capabilities,
}

/// Capabilities of a server.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    pub tools: bool,
    pub resources: bool,
    pub prompts: bool,
    pub logging: bool,
    /// Argument completion.
    pub completions: bool,
    /// Calls that continue as tasks.
    pub tasks: bool,
}

impl Capabilities {
    fn from_value(value: &Value) -> Self {
        // Some servers send `true` in place of an object.
        let declared = |name: &str| !matches!(value.get(name), None | Some(Value::Null | Value::Bool(false)));
        Self {
            tools: declared("tools"),
            resources: declared("resources"),
            prompts: declared("prompts"),
            logging: declared("logging"),
            completions: declared("completions"),
            tasks: value["extensions"].get(TASKS).is_some(),
        }
    }
}

pub(crate) const TASKS: &str = "io.modelcontextprotocol/tasks";
const META: &str = "io.modelcontextprotocol/";
const MAX_INSTRUCTIONS_CHARS: usize = 2048;

impl ServerInfo {
    pub(super) fn from_result(era: ProtocolRevision, version: &str, result: &Value) -> Self {
        let about = match result.get("serverInfo") {
            Some(about) => about,
            None => &result["_meta"][format!("{META}serverInfo")],
        };
        let field = |name: &str| about[name].as_str().unwrap_or_default();
        Self {
            era,
            protocol_version: text::one_line(version, 40),
            name: text::one_line(field("name"), 100),
            version: text::one_line(field("version"), 50),
            instructions: instructions(result),
            capabilities: Capabilities::from_value(&result["capabilities"]),
        }
    }
}

/// Returns the server's instructions for the model, visible characters only.
fn instructions(result: &Value) -> String {
    let said = text::head(result["instructions"].as_str().unwrap_or_default(), MAX_INSTRUCTIONS_CHARS);
    crate::adapt::visible(said)
}

/// What the client reports about itself.
#[derive(Clone, Debug)]
pub(crate) struct ClientIdentity {
    pub(crate) info: Value,
    pub(crate) capabilities: Value,
    /// Minimum level of log messages requested.
    pub(crate) log_level: Option<String>,
}

impl ClientIdentity {
    /// Returns the identity for one server.
    pub(crate) fn new(host: &super::ClientPorts, server: &str, log_level: Option<String>) -> Self {
        let info = json!({"name": "haft", "title": "Haft", "version": env!("CARGO_PKG_VERSION")});
        Self { info, capabilities: host.capabilities(server), log_level }
    }

    /// Returns the `_meta` fields that every modern request carries.
    pub(super) fn meta(&self) -> Map<String, Value> {
        let mut capabilities = self.capabilities.clone();
        capabilities["extensions"] = json!({TASKS: {}});
        // The modern protocol has no `listChanged` for roots.
        capabilities["roots"] = json!({});
        let mut meta = Map::new();
        meta.insert(format!("{META}protocolVersion"), json!(handshake::MODERN));
        meta.insert(format!("{META}clientInfo"), self.info.clone());
        meta.insert(format!("{META}clientCapabilities"), capabilities);
        if let Some(level) = &self.log_level {
            meta.insert(format!("{META}logLevel"), json!(level));
        }
        meta
    }
}

/// A connected server.
///
/// **Invariant:** every request carries what its protocol generation requires, and ends.
pub(crate) struct ServerSession {
    pub(super) peer: Peer,
    pub(super) incoming: Arc<dyn Incoming>,
    identity: ClientIdentity,
    info: Mutex<Arc<ServerInfo>>,
    /// Number of sessions started on this connection.
    generation: AtomicU64,
    renewing: tokio::sync::Mutex<()>,
}

/// A list as far as it could be read.
#[derive(Debug, Default)]
pub(crate) struct ItemList {
    pub(crate) items: Vec<Value>,
    /// Why it may be incomplete.
    pub(crate) problem: Option<String>,
}

/// Maximum pages of a list.
const MAX_PAGES: usize = 1000;
const MAX_ITEMS: usize = 10_000;
const MAX_LIST_BYTES: usize = 64 << 20;

/// Timeout for all pages of a list together.
const LIST_LIMIT: Duration = Duration::from_secs(30);

impl ServerSession {
    pub(super) fn new(
        peer: Peer,
        incoming: Arc<dyn Incoming>,
        identity: ClientIdentity,
        info: ServerInfo,
    ) -> Self {
        let info = Mutex::new(Arc::new(info));
        Self { peer, incoming, identity, info, generation: AtomicU64::new(0), renewing: Default::default() }
    }

    pub(crate) fn info(&self) -> Arc<ServerInfo> {
        Arc::clone(&self.info.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.peer.gone().is_cancelled()
    }

    pub(crate) async fn close(&self) {
        if let Some(transport) = self.peer.transport() {
            transport.close().await;
        }
        self.peer.inbox().closed("the connection was closed");
    }

    pub(crate) fn notify(&self, method: &str) {
        let mut params = Map::new();
        if self.info().era == ProtocolRevision::Modern {
            params.insert(String::from("_meta"), Value::Object(self.identity.meta()));
        }
        self.peer.notify(method, params);
    }

    /// Sends a request. If the server has dropped the session, starts a new one and sends the request
    /// again; the server did not process it before.
    pub(crate) async fn request(
        &self,
        method: &str,
        params: Map<String, Value>,
        options: &RequestOptions,
    ) -> Result<Value, CallError> {
        let seen = self.generation.load(Ordering::Acquire);
        let (info, began) = (self.info(), std::time::Instant::now());
        tracing::debug!(server = info.name, method, limit = ?options.total, "waits for an MCP server");
        let answered = self.peer.request(method, self.complete(params.clone()), options).await;
        let (took, is_error) = (began.elapsed(), answered.is_err());
        tracing::debug!(
            server = info.name,
            method,
            ?took,
            is_error,
            "the MCP server has answered, or never will"
        );
        match answered {
            Err(CallError::SessionExpired) => {
                self.renew(seen).await?;
                self.peer.request(method, self.complete(params), options).await
            }
            other => other,
        }
    }

    pub(crate) fn complete(&self, mut params: Map<String, Value>) -> Map<String, Value> {
        if self.info().era == ProtocolRevision::Legacy {
            return params;
        }
        let mut meta = self.identity.meta();
        if let Some(Value::Object(given)) = params.remove("_meta") {
            meta.extend(given);
        }
        params.insert(String::from("_meta"), Value::Object(meta));
        params
    }

    /// Starts a new session on the same connection. Concurrent failed requests share one.
    async fn renew(&self, seen: u64) -> Result<(), CallError> {
        let _one_at_a_time = self.renewing.lock().await;
        if self.generation.load(Ordering::Acquire) != seen {
            return Ok(());
        }
        let info = {
            let options = RequestOptions::within(LIST_LIMIT);
            handshake::initialize(&self.peer, &self.identity, &options).await?
        };
        *self.info.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(info);
        self.generation.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Reads all pages of a list. Pages received within `limit` are returned even if later ones fail.
    pub(crate) async fn list(&self, method: &str, key: &str, limit: Duration) -> Result<ItemList, CallError> {
        let started = Instant::now();
        let mut listing = ItemList::default();
        let mut seen = HashSet::new();
        let mut bytes = 0;
        let mut cursor = None::<String>;
        loop {
            let params = cursor.iter().map(|it| (String::from("cursor"), json!(it))).collect();
            let left = RequestOptions::within(limit.saturating_sub(started.elapsed()));
            let page = match self.request(method, params, &left).await {
                Ok(page) => page,
                Err(CallError::Rpc(error))
                    if error.code == RpcError::METHOD_NOT_FOUND && cursor.is_none() =>
                {
                    return Ok(listing);
                }
                Err(err) if listing.items.is_empty() => return Err(err),
                Err(err) => {
                    listing.problem = Some(format!("the list ends early: {err}"));
                    return Ok(listing);
                }
            };
            if let Some(items) = page[key].as_array() {
                listing.items.extend(items.iter().take(MAX_ITEMS - listing.items.len()).cloned());
            } else if cursor.is_none() {
                listing.problem = Some(format!("the answer to {method} has no `{key}`"));
            }
            let next = page["nextCursor"].as_str().filter(|it| !it.is_empty()).map(str::to_owned);
            bytes += if next.is_some() { page.to_string().len() } else { 0 };
            match next {
                None => return Ok(listing),
                Some(next) if !seen.insert(next.clone()) => {
                    listing.problem = Some(String::from("the server's pages go round in circles"));
                    return Ok(listing);
                }
                Some(_)
                    if MAX_PAGES <= seen.len()
                        || MAX_ITEMS <= listing.items.len()
                        || MAX_LIST_BYTES <= bytes =>
                {
                    listing.problem = Some(format!("only the first {} were read", listing.items.len()));
                    return Ok(listing);
                }
                Some(next) => cursor = Some(next),
            }
        }
    }

    pub(crate) async fn resources(&self) -> Result<Vec<decode_lists::ResourceDef>, CallError> {
        let listing = self.list("resources/list", "resources", LIST_LIMIT).await?;
        Ok(listing.items.iter().filter_map(decode_lists::resource).collect())
    }

    pub(crate) async fn templates(&self) -> Result<Vec<decode_lists::ResourceTemplate>, CallError> {
        let listing = self.list("resources/templates/list", "resourceTemplates", LIST_LIMIT).await?;
        Ok(listing.items.iter().filter_map(decode_lists::template).collect())
    }

    pub(crate) async fn prompts(&self) -> Result<Vec<decode_lists::PromptDef>, CallError> {
        let listing = self.list("prompts/list", "prompts", LIST_LIMIT).await?;
        Ok(listing.items.iter().filter_map(decode_lists::prompt).collect())
    }
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        // Closes the transport in the background.
        if let (Some(transport), Ok(runtime)) = (self.peer.transport(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(transport.close());
        }
        self.peer.inbox().closed("the connection was closed");
    }
}
