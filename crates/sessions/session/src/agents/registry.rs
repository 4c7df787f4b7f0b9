//! What tools and the session reach of the agents.

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

/// The agents of a session, for tools and for the session itself.
pub(crate) struct SubagentRegistry {
    pub(super) events: EventSender,
    pub(super) limits: TreeLimits,
    shelf: RwLock<Arc<AgentKindCatalog>>,
    tree: Mutex<AgentTree>,
    pub(super) models: AgentModels,
    /// How the main agent asks, for those that follow it.
    main_settings: Mutex<AgentSettings>,
    /// How often agents are asked what they do, if they are.
    pub(super) summary_pace: Mutex<Option<Duration>>,
    /// What the main agent is, where the session is one of the agents.
    pub(super) kind_of_main: Mutex<Option<Arc<AgentDefinition>>>,
    /// How long the beginning of agents' requests is kept, where the settings
    /// tell it from that of the main agent's.
    pub(super) cache: OnceLock<CachePolicy>,
    /// Where logs are, while there are any.
    logs: Mutex<Option<AgentLogs>>,
    births: mpsc::UnboundedSender<SpawnJob>,
    pub(super) slots: Arc<Semaphore>,
    /// Ends with the session.
    pub(super) session: CancellationToken,
    /// No agent can begin any more, and nothing of the session is kept for one.
    pub(super) nursery_closed: CancellationToken,
    /// Reports are there for the main agent.
    news: Notify,
    /// An agent has ended.
    ended: Notify,
    pub(super) roster: super::roster::AgentRoster,
}

/// Which models agents have.
pub(crate) enum AgentModels {
    /// There is none: no agents either.
    None,
    /// Those of a list that the settings offer; the usual one where neither call
    /// nor definition says.
    Known { catalog: Arc<Catalog>, usual: Option<String>, policy: ModelPolicy },
}

/// Stops an agent whose call is gone.
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
            // The call is gone, but what was said until now is not lost.
            node.waiter = ReportWaiter::Mention;
            tree.stop(&self.id, StoppedBy::Interrupt);
        }
        if let Some(parent) = tree.nodes.get_mut(&self.parent) {
            parent.waits = parent.waits.saturating_sub(1);
        }
    }
}

impl SubagentRegistry {
    /// A desk, and what it wants to be born.
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

    /// The kinds as they are now.
    pub(crate) fn shelf(&self) -> Arc<AgentKindCatalog> {
        Arc::clone(&self.shelf.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Other kinds from now on.
    pub(crate) fn set_shelf(&self, shelf: AgentKindCatalog) {
        *self.shelf.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shelf);
    }

    /// The main agent asks like this from now on.
    pub(crate) fn follow(&self, settings: &AgentSettings) {
        *self.main_settings.lock().unwrap_or_else(PoisonError::into_inner) = settings.clone();
    }

    /// The beginning of agents' requests is kept this long.
    pub(crate) fn keep_prefixes(&self, cache: CachePolicy) {
        self.cache.set(cache).ok();
    }

    /// The main agent has another model from now on.
    pub(crate) fn follow_model(&self, model: &str) {
        model.clone_into(&mut self.main_settings.lock().unwrap_or_else(PoisonError::into_inner).model);
    }

    pub(super) fn main_settings(&self) -> AgentSettings {
        self.main_settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Agents are logged there from now on, or nowhere.
    pub(crate) fn set_logs(&self, logs: Option<AgentLogs>) {
        *self.logs.lock().unwrap_or_else(PoisonError::into_inner) = logs;
    }

    pub(super) fn logs(&self) -> Option<AgentLogs> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A prompt begins; one of the person begins the count of agents anew.
    pub(crate) fn begin_prompt(&self, settings: &AgentSettings, is_of_person: bool) {
        self.follow(settings);
        if is_of_person {
            self.tree().begin_prompt();
        }
    }

    /// Whether agents work for the main agent, or have a report for it.
    pub(crate) fn is_busy(&self) -> bool {
        let tree = self.tree();
        let waits = tree.mail.iter().any(|it| it.waiter == ReportWaiter::Mail);
        waits || !tree.in_background(&AgentId::Main).is_empty()
    }

    /// Waits until there is a report for the main agent.
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

    /// Reports for the main agent: those that are a reason for a turn, and those
    /// that are not.
    pub(crate) fn take_mail(&self) -> (Option<UserInput>, Option<UserInput>) {
        let mail = std::mem::take(&mut self.tree().mail);
        let (waking, other): (Vec<_>, Vec<_>) =
            mail.into_iter().partition(|it| it.waiter == ReportWaiter::Mail);
        (notice(&waking), notice(&other))
    }

    /// Puts a report into the mail of the main agent, without a reason for a
    /// turn.
    pub(crate) fn mention(&self, report: Arc<AgentReport>, call: CallId) {
        let what = MailBody::Report(report, call);
        self.tree().mail.push(MailItem { waiter: ReportWaiter::Mention, what });
    }

    /// Puts a message that nobody read into the mail of the main agent.
    pub(super) fn mention_letter(&self, letter: AgentMessage) {
        let what = MailBody::Letter(letter);
        self.tree().mail.push(MailItem { waiter: ReportWaiter::Mention, what });
    }

    /// An agent that has ended reads a message when it goes on.
    pub(super) fn keep_for(&self, id: &AgentId, letter: &AgentMessage) {
        if let Some(node) = self.tree().nodes.get(id) {
            node.inbox.push(letter.input());
        }
    }

    /// The same with something else it is to hear.
    pub(super) fn keep_input_for(&self, id: &AgentId, input: UserInput) {
        if let Some(node) = self.tree().nodes.get(id) {
            node.inbox.push(input);
        }
    }

    /// Something was put into a mailbox.
    pub(super) fn tell_news(&self) {
        self.ended.notify_waiters();
        self.news.notify_waiters();
    }

    /// Calls that wait for agents go on without them: one, or all.
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

    /// Stops an agent, by its id or name, with everybody below it. Its report
    /// goes to its parent unless a call of that parent stopped it.
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

    /// Stops every agent that works in the background. The model hears of it
    /// with its next request.
    pub(crate) fn stop_background(&self, by: StoppedBy) {
        let mut tree = self.tree();
        for facts in tree.in_background(&AgentId::Main) {
            if let Some(node) = tree.nodes.get_mut(&facts.id) {
                node.waiter = ReportWaiter::Mention;
            }
            tree.stop(&facts.id, by);
        }
    }

    /// Whether an agent that was stopped has not written its report yet.
    pub(crate) fn is_stopping(&self) -> bool {
        let tree = self.tree();
        let is_stopping = |node: &super::agent_tree::AgentNode| {
            node.is_live() && node.stopped_by.is_some() && node.waiter == ReportWaiter::Mention
        };
        tree.nodes.values().any(is_stopping)
    }

    /// The session ends: every agent is stopped, and given a moment to write its
    /// report.
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

    /// What an agent said last.
    pub(crate) fn last_text(&self, id: &str) -> Option<String> {
        let tree = self.tree();
        let node = tree.nodes.get(&tree.find(id)?)?;
        Some(node.report.as_ref().map_or_else(|| node.last_text.clone(), |it| it.text.clone()))
    }

    /// A run has ended: its report goes where it is waited for.
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
        // Something was said to it while it ended: it is not lost.
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
            self.go_on_with_mail(&facts);
        }
    }

    /// Waits until something may have changed for an agent whose own agents
    /// work in the background.
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
            // The main agent goes on meanwhile; an agent that was started has nothing else to do.
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

    /// Knows an agent of an earlier process again: it can be gone on with.
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

    /// Takes an agent into the tree and lets it begin.
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
        // A nursery that is gone closes the session, and every agent with it.
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
        // An agent that waits for another does not work.
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

    /// An agent that waited works again, when there is room for it.
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

/// Kinds that both allow.
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
