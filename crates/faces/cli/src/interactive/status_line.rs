//! A line of the person's own program below the prompt.

use std::{
    path::PathBuf,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_session::SessionHandle;
use haft_terminal::{MeterNews, SessionNews};
use haft_types::text;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use super::NewsSink;

/// It is asked at most so often.
const PAUSE: Duration = Duration::from_secs(1);
/// Longer it is not waited for.
const PATIENCE: Duration = Duration::from_millis(300);
/// Columns of it at most.
const WIDEST: usize = 300;

/// The program of the settings, and whether it is being asked.
#[derive(Clone)]
pub(super) struct StatusLine {
    command: String,
    cwd: PathBuf,
    busy: Arc<AtomicBool>,
}

/// What the program is told about the session.
#[derive(Clone, Default)]
pub(super) struct StatusFacts {
    pub(super) model: String,
    pub(super) mode: String,
    pub(super) usd: f64,
    pub(super) context_percent: u8,
}

impl StatusLine {
    /// The program of the settings, if there is one. Settings nobody trusts have
    /// none.
    pub(super) fn of(handle: &SessionHandle, cwd: PathBuf) -> Option<Self> {
        let setting = handle.premises().loaded().settings.get("statusLine")?.value;
        let command = match &setting {
            Value::String(command) => command.clone(),
            _ => setting["command"].as_str()?.to_owned(),
        };
        Some(Self { command, cwd, busy: Arc::default() }).filter(|it| !it.command.trim().is_empty())
    }

    /// Asks it, unless it is being asked: then what is asked is new enough.
    pub(super) fn ask(&self, session: String, facts: &StatusFacts, news: &NewsSink) {
        if self.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let (line, news, facts) = (self.clone(), news.clone(), facts.clone());
        tokio::spawn(async move {
            // What changes within the pause is told together.
            let said = tokio::time::timeout(PATIENCE, line.run(&session, &facts)).await.ok().flatten();
            news.tell(SessionNews::Meter(MeterNews {
                status_line: Some(said.unwrap_or_default()),
                ..MeterNews::default()
            }));
            tokio::time::sleep(PAUSE).await;
            line.busy.store(false, Ordering::Release);
        });
    }

    async fn run(&self, session: &str, facts: &StatusFacts) -> Option<String> {
        let told = json!({
            "hook_event_name": "Status",
            "session_id": session,
            "cwd": self.cwd,
            "model": {"id": facts.model, "display_name": facts.model},
            "workspace": {"current_dir": self.cwd, "project_dir": self.cwd},
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

/// The line without sequences that colour it: its colours are ours.
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
        for (line, want) in [
            ("plain", "plain"),
            ("\u{1b}[1;32mgreen\u{1b}[0m end", "green end"),
            ("cut \u{1b}[3", "cut "),
        ] {
            assert_eq!(without_colours(line), want);
        }
    }
}
