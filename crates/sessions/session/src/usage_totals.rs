//! Token usage and cost of a session, by model and by agent.

use std::collections::BTreeMap;

use haft_agent::RequestCost;
use haft_types::{AgentId, Usage};

/// Token usage and cost of a session so far.
#[derive(Clone, Debug, Default)]
pub struct UsageTotals {
    /// Tokens by model name.
    pub models: BTreeMap<String, Usage>,
    /// Context window and maximum output tokens by model, where the provider reports better values than
    /// the catalog.
    pub windows: BTreeMap<String, (u64, u64)>,
    /// Total cost in US dollars.
    pub usd: f64,
    /// Usage by agent, including the main agent. Usage of earlier processes of a resumed session is
    /// under the id `earlier`.
    pub agents: BTreeMap<AgentId, AgentUsage>,
}

/// Usage of one agent, over all of its runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentUsage {
    /// Kind of the agent; `None` for the main agent.
    pub kind: Option<String>,
    /// Tokens by model name.
    pub models: BTreeMap<String, Usage>,
    /// Cost in US dollars; requests to models without a known price count as 0.
    pub usd: f64,
    /// Number of model responses.
    pub answers: u64,
    /// Number of responses without usage data from the provider, whose usage is estimated.
    pub estimated: u64,
}

impl AgentUsage {
    /// Sum of the tokens of all models.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.models.values().for_each(|it| sum += *it);
        sum
    }
}

impl UsageTotals {
    /// Adds the cost of one request.
    pub(crate) fn add(&mut self, paid: &RequestCost) {
        *self.models.entry(paid.model.clone()).or_default() += paid.usage;
        self.usd += paid.usd;
        let agent = self.agents.entry(paid.agent.clone()).or_default();
        *agent.models.entry(paid.model.clone()).or_default() += paid.usage;
        agent.usd += paid.usd;
        agent.answers += 1;
        agent.estimated += u64::from(!paid.is_told);
    }

    /// Totals that start with the usage of earlier processes of a resumed session. All of it is
    /// attributed to the model the session continues with.
    pub(crate) fn of_earlier(model: &str, usage: Usage, usd: f64) -> Self {
        let mut bill = Self { usd, ..Self::default() };
        if 0 < usage.output_tokens {
            bill.models.insert(model.to_owned(), usage);
            let models = BTreeMap::from([(model.to_owned(), usage)]);
            let earlier = AgentUsage { models, usd, ..AgentUsage::default() };
            bill.agents.insert(AgentId::new(EARLIER), earlier);
        }
        bill
    }
}

/// Agent id for the usage of earlier processes.
const EARLIER: &str = "earlier";
