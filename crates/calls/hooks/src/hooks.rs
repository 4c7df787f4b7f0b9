use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::Instant;

use crate::{
    BlockCause, ErrorEffect, ErrorPolicy, HookCall, HookDecision, HookDefinition, HookEvent, HookId,
    HookInput, HookPorts, HookRepeat, HookRewrite, HookRunMode, HookStart, HooksOutcome, RuleMatcher,
    apply_error_policy::refused_rewrite,
    background_hooks::BackgroundHooks,
    hook_state::HookFaultKind,
    matcher::MatchResult,
    merge_answers::{Contribution, merge},
    runner::{DetachedHandler, PreparedHook, SelectedHook, SharedHooks, Waited, detached},
    running_process::Announcement,
};

/// The hooks of a session.
///
/// Clones share all state. Dropping the last clone kills background hooks.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// One bit per event, so that an event without hooks costs one test.
    listening: u64,
    hooks: Arc<[Arc<PreparedHook>]>,
    core: Arc<SharedHooks>,
    background: Arc<BackgroundHooks>,
}

/// What to do about a rewritten input that the tool rejected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RefusedRewrite {
    /// Use the model's original input and show the notice to the user.
    UseOriginal {
        /// Text of the notice.
        notice: String,
    },
    /// Do not run the call.
    Blocked(HookDecision),
}

impl Hooks {
    /// Creates the hooks in configuration order: on a conflict the later one wins.
    pub fn new(definitions: Vec<HookDefinition>, ports: HookPorts) -> Self {
        let core = Arc::new(SharedHooks { ports, state: Arc::default() });
        Self::with(definitions, core, Arc::default())
    }

    /// Replaces definitions and ports; failure counts and background hooks are kept.
    pub fn reconfigured(&self, definitions: Vec<HookDefinition>, ports: HookPorts) -> Self {
        let core = Arc::new(SharedHooks { ports, state: Arc::clone(&self.core.state) });
        Self::with(definitions, core, Arc::clone(&self.background))
    }

    /// These hooks plus more, for example for a sub-agent.
    pub fn and(&self, more: Vec<HookDefinition>) -> Self {
        let all = self.definitions().cloned().chain(more).collect();
        Self::with(all, Arc::clone(&self.core), Arc::clone(&self.background))
    }

    /// These hooks without some.
    #[must_use]
    pub fn without(&self, is_gone: impl Fn(&HookDefinition) -> bool) -> Self {
        let kept = self.definitions().filter(|it| !is_gone(it)).cloned().collect();
        Self::with(kept, Arc::clone(&self.core), Arc::clone(&self.background))
    }

    fn with(
        definitions: Vec<HookDefinition>,
        core: Arc<SharedHooks>,
        background: Arc<BackgroundHooks>,
    ) -> Self {
        let listening = definitions.iter().fold(0, |bits, it| bits | it.event.bit());
        let prepare = |definition: HookDefinition| {
            let identity = format!(
                "{}\0{}\0{:?}",
                definition.condition.as_deref().unwrap_or_default(),
                definition.handler.identity(),
                definition.env
            );
            Arc::new(PreparedHook { definition, identity })
        };
        let hooks = definitions.into_iter().map(prepare).collect();
        Self { listening, hooks, core, background }
    }

    /// Whether any hook is configured for an event. Check it before building an input, so that an event
    /// without hooks costs nothing else.
    pub fn listens(&self, event: HookEvent) -> bool {
        self.listening & event.bit() != 0
    }

    /// All definitions, in configuration order.
    pub fn definitions(&self) -> impl Iterator<Item = &HookDefinition> {
        self.hooks.iter().map(|it| &it.definition)
    }

    /// Runs all hooks of this event concurrently and returns the merged outcome. Dropping the future
    /// kills their processes.
    ///
    /// Hooks with an `if` condition always run, to be on the safe side. For an event of a call use
    /// [`Hooks::run_for_call`].
    pub async fn run(&self, input: &HookInput) -> HooksOutcome {
        self.run_for_call(input, &|_| true).await
    }

    /// Like [`Hooks::run`], for an event of a call. `is_about` decides whether a permission rule (the
    /// `if` of a hook) matches the call.
    pub async fn run_for_call(&self, input: &HookInput, is_about: &RuleMatcher<'_>) -> HooksOutcome {
        if !self.listens(input.event.event()) {
            return HooksOutcome::default();
        }
        let chosen = self.choose(input, is_about);
        if chosen.is_empty() {
            return HooksOutcome::default();
        }
        let call = HookCall::new(input);
        let contributions = join_all(chosen.into_iter().map(|it| self.run_one(it, &call))).await;
        merge(contributions, input.event.tool().map(|(_, input)| input))
    }

    /// The `if` rules of hooks at these events.
    pub fn conditions<'a>(&'a self, events: &'a [HookEvent]) -> impl Iterator<Item = &'a str> {
        let hooks = self.definitions().filter(|it| events.contains(&it.event));
        hooks.filter_map(|definition| definition.condition.as_deref())
    }

    /// Waits up to `patience` for background hooks, then kills them.
    pub async fn close(&self, patience: Duration) {
        self.background.close(patience).await;
    }

    /// Records that the tool accepted a rewritten input.
    pub fn rewrite_accepted(&self, rewrite: &HookRewrite) {
        for id in &rewrite.by {
            self.core.state.worked(id, HookFaultKind::Rewriting);
        }
    }

    /// Records that the tool rejected a rewritten input and returns the consequence. An invalid rewrite
    /// counts as a failure of the hook.
    pub fn rewrite_refused(&self, rewrite: &HookRewrite, problem: &str) -> RefusedRewrite {
        let count = |id: &HookId| (id.clone(), self.core.state.failed(id, HookFaultKind::Rewriting));
        let counted: Vec<(HookId, u32)> = rewrite.by.iter().map(count).collect();
        let names: Vec<&str> = rewrite.by.iter().map(HookId::as_str).collect();
        match (rewrite.on_error, counted.iter().max_by_key(|(_, in_a_row)| *in_a_row)) {
            (ErrorEffect::Closed, Some((id, in_a_row))) => {
                let reason = refused_rewrite(id, problem, *in_a_row, &self.core.ports);
                RefusedRewrite::Blocked(HookDecision::Block { reason, cause: BlockCause::CouldNotRun })
            }
            _ => {
                let names = names.join(", ");
                let notice = format!("the input rewritten by {names} was not used: {problem}");
                RefusedRewrite::UseOriginal { notice }
            }
        }
    }

    /// The hooks to run: matching, with their conditions met, each handler once.
    fn choose(&self, input: &HookInput, is_about: &RuleMatcher<'_>) -> Vec<SelectedHook> {
        let mut chosen: Vec<SelectedHook> = Vec::new();
        let is_for = |it: &HookDefinition| {
            it.event == input.event.event()
                && it.agent.as_ref().is_none_or(|agent| input.base.agent_id.as_ref() == Some(agent))
        };
        for hook in self.hooks.iter().filter(|it| is_for(&it.definition)) {
            let problem = match matches(&hook.definition, input) {
                MatchResult::No => continue,
                MatchResult::Yes => None,
                MatchResult::Unknown(problem) => Some(problem),
            };
            if !condition_holds(&hook.definition, input, is_about) {
                continue;
            }
            let on_error = hook.definition.when_broken();
            let is_declared_gate = hook.definition.on_error == ErrorPolicy::Explicit(ErrorEffect::Closed);
            match chosen.iter_mut().find(|it| it.hook.identity == hook.identity) {
                Some(twin) => {
                    twin.is_declared_gate |= is_declared_gate;
                    if on_error == ErrorEffect::Closed {
                        twin.on_error = ErrorEffect::Closed;
                    }
                }
                None => {
                    chosen.push(SelectedHook { hook: Arc::clone(hook), on_error, is_declared_gate, problem })
                }
            }
        }
        chosen.retain(|it| match it.hook.definition.repeat {
            HookRepeat::Always => true,
            HookRepeat::Once => self.core.state.take_only_turn(&it.hook.definition.id),
        });
        chosen
    }

    async fn run_one(&self, chosen: SelectedHook, call: &HookCall) -> Contribution {
        let definition = &chosen.hook.definition;
        if let Some(observer) = &self.core.ports.observer {
            let subject = call.input.event.subject();
            let status_message = definition.status_message.as_deref();
            observer.started(&HookStart {
                id: &definition.id,
                event: definition.event,
                subject,
                status_message,
            });
        }
        let started = Instant::now();
        let (hook, event) = (&definition.id, definition.event.as_str());
        tracing::debug!(%hook, event, mode = ?definition.mode, limit = ?definition.timeout, "a hook begins");
        let waited = match definition.mode {
            HookRunMode::Wait => self.core.answer(&chosen, call, Announcement::Watch).await,
            HookRunMode::Background | HookRunMode::BackgroundRewake => {
                Waited::Detached(DetachedHandler::Unstarted)
            }
        };
        tracing::debug!(%hook, event, took = ?started.elapsed(), "the hook is waited for no longer");
        match waited {
            Waited::Answer(answer, remains) => {
                if let Some(remains) = remains {
                    self.background.spawn(remains.leftover.until(remains.deadline));
                }
                let contribution = self.core.settle(&chosen, *answer, started.elapsed());
                if let Some(observer) = &self.core.ports.observer {
                    observer.finished(&contribution.report);
                }
                contribution
            }
            Waited::Detached(rest) => {
                let work = Arc::clone(&self.core).in_background(chosen.clone(), call.clone(), rest);
                self.background.spawn(work);
                detached(&chosen, started.elapsed())
            }
        }
    }
}

/// A condition matches a tool call; at other events a hook with an `if` never runs.
fn condition_holds(definition: &HookDefinition, input: &HookInput, is_about: &RuleMatcher<'_>) -> bool {
    let Some(rule) = &definition.condition else { return true };
    input.event.tool().is_some() && is_about(rule)
}

fn matches(definition: &HookDefinition, input: &HookInput) -> MatchResult {
    match input.event.subject() {
        Some(subject) => {
            let aliases = input.aliases.iter().map(String::as_str);
            definition.matcher.matches(std::iter::once(subject).chain(aliases))
        }
        // Without a subject the matcher is ignored, unless it is invalid.
        None => match definition.matcher.problem() {
            Some(problem) => MatchResult::Unknown(problem.to_owned()),
            None => MatchResult::Yes,
        },
    }
}
