//! What a server offers: read, compared with what was agreed to, kept.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_tool::{DynTool, Exposure};
use serde_json::{Map, Value, json};

use super::{
    managed_server::{RemoteTool, SETTLE, Server, ServerRuntimeState},
    manifest_cache::Manifest,
    server_status::{NonProtocolOutput, ServerEvent},
};
use crate::{
    adapt::{self, PinCheck},
    client::{
        ConnectError, OfferedTool, ProtocolRevision, ServerSession, Signal, SkippedOffer,
        check_header_annotations, tools,
    },
    config::ServerEndpoint,
    jsonrpc::{CallError, Peer, RequestOptions, RpcError},
};

/// A server that keeps announcing changes is asked less and less, whether
/// there are any or not.
const MAX_SETTLE: Duration = Duration::from_secs(30);

/// After this much quiet, a change is news again.
const QUIET: Duration = Duration::from_secs(60);

/// How long one `subscriptions/listen` may stay open before it is renewed.
const LISTEN_FOR: Duration = Duration::from_secs(24 * 3600);
const LISTEN_AGAIN: Duration = Duration::from_secs(5);
const SUBSCRIBE_LIMIT: Duration = Duration::from_secs(30);

impl Server {
    /// Reads the list of tools of a fresh session.
    pub(super) async fn take_tools(&self, session: &Arc<ServerSession>) -> Result<(), ConnectError> {
        let listing = session.list("tools/list", "tools", self.config.timeouts.startup).await?;
        let (mut defs, mut skipped) = tools(listing.items);
        if session.info().era == ProtocolRevision::Modern
            && matches!(self.config.endpoint, ServerEndpoint::Http(_))
        {
            leave_out_bad_headers(&mut defs, &mut skipped);
        }
        if let Some(problem) = listing.problem {
            skipped.push(SkippedOffer { name: String::from("tools/list"), reason: problem });
        }
        let (changed, manifest) = {
            let info = session.info().as_ref().clone();
            let mut slot = self.slot();
            slot.info = Some(info.clone());
            slot.skipped = skipped;
            let changed = self.adopt(&mut slot, defs.clone());
            slot.settle = self.next_pause(&slot);
            slot.listed = Some(Instant::now());
            let (skipped, pins) = (slot.skipped.clone(), slot.pins.clone());
            (changed, Manifest::new(&self.config, info, defs, skipped, pins))
        };
        let (cache, config) = (self.context.cache.clone(), self.config.clone());
        let _ = tokio::task::spawn_blocking(move || cache.save(&config, &manifest)).await;
        if !changed.is_empty() {
            self.context.tell(ServerEvent::Definitions { server: self.name().to_owned(), tools: changed });
        }
        Ok(())
    }

    /// How long the next announced change has to settle.
    fn next_pause(&self, slot: &ServerRuntimeState) -> Duration {
        match slot.listed {
            Some(listed) if listed.elapsed() < QUIET + slot.settle => (slot.settle * 2).min(MAX_SETTLE),
            _ => SETTLE,
        }
    }

    /// Replaces the tools. Those whose definition is the same stay the same
    /// objects. Names those that are no longer what was agreed to.
    pub(super) fn adopt(&self, slot: &mut ServerRuntimeState, defs: Vec<OfferedTool>) -> Vec<String> {
        let mut before: HashMap<String, RemoteTool> =
            std::mem::take(&mut slot.tools).into_iter().map(|it| (it.def.name.clone(), it)).collect();
        let names = adapt::tool_names(self.name(), &defs);
        let mut news = before.len() != defs.len();
        let mut changed = Vec::new();
        for (def, name) in defs.into_iter().map(Arc::new).zip(names) {
            let fingerprint = def.fingerprint();
            let pin = slot.pins.entry(def.name.clone()).or_insert_with(|| fingerprint.clone());
            let differs = *pin != fingerprint;
            if differs {
                changed.push(def.name.clone());
            }
            let kept = before
                .remove(&def.name)
                .filter(|it| it.def == def && it.changed == differs && it.built.tool.name() == name.as_str());
            match kept {
                Some(kept) => slot.tools.push(kept),
                None => {
                    news = true;
                    let agreed = if differs { PinCheck::No } else { PinCheck::Yes };
                    let exposure = if slot.at_once || self.config.always_load {
                        Exposure::Always
                    } else {
                        Exposure::Deferred
                    };
                    match adapt::remote_tool(&self.config, &def, name, agreed, exposure, self.me.clone()) {
                        Ok(built) => slot.tools.push(RemoteTool { def, built, changed: differs }),
                        Err(reason) => slot.skipped.push(SkippedOffer { name: def.name.clone(), reason }),
                    }
                }
            }
        }
        let news = news || !before.is_empty();
        if news {
            self.context.tell(ServerEvent::Tools { server: self.name().to_owned() });
        }
        changed
    }

    /// The tools as the pool wants them, by name.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let mut tools: Vec<_> = self.slot().tools.iter().map(|it| Arc::clone(&it.built.tool)).collect();
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        tools
    }

    pub(crate) fn definitions(&self) -> Vec<Arc<OfferedTool>> {
        self.slot().tools.iter().map(|it| Arc::clone(&it.def)).collect()
    }

    /// The name of every tool here, the server, and the tool's name there.
    pub(crate) fn origins(&self) -> Vec<(String, String, String)> {
        let origin =
            |it: &RemoteTool| (it.built.tool.name().to_owned(), self.name().to_owned(), it.def.name.clone());
        self.slot().tools.iter().map(origin).collect()
    }

    /// How many characters its tools take in a request.
    pub(crate) fn definition_chars(&self) -> usize {
        let size = |it: &RemoteTool| {
            let spec = it.built.tool.spec();
            spec.name.len() + spec.description.len() + spec.input_schema.to_string().len()
        };
        self.slot().tools.iter().map(size).sum()
    }

    /// Puts its tools into every request from now on.
    pub(crate) fn load_at_once(&self) {
        let mut slot = self.slot();
        slot.at_once = true;
        // Made anew, since what a tool is shown as is part of it.
        let defs: Vec<OfferedTool> =
            std::mem::take(&mut slot.tools).into_iter().map(|it| it.def.as_ref().clone()).collect();
        self.adopt(&mut slot, defs);
    }

    /// The user has seen what changed: from now on this is what was agreed to.
    pub(crate) fn accept_definitions(&self) {
        let mut slot = self.slot();
        let defs: Vec<OfferedTool> = slot.tools.iter().map(|it| it.def.as_ref().clone()).collect();
        slot.pins = defs.iter().map(|def| (def.name.clone(), def.fingerprint())).collect();
        self.adopt(&mut slot, defs.clone());
        if let Some(info) = slot.info.clone() {
            let manifest = Manifest::new(&self.config, info, defs, slot.skipped.clone(), slot.pins.clone());
            self.context.cache.save(&self.config, &manifest);
        }
    }

    pub(super) fn signalled(self: &Arc<Self>, signal: Signal) {
        let server = self.name().to_owned();
        match signal {
            Signal::ListChanged("tools") => self.refresh_soon(),
            Signal::ListChanged(_) => self.context.tell(ServerEvent::Lists { server }),
            Signal::ResourceUpdated(uri) => self.context.tell(ServerEvent::Resource { server, uri }),
            // Nobody's state changed, so nobody who waits for that is woken.
            Signal::Output(line) => drop(self.context.events.send(ServerEvent::Output { server, line })),
            Signal::Own(method, params) => {
                drop(self.context.events.send(ServerEvent::Own { server, method, params }));
            }
            Signal::Log(level, message) => self.context.tell(ServerEvent::Log { server, level, message }),
            Signal::Noise(line) => {
                let mut slot = self.slot();
                let noise = slot.noise.get_or_insert(NonProtocolOutput { lines: 0, first: line });
                noise.lines += 1;
            }
        }
    }

    /// Reads the tools again once the changes have settled. What was there
    /// stays if that fails.
    fn refresh_soon(self: &Arc<Self>) {
        let settle = {
            let mut slot = self.slot();
            if std::mem::replace(&mut slot.refreshing, true) {
                return;
            }
            slot.settle
        };
        let me = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(settle).await;
            let Some(server) = me.upgrade() else { return };
            let session = {
                let mut slot = server.slot();
                slot.refreshing = false;
                slot.session.clone()
            };
            if let Some(session) = session {
                let _ = server.take_tools(&session).await;
            }
        });
    }

    /// A modern server tells about changes only to those who listen; an older
    /// one tells about resources only when asked to.
    pub(super) fn listen(&self, session: &Arc<ServerSession>) {
        let (me, session) = (self.me.clone(), Arc::downgrade(session));
        tokio::spawn(async move {
            loop {
                let Some((server, session)) = me.upgrade().zip(session.upgrade()) else { return };
                let subscribed = server.slot().subscribed.clone();
                let (peer, era) = (session.peer().clone(), session.info().era);
                let listening = match era {
                    ProtocolRevision::Modern => Some(session.complete(listen_params(&subscribed))),
                    ProtocolRevision::Legacy => {
                        subscribe_all(&session, &subscribed).await;
                        None
                    }
                };
                // The wait for news keeps neither the session nor the server alive.
                drop(session);
                let resubscribe = Arc::clone(&server.resubscribe);
                drop(server);
                tokio::select! {
                    go_on = listen_once(&peer, listening) => if !go_on { return },
                    () = resubscribe.notified() => continue,
                    () = peer.gone().cancelled() => return,
                }
                drop(peer);
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        });
    }

    /// Asks to be told when a resource changes.
    pub(crate) fn subscribe(&self, uri: &str) {
        self.slot().subscribed.insert(uri.to_owned());
        self.resubscribe.notify_one();
    }
}

fn listen_params(subscribed: &BTreeSet<String>) -> Map<String, Value> {
    let mut wanted = json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
    });
    if !subscribed.is_empty() {
        wanted["resourceSubscriptions"] = json!(subscribed);
    }
    Map::from_iter([(String::from("notifications"), wanted)])
}

async fn subscribe_all(session: &ServerSession, subscribed: &BTreeSet<String>) {
    for uri in subscribed {
        let params = Map::from_iter([(String::from("uri"), json!(uri))]);
        let _ =
            session.request("resources/subscribe", params, &RequestOptions::within(SUBSCRIBE_LIMIT)).await;
    }
}

/// Listens until the server ends it. Says whether to listen again.
async fn listen_once(peer: &Peer, params: Option<Map<String, Value>>) -> bool {
    let Some(params) = params else { return std::future::pending().await };
    match peer.request("subscriptions/listen", params, &RequestOptions::within(LISTEN_FOR)).await {
        Err(CallError::Rpc(error)) => error.code != RpcError::METHOD_NOT_FOUND,
        Err(CallError::Unauthorized { .. } | CallError::Forbidden { .. }) => false,
        _ => true,
    }
}

/// A tool whose header annotations are wrong cannot be called over HTTP: who
/// routes by them would act on something else than the server.
fn leave_out_bad_headers(defs: &mut Vec<OfferedTool>, skipped: &mut Vec<SkippedOffer>) {
    defs.retain(|def| match check_header_annotations(&def.input_schema) {
        Ok(()) => true,
        Err(reason) => {
            skipped.push(SkippedOffer { name: def.name.clone(), reason });
            false
        }
    });
}
