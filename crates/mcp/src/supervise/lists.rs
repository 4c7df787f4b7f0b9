//! What a server offers: read, compared with what was agreed to, kept.

use std::{collections::HashMap, sync::Arc, time::Duration};

use haft_tool::DynTool;
use serde_json::{Map, json};

use super::{
    manifest::Manifest,
    server::{RemoteTool, Server, Slot},
    status::{Event, Noise},
};
use crate::{
    adapt::{self, Agreed},
    client::{ConnectError, Era, Session, Signal, Skipped, ToolDef, check_header_annotations, tools},
    config::Endpoint,
    wire::{CallError, RequestOptions, RpcError},
};

/// Changes come in bursts; the list is read once after them.
const SETTLE: Duration = Duration::from_millis(300);

/// How long one `subscriptions/listen` may stay open before it is renewed.
const LISTEN_FOR: Duration = Duration::from_secs(24 * 3600);
const LISTEN_AGAIN: Duration = Duration::from_secs(5);

impl Server {
    /// Reads the list of tools of a fresh session.
    pub(super) async fn take_tools(&self, session: &Arc<Session>) -> Result<(), ConnectError> {
        let listing = session.list("tools/list", "tools").await?;
        let (mut defs, mut skipped) = tools(listing.items);
        if session.info().era == Era::Modern && matches!(self.config.endpoint, Endpoint::Http(_)) {
            leave_out_bad_headers(&mut defs, &mut skipped);
        }
        if let Some(problem) = listing.problem {
            skipped.push(Skipped { name: String::from("tools/list"), reason: problem });
        }
        let (changed, manifest) = {
            let info = session.info().as_ref().clone();
            let mut slot = self.slot();
            slot.info = Some(info.clone());
            slot.skipped = skipped;
            let changed = self.adopt(&mut slot, defs.clone());
            let (skipped, pins) = (slot.skipped.clone(), slot.pins.clone());
            (changed, Manifest::new(&self.config, info, defs, skipped, pins))
        };
        let (cache, config) = (self.context.cache.clone(), self.config.clone());
        let _ = tokio::task::spawn_blocking(move || cache.save(&config, &manifest)).await;
        if !changed.is_empty() {
            self.context.tell(Event::Definitions { server: self.name().to_owned(), tools: changed });
        }
        Ok(())
    }

    /// Replaces the tools. Those whose definition is the same stay the same
    /// objects. Returns those that are no longer what was agreed to.
    pub(super) fn adopt(&self, slot: &mut Slot, defs: Vec<ToolDef>) -> Vec<String> {
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
                    let agreed = if differs { Agreed::No } else { Agreed::Yes };
                    match adapt::remote_tool(&self.config, &def, name, agreed, self.me.clone()) {
                        Ok(built) => slot.tools.push(RemoteTool { def, built, changed: differs }),
                        Err(reason) => slot.skipped.push(Skipped { name: def.name.clone(), reason }),
                    }
                }
            }
        }
        if news || !before.is_empty() {
            self.context.tell(Event::Tools { server: self.name().to_owned() });
        }
        changed
    }

    /// The tools as the pool wants them, by name.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let mut tools: Vec<_> = self.slot().tools.iter().map(|it| Arc::clone(&it.built.tool)).collect();
        tools.sort_by(|a, b| a.name().cmp(b.name()));
        tools
    }

    pub(crate) fn definitions(&self) -> Vec<Arc<ToolDef>> {
        self.slot().tools.iter().map(|it| Arc::clone(&it.def)).collect()
    }

    /// The user has seen what changed: from now on this is what was agreed to.
    pub(crate) fn accept_definitions(&self) {
        let mut slot = self.slot();
        let defs: Vec<ToolDef> = slot.tools.iter().map(|it| it.def.as_ref().clone()).collect();
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
            Signal::ListChanged(_) => self.context.tell(Event::Lists { server }),
            Signal::ResourceUpdated(uri) => self.context.tell(Event::Resource { server, uri }),
            Signal::Log(level, message) => self.context.tell(Event::Log { server, level, message }),
            Signal::Noise(line) => {
                let mut slot = self.slot();
                let noise = slot.noise.get_or_insert(Noise { lines: 0, first: line });
                noise.lines += 1;
            }
        }
    }

    /// Reads the tools again once the changes have settled. What was there
    /// stays if that fails.
    fn refresh_soon(self: &Arc<Self>) {
        if std::mem::replace(&mut self.slot().refreshing, true) {
            return;
        }
        let me = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(SETTLE).await;
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

    /// A modern server tells about changes only to those who listen.
    pub(super) fn listen(&self, session: &Arc<Session>) {
        if session.info().era != Era::Modern {
            return;
        }
        let session = Arc::downgrade(session);
        tokio::spawn(async move {
            let params = json!({
                "toolsListChanged": true,
                "promptsListChanged": true,
                "resourcesListChanged": true,
            });
            let params = Map::from_iter([(String::from("notifications"), params)]);
            loop {
                let Some(session) = session.upgrade().filter(|it| it.is_open()) else { return };
                let gone = session.peer().gone().clone();
                let (peer, params) = (session.peer().clone(), session.complete(params.clone()));
                // The wait for news must not keep the session alive.
                drop(session);
                let options = RequestOptions::within(LISTEN_FOR);
                let listened = tokio::select! {
                    listened = peer.request("subscriptions/listen", params, &options) => listened,
                    () = gone.cancelled() => return,
                };
                match listened {
                    Err(CallError::Rpc(error)) if error.code == RpcError::METHOD_NOT_FOUND => return,
                    Err(CallError::Unauthorized { .. } | CallError::Forbidden { .. }) => return,
                    _ => (),
                }
                drop(peer);
                tokio::time::sleep(LISTEN_AGAIN).await;
            }
        });
    }
}

/// A tool whose header annotations are wrong cannot be called over HTTP: who
/// routes by them would act on something else than the server.
fn leave_out_bad_headers(defs: &mut Vec<ToolDef>, skipped: &mut Vec<Skipped>) {
    defs.retain(|def| match check_header_annotations(&def.input_schema) {
        Ok(()) => true,
        Err(reason) => {
            skipped.push(Skipped { name: def.name.clone(), reason });
            false
        }
    });
}
