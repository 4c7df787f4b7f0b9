//! Messages between agents, and resuming an agent that receives one.

use std::{path::Path, sync::Arc, time::Duration};

use haft_builtin_tools::{
    agent::{AgentStatus, SubagentRequest, SubagentSpawner as _},
    send_message::{AgentMailer, DeliveryReceipt, LetterText, ListedAgent},
};
use haft_tool::{BoxFuture, CallContext};
use haft_types::AgentId;

use super::{
    ChildIdentity, SubagentRegistry,
    agent_tree::{AgentNode, ReportWaiter, StoppedBy},
    mail_item::{AgentMessage, MailBody, MailItem},
    spawner::{SpawnJob, SpawnOrigin},
};

/// Time a terminated agent gets to finish its last message.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Prompt for an agent that has to end.
const SHUT_DOWN: &str =
    "You are asked to end. Write your last report now: what is done, and what is left. Call no tools.";

impl SubagentRegistry {
    fn name_of(&self, id: &AgentId) -> String {
        let tree = self.tree();
        let node = tree.nodes.get(id);
        node.and_then(|it| it.facts.name.clone()).unwrap_or_else(|| id.to_string())
    }

    async fn deliver(&self, to: &str, body: String, cx: &CallContext) -> DeliveryReceipt {
        let found = match to {
            "main" | "team-lead" => Some(AgentId::Main),
            to => self.tree().find_for(&cx.agent_id, to),
        };
        let Some(id) = found else {
            let (_, agents) = self.list(cx);
            let known: Vec<String> = agents.into_iter().map(|it| it.name).collect();
            let known = if known.is_empty() { String::from("none") } else { known.join(", ") };
            return DeliveryReceipt::refused(format!("there is no agent {to}; there are: {known}"));
        };
        if self.tree().is_of_ended_team(&id) {
            return DeliveryReceipt::refused(format!("the team of {to} has ended: start another agent"));
        }
        if id == cx.agent_id {
            return DeliveryReceipt::refused("that is you: messages go to others");
        }
        let letter = AgentMessage {
            id: uuid::Uuid::new_v4().to_string(),
            from: cx.agent_id.to_string(),
            name: self.name_of(&cx.agent_id),
            to: id.to_string(),
            body,
        };
        if let Some(logs) = self.logs() {
            // Stored before anyone is told that the message was sent.
            let kept = letter.clone();
            let written = tokio::task::spawn_blocking(move || logs.append_message(&kept)).await;
            if !matches!(written, Ok(Ok(()))) {
                return DeliveryReceipt::refused("the message could not be written down, so it was not sent");
            }
        }
        match id {
            AgentId::Main => {
                let waiter = ReportWaiter::Mail;
                self.tree().mail.push(MailItem { waiter, what: MailBody::Letter(letter) });
                self.tell_news();
                DeliveryReceipt { success: true, message: String::from("main reads it next"), resumed: None }
            }
            id => self.deliver_to_child(&id, &letter, cx),
        }
    }

    fn deliver_to_child(&self, id: &AgentId, letter: &AgentMessage, cx: &CallContext) -> DeliveryReceipt {
        let tree = self.tree();
        let Some(node) = tree.nodes.get(id) else {
            return DeliveryReceipt::refused(format!("there is no agent {id}"));
        };
        if node.is_live() {
            node.inbox.push(letter.input());
            drop(tree);
            self.tell_news();
            let message = format!("{} reads it before its next request", self.name_of(id));
            return DeliveryReceipt { success: true, message, resumed: None };
        }
        if node.stopped_by == Some(StoppedBy::Person) {
            return DeliveryReceipt::refused(format!("the user stopped {id}: it does not go on"));
        }
        let facts = Arc::clone(&node.facts);
        drop(tree);
        self.revive(&facts, letter, cx)
    }

    /// Resumes an agent that has ended, in the background.
    fn revive(&self, facts: &ChildIdentity, letter: &AgentMessage, cx: &CallContext) -> DeliveryReceipt {
        let Some(kind) = self.shelf().find(&facts.kind).cloned() else {
            return DeliveryReceipt::refused(format!("there is no kind {} any more", facts.kind));
        };
        if facts.log.as_ref().is_none_or(|log| !log.is_file()) {
            return DeliveryReceipt::refused(format!("{} cannot go on: it has no log", facts.id));
        }
        if let Err(refusal) = self.tree().admit(&cx.agent_id, &kind.name, self.limits) {
            return DeliveryReceipt::refused(refusal.0);
        }
        let facts = Arc::new(ChildIdentity {
            run_id: uuid::Uuid::new_v4().to_string(),
            call: cx.call_id.clone(),
            parent: cx.agent_id.clone(),
            in_background: true,
            ..facts.clone()
        });
        let order = SubagentRequest { prompt: letter.body.clone(), ..SubagentRequest::default() };
        let mut birth = SpawnJob::new(Arc::clone(&facts), Arc::clone(&kind), order, Arc::clone(&cx.cwd));
        birth.from = SpawnOrigin::ItsLog(Box::new(letter.input()));
        // Messages that arrived while it was ended are delivered too.
        if let Some(node) = self.tree().nodes.get(&facts.id) {
            birth.inbox = node.inbox.clone();
        }
        self.begin(&facts, &kind, birth);
        let message = format!("{} goes on with it in the background; its report comes by itself", facts.id);
        DeliveryReceipt { success: true, message, resumed: Some(facts.id.to_string()) }
    }

    /// Resumes an agent that received a message while it was ending. Messages it cannot be resumed with
    /// are kept.
    pub(super) fn resume_for_mail(&self, facts: &ChildIdentity) {
        let Some(kind) = self.shelf().find(&facts.kind).cloned() else { return };
        if facts.log.as_ref().is_none_or(|log| !log.is_file()) {
            return;
        }
        let inbox = {
            let mut tree = self.tree();
            if tree.admit(&facts.parent, &kind.name, self.limits).is_err() {
                return;
            }
            match tree.nodes.get(&facts.id) {
                Some(node) => node.inbox.clone(),
                None => return,
            }
        };
        let mut said = inbox.take().into_iter();
        let Some(first) = said.next() else { return };
        said.for_each(|input| inbox.push(input));
        let run_id = uuid::Uuid::new_v4().to_string();
        let facts = Arc::new(ChildIdentity { run_id, in_background: true, ..facts.clone() });
        let cwd = Arc::from(facts.log.as_deref().and_then(Path::parent).unwrap_or_else(|| Path::new("/")));
        let mut birth = SpawnJob::new(Arc::clone(&facts), Arc::clone(&kind), SubagentRequest::default(), cwd);
        birth.from = SpawnOrigin::ItsLog(Box::new(first));
        birth.inbox = inbox;
        self.begin(&facts, &kind, birth);
    }

    /// Gives an agent time for a last message, then ends it.
    async fn shut_down(&self, to: &str, reason: Option<String>, cx: &CallContext) -> DeliveryReceipt {
        let Some(id) = self.tree().find_for(&cx.agent_id, to) else {
            return DeliveryReceipt::refused(format!("there is no agent {to}"));
        };
        let mut signal = {
            let tree = self.tree();
            match tree.nodes.get(&id).filter(|it| it.is_live()) {
                None => {
                    return DeliveryReceipt {
                        success: true,
                        message: format!("{to} has ended already"),
                        resumed: None,
                    };
                }
                Some(node) => node.signal.subscribe(),
            }
        };
        let why = reason.map(|it| format!(" The reason: {it}")).unwrap_or_default();
        let receipt = self.deliver(to, format!("{SHUT_DOWN}{why}"), cx).await;
        if !receipt.success {
            return receipt;
        }
        if tokio::time::timeout(LAST_WORDS, ended(&mut signal)).await.is_err() {
            self.tree().stop(&id, StoppedBy::Parent);
            // The caller may rely on the agent having ended.
            tokio::time::timeout(LAST_WORDS, ended(&mut signal)).await.ok();
        }
        DeliveryReceipt {
            success: true,
            message: format!("{to} ends; its last report comes by itself"),
            resumed: None,
        }
    }
}

/// Waits until an agent has ended.
async fn ended(signal: &mut tokio::sync::watch::Receiver<super::agent_tree::ChildSignal>) {
    while !matches!(&*signal.borrow_and_update(), super::agent_tree::ChildSignal::Ended(_)) {
        if signal.changed().await.is_err() {
            return;
        }
    }
}

impl AgentMailer for SubagentRegistry {
    fn is_open(&self) -> bool {
        self.is_available()
    }

    fn send<'a>(
        &'a self,
        to: &'a str,
        letter: LetterText,
        cx: &'a CallContext,
    ) -> BoxFuture<'a, DeliveryReceipt> {
        Box::pin(async move {
            match letter {
                LetterText::Text(body) => self.deliver(to, body, cx).await,
                LetterText::Request(request) => self.shut_down(to, request.reason, cx).await,
                // The receiving agent acts on it: an approval changes no permission and no mode.
                LetterText::Answer(answer) => self.deliver(to, answer.words(), cx).await,
            }
        })
    }

    fn list(&self, cx: &CallContext) -> (String, Vec<ListedAgent>) {
        let tree = self.tree();
        let status = |node: &AgentNode| match (&node.report, node.stopped_by) {
            (None, _) => "running",
            (Some(_), Some(StoppedBy::Person)) => "stopped",
            (Some(report), _) if report.log.as_deref().is_none_or(|log: &Path| !log.is_file()) => "stopped",
            (Some(report), _) if report.status == AgentStatus::Failed && report.turns == 0 => "stopped",
            (Some(_), _) => "resumable",
        };
        let team = tree.team_of(&cx.agent_id);
        let is_near = |it: &AgentNode| it.facts.team.is_none() || it.facts.team == team;
        let others = tree.nodes.values().filter(|it| it.facts.id != cx.agent_id && is_near(it));
        let agents = others.map(|node| ListedAgent {
            name: node.facts.name.clone().unwrap_or_else(|| node.facts.id.to_string()),
            id: node.facts.id.to_string(),
            kind: node.facts.kind.clone(),
            description: node.facts.description.clone(),
            status: status(node).to_owned(),
        });
        let agents = agents.collect();
        drop(tree);
        (self.name_of(&cx.agent_id), agents)
    }
}
