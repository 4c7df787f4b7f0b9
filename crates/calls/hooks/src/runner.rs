//! Runs a hook of any kind from start to answer.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    Callback, CallbackAnswer, CommandHandler, ErrorEffect, ErrorPolicy, HookCall, HookDefinition,
    HookFailure, HookHandler, HookOutput, HookPorts, HookReport, HookRunMode, HookRunResult,
    PermissionDecision,
    apply_error_policy::{AnsweredHook, settle},
    command_handler::{CommandEnd, CommandRun, Stragglers},
    hook_state::HookState,
    http_handler,
    merge_answers::Contribution,
    parse_answer::HandlerAnswer,
    running_process::{Announcement, RunningHook},
};

/// State shared by all hooks of a session.
#[derive(Debug, Default)]
pub(crate) struct SharedHooks {
    pub(crate) ports: HookPorts,
    pub(crate) state: Arc<HookState>,
}

/// A definition with its identity, which equals that of identical handlers.
#[derive(Debug)]
pub(crate) struct PreparedHook {
    pub(crate) definition: HookDefinition,
    pub(crate) identity: String,
}

/// A hook selected for an event.
#[derive(Clone, Debug)]
pub(crate) struct SelectedHook {
    pub(crate) hook: Arc<PreparedHook>,
    pub(crate) on_error: ErrorEffect,
    /// Whether any identical definition is declared a gate that closes on errors.
    pub(crate) is_declared_gate: bool,
    /// Why it is unknown whether the hook should run, if so.
    pub(crate) problem: Option<String>,
}

/// Result of starting a handler.
pub(crate) enum Waited {
    Answer(Box<HandlerAnswer>, Option<Stragglers>),
    Detached(DetachedHandler),
}

/// A handler that runs in the background.
pub(crate) enum DetachedHandler {
    Unstarted,
    Running(Box<RunningHook>, Duration),
}

impl SharedHooks {
    /// Runs a hook and waits for its answer.
    pub(crate) async fn answer(
        &self,
        chosen: &SelectedHook,
        call: &HookCall,
        announcement: Announcement,
    ) -> Waited {
        let definition = &chosen.hook.definition;
        if let Some(problem) = &chosen.problem {
            return Waited::Answer(
                Box::new(HandlerAnswer::broken(HookFailure::Unusable(problem.clone()))),
                None,
            );
        }
        let answer = match &definition.handler {
            HookHandler::Command(handler) => {
                let run = self.command_run(handler, chosen, call);
                return match run.run(announcement).await {
                    CommandEnd::Answered(answer, remains) => Waited::Answer(answer, remains),
                    CommandEnd::Announced(running, limit) => {
                        Waited::Detached(DetachedHandler::Running(running, limit))
                    }
                };
            }
            HookHandler::Unusable(why) => HandlerAnswer::broken(HookFailure::Unusable(why.clone())),
            HookHandler::Http(_) | HookHandler::Callback(_) | HookHandler::External(_) => {
                let asked = tokio::time::timeout(definition.timeout, self.ask(definition, call));
                match asked.await {
                    Ok(answer) => answer,
                    Err(_) => HandlerAnswer::broken(HookFailure::TimedOut(definition.timeout)),
                }
            }
        };
        Waited::Answer(Box::new(answer), None)
    }

    fn command_run<'a>(
        &'a self,
        handler: &'a CommandHandler,
        chosen: &'a SelectedHook,
        call: &'a HookCall,
    ) -> CommandRun<'a> {
        let definition = &chosen.hook.definition;
        // An identical definition with `closed` makes this one closed too.
        let policy = match (definition.on_error, chosen.on_error) {
            (ErrorPolicy::Explicit(ErrorEffect::Open), ErrorEffect::Closed) => {
                ErrorPolicy::Explicit(ErrorEffect::Closed)
            }
            (policy, _) => policy,
        };
        let HookPorts { environment, processes, .. } = &self.ports;
        let HookDefinition { id, env, timeout, .. } = definition;
        CommandRun { id, processes, handler, environment, env, call, timeout: *timeout, policy }
    }

    /// Runs a handler that is not a process.
    async fn ask(&self, definition: &HookDefinition, call: &HookCall) -> HandlerAnswer {
        let event = definition.event;
        match &definition.handler {
            HookHandler::Http(handler) => {
                let HookPorts { http, environment, .. } = &self.ports;
                match http_handler::ask(handler, http, environment, call).await {
                    Ok(body) => HandlerAnswer::of_body(&body, event, definition.on_error),
                    Err(failure) => HandlerAnswer::broken(failure),
                }
            }
            HookHandler::Callback(callback) => ask_callback(callback, call).await,
            HookHandler::External(handler) => match &self.ports.external {
                Some(external) => match external.run(handler, call).await {
                    // Text is parsed like the output of a command.
                    Ok(Value::String(text)) => HandlerAnswer::of_body(&text, event, definition.on_error),
                    Ok(json) => HandlerAnswer::of_json(&json, event),
                    Err(failure) => HandlerAnswer::broken(failure),
                },
                None => {
                    let why = format!("nothing here can run {:?} hooks", handler.kind);
                    HandlerAnswer::broken(HookFailure::NoHandler(why))
                }
            },
            HookHandler::Command(_) | HookHandler::Unusable(_) => HandlerAnswer::default(),
        }
    }

    pub(crate) fn settle(
        &self,
        chosen: &SelectedHook,
        answer: HandlerAnswer,
        duration: Duration,
    ) -> Contribution {
        let SelectedHook { hook, on_error, is_declared_gate, .. } = chosen;
        let (definition, on_error) = (&hook.definition, *on_error);
        let answered =
            AnsweredHook { definition, on_error, is_declared_gate: *is_declared_gate, answer, duration };
        settle(answered, &self.ports, &self.state)
    }

    /// Runs a background hook to its end.
    pub(crate) async fn in_background(
        self: Arc<Self>,
        chosen: SelectedHook,
        call: HookCall,
        detached: DetachedHandler,
    ) {
        let started = Instant::now();
        let waited = match detached {
            DetachedHandler::Unstarted => self.answer(&chosen, &call, Announcement::Ignore).await,
            DetachedHandler::Running(running, limit) => match &chosen.hook.definition.handler {
                HookHandler::Command(handler) => {
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
        let contribution = self.settle(&chosen, *answer, started.elapsed());
        if let Some(observer) = &self.ports.observer {
            let wakes = chosen.hook.definition.mode == HookRunMode::BackgroundRewake;
            let no = contribution.verdict.filter(|it| wakes && it.kind == PermissionDecision::Deny);
            observer.finished_in_background(&contribution.report, no.as_ref().map(|it| &*it.reason));
        }
        if let Some(remains) = remains {
            remains.leftover.until(remains.deadline).await;
        }
    }
}

/// A panic of a callback is a failure of the hook.
async fn ask_callback(callback: &Callback, call: &HookCall) -> HandlerAnswer {
    let asked = AssertUnwindSafe(async { callback.code.call(call.clone()).await }).catch_unwind();
    match asked.await {
        Ok(Ok(CallbackAnswer::Json(json))) => HandlerAnswer::of_json(&json, call.event()),
        Ok(Ok(CallbackAnswer::Typed(output))) => {
            HandlerAnswer { output: *output, ..HandlerAnswer::default() }
        }
        Ok(Err(error)) => {
            HandlerAnswer::broken(HookFailure::Callback(haft_types::text::one_line(&error, 300)))
        }
        Err(_) => HandlerAnswer::broken(HookFailure::Callback("it panicked".to_owned())),
    }
}

/// Contribution of a background hook: only that it runs.
pub(crate) fn detached(chosen: &SelectedHook, duration: Duration) -> Contribution {
    let definition = &chosen.hook.definition;
    let report = HookReport {
        id: definition.id.clone(),
        event: definition.event,
        label: definition.handler.label(),
        source: Arc::clone(&definition.source),
        duration,
        happened: HookRunResult::InBackground,
        status: None,
        stdout: String::new(),
        stderr: String::new(),
    };
    Contribution { report, verdict: None, output: HookOutput::default(), on_error: ErrorEffect::Open }
}
