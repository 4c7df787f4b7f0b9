//! What agents do right now, in a few words of their own model, for hosts that want
//! to show it.

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

/// How often, unless `HAFT_AGENT_SUMMARY_MS` says so.
const EVERY: Duration = Duration::from_secs(30);

/// Nobody waits longer for a line.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Longer lines are cut.
const LONGEST: usize = 160;

const QUESTION: &str = "<system-reminder>\nAside from your task: say in three to eight words what you are doing right now, as a present participle and without a full stop (\"Reading the tests of the parser\"). Answer with these words alone, and call no tools.\n</system-reminder>";

/// How often agents are asked what they do, where a host wants it and nobody is
/// against it.
pub(crate) fn summary_pace(premises: &SessionEnvironment) -> Option<Duration> {
    let says = |name: &str| premises.variable(name).filter(|it| !it.trim().is_empty());
    if says("CLAUDE_CODE_DISABLE_AGENT_PROGRESS_SUMMARIES").is_some_and(|it| it != "0" && it != "false") {
        return None;
    }
    let told = says("HAFT_AGENT_SUMMARY_MS").and_then(|it| it.trim().parse().ok());
    Some(told.map_or(EVERY, |ms: u64| Duration::from_millis(ms.max(1))))
}

impl SubagentRegistry {
    /// Agents that begin from now on are asked so often what they do, or never.
    pub(crate) fn summarise_every(&self, pace: Option<Duration>) {
        *self.summary_pace.lock().unwrap_or_else(PoisonError::into_inner) = pace;
    }

    pub(super) fn summary_pace(&self) -> Option<Duration> {
        *self.summary_pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks an agent again and again what it does, until somebody drops it. It is not
/// asked while its conversation stays as it was.
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
            watch.tell_summary(text::one_line(&words, LONGEST));
        }
    }
}
