//! What keeps a link alive: connects, connects again, and says everything again
//! that was not answered yet.

use std::{collections::BTreeMap, sync::mpsc as std_mpsc, time::Duration};

use haft_types::AgentId;
use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    LinkConfig, LinkError,
    connect::{Connected, connect},
    link::{HostNotices, LinkCommand, RemoteCallEvent},
};
use crate::protocol::{
    AdmissionErrorKind, AnswerFrame, CallFrame, CallKey, ClientFrame, Hello, HostCommand, HostFrame,
    HostNotice, PROTOCOL, QuestionFrame, Welcome,
};

/// Silence that means that the other end is gone, in pings.
const SILENT_PINGS: u32 = 3;

/// How long the end of a session may take over there.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

/// Losses that are over sooner are not worth a word.
const WORTH_A_WORD: Duration = Duration::from_secs(3);

/// Keeps one link alive.
pub(super) struct LinkTask {
    setup: LinkConfig,
    instance: String,
    orders: mpsc::UnboundedReceiver<LinkCommand>,
    news: HostNotices,
    epoch: u64,
    calls: BTreeMap<CallKey, PendingCall>,
    /// Questions of calls, and what was answered.
    questions: BTreeMap<u64, (CallKey, Option<AnswerFrame>)>,
    waiting: BTreeMap<u64, (HostCommand, CommandReply)>,
    last_order: u64,
    /// Since when there is no connection, and whether the person knows.
    lost: Option<ConnectionLoss>,
}

struct ConnectionLoss {
    since: Instant,
    patience: Duration,
    is_told: bool,
}

/// Who wants to know what came of an order.
enum CommandReply {
    Caller(oneshot::Sender<Result<Value, String>>),
    /// What an agent is told.
    News(AgentId),
}

/// A call that has no report yet.
struct PendingCall {
    /// Nothing for one that is only looked for.
    frame: Option<Box<CallFrame>>,
    news: mpsc::UnboundedSender<RemoteCallEvent>,
    is_cancelled: bool,
    was_sent: bool,
}

/// Why a connection is over.
enum ConnectionEnd {
    Broken(LinkError),
    Closed,
}

impl LinkTask {
    pub(super) fn new(
        setup: LinkConfig,
        orders: mpsc::UnboundedReceiver<LinkCommand>,
        news: HostNotices,
    ) -> Self {
        Self {
            setup,
            instance: uuid::Uuid::new_v4().to_string(),
            orders,
            news,
            epoch: 0,
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            waiting: BTreeMap::new(),
            last_order: 0,
            lost: None,
        }
    }

    pub(super) async fn run(mut self, first: std_mpsc::Sender<Result<Welcome, LinkError>>) {
        let mut connection = match self.open().await {
            Ok((connection, welcome)) => {
                first.send(Ok(welcome)).ok();
                Some(connection)
            }
            Err(trouble) => {
                first.send(Err(trouble)).ok();
                None
            }
        };
        let mut wait = self.setup.times.first_wait;
        loop {
            if let Some(open) = connection.take() {
                wait = self.setup.times.first_wait;
                match self.converse(open).await {
                    ConnectionEnd::Closed => return,
                    ConnectionEnd::Broken(trouble) => {
                        tracing::debug!(host = %self.setup.config.name, %trouble, "the connection is lost");
                        self.lose(self.setup.times.patience);
                    }
                }
            }
            if self.lost.is_none() {
                // Given up until somebody wants something.
                let Some(order) = self.orders.recv().await else { return };
                if let CommandOutcome::Close(closed) = self.take(order) {
                    closed.send(()).ok();
                    return;
                }
                self.lose(self.setup.times.connect.min(self.setup.times.patience));
                wait = self.setup.times.first_wait;
            }
            match self.open().await {
                Ok((open, _)) => {
                    self.recovered();
                    connection = Some(open);
                }
                Err(trouble) => {
                    if self.is_hopeless(&trouble) {
                        self.give_up(&trouble);
                    } else if self.pause(wait).await.is_none() {
                        return;
                    }
                    wait = (wait * 2).min(self.setup.times.longest_wait);
                }
            }
        }
    }

    fn lose(&mut self, patience: Duration) {
        self.lost = Some(ConnectionLoss { since: Instant::now(), patience, is_told: false });
    }

    fn recovered(&mut self) {
        if self.lost.take().is_some_and(|it| it.is_told) {
            (self.setup.notice)(format!("host {}: connected again", self.setup.config.name));
        }
    }

    /// Whether there is no use in trying once more. Tells the person when a loss
    /// lasts.
    fn is_hopeless(&mut self, trouble: &LinkError) -> bool {
        let Some(loss) = &mut self.lost else { return true };
        let lasted = loss.since.elapsed();
        let is_hopeless = trouble.is_lasting || loss.patience <= lasted;
        if !is_hopeless && !loss.is_told && WORTH_A_WORD <= lasted {
            loss.is_told = true;
            let (name, patience) = (&self.setup.config.name, loss.patience.as_secs());
            (self.setup.notice)(format!(
                "host {name}: the connection is lost ({trouble}); trying again for {patience} s"
            ));
        }
        is_hopeless
    }

    fn give_up(&mut self, trouble: &LinkError) {
        self.lost = None;
        for (_, call) in std::mem::take(&mut self.calls) {
            call.news.send(RemoteCallEvent::Lost { trouble: trouble.clone(), was_sent: call.was_sent }).ok();
        }
        for (_, (_, answer)) in std::mem::take(&mut self.waiting) {
            if let CommandReply::Caller(outcome) = answer {
                outcome.send(Err(format!("the host cannot be reached: {trouble}"))).ok();
            }
        }
        self.questions.clear();
    }

    /// Waits a little, and hears what is wanted meanwhile. Nothing when all is
    /// over.
    async fn pause(&mut self, wait: Duration) -> Option<()> {
        let until = Instant::now() + wait.mul_f64(0.5 + fastrand::f64() / 2.0);
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(until) => return Some(()),
                order = self.orders.recv() => {
                    if let CommandOutcome::Close(closed) = self.take(order?) {
                        closed.send(()).ok();
                        return None;
                    }
                }
            }
        }
    }

    /// Connects, and says who we are.
    async fn open(&mut self) -> Result<(OpenConnection, Welcome), LinkError> {
        let opening = async {
            let mut connected = connect(&self.setup.config).await?;
            let hello = Hello {
                protocol: PROTOCOL,
                version: self.setup.version.clone(),
                session: self.setup.session.clone(),
                instance: self.instance.clone(),
                epoch: self.setup.epoch,
                dir: self.setup.config.address.dir(),
                attended: self.setup.attended,
                ping_ms: u64::try_from(self.setup.times.ping.as_millis()).unwrap_or(u64::MAX),
            };
            let line = line_of(&ClientFrame::Hello(hello));
            connected.pipe.outgoing.send(line).await.ok();
            loop {
                let Some(line) = connected.pipe.incoming.recv().await else {
                    return Err(connected.ended_because(false).await);
                };
                match serde_json::from_str(&line) {
                    Ok(HostFrame::Welcome(welcome)) if welcome.protocol == PROTOCOL => {
                        return Ok((connected, *welcome));
                    }
                    Ok(HostFrame::Welcome(welcome)) => return Err(other_language(&self.setup, &welcome)),
                    Ok(HostFrame::Refused { kind, reason }) => {
                        let is_lasting = kind != AdmissionErrorKind::Busy;
                        return Err(LinkError { reason, is_lasting });
                    }
                    // Shells that greet, and what may come later.
                    _ => (),
                }
            }
        };
        let late = |_| Err(LinkError::passing("it does not answer"));
        let opened = tokio::time::timeout(self.setup.times.connect, opening).await;
        let (connected, welcome) = opened.unwrap_or_else(late)?;
        self.epoch = welcome.epoch;
        let silence = Duration::from_millis(welcome.ping_ms.max(50)) * SILENT_PINGS;
        Ok((OpenConnection { connected, silence }, welcome))
    }

    /// Says and hears until the connection is over.
    async fn converse(&mut self, mut open: OpenConnection) -> ConnectionEnd {
        for line in self.everything_again() {
            if let Err(trouble) = open.say(line).await {
                return ConnectionEnd::Broken(trouble);
            }
        }
        let mut ping = tokio::time::interval(self.setup.times.ping);
        let mut heard = Instant::now();
        loop {
            let said = tokio::select! {
                line = open.connected.pipe.incoming.recv() => {
                    let Some(line) = line else {
                        return ConnectionEnd::Broken(open.connected.ended_because(true).await);
                    };
                    heard = Instant::now();
                    self.hear(&line)
                }
                order = self.orders.recv() => match order {
                    // Nobody is left who could want something; what runs is waited for over there.
                    None if !self.calls.is_empty() => return ConnectionEnd::Closed,
                    None => {
                        open.bye().await;
                        return ConnectionEnd::Closed;
                    }
                    Some(order) => match self.take(order) {
                        CommandOutcome::Close(closed) => {
                            open.bye().await;
                            closed.send(()).ok();
                            return ConnectionEnd::Closed;
                        }
                        taken => self.lines(&taken),
                    },
                },
                _ = ping.tick() => {
                    if open.silence < heard.elapsed() {
                        let reason = format!("nothing was heard for {} s", heard.elapsed().as_secs());
                        return ConnectionEnd::Broken(LinkError::passing(reason));
                    }
                    vec![line_of(&ClientFrame::Ping)]
                }
            };
            for line in said {
                if let Err(trouble) = open.say(line).await {
                    return ConnectionEnd::Broken(trouble);
                }
            }
        }
    }
}

/// A connection both ends agreed on.
struct OpenConnection {
    connected: Connected,
    silence: Duration,
}

impl OpenConnection {
    async fn say(&mut self, line: String) -> Result<(), LinkError> {
        match tokio::time::timeout(self.silence, self.connected.pipe.outgoing.send(line)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.connected.ended_because(true).await),
            Err(_) => Err(LinkError::passing("it takes nothing any more")),
        }
    }

    /// Says that the session is over, and waits until it is.
    async fn bye(mut self) {
        if self.say(line_of(&ClientFrame::Bye)).await.is_ok() {
            let ended = async { while self.connected.pipe.incoming.recv().await.is_some() {} };
            tokio::time::timeout(CLOSE_LIMIT, ended).await.ok();
        }
    }
}

fn line_of(frame: &ClientFrame) -> String {
    // What is made of numbers, texts and lists can always be written.
    serde_json::to_string(frame).unwrap_or_default()
}

fn other_language(setup: &LinkConfig, welcome: &Welcome) -> LinkError {
    LinkError::lasting(format!(
        "it runs haft {} (protocol {}), this is haft {} (protocol {PROTOCOL}): update the older one",
        welcome.version, welcome.protocol, setup.version
    ))
}

/// What an order left to be said.
enum CommandOutcome {
    Call(CallKey),
    Cancel(CallKey),
    Answer(u64),
    Order(u64),
    Close(oneshot::Sender<()>),
}

/// What is said and heard.
impl LinkTask {
    /// Takes an order; what it leaves to be said is said as soon as there is a
    /// connection.
    fn take(&mut self, order: LinkCommand) -> CommandOutcome {
        match order {
            LinkCommand::Call { frame, news } => self.add(frame.meta.key.clone(), Some(frame), news),
            LinkCommand::Find { key, news } => self.add(key, None, news),
            LinkCommand::Cancel(key) => {
                if let Some(call) = self.calls.get_mut(&key) {
                    call.is_cancelled = true;
                }
                CommandOutcome::Cancel(key)
            }
            LinkCommand::Answer { question, answer } => {
                if let Some((_, slot)) = self.questions.get_mut(&question) {
                    *slot = Some(answer);
                }
                CommandOutcome::Answer(question)
            }
            LinkCommand::Order { order, outcome } => {
                self.last_order += 1;
                self.waiting.insert(self.last_order, (order, CommandReply::Caller(outcome)));
                CommandOutcome::Order(self.last_order)
            }
            LinkCommand::Close(closed) => CommandOutcome::Close(closed),
        }
    }

    fn add(
        &mut self,
        key: CallKey,
        frame: Option<Box<CallFrame>>,
        news: mpsc::UnboundedSender<RemoteCallEvent>,
    ) -> CommandOutcome {
        let call = PendingCall { frame, news, is_cancelled: false, was_sent: false };
        self.calls.insert(key.clone(), call);
        CommandOutcome::Call(key)
    }

    /// The lines for what an order left, now that they can be said.
    fn lines(&mut self, taken: &CommandOutcome) -> Vec<String> {
        let frames = match taken {
            CommandOutcome::Call(key) => self.call_frames(key),
            CommandOutcome::Cancel(key) => {
                let is_known = self.calls.contains_key(key);
                is_known.then(|| ClientFrame::Cancel { key: key.clone() }).into_iter().collect()
            }
            CommandOutcome::Answer(question) => self.answer_frame(*question).into_iter().collect(),
            CommandOutcome::Order(id) => self.order_frame(*id).into_iter().collect(),
            CommandOutcome::Close(_) => Vec::new(),
        };
        frames.iter().map(line_of).collect()
    }

    fn call_frames(&mut self, key: &CallKey) -> Vec<ClientFrame> {
        let Some(call) = self.calls.get_mut(key) else { return Vec::new() };
        call.was_sent = true;
        let first = match &call.frame {
            Some(frame) => {
                let mut frame = frame.clone();
                frame.meta.epoch = self.epoch;
                ClientFrame::Call(frame)
            }
            None => ClientFrame::Find { key: key.clone() },
        };
        let cancel = call.is_cancelled.then(|| ClientFrame::Cancel { key: key.clone() });
        std::iter::once(first).chain(cancel).collect()
    }

    fn answer_frame(&self, question: u64) -> Option<ClientFrame> {
        let (_, answer) = self.questions.get(&question)?;
        Some(ClientFrame::Answer { question, answer: answer.clone()? })
    }

    fn order_frame(&self, id: u64) -> Option<ClientFrame> {
        let (order, _) = self.waiting.get(&id)?;
        Some(ClientFrame::Order { id, order: order.clone() })
    }

    /// Everything that has no answer yet.
    fn everything_again(&mut self) -> Vec<String> {
        let calls: Vec<CallKey> = self.calls.keys().cloned().collect();
        let mut frames: Vec<ClientFrame> = calls.iter().flat_map(|key| self.call_frames(key)).collect();
        frames.extend(self.questions.keys().filter_map(|it| self.answer_frame(*it)));
        frames.extend(self.waiting.keys().filter_map(|it| self.order_frame(*it)));
        frames.iter().map(line_of).collect()
    }

    /// Hears a line. What has to be said to it is handed back.
    fn hear(&mut self, line: &str) -> Vec<String> {
        let frame = match serde_json::from_str(line) {
            Ok(frame) => frame,
            Err(err) => {
                tracing::debug!(host = %self.setup.config.name, %err, "a line was not understood");
                return Vec::new();
            }
        };
        match frame {
            HostFrame::Progress { key, data } => self.tell(&key, RemoteCallEvent::Progress(data)),
            HostFrame::Ask(frame) => return self.asked(frame),
            HostFrame::Withdrawn { question } => {
                if let Some((key, _)) = self.questions.remove(&question) {
                    self.tell(&key, RemoteCallEvent::Withdrawn(question));
                }
            }
            HostFrame::Report { key, report } => {
                self.finish(&key, RemoteCallEvent::Report(report));
                return vec![line_of(&ClientFrame::Heard { key })];
            }
            HostFrame::Absent { key } => self.finish(&key, RemoteCallEvent::Absent),
            HostFrame::Done { id, outcome } => match self.waiting.remove(&id) {
                Some((_, CommandReply::Caller(waits))) => drop(waits.send(outcome)),
                Some((_, CommandReply::News(agent))) => self.keep_news(agent, outcome),
                None => (),
            },
            HostFrame::NewsWaits { agents } => {
                let ids: Vec<u64> = agents.into_iter().filter_map(|it| self.fetch_news(it)).collect();
                return ids
                    .into_iter()
                    .filter_map(|it| self.order_frame(it))
                    .map(|it| line_of(&it))
                    .collect();
            }
            HostFrame::Notice { text } => {
                (self.setup.notice)(format!("host {}: {text}", self.setup.config.name))
            }
            HostFrame::Ping | HostFrame::Welcome(_) | HostFrame::Refused { .. } => (),
        }
        Vec::new()
    }

    /// A question. One that comes again is asked once, and answered again.
    fn asked(&mut self, frame: Box<QuestionFrame>) -> Vec<String> {
        let (question, key) = (frame.question, frame.key.clone());
        if self.questions.contains_key(&question) {
            return self.answer_frame(question).iter().map(line_of).collect();
        }
        if self.calls.contains_key(&key) {
            self.questions.insert(question, (key.clone(), None));
            self.tell(&key, RemoteCallEvent::Ask(frame));
            Vec::new()
        } else {
            let message = String::from("nobody waits for this call any more");
            let answer = AnswerFrame::Deny { message, interrupt: false };
            vec![line_of(&ClientFrame::Answer { question, answer })]
        }
    }

    /// Orders what an agent has to be told, unless that is on its way.
    fn fetch_news(&mut self, agent: AgentId) -> Option<u64> {
        let is_it =
            |it: &(HostCommand, CommandReply)| matches!(&it.1, CommandReply::News(of) if *of == agent);
        if self.waiting.values().any(is_it) {
            return None;
        }
        self.last_order += 1;
        let order = HostCommand::TakeNews { agent: agent.clone() };
        self.waiting.insert(self.last_order, (order, CommandReply::News(agent)));
        Some(self.last_order)
    }

    fn keep_news(&self, agent: AgentId, outcome: Result<Value, String>) {
        let news = outcome.ok().and_then(|it| serde_json::from_value::<Vec<HostNotice>>(it).ok());
        if let Some(news) = news.filter(|it| !it.is_empty()) {
            self.news.send_modify(|it| it.entry(agent).or_default().extend(news));
        }
    }

    fn tell(&self, key: &CallKey, news: RemoteCallEvent) {
        if let Some(call) = self.calls.get(key) {
            call.news.send(news).ok();
        }
    }

    fn finish(&mut self, key: &CallKey, news: RemoteCallEvent) {
        if let Some(call) = self.calls.remove(key) {
            call.news.send(news).ok();
        }
        self.questions.retain(|_, (of, _)| of != key);
    }
}
