//! One run of a sub-agent: start, work, report.

use std::{path::PathBuf, sync::Arc};

use haft_agent::{
    Agent, AgentSettings, Conversation, EndReason, LateInputPolicy, LimitReached, Restored, RunLimits,
    RunUsage, TurnEnd, UserInput, log::LogState,
};
use haft_builtin_tools::agent::{AgentReport, AgentStatus};
use haft_hooks::SubagentStart;
use haft_model::Effort;
use haft_shell::run::TaskRegistry;
use haft_tool_runtime::{CallSession, Pipeline, PoolFilter, SessionHooks};
use haft_types::{MessageBlock, tags};
use haft_workspace::SessionFiles;
use serde_json::{Value, json};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    ChildIdentity, ParentCalls, SpawnContext, SubagentRegistry,
    agent_logs::{AgentLogs, AgentMeta},
    child_observer::ChildObserver,
    first_prompt::prompt,
    forked_agent::{first_words, fork_calls, fork_settings, inherit, reuse_prefix},
    idle_members::IdleMember,
    isolation::{isolate, parent_calls, settle},
    private_servers::PrivateServers,
    report_budget::ReportBudget,
    rights::MayStart,
    spawner::{SpawnJob, SpawnOrigin},
    summaries::tell_summaries,
};
use crate::{SessionEventKind, hook_events::run_hooks, tool_hosts::news_of_hosts};

/// Prompt for an agent that stopped without any text.
const SAY_SOMETHING: &str =
    "You ended without a report. Write it now: what you found or did, and what is left. Call no tools.";

/// Prompt for an agent that has used all of its turns.
const OUT_OF_TURNS: &str = "You have no turns left. Write your report now with what you have: what you found or did, what you are not sure of, and what is left. Call no tools.";

/// Prompt for an agent in plan mode.
const PLANNING: &str = "<system-reminder>\nOnly reading is possible: nothing can be changed, by no tool and no command. What would change something is refused.\n</system-reminder>";

/// Runs a sub-agent to its end. Always produces exactly one report, also after a panic.
pub(super) async fn live(world: Arc<SpawnContext>, desk: Arc<SubagentRegistry>, birth: SpawnJob) {
    let facts = Arc::clone(&birth.facts);
    let watch = ChildObserver::new(&desk, &facts, &world.asked, &world.premises.traces);
    let Some(cancel) = desk.tree().nodes.get(&facts.id).map(|it| it.cancel.clone()) else { return };
    let servers = PrivateServers::from_definition(&birth.kind);
    let (skills, traces) = (Arc::clone(&world.skills), Arc::clone(&world.premises.traces));
    let payer = ReportBudget::new(&world, &desk, &facts);
    let summaries =
        tell_summaries(Arc::clone(&world), Arc::clone(&desk), Arc::clone(&facts), Arc::clone(&watch));
    let summaries = desk.summary_pace().map(|_| AbortOnDropHandle::new(tokio::spawn(summaries)));
    let life = lived(world, Arc::clone(&desk), birth, Arc::clone(&watch), cancel, Arc::clone(&servers));
    // In a task of its own, so that a panic becomes a report.
    let report = match tokio::spawn(Box::pin(life)).await {
        Ok(report) => report,
        Err(err) => {
            let why = format!("it broke off inside Haft: {err}");
            AgentReport { why: Some(why), ..empty_report(&facts, &watch, AgentStatus::Failed) }
        }
    };
    drop(summaries);
    skills.agent_ended(&facts.id);
    traces.end_child(&facts.id, &report);
    payer.keep_for(&facts, &report);
    desk.ended(&facts.id, report);
    // The report is delivered before the servers are stopped.
    servers.stop().await;
}

async fn lived(
    world: Arc<SpawnContext>,
    desk: Arc<SubagentRegistry>,
    mut birth: SpawnJob,
    watch: Arc<ChildObserver>,
    cancel: CancellationToken,
    servers: Arc<PrivateServers>,
) -> AgentReport {
    let facts = Arc::clone(&birth.facts);
    let stopped = |why: &str| AgentReport {
        why: Some(why.to_owned()),
        ..empty_report(&facts, &watch, AgentStatus::Interrupted)
    };
    tokio::select! {
        slot = Arc::clone(&desk.slots).acquire_owned() => {
            if let Some(node) = desk.tree().nodes.get_mut(&facts.id) {
                node.slot = slot.ok();
            }
        }
        () = cancel.cancelled() => return stopped(&stopped_words(&desk, &facts)),
    }
    let failed =
        |why: String| AgentReport { why: Some(why), ..empty_report(&facts, &watch, AgentStatus::Failed) };
    if let Err(why) = isolate(&world, &desk, &mut birth).await {
        return failed(why);
    }
    servers.start(&world, &desk, &facts, &cancel).await;
    let mut child = match Child::begin(&world, &desk, &birth, &watch, &servers).await {
        Ok(child) => child,
        Err(why) => {
            let mut report = failed(why);
            settle(&world, &birth, &mut report).await;
            return report;
        }
    };
    let first = child.first_input(&world, &birth, &cancel).await;
    let mut report = child.work(&world, first, &cancel).await;
    world.cannot_fork(&facts.id);
    settle(&world, &birth, &mut report).await;
    child.finish(report).await
}

fn stopped_words(desk: &SubagentRegistry, facts: &ChildIdentity) -> String {
    let by = desk.tree().nodes.get(&facts.id).and_then(|it| it.stopped_by);
    by.map_or("it was stopped", super::agent_tree::StoppedBy::words).to_owned()
}

fn empty_report(facts: &ChildIdentity, watch: &ChildObserver, status: AgentStatus) -> AgentReport {
    let work = watch.work();
    let killed = (status == AgentStatus::Interrupted).then(|| watch.killed_by()).flatten();
    AgentReport {
        killed_by: killed,
        agent_id: facts.id.to_string(),
        run_id: facts.run_id.clone(),
        kind: facts.kind.clone(),
        name: facts.name.clone(),
        description: facts.description.clone(),
        prompt: facts.prompt.clone(),
        status,
        model: facts.model.clone(),
        model_from: facts.model_from.clone(),
        duration_ms: watch.elapsed_ms(),
        tools_used: work.tools_used,
        files_changed: work.files_changed.into_iter().collect(),
        denials: work.denials,
        log: facts.log.clone(),
        ..AgentReport::default()
    }
}

/// A running agent.
struct Child {
    agent: Agent,
    desk: Arc<SubagentRegistry>,
    facts: Arc<ChildIdentity>,
    watch: Arc<ChildObserver>,
    logs: Option<AgentLogs>,
    meta: AgentMeta,
    /// Usage of earlier runs.
    before: RunUsage,
    /// Number of messages of earlier runs.
    messages_before: usize,
    /// Number of model requests of this run.
    turns: u32,
    tasks: Option<Arc<TaskRegistry>>,
    files: Option<Arc<SessionFiles>>,
    idle: IdleMember,
}

/// The stored metadata of an agent that is resumed.
async fn earlier_meta(birth: &SpawnJob, logs: Option<AgentLogs>) -> Option<AgentMeta> {
    let (SpawnOrigin::ItsLog(_), Some(logs)) = (&birth.from, logs) else { return None };
    let id = birth.facts.id.clone();
    tokio::task::spawn_blocking(move || logs.meta(&id)).await.ok().flatten()
}

/// The metadata to store. A resumed agent keeps its tools, task and directory, whoever resumes it.
fn kept_meta(birth: &SpawnJob, calls: &CallSession, earlier: Option<AgentMeta>) -> AgentMeta {
    if let Some(earlier) = &earlier {
        let pool = calls.pool.get();
        let had = |name: &str| earlier.tools.iter().any(|it| it == name);
        let kept = pool.narrowed(|name, _| if had(name) { PoolFilter::Yes } else { PoolFilter::No });
        calls.pool.set(kept);
    }
    let mut meta = AgentMeta::new(&birth.facts, birth.kind.source.is_built_in(), &birth.cwd);
    meta.tools = calls.pool.get().names().map(str::to_owned).collect();
    if let Some(isolation) = &birth.isolation {
        meta.worktree_path = Some(isolation.path().to_owned());
        meta.worktree_branch = isolation.branch().map(str::to_owned);
    }
    if let Some(earlier) = earlier {
        meta.prompt = earlier.prompt;
        meta.cwd = earlier.cwd;
    }
    meta
}

impl Child {
    async fn begin(
        world: &Arc<SpawnContext>,
        desk: &Arc<SubagentRegistry>,
        birth: &SpawnJob,
        watch: &Arc<ChildObserver>,
        servers: &PrivateServers,
    ) -> Result<Self, String> {
        let (facts, kind) = (&birth.facts, &birth.kind);
        let parent = parent_calls(world, desk, &facts.parent).ok_or("the agent that started it is gone")?;
        let logs = desk.logs();
        let earlier = earlier_meta(birth, logs.clone()).await;
        let basis = match &birth.from {
            SpawnOrigin::Parent => Some(
                world.fork_basis(&facts.parent).ok_or("there is no request yet that it could go on from")?,
            ),
            _ => None,
        };
        let calls = if kind.is_fork() {
            fork_calls(birth, &parent)
        } else {
            calls(world, desk, birth, &parent, servers)?
        };
        let meta = kept_meta(birth, &calls, earlier);
        let (mut conversation, restored) = conversation(world, birth, logs.clone(), meta.clone()).await?;
        if let Some(basis) = &basis {
            inherit(&mut conversation, basis, facts)
                .map_err(|err| format!("its log cannot be written: {err}"))?;
        }
        world.held.insert(facts.id.clone(), conversation.held());
        world.questions.introduce(facts.id.clone(), format!("{} ({})", facts.kind, facts.description));
        let settings = basis.as_deref().map_or_else(|| settings(desk, birth), fork_settings);
        let of_log = restored.as_ref().and_then(|it| it.prefix.prompt.as_deref().cloned());
        let prompt = match (&basis, of_log.filter(|_| kind.is_fork())) {
            (Some(basis), _) => haft_agent::SystemPrompt::clone(&basis.prompt),
            (None, Some(prompt)) => prompt,
            (None, None) => prompt(world, kind, &calls, &birth.cwd).await,
        };
        let messages_before = conversation.messages().len();
        let payer = parent.payer.clone().unwrap_or_else(|| world.ledger.clone());
        let payer = kind.max_usd.map_or(payer.clone(), |most| payer.child(most));
        let own_calls = ParentCalls { payer: Some(payer.clone()), ..ParentCalls::from_calls(&calls) };
        let provider = Arc::clone(&world.provider);
        let mut agent =
            Agent::with_listener(watch.listener(), provider, calls, conversation, settings, prompt);
        if let Some(mut restored) = restored {
            agent.restore_spending(restored.usage, restored.usd);
            agent.tools.state.apply(&restored.changes);
            agent.restore_kept(restored.kept.clone());
            agent.restore_requests(&mut restored);
        }
        reuse_prefix(&mut agent, basis.as_deref());
        world.can_fork(&facts.id, agent.fork_point.clone());
        if let Some(schema) = &kind.output_schema {
            agent.require_output(schema.clone()).map_err(|problem| format!("its outputSchema: {problem}"))?;
        }
        agent.paid_by(payer);
        world.skills.agent_began(&facts.id, agent.orders.clone());
        agent.inbox = birth.inbox.clone();
        if let Some(node) = desk.tree().nodes.get_mut(&facts.id) {
            node.calls = Some(own_calls);
        }
        agent.keep(LogState::RunBegan { run: facts.run_id.clone() });
        let before = *agent.spending();
        let (desk, facts, watch) = (Arc::clone(desk), Arc::clone(facts), Arc::clone(watch));
        Ok(Self {
            agent,
            desk,
            facts,
            watch,
            logs,
            meta,
            before,
            messages_before,
            turns: 0,
            tasks: world.tasks.clone(),
            files: world.files.clone(),
            idle: IdleMember::default(),
        })
    }

    /// The task, extended by hooks and the definition.
    async fn first_input(
        &mut self,
        world: &SpawnContext,
        birth: &SpawnJob,
        cancel: &CancellationToken,
    ) -> UserInput {
        if let SpawnOrigin::ItsLog(input) = &birth.from {
            return (**input).clone();
        }
        let (facts, kind) = (&self.facts, &birth.kind);
        let event = SubagentStart { agent_id: facts.id.clone(), agent_type: kind.name.clone() };
        let outcome = run_hooks(&self.agent.tools, event.into()).await;
        let is_planning = self.agent.tools.pipeline.gate.permissions().policy().plans();
        if matches!(birth.from, SpawnOrigin::Parent) {
            let mut context = outcome.additional_context;
            context.extend(is_planning.then(|| PLANNING.to_owned()));
            return first_words(facts, &birth.order.prompt, context);
        }
        for context in outcome.additional_context {
            self.agent.remind(context);
        }
        if is_planning {
            self.agent.remind(PLANNING);
        }
        let text = |text: String| MessageBlock::Text { text };
        let mut content = vec![text(tags::neutral(&birth.order.prompt).into_owned())];
        for name in &kind.skills {
            let body = match world.skills.find(name) {
                Ok(skill) => world.skills.text_at(&skill, &facts.id, &birth.cwd, cancel).await,
                Err(problem) => Err(problem),
            };
            match body {
                Ok(body) => content
                    .push(text(format!("<command-name>{name}</command-name>\n{}", tags::neutral(&body)))),
                Err(problem) => {
                    let notice =
                        format!("the agent {} begins without the skill {name}: {problem}", kind.name);
                    self.desk.tell(facts, SessionEventKind::Notice(notice));
                }
            }
        }
        content.extend(kind.reminder.clone().map(text));
        UserInput { content, ..UserInput::default() }
    }

    /// Runs until nothing is left to do, including background sub-agents.
    async fn work(
        &mut self,
        world: &SpawnContext,
        first: UserInput,
        cancel: &CancellationToken,
    ) -> AgentReport {
        let mut next = Some(first);
        let end = loop {
            let Some(input) = next.take() else { break None };
            let end = self.run(world, input, cancel).await;
            self.turns += end.turns;
            if end.reason != EndReason::Completed || cancel.is_cancelled() {
                break Some(end);
            }
            // The reports of its own sub-agents are part of its work: it waits for them.
            if !self.desk.tree().in_background(&self.facts.id).is_empty() {
                if let Some(node) = self.desk.tree().nodes.get_mut(&self.facts.id) {
                    node.slot = None;
                }
                tokio::select! {
                    () = self.desk.child_news(&self.facts.id, &self.agent.inbox) => (),
                    () = cancel.cancelled() => (),
                }
                // A stopped agent does not wait for a concurrency slot.
                let slot = tokio::select! {
                    slot = Arc::clone(&self.desk.slots).acquire_owned() => slot.ok(),
                    () = cancel.cancelled() => None,
                };
                if let Some(node) = self.desk.tree().nodes.get_mut(&self.facts.id) {
                    node.slot = slot;
                }
            }
            let mut heard = self.agent.inbox.take();
            next = heard.pop();
            heard.into_iter().for_each(|input| self.agent.add_context(input));
            if next.is_none() {
                next = self.idle.objection(&self.desk, &self.facts, &self.agent.tools).await;
            }
            if next.is_none() {
                break Some(end);
            }
        };
        match end {
            Some(end) => self.report(end, cancel).await,
            None => empty_report(&self.facts, &self.watch, AgentStatus::Failed),
        }
    }

    /// Runs the agent on one message, and meanwhile passes it news of its background commands.
    async fn run(&mut self, world: &SpawnContext, input: UserInput, cancel: &CancellationToken) -> TurnEnd {
        let inbox = self.agent.inbox.clone();
        let run = self.agent.run(input, cancel);
        tokio::pin!(run);
        let Some(tasks) = &world.tasks else { return run.await };
        loop {
            tokio::select! {
                biased;
                end = &mut run => return end,
                () = tasks.news(&self.facts.id) => {
                    for notice in tasks.drain(&self.facts.id) {
                        let text = tags::task_notification(
                            "This comes from a task in the background.",
                            &notice.text(),
                        );
                        inbox.push(news_of_task(text));
                    }
                }
                texts = news_of_hosts(&world.premises, &self.facts.id) => {
                    texts.into_iter().for_each(|text| inbox.push(news_of_task(text)));
                }
            }
        }
    }

    async fn report(&mut self, end: TurnEnd, cancel: &CancellationToken) -> AgentReport {
        let (mut status, mut why) = ending(&end.reason);
        let structured = end.structured_output;
        if status == AgentStatus::Interrupted {
            why = Some(stopped_words(&self.desk, &self.facts));
        }
        let said = |it: &Self| it.agent.conversation.last_said(it.messages_before);
        match status {
            AgentStatus::Completed if structured.is_none() && said(self).trim().is_empty() => {
                self.turns += 1;
                if self.agent.request_final_text(SAY_SOMETHING, cancel).await.is_none() {
                    status = AgentStatus::NoFinalText;
                }
            }
            AgentStatus::MaxTurns => {
                self.turns += 1;
                self.agent.request_final_text(OUT_OF_TURNS, cancel).await;
            }
            _ => (),
        }
        let spent = *self.agent.spending();
        AgentReport {
            status,
            why,
            text: structured.as_ref().map_or_else(|| said(self), |it| format!("{it:#}")),
            structured,
            usage: spent.usage.since(self.before.usage),
            usd: spent.usd - self.before.usd,
            untold: spent.untold - self.before.untold,
            turns: self.turns,
            ..empty_report(&self.facts, &self.watch, status)
        }
    }

    /// Stores the report in the log before anyone receives it.
    async fn finish(mut self, mut report: AgentReport) -> AgentReport {
        report.left_running = self.left_running();
        report.outdated_reads = self.outdated_reads(&report);
        let json = serde_json::to_value(&report).unwrap_or(Value::Null);
        self.agent.keep(LogState::RunEnded { run: self.facts.run_id.clone(), report: json });
        // The tool search refers to the pool that contains it; this breaks the cycle.
        self.agent.tools.pool.set(haft_tool_runtime::Pool::assemble(Vec::new(), Vec::new()));
        self.meta.finished = true;
        self.meta.status = Some(report.status);
        if let Some(logs) = self.logs.clone() {
            let entries = self.agent.conversation.take_mirrored();
            let mut lines: Vec<Value> =
                entries.iter().filter_map(|it| serde_json::to_value(it).ok()).collect();
            if logs.mirror {
                lines.insert(0, AgentLogs::meta_line(&self.facts.id, &self.meta));
                self.desk.tell(&self.facts, SessionEventKind::Logged(logs.path(&self.facts.id), lines));
            }
            let (id, meta) = (self.facts.id.clone(), self.meta.clone());
            let written = tokio::task::spawn_blocking(move || logs.write_meta(&id, &meta)).await;
            if let Ok(Err(err)) = written {
                let text = format!("what the agent {} was could not be written down: {err}", self.facts.id);
                self.desk.tell(&self.facts, SessionEventKind::Notice(text));
            }
        }
        report
    }

    /// Files that the agent changed after its parent had read them.
    fn outdated_reads(&self, report: &AgentReport) -> Vec<PathBuf> {
        let Some(files) = &self.files else { return Vec::new() };
        let is_outdated = |it: &&PathBuf| files.reads().is_outdated(&self.facts.parent, it);
        report.files_changed.iter().filter(is_outdated).cloned().collect()
    }

    /// The agent's commands that are still running.
    fn left_running(&self) -> Vec<String> {
        let all = self.tasks.iter().flat_map(|tasks| tasks.list());
        let own = all.filter(|it| it.about.agent == self.facts.id && it.status.name() == "running");
        own.map(|it| format!("{} ({})", it.id, haft_types::text::one_line(&it.command, 80))).collect()
    }
}

/// Status of a run, with an explanation if it needs one.
fn ending(reason: &EndReason) -> (AgentStatus, Option<String>) {
    match reason {
        EndReason::Completed => (AgentStatus::Completed, None),
        EndReason::Exhausted(LimitReached::Turns(most)) => {
            (AgentStatus::MaxTurns, Some(format!("its limit is {most} requests")))
        }
        EndReason::Exhausted(LimitReached::Budget(most)) => (
            AgentStatus::TruncatedByBudget,
            Some(format!("what is left of ${most} does not pay for another request")),
        ),
        EndReason::Exhausted(_) => (AgentStatus::TruncatedByBudget, None),
        EndReason::Interrupted => (AgentStatus::Interrupted, None),
        EndReason::Stopped(why) => (AgentStatus::Stopped, Some(why.clone())),
        EndReason::NoProgress(why) | EndReason::Incomplete(why) => {
            (AgentStatus::Incomplete, Some(why.clone()))
        }
        EndReason::OutputTruncated => {
            (AgentStatus::Incomplete, Some(String::from("its answers were cut by the output limit")))
        }
        EndReason::NoStructuredOutput(tried) => (AgentStatus::Incomplete, Some(tried.join("; "))),
        EndReason::Refused => (AgentStatus::Incomplete, Some(String::from("the model declined"))),
        EndReason::Failed(error) => (AgentStatus::Failed, Some(error.to_string())),
    }
}

/// Builds the call state of an agent: its parent's tools and permissions, restricted by the definition.
fn calls(
    world: &SpawnContext,
    desk: &SubagentRegistry,
    birth: &SpawnJob,
    parent: &ParentCalls,
    servers: &PrivateServers,
) -> Result<CallSession, String> {
    let (facts, kind) = (&birth.facts, &birth.kind);
    let may_start = if facts.depth < desk.limits.depth { MayStart::Yes } else { MayStart::No };
    let (pool, mut unknown) = kind.pool(&parent.pool.get(), may_start);
    servers.join(&pool, &parent.pipeline, kind);
    unknown.retain(|it| !servers.brings(it));
    if pool.get().names().next().is_none() && kind.tools.as_ref().is_some_and(|it| !it.is_empty()) {
        return Err(format!("it has no tools: none of {} is there", unknown.join(", ")));
    }
    if !unknown.is_empty() {
        let text =
            format!("the agent {} does without tools that are not there: {}", kind.name, unknown.join(", "));
        desk.tell(facts, SessionEventKind::Detail(text));
    }
    let may_bypass = world.premises.may_bypass();
    let mut rights = kind.rights(&pool.get(), parent.pipeline.gate.mode(), may_bypass);
    rights.kept_out = birth.isolation.as_ref().and_then(super::isolation::AgentIsolation::kept_out);
    let mut calls = parent.session(&birth.cwd).child(facts.id.clone(), rights.clone());
    calls.pool = pool;
    let mut own_hooks = kind.hooks.clone();
    if !world.premises.runs_hooks_of(&kind.source) {
        own_hooks.clear();
    }
    if let Some(skill) = &birth.order.skill {
        own_hooks.extend(world.skills.hooks_of_fork(skill));
    }
    if !own_hooks.is_empty() {
        let above = parent.pipeline.gate.hooks();
        let (session, transcript) = above.session();
        let hooks = SessionHooks::new(above.get().and(own_hooks), session, transcript);
        let gate = parent.pipeline.gate.child(rights).with_hooks(hooks);
        let mut pipeline = Pipeline::new(gate, parent.pipeline.results.clone());
        pipeline.grace = parent.pipeline.grace;
        calls.pipeline = Arc::new(pipeline);
    }
    Ok(calls)
}

async fn conversation(
    world: &SpawnContext,
    birth: &SpawnJob,
    logs: Option<AgentLogs>,
    meta: AgentMeta,
) -> Result<(Conversation, Option<Restored>), String> {
    let Some(logs) = logs else {
        return Ok((Conversation::of_child(world.premises.session_id.clone(), &birth.cwd), None));
    };
    let (facts, masker) = (Arc::clone(&birth.facts), world.masker.clone());
    let goes_on = matches!(birth.from, SpawnOrigin::ItsLog(_));
    let opened = tokio::task::spawn_blocking(move || {
        if goes_on {
            logs.resume(&facts, &meta, masker).map(|(it, restored)| (it, Some(restored)))
        } else {
            logs.begin(&facts, &meta, masker).map(|it| (it, None))
        }
    });
    match opened.await {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(err)) => Err(format!("its log cannot be written: {err}")),
        Err(err) => Err(format!("its log cannot be opened: {err}")),
    }
}

fn settings(desk: &SubagentRegistry, birth: &SpawnJob) -> AgentSettings {
    let mut settings = desk.main_settings();
    settings.model.clone_from(&birth.facts.model);
    settings.limits = RunLimits { max_turns: birth.kind.max_turns, ..RunLimits::default() };
    settings.late_input = LateInputPolicy::GoOn;
    settings.task_budget = None;
    settings.cache = desk.cache.get().copied().unwrap_or(settings.cache);
    if let (Some(tokens), Some(window)) = (birth.kind.compact_window, desk.window_of(&settings.model)) {
        let usual = settings.compact_at_percent;
        settings.compact_at(tokens, window);
        settings.compact_at_percent = settings.compact_at_percent.min(usual);
    }
    let effort = birth.order.effort.as_deref().or(birth.kind.effort.as_deref());
    if let Some(effort) = effort.and_then(effort_of) {
        settings.effort = Some(effort);
    }
    settings
}

pub(crate) fn effort_of(name: &str) -> Option<Effort> {
    let all = [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh, Effort::Max];
    if let Ok(share) = name.trim().parse::<usize>() {
        // A percentage: each fifth of 100 is one level.
        return (share <= 100).then(|| all[(share / 20).min(4)]);
    }
    all.into_iter().find(|it| it.as_str() == name.trim().to_ascii_lowercase())
}

/// Input that reports a background command. Its author is not the user.
fn news_of_task(text: String) -> UserInput {
    let origin = Some(json!({"kind": "task-notification"}));
    UserInput { content: vec![MessageBlock::Text { text }], origin, ..UserInput::default() }
}
