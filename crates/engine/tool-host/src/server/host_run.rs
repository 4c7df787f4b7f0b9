//! One session of a client: its calls, each at most once.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_tool::{CallContext, ErrorKind, ProgressSink};
use haft_tool_runtime::{CallLog, CallStart, ParsedCall, Persisted};
use haft_types::ToolUse;
use serde_json::Value;
use tokio::sync::{OnceCell, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{
    HostSession,
    call_journal::{NotStarted, RunJournal, digest},
    questions::PendingQuestions,
};
use crate::protocol::{CallFrame, CallKey, HostCommand, HostFrame, ReportFrame};

/// A run: the session of a client, kept while the client may reconnect.
pub(crate) struct HostRun {
    pub(crate) name: String,
    pub(crate) journal: RunJournal,
    pub(crate) lent: OnceCell<HostSession>,
    pub(crate) questions: PendingQuestions,
    calls: Mutex<HashMap<CallKey, LiveCall>>,
    orders: Mutex<ExecutedCommands>,
    caller: Mutex<Option<ClientConnection>>,
    attended: AtomicBool,
    /// Counts connections, so that a closed one can tell whether a newer one exists.
    pub(crate) visits: watch::Sender<u64>,
    pub(crate) closed: CancellationToken,
}

/// A call that is running, or whose report was not acknowledged yet.
struct LiveCall {
    digest: String,
    cancel: CancellationToken,
    report: Option<Arc<ReportFrame>>,
}

/// The connection to the client.
struct ClientConnection {
    lines: mpsc::Sender<String>,
    visit: u64,
    /// Closes the connection.
    end: CancellationToken,
}

/// Results of commands of a client process, to run each only once.
#[derive(Default)]
struct ExecutedCommands {
    instance: String,
    seen: BTreeMap<u64, Option<Result<Value, String>>>,
}

/// Maximum stored command results.
const KEPT_ORDERS: usize = 64;

/// Records the start of a call in the journal before it may have side effects.
struct JournalCallLog<'a> {
    run: &'a HostRun,
    key: &'a CallKey,
    epoch: u64,
    digest: &'a str,
}

impl CallLog for JournalCallLog<'_> {
    fn starting(&self, call: &CallStart<'_>) -> Result<Option<Persisted>, String> {
        let started = self.run.journal.start(self.key, self.epoch, call.tool, self.digest);
        started.map(|()| None).map_err(|why| match why {
            NotStarted::Fenced(epoch) => fenced(call.tool, self.epoch, epoch),
            NotStarted::Again => format!("{} did not run again: the call has run before", call.tool),
            NotStarted::Disk(err) => format!(
                "{} did not run: the tool host cannot write down that it starts ({err}), and a call that may change \
                 something runs only then. Calls that only read still run. Tell the user that the host's disk needs \
                 room",
                call.tool
            ),
        })
    }
}

fn fenced(tool: &str, ours: u64, current: u64) -> String {
    format!(
        "{tool} did not run: another process has taken this session over (turn {current}, this one has {ours}). \
         Nothing this process does counts any more"
    )
}

impl HostRun {
    pub(crate) fn new(name: String, journal: RunJournal) -> Self {
        Self {
            name,
            journal,
            lent: OnceCell::new(),
            questions: PendingQuestions::default(),
            calls: Mutex::default(),
            orders: Mutex::default(),
            caller: Mutex::default(),
            attended: AtomicBool::new(false),
            visits: watch::Sender::new(0),
            closed: CancellationToken::new(),
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<CallKey, LiveCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn caller(&self) -> MutexGuard<'_, Option<ClientConnection>> {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the client's user can answer questions.
    pub(crate) fn is_attended(&self) -> bool {
        self.attended.load(Ordering::Acquire)
    }

    /// Registers a connection; closes an earlier one. Returns its number and close signal.
    pub(crate) fn enter(&self, lines: mpsc::Sender<String>, attended: bool) -> (u64, CancellationToken) {
        self.attended.store(attended, Ordering::Release);
        let end = CancellationToken::new();
        let mut caller = self.caller();
        let mut visit = 0;
        self.visits.send_modify(|it| {
            *it += 1;
            visit = *it;
        });
        let before = caller.replace(ClientConnection { lines, visit, end: end.clone() });
        drop(caller);
        if let Some(before) = before {
            before.end.cancel();
        }
        (visit, end)
    }

    /// Unregisters a connection and starts the linger timeout.
    pub(crate) fn leave(&self, visit: u64) {
        let mut caller = self.caller();
        if caller.as_ref().is_some_and(|it| it.visit == visit) {
            *caller = None;
        }
        drop(caller);
        self.visits.send_modify(|_| ());
    }

    /// Whether no client has connected since this connection ended.
    pub(crate) fn is_left_since(&self, visit: u64) -> bool {
        self.caller().is_none() && *self.visits.borrow() == visit
    }

    /// Sends a frame if the client is connected. After a reconnect the client requests again what it
    /// missed.
    pub(crate) fn say(&self, frame: &HostFrame) {
        let Ok(line) = serde_json::to_string(frame) else { return };
        let caller = self.caller();
        let Some(door) = caller.as_ref() else { return };
        let is_courtesy = matches!(frame, HostFrame::Progress { .. } | HostFrame::Ping);
        let has_room = !is_courtesy || door.lines.max_capacity() / 2 < door.lines.capacity();
        // A client that reads too slowly is disconnected and requests again after reconnecting.
        if has_room && door.lines.try_send(line).is_err() {
            door.end.cancel();
        }
    }

    /// Runs a call, or sends its report if it already ran.
    pub(crate) fn call(self: &Arc<Self>, frame: CallFrame) {
        let CallFrame { meta, tool, .. } = &frame;
        let (key, epoch) = (meta.key.clone(), meta.epoch);
        let current = self.journal.epoch();
        if epoch != current {
            return self.refuse(key, tool, ErrorKind::NotStarted, fenced(tool, epoch, current));
        }
        let digest = digest(&frame);
        let mut calls = self.calls();
        let known = match calls.get(&key) {
            Some(live) => Some((live.digest.clone(), live.report.clone())),
            None => self.journal.call(&key).map(|it| {
                let report = self.journal.report(&it).unwrap_or_else(|| Arc::new(unknown_outcome(tool)));
                (it.digest, Some(report))
            }),
        };
        match known {
            None => {
                let cancel = self.closed.child_token();
                let live = LiveCall { digest: digest.clone(), cancel: cancel.clone(), report: None };
                calls.insert(key, live);
                drop(calls);
                tokio::spawn(Arc::clone(self).run(frame, digest, cancel));
            }
            Some((other, _)) if other != digest => {
                drop(calls);
                let message = format!("{tool} did not run: the id {} belongs to another call", &*key.call);
                self.refuse(key, tool, ErrorKind::NotStarted, message);
            }
            // Still running: its report is sent when it is done.
            Some((_, None)) => (),
            Some((_, Some(report))) => {
                drop(calls);
                self.tell_report(&key, &report);
            }
        }
    }

    /// Sends the report of a call without running it.
    pub(crate) fn find(&self, key: CallKey) {
        let live = self.calls().get(&key).map(|it| it.report.clone());
        let known = live.or_else(|| {
            let call = self.journal.call(&key)?;
            let report = self.journal.report(&call);
            Some(Some(report.unwrap_or_else(|| Arc::new(unknown_outcome("the call")))))
        });
        match known {
            None => self.say(&HostFrame::Absent { key }),
            Some(None) => (),
            Some(Some(report)) => self.tell_report(&key, &report),
        }
    }

    fn refuse(&self, key: CallKey, tool: &str, kind: ErrorKind, message: String) {
        let report = Arc::new(ReportFrame::failure(tool, kind, message));
        self.say(&HostFrame::Report { key, report });
    }

    fn tell_report(&self, key: &CallKey, report: &Arc<ReportFrame>) {
        self.say(&HostFrame::Report { key: key.clone(), report: Arc::clone(report) });
    }

    async fn run(self: Arc<Self>, frame: CallFrame, digest: String, cancel: CancellationToken) {
        let CallFrame { meta, tool, input, cwd } = frame;
        let key = meta.key;
        let report = match self.lent.get() {
            None => ReportFrame::failure(&tool, ErrorKind::NotStarted, "the session is over"),
            Some(lent) => {
                let (progress, mut events) = ProgressSink::channel();
                let cx = CallContext {
                    call_id: key.call.clone(),
                    agent_id: key.agent.clone(),
                    cwd: cwd.map_or_else(|| Arc::clone(&lent.state.cwd), Arc::<Path>::from),
                    home: lent.state.home.clone(),
                    cancel,
                    progress,
                };
                let mut tool_use = ToolUse { id: key.call.clone(), name: tool.clone(), input };
                let secrets = lent.pipeline.secrets.as_ref();
                match secrets.map_or(Ok(()), |it| it.unmask_input(&mut tool_use.input)) {
                    Err(why) => ReportFrame::failure(&tool, ErrorKind::InvalidInput, why),
                    Ok(()) => {
                        let parsed = ParsedCall::parse(&lent.pool.get(), tool_use, &cx);
                        let witness =
                            JournalCallLog { run: &self, key: &key, epoch: meta.epoch, digest: &digest };
                        let running = lent.pipeline.run_witnessed(parsed, cx, Some(&witness));
                        let telling = async {
                            while let Some(event) = events.recv().await {
                                self.say(&HostFrame::Progress { key: key.clone(), data: event.data });
                            }
                            std::future::pending::<()>().await;
                        };
                        let report = tokio::select! {
                            report = running => report,
                            () = telling => return,
                        };
                        report.changes.iter().for_each(|it| lent.pipeline.gate.take_over(it));
                        ReportFrame::from(report)
                    }
                }
            }
        };
        self.ended(&key, report);
    }

    fn ended(&self, key: &CallKey, report: ReportFrame) {
        let report = Arc::new(report);
        if let Err(err) = self.journal.end(key, &report) {
            // The client gets the report now; after a restart it would be unknown.
            tracing::warn!(call = %key.call, %err, "the result of a call could not be written down");
        }
        if let Some(live) = self.calls().get_mut(key) {
            live.report = Some(Arc::clone(&report));
        }
        self.tell_report(key, &report);
    }

    /// Drops the acknowledged report of a call. Calls with side effects stay in the journal.
    pub(crate) fn heard(&self, key: &CallKey) {
        let mut calls = self.calls();
        if calls.get(key).is_some_and(|it| it.report.is_some()) {
            calls.remove(key);
        }
    }

    /// Cancels a call.
    pub(crate) fn cancel(&self, key: &CallKey) {
        if let Some(live) = self.calls().get(key) {
            live.cancel.cancel();
        }
    }

    /// Runs a command once; a repeated id gets the stored result.
    pub(crate) fn order(self: &Arc<Self>, instance: &str, id: u64, order: HostCommand) {
        let known = {
            let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
            if orders.instance != instance {
                *orders = ExecutedCommands { instance: instance.to_owned(), seen: BTreeMap::new() };
            }
            let known = orders.seen.get(&id).cloned();
            if known.is_none() {
                orders.seen.insert(id, None);
                while KEPT_ORDERS < orders.seen.len() {
                    orders.seen.pop_first();
                }
            }
            known
        };
        match known {
            Some(Some(outcome)) => self.say(&HostFrame::Done { id, outcome }),
            Some(None) => (),
            None => {
                let (run, instance) = (Arc::clone(self), instance.to_owned());
                tokio::spawn(async move {
                    let outcome = match run.lent.get() {
                        Some(lent) => lent.hands.order(order).await,
                        None => Err(String::from("the session is over")),
                    };
                    {
                        let mut orders = run.orders.lock().unwrap_or_else(PoisonError::into_inner);
                        if orders.instance == instance {
                            orders.seen.insert(id, Some(outcome.clone()));
                        }
                    }
                    run.say(&HostFrame::Done { id, outcome });
                });
            }
        }
    }

    /// Announces waiting notices whenever there are new ones.
    pub(crate) async fn watch_news(self: Arc<Self>) {
        let Some(lent) = self.lent.get() else { return };
        let watching = async {
            loop {
                lent.hands.news().await;
                self.tell_news();
            }
        };
        self.closed.run_until_cancelled(watching).await;
    }

    /// Announces which agents have waiting notices.
    pub(crate) fn tell_news(&self) {
        let agents = self.lent.get().map(|it| it.hands.agents_with_news()).unwrap_or_default();
        if !agents.is_empty() {
            self.say(&HostFrame::NewsWaits { agents });
        }
    }
}

/// Builds the report for a call whose process ended during it: the outcome is unknown.
fn unknown_outcome(tool: &str) -> ReportFrame {
    let message = "interrupted, outcome unknown: the tool host was ended while the call ran. It may or may not have \
                   had its effect. Check before doing it again.";
    ReportFrame::failure(tool, ErrorKind::Interrupted, message)
}
