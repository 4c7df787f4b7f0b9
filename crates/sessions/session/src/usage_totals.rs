//! What a session has used, by model and by agent.

use std::collections::BTreeMap;

use haft_agent::RequestCost;
use haft_types::{AgentId, Usage};

/// What a session has used so far.
#[derive(Clone, Debug, Default)]
pub struct UsageTotals {
    /// Tokens by model.
    pub models: BTreeMap<String, Usage>,
    /// What fits into each model, and the longest answer, where the provider knows it
    /// better than the list of models.
    pub windows: BTreeMap<String, (u64, u64)>,
    /// Money in all.
    pub usd: f64,
    /// The same for each agent, once the main one is not alone. Everything that was
    /// used is with one of them.
    pub agents: BTreeMap<AgentId, AgentUsage>,
}

/// What one agent has used, in all of its runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AgentUsage {
    /// Its kind; nothing for the main agent.
    pub kind: Option<String>,
    /// Tokens by model.
    pub models: BTreeMap<String, Usage>,
    /// Money, where prices are known.
    pub usd: f64,
    /// Answers.
    pub answers: u64,
    /// Those of them whose use the provider did not tell: it is an estimate.
    pub estimated: u64,
}

impl AgentUsage {
    /// Tokens of all models.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        self.models.values().for_each(|it| sum += *it);
        sum
    }
}

impl UsageTotals {
    /// Somebody paid for an answer.
    pub(crate) fn add(&mut self, paid: &RequestCost) {
        *self.models.entry(paid.model.clone()).or_default() += paid.usage;
        self.usd += paid.usd;
        let agent = self.agents.entry(paid.agent.clone()).or_default();
        *agent.models.entry(paid.model.clone()).or_default() += paid.usage;
        agent.usd += paid.usd;
        agent.answers += 1;
        agent.estimated += u64::from(!paid.is_told);
    }

    /// What an earlier process used counts for the model that goes on: who used it is
    /// in the logs.
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

/// Stands for the agents of earlier processes.
const EARLIER: &str = "earlier";
