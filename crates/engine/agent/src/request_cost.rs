//! The cost of answers, and the budgets it is charged to.

use haft_types::{AgentId, Role, Usage};

use crate::{Agent, answer_turn::IncomingAnswer, log::RequestPurpose};

/// The cost of one answer.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestCost {
    /// The agent that sent the request.
    pub agent: AgentId,
    /// Name of the model.
    pub model: String,
    /// Tokens used.
    pub usage: Usage,
    /// Cost in US dollars; 0 without a known price.
    pub usd: f64,
    /// Whether the provider reported the usage; otherwise it is an estimate.
    pub is_told: bool,
}

/// Usage of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UsedTokens {
    pub(crate) usage: Usage,
    /// Whether the provider reported the usage; otherwise it is an estimate.
    pub(crate) is_told: bool,
}

impl Agent {
    /// Charges and logs an answer, also a partial one, once.
    pub(crate) fn settle_partial_answer(&mut self, answer: &mut IncomingAnswer) {
        self.pay(answer);
        if let Some(used) = answer.paid.filter(|_| !std::mem::replace(&mut answer.is_settled, true)) {
            self.settle(answer.sent.take().as_ref(), used, RequestPurpose::Answer);
        }
    }

    /// Charges an answer, once, and releases the rest of its reservation.
    pub(crate) fn pay(&mut self, answer: &mut IncomingAnswer) {
        if !answer.message_id.is_empty() && answer.paid.is_none() {
            answer.paid = Some(self.charge(&answer.model, answer.usage));
        }
        self.release_reservation();
    }

    /// Charges a broken answer that is requested again: the provider bills what it has counted.
    pub(crate) fn settle_broken(&mut self, answer: &IncomingAnswer) {
        if !answer.message_id.is_empty() && !answer.usage.is_untold() {
            let used = self.charge(&answer.model, answer.usage);
            self.settle(None, used, RequestPurpose::Answer);
        }
    }

    /// Adds an answer to the agent's usage and charges the budgets, once. Estimates the usage if the
    /// provider did not report it. Returns what was charged.
    pub(crate) fn charge(&mut self, model: &str, usage: Usage) -> UsedTokens {
        let is_told = !usage.is_untold();
        let usage = if is_told { usage } else { self.guess() };
        let price = self.provider.info(&self.settings.model).price;
        let usd = price.map_or(0.0, |price| price.of(&usage, haft_model::Speed::Normal));
        self.spending.usage += usage;
        self.spending.usd += usd;
        self.spending.untold += u32::from(!is_told);
        let (agent, model) = (self.tools.agent_id.clone(), model.to_owned());
        self.bill(RequestCost { agent, model, usage, usd, is_told });
        UsedTokens { usage, is_told }
    }

    /// Estimates the usage of the last answer.
    fn guess(&mut self) -> Usage {
        let mut request = self.request();
        let whole = self.provider.estimate_tokens(&request);
        while request.messages.last().is_some_and(|it| it.role == Role::Assistant) {
            request.messages.pop();
        }
        let input_tokens = self.provider.estimate_tokens(&request);
        let output_tokens = whole.saturating_sub(input_tokens).max(1);
        Usage { input_tokens, output_tokens, ..Usage::default() }
    }
}
