//! The registry of sub-agents: the interface for tools and for the session.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use haft_agent::{AgentInbox, AgentSettings, UserInput};
use haft_builtin_tools::agent::{
    AgentKindSummary, AgentReport, SubagentOutcome, SubagentRequest, SubagentSpawner,
};
use haft_model::{CachePolicy, Catalog};
use haft_tool::{BoxFuture, CallContext};
use haft_types::{AgentId, CallId};
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    AgentDefinition, AgentKindCatalog, AgentLogs, ChildIdentity, TreeLimits,
    agent_logs::AgentMeta,
    agent_tree::{AgentNode, AgentTree, ChildSignal, ReportWaiter, SpawnRefusal, StoppedBy},
    builtin::FORK,
    mail_item::{AgentMessage, MailBody, MailItem, notice},
    spawner::SpawnJob,
};
use crate::{EventSender, SessionEventKind, build::ModelPolicy};

/// The sub-agents of a session.
pub(crate) struct SubagentRegistry {
    pub(super) events: EventSender,
    pub(super) limits: TreeLimits,
    shelf: RwLock<Arc<AgentKindCatalog>>,
    tree: Mutex<AgentTree>,
    pub(super) models: AgentModels,
    /// Request settings of the main agent, which sub-agents inherit.
    main_settings: Mutex<AgentSettings>,
    /// Interval of progress summaries; `None` disables them.
    pub(super) summary_pace: Mutex<Option<Duration>>,
    /// The definition the main agent uses, if any.
    pub(super) kind_of_main: Mutex<Option<Arc<AgentDefinition>>>,
    /// Prompt cache lifetime of sub-agents, if the settings give them their own.
    pub(super) cache: OnceLock<CachePolicy>,
    /// The logs of sub-agents; `None` if no log is written.
    logs: Mutex<Option<AgentLogs>>,
    births: mpsc::UnboundedSender<SpawnJob>,
    pub(super) slots: Arc<Semaphore>,
    /// Cancelled when the session ends.
    pub(super) session: CancellationToken,
    /// Cancelled when no sub-agent can be spawned any more and the session may be released.
    pub(super) nursery_closed: CancellationToken,
    /// Notified when the main agent has mail.
    news: Notify,
    /// Notified when a sub-agent ends.
    ended: Notify,
    pub(super) roster: super::roster::AgentRoster,
}

/// How the models of sub-agents are chosen.
pub(crate) enum AgentModels {
    /// There is no model, and so no sub-agents.
    None,
    /// Models of the catalog that the settings allow. `usual` applies if neither call nor definition
    /// names one.
    Known { catalog: Arc<Catalog>, usual: Option<String>, policy: ModelPolicy },
}

/// Stops a sub-agent if the call that waits for it is dropped.
struct WaitingCall<'a> {
    desk: &'a SubagentRegistry,
    id: AgentId,
    parent: AgentId,
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let mut tree = self.desk.tree();
        if let Some(node) = tree.nodes.get_mut(&self.id)
            && node.waiter == ReportWaiter::Call
            && node.is_live()
        {
            // The call is gone, but the report until now goes to the parent with its next request.
            node.waiter = ReportWaiter::Mention;
            tree.stop(&self.id, StoppedBy::Interrupt);
        }
        if let Some(parent) = tree.nodes.get_mut(&self.parent) {
            parent.waits = parent.waits.saturating_sub(1);
        }
    }
}

impl SubagentRegistry {
    /// Creates a registry, and the receiver of sub-agents to spawn.
    pub(crate) fn new(
        events: EventSender,
        limits: TreeLimits,
        shelf: AgentKindCatalog,
        models: AgentModels,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<SpawnJob>) {
        let (births, receiver) = mpsc::unbounded_channel();
        let desk = Self {
            events,
            limits,
            models,
            shelf: RwLock::new(Arc::new(shelf)),
            tree: Mutex::default(),
            main_settings: Mutex::new(AgentSettings::new("")),
            summary_pace: Mutex::default(),
            kind_of_main: Mutex::default(),
            cache: OnceLock::new(),
            logs: Mutex::default(),
            births,
            slots: Arc::new(Semaphore::new(limits.live)),
            session: CancellationToken::new(),
            nursery_closed: CancellationToken::new(),
            news: Notify::new(),
            ended: Notify::new(),
            roster: super::roster::AgentRoster::default(),
        };
        (Arc::new(desk), receiver)
    }

    pub(super) fn tree(&self) -> MutexGuard<'_, AgentTree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The current catalog of kinds.
    pub(crate) fn shelf(&self) -> Arc<AgentKindCatalog> {
        Arc::clone(&self.shelf.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the catalog of kinds.
    pub(crate) fn set_shelf(&self, shelf: AgentKindCatalog) {
        *self.shelf.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shelf);
    }

    /// Updates the request settings that sub-agents inherit from the main agent.
    pub(crate) fn follow(&self, settings: &AgentSettings) {
        *self.main_settings.lock().unwrap_or_else(PoisonError::into_inner) = settings.clone();
    }

    /// Sets the prompt cache lifetime of sub-agents.
    pub(crate) fn set_prefix_cache(&self, cache: CachePolicy) {
        self.cache.set(cache).ok();
    }

    /// Updates the model that sub-agents inherit from the main agent.
    pub(crate) fn follow_model(&self, model: &str) {
        model.clone_into(&mut self.main_settings.lock().unwrap_or_else(PoisonError::into_inner).model);
    }

    pub(super) fn main_settings(&self) -> AgentSettings {
        self.main_settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets where sub-agents are logged; `None` for nowhere.
    pub(crate) fn set_logs(&self, logs: Option<AgentLogs>) {
        *self.logs.lock().unwrap_or_else(PoisonError::into_inner) = logs;
    }

    pub(super) fn logs(&self) -> Option<AgentLogs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the start of a turn. A turn of the user resets the number of spawned agents.
    pub(crate) fn begin_prompt(&self, settings: &AgentSettings, is_of_person: bool) {
        self.follow(settings);
        if is_of_person {
            self.tree().begin_prompt();
        }
    }

    /// Whether sub-agents of the main agent run or have unread reports for it.
    pub(crate) fn is_busy(&self) -> bool {
        let tree = self.tree();
        let waits = tree.mail.iter().any(|it| it.waiter == ReportWaiter::Mail);
        waits || !tree.in_background(&AgentId::Main).is_empty()
    }

    /// Waits until the main agent has mail.
    pub(crate) async fn news(&self) {
        loop {
            let news = self.news.notified();
            tokio::pin!(news);
            news.as_mut().enable();
            if !self.tree().mail.is_empty() {
                return;
            }
            news.await;
        }
    }

    /// Takes the mail of the main agent: first the reports that justify a turn, second those that only
    /// go along with the next request.
    pub(crate) fn take_mail(&self) -> (Option<UserInput>, Option<UserInput>) {
        let mail = std::mem::take(&mut self.tree().mail);
        let (waking, other): (Vec<_>, Vec<_>) =
            mail.into_iter().partition(|it| it.waiter == ReportWaiter::Mail);
        (notice(&waking), notice(&other))
    }

    /// Adds a report to the main agent's mail that does not justify a turn.
    pub(crate) fn mention(&self, report: Arc<AgentReport>, call: CallId) {
        let what = MailBody::Report(report, call);
        self.tree().mail.push(MailItem { waiter: ReportWaiter::Mention, what });
    }

    /// Adds an unread message to the main agent's mail, without justifying a turn.
    pub(super) fn mention_letter(&self, letter: AgentMessage) {
        let what = MailBody::Letter(letter);
        self.tree().mail.push(MailItem { waiter: ReportWaiter::Mention, what });
    }

    /// Keeps a message for an agent that has ended, until it resumes.
    pub(super) fn keep_for(&self, id: &AgentId, letter: &AgentMessage) {
        if let Some(node) = self.tree().nodes.get(id) {
            node.inbox.push(letter.input());
        }
    }

    /// Keeps other input for an agent that has ended, until it resumes.
    pub(super) fn queue_input(&self, id: &AgentId, input: UserInput) {
        if let Some(node) = self.tree().nodes.get(id) {
            node.inbox.push(input);
        }
    }

    /// Wakes the reader of the main agent's mail.
    pub(super) fn tell_news(&self) {
        self.ended.notify_waiters();
        self.news.notify_waiters();
    }

    /// Makes calls that wait for sub-agents return while these continue in the background: one call, or
    /// all with `None`.
    pub(crate) fn move_to_background(&self, call: Option<&CallId>) {
        let mut tree = self.tree();
        let meant = tree.nodes.values_mut().filter(|node| {
            node.is_live()
                && node.waiter == ReportWaiter::Call
                && call.is_none_or(|call| node.facts.call == *call)
        });
        let mut moved = Vec::new();
        for node in meant {
            node.waiter = ReportWaiter::Mail;
            node.facts = Arc::new(ChildIdentity { in_background: true, ..(*node.facts).clone() });
            node.signal.send_replace(ChildSignal::Moved);
            moved.push(Arc::clone(&node.facts));
        }
        drop(tree);
        for facts in moved {
            self.tell(&facts, SessionEventKind::ChildMoved(Arc::clone(&facts)));
        }
        self.tell_running();
    }

    pub(super) fn tell(&self, facts: &ChildIdentity, what: SessionEventKind) {
        self.events.tell_of(facts.id.clone(), Some(facts.call.clone()), what);
    }

    pub(super) fn tell_running(&self) {
        let running = self.tree().all_in_background();
        self.events.tell(SessionEventKind::ChildrenRunning(running));
    }

    /// Stops an agent, by id or name, and all its descendants. Its report goes to its parent, unless a
    /// call of that parent stopped it and no call waits for the report. Returns `None` for an unknown
    /// agent.
    pub(crate) fn stop(&self, id_or_name: &str, by: StoppedBy) -> Option<Arc<ChildIdentity>> {
        let mut tree = self.tree();
        let id = tree.find(id_or_name)?;
        let facts = Arc::clone(&tree.nodes.get(&id)?.facts);
        if by == StoppedBy::Parent
            && let Some(node) = tree.nodes.get_mut(&id)
            && node.waiter != ReportWaiter::Call
        {
            node.waiter = ReportWaiter::Nobody;
        }
        tree.stop(&id, by);
        Some(facts)
    }

    /// Stops the background agents that the main agent started, with their descendants. Their reports go
    /// along with the next model request.
    pub(crate) fn stop_background(&self, by: StoppedBy) {
        let mut tree = self.tree();
        for facts in tree.in_background(&AgentId::Main) {
            if let Some(node) = tree.nodes.get_mut(&facts.id) {
                node.waiter = ReportWaiter::Mention;
            }
            tree.stop(&facts.id, by);
        }
    }

    /// Whether a stopped agent has not written its report yet.
    pub(crate) fn is_stopping(&self) -> bool {
        let tree = self.tree();
        let is_stopping = |node: &super::agent_tree::AgentNode| {
            node.is_live() && node.stopped_by.is_some() && node.waiter == ReportWaiter::Mention
        };
        tree.nodes.values().any(is_stopping)
    }

    /// Stops all agents and waits up to `patience` for their reports.
    pub(crate) async fn close(&self, patience: Duration) {
        {
            let mut tree = self.tree();
            let live: Vec<AgentId> =
                tree.nodes.values().filter(|it| it.is_live()).map(|it| it.facts.id.clone()).collect();
            live.iter().for_each(|id| tree.stop(id, StoppedBy::Session));
        }
        let all_ended = async {
            loop {
                let ended = self.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if self.tree().nodes.values().all(|it| !it.is_live()) {
                    return;
                }
                ended.await;
            }
        };
        tokio::time::timeout(patience, all_ended).await.ok();
        self.session.cancel();
        if self.is_available() {
            tokio::time::timeout(patience, self.nursery_closed.cancelled()).await.ok();
        }
    }

    /// The latest text of an agent.
    pub(crate) fn last_text(&self, id: &str) -> Option<String> {
        let tree = self.tree();
        let node = tree.nodes.get(&tree.find(id)?)?;
        Some(node.report.as_ref().map_or_else(|| node.last_text.clone(), |it| it.text.clone()))
    }

    /// Records the end of a run and passes its report to whoever waits for it.
    pub(super) fn ended(&self, id: &AgentId, report: AgentReport) {
        let report = Arc::new(report);
        let mut tree = self.tree();
        let Some(node) = tree.nodes.get_mut(id).filter(|it| it.is_live()) else { return };
        node.report = Some(Arc::clone(&report));
        node.slot = None;
        node.calls = None;
        let facts = Arc::clone(&node.facts);
        let waiter = node.waiter;
        let signal = node.signal.clone();
        // Messages that arrived while the agent ended are kept.
        let is_called = !node.inbox.is_empty() && node.stopped_by.is_none();
        if matches!(waiter, ReportWaiter::Mail | ReportWaiter::Mention) {
            let what = MailBody::Report(Arc::clone(&report), facts.call.clone());
            let item = MailItem { waiter, what };
            match &facts.parent {
                AgentId::Main => tree.mail.push(item),
                parent => {
                    let told = notice(&[item]);
                    if let (Some(parent), Some(told)) = (tree.nodes.get(parent), told) {
                        parent.inbox.push(told);
                    }
                }
            }
        }
        drop(tree);
        self.tell(&facts, SessionEventKind::ChildEnded(Arc::clone(&facts), Arc::clone(&report)));
        if waiter != ReportWaiter::Call {
            self.tell_running();
        }
        signal.send_replace(ChildSignal::Ended(report));
        self.tell_news();
        if is_called {
            self.resume_for_mail(&facts);
        }
    }

    /// Waits for a possible change: for an agent whose own sub-agents run in the background.
    pub(super) async fn child_news(&self, id: &AgentId, inbox: &AgentInbox) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if !inbox.is_empty() || self.tree().in_background(id).is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn order(
        &self,
        order: SubagentRequest,
        cx: &CallContext,
    ) -> Result<(Arc<ChildIdentity>, SpawnJob), SpawnRefusal> {
        let shelf = self.shelf();
        let Some(kind) = shelf.find(&order.kind).cloned() else {
            let known: Vec<&str> = shelf.kinds().iter().map(|it| it.name.as_str()).collect();
            return Err(SpawnRefusal(format!(
                "there is no kind of agent {:?}; there are: {}",
                order.kind,
                known.join(", ")
            )));
        };
        if self.tree().nodes.get(&cx.agent_id).is_some_and(|it| it.facts.kind == FORK) {
            let why = "a fork does its work itself: it starts no agents";
            return Err(SpawnRefusal(why.to_owned()));
        }
        let kind = kind.narrowed_by(&order.disallowed);
        let depth = self.tree().admit(&cx.agent_id, &kind.name, self.limits)?;
        let in_background = match (kind.background, order.background) {
            (Some(true), _) => true,
            (_, Some(wanted)) => wanted,
            // The main agent continues meanwhile; a sub-agent has nothing else to do and waits.
            (_, None) => cx.agent_id.is_main(),
        };
        let id = AgentId::new(format!("a{}", &uuid::Uuid::new_v4().simple().to_string()[..16]));
        let (model, model_from) = self.model_for(&order, &kind, &cx.agent_id);
        let facts = Arc::new(ChildIdentity {
            run_id: uuid::Uuid::new_v4().to_string(),
            kind: kind.name.clone(),
            name: order.name.clone(),
            description: order.description.clone(),
            prompt: order.prompt.clone(),
            call: cx.call_id.clone(),
            parent: cx.agent_id.clone(),
            depth,
            in_background,
            wanted_background: order.background,
            model,
            model_from,
            log: self.logs().map(|logs| logs.path(&id)),
            skill: order.skill.clone(),
            team: self.tree().team_of(&cx.agent_id),
            id,
        });
        Ok((Arc::clone(&facts), SpawnJob::new(facts, kind, order, Arc::clone(&cx.cwd))))
    }

    /// Registers an agent of an earlier process, so that it can be resumed.
    pub(super) fn remember(&self, id: AgentId, meta: &AgentMeta, report: Arc<AgentReport>) {
        let facts = ChildIdentity {
            run_id: meta.run_id.clone(),
            kind: meta.agent_type.clone(),
            name: meta.name.clone(),
            description: meta.description.clone(),
            prompt: meta.prompt.clone(),
            call: CallId::from(meta.tool_use_id.as_str()),
            parent: meta.parent_agent_id.as_deref().map_or(AgentId::Main, AgentId::new),
            depth: meta.spawn_depth,
            in_background: meta.in_background,
            wanted_background: None,
            model: meta.model.clone(),
            model_from: meta.model_from.clone(),
            log: report.log.clone(),
            skill: None,
            team: meta.team.clone(),
            id,
        };
        let ended = ChildSignal::Ended(Arc::clone(&report));
        self.tree().insert(AgentNode {
            facts: Arc::new(facts),
            waiter: ReportWaiter::Nobody,
            report: Some(report),
            signal: watch::channel(ended).0,
            cancel: self.session.child_token(),
            stopped_by: None,
            inbox: AgentInbox::default(),
            calls: None,
            kinds: None,
            slot: None,
            waits: 0,
            last_text: String::new(),
        });
    }

    /// Adds an agent to the tree and spawns it.
    pub(super) fn begin(
        &self,
        facts: &Arc<ChildIdentity>,
        kind: &AgentDefinition,
        birth: SpawnJob,
    ) -> watch::Receiver<ChildSignal> {
        let (signal, receiver) = watch::channel(ChildSignal::Working);
        let mut tree = self.tree();
        let inherited = tree.kinds_of(&facts.parent).cloned();
        tree.insert(AgentNode {
            facts: Arc::clone(facts),
            waiter: if facts.in_background { ReportWaiter::Mail } else { ReportWaiter::Call },
            report: None,
            signal,
            cancel: self.session.child_token(),
            stopped_by: None,
            inbox: birth.inbox.clone(),
            calls: None,
            kinds: narrower(inherited, kind.may_start()),
            slot: None,
            waits: 0,
            last_text: String::new(),
        });
        drop(tree);
        if facts.in_background {
            self.tell_running();
        }
        self.tell_begun(facts);
        self.tell(facts, SessionEventKind::ChildStarted(Arc::clone(facts)));
        // If the receiver is gone, the session is closing.
        self.births.send(birth).ok();
        receiver
    }

    async fn wait(
        &self,
        facts: &Arc<ChildIdentity>,
        mut signal: watch::Receiver<ChildSignal>,
        cx: &CallContext,
    ) -> Result<SubagentOutcome, String> {
        let _waiting = WaitingCall { desk: self, id: facts.id.clone(), parent: facts.parent.clone() };
        // An agent that waits for another one does not count as running.
        if let Some(parent) = self.tree().nodes.get_mut(&facts.parent) {
            parent.waits += 1;
            parent.slot = None;
        }
        let mut is_interrupted = false;
        let spawned = loop {
            match signal.borrow_and_update().clone() {
                ChildSignal::Working => (),
                ChildSignal::Moved => break SubagentOutcome::Launched(Arc::clone(facts)),
                ChildSignal::Ended(report) => break SubagentOutcome::Ended(report),
            }
            tokio::select! {
                changed = signal.changed() => if changed.is_err() {
                    return Err(String::from("the session ended before the agent did"));
                },
                () = cx.cancel.cancelled(), if !is_interrupted => {
                    is_interrupted = true;
                    self.tree().stop(&facts.id, StoppedBy::Interrupt);
                }
            }
        };
        self.take_slot(&facts.parent).await;
        Ok(spawned)
    }

    /// Takes a concurrency slot again after waiting. Waits until one is free.
    async fn take_slot(&self, id: &AgentId) {
        let wants = |node: &&mut AgentNode| node.is_live() && node.waits <= 1 && node.slot.is_none();
        if self.tree().nodes.get_mut(id).filter(wants).is_none() {
            return;
        }
        if let Ok(slot) = Arc::clone(&self.slots).acquire_owned().await
            && let Some(node) = self.tree().nodes.get_mut(id).filter(wants)
        {
            node.slot = Some(slot);
        }
    }
}

/// The intersection of two lists of allowed kinds; `None` allows all.
fn narrower(above: Option<Vec<String>>, own: Option<Vec<String>>) -> Option<Vec<String>> {
    match (above, own) {
        (Some(above), Some(own)) => Some(own.into_iter().filter(|it| above.contains(it)).collect()),
        (above, own) => above.or(own),
    }
}

impl SubagentSpawner for SubagentRegistry {
    fn is_available(&self) -> bool {
        matches!(self.models, AgentModels::Known { .. })
    }

    fn kinds(&self) -> Vec<AgentKindSummary> {
        self.shelf().listed()
    }

    fn canonical(&self, written: &str) -> Option<String> {
        self.shelf().find(written).map(|it| it.name.clone())
    }

    fn spawn<'a>(
        &'a self,
        order: SubagentRequest,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, Result<SubagentOutcome, String>> {
        Box::pin(async move {
            let (facts, birth) = self.order(order, cx).map_err(|refusal| refusal.0)?;
            let kind = Arc::clone(&birth.kind);
            let signal = self.begin(&facts, &kind, birth);
            if facts.in_background {
                Ok(SubagentOutcome::Launched(Arc::clone(&facts)))
            } else {
                self.wait(&facts, signal, cx).await
            }
        })
    }
}
