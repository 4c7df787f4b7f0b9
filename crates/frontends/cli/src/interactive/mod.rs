//! `haft` without arguments: the interactive session in a terminal.
//!
//! The terminal starts first and shows its prompt at once; the session opens in the background. This
//! module only translates: session events into UI updates, user actions into session commands.

mod doctor;
mod editor;
mod expand_call;
mod file_completion;
mod pasted_images;
mod question_cards;
mod rewind_picker;
mod session_picker;
mod shell_and_notes;
mod slash_commands;
mod status_line;
mod ui_updates;
mod user_question;

use std::{
    collections::HashMap,
    path::PathBuf,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
};

use haft_config::SettingsPaths;
use haft_console::{GlobalArgs, stdout::CommandExit};
use haft_session::{
    AnswerableQuestions, ApproverSpec, Command, DenialText, EventStream, LogStart, Prompt, Reply, Session,
    SessionHandle, SessionSpec,
};
use haft_tui::{
    ColorRole, KeyMap, PromptHistory, StyledLine, TermEffect, TermEvent, TerminalCaps, TextStyle, UiUpdate,
    driver::{OpenTerminal, TermSender, TerminalEnd, TerminalSetup, is_there},
    line_mode::{PlainInput, PlainTerminal},
};
use haft_types::exit_codes;
use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};
use tokio_util::sync::CancellationToken;

use self::{
    file_completion::IgnoredFiles, question_cards::OpenCard, status_line::StatusLine,
    ui_updates::UpdateMapper,
};
use crate::{args::RunArgs, run::session_spec};

/// Exit code when the drawing thread panicked.
const BROKE: u8 = 101;

/// Whether the process has a controlling terminal (`/dev/tty` can be opened).
pub(crate) fn is_possible() -> bool {
    is_there()
}

pub(crate) fn run(run: &RunArgs, options: &GlobalArgs) -> CommandExit {
    let mut wanted = session_spec::of_run(run, options)?;
    wanted.asking = ApproverSpec::Face(DenialText::Explained);
    wanted.face_answers = AnswerableQuestions { elicitation: true, server_trust: true };
    (wanted.progress, wanted.checkpoints) = (true, true);
    let variable = |name: &str| wanted.place.variables.text(name);
    let look = TerminalCaps::of_variables(variable);
    let is_on = |name: &str| variable(name).is_some_and(|it| !it.is_empty() && it != "0");
    let is_plain = is_on("HAFT_ACCESSIBLE") || is_on("ACCESSIBLE") || !look.can_draw();
    let (effects, taken) = unbounded_channel();
    let setup = setup(&wanted, look, effects);
    let face = InteractiveSession::new(wanted, options.clone(), run.prompt.clone());
    if is_plain {
        return plain(setup, face, taken);
    }
    let terminal = OpenTerminal::start(setup)?;
    let sender = terminal.sender();
    let ended = session_spec::runtime()?.block_on(face.converse(UpdateSink::Drawn(sender), taken));
    let code = match terminal.end(ended.farewell) {
        TerminalEnd::Left => ended.code,
        TerminalEnd::Broke => BROKE,
    };
    Ok(ExitCode::from(code))
}

/// Runs the line-by-line interface, for screen readers and for terminals that cannot be drawn on.
fn plain(
    setup: TerminalSetup,
    face: InteractiveSession,
    taken: UnboundedReceiver<TermEffect>,
) -> CommandExit {
    let (input, inputs) = mpsc::channel();
    let lines = input.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { break };
            if lines.send(PlainInput::Line(line)).is_err() {
                return;
            }
        }
        lines.send(PlainInput::End).ok();
    });
    let terminal = PlainTerminal::new(setup, std::io::stdout());
    let shown = std::thread::spawn(move || terminal.run(&inputs));
    let ended = session_spec::runtime()?.block_on(face.converse(UpdateSink::Plain(input.clone()), taken));
    input.send(PlainInput::Event(TermEvent::News(UiUpdate::Farewell(ended.farewell)))).ok();
    shown.join().ok();
    Ok(ExitCode::from(ended.code))
}

fn setup(spec: &SessionSpec, look: TerminalCaps, effects: UnboundedSender<TermEffect>) -> TerminalSetup {
    let place = shortened_home(&spec.place.cwd, spec.place.home().as_deref());
    let greeting = StyledLine::new("haft", TextStyle::tone(ColorRole::Accent).bold())
        .with(&format!(" · {place}"), TextStyle::DIM);
    let places = SettingsPaths::detect(&spec.place.cwd, &|name| spec.place.variables.os_text(name));
    let history = match spec.place.state_dir.clone().or(places.state) {
        Some(dir) => PromptHistory::of_file(&dir.join("history.jsonl"), &spec.place.cwd.to_string_lossy()),
        None => PromptHistory::none(),
    };
    let variables = spec.place.variables.clone();
    TerminalSetup {
        look,
        history,
        keys: (KeyMap::default(), Vec::new()),
        greeting: vec![greeting],
        editor: Arc::new(move |text| editor::edit(text, &variables)),
        effects: Arc::new(move |effect| drop(effects.send(effect))),
    }
}

fn shortened_home(path: &std::path::Path, home: Option<&std::path::Path>) -> String {
    match home.and_then(|home| path.strip_prefix(home).ok()) {
        Some(rest) if rest.as_os_str().is_empty() => String::from("~"),
        Some(rest) => format!("~/{}", rest.display()),
        None => path.display().to_string(),
    }
}

/// Where UI updates are sent.
#[derive(Clone)]
pub(crate) enum UpdateSink {
    /// The thread that draws the full interface.
    Drawn(TermSender),
    /// The thread that prints plain lines.
    Plain(mpsc::Sender<PlainInput>),
}

impl UpdateSink {
    pub(crate) fn tell(&self, news: UiUpdate) {
        match self {
            Self::Drawn(sender) => sender.news(news),
            Self::Plain(sender) => drop(sender.send(PlainInput::Event(TermEvent::News(news)))),
        }
    }
}

/// How the interactive session ended.
struct SessionExit {
    code: u8,
    farewell: Vec<String>,
}

/// The interactive frontend: the session, and the state of what the user is shown and asked.
struct InteractiveSession {
    spec: SessionSpec,
    options: GlobalArgs,
    first: Option<String>,
    handle: Option<SessionHandle>,
    maker: UpdateMapper,
    questions: HashMap<String, OpenCard>,
    files: Arc<file_completion::FileList>,
    /// The user's prompts in order: message id in the log, and text.
    said: Vec<(String, String)>,
    status_line: Option<StatusLine>,
    /// Cancels the shell commands that the user started with `!`.
    own_commands: CancellationToken,
    /// Rules the user allowed until the end of the session, as text for `/permissions`.
    agreed: Vec<String>,
    /// Number of finished turns. Each turn end carries the cost so far.
    turns_ended: Arc<AtomicU64>,
}

impl InteractiveSession {
    fn new(spec: SessionSpec, options: GlobalArgs, first: Option<String>) -> Self {
        let maker = UpdateMapper::new(spec.place.cwd.clone());
        let files = Arc::new(file_completion::FileList::new(spec.place.cwd.clone(), IgnoredFiles::LeftOut));
        let (handle, questions, said) = (None, HashMap::new(), Vec::new());
        Self {
            spec,
            options,
            first,
            handle,
            maker,
            questions,
            files,
            said,
            status_line: None,
            own_commands: CancellationToken::new(),
            agreed: Vec::new(),
            turns_ended: Arc::default(),
        }
    }

    /// Handles user actions and session events until the user quits or a signal ends the program.
    async fn converse(mut self, news: UpdateSink, mut taken: UnboundedReceiver<TermEffect>) -> SessionExit {
        let mut signals = Signals::listen(&news);
        let mut events = self.open(&news).await;
        if let Some(first) = self.first.take() {
            news.tell(UiUpdate::Begin(first));
        }
        let code = loop {
            tokio::select! {
                effect = taken.recv() => match effect {
                    None | Some(TermEffect::Quit) => break 0,
                    Some(effect) => {
                        if let Some(opened) = self.carry_out(effect, &news).await {
                            events = Some(opened);
                        }
                    }
                },
                event = next_event(&mut events) => match event {
                    Some(event) => self.hear(&event, &news),
                    None => events = None,
                },
                signal = signals.next() => match signal {
                    SignalAction::SizeChanged => if let UpdateSink::Drawn(sender) = &news { sender.size_changed() },
                    SignalAction::Interrupt => match &news {
                        UpdateSink::Plain(sender) => drop(sender.send(PlainInput::Interrupt)),
                        // In raw mode Ctrl-C arrives as a key, so this SIGINT was sent by another
                        // process.
                        UpdateSink::Drawn(_) => break exit_codes::INTERRUPTED,
                    },
                    SignalAction::Suspended => if let UpdateSink::Drawn(sender) = &news { sender.suspended() },
                    SignalAction::Resumed => if let UpdateSink::Drawn(sender) = &news { sender.resumed() },
                    SignalAction::End(code) => break code,
                },
            }
        };
        SessionExit { code, farewell: self.close().await }
    }

    /// Opens the session described by the spec and sends its first state to the UI. `None` if it cannot
    /// be opened; the UI then shows why.
    async fn open(&mut self, news: &UpdateSink) -> Option<EventStream> {
        let opened = Session::open(self.spec.clone());
        let (handle, events) = match opened {
            Ok(opened) => opened,
            Err(problem) => {
                news.tell(UiUpdate::CannotOpen(slash_commands::open_error_help(&problem.to_string())));
                return None;
            }
        };
        self.maker.set_catalog(handle.premises().catalog().ok());
        let ignored = IgnoredFiles::from_setting(handle.premises().flag_setting("respectGitignore"));
        self.files = Arc::new(file_completion::FileList::new(self.spec.place.cwd.clone(), ignored));
        for it in slash_commands::preferences(&handle) {
            news.tell(it);
        }
        self.status_line = StatusLine::from_settings(&handle, self.spec.place.cwd.clone());
        if self.spec.log.start != LogStart::New {
            self.show_before(&handle, news).await;
        }
        self.handle = Some(handle.clone());
        let news = news.clone();
        let place = shortened_home(&self.spec.place.cwd, self.spec.place.home().as_deref());
        // A separate task, because waiting for the session's answers here would delay key presses.
        tokio::spawn(async move { slash_commands::introduce(&handle, place, &news).await });
        Some(events)
    }

    fn hear(&mut self, event: &haft_session::SessionEvent, news: &UpdateSink) {
        if let haft_session::SessionEventKind::Asked(question) = &event.what {
            let asked = OpenCard::new(question, &self.spec.place.cwd);
            news.tell(UiUpdate::Asked(Box::new(asked.card())));
            self.questions.insert(question.id.clone(), asked);
        }
        if let haft_session::SessionEventKind::TurnEnded(_) = &event.what {
            self.turns_ended.fetch_add(1, Ordering::Relaxed);
        }
        if let haft_session::SessionEventKind::Settled(id, _) = &event.what {
            self.questions.remove(id);
        }
        for it in self.maker.of(event) {
            news.tell(it);
        }
        if let (Some(line), Some(handle)) = (&self.status_line, &self.handle)
            && self.maker.take_status_wish()
        {
            line.ask(handle.id().to_string(), self.maker.facts(), news);
        }
        if self.maker.take_bill_wish()
            && let Some(handle) = self.handle.clone()
        {
            let (news, ended) = (news.clone(), Arc::clone(&self.turns_ended));
            tokio::spawn(async move { slash_commands::tell_bill(&handle, &ended, &news).await });
        }
    }

    async fn carry_out(&mut self, effect: TermEffect, news: &UpdateSink) -> Option<EventStream> {
        match effect {
            TermEffect::Send(text) => self.say(text),
            TermEffect::Interrupt => {
                std::mem::take(&mut self.own_commands).cancel();
                if let Some(handle) = &self.handle {
                    handle.send(Command::Interrupt { cancel_queued: true, reply: Reply::ignored() });
                }
            }
            TermEffect::StopAgents => {
                if let Some(handle) = &self.handle {
                    handle.send(Command::StopAgents);
                }
            }
            TermEffect::Answer { id, answer } => self.answer(&id, answer, news),
            TermEffect::Command { name, arguments } => return self.command(&name, &arguments, news).await,
            TermEffect::Picked { purpose, id } => return self.picked(&purpose, &id, news).await,
            TermEffect::Preview { purpose, id } => self.preview(&purpose, id, news),
            TermEffect::Picture(pasted) => self.attach_pasted_image(pasted, news),
            TermEffect::ClipboardPicture => self.take_clipboard_picture(news),
            TermEffect::Copy(text) => self.copy(text, news),
            TermEffect::NextMode => self.next_mode(news).await,
            TermEffect::Files(query) => {
                let (list, news) = (Arc::clone(&self.files), news.clone());
                tokio::task::spawn_blocking(move || {
                    let found = list.fitting(&query);
                    news.tell(UiUpdate::Files { query, found });
                });
            }
            TermEffect::Shell(command) => self.run_shell(command, news),
            TermEffect::Remember(note) => self.remember(&note, news),
            TermEffect::ToBackground => {
                if let Some(handle) = &self.handle {
                    handle.send(Command::MoveToBackground(None));
                }
            }
            // The terminal thread handles these itself.
            TermEffect::Edit(_)
            | TermEffect::Alert(_)
            | TermEffect::Suspend
            | TermEffect::Redraw
            | TermEffect::Quit => (),
        }
        None
    }

    fn say(&mut self, text: String) {
        let Some(handle) = &self.handle else { return };
        let prompt = Prompt::text(text.clone());
        self.said.push((prompt.uuid.clone(), text));
        handle.prompt(prompt);
    }

    /// Closes the session and returns the lines to print after it: cost, changed files, how to resume.
    async fn close(&mut self) -> Vec<String> {
        let Some(handle) = self.handle.take() else { return Vec::new() };
        let usage = handle.ask(Command::Usage).await;
        handle.close().await;
        if self.said.is_empty() && self.spec.log.start == LogStart::New {
            return Vec::new();
        }
        let mut about = Vec::new();
        if let Some(usage) = &usage {
            about.push(format!("${:.3}", usage.bill.usd));
        }
        let changed = self.maker.changed_files();
        match changed.len() {
            0 => (),
            1 => about.push(format!("1 file changed ({})", changed[0])),
            count => about.push(format!("{count} files changed (haft history, haft undo)")),
        }
        let id = usage.map_or_else(|| handle.id().to_string(), |it| it.session_id.to_string());
        vec![about.join(" · "), format!("go on with: haft --resume {id}")]
    }
}

async fn next_event(events: &mut Option<EventStream>) -> Option<haft_session::SessionEvent> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

/// What the frontend does on a signal.
enum SignalAction {
    SizeChanged,
    Suspended,
    Resumed,
    Interrupt,
    End(u8),
}

/// Receives the signals that matter to a program on a terminal.
struct Signals {
    heard: UnboundedReceiver<SignalAction>,
}

impl Signals {
    fn listen(news: &UpdateSink) -> Self {
        let (sender, heard) = unbounded_channel();
        let mut kinds: Vec<(SignalKind, fn() -> SignalAction)> = vec![
            (SignalKind::window_change(), || SignalAction::SizeChanged),
            (SignalKind::from_raw(Signal::CONT.as_raw()), || SignalAction::Resumed),
            (SignalKind::interrupt(), || SignalAction::Interrupt),
            (SignalKind::terminate(), || SignalAction::End(exit_codes::TERMINATED)),
            (SignalKind::hangup(), || SignalAction::End(exit_codes::HANGUP)),
            (SignalKind::quit(), || SignalAction::End(exit_codes::QUIT)),
        ];
        // Before SIGTSTP suspends the program, the full interface has to restore the terminal. The line
        // interface never changes it.
        if matches!(news, UpdateSink::Drawn(_)) {
            kinds.push((SignalKind::from_raw(Signal::TSTP.as_raw()), || SignalAction::Suspended));
        }
        for (kind, heard) in kinds {
            // If no handler can be installed, the signal keeps its default action.
            let Ok(mut signals) = signal(kind) else { continue };
            let sender = sender.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    if sender.send(heard()).is_err() {
                        return;
                    }
                }
            });
        }
        Self { heard }
    }

    async fn next(&mut self) -> SignalAction {
        match self.heard.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }
}

/// Path of the session's log file, if the session has one.
fn log_of(handle: &SessionHandle) -> Option<PathBuf> {
    handle.log_path().map(PathBuf::from)
}
