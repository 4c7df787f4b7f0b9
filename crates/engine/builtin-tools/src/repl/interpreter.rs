//! One interpreter process and the protocol with it.

use std::{
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    sync::Arc,
    time::{Duration, Instant},
};

use haft_shell::{
    output::{Mark, OutputView},
    own::Lifetime,
    run::{Job, JobSpec, Shell, Stop, TerminalMode},
    sandbox::Confinement,
};
use haft_tool::CallContext;
use serde::Deserialize;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

use super::input::Language;

/// Maximum lifetime of an interpreter.
const LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an interpreter may take to respond to an interrupt; then it is killed.
const COMES_BACK: Duration = Duration::from_millis(1_500);
/// Maximum bytes of a response; the interpreter is stopped beyond it.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A process that receives code and returns results.
pub(crate) struct Interpreter {
    language: Language,
    job: Job,
    channel: UnixStream,
    /// Bytes received after the last response.
    waiting: Vec<u8>,
    pub(crate) used: Instant,
}

/// The result of running a piece of code.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(crate) printed: String,
    pub(crate) ending: CodeEnding,
}

/// How a piece of code ended.
#[derive(Debug)]
pub(crate) enum CodeEnding {
    /// It ran to the end; the value of its last expression, if any.
    Value(Option<String>),
    /// Exit code of the shell's last command.
    Code(i32),
    /// It raised an error.
    Error(String),
    /// It was interrupted; the interpreter is still running.
    Interrupted,
    /// The interpreter has exited, for this reason.
    Gone(String),
}

#[derive(Deserialize)]
struct ReplAnswer {
    ok: bool,
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    error: Option<String>,
}

impl Interpreter {
    pub(crate) fn start(
        shell: &Arc<Shell>,
        language: Language,
        confinement: Option<Arc<Confinement>>,
        cx: &CallContext,
    ) -> io::Result<Self> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let (command, driver) = language.driver();
        let job = shell.start(JobSpec {
            call: cx.call_id.clone(),
            agent: cx.agent_id.clone(),
            command: command.to_owned(),
            cwd: cx.cwd.to_path_buf(),
            limit: LIFE,
            variables: vec![(String::from("HAFT_DRIVER"), driver.to_owned())],
            lifetime: Lifetime::Session,
            confinement,
            reading: None,
            precious: Vec::new(),
            channel: Some(Arc::new(OwnedFd::from(theirs))),
            terminal: TerminalMode::None,
        })?;
        let channel = UnixStream::from_std(ours)?;
        Ok(Self { language, job, channel, waiting: Vec::new(), used: Instant::now() })
    }

    /// Whether the interpreter runs in the required sandbox. True also if no sandbox is required.
    pub(crate) fn is_behind(&self, walls: Option<&Confinement>) -> bool {
        let own = self.job.spec().confinement.as_ref();
        walls.is_none_or(|walls| own.is_some_and(|own| own.policy() == walls.policy()))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.job.end().is_none()
    }

    pub(crate) fn stop(&self) {
        self.job.stop(Stop::Asked);
    }

    /// Runs code until it ends, `patience` has passed, or `interrupted` resolves; in the last two cases
    /// the code is interrupted.
    pub(crate) async fn evaluate(
        &mut self,
        code: &str,
        patience: Duration,
        interrupted: impl Future<Output = ()>,
        shown: usize,
    ) -> Evaluated {
        let before = self.job.printed();
        let ending = self.exchange(code, patience, interrupted).await;
        self.job.flush().await;
        self.used = Instant::now();
        Evaluated { printed: self.printed_since(before, shown), ending }
    }

    fn printed_since(&self, from: Mark, limit: usize) -> String {
        self.job.read(OutputView { limit, from }).text
    }

    async fn exchange(
        &mut self,
        code: &str,
        patience: Duration,
        interrupted: impl Future<Output = ()>,
    ) -> CodeEnding {
        let message = [code.as_bytes(), b"\0"].concat();
        let sent = tokio::time::timeout(patience, self.channel.write_all(&message)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return self.gone().await;
        }
        let in_time = tokio::select! {
            answer = self.answer() => Some(answer),
            () = tokio::time::sleep(patience) => None,
            () = interrupted => None,
        };
        match in_time {
            Some(Some(answer)) => self.understood(&answer),
            Some(None) => self.gone().await,
            None => self.interrupt().await,
        }
    }

    async fn interrupt(&mut self) -> CodeEnding {
        self.job.interrupt();
        match tokio::time::timeout(COMES_BACK, self.answer()).await {
            Ok(Some(_)) => CodeEnding::Interrupted,
            _ => {
                self.stop();
                CodeEnding::Gone(String::from("it did not stop when interrupted, so it was ended"))
            }
        }
    }

    async fn gone(&mut self) -> CodeEnding {
        self.stop();
        let end = self.job.ended().await;
        CodeEnding::Gone(end.describe())
    }

    /// Waits for the next response; `None` if the interpreter has exited or its response is too large.
    async fn answer(&mut self) -> Option<Vec<u8>> {
        let mut buf = vec![0; 16 << 10];
        loop {
            if let Some(end) = self.waiting.iter().position(|it| *it == 0) {
                let rest = self.waiting.split_off(end + 1);
                let mut answer = std::mem::replace(&mut self.waiting, rest);
                answer.pop();
                return Some(answer);
            }
            let read = tokio::select! {
                read = self.channel.read(&mut buf) => read,
                // A child process of the interpreter may keep the channel open.
                _ = self.job.ended() => return None,
            };
            match read {
                Ok(len) if 0 < len && self.waiting.len() < MAX_ANSWER_BYTES => {
                    self.waiting.extend(&buf[..len])
                }
                _ => return None,
            }
        }
    }

    fn understood(&self, answer: &[u8]) -> CodeEnding {
        if self.language == Language::Shell {
            let text = String::from_utf8_lossy(answer);
            return text
                .trim()
                .parse()
                .map_or_else(|_| CodeEnding::Error(text.into_owned()), CodeEnding::Code);
        }
        match serde_json::from_slice::<ReplAnswer>(answer) {
            Ok(ReplAnswer { ok: true, value, .. }) => CodeEnding::Value(value),
            Ok(ReplAnswer { error, .. }) => CodeEnding::Error(error.unwrap_or_default()),
            Err(err) => CodeEnding::Error(format!("its answer made no sense: {err}")),
        }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        self.stop();
    }
}
