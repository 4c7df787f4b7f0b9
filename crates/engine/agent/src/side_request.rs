//! Requests about a conversation that do not become part of it.

use std::sync::Arc;

use haft_model::{ModelAnswer, Provider, Request, Speed};
use haft_types::{AgentId, Message, MessageBlock, Role, Usage};

use crate::{Budget, ForkBasis, RequestCost, build_request::DEFAULT_MAX_TOKENS, child_budget::cost_of};

/// The provider and budget of a side request.
pub struct SideRequest<'a> {
    pub provider: &'a Arc<dyn Provider>,
    /// The budget it is charged to.
    pub payer: &'a Budget,
    /// The agent it is about.
    pub agent: &'a AgentId,
}

impl ForkBasis {
    /// Asks a question about the conversation as last sent. The request begins with the same bytes, to
    /// hit the prompt cache. No tools are run and the conversation does not change. Returns `None` if
    /// the budget does not cover it, if it fails, or if the answer has no text.
    pub async fn ask_aside(&self, aside: SideRequest<'_>, question: &str) -> Option<String> {
        let SideRequest { provider, payer, agent } = aside;
        let mut request = self.aside_request(provider.as_ref(), question);
        let price = provider.info(&request.model).price;
        let _set_aside = match price {
            Some(price) => {
                let cost = cost_of(provider.as_ref(), price, &request);
                let (set_aside, tokens) = payer.reserve(cost).await.ok()?;
                request.max_tokens = tokens;
                Some(set_aside)
            }
            None => None,
        };
        let (model, estimated) = (request.model.clone(), provider.estimate_tokens(&request));
        let answer = ModelAnswer::collect(provider.stream(request)).await.ok()?;
        let words = answer.text();
        let is_told = !answer.usage.is_untold();
        let output_tokens = (words.len() as u64 / 4).max(1);
        let usage = if is_told {
            answer.usage
        } else {
            Usage { input_tokens: estimated, output_tokens, ..Usage::default() }
        };
        let usd = price.map_or(0.0, |price| price.of(&usage, Speed::Normal));
        payer.add_answer(RequestCost { agent: agent.clone(), model, usage, usd, is_told });
        let words = words.trim();
        (!words.is_empty()).then(|| words.to_owned())
    }

    fn aside_request(&self, provider: &dyn Provider, question: &str) -> Request {
        let info = provider.info(&self.settings.model);
        let most = u32::try_from(info.max_output).unwrap_or(u32::MAX);
        let mut messages = self.messages.clone();
        let asked = MessageBlock::Text { text: question.to_owned() };
        match messages.pop() {
            Some(last) if last.role == Role::User => {
                let mut last = Message::clone(&last);
                last.content.push(asked);
                messages.push(Arc::new(last));
            }
            last => {
                messages.extend(last);
                messages.push(Arc::new(Message { role: Role::User, content: vec![asked] }));
            }
        }
        Request {
            system: self.system(),
            tools: self.tools(),
            messages,
            max_tokens: self.settings.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS).min(most),
            thinking: self.settings.thinking,
            thinking_display: self.settings.thinking_display,
            effort: self.settings.effort,
            cache: self.settings.cache,
            betas: self.settings.betas.clone(),
            ..Request::new(self.settings.model.clone(), [])
        }
    }
}
