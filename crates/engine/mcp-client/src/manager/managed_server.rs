use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::Shared};
use haft_mcp_auth::TokenFile;
use haft_tool::BoxFuture;
use tokio::sync::{Notify, Semaphore, broadcast, watch};

use super::{
    advice::advice,
    manifest_cache::{ManifestCache, ManifestFreshness},
    server_status::{NonProtocolOutput, ServerEvent, ServerState, ServerStatus},
};
use crate::{
    adapt::{BuiltTool, MediaSink},
    client::{
        ClientIdentity, ClientPorts, ClientSide, ConnectError, Handshake, McpClientError, OfferedTool,
        ServerInfo, ServerSession, SkippedOffer,
    },
    config::{ServerConfig, ServerEndpoint},
    transport::Connector,
};

/// What all servers of a manager share.
pub(crate) struct Context {
    pub(crate) host: ClientPorts,
    pub(crate) cache: ManifestCache,
    pub(crate) media: Arc<dyn MediaSink>,
    pub(crate) events: broadcast::Sender<ServerEvent>,
    /// Counts every change of any server, for those who wait.
    pub(crate) revision: watch::Sender<u64>,
    /// Starting a server is work for the processor: more at once than there
    /// are processors makes all of them late.
    pub(crate) starts: Semaphore,
    /// Reaching an address is only waiting.
    pub(crate) dials: Semaphore,
}

impl Context {
    pub(crate) fn tell(&self, event: ServerEvent) {
        let _ = self.events.send(event);
        self.revision.send_modify(|it| *it += 1);
    }
}

/// One configured server: connects when needed, once for all who need it;
/// comes back after it died; keeps its tools declared all the while.
pub(crate) struct Server {
    pub(crate) config: ServerConfig,
    pub(super) connector: Arc<dyn Connector>,
    pub(super) tokens: Option<Arc<TokenFile>>,
    pub(super) context: Arc<Context>,
    slot: Mutex<ServerRuntimeState>,
    pub(super) me: Weak<Self>,
    /// Fires when `subscribed` changed.
    pub(super) resubscribe: Arc<Notify>,
}

type ConnectAttempt = Shared<BoxFuture<'static, Result<Arc<ServerSession>, ServerUnavailableError>>>;

/// Why a server cannot be used right now, in words for the model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct ServerUnavailableError {
    pub(crate) reason: String,
    pub(crate) needs_auth: bool,
}

impl ServerUnavailableError {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), needs_auth: false }
    }
}

pub(super) struct ServerRuntimeState {
    state: ServerState,
    pub(super) session: Option<Arc<ServerSession>>,
    attempt: Option<ConnectAttempt>,
    /// Failures in a row, and when the next try is due.
    failures: u32,
    not_before: Option<Instant>,
    ready_since: Option<Instant>,
    /// It worked at least once in this session.
    was_ready: bool,
    pub(super) info: Option<ServerInfo>,
    pub(super) tools: Vec<RemoteTool>,
    pub(super) skipped: Vec<SkippedOffer>,
    pub(super) pins: BTreeMap<String, String>,
    pub(super) noise: Option<NonProtocolOutput>,
    connect_time: Option<Duration>,
    last_error: Option<String>,
    /// What can be done about it.
    advice: Option<String>,
    last_log: String,
    challenge: Option<String>,
    /// The list of tools is about to be read again.
    pub(super) refreshing: bool,
    /// How long to wait before that; grows while changes follow each other.
    pub(super) settle: Duration,
    /// When it was last read.
    pub(super) listed: Option<Instant>,
    /// Resources somebody wants to hear about.
    pub(super) subscribed: BTreeSet<String>,
    /// Its tools are in every request, whatever the configuration says.
    pub(super) at_once: bool,
}

/// A definition and the tool made of it, kept as one object as long as the
/// definition does not change: whoever advertised it recognises it.
pub(crate) struct RemoteTool {
    pub(crate) def: Arc<OfferedTool>,
    pub(crate) built: BuiltTool,
    pub(super) changed: bool,
}

/// Changes come in bursts; the list is read once after them.
pub(super) const SETTLE: Duration = Duration::from_millis(300);

/// A server that lived this long was healthy; its end begins a new count.
const HEALTHY: Duration = Duration::from_secs(30);

/// How long a server that starts counts as one that starts.
const STARTING: Duration = Duration::from_secs(1);

/// After so many failures in a row nobody tries without being asked.
const MAX_AUTOMATIC: u32 = 5;

/// A call waits this long for a pause between two tries, no longer.
const MAX_WAIT: Duration = Duration::from_millis(2500);

/// The pause before the next try: none after the first failure, then 1, 2, 4, 8,
/// 16 seconds.
fn pause(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => Duration::from_secs(1 << (more - 2).min(4)),
    }
}

impl Server {
    pub(crate) fn new(
        config: ServerConfig,
        connector: Arc<dyn Connector>,
        tokens: Option<Arc<TokenFile>>,
        context: Arc<Context>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| {
            let slot = ServerRuntimeState {
                state: ServerState::Connecting,
                session: None,
                attempt: None,
                failures: 0,
                not_before: None,
                ready_since: None,
                was_ready: false,
                info: None,
                tools: Vec::new(),
                skipped: Vec::new(),
                pins: BTreeMap::new(),
                noise: None,
                connect_time: None,
                last_error: None,
                advice: None,
                last_log: String::new(),
                challenge: None,
                refreshing: false,
                settle: SETTLE,
                listed: None,
                subscribed: BTreeSet::new(),
                at_once: false,
            };
            Self {
                config,
                connector,
                tokens,
                context,
                slot: Mutex::new(slot),
                me: me.clone(),
                resubscribe: Arc::default(),
            }
        })
    }

    pub(super) fn slot(&self) -> MutexGuard<'_, ServerRuntimeState> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    /// The trace a call belongs to.
    pub(crate) fn trace_of(&self, agent: &haft_types::AgentId, call: &haft_types::CallId) -> Option<String> {
        (self.context.host.trace.as_ref()?)(agent, call)
    }

    pub(crate) fn media(&self) -> &dyn MediaSink {
        self.context.media.as_ref()
    }

    /// Takes what is known from the last time, and connects in the background
    /// unless that is still fresh.
    pub(crate) fn begin(&self) {
        let manifest = self.context.cache.load(&self.config);
        let freshness = manifest.as_ref().map_or(ManifestFreshness::Expired, |it| it.freshness(&self.config));
        if let Some(manifest) = manifest {
            let mut slot = self.slot();
            slot.pins = manifest.pins;
            if freshness != ManifestFreshness::Expired {
                slot.info = Some(manifest.info);
                slot.skipped = manifest.skipped;
                self.adopt(&mut slot, manifest.tools);
            }
        }
        match freshness {
            ManifestFreshness::Fresh => self.set_state(ServerState::Cached),
            ManifestFreshness::Stale | ManifestFreshness::Expired => self.connect_in_background(),
        }
    }

    pub(crate) fn connect_in_background(&self) {
        if let Some(server) = self.me.upgrade() {
            tokio::spawn(async move {
                let _ = server.session().await;
            });
        }
    }

    /// The connected server. Everybody who asks while it connects waits for the
    /// same attempt; giving up waiting does not disturb the others.
    pub(crate) async fn session(&self) -> Result<Arc<ServerSession>, ServerUnavailableError> {
        let attempt = {
            let mut slot = self.slot();
            if slot.state == ServerState::Disabled {
                return Err(ServerUnavailableError::new(format!(
                    "the server `{}` is switched off",
                    self.name()
                )));
            }
            if let Some(session) = slot.session.as_ref().filter(|it| it.is_open()) {
                return Ok(Arc::clone(session));
            }
            match &slot.attempt {
                Some(attempt) => attempt.clone(),
                None => self.try_again(&mut slot)?,
            }
        };
        attempt.await
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.slot().session.as_ref().is_some_and(|it| it.is_open())
    }

    /// Starts an attempt, if it is not too early for one.
    fn try_again(&self, slot: &mut ServerRuntimeState) -> Result<ConnectAttempt, ServerUnavailableError> {
        let wait = slot.not_before.map_or(Duration::ZERO, |it| it.saturating_duration_since(Instant::now()));
        if MAX_WAIT < wait {
            let why = slot.last_error.as_deref().unwrap_or("it ended");
            return Err(ServerUnavailableError {
                reason: format!(
                    "the server `{}` is temporarily unavailable and is tried again in {} s: {why}",
                    self.name(),
                    wait.as_secs() + 1,
                ),
                needs_auth: slot.state == ServerState::NeedsAuth,
            });
        }
        let Some(server) = self.me.upgrade() else {
            return Err(ServerUnavailableError::new("the server was removed"));
        };
        let task = tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            server.attempt().await
        });
        let attempt =
            task.map(|done| done.unwrap_or_else(|err| Err(ServerUnavailableError::new(err.to_string()))));
        let attempt: ConnectAttempt = attempt.boxed().shared();
        slot.attempt = Some(attempt.clone());
        let state = match slot.failures {
            0 => ServerState::Connecting,
            attempt if slot.was_ready => ServerState::Restarting { attempt },
            // What never worked is shown as failed until it does.
            _ => slot.state.clone(),
        };
        self.enter(slot, state);
        Ok(attempt)
    }

    /// One attempt, from the start of the process to the list of tools.
    async fn attempt(self: Arc<Self>) -> Result<Arc<ServerSession>, ServerUnavailableError> {
        let started = Instant::now();
        let session = self.connect().await;
        match self.settle(session, started.elapsed()) {
            Ok(session) => {
                self.watch(&session);
                Ok(session)
            }
            Err((unwanted, unavailable)) => {
                if let Some(session) = unwanted {
                    session.close().await;
                }
                Err(unavailable)
            }
        }
    }

    /// Takes note of how an attempt ended. A session nobody wants any more
    /// comes back, to be closed.
    fn settle(
        &self,
        session: Result<Arc<ServerSession>, ConnectError>,
        took: Duration,
    ) -> Result<Arc<ServerSession>, (Option<Arc<ServerSession>>, ServerUnavailableError)> {
        let mut slot = self.slot();
        slot.attempt = None;
        slot.connect_time = Some(took);
        let session = session.map_err(|err| (None, self.failed(&mut slot, err)))?;
        if slot.state == ServerState::Disabled {
            let gone = ServerUnavailableError::new(format!("the server `{}` was switched off", self.name()));
            return Err((Some(session), gone));
        }
        slot.session = Some(Arc::clone(&session));
        slot.ready_since = Some(Instant::now());
        slot.was_ready = true;
        slot.not_before = None;
        slot.last_error = None;
        slot.advice = None;
        slot.challenge = None;
        self.enter(&mut slot, ServerState::Ready);
        Ok(session)
    }

    async fn connect(self: &Arc<Self>) -> Result<Arc<ServerSession>, ConnectError> {
        let gate = match self.config.endpoint {
            ServerEndpoint::Stdio(_) => &self.context.starts,
            _ => &self.context.dials,
        };
        let permit = gate.acquire().await;
        let connecting = self.shake_hands();
        tokio::pin!(connecting);
        // Starting is work; what takes longer than this only waits, and must not keep others waiting.
        if let Ok(connected) = tokio::time::timeout(STARTING, &mut connecting).await {
            return connected;
        }
        drop(permit);
        connecting.await
    }

    async fn shake_hands(&self) -> Result<Arc<ServerSession>, ConnectError> {
        let known = self.slot().info.as_ref().map(|info| info.era);
        let identity = ClientIdentity::new(&self.context.host, self.name(), self.config.log_level.clone());
        let handshake = Handshake {
            connector: self.connector.as_ref(),
            incoming: Arc::new(self.client_side()),
            identity,
            era: self.config.era.or(known),
            limit: self.config.timeouts.startup,
        };
        let session = Arc::new(handshake.connect().await?);
        self.take_tools(&session).await?;
        Ok(session)
    }

    fn client_side(&self) -> ClientSide {
        let me = self.me.clone();
        let signal = move |signal| {
            if let Some(server) = me.upgrade() {
                server.signalled(signal);
            }
        };
        ClientSide {
            server: self.name().to_owned(),
            host: self.context.host.clone(),
            signal: Box::new(signal),
        }
    }

    fn failed(&self, slot: &mut ServerRuntimeState, err: ConnectError) -> ServerUnavailableError {
        slot.failures += 1;
        slot.not_before = Some(Instant::now() + pause(slot.failures + 1));
        let noise = slot.noise.as_ref().map(NonProtocolOutput::to_string);
        let noise = noise.filter(|_| err.fault() == McpClientError::Silent);
        slot.advice = Some(advice(&self.config, &err, noise.is_some()));
        let noise = noise.map(|it| format!("; {it}")).unwrap_or_default();
        let reason = format!("the server `{}` could not be reached: {err}{noise}", self.name());
        let state = match err {
            ConnectError::Unauthorized { challenge } => {
                slot.challenge = Some(challenge);
                ServerState::NeedsAuth
            }
            ConnectError::Failed { .. } => ServerState::Failed,
        };
        let needs_auth = state == ServerState::NeedsAuth;
        slot.last_error = Some(if needs_auth {
            format!("it asks for a login: `haft mcp login {}`", self.name())
        } else {
            reason.clone()
        });
        if slot.state != ServerState::Disabled {
            self.enter(slot, state);
            if !needs_auth && slot.failures < MAX_AUTOMATIC {
                self.try_later(pause(slot.failures + 1));
            }
        }
        if needs_auth {
            ServerUnavailableError {
                reason: format!(
                    "the server `{}` asks for a login; the user has to run `haft mcp login {}` first",
                    self.name(),
                    self.name()
                ),
                needs_auth,
            }
        } else {
            ServerUnavailableError { reason, needs_auth }
        }
    }

    /// Waits for the end of a session and begins the next one.
    fn watch(&self, session: &Arc<ServerSession>) {
        self.listen(session);
        let (me, gone) = (self.me.clone(), session.peer().gone().clone());
        let watched = Arc::downgrade(session);
        tokio::spawn(async move {
            gone.cancelled().await;
            if let (Some(server), Some(session)) = (me.upgrade(), watched.upgrade()) {
                server.ended(&session);
            }
        });
    }

    fn ended(&self, session: &Arc<ServerSession>) {
        let mut slot = self.slot();
        if !slot.session.as_ref().is_some_and(|it| Arc::ptr_eq(it, session)) {
            return;
        }
        let lived = slot.ready_since.take().map_or(Duration::ZERO, |it| it.elapsed());
        slot.session = None;
        slot.failures = if HEALTHY <= lived { 1 } else { slot.failures + 1 };
        slot.not_before = Some(Instant::now() + pause(slot.failures));
        slot.last_error = session.peer().closed_reason();
        slot.advice = None;
        slot.last_log = session.peer().transport().map(|it| it.log_tail()).unwrap_or_default();
        if slot.state == ServerState::Disabled {
            return;
        }
        let (failures, wait) = (slot.failures, pause(slot.failures));
        if MAX_AUTOMATIC < failures {
            self.enter(&mut slot, ServerState::Failed);
            return;
        }
        self.enter(&mut slot, ServerState::Restarting { attempt: failures });
        drop(slot);
        self.try_later(wait);
    }

    /// Connects after a pause, unless somebody did before.
    fn try_later(&self, wait: Duration) {
        let me = self.me.clone();
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            if let Some(server) = me.upgrade() {
                let _ = server.session().await;
            }
        });
    }

    fn set_state(&self, state: ServerState) {
        self.enter(&mut self.slot(), state);
    }

    fn enter(&self, slot: &mut ServerRuntimeState, state: ServerState) {
        if slot.state != state {
            tracing::info!(server = self.name(), ?state, "an MCP server");
            slot.state = state.clone();
            self.context.tell(ServerEvent::State { server: self.name().to_owned(), state });
        }
    }

    /// Switches the server on or off.
    pub(crate) async fn set_enabled(&self, enabled: ServerEnabled) {
        let session = {
            let mut slot = self.slot();
            match enabled {
                ServerEnabled::Yes if slot.state == ServerState::Disabled => {
                    slot.failures = 0;
                    slot.not_before = None;
                    self.enter(&mut slot, ServerState::Connecting);
                    None
                }
                ServerEnabled::Yes => return,
                ServerEnabled::No => {
                    self.enter(&mut slot, ServerState::Disabled);
                    slot.session.take()
                }
            }
        };
        match enabled {
            ServerEnabled::Yes => self.connect_in_background(),
            ServerEnabled::No => {
                if let Some(session) = session {
                    session.close().await;
                }
            }
        }
    }

    /// Ends the connection and begins a new one at once.
    pub(crate) async fn reconnect(&self) -> Result<Arc<ServerSession>, ServerUnavailableError> {
        let session = {
            let mut slot = self.slot();
            slot.failures = 0;
            slot.not_before = None;
            slot.session.take()
        };
        if let Some(session) = session {
            session.close().await;
        }
        self.session().await
    }

    /// Ends the connection for good.
    pub(crate) async fn stop(&self) {
        self.set_enabled(ServerEnabled::No).await;
    }

    pub(crate) fn status(&self) -> ServerStatus {
        let slot = self.slot();
        let transport = slot.session.as_ref().and_then(|it| it.peer().transport().cloned());
        let repaired = slot.tools.iter().filter(|it| !it.built.repairs.is_empty());
        ServerStatus {
            name: self.name().to_owned(),
            scope: self.config.scope,
            transport: self.config.endpoint.kind(),
            state: slot.state.clone(),
            info: slot.info.clone(),
            pid: transport.as_ref().and_then(|it| it.pid()),
            tools: slot.tools.len(),
            skipped: slot.skipped.clone(),
            repaired: repaired
                .map(|it| SkippedOffer { name: it.def.name.clone(), reason: it.built.repairs.join("; ") })
                .collect(),
            changed: slot.tools.iter().filter(|it| it.changed).map(|it| it.def.name.clone()).collect(),
            noise: slot.noise.clone(),
            connect_time: slot.connect_time,
            last_error: slot.last_error.clone(),
            advice: slot.advice.clone(),
            log_tail: transport.map_or_else(|| slot.last_log.clone(), |it| it.log_tail()),
        }
    }

    /// The challenge of the last refusal, for a login.
    pub(crate) fn challenge(&self) -> Option<String> {
        self.slot().challenge.clone()
    }

    pub(crate) fn state(&self) -> ServerState {
        self.slot().state.clone()
    }

    /// A call was refused for want of a login.
    pub(super) fn refused(&self, challenge: String) {
        let mut slot = self.slot();
        slot.challenge = Some(challenge);
        slot.last_error = Some(format!("it asks for a login: `haft mcp login {}`", self.name()));
        self.enter(&mut slot, ServerState::NeedsAuth);
    }
}

/// Whether a server may be used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ServerEnabled {
    /// It may.
    Yes,
    /// It may not, and is stopped.
    No,
}
