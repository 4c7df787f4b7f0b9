//! An agent out of flags, settings and a session.

use std::{collections::BTreeMap, path::PathBuf};

use haft_agent::{
    Agent, AgentEvent, AgentSettings, Base, Conversation, Environment, Held, Masker, Memory, MemoryPlaces,
    Prompt, Restored,
    cassette::{Tape, TapeHeader},
    log::LogFile,
};
use haft_model::Catalog;
use haft_tool::ContextChange;
use haft_types::{Message, PermissionMode};
use tokio::sync::mpsc;

use super::{Attended, Setup, provider::Chosen, split_rules};
use crate::{
    args::RunArgs,
    output::{Failure, complain},
};

/// The model when nobody names one.
const DEFAULT_MODEL: &str = "claude-opus-4-5";

/// An agent and what it tells.
pub(crate) struct Built {
    pub(crate) agent: Agent,
    pub(crate) events: mpsc::UnboundedReceiver<AgentEvent>,
    pub(crate) key_source: String,
    /// Who answers.
    pub(crate) provider_name: String,
}

impl Setup {
    /// An agent for a run without a person.
    pub(crate) fn agent(&mut self, run: &RunArgs) -> Result<Built, Failure> {
        let chosen = self.provider(run)?;
        self.agent_on(chosen, run)
    }

    /// The same with a given provider.
    pub(crate) fn agent_on(&mut self, chosen: Chosen, run: &RunArgs) -> Result<Built, Failure> {
        if let Some(id) = run.session_id {
            self.session_id = id.to_string().into();
            self.refuse_used_id(run)?;
        }
        self.only_tools = run.tools.as_ref().map(|list| split_rules(std::slice::from_ref(list)));
        let resumed = self.resumed(run)?;
        self.held = Some(Held::default());
        let session = self.session(Attended::Never)?;
        let (mut conversation, mut restored) = match resumed {
            Some(resumed) => resumed,
            None => (Conversation::new(self.session_id.clone(), &self.cwd, None), Restored::default()),
        };
        conversation.share_held(self.held.clone().unwrap_or_default());
        self.restore_seen(&restored);
        if !run.sdk.no_session_persistence {
            if conversation.log_path().is_none() {
                conversation.set_log(self.open_log()?);
            }
            conversation.mask(Masker::of_env(std::env::vars()));
        }
        if run.sdk.session_mirror {
            conversation.mirror();
        }
        let provider_name = chosen.provider.name().to_owned();
        let settings = self.agent_settings(run, &chosen.catalog)?;
        self.sampler.answer_with(std::sync::Arc::clone(&chosen.provider), &settings.model);
        let (mut agent, events) =
            Agent::new(chosen.provider, session, conversation, settings, self.prompt(run)?);
        self.sampler.charge_to(&agent.ledger);
        agent.restore_spending(restored.usage, restored.usd);
        agent.tools.state.apply(&restored.changes);
        agent.restore_kept(restored.kept.clone());
        agent.restore_requests(&mut restored);
        restore_plan_mode(&agent, &restored, self.options.permission_mode);
        report_losses(&restored);
        if let Some(schema) = &run.json_schema {
            let schema =
                serde_json::from_str(schema).map_err(|err| format!("--json-schema is not JSON: {err}"))?;
            agent.require_output(schema)?;
        }
        Ok(Built { agent, events, key_source: chosen.key_source, provider_name })
    }

    pub(super) fn open_log(&self) -> Result<LogFile, Failure> {
        let log = LogFile::open(self.log_path(self.session_id.as_str()));
        Ok(log.map_err(|err| format!("the session log: {err}"))?)
    }

    /// Writes the run down if somebody wants that. Called when the agent knows
    /// everything it is told first.
    pub(crate) fn record(&self, agent: &mut Agent, run: &RunArgs) -> Result<(), Failure> {
        let named = std::env::var_os("HAFT_RECORD").filter(|it| !it.is_empty()).map(PathBuf::from);
        let Some(path) = run.record.as_ref().or(named.as_ref()) else { return Ok(()) };
        let header = TapeHeader {
            haft_cassette: 1,
            settings: agent.settings.clone(),
            prompt: agent.sent_prompt(),
            output_schema: agent.output_schema().cloned(),
            tools: agent.tools.pool.get().names().map(str::to_owned).collect(),
            messages: agent.conversation.messages().iter().map(|it| Message::clone(it)).collect(),
        };
        let tape = Tape::create(path, &header, self.tape_places());
        agent.record(tape.map_err(|err| format!("--record {}: {err}", path.display()))?);
        Ok(())
    }

    pub(super) fn agent_settings(&self, run: &RunArgs, catalog: &Catalog) -> Result<AgentSettings, Failure> {
        let from_settings = self.loaded.settings.model.as_ref().map(|model| model.value.clone());
        let from_env = ["HAFT_MODEL", "ANTHROPIC_MODEL", "OPENAI_MODEL"]
            .iter()
            .find_map(|name| self.variable(name, run).filter(|it| !it.trim().is_empty()));
        let model =
            run.model.clone().or(from_env).or(from_settings).unwrap_or_else(|| DEFAULT_MODEL.to_owned());
        let mut settings = AgentSettings::new(catalog.resolve(&model));
        let fallback = run.fallback_model.clone().or_else(|| self.fallback_model());
        settings.fallback_model = fallback.map(|name| catalog.resolve(&name).to_owned());
        settings.limits.max_turns = run.max_turns;
        settings.limits.max_usd = run.max_budget_usd;
        settings.thinking = run.sdk.thinking();
        settings.thinking_display = run.sdk.thinking_display.map(Into::into);
        settings.task_budget = run.sdk.task_budget;
        settings.effort = run.sdk.effort.map(Into::into);
        settings.betas =
            run.sdk.betas.iter().flat_map(|list| split_rules(std::slice::from_ref(list))).collect();
        Ok(settings)
    }

    /// The first fallback the settings name.
    fn fallback_model(&self) -> Option<String> {
        let named = self.loaded.settings.get("fallbackModel")?.value;
        let first = named.as_array().and_then(|list| list.first()).unwrap_or(&named);
        first.as_str().map(str::to_owned)
    }

    fn prompt(&self, run: &RunArgs) -> Result<Prompt, Failure> {
        let from_file = match &run.sdk.system_prompt_file {
            None => None,
            Some(path) => {
                Some(std::fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?)
            }
        };
        // Without any source of settings nobody is asked for memory either.
        let without_memory = self.options.setting_sources.as_deref().is_some_and(|it| it.trim().is_empty());
        let places = MemoryPlaces {
            user: self.store.places().user.clone(),
            cwd: self.cwd.clone(),
            home: self.home.clone(),
        };
        Ok(Prompt {
            base: run.system_prompt.clone().or(from_file).map_or(Base::Haft, Base::Replaced),
            environment: Environment::of(&self.cwd),
            memory: if without_memory { Memory::default() } else { Memory::load(&places) },
            deferred_tools: Vec::new(),
            append: run.append_system_prompt.clone(),
            servers: BTreeMap::new(),
            starting: Vec::new(),
        })
    }
}

/// A session that was planning goes on planning, unless a flag says otherwise.
/// Modes that allow more are not taken from a log: whoever wants them says so.
fn restore_plan_mode(agent: &Agent, restored: &Restored, flag: Option<PermissionMode>) {
    let last = restored.changes.iter().rev().find_map(|change| match change {
        ContextChange::Mode(mode) => Some(*mode),
        _ => None,
    });
    if last == Some(PermissionMode::Plan) && flag.is_none() {
        agent.tools.pipeline.gate.set_mode(PermissionMode::Plan);
    }
}

/// Says what of a log could not be taken over.
fn report_losses(restored: &Restored) {
    let report = &restored.report;
    if 0 < report.unreadable {
        let torn = if report.torn { ", the last one because it was cut off" } else { "" };
        complain(&format!(
            "{} lines of the session log cannot be read and are left out{torn}",
            report.unreadable
        ));
    }
    if 0 < restored.left_out {
        complain(&format!(
            "the first {} steps of the session are too long to be sent and are left out",
            restored.left_out
        ));
    }
}
