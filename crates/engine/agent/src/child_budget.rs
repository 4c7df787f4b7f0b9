//! What differs for sub-agents: the budget, the Stop hooks, and the final answer.

use std::path::Path;

use haft_hooks::{HookEvent, HooksOutcome, Stop, SubagentStop};
use haft_model::{Provider, Request, Speed, TokenPrice};
use haft_types::{AgentId, Message, MessageBlock, Role, SessionId, Usage};
use tokio_util::sync::CancellationToken;

use crate::{
    Agent, Budget, Conversation, InjectionReason, LimitReached, RequestCost, Restored,
    answer_turn::NoAnswer,
    budget::{CostEstimate, OwnRequest},
    log::LogState,
};

/// Price factor of input tokens that are written to the prompt cache.
const CACHE_WRITE: f64 = 1.25;

/// Estimates the maximum cost of a request.
pub(crate) fn cost_of(provider: &dyn Provider, price: TokenPrice, request: &Request) -> CostEstimate {
    let input = Usage { input_tokens: provider.estimate_tokens(request), ..Usage::default() };
    let million = Usage { output_tokens: 1_000_000, ..Usage::default() };
    CostEstimate {
        input_usd: price.of(&input, Speed::Normal) * CACHE_WRITE,
        output_usd: price.of(&million, Speed::Normal) / 1e6,
        tokens: request.max_tokens,
    }
}

impl Agent {
    /// Charges this agent to a budget: every request reserves money first, and is not sent if there is
    /// not enough.
    pub fn paid_by(&mut self, ledger: Budget) {
        self.patron = Some(ledger);
    }

    /// Reserves money for a request, if the agent is charged to another budget. May lower the request's
    /// output limit.
    pub(crate) async fn reserve_budget(&mut self, request: &mut Request) -> Result<(), LimitReached> {
        let price = self.provider.info(&request.model).price;
        let Some(price) = price else { return Ok(()) };
        if self.patron.is_none() && self.ledger.limit().is_none() {
            return Ok(());
        }
        let cost = cost_of(self.provider.as_ref(), price, request);
        self.reserved = None;
        let turn = if self.spending.usd == 0.0 { OwnRequest::First } else { OwnRequest::Later };
        let set_aside = match &self.patron {
            Some(payer) => payer.reserve(cost).await,
            None => self.ledger.reserve_own(cost, turn).await,
        };
        let (reservation, tokens) = set_aside.map_err(LimitReached::Budget)?;
        request.max_tokens = tokens;
        self.reserved = Some(reservation);
        Ok(())
    }

    /// Charges the cost of an answer to the budget.
    pub(crate) fn bill(&self, paid: RequestCost) {
        match &self.patron {
            Some(payer) => payer.add_answer(paid),
            None => self.ledger.record_own_request(paid),
        }
    }

    /// Releases the rest of the money reserved for the finished request.
    pub(crate) fn release_reservation(&mut self) {
        self.reserved = None;
    }

    /// Runs the hooks before the agent stops.
    pub(crate) async fn stop_hooks(&mut self, is_again: bool) -> HooksOutcome {
        let last = Some(self.conversation.last_text());
        let gate = &self.tools.pipeline.gate;
        let base = gate.hook_base(&self.tools.agent_id, self.tools.state.cwd.to_path_buf());
        match self.tools.agent_id.clone() {
            AgentId::Main => {
                let event = Stop {
                    stop_hook_active: is_again,
                    last_assistant_message: last,
                    background_tasks: Vec::new(),
                    session_crons: Vec::new(),
                };
                self.hooks(HookEvent::Stop, event).await
            }
            agent_id => {
                let event = SubagentStop {
                    stop_hook_active: is_again,
                    agent_id,
                    agent_type: base.agent_type.unwrap_or_default(),
                    agent_transcript_path: self
                        .conversation
                        .log_path()
                        .map(std::path::Path::to_owned)
                        .unwrap_or_default(),
                    last_assistant_message: last,
                };
                self.hooks(HookEvent::SubagentStop, event).await
            }
        }
    }

    /// Demands a final answer in text; tool calls in it are not run. Returns its text, if there is any.
    pub async fn request_final_text(&mut self, demand: &str, cancel: &CancellationToken) -> Option<String> {
        self.say(Message::user(demand), InjectionReason::Demand);
        self.calls_are_over = true;
        self.spending.turns += 1;
        let answered = self.ask(cancel).await;
        self.calls_are_over = false;
        match answered {
            Ok(_) => Some(self.conversation.last_text()).filter(|text| !text.trim().is_empty()),
            Err(NoAnswer::Interrupted(_) | NoAnswer::Failed(_) | NoAnswer::TooDear(_)) => None,
        }
    }

    /// Logs a state entry.
    pub fn keep(&mut self, state: LogState) {
        self.note(state);
    }
}

impl Conversation {
    /// The conversation of a sub-agent in the same session.
    pub fn of_child(session_id: SessionId, cwd: &Path) -> Self {
        let mut conversation = Self::new(session_id, cwd, None);
        conversation.is_sidechain = true;
        conversation
    }

    /// Restores the conversation of a sub-agent. `epoch` is that of the log's owner, if a remote store
    /// has one.
    pub fn resume_child(
        session_id: SessionId,
        cwd: &Path,
        from: &Path,
        epoch: Option<u64>,
    ) -> std::io::Result<(Self, Restored)> {
        Self::resumed(Self::of_child(session_id, cwd).owned(epoch), from, None, &|_: &haft_types::CallId| {
            None
        })
    }

    /// The last non-empty text of the model after the first `behind` messages.
    pub fn last_said(&self, behind: usize) -> String {
        let texts = self
            .messages()
            .get(behind..)
            .unwrap_or_default()
            .iter()
            .rev()
            .filter(|message| message.role == Role::Assistant);
        let texts = texts.map(|message| {
            let texts = message.content.iter().filter_map(|block| match block {
                MessageBlock::Text { text } => Some(text.as_str()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("")
        });
        texts.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default()
    }
}
