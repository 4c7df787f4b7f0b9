use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use tokio::time::Instant;

use crate::{
    BlockCause, Callback, CallbackAnswer, Decision, ErrorPolicy, Failure, Handler, Happened, HookCall,
    HookDefinition, HookEvent, HookId, HookInput, HookOutput, HookReport, HookStart, OnError, Outcome,
    PermissionDecision, Ports, Repeat, Rewrite, RunMode,
    answer::Answer,
    background::Background,
    command::{CommandEnd, CommandRun},
    http,
    matcher::Match,
    merge::{Contribution, merge},
    running::{Announcement, Running},
    settle::{Answered, refused_rewrite, settle},
    state::{State, Trouble},
};

/// The hooks of a session, ready to run.
///
/// Cloning shares everything. Dropping the last clone ends what runs in the
/// background.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    /// One bit per event, so that an event nobody listens to costs one test.
    listening: u64,
    hooks: Arc<[Arc<Prepared>]>,
    core: Arc<Core>,
    background: Arc<Background>,
}

#[derive(Debug, Default)]
struct Core {
    ports: Ports,
    state: Arc<State>,
}

/// A definition and what makes its handler the same as another.
#[derive(Debug)]
struct Prepared {
    definition: HookDefinition,
    identity: String,
}

/// A hook that runs for this event.
#[derive(Clone, Debug)]
struct Chosen {
    hook: Arc<Prepared>,
    on_error: OnError,
    /// Set when nobody can tell whether it should run.
    problem: Option<String>,
}

/// What to do with a rewritten input the tool did not accept.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RefusedRewrite {
    /// Go on with the input the model gave; the notice is for the person.
    UseOriginal {
        /// What happened.
        notice: String,
    },
    /// Do not run the call.
    Blocked(Decision),
}

impl Hooks {
    /// Hooks in configuration order: where two of them want different things,
    /// the later wins.
    pub fn new(definitions: Vec<HookDefinition>, ports: Ports) -> Self {
        let core = Arc::new(Core { ports, state: Arc::default() });
        Self::with(definitions, core, Arc::default())
    }

    /// The same session with other hooks and ports: what was counted and what
    /// runs in the background lives on.
    pub fn reconfigured(&self, definitions: Vec<HookDefinition>, ports: Ports) -> Self {
        let core = Arc::new(Core { ports, state: Arc::clone(&self.core.state) });
        Self::with(definitions, core, Arc::clone(&self.background))
    }

    /// These hooks and more, for a part of the session such as a sub-agent.
    pub fn and(&self, more: Vec<HookDefinition>) -> Self {
        let all = self.definitions().cloned().chain(more).collect();
        Self::with(all, Arc::clone(&self.core), Arc::clone(&self.background))
    }

    fn with(definitions: Vec<HookDefinition>, core: Arc<Core>, background: Arc<Background>) -> Self {
        let listening = definitions.iter().fold(0, |bits, it| bits | it.event.bit());
        let prepare = |definition: HookDefinition| {
            let identity =
                format!("{}\0{}", definition.condition.as_deref().unwrap_or_default(), definition.handler.identity());
            Arc::new(Prepared { definition, identity })
        };
        let hooks = definitions.into_iter().map(prepare).collect();
        Self { listening, hooks, core, background }
    }

    /// Whether any hook is configured for an event. Ask before building an
    /// input: without hooks, this is all an event costs.
    pub fn listens(&self, event: HookEvent) -> bool {
        self.listening & event.bit() != 0
    }

    /// All hooks, in configuration order.
    pub fn definitions(&self) -> impl Iterator<Item = &HookDefinition> {
        self.hooks.iter().map(|it| &it.definition)
    }

    /// Runs every hook of this event at the same time and returns what they
    /// said together. Dropping the future ends everything it started.
    pub async fn run(&self, input: &HookInput) -> Outcome {
        if !self.listens(input.event.event()) {
            return Outcome::default();
        }
        let chosen = self.choose(input);
        if chosen.is_empty() {
            return Outcome::default();
        }
        let call = HookCall::new(input);
        let contributions = join_all(chosen.into_iter().map(|it| self.run_one(it, &call))).await;
        merge(contributions, input.event.tool().map(|(_, input)| input))
    }

    /// Ends what runs in the background, after giving it some time.
    pub async fn close(&self, patience: Duration) {
        self.background.close(patience).await;
    }

    /// Reports that the tool accepted a rewritten input.
    pub fn rewrite_accepted(&self, rewrite: &Rewrite) {
        for id in &rewrite.by {
            self.core.state.worked(id, Trouble::Rewriting);
        }
    }

    /// Reports that the tool did not accept a rewritten input, and returns what
    /// follows: a gate that answers nonsense is a gate that broke.
    pub fn rewrite_refused(&self, rewrite: &Rewrite, problem: &str) -> RefusedRewrite {
        let count = |id: &HookId| (id.clone(), self.core.state.failed(id, Trouble::Rewriting));
        let counted: Vec<(HookId, u32)> = rewrite.by.iter().map(count).collect();
        let names: Vec<&str> = rewrite.by.iter().map(HookId::as_str).collect();
        match (rewrite.on_error, counted.iter().max_by_key(|(_, in_a_row)| *in_a_row)) {
            (OnError::Closed, Some((id, in_a_row))) => {
                let reason = refused_rewrite(id, problem, *in_a_row, &self.core.ports);
                RefusedRewrite::Blocked(Decision::Block { reason, cause: BlockCause::CouldNotRun })
            }
            _ => {
                let names = names.join(", ");
                let notice = format!("the input rewritten by {names} was not used: {problem}");
                RefusedRewrite::UseOriginal { notice }
            }
        }
    }

    /// The hooks that run for this input: matched, with their conditions met,
    /// each handler once.
    fn choose(&self, input: &HookInput) -> Vec<Chosen> {
        let mut chosen: Vec<Chosen> = Vec::new();
        for hook in self.hooks.iter().filter(|it| it.definition.event == input.event.event()) {
            let problem = match matches(&hook.definition, input) {
                Match::No => continue,
                Match::Yes => None,
                Match::Unknown(problem) => Some(problem),
            };
            if !self.condition_holds(&hook.definition, input) {
                continue;
            }
            let on_error = hook.definition.when_broken();
            match chosen.iter_mut().find(|it| it.hook.identity == hook.identity) {
                Some(twin) if on_error == OnError::Closed => twin.on_error = OnError::Closed,
                Some(_) => (),
                None => chosen.push(Chosen { hook: Arc::clone(hook), on_error, problem }),
            }
        }
        chosen.retain(|it| match it.hook.definition.repeat {
            Repeat::Always => true,
            Repeat::Once => self.core.state.take_only_turn(&it.hook.definition.id),
        });
        chosen
    }

    fn condition_holds(&self, definition: &HookDefinition, input: &HookInput) -> bool {
        let Some(rule) = &definition.condition else { return true };
        // A rule speaks of a tool; at other events such a hook never runs.
        let Some((tool, tool_input)) = input.event.tool() else { return false };
        self.core.ports.rule_matches.as_ref().is_none_or(|matches| matches(rule, tool, tool_input))
    }

    async fn run_one(&self, chosen: Chosen, call: &HookCall) -> Contribution {
        let definition = &chosen.hook.definition;
        if let Some(observer) = &self.core.ports.observer {
            let subject = call.input.event.subject();
            let status_message = definition.status_message.as_deref();
            observer.started(&HookStart { id: &definition.id, event: definition.event, subject, status_message });
        }
        let started = Instant::now();
        let waited = match definition.mode {
            RunMode::Wait => self.core.answer(&chosen, call, Announcement::Watch).await,
            RunMode::Background | RunMode::BackgroundRewake => Waited::Detached(Detached::Unstarted),
        };
        match waited {
            Waited::Answer(answer, remains) => {
                if let Some(remains) = remains {
                    self.background.spawn(remains.leftover.until(remains.deadline));
                }
                let contribution = self.core.settle(&chosen, answer, started.elapsed());
                if let Some(observer) = &self.core.ports.observer {
                    observer.finished(&contribution.report);
                }
                contribution
            }
            Waited::Detached(detached) => {
                let work = Arc::clone(&self.core).in_background(chosen.clone(), call.clone(), detached);
                self.background.spawn(work);
                in_background(&chosen, started.elapsed())
            }
        }
    }
}

/// What came of starting a handler.
enum Waited {
    Answer(Answer, Option<crate::command::Remains>),
    Detached(Detached),
}

/// A handler nobody waits for.
enum Detached {
    Unstarted,
    Running(Box<Running>, Duration),
}

impl Core {
    async fn answer(&self, chosen: &Chosen, call: &HookCall, announcement: Announcement) -> Waited {
        let definition = &chosen.hook.definition;
        if let Some(problem) = &chosen.problem {
            return Waited::Answer(Answer::broken(Failure::Unusable(problem.clone())), None);
        }
        let answer = match &definition.handler {
            Handler::Command(handler) => {
                let run = self.command_run(handler, chosen, call);
                return match run.run(announcement).await {
                    CommandEnd::Answered(answer, remains) => Waited::Answer(answer, remains),
                    CommandEnd::Announced(running, limit) => Waited::Detached(Detached::Running(running, limit)),
                };
            }
            Handler::Unusable(why) => Answer::broken(Failure::Unusable(why.clone())),
            Handler::Http(_) | Handler::Callback(_) | Handler::External(_) => {
                let asked = tokio::time::timeout(definition.timeout, self.ask(definition, call));
                match asked.await {
                    Ok(answer) => answer,
                    Err(_) => Answer::broken(Failure::TimedOut(definition.timeout)),
                }
            }
        };
        Waited::Answer(answer, None)
    }

    fn command_run<'a>(
        &'a self,
        handler: &'a crate::CommandHandler,
        chosen: &'a Chosen,
        call: &'a HookCall,
    ) -> CommandRun<'a> {
        let definition = &chosen.hook.definition;
        // A twin that is closed makes this one closed, and held to its word.
        let policy = match (definition.on_error, chosen.on_error) {
            (ErrorPolicy::Explicit(OnError::Open), OnError::Closed) => ErrorPolicy::Explicit(OnError::Closed),
            (policy, _) => policy,
        };
        let environment = &self.ports.environment;
        CommandRun { handler, environment, call, timeout: definition.timeout, policy }
    }

    /// Asks a handler that is not a process of ours.
    async fn ask(&self, definition: &HookDefinition, call: &HookCall) -> Answer {
        let event = definition.event;
        match &definition.handler {
            Handler::Http(handler) => {
                let Ports { http, environment, .. } = &self.ports;
                match http::ask(handler, http, environment, call).await {
                    Ok(body) => Answer::of_body(&body, event, definition.on_error),
                    Err(failure) => Answer::broken(failure),
                }
            }
            Handler::Callback(callback) => ask_callback(callback, call).await,
            Handler::External(handler) => match &self.ports.external {
                Some(external) => match external.run(handler, call).await {
                    Ok(json) => Answer::of_json(&json, event),
                    Err(failure) => Answer::broken(failure),
                },
                None => {
                    let why = format!("nothing here can run {:?} hooks", handler.kind);
                    Answer::broken(Failure::NoHandler(why))
                }
            },
            Handler::Command(_) | Handler::Unusable(_) => Answer::default(),
        }
    }

    fn settle(&self, chosen: &Chosen, answer: Answer, duration: Duration) -> Contribution {
        let (definition, on_error) = (&chosen.hook.definition, chosen.on_error);
        settle(Answered { definition, on_error, answer, duration }, &self.ports, &self.state)
    }

    async fn in_background(self: Arc<Self>, chosen: Chosen, call: HookCall, detached: Detached) {
        let started = Instant::now();
        let waited = match detached {
            Detached::Unstarted => self.answer(&chosen, &call, Announcement::Ignore).await,
            Detached::Running(running, limit) => match &chosen.hook.definition.handler {
                Handler::Command(handler) => {
                    let run = self.command_run(handler, &chosen, &call);
                    match run.wait(*running, started + limit, Announcement::Ignore).await {
                        CommandEnd::Answered(answer, remains) => Waited::Answer(answer, remains),
                        CommandEnd::Announced(..) => return,
                    }
                }
                _ => return,
            },
        };
        let Waited::Answer(answer, remains) = waited else { return };
        let contribution = self.settle(&chosen, answer, started.elapsed());
        if let Some(observer) = &self.ports.observer {
            let wakes = chosen.hook.definition.mode == RunMode::BackgroundRewake;
            let no = contribution.verdict.filter(|it| wakes && it.kind == PermissionDecision::Deny);
            observer.finished_in_background(&contribution.report, no.as_ref().map(|it| &*it.reason));
        }
        if let Some(remains) = remains {
            remains.leftover.until(remains.deadline).await;
        }
    }
}

fn matches(definition: &HookDefinition, input: &HookInput) -> Match {
    match input.event.subject() {
        Some(subject) => {
            let aliases = input.aliases.iter().map(String::as_str);
            definition.matcher.matches(std::iter::once(subject).chain(aliases))
        }
        // Nothing to match on: the matcher is ignored, unless it is broken.
        None => match definition.matcher.problem() {
            Some(problem) => Match::Unknown(problem.to_owned()),
            None => Match::Yes,
        },
    }
}

/// A callback's panic is its failure, not ours.
async fn ask_callback(callback: &Callback, call: &HookCall) -> Answer {
    let asked = AssertUnwindSafe(async { callback.code.call(call.clone()).await }).catch_unwind();
    match asked.await {
        Ok(Ok(CallbackAnswer::Json(json))) => Answer::of_json(&json, call.event()),
        Ok(Ok(CallbackAnswer::Typed(output))) => Answer { output: *output, ..Answer::default() },
        Ok(Err(error)) => Answer::broken(Failure::Callback(haft_types::text::one_line(&error, 300))),
        Err(_) => Answer::broken(Failure::Callback("it panicked".to_owned())),
    }
}

fn in_background(chosen: &Chosen, duration: Duration) -> Contribution {
    let definition = &chosen.hook.definition;
    let report = HookReport {
        id: definition.id.clone(),
        event: definition.event,
        label: definition.handler.label(),
        source: Arc::clone(&definition.source),
        duration,
        happened: Happened::InBackground,
        status: None,
        stdout: String::new(),
        stderr: String::new(),
    };
    Contribution { report, verdict: None, output: HookOutput::default(), on_error: OnError::Open }
}
