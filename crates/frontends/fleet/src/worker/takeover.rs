//! Continues a run of another worker.

use haft_fleet_store::{Lease, StoreError};
use haft_session::{Prompt, PromptAuthor};
use serde_json::json;

use super::FleetWorker;
use crate::{
    checkout::{RunWorkspace, WorkspaceHome},
    job_file::OnUnknown,
    run_log_lines::{RunHistory, StartedCall},
    store_log::StoreLog,
};

/// Lines read at once.
const PAGE: usize = 2_000;

/// The tool that sends messages to other runs.
const SEND_MESSAGE: &str = "SendMessage";

/// Tools whose only effect is on files of the workspace.
const FILE_TOOLS: [&str; 4] = ["Write", "Edit", "MultiEdit", "NotebookEdit"];

impl FleetWorker {
    /// Reads all stored lines of this attempt.
    pub(super) async fn history(&self, lease: &Lease) -> Result<RunHistory, StoreError> {
        let mut history = RunHistory::default();
        let run = &lease.key.run;
        // A lagging node may return a shorter log than was known at the takeover.
        let end = self.store.log.end(run.clone()).await?.lines.max(lease.log_end);
        let mut next = lease.log_begin;
        while next < end {
            let lines = self.store.log.read(run.clone(), next, PAGE).await?;
            let Some(last) = lines.last() else {
                let place = format!("the log of {run}");
                let said = format!("it has {end} lines, and none from {next} on");
                return Err(StoreError::Corrupt { place, said });
            };
            next = last.number + 1;
            for line in lines {
                history.take(&line.text);
            }
        }
        Ok(history)
    }
}

/// Decides what happens with calls whose outcome is unknown. The error says why the job is parked.
pub(super) fn resolve_unknown_call(
    history: &mut RunHistory,
    order: OnUnknown,
    workspace: &RunWorkspace,
    fence: &StoreLog,
) -> Result<(), String> {
    let letters: Vec<String> =
        history.open.iter().filter(|it| is_letter(history, it)).map(|it| it.id.clone()).collect();
    history.forget_starts(&letters);
    if history.open.is_empty() {
        return Ok(());
    }
    let named = |calls: &[StartedCall]| {
        let calls: Vec<String> = calls.iter().map(|it| format!("{} ({})", it.tool, it.id)).collect();
        calls.join(", ")
    };
    match order {
        OnUnknown::Stop => {
            return Err(format!(
                "the outcome of {} is not known; look, then retry or cancel",
                named(&history.open)
            ));
        }
        OnUnknown::UndoAndRerun if !workspace.is_lasting() => {
            // The workspace was restored to its state before these calls.
            let again = history.open.iter().filter(|it| {
                FILE_TOOLS.contains(&it.tool.as_str())
                    && history.acted_since.iter().any(|(_, id)| *id == it.id)
            });
            let again: Vec<String> = again.map(|it| it.id.clone()).collect();
            history.forget_starts(&again);
        }
        OnUnknown::UndoAndRerun | OnUnknown::Tell => (),
    }
    if !workspace.is_lasting() {
        for call in &history.open {
            let words = "its worker was lost; the files here are those of the last checkpoint, so that changes it made \
                         to them are gone; what it did elsewhere is not known";
            fence.tell_about(&call.id, words.to_owned());
        }
    }
    Ok(())
}

/// Whether a call is a message to another run, which is idempotent and can be sent again.
fn is_letter(history: &RunHistory, call: &StartedCall) -> bool {
    call.tool == SEND_MESSAGE
        && history
            .input_of(&call.id)
            .is_some_and(|it| it["to"].as_str().is_some_and(|to| to.trim().starts_with("run:")))
}

/// Returns the notice to the model about the takeover.
pub(super) fn notice(history: &RunHistory, workspace: &RunWorkspace, epoch: u64) -> Prompt {
    let mut text = String::from("[This session was moved to another worker. ");
    let dir = workspace.dir.display().to_string();
    match (&workspace.home, history.last_cwd.as_ref().filter(|old| **old != dir)) {
        (WorkspaceHome::Host(host), _) => {
            text.push_str(&format!("Files and commands are still on the tool host {host}. "));
        }
        (_, Some(old)) => text.push_str(&format!(
            "The working directory is {dir} now; it was {old}, which is gone: use the new path. "
        )),
        (_, None) => text.push_str(&format!("The working directory is still {dir}. ")),
    }
    if !workspace.is_lasting() {
        let lost: Vec<String> =
            history.acted_since.iter().map(|(tool, id)| format!("{tool} ({id})")).collect();
        if lost.is_empty() {
            text.push_str("All changes of files are there. ")
        } else {
            text.push_str(&format!(
                "Changes that these calls made to files of the workspace are lost: {}. What they did elsewhere is \
                 not. ",
                lost.join(", ")
            ))
        }
    }
    text.push_str(match workspace.home {
        WorkspaceHome::Host(_) => "Commands in the background may still run there.]",
        WorkspaceHome::Run | WorkspaceHome::Worker => "Commands that ran in the background have ended.]",
    });
    Prompt {
        wants_answer: false,
        is_verbatim: true,
        speaker: PromptAuthor::Task,
        origin: Some(json!({"kind": "fleet-takeover", "epoch": epoch})),
        ..Prompt::text(text)
    }
}
