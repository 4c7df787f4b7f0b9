//! Answers elicitation requests of MCP servers: by a hook, else by the user. Hooks can then change or
//! reject the answer.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_hooks::{
    BaseInput, ElicitationOverride, ElicitedAction, EventInput, HookDecision, HookEvent, HookInput, Hooks,
    HooksOutcome,
};
use haft_mcp_client::{ElicitAnswer, Elicitation, ElicitationHandler};
use haft_tool::{BoxFuture, check_input};
use haft_tool_runtime::Pipeline;
use serde_json::{Map, Value};

use crate::EventSender;

/// Answers elicitation requests. Clones share the state.
#[derive(Clone)]
pub(crate) struct ElicitationResponder {
    known: Arc<Mutex<Answerers>>,
    events: EventSender,
}

#[derive(Default)]
struct Answerers {
    person: Option<Arc<dyn ElicitationHandler>>,
    /// The pipeline whose hooks run, and the working directory.
    session: Option<(Weak<Pipeline>, PathBuf)>,
}

/// The current hooks and their base input.
struct HooksNow {
    hooks: Hooks,
    base: BaseInput,
    events: EventSender,
}

impl ElicitationResponder {
    pub(crate) fn new(events: EventSender) -> Self {
        Self { known: Arc::default(), events }
    }

    fn state(&self) -> MutexGuard<'_, Answerers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the handler that asks the user; `None` if nobody can answer.
    pub(crate) fn ask(&self, person: Option<Arc<dyn ElicitationHandler>>) {
        self.state().person = person;
    }

    /// Sets the pipeline whose hooks run.
    pub(crate) fn hooked_by(&self, pipeline: &Arc<Pipeline>, cwd: PathBuf) {
        self.state().session = Some((Arc::downgrade(pipeline), cwd));
    }

    fn hooks(&self) -> Option<HooksNow> {
        let (pipeline, cwd) = self.state().session.clone()?;
        let gate = &pipeline.upgrade()?.gate;
        let base = gate.hooks().base(cwd, gate.mode());
        Some(HooksNow { hooks: gate.hooks().get(), base, events: self.events.clone() })
    }
}

impl ElicitationHandler for ElicitationResponder {
    fn offers(&self) -> bool {
        let somebody = self.state().person.as_ref().is_some_and(|it| it.offers());
        somebody || self.hooks().is_some_and(|it| it.hooks.listens(HookEvent::Elicitation))
    }

    fn elicit(&self, request: Elicitation) -> BoxFuture<'static, ElicitAnswer> {
        let (hooks, person) = (self.hooks(), self.state().person.clone());
        Box::pin(async move {
            let answer = match &hooks {
                Some(hooks) => hooks.answer(&request).await,
                None => None,
            };
            let answer = match (answer, person) {
                (Some(answer), _) => answer,
                (None, Some(person)) => person.elicit(request.clone()).await,
                (None, None) => ElicitAnswer::Decline,
            };
            match &hooks {
                Some(hooks) => hooks.review(&request, answer).await,
                None => answer,
            }
        })
    }
}

impl HooksNow {
    async fn run(&self, event: impl Into<EventInput>) -> HooksOutcome {
        let outcome = self.hooks.run(&HookInput::new(self.base.clone(), event)).await;
        let broken = outcome.reports.iter().filter_map(haft_hooks::HookReport::notice);
        for notice in outcome.system_messages.iter().cloned().chain(broken) {
            self.events.notice(notice);
        }
        outcome
    }

    /// The answer of a hook instead of the user, if one answers.
    async fn answer(&self, request: &Elicitation) -> Option<ElicitAnswer> {
        if !self.hooks.listens(HookEvent::Elicitation) {
            return None;
        }
        let outcome = self
            .run(haft_hooks::Elicitation {
                mcp_server_name: request.server.clone(),
                message: request.message.clone(),
                mode: mode(request).to_owned(),
                url: request.url.clone(),
                elicitation_id: request.id.clone(),
                requested_schema: request.schema.clone(),
            })
            .await;
        if let Some(refused) = self.refused(request, &outcome) {
            return Some(refused);
        }
        let elicited = outcome.extras.elicited?;
        let given = elicited.content.clone().unwrap_or_default();
        fitted(request, elicited.action, request.defaults(), given)
            .map_err(|why| self.unused(request, HookEvent::Elicitation, &why))
            .ok()
    }

    /// The answer after hooks have reviewed it.
    async fn review(&self, request: &Elicitation, answer: ElicitAnswer) -> ElicitAnswer {
        if !self.hooks.listens(HookEvent::ElicitationResult) {
            return answer;
        }
        let (action, content) = match &answer {
            ElicitAnswer::Accept(content) => ("accept", Some(content.clone())),
            ElicitAnswer::Decline => ("decline", None),
            ElicitAnswer::Cancel => ("cancel", None),
        };
        let outcome = self
            .run(haft_hooks::ElicitationResult {
                mcp_server_name: request.server.clone(),
                action: action.to_owned(),
                mode: mode(request).to_owned(),
                elicitation_id: request.id.clone(),
                content: content.clone().filter(|_| request.url.is_none()).map(Value::Object),
            })
            .await;
        if let Some(refused) = self.refused(request, &outcome) {
            return refused;
        }
        let Some(ElicitationOverride { action, content: given }) = outcome.extras.elicited else {
            return answer;
        };
        // A hook that names no fields leaves them unchanged.
        let given = given.or(content).unwrap_or_default();
        match fitted(request, action, Map::new(), given) {
            Ok(altered) => altered,
            Err(why) => {
                self.unused(request, HookEvent::ElicitationResult, &why);
                answer
            }
        }
    }
}

fn mode(request: &Elicitation) -> &'static str {
    if request.url.is_some() { "url" } else { "form" }
}

impl HooksNow {
    /// A blocking hook declines the request; one that ends the turn cancels it.
    fn refused(&self, request: &Elicitation, outcome: &HooksOutcome) -> Option<ElicitAnswer> {
        let (answer, reason) = match (&outcome.decision, &outcome.stop) {
            (HookDecision::Block { reason, .. }, _) => (ElicitAnswer::Decline, reason),
            (_, Some(stop)) => (ElicitAnswer::Cancel, &stop.reason),
            _ => return None,
        };
        let said = format!("a hook refused a question of the MCP server {}: {reason}", request.server);
        self.events.notice(said);
        Some(answer)
    }

    /// Reports that a hook's answer does not match the form and is ignored.
    fn unused(&self, request: &Elicitation, event: HookEvent, why: &str) {
        self.events.notice(format!(
            "an {event} hook answered the MCP server {} with what its form does not take: {}",
            request.server,
            haft_types::text::one_line(why, 300)
        ));
    }
}

/// Checks a hook's answer against the form.
fn fitted(
    request: &Elicitation,
    action: ElicitedAction,
    mut content: Map<String, Value>,
    given: Map<String, Value>,
) -> Result<ElicitAnswer, String> {
    match (action, &request.schema) {
        (ElicitedAction::Decline, _) => Ok(ElicitAnswer::Decline),
        (ElicitedAction::Cancel, _) => Ok(ElicitAnswer::Cancel),
        (ElicitedAction::Accept, None) => Ok(ElicitAnswer::Accept(Map::new())),
        (ElicitedAction::Accept, Some(schema)) => {
            content.extend(given);
            let mut filled = Value::Object(content);
            check_input("the form", schema, &mut filled).map_err(|err| err.message)?;
            match filled {
                Value::Object(content) => Ok(ElicitAnswer::Accept(content)),
                _ => Err(String::from("the fields are not an object")),
            }
        }
    }
}
