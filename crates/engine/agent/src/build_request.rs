//! Builds model requests.

use std::sync::Arc;

use haft_model::{Effort, ModelInfo, Request, SentPrefix, SystemPart, Thinking, ThinkingSupport, ToolSet};
use haft_tool::ContextChange;
use haft_tool_runtime::AnsweredCall;
use haft_types::{Block, Message, Role, tags};

use crate::{
    Agent, AgentEvent, Compaction, InjectionReason, SystemPrompt, UserInput,
    conversation::MessageOrigin,
    log::{LogState, RequestLine, RequestPurpose},
    prefix::{CacheMissReason, CacheTracker, DeclaredPrefix, PrefixSources},
    request_cost::UsedTokens,
    structured_output::StructuredOutput,
};

/// Default output limit in tokens.
pub(crate) const DEFAULT_MAX_TOKENS: u32 = 32_000;

impl Agent {
    pub(crate) fn request(&mut self) -> Request {
        let info = self.provider.info(&self.settings.model);
        let most = u32::try_from(info.max_output).unwrap_or(u32::MAX);
        let (system, tools) = self.declaration();
        let mut request = Request {
            system,
            tools,
            messages: self.conversation.messages().to_vec(),
            max_tokens: self.raised.or(self.settings.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS).min(most),
            thinking: self.thinking(info.thinking),
            thinking_display: self.settings.thinking_display,
            effort: self.effort_for(&info),
            cache: self.settings.cache,
            task_budget: self.settings.task_budget,
            betas: self.settings.betas.clone(),
            paused: self.paused,
            ..Request::new(self.settings.model.clone(), [])
        };
        self.leave_room(&mut request);
        request
    }

    /// The effort level to request. Without a setting, models without effort levels get none.
    fn effort_for(&self, info: &ModelInfo) -> Option<Effort> {
        let asked = self.settings.effort_asked();
        asked.filter(|_| self.settings.effort.is_some() || !info.efforts.is_empty())
    }

    /// The thinking setting to send, adapted to what the model supports.
    fn thinking(&self, support: ThinkingSupport) -> Thinking {
        match (self.settings.thinking, support) {
            (Thinking::Default, ThinkingSupport::Adaptive | ThinkingSupport::Both)
                if self.settings.thinks_where_it_can =>
            {
                Thinking::Adaptive
            }
            (said, _) => said,
        }
    }

    /// System prompt and tools of the next request: the same bytes as in the previous request if
    /// possible, for the prompt cache.
    fn declaration(&mut self) -> (Vec<SystemPart>, Arc<ToolSet>) {
        let declared = self.declare(PrefixContinuity::Kept);
        (declared.system(), declared.set())
    }

    pub(crate) fn declare(&mut self, beginning: PrefixContinuity) -> &mut DeclaredPrefix {
        if self.declared.as_ref().is_some_and(|it| !it.is_of(self.conversation.session_id())) {
            // The session changed: nothing of the old one may be sent.
            self.declared = None;
            self.watch = CacheTracker::default();
        }
        let pool = self.tools.pool.get();
        let from = PrefixSources {
            session: self.conversation.session_id(),
            prompt: &self.prompt,
            pool: &pool,
            loaded: &self.tools.state.loaded,
            structured: self
                .structured
                .as_ref()
                .map(StructuredOutput::definition)
                .or_else(|| self.declared_only.clone()),
            messages: self.conversation.messages(),
        };
        let declared =
            self.declared.get_or_insert_with(|| DeclaredPrefix::new(&from, std::mem::take(&mut self.stored)));
        match beginning {
            PrefixContinuity::Kept => declared.follow(&from),
            PrefixContinuity::Renewed => declared.renew(&from),
        }
        declared
    }

    /// The system prompt that requests begin with: [`Agent::prompt`], or that of an earlier process if
    /// the differences can be sent as messages.
    pub fn sent_prompt(&mut self) -> SystemPrompt {
        self.declare(PrefixContinuity::Kept).prompt().clone()
    }

    /// Rebuilds the beginning of requests after a compaction.
    pub(crate) fn renew(&mut self, how: Compaction) {
        self.watch.because(CacheMissReason::Shortened(how));
        if let Some(companion) = &self.tools.companion {
            companion.forget(&self.tools);
        }
        if !self.prompt.deferred_tools.is_empty() {
            let pool = self.tools.pool.get();
            self.prompt.deferred_tools = pool.deferred().map(|(name, _)| name.to_owned()).collect();
        }
        self.declare(PrefixContinuity::Renewed);
    }

    /// Adds messages about changes that the beginning of requests does not contain, and logs that
    /// beginning.
    pub(crate) fn catch_up(&mut self) {
        for UserInput { content, origin, .. } in self.inbox.take_mentioned() {
            let origin = origin.map_or(MessageOrigin::Meta, MessageOrigin::Reported);
            self.say_from(Message { role: Role::User, content }, InjectionReason::Context, origin);
        }
        let pool = self.tools.pool.get();
        let declared = self.declare(PrefixContinuity::Kept);
        let (news, states) = (declared.take_news(&pool), declared.take_log());
        if !news.is_empty() {
            let told = tags::reminder(&news.join("\n\n"));
            self.say(Message::user(told), InjectionReason::Context);
        }
        states.into_iter().for_each(|state| self.note(state));
    }

    /// Adds a reference to a tool to the result that used it, so that the model sees its definition from
    /// then on. Returns the context change that loads it.
    pub(crate) fn refer(&mut self, answered: &mut Arc<AnsweredCall>) -> Option<ContextChange> {
        let AnsweredCall { call, report } = answered.as_ref();
        let pool = self.tools.pool.get();
        let declared = self.declare(PrefixContinuity::Kept);
        for block in &report.content.0 {
            if let Block::ToolReference { tool_name } = block {
                declared.refer(tool_name);
            }
        }
        let name = pool.wire_name(&call.name).filter(|_| report.error.is_none())?;
        declared.wants_reference(name).then(|| {
            let reference = Block::ToolReference { tool_name: name.to_owned() };
            Arc::make_mut(answered).report.content.0.push(reference);
            ContextChange::LoadTools(vec![name.to_owned()])
        })
    }

    /// Logs an answered request, and reports a prompt cache miss.
    pub(crate) fn settle(
        &mut self,
        sent: Option<&Arc<SentPrefix>>,
        used: UsedTokens,
        purpose: RequestPurpose,
    ) {
        let usage = used.usage;
        let model = self.settings.model.clone();
        let price = self.provider.info(&model).price;
        let (request, sent, bust) = match sent.filter(|_| purpose == RequestPurpose::Answer) {
            Some(sent) => {
                let parts = self.declared.as_ref().map(DeclaredPrefix::part_names).unwrap_or_default();
                let (request, kept, bust) = self.watch.answered(sent, &usage, &parts);
                (request, Some(kept), bust)
            }
            None => (self.watch.aside(), None, None),
        };
        if let Some(bust) = &bust {
            self.busts.push(bust.clone());
            self.tell(AgentEvent::Bust(bust.clone()));
        }
        self.note(LogState::Asked(Box::new(RequestLine {
            request,
            timestamp: crate::log::now(),
            model,
            purpose,
            usage,
            is_estimate: !used.is_told,
            usd: price.map(|price| price.of(&usage, haft_model::Speed::Normal)),
            bust,
            sent,
        })));
    }
}

/// Whether a request begins like the previous one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PrefixContinuity {
    Kept,
    /// The conversation was replaced, so it need not.
    Renewed,
}
