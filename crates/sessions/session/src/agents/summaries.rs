//! Progress summaries of sub-agents, written by their own models, for hosts that show them.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use haft_agent::SideRequest;
use haft_types::text;

use super::{
    ChildIdentity, SpawnContext, SubagentRegistry, child_observer::ChildObserver, isolation::parent_calls,
};
use crate::environment::SessionEnvironment;

/// Default interval; `HAFT_AGENT_SUMMARY_MS` overrides it.
const EVERY: Duration = Duration::from_secs(30);

/// Maximum time for a summary.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum characters of a summary; the rest is cut off.
const LONGEST: usize = 160;

const QUESTION: &str = "<system-reminder>\nAside from your task: say in three to eight words what you are doing right now, as a present participle and without a full stop (\"Reading the tests of the parser\"). Answer with these words alone, and call no tools.\n</system-reminder>";

/// The interval of summaries; `None` if the settings disable them.
pub(crate) fn summary_pace(premises: &SessionEnvironment) -> Option<Duration> {
    let says = |name: &str| premises.variable(name).filter(|it| !it.trim().is_empty());
    if says("CLAUDE_CODE_DISABLE_AGENT_PROGRESS_SUMMARIES").is_some_and(|it| it != "0" && it != "false") {
        return None;
    }
    let told = says("HAFT_AGENT_SUMMARY_MS").and_then(|it| it.trim().parse().ok());
    Some(told.map_or(EVERY, |ms: u64| Duration::from_millis(ms.max(1))))
}

impl SubagentRegistry {
    /// Sets the summary interval of agents that start from now on; `None` disables summaries.
    pub(crate) fn summarise_every(&self, pace: Option<Duration>) {
        *self.summary_pace.lock().unwrap_or_else(PoisonError::into_inner) = pace;
    }

    pub(super) fn summary_pace(&self) -> Option<Duration> {
        *self.summary_pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests a one-line summary from the agent's model at every interval and emits it. Skips a round if
/// the conversation has not changed. Returns at once if summaries are disabled, otherwise never;
/// dropping the future stops it. Each summary is a model request charged to the parent or the session;
/// one that takes longer than [`TIMEOUT`] is dropped silently.
pub(super) async fn tell_summaries(
    world: Arc<SpawnContext>,
    desk: Arc<SubagentRegistry>,
    facts: Arc<ChildIdentity>,
    watch: Arc<ChildObserver>,
) {
    let Some(every) = desk.summary_pace() else { return };
    let mut asked_at = 0;
    loop {
        tokio::time::sleep(every).await;
        let Some(basis) = world.fork_basis(&facts.id).filter(|it| it.messages.len() != asked_at) else {
            continue;
        };
        asked_at = basis.messages.len();
        let payer = parent_calls(&world, &desk, &facts.id).and_then(|it| it.payer);
        let payer = payer.unwrap_or_else(|| world.ledger.clone());
        let aside = SideRequest { provider: &world.provider, payer: &payer, agent: &facts.id };
        let said = tokio::time::timeout(TIMEOUT, basis.ask_aside(aside, QUESTION)).await;
        if let Ok(Some(words)) = said {
            watch.emit_summary(text::one_line(&words, LONGEST));
        }
    }
}
