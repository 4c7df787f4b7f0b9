//! Reserves money for reading reports of sub-agents.

use haft_agent::{Budget, ReportReserve};
use haft_builtin_tools::agent::{AgentReport, report_text};
use haft_model::Speed;
use haft_types::Usage;

use super::{ChildIdentity, SpawnContext, SubagentRegistry};

/// Reserves the cost of the request in which the main agent reads a report.
pub(super) struct ReportBudget {
    ledger: Budget,
    /// Price of an input token of the main agent.
    price: f64,
    /// Reservation for a report that is delivered in a turn of its own.
    _expected: Option<ReportReserve>,
}

impl ReportBudget {
    pub(super) fn new(world: &SpawnContext, desk: &SubagentRegistry, facts: &ChildIdentity) -> Self {
        let million = Usage { input_tokens: 1_000_000, ..Usage::default() };
        let price = world.provider.info(&desk.main_settings().model).price;
        let price = price.map_or(0.0, |price| price.of(&million, Speed::Normal) / 1e6);
        let is_heard_alone = facts.parent.is_main() && facts.in_background;
        let expected = is_heard_alone.then(|| world.ledger.expect_report());
        Self { ledger: world.ledger.clone(), price, _expected: expected }
    }

    /// Reserves the cost of reading a report, so that other agents cannot spend it.
    pub(super) fn keep_for(&self, facts: &ChildIdentity, report: &AgentReport) {
        if facts.parent.is_main() {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let tokens = report_text(report).len() as f64 / 3.0 + 100.0;
            self.ledger.keep_more(tokens * self.price);
        }
    }
}
