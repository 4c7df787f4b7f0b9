//! Answers to prompts, the user's `!` commands, `#` notes, and copying.

use std::{path::Path, process::Stdio};

use haft_session::{Command, Prompt};
use haft_tool::{LineStyle, Rendered, RenderedLine, Rendering};
use haft_tui::{CardAnswer, FinishedCall, OWN_COMMAND, UiUpdate};
use haft_types::text;
use tokio_util::sync::CancellationToken;

use super::{
    InteractiveSession, UpdateSink,
    question_cards::{self, CardStep},
};

/// Maximum bytes that can be copied through the terminal (OSC 52); terminals drop longer texts.
const LONGEST_COPY: usize = 100_000;
/// Maximum length of a command's output that is shown and sent to the model.
const MAX_OUTPUT: usize = 30_000;

impl InteractiveSession {
    pub(super) fn answer(&mut self, id: &str, answer: CardAnswer, news: &UpdateSink) {
        let Some(handle) = &self.handle else { return };
        // The prompt was withdrawn meanwhile.
        let Some(question) = self.questions.get_mut(id) else { return };
        match question.answer(answer) {
            Ok(CardStep::Done(answer)) => {
                self.agreed.extend(question_cards::session_allowances(&answer));
                handle.answer(id, answer);
            }
            Ok(CardStep::Next(card)) => news.tell(UiUpdate::Asked(Box::new(card))),
            Err(why) => news.tell(UiUpdate::AnswerRefused { id: id.to_owned(), why }),
        }
    }

    /// Runs the user's `!` command in the background, without the sandbox and without permission checks.
    /// The command and its output are added to the conversation; the model sees them with the next
    /// request.
    pub(super) fn run_shell(&self, command: String, news: &UpdateSink) {
        let (cwd, news, handle) = (self.spec.place.cwd.clone(), news.clone(), self.handle.clone());
        let (id, stop) = (format!("{OWN_COMMAND}{}", uuid::Uuid::new_v4()), self.own_commands.clone());
        let (agent, name) = (None, String::from("$"));
        let headline = command.clone();
        news.tell(UiUpdate::CallBegan { id: id.clone(), agent, name, headline });
        tokio::spawn(async move {
            let (shown, ok) = match shell_output(&command, &cwd, &stop).await {
                Ok(output) => output,
                Err(err) => (format!("the command could not be started: {err}"), false),
            };
            news.tell(UiUpdate::CallEnded(Box::new(own_result(id, &command, &shown, ok))));
            if let Some(handle) = handle {
                let told = format!("I ran a command myself:\n$ {command}\n{shown}");
                handle.prompt(Prompt { wants_answer: false, is_verbatim: true, ..Prompt::text(told) });
            }
        });
    }

    /// Appends a note to the project's memory file.
    pub(super) fn remember(&self, note: &str, news: &UpdateSink) {
        let (path, note) = (memory_file(&self.spec.place.cwd), note.to_owned());
        let (news, handle) = (news.clone(), self.handle.clone());
        tokio::task::spawn_blocking(move || {
            let kept = append_note(&path, &note);
            news.tell(UiUpdate::Notice(match kept {
                Ok(()) => format!("kept in {}: {note}", path.display()),
                Err(err) => format!("{}: {err}; the note was not kept", path.display()),
            }));
            if let Some(handle) = handle {
                let told = format!("Keep in mind from now on: {note}");
                handle.prompt(Prompt { wants_answer: false, is_verbatim: true, ..Prompt::text(told) });
            }
        });
    }

    /// Handles the cases of copying that the terminal escape sequence cannot: in tmux the text goes into
    /// the tmux buffer; elsewhere a text over `LONGEST_COPY` is refused with a notice.
    pub(super) fn copy(&self, text: String, news: &UpdateSink) {
        let in_tmux = self.spec.place.variables.text("TMUX").is_some_and(|it| !it.is_empty());
        if !in_tmux && LONGEST_COPY < text.len() {
            let why = "the answer is too long for the clipboard of a terminal (100 kB); /export writes it into a file";
            return news.tell(UiUpdate::Notice(why.to_owned()));
        }
        if !in_tmux {
            return;
        }
        tokio::task::spawn_blocking(move || {
            use std::io::Write as _;
            let tmux = std::process::Command::new("tmux")
                .args(["load-buffer", "-w", "-"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let Ok(mut tmux) = tmux else { return };
            if let Some(mut input) = tmux.stdin.take() {
                input.write_all(text.as_bytes()).ok();
            }
            tmux.wait().ok();
        });
    }

    pub(super) async fn next_mode(&mut self, news: &UpdateSink) {
        use haft_types::PermissionMode::{AcceptEdits, Default, Plan};
        let Some(handle) = &self.handle else { return };
        let Some(introduction) = handle.ask(Command::Reload).await else { return };
        let mode = match introduction.mode {
            Default => AcceptEdits,
            AcceptEdits => Plan,
            _ => Default,
        };
        self.set_mode(mode, news).await;
    }
}

/// The result of the user's command: collapsed, with the whole output for the pager.
fn own_result(id: String, command: &str, shown: &str, ok: bool) -> FinishedCall {
    let style = if ok { LineStyle::Plain } else { LineStyle::Error };
    let lines = shown.lines().map(|line| RenderedLine::new(style, line)).collect();
    let rendered = Rendered { lines, ..Rendered::default() };
    let whole = Rendering::new({
        let rendered = rendered.clone();
        move || rendered.clone()
    });
    let (agent, name, headline) = (None, String::from("$"), command.to_owned());
    FinishedCall { id, agent, name, headline, failed: !ok, rendered, whole: Some(whole) }
}

async fn shell_output(
    command: &str,
    cwd: &Path,
    stop: &CancellationToken,
) -> std::io::Result<(String, bool)> {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let child = tokio::process::Command::new(shell)
        .args(["-c", command])
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    let group = child.id().and_then(|it| i32::try_from(it).ok()).and_then(rustix::process::Pid::from_raw);
    let output = tokio::select! {
        output = child.wait_with_output() => output?,
        () = stop.cancelled() => {
            // The process group, so that its child processes end, too.
            if let Some(group) = group {
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
            }
            return Ok((String::from("(stopped)"), false));
        }
    };
    let mut all = String::from_utf8_lossy(&output.stdout).into_owned();
    all.push_str(&String::from_utf8_lossy(&output.stderr));
    let mut shown = text::head(all.trim_end(), MAX_OUTPUT).to_owned();
    if shown.len() < all.trim_end().len() {
        shown.push_str(&format!("\n… {} more bytes", all.len() - shown.len()));
    }
    if let Some(code) = output.status.code().filter(|it| *it != 0) {
        shown.push_str(&format!("\n(exit {code})"));
    }
    Ok((shown, output.status.success()))
}

/// Returns `AGENTS.md` or `CLAUDE.md`, the first that exists in `cwd`; otherwise `AGENTS.md`, to be
/// created.
fn memory_file(cwd: &Path) -> std::path::PathBuf {
    let names = ["AGENTS.md", "CLAUDE.md"];
    let found = names.iter().map(|name| cwd.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| cwd.join(names[0]))
}

fn append_note(path: &Path, note: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let before = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(err) => return Err(err),
    };
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{gap}- {note}\n").as_bytes())
}
