//! Closing a session.

use std::time::Duration;

use haft_hooks::{HookInput, SessionEnd};

use super::{RunnerState, SessionActor, calls_of, running::FinishedWork};
use crate::{CloseMode, build::SessionRunner};

/// Time for running work and for agents to end after they were cancelled.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Maximum time for an orderly close: hooks, servers, tool hosts and processes. SessionEnd hooks have
/// shorter timeouts of their own.
const MAX_CLOSING: Duration = Duration::from_secs(10);

/// Time for child processes to exit before they are killed.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(2);

impl SessionActor {
    /// Cancels running work, then closes agents, hooks, servers, tool hosts and processes. Takes at most
    /// a few seconds more than [`MAX_CLOSING`].
    pub(super) async fn close(&mut self, how: CloseMode) {
        self.desk.close();
        self.end_running().await;
        self.tell_cut_off();
        self.agents.close(LAST_WORDS).await;
        let closing = async {
            if how == CloseMode::Orderly {
                self.say_goodbye().await;
            }
            if let Some(calls) = calls_of(&self.seat) {
                calls.close().await;
            }
            self.servers.stop().await;
            if let Some(hosts) = self.watch.background.hosts() {
                hosts.close().await;
            }
            self.end_processes().await;
        };
        let limit = if how == CloseMode::Orderly { MAX_CLOSING } else { LAST_WORDS * 3 };
        tokio::time::timeout(limit, closing).await.ok();
        self.watch.finish().await;
    }

    /// Reports background commands that are about to be killed, to the user and, through the log, to the
    /// model.
    fn tell_cut_off(&mut self) {
        let cut_off = self.watch.background.running();
        if cut_off.is_empty() {
            return;
        }
        let words = self.watch.background.tell_cut_off(&cut_off);
        if let RunnerState::Idle(SessionRunner::Agent(agent)) = &mut self.seat {
            agent.remind(words);
        }
    }

    async fn end_running(&mut self) {
        let RunnerState::Working(running) = &mut self.seat else { return };
        running.cancel();
        let ended = tokio::time::timeout(LAST_WORDS, running.ended()).await;
        self.seat = match ended {
            Ok(FinishedWork::Turn(Ok((agent, _))) | FinishedWork::Look(Ok(agent))) => {
                RunnerState::Idle(SessionRunner::Agent(agent))
            }
            Ok(FinishedWork::Calls(Ok(session))) => RunnerState::Idle(SessionRunner::Calls(session)),
            _ => RunnerState::Broken,
        };
    }

    /// Runs the SessionEnd hooks of settings and plugins. Hooks added later by the host are not run: the
    /// host knows that the session ends.
    async fn say_goodbye(&self) {
        let gate = &self.pipeline.gate;
        let base = gate.hooks().base(self.premises.cwd.clone(), gate.mode());
        let event = SessionEnd { reason: String::from("other") }.into();
        self.own_hooks.run(&HookInput { base, event, aliases: Vec::new() }).await;
    }

    /// Ends the processes that commands left running.
    async fn end_processes(&mut self) {
        let Some(tasks) = self.watch.background.tasks().cloned() else { return };
        let ended = tokio::task::spawn_blocking(move || tasks.shell().owner().end(PROCESS_TIMEOUT)).await;
        self.processes_ended = true;
        if !ended.unwrap_or(true) {
            self.events.notice("some processes of this session are still running");
        }
    }
}

impl Drop for SessionActor {
    /// Ends the processes of commands also when the task is dropped without a close, because the runtime
    /// shuts down. Blocks up to [`PROCESS_TIMEOUT`].
    fn drop(&mut self) {
        self.server_tools.let_go();
        if let Some(tasks) = self.watch.background.tasks().filter(|_| !self.processes_ended) {
            tasks.shell().owner().end(PROCESS_TIMEOUT);
        }
    }
}
