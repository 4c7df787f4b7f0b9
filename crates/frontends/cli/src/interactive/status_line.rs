//! The status line below the prompt, printed by the program of the setting `statusLine`.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_session::SessionHandle;
use haft_tui::{StatusUpdate, UiUpdate};
use haft_types::text;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::UpdateSink;

/// Minimum pause between two runs of the program.
const PAUSE: Duration = Duration::from_secs(1);
/// The program is killed after this time, and the line stays empty.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum columns of the line; the rest is cut.
const WIDEST: usize = 300;

/// Runs the program of the setting `statusLine`, one run at a time.
#[derive(Clone)]
pub(super) struct StatusLine {
    command: String,
    cwd: PathBuf,
    /// Whether a run is in progress, and the newest state that it has not seen.
    state: Arc<Mutex<StatusLineState>>,
}

#[derive(Default)]
struct StatusLineState {
    busy: bool,
    next: Option<StatusLineInput>,
}

/// What the program receives about the session as JSON on standard input.
#[derive(Clone, Default)]
pub(super) struct StatusLineInput {
    pub(super) model: String,
    pub(super) mode: String,
    pub(super) usd: f64,
    pub(super) context_percent: u8,
}

impl StatusLine {
    /// The configured program. `None` without one, and for settings of an untrusted project.
    pub(super) fn from_settings(handle: &SessionHandle, cwd: PathBuf) -> Option<Self> {
        let setting = handle.premises().loaded().settings.get("statusLine")?.value;
        let command = match &setting {
            Value::String(command) => command.clone(),
            _ => setting["command"].as_str()?.to_owned(),
        };
        Some(Self { command, cwd, state: Arc::default() }).filter(|it| !it.command.trim().is_empty())
    }

    /// Runs the program in the background and shows its output. While a run is in progress only the
    /// newest `facts` are stored; they are used for another run after `PAUSE`.
    pub(super) fn ask(&self, session: String, facts: &StatusLineInput, news: &UpdateSink) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.next = Some(facts.clone());
            if std::mem::replace(&mut state.busy, true) {
                return;
            }
        }
        let (line, news) = (self.clone(), news.clone());
        tokio::spawn(async move {
            while let Some(facts) = line.take_next() {
                let said = tokio::time::timeout(TIMEOUT, line.run(&session, &facts)).await.ok().flatten();
                news.tell(UiUpdate::Meter(StatusUpdate {
                    status_line: Some(said.unwrap_or_default()),
                    ..StatusUpdate::default()
                }));
                tokio::time::sleep(PAUSE).await;
            }
        });
    }

    /// Takes the input of the next run. With none left, marks the status line as idle.
    fn take_next(&self) -> Option<StatusLineInput> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = state.next.take();
        state.busy = next.is_some();
        next
    }

    async fn run(&self, session: &str, facts: &StatusLineInput) -> Option<String> {
        let cwd = self.cwd.to_string_lossy();
        let told = json!({
            "hook_event_name": "Status",
            "session_id": session,
            "cwd": cwd,
            "model": {"id": facts.model, "display_name": facts.model},
            "workspace": {"current_dir": cwd, "project_dir": cwd},
            "version": env!("CARGO_PKG_VERSION"),
            "permission_mode": facts.mode,
            "cost": {"total_cost_usd": facts.usd},
            "context_percent": facts.context_percent,
        });
        let mut child = tokio::process::Command::new("/bin/sh")
            .args(["-c", &self.command])
            .current_dir(&self.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .ok()?;
        if let Some(mut input) = child.stdin.take() {
            input.write_all(told.to_string().as_bytes()).await.ok();
        }
        let output = child.wait_with_output().await.ok()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text::one_line(&without_colours(said.lines().next()?), WIDEST))
    }
}

/// Removes escape sequences from the line; the theme decides its colours.
fn without_colours(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 2..];
        let end = behind.find(|it: char| ('@'..='~').contains(&it)).map_or(behind.len(), |end| end + 1);
        rest = &behind[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_a_program_are_left_out() {
        for (line, want) in
            [("plain", "plain"), ("\u{1b}[1;32mgreen\u{1b}[0m end", "green end"), ("cut \u{1b}[3", "cut ")]
        {
            assert_eq!(without_colours(line), want);
        }
    }
}
