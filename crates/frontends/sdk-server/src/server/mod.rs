//! Connects a session to a program that speaks newline-delimited JSON.
//!
//! Lines are processed while a turn runs. All output goes through the session's events, so that an
//! agent's output precedes its next request.

mod requests;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use haft_json_lines::{InputLine, LineWriter, read_elicitation};
use haft_session::{
    CloseMode, Command, EventStream, QuestionAnswer, QuestionOutcome, QuestionSubject, SessionEvent,
    SessionEventKind, SessionHandle, SessionQuestion, read_permission_answer,
};
use haft_types::exit_codes;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    ClientMcpServers, HostInput, InboundLine, LaunchFields, Projection, SdkClient, client::fits,
    elicitation_request::elicitation_request, permission_request::permission_request,
};

/// A session controlled by a host over standard input and output.
pub struct SdkServer {
    handle: SessionHandle,
    events: EventStream,
    projection: Projection,
    host: SdkClient,
    servers: ClientMcpServers,
    /// Open questions to the host, by id.
    questions: HashMap<String, QuestionForm>,
    /// Names of the host's agents.
    agents: Vec<String>,
    /// Fields of the host's first request that the session was opened with.
    launched: LaunchFields,
    /// Message types that were reported as unknown.
    unknown: HashSet<String>,
    /// Whether the host can stop single tasks.
    stops_single_tasks: bool,
    /// The delayed answer to `initialize`, and the deadline for sending it.
    introduction: Option<(Value, Instant)>,
    out: LineWriter,
    /// Prints a message for the user.
    complain: fn(&str),
}

/// How the answer to a question is parsed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum QuestionForm {
    Permission,
    Elicitation,
}

/// A signal that asks the program to exit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EndSignal {
    /// Exit at once (SIGTERM).
    Terminate,
    /// Interrupt the turn first (SIGINT).
    Interrupt,
}

/// Maximum delay of the answer to `initialize`; hosts wait a minute for it.
const MAX_INTRODUCTION: Duration = Duration::from_secs(20);

/// Time for the host to read the remaining output when the program exits.
const LAST_LINES: Duration = Duration::from_secs(30);
const LAST_LINES_AT_ONCE: Duration = Duration::from_millis(200);

/// Maximum number of unknown message types that are reported.
const MAX_REPORTED_TYPES: usize = 20;

/// Key of the echo event that carries the answer to `initialize`.
pub(crate) const INTRODUCTION: &str = "haft_introduction";

impl SdkServer {
    /// Creates a server for this session.
    pub fn new(
        handle: SessionHandle,
        events: EventStream,
        projection: Projection,
        host: SdkClient,
        servers: ClientMcpServers,
        complain: fn(&str),
    ) -> Self {
        Self {
            handle,
            events,
            projection,
            host,
            servers,
            questions: HashMap::new(),
            agents: Vec::new(),
            launched: LaunchFields::default(),
            unknown: HashSet::new(),
            stops_single_tasks: false,
            introduction: None,
            out: LineWriter::start(),
            complain,
        }
    }

    /// Sets the fields of the host's first request that the session was opened with.
    #[must_use]
    pub fn launched_with(mut self, fields: LaunchFields) -> Self {
        self.launched = fields;
        self
    }

    /// Runs until the host closes its input and all work is done, or a signal arrives. Returns the exit
    /// code.
    pub async fn run(mut self, mut lines: HostInput, mut signals: mpsc::UnboundedReceiver<EndSignal>) -> u8 {
        let broken = self.out.broken();
        let mut input_open = true;
        let mut code: Option<u8> = None;
        loop {
            tokio::select! {
                biased;
                Some(signal) = signals.recv() => match signal {
                    EndSignal::Terminate => {
                        code.get_or_insert(exit_codes::TERMINATED);
                        self.host.close();
                        self.handle.send(Command::Close(CloseMode::AtOnce));
                    }
                    EndSignal::Interrupt => {
                        code.get_or_insert(0);
                        self.handle.interrupt();
                        self.handle.send(Command::EndAfterTurn);
                    }
                },
                () = broken.cancelled(), if code.is_none() => {
                    code = Some(1);
                    self.host.close();
                    self.handle.send(Command::Close(CloseMode::AtOnce));
                }
                line = lines.next(), if input_open => match line {
                    None => {
                        input_open = false;
                        self.introduce();
                        self.host.close();
                        self.handle.send(Command::Finish);
                    }
                    Some(line) => if let Err(failed) = self.hear_line(line) {
                        code = Some(failed);
                        self.host.close();
                        self.handle.send(Command::Close(CloseMode::AtOnce));
                    },
                },
                event = self.events.next() => match event {
                    None | Some(SessionEvent { what: SessionEventKind::Closed, .. }) => break,
                    Some(event) => self.tell(&event),
                },
                () = at(self.introduction.as_ref().map(|it| it.1)) => self.introduce(),
            }
        }
        let patience = if code.is_none() { LAST_LINES } else { LAST_LINES_AT_ONCE };
        self.out.finish(patience).await;
        code.unwrap_or_else(|| u8::from(self.projection.last_failed()))
    }

    fn hear_line(&mut self, line: InputLine) -> Result<(), u8> {
        match line {
            InputLine::Whole(line) => self.hear(&line),
            InputLine::TooLong(line) => Err(self.not_understood(&line)),
        }
    }

    /// Reports an invalid line and returns the exit code.
    fn not_understood(&self, line: &[u8]) -> u8 {
        let shown = String::from_utf8_lossy(&line[..line.len().min(200)]).trim_end().to_owned();
        (self.complain)(&format!("Error parsing streaming input line: {shown}"));
        1
    }

    fn hear(&mut self, line: &[u8]) -> Result<(), u8> {
        match InboundLine::parse(line) {
            None => return Err(self.not_understood(line)),
            Some(InboundLine::User(prompt)) => self.handle.send(Command::Prompt(prompt)),
            Some(InboundLine::Control(control)) => self.control(control),
            Some(InboundLine::Answer { request_id, answer }) => self.answered(&request_id, answer),
            Some(InboundLine::Unknown(kind)) => self.report_unknown(kind),
            Some(InboundLine::Cancel | InboundLine::Nothing) => (),
        }
        Ok(())
    }

    /// Reports a message of a newer host, once for each type.
    fn report_unknown(&mut self, kind: String) {
        if self.unknown.len() < MAX_REPORTED_TYPES && !self.unknown.contains(&kind) {
            (self.complain)(&format!("haft: ignored a message of the unknown type {kind:?}"));
            self.unknown.insert(kind);
        }
    }

    /// Passes an answer of the host to the session, or to another waiting request.
    fn answered(&mut self, request_id: &str, answer: Result<Value, String>) {
        let Some(form) = self.questions.remove(request_id) else {
            return self.host.answered(request_id, answer);
        };
        let answer = match (form, answer) {
            (QuestionForm::Permission, Ok(answer)) => {
                QuestionAnswer::Permission(read_permission_answer(answer))
            }
            (QuestionForm::Elicitation, Ok(answer)) => QuestionAnswer::Elicitation(read_elicitation(&answer)),
            (_, Err(reason)) => QuestionAnswer::Unasked(failed(&reason)),
        };
        self.handle.answer(request_id, answer);
    }

    fn tell(&mut self, event: &SessionEvent) {
        match &event.what {
            SessionEventKind::Asked(question) => return self.ask(question),
            SessionEventKind::Settled(id, how) => {
                if self.questions.remove(id).is_some() && *how == QuestionOutcome::TakenBack {
                    self.out.frame(&json!({"type": "control_cancel_request", "request_id": id}));
                }
                return;
            }
            SessionEventKind::Notice(text) => return (self.complain)(&format!("haft: {text}")),
            SessionEventKind::Echo(frame) if frame.get(INTRODUCTION).is_some() => {
                return self.introduced(frame);
            }
            // A host that waits for the answer to `initialize` gets it before the first result.
            SessionEventKind::Agent(haft_agent::AgentEvent::ResultLogged { .. })
            | SessionEventKind::TurnEnded(_)
            | SessionEventKind::Appended(_)
            | SessionEventKind::CommandEnded(_)
            | SessionEventKind::TaskStarted(..)
            | SessionEventKind::ChildStarted(_) => self.introduce(),
            _ => (),
        }
        for frame in self.projection.of(event) {
            self.out.frame(&frame);
        }
    }

    fn ask(&mut self, question: &SessionQuestion) {
        let (form, request) = match &question.subject {
            QuestionSubject::Permission(asked) => (QuestionForm::Permission, permission_request(asked)),
            QuestionSubject::Elicitation(asked) => (QuestionForm::Elicitation, elicitation_request(asked)),
            // The protocol has no such question.
            QuestionSubject::ServerTrust(_) => {
                return self.handle.answer(&question.id, QuestionAnswer::ServerTrust(false));
            }
        };
        if !fits(&request) {
            let why = failed(&crate::SdkClientError::TooLong.to_string());
            return self.handle.answer(&question.id, QuestionAnswer::Unasked(why));
        }
        self.questions.insert(question.id.clone(), form);
        let frame = json!({"type": "control_request", "request_id": question.id, "request": request});
        self.out.frame(&frame);
    }

    /// The answer to `initialize` is ready. A host without input closes its input as soon as it is
    /// answered, so questions about deferred calls are sent before.
    fn introduced(&mut self, echoed: &Value) {
        let frame = echoed[INTRODUCTION].clone();
        if echoed["takes_up"] == true {
            self.introduction = Some((frame, Instant::now() + MAX_INTRODUCTION))
        } else {
            self.out.frame(&frame)
        }
    }

    /// Sends the delayed answer to `initialize`.
    fn introduce(&mut self) {
        if let Some((frame, _)) = self.introduction.take() {
            self.out.frame(&frame);
        }
    }
}

fn failed(why: &str) -> String {
    format!("Tool permission request failed: Error: {why}")
}

/// Waits until the moment; forever if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
