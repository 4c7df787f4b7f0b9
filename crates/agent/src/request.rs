//! What is asked.

use std::sync::Arc;

use haft_model::{Request, SystemPart, ToolDef, ToolSet};
use haft_tool::Exposure;

use crate::{Agent, structured::Structured};

/// Room for an answer when nobody says otherwise.
pub(crate) const DEFAULT_MAX_TOKENS: u32 = 32_000;

impl Agent {
    /// The next request.
    pub(crate) fn request(&mut self) -> Request {
        let info = self.provider.info(&self.settings.model);
        let most = u32::try_from(info.max_output).unwrap_or(u32::MAX);
        let parts = self.prompt.parts();
        let mut system: Vec<SystemPart> = parts.into_iter().map(SystemPart::from).collect();
        if let Some(first) = system.first_mut() {
            first.breakpoint = true;
        }
        let mut request = Request {
            system,
            tools: self.tool_set(),
            messages: self.conversation.messages().to_vec(),
            max_tokens: self.raised.or(self.settings.max_tokens).unwrap_or(DEFAULT_MAX_TOKENS).min(most),
            thinking: self.settings.thinking,
            thinking_display: self.settings.thinking_display,
            effort: self.settings.effort,
            task_budget: self.settings.task_budget,
            betas: self.settings.betas.clone(),
            ..Request::new(self.settings.model.clone(), [])
        };
        if let Some(window) = self.told_window {
            // The list does not know this window, so nobody else leaves room.
            let left = window.saturating_sub(self.provider.estimate_tokens(&request) * 5 / 4 + 500);
            request.max_tokens = request.max_tokens.min(u32::try_from(left).unwrap_or(u32::MAX)).max(1_024);
        }
        request
    }

    /// The tools of the next request; the same value as long as nothing
    /// changed, so that their bytes are made once.
    fn tool_set(&mut self) -> Arc<ToolSet> {
        let pool = self.tools.pool.get();
        let loaded = &self.tools.state.loaded;
        let direct = pool.tools().filter(|(_, tool)| tool.spec().exposure != Exposure::Deferred);
        let late = loaded.iter().filter_map(|name| pool.get(name).map(|tool| (name.as_str(), tool)));
        let late = late.filter(|(_, tool)| tool.spec().exposure == Exposure::Deferred);
        let wanted: Vec<(&str, _)> = direct.chain(late).collect();
        let names: Vec<String> = wanted.iter().map(|(name, _)| (*name).to_owned()).collect();
        if let Some((known, set)) = &self.tool_set
            && *known == names
        {
            return Arc::clone(set);
        }
        let define = |(name, tool): &(&str, &Arc<dyn haft_tool::DynTool>)| {
            let spec = tool.spec();
            ToolDef::new(*name, spec.description.clone(), spec.input_schema.clone())
        };
        let mut definitions: Vec<ToolDef> = wanted.iter().map(define).collect();
        definitions.extend(self.structured.as_ref().map(Structured::definition));
        let set = Arc::new(ToolSet::new(definitions));
        self.tool_set = Some((names, Arc::clone(&set)));
        set
    }
}
