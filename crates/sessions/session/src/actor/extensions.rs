//! Reloading slash commands, skills, agents and styles while the session is open.
//!
//! **Invariant:** the beginning of requests does not change after the first prompt, to keep the
//! prompt cache valid. Changes of skills, agents and styles are added to the conversation as messages.

use std::sync::Arc;

use haft_agent::UserInput;
use haft_types::MessageBlock;

use super::{DeferredChange, RunnerState, SessionActor};
use crate::{
    agents::AgentKindCatalog,
    build::chosen_style,
    extensions::{Extensions, SKILL_TOOL, fingerprint, skill_tool},
};

impl SessionActor {
    /// Reloads the extensions if one of their files has changed.
    pub(super) fn follow_extensions(&mut self) {
        let now = fingerprint(&self.premises);
        if now != self.extension_files {
            self.reload();
        }
    }

    /// Reloads the extensions from disk.
    pub(super) fn reload(&mut self) {
        self.extension_files = fingerprint(&self.premises);
        let before = std::mem::replace(&mut self.extensions, Extensions::load(&self.premises, &self.plugins));
        let news = self.extensions.problems.iter().filter(|it| !before.problems.contains(it));
        news.for_each(|it| self.events.notice(it.to_string()));
        if let Some(lsp) = &self.lsp {
            lsp.set_plugin_servers(self.extensions.language_servers(&self.premises));
        }
        self.install_skills();
        self.install_agents();
        self.install_style();
    }

    /// Applies the output style that the settings choose.
    pub(super) fn install_style(&mut self) {
        if self.spec.model.as_ref().is_some_and(|it| it.replay.is_none()) {
            let style = chosen_style(&self.premises, &self.extensions);
            self.change(DeferredChange::Style(style));
        }
    }

    /// Installs the current skills. Before the first prompt they become part of the system prompt; later
    /// the model is told about changes in a message.
    pub(super) fn install_skills(&mut self) {
        let before = self.skills.listed();
        self.skills.set(self.extensions.skills(self.wanted_skills.as_deref()));
        let now = self.skills.listed();
        let only = self.spec.tools.only.as_ref();
        let is_wanted = only.is_none_or(|only| only.iter().any(|name| name == SKILL_TOOL))
            && self.spec.model.is_some()
            && (self.spec.tools.built_in || !now.is_empty())
            && self.pipeline.gate.permissions().policy().removes(SKILL_TOOL).is_none()
            && self.server_tools.leaves(SKILL_TOOL);
        if self.results == 0 && matches!(self.seat, RunnerState::Idle(_)) {
            let listing = self.skills.listing(self.catalog.get(&self.first_model).window);
            if let Some(note) = listing.note().filter(|_| is_wanted && before != now) {
                let all = now.len();
                self.events.notice(format!(
                    "the list of {all} skills is too long for its part of the window (skillListingBudgetFraction): {note}"
                ));
            }
            let tool = is_wanted.then(|| skill_tool(Arc::clone(&self.skills), &listing));
            return self.change(DeferredChange::Tool(SKILL_TOOL, tool));
        }
        if !is_wanted {
            return;
        }
        let mut lines: Vec<String> = now
            .iter()
            .filter(|it| !before.iter().any(|old| old.name == it.name && old.description == it.description))
            .map(|it| format!("- {}: {}", it.name, haft_builtin_tools::agent::flat(&it.description, 600)))
            .collect();
        let gone = before.iter().filter(|old| !now.iter().any(|it| it.name == old.name));
        lines.extend(gone.map(|it| format!("- {} is gone", it.name)));
        if !lines.is_empty() {
            self.mention(format!("The list of skills changed:\n{}", lines.join("\n")));
        }
    }

    /// Adds a text to the next model request.
    pub(super) fn mention(&self, text: String) {
        if let Some(reach) = &self.reach {
            let text = haft_types::tags::reminder(&text);
            let content = vec![MessageBlock::Text { text }];
            reach.inbox.mention(UserInput { content, ..UserInput::default() });
        }
    }

    /// Makes the main agent use the agent definition that the spec names. An unknown name is reported
    /// once and otherwise ignored.
    pub(super) fn apply_named_agent(&mut self) {
        let Some(name) = self.spec.model.as_ref().and_then(|it| it.agent.clone()) else { return };
        let shelf = AgentKindCatalog::new(&self.extensions.agents, &self.host_agents);
        let Some(kind) = shelf.find(&name).cloned() else { return };
        if self.results == 0 {
            self.initial_prompt.clone_from(&kind.initial_prompt);
        }
        self.agents.set_main_kind(&kind);
        self.server_tools.restrict_to(&kind);
        kind.bind(self.pipeline.gate.permissions());
        if self.results == 0
            && self.spec.permissions.mode.is_none()
            && let Some(mode) = kind.mode_of_main(self.pipeline.gate.mode(), self.premises.may_bypass())
        {
            self.pipeline.gate.set_mode(mode);
        }
        self.change(DeferredChange::Become(kind));
    }
}
