//! Prompts of MCP servers for the user at the terminal.

pub mod answerer;
mod elicitation;
pub mod form;
mod form_field;
pub mod permission;
mod raw_terminal;
mod server_trust;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_mcp_client::{ElicitAnswer, Elicitation, ElicitationHandler};
use haft_tool::BoxFuture;

use elicitation::ElicitationDialog;
use raw_terminal::RawTerminal;

/// Shows an elicitation on the controlling terminal and reads the answer there.
#[derive(Debug)]
pub struct ConsoleElicitation;

/// Only one prompt may use the terminal at a time.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

impl ElicitationHandler for ConsoleElicitation {
    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        Box::pin(async move {
            let _turn = ONE_AT_A_TIME.lock().await;
            let question = PromptGuard::default();
            let taken_back = Arc::clone(&question.taken_back);
            // Without a terminal the user has neither accepted nor declined.
            let Ok(mut terminal) = RawTerminal::open(taken_back) else { return ElicitAnswer::Cancel };
            let before = terminal.before();
            let asked = tokio::task::spawn_blocking(move || {
                let colours = terminal.colours();
                ElicitationDialog { lines: &mut terminal, colours }.ask(&request)
            });
            tokio::select! {
                answer = asked => answer.ok().and_then(Result::ok).unwrap_or(ElicitAnswer::Cancel),
                () = told_to_end() => {
                    before.restore();
                    ElicitAnswer::Cancel
                }
            }
        })
    }
}

/// Completes on SIGTERM or SIGHUP: the process ends without waiting for the answer, so the terminal must
/// be restored first.
async fn told_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    match (signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
        (Ok(mut terminate), Ok(mut hang_up)) => tokio::select! {
            _ = terminate.recv() => (),
            _ = hang_up.recv() => (),
        },
        _ => std::future::pending().await,
    }
}

/// A pending prompt. Dropping it withdraws the prompt; the terminal is free within about 100 ms.
#[derive(Default)]
struct PromptGuard {
    taken_back: Arc<AtomicBool>,
}

impl Drop for PromptGuard {
    fn drop(&mut self) {
        self.taken_back.store(true, Ordering::Relaxed);
    }
}
