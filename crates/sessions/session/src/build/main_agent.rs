//! Builds the main agent: model, system prompt, conversation.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use haft_agent::{
    Agent, AgentListener, AgentSettings, Conversation, MemoryFiles, OutputStyle, PromptBase,
    PromptEnvironment, Restored, ResultsInContext, SystemPrompt,
    recording::{RecordingHeader, RunRecorder},
};
use haft_model::{CachePolicy, Effort, Thinking};
use haft_tool::ContextChange;
use haft_tool_runtime::CallSession;
use haft_types::{Message, PermissionMode};
use serde_json::{Map, Value, json};

use super::{ChosenProvider, ModelPolicy, environment_prompt, services::ReadOnlyTools};
use crate::{
    LogSpec, ModelSpec, OpenError, SessionSpec, environment::SessionEnvironment, memory::LoadedMemory,
    session_logs::LogChoice,
};

/// The conversation of a session before its agent is built.
pub(crate) struct RestoredConversation {
    pub(crate) conversation: Conversation,
    pub(crate) restored: Restored,
    pub(crate) held: ResultsInContext,
}

impl RestoredConversation {
    /// Reads the log to resume and opens the log to write.
    pub(crate) fn recall(
        premises: &SessionEnvironment,
        spec: &LogSpec,
        choice: &LogChoice,
        has_hosts: bool,
    ) -> Result<Self, OpenError> {
        let (mut conversation, restored) = choice.conversation(premises, has_hosts)?;
        conversation.mask(premises.masker.clone());
        let held = conversation.held();
        if spec.mirror {
            conversation.mirror();
        }
        conversation.stamp(stamp(premises, spec));
        Ok(Self { conversation, restored, held })
    }
}

/// Fields that are added to every log line.
pub(crate) fn stamp(premises: &SessionEnvironment, spec: &LogSpec) -> Map<String, Value> {
    let named = premises.variables.text("CLAUDE_CODE_ENTRYPOINT").or_else(|| spec.entrypoint.clone());
    let entrypoint = named.unwrap_or_else(|| String::from("haft"));
    let fields = json!({"userType": "external", "entrypoint": entrypoint, "gitBranch": git_branch(premises)});
    fields.as_object().cloned().unwrap_or_default()
}

/// The branch that is checked out, read from `.git/HEAD` without starting git.
fn git_branch(premises: &SessionEnvironment) -> String {
    let head = premises.cwd.ancestors().find_map(|dir| std::fs::read_to_string(dir.join(".git/HEAD")).ok());
    let branch = head.as_deref().and_then(|it| it.trim().strip_prefix("ref: refs/heads/"));
    branch.map_or_else(|| String::from("HEAD"), str::to_owned)
}

/// Builds the main agent in the state its log left it.
#[expect(clippy::too_many_arguments, reason = "the parts of a session meet here once")]
pub(super) fn agent(
    premises: &SessionEnvironment,
    spec: &SessionSpec,
    model: &ModelSpec,
    chosen: &ChosenProvider,
    calls: CallSession,
    memories: RestoredConversation,
    told: PromptFacts,
    listener: AgentListener,
) -> Result<Agent, OpenError> {
    let RestoredConversation { mut conversation, mut restored, .. } = memories;
    let (settings, prompt, schema) = match &model.replay {
        Some(replay) => {
            let header = &replay.cassette.header;
            conversation.begin_with(header.messages.clone());
            (header.settings.clone(), header.prompt.clone(), header.output_schema.clone())
        }
        None => {
            let settings = agent_settings(premises, spec, model, chosen)?;
            (settings, prompt(premises, spec, model, &calls, told), model.output_schema.clone())
        }
    };
    let provider = Arc::clone(&chosen.provider);
    let mut agent = Agent::with_listener(listener, provider, calls, conversation, settings, prompt);
    agent.restore_spending(restored.usage, restored.usd);
    agent.tools.state.apply(&restored.changes);
    agent.restore_kept(restored.kept.clone());
    agent.restore_requests(&mut restored);
    restore_plan_mode(&agent, &restored, spec.permissions.mode);
    tell_losses(premises, &restored);
    if let Some(schema) = schema {
        agent.require_output(schema).map_err(OpenError::Spec)?;
    }
    if let Some(replay) = &model.replay {
        agent.replay_calls(Arc::clone(&replay.cassette), replay.calls);
    }
    Ok(agent)
}

/// The model named by the spec, the variables or the settings, in this order, or the provider's default.
pub(crate) fn model_of(
    premises: &SessionEnvironment,
    spec: &ModelSpec,
    chosen: &ChosenProvider,
) -> Result<String, OpenError> {
    let from_settings = || premises.loaded().settings.model.as_ref().map(|model| model.value.clone());
    let names = [Some("HAFT_MODEL"), chosen.vendor.variable()];
    let set = |name: &str| premises.variable(name).filter(|it| !it.trim().is_empty());
    let from_env = || names.into_iter().flatten().find_map(set);
    let usual = || chosen.vendor.usual_model().map(str::to_owned);
    let model = spec.model.clone().or_else(from_env).or_else(from_settings).or_else(usual);
    match model {
        Some(model) => Ok(chosen.catalog.resolve(&model).to_owned()),
        None => Err(OpenError::Start(String::from(
            "which model is not said: a server on this machine has those that were loaded into it. `haft models` \
             lists them; name one with --model, HAFT_MODEL or the setting `model`",
        ))),
    }
}

fn agent_settings(
    premises: &SessionEnvironment,
    spec: &SessionSpec,
    model: &ModelSpec,
    chosen: &ChosenProvider,
) -> Result<AgentSettings, OpenError> {
    let catalog = &chosen.catalog;
    let mut settings = AgentSettings::new(model_of(premises, model, chosen)?);
    let policy = ModelPolicy::from_settings(&premises.loaded().settings);
    if let Some(refusal) = policy.refusal(catalog, &settings.model) {
        return Err(OpenError::Start(refusal));
    }
    let fallback = model.fallback.clone().or_else(|| fallback_model(premises));
    let fallback = fallback.map(|name| catalog.resolve(&name).to_owned());
    settings.fallback_model = fallback.filter(|name| {
        let refusal = policy.refusal(catalog, name);
        if let Some(refusal) = &refusal {
            premises.events.notice(format!("no model takes over: {refusal}"));
        }
        refusal.is_none()
    });
    let window = chosen.provider.info(&settings.model).window;
    set_compaction(premises, &mut settings, window);
    settings.limits = model.limits;
    settings.thinking = thinking(premises, model.thinking);
    settings.thinks_where_it_can = true;
    settings.thinking_display = model.thinking_display;
    settings.task_budget = model.task_budget;
    settings.effort = model.effort.or_else(|| effort_setting(premises));
    settings.most_effort = premises.string_setting("maxEffortLevel").and_then(|word| {
        let most = effort_named(&word);
        if most.is_none() {
            premises.events.notice(no_effort("maxEffortLevel", &word));
        }
        most
    });
    settings.cache = cache_setting(premises, "promptCacheTtl").unwrap_or_default();
    settings.betas.clone_from(&model.betas);
    settings.late_input = spec.late_input;
    Ok(settings)
}

/// Sets when the conversation is compacted: at `autoCompactWindow` tokens. With `autoCompactEnabled`
/// off, only when a request would not fit.
fn set_compaction(premises: &SessionEnvironment, settings: &mut AgentSettings, window: u64) {
    let loaded = premises.loaded();
    let setting = |name: &str| loaded.settings.get(name).map(|it| it.value);
    if setting("autoCompactEnabled").and_then(|it| it.as_bool()) == Some(false) {
        settings.compact_at_percent = 100;
    } else if let Some(tokens) = setting("autoCompactWindow").and_then(|it| it.as_u64()) {
        settings.compact_at(tokens, window);
    }
}

/// The thinking setting of the spec, or that of the settings if the spec leaves it open.
fn thinking(premises: &SessionEnvironment, said: Thinking) -> Thinking {
    let always = premises.loaded().settings.get("alwaysThinkingEnabled").and_then(|it| it.value.as_bool());
    match (said, always) {
        (Thinking::Default, Some(true)) => Thinking::Adaptive,
        (Thinking::Default, Some(false)) => Thinking::Off,
        (said, _) => said,
    }
}

/// The effort level from the environment variable or the settings. Invalid values are reported and
/// ignored.
fn effort_setting(premises: &SessionEnvironment) -> Option<Effort> {
    let (name, word) = match premises.variable("CLAUDE_CODE_EFFORT_LEVEL").filter(|it| !it.trim().is_empty())
    {
        Some(word) => ("CLAUDE_CODE_EFFORT_LEVEL", word),
        None => ("effortLevel", premises.string_setting("effortLevel")?),
    };
    let effort = effort_named(&word);
    if effort.is_none() {
        premises.events.notice(no_effort(name, &word));
    }
    effort
}

fn effort_named(word: &str) -> Option<Effort> {
    serde_json::from_value(Value::from(word.trim().to_lowercase())).ok()
}

fn no_effort(name: &str, word: &str) -> String {
    format!("{name}: `{word}` is no effort; low, medium, high, xhigh and max are")
}

/// The prompt cache lifetime of a setting. Invalid values are reported and ignored.
pub(crate) fn cache_setting(premises: &SessionEnvironment, name: &str) -> Option<CachePolicy> {
    let value = premises.loaded().settings.get(name)?.value;
    match value.as_str().map(str::trim) {
        Some("5m") => Some(CachePolicy::FiveMinutes),
        Some("1h") => Some(CachePolicy::OneHour),
        _ => {
            premises.events.notice(format!("{name}: {value} is no time that providers offer; 5m and 1h are"));
            None
        }
    }
}

/// The first fallback model in the settings.
fn fallback_model(premises: &SessionEnvironment) -> Option<String> {
    let named = premises.loaded().settings.get("fallbackModel")?.value;
    let first = named.as_array().and_then(|list| list.first()).unwrap_or(&named);
    first.as_str().map(str::to_owned)
}

fn prompt(
    premises: &SessionEnvironment,
    spec: &SessionSpec,
    model: &ModelSpec,
    calls: &CallSession,
    told: PromptFacts,
) -> SystemPrompt {
    let base = model.system_prompt.clone().map_or(PromptBase::Haft, PromptBase::Replaced);
    let mut environment = PromptEnvironment::detect(&premises.cwd);
    if base == PromptBase::Haft {
        let mode = calls.pipeline.gate.mode();
        match premises.hosts.get() {
            Some(hosts) => {
                let mode = environment_prompt::mode_note(premises, spec, mode);
                crate::tool_hosts::environment(hosts, &mut environment, mode);
                environment.notes.extend(environment_prompt::language_note(premises));
            }
            None => environment.notes = environment_prompt::notes(premises, spec, mode),
        }
    }
    SystemPrompt {
        base,
        environment,
        memory: told.memory,
        deferred_tools: Vec::new(),
        append: model.append_system_prompt.clone(),
        servers: BTreeMap::new(),
        starting: Vec::new(),
        style: told.style,
    }
}

/// Parts of the system prompt that do not depend on the environment.
pub(super) struct PromptFacts {
    pub(super) memory: MemoryFiles,
    pub(super) style: Option<OutputStyle>,
}

/// The memory files of user and project.
pub(super) fn load_memory(
    premises: &SessionEnvironment,
    calls: &CallSession,
    readers: Option<&ReadOnlyTools>,
) -> LoadedMemory {
    let may_read = |path: &Path| readers.is_none_or(|it| it.may_read(calls, path));
    let found = LoadedMemory::load(premises, &may_read);
    found.refused.iter().for_each(|notice| premises.events.notice(notice.clone()));
    found
}

/// Starts the recording. Called when the system prompt and the tools are complete.
pub(crate) fn record(
    premises: &SessionEnvironment,
    agent: &mut Agent,
    model: &ModelSpec,
) -> Result<(), OpenError> {
    let named = premises.variables.os_text("HAFT_RECORD").filter(|it| !it.is_empty()).map(Into::into);
    let Some(path) = model.record.clone().or(named) else { return Ok(()) };
    let header = RecordingHeader {
        haft_cassette: 1,
        settings: agent.settings.clone(),
        prompt: agent.sent_prompt(),
        output_schema: agent.output_schema().cloned(),
        tools: agent.tools.pool.get().names().map(str::to_owned).collect(),
        messages: agent.conversation.messages().iter().map(|it| Message::clone(it)).collect(),
    };
    let tape = RunRecorder::create(&path, &header, premises.tape_places(), premises.masker.clone());
    agent.record(tape.map_err(|err| OpenError::Start(format!("--record {}: {err}", path.display())))?);
    Ok(())
}

/// Resumes plan mode of a session that was planning, unless the spec names a mode. Modes that allow more
/// are never restored from a log.
fn restore_plan_mode(agent: &Agent, restored: &Restored, named: Option<PermissionMode>) {
    let last = restored.changes.iter().rev().find_map(|change| match change {
        ContextChange::Mode(mode) => Some(*mode),
        ContextChange::LeavePlan => Some(PermissionMode::Default),
        _ => None,
    });
    if last == Some(PermissionMode::Plan) && named.is_none() {
        agent.tools.pipeline.gate.set_mode(PermissionMode::Plan);
    }
}

/// Reports what could not be restored from a log.
fn tell_losses(premises: &SessionEnvironment, restored: &Restored) {
    let report = &restored.report;
    if 0 < report.unreadable {
        let torn = if report.torn { ", the last one because it was cut off" } else { "" };
        premises.events.notice(format!(
            "{} lines of the session log cannot be read and are left out{torn}",
            report.unreadable
        ));
    }
    if 0 < restored.left_out {
        premises.events.notice(format!(
            "the first {} steps of the session are too long to be sent and are left out",
            restored.left_out
        ));
    }
}
