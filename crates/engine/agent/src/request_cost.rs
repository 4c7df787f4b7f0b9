//! What answers cost, and who pays for them.

use haft_types::{AgentId, Role, Usage};

use crate::{Agent, answer_turn::IncomingAnswer, log::RequestPurpose};

/// An answer that was paid for.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestCost {
    /// Who asked.
    pub agent: AgentId,
    /// Who answered.
    pub model: String,
    /// What it took.
    pub usage: Usage,
    /// Money, where the price is known.
    pub usd: f64,
    /// Whether the provider said so, or it is an estimate.
    pub is_told: bool,
}

/// What an answer took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct UsedTokens {
    pub(crate) usage: Usage,
    /// Whether the provider said so, or it is an estimate.
    pub(crate) is_told: bool,
}

impl Agent {
    /// A request that was answered, if only in part, is paid for and written down, once.
    pub(crate) fn settle_begun(&mut self, answer: &mut IncomingAnswer) {
        self.pay(answer);
        if let Some(used) = answer.paid.filter(|_| !std::mem::replace(&mut answer.is_settled, true)) {
            self.settle(answer.sent.take().as_ref(), used, RequestPurpose::Answer);
        }
    }

    /// Pays for an answer, once; what was set aside for it is free.
    pub(crate) fn pay(&mut self, answer: &mut IncomingAnswer) {
        if !answer.message_id.is_empty() && answer.paid.is_none() {
            answer.paid = Some(self.charge(&answer.model, answer.usage));
        }
        self.free_money();
    }

    /// An answer broke off and is asked for again: what the provider counted of it
    /// is paid for all the same.
    pub(crate) fn settle_broken(&mut self, answer: &IncomingAnswer) {
        if !answer.message_id.is_empty() && !answer.usage.is_untold() {
            let used = self.charge(&answer.model, answer.usage);
            self.settle(None, used, RequestPurpose::Answer);
        }
    }

    /// Counts an answer, once: for this agent, and where it is paid. What a provider
    /// does not tell is estimated, because no answer is for nothing. What was counted
    /// comes back.
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

    /// What the last answer took, about.
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
